//! Requests in, replies out.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use plansmith_engine::protocol::{self, Event, Failure, Greeting, OpenOrder, Reply, Request};
use plansmith_engine::{Flavor, RandomisedAddresses};

use crate::build::build;
use crate::cuda;
use crate::execute::{Executor, Opening};
use crate::failure::failed;
use crate::libraries::Libraries;
use crate::log::Logger;

/// The way to the client; TensorRT's threads share it.
#[derive(Clone)]
pub(crate) struct Client(Arc<Mutex<UnixStream>>);

impl Client {
    /// Sends a reply. Where the client is gone, the reading thread ends the process.
    fn send(&self, reply: &Reply) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = protocol::send(&mut *stream, reply);
    }

    /// Sends an event.
    pub(crate) fn event(&self, event: Event) {
        self.send(&Reply::Event(event));
    }
}

/// A request, with the descriptor that belongs to it.
enum Incoming {
    Plain(Request),
    Open(OpenOrder, File),
}

/// Ends the process at once, whatever other threads are doing: running destructors under a build would crash.
fn leave(code: i32) -> ! {
    // SAFETY: `_exit` ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

/// Reads requests until the client closes its end, and ends the process then, even in the middle of a build.
fn read(mut stream: UnixStream, requests: &Sender<Incoming>) {
    loop {
        let incoming = match protocol::receive(&mut stream) {
            Ok(Some(Request::Open(order))) => match protocol::receive_descriptor(&stream) {
                Ok(memory) => Incoming::Open(order, File::from(memory)),
                Err(_) => leave(3),
            },
            Ok(Some(request)) => Incoming::Plain(request),
            Ok(None) => leave(0),
            Err(_) => leave(3),
        };
        if requests.send(incoming).is_err() {
            leave(0);
        }
    }
}

/// Serves one client until it closes.
pub(crate) fn serve(stream: UnixStream, addresses: RandomisedAddresses) -> ExitCode {
    let Ok(reading) = stream.try_clone() else { return ExitCode::from(3) };
    let client = Client(Arc::new(Mutex::new(stream)));
    let (sender, requests) = channel();
    std::thread::spawn(move || read(reading, &sender));
    if let Err(failure) = answer(&client, &requests, addresses) {
        client.send(&Reply::Failed(failure));
    }
    // Whatever TensorRT still holds goes with the process; its destructors need not run.
    leave(0)
}

/// Answers requests; an error here is one after which nothing more can be answered.
fn answer(client: &Client, requests: &Receiver<Incoming>, addresses: RandomisedAddresses) -> Result<(), Failure> {
    let Ok(Incoming::Plain(Request::Hello { protocol, flavor, libraries })) = requests.recv() else {
        return Err(failed("the first request is not a greeting", Vec::new()));
    };
    if (protocol, flavor) != (protocol::VERSION, Flavor::Rtx) {
        let ours = protocol::VERSION;
        return Err(failed(format!("protocol {protocol} for {flavor} was asked for; this worker speaks {ours} for rtx"), Vec::new()));
    }
    let libraries = Libraries::load(&libraries)?;
    let gpu = cuda::first_gpu();
    let logger = Logger::new(client.clone(), gpu.is_err())?;
    client.send(&Reply::Hello(Greeting {
        protocol,
        flavor,
        plansmith: env!("CARGO_PKG_VERSION").to_owned(),
        library: libraries.record.clone(),
        randomised_addresses: addresses,
        gpu: gpu.as_ref().ok().cloned(),
    }));
    let mut built = false;
    let mut executor: Option<Executor<'_>> = None;
    while let Ok(incoming) = requests.recv() {
        let outcome = match incoming {
            Incoming::Open(order, memory) => Executor::open(&libraries, &logger, &gpu, order, memory).map(|opening| match opening {
                Opening::Ready(ready, gpu) => {
                    executor = Some(*ready);
                    Reply::Opened(gpu)
                }
                Opening::NotExecuted(reason) => Reply::NotExecuted(reason),
            }),
            Incoming::Plain(request) => match (request, &mut executor) {
                (Request::Build(_), _) if built => Err(failed("this worker has built a plan already; the next needs another", Vec::new())),
                (Request::Build(order), _) => {
                    built = true;
                    build(&libraries, &logger, client, &order).map(Reply::Built)
                }
                (Request::Step(order), Some(executor)) => executor.step(order).map(|logits| Reply::Tensors(vec![logits])),
                (Request::Reset { batch }, Some(executor)) => executor.reset(batch).map(|()| Reply::Done),
                (Request::Cache, Some(executor)) => executor.cache().map(Reply::Tensors),
                (Request::Step(_) | Request::Reset { .. } | Request::Cache, None) => Err(failed("no plan is open", Vec::new())),
                (Request::Hello { .. } | Request::Open(_), _) => Err(failed("a request out of turn", Vec::new())),
            },
        };
        client.send(&outcome.unwrap_or_else(Reply::Failed));
    }
    Ok(())
}
