//! Requests in, replies out.

use std::convert::Infallible;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use plansmith_engine::protocol::{self, Event, Failure, Greeting, Reply, Request};
use plansmith_engine::{Flavor, RandomisedAddresses};

use crate::FLAVOR;
use crate::build::build;
use crate::cuda;
use crate::execute::{Executor, Opening};
use crate::failure::{because, failed};
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

/// Ends the process at once, whatever other threads are doing: running destructors under a build would crash.
fn leave(code: i32) -> ! {
    // SAFETY: `_exit` ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

/// Ends the process when the client's end closes, even in the middle of a build.
///
/// The thread allocates nothing once it is ready: addresses of what TensorRT allocates must not depend on when threads run, since the
/// bytes of a plan depend on them.
fn watch(stream: &UnixStream) {
    let descriptor = stream.as_raw_fd();
    let ready = Arc::new(Barrier::new(2));
    let here = Arc::clone(&ready);
    std::thread::spawn(move || {
        here.wait();
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLRDHUP, revents: 0 };
        loop {
            // SAFETY: `poll` is one descriptor, which stays open as long as the process.
            match unsafe { libc::poll(&raw mut poll, 1, -1) } {
                1 => leave(0),
                _ => continue,
            }
        }
    });
    ready.wait();
}

/// The next request; ends the process when there will be none.
fn next(stream: &UnixStream) -> Request {
    match protocol::receive(&mut &*stream) {
        Ok(Some(request)) => request,
        Ok(None) => leave(0),
        Err(error) => {
            // Goes to the client, who quotes what a worker printed before it died.
            let _ = writeln!(std::io::stderr(), "{error}");
            leave(3)
        }
    }
}

/// The folder, or memory file, that follows a request.
fn descriptor(stream: &UnixStream) -> Result<OwnedFd, Failure> {
    protocol::receive_descriptor(stream).map_err(|error| because("a descriptor that should follow a request", &error))
}

/// Serves one client until it closes.
pub(crate) fn serve(stream: UnixStream, addresses: RandomisedAddresses) -> ExitCode {
    let Ok(writing) = stream.try_clone() else { return ExitCode::from(3) };
    let client = Client(Arc::new(Mutex::new(writing)));
    watch(&stream);
    let Err(failure) = answer(&client, &stream, addresses);
    client.send(&Reply::Failed(failure));
    // Whatever TensorRT still holds goes with the process; its destructors need not run.
    leave(0)
}

/// Answers requests; an error here is one after which nothing more can be answered.
fn answer(client: &Client, stream: &UnixStream, addresses: RandomisedAddresses) -> Result<Infallible, Failure> {
    let Request::Hello { protocol, flavor } = next(stream) else {
        return Err(failed("the first request is not a greeting", Vec::new()));
    };
    if (protocol, flavor) != (protocol::VERSION, FLAVOR) {
        let ours = protocol::VERSION;
        return Err(failed(format!("protocol {protocol} for {flavor} was asked for; this worker speaks {ours} for {FLAVOR}"), Vec::new()));
    }
    let libraries = Libraries::load(descriptor(stream)?)?;
    let gpu = cuda::gpu(0);
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
    loop {
        let outcome = match (next(stream), &mut executor) {
            (Request::Open(order), _) => {
                let memory = descriptor(stream)?;
                Executor::open(&libraries, &logger, client, order, memory.into()).map(|opening| match opening {
                    Opening::Ready(opened, ready) => {
                        executor = Some(*opened);
                        Reply::Opened(ready)
                    }
                    Opening::NotExecuted(reason) => Reply::NotExecuted(reason),
                })
            }
            (Request::Build(_), _) if built => Err(failed("this worker has built a plan already; the next needs another", Vec::new())),
            (Request::Build(order), _) => {
                built = true;
                let folders = [descriptor(stream)?, descriptor(stream)?];
                let timings = order.timings.map(|_| descriptor(stream)).transpose()?;
                match (FLAVOR, &gpu) {
                    (Flavor::Enterprise, Err(why)) => {
                        let message = format!("TensorRT builds only on the GPU that a plan is for, and none can be used here: {why}");
                        Err(failed(message, Vec::new()))
                    }
                    _ => build(&libraries, &logger, client, &order, &folders, timings).map(Reply::Built),
                }
            }
            (Request::Step(order), Some(executor)) => executor.step(order).map(|logits| Reply::Tensors(vec![logits])),
            (Request::Reset { batch }, Some(executor)) => executor.reset(batch).map(|()| Reply::Done),
            (Request::Cache, Some(executor)) => executor.cache().map(Reply::Tensors),
            (Request::Step(_) | Request::Reset { .. } | Request::Cache, None) => Err(failed("no plan is open", Vec::new())),
            (Request::Hello { .. }, _) => Err(failed("a second greeting", Vec::new())),
        };
        client.send(&outcome.unwrap_or_else(Reply::Failed));
    }
}
