//! The client's side of a worker process.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::limits::{Over, Watch};
use crate::protocol::{self, BuildOrder, BuiltPlan, Event, Failure, Greeting, Reply, Request};
use crate::session::unexpected;
use crate::timing::Timings;
use crate::weights::{data_folder, refit_map};
use crate::{
    Agreement, BuildHost, BuildReport, BuildRequest, Compatible, CostRecord, Error, FileRecord, Limits, Models, PlanHeader, PlanManifest,
    PlanRecord, Prepared, RandomisedAddresses, Reproducibility, WorkerPaths, pair, partial_name,
};

/// What a worker writes before it has its name; removed in the end where it is still there.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = plansmith_files::remove_file(&self.0);
    }
}

/// A worker that has loaded its libraries. It ends when this is dropped, or when this process ends, however it does.
#[derive(Debug)]
pub struct Worker {
    paths: WorkerPaths,
    greeting: Greeting,
    process: Process,
}

/// The worker knows no paths, so its words lack them.
fn with_place(error: Error, place: &str) -> Error {
    match error {
        Error::Worker { message, log } => Error::Worker { message: format!("{message} ({place})"), log },
        other => other,
    }
}

/// The process and the two files that tie it to us.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Closed first when dropped: the worker ends then.
    stream: Option<UnixStream>,
    /// How long it is waited for.
    watch: Watch,
    /// What it prints, libraries included.
    output: File,
}

/// How long a worker may take to load its libraries and hash them.
const GREETING: Limits = Limits { timeout: Some(Duration::from_secs(300)), idle: Duration::from_secs(20), cancels: Vec::new() };

impl Worker {
    /// Starts the worker and has it load its libraries.
    ///
    /// # Errors
    /// [`Error::Spawn`]: it cannot be started or is no worker of this version and flavour. [`Error::Worker`]: it cannot load the libraries.
    pub fn spawn(paths: &WorkerPaths) -> Result<Self, Error> {
        Self::start(paths, &[])
    }

    /// As [`Worker::spawn`], for plans that are there.
    pub(crate) fn spawn_to_execute(paths: &WorkerPaths) -> Result<Self, Error> {
        Self::start(paths, &[protocol::EXECUTES])
    }

    fn start(paths: &WorkerPaths, arguments: &[&str]) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Spawn { worker: paths.worker.clone(), reason };
        let system = |error: std::io::Error| refuse(format!("cannot be started: {error}"));
        let libraries = plansmith_files::open(&paths.libraries)?;
        let (ours, theirs) = UnixStream::pair().map_err(system)?;
        let output: OwnedFd =
            rustix::fs::memfd_create("plansmith-worker-output", MemfdFlags::CLOEXEC).map_err(|error| system(error.into()))?;
        let output = File::from(output);
        let child = Command::new(&paths.worker)
            .args(arguments)
            .stdin(OwnedFd::from(theirs))
            .stdout(output.try_clone().map_err(system)?)
            .stderr(output.try_clone().map_err(system)?)
            // Who presses Ctrl-C speaks with us, and we with the worker.
            .process_group(0)
            .spawn()
            .map_err(system)?;
        let mut process = Process { child, stream: Some(ours), watch: Watch::default(), output };
        process.send("starting", &Request::Hello { protocol: protocol::VERSION, flavor: paths.flavor })?;
        process.send_descriptor("starting", &libraries)?;
        process.watch = GREETING.start(process.child.id());
        let greeting = match process.wait("starting", &mut |_| {}) {
            Ok(Reply::Hello(greeting)) => greeting,
            Ok(other) => return Err(unexpected(&other)),
            Err(error) => return Err(with_place(error, &format!("libraries from `{}`", paths.libraries.display()))),
        };
        process.watch = Watch::default();
        if (greeting.protocol, greeting.flavor) != (protocol::VERSION, paths.flavor) {
            return Err(refuse(format!(
                "speaks protocol {} for {}; this plansmith speaks {} and wants {}",
                greeting.protocol,
                greeting.flavor,
                protocol::VERSION,
                paths.flavor
            )));
        }
        Ok(Self { paths: paths.clone(), greeting, process })
    }

    /// Who it is, and what it loaded.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Builds a plan and its manifest; both appear complete or not at all. The worker ends with it: what was built before in one process
    /// changes the bytes of the next plan.
    ///
    /// # Errors
    /// [`Error::Model`], [`Error::Shapes`], [`Error::Architectures`] before TensorRT is asked; [`Error::Parse`] with every node that it
    /// refuses; [`Error::Worker`] with its log; [`Error::WorkerDied`]; [`Error::File`].
    pub fn build(self, request: &BuildRequest, progress: &mut dyn FnMut(Event)) -> Result<BuildReport, Error> {
        let prepared = Prepared::of(request, &mut Models::default())?;
        self.build_prepared(request, prepared, &Limits::default(), progress)
    }

    /// As [`Worker::build`], for a request that was checked before, and no longer than `limits` allow.
    ///
    /// # Errors
    /// As [`Worker::build`]; [`Error::TimedOut`], [`Error::Cancelled`].
    pub fn build_prepared(
        mut self,
        request: &BuildRequest,
        prepared: Prepared,
        limits: &Limits,
        progress: &mut dyn FnMut(Event),
    ) -> Result<BuildReport, Error> {
        self.paths.flavor.check_targets(&request.architectures)?;
        Compatible::check(&request.compatible, self.paths.flavor)?;
        let (model, mut order) = (&prepared.model, prepared.order.clone());
        let timings = request.timing_cache.open(self.paths.flavor, &self.greeting)?;
        order.timings = timings.as_ref().map(|timings| timings.alien);
        self.process.watch = limits.start(self.id());
        let folder = plansmith_files::folder_of(&request.output);
        plansmith_files::create_dir_all(folder)?;
        let (built, partial) = self.run_build(&model.path, folder, &order, timings.as_ref(), progress)?;
        let header = PlanHeader::read(&partial.0)?;
        let mut wanted = request.architectures.clone();
        wanted.sort_unstable();
        if header.flavor != self.paths.flavor || header.architectures() != wanted || header.version != self.greeting.library.version {
            let reason = format!("its header says {header:?}; {wanted:?} by {} was asked for", self.greeting.library.version);
            return Err(Error::Plan { path: request.output.clone(), reason });
        }
        // The second build of a proof begins with what the first one left.
        let timing_cache = match (&timings, &built.timings) {
            (Some(timings), Some(built)) => Some(timings.keep(built)?),
            (None, None) => None,
            (wanted, _) => {
                let said = if wanted.is_some() { "nothing of them" } else { "something of them" };
                return Err(Error::Protocol(format!("timings: the worker says {said}")));
            }
        };
        let refit = refit_map(model, &built.refit)?;
        let data_folder = data_folder(request.weights, folder, model)?;
        // With randomised addresses two builds differ, which is known without trying.
        let fixed = self.greeting.randomised_addresses == RandomisedAddresses::Off;
        let reproducible = if request.prove_reproducible && fixed {
            self.prove((&model.path, folder), &order, timings.as_ref(), &built, limits, progress)?
        } else {
            Reproducibility::NotTried { randomised_addresses: self.greeting.randomised_addresses.clone() }
        };
        let manifest = PlanManifest {
            schema_version: PlanManifest::SCHEMA_VERSION,
            plansmith: env!("CARGO_PKG_VERSION").to_owned(),
            flavor: self.paths.flavor,
            library: self.greeting.library.clone(),
            worker: FileRecord::of(&self.paths.worker)?,
            architectures: wanted,
            builder: built.builder.clone(),
            profiles: prepared.profiles.clone(),
            cost: Some(CostRecord::new(request.profiles_as, model.weight_bytes, built.bytes)),
            inputs: built.inputs.clone(),
            outputs: built.outputs.clone(),
            cache: built.cache.clone(),
            compatible: request.compatible.clone(),
            timing_cache,
            weights: request.weights,
            refit,
            data_folder,
            layers: built.layers.clone(),
            onnx: prepared.onnx.clone(),
            source: request.source.clone(),
            host: self.greeting.gpu.clone().map_or(BuildHost::CpuAot, BuildHost::Gpu),
            plan: PlanRecord { bytes: built.bytes, sha256: built.sha256, header },
            warnings: built.warnings.clone(),
            reproducible,
            agreement: Agreement::NotExecuted { reason: "built, not yet verified".to_owned() },
        };
        prepared.unchanged()?;
        let manifest_path = pair::place(&partial.0, &manifest, &request.output)?;
        Ok(BuildReport {
            plan: request.output.clone(),
            manifest_path,
            manifest,
            parse: Duration::from_millis(built.parse_ms),
            build: Duration::from_millis(built.build_ms),
            peak_bytes: built.peak_bytes,
            cached: false,
        })
    }

    fn run_build(
        &mut self,
        model: &Path,
        folder: &Path,
        order: &BuildOrder,
        timings: Option<&Timings>,
        progress: &mut dyn FnMut(Event),
    ) -> Result<(BuiltPlan, Partial), Error> {
        let partial = Partial(folder.join(partial_name(self.id())));
        let place = format!("building from `{}`", model.display());
        self.send(&place, &Request::Build(order.clone()))?;
        for folder in [model.parent().unwrap_or(Path::new("/")), folder] {
            self.process.send_descriptor(&place, &plansmith_files::open(folder)?)?;
        }
        if let Some(timings) = timings {
            self.process.send_descriptor(&place, &timings.memory)?;
        }
        let error = match self.wait(&place, progress) {
            Ok(Reply::Built(built)) => return Ok((built, partial)),
            Ok(other) => unexpected(&other),
            Err(Error::Parse { nodes, .. }) => Error::Parse { path: model.to_owned(), nodes },
            Err(Error::TimingCache { reason, log, .. }) if let Some(timings) = timings => timings.blame(reason, log),
            Err(error) => with_place(error, &format!("{place} into `{}`", folder.display())),
        };
        // A worker that was killed while it wrote cannot tidy up.
        self.process.kill();
        Err(error)
    }

    /// Builds once more, in a process of its own, from the very same request: another would move what is allocated after it.
    fn prove(
        &self,
        (model, folder): (&Path, &Path),
        order: &BuildOrder,
        timings: Option<&Timings>,
        first: &BuiltPlan,
        limits: &Limits,
        progress: &mut dyn FnMut(Event),
    ) -> Result<Reproducibility, Error> {
        let mut second = Self::spawn(&self.paths)?;
        second.process.watch = limits.start(second.id());
        let (built, _partial) = second.run_build(model, folder, order, timings, progress)?;
        let randomised_addresses = second.greeting.randomised_addresses.clone();
        Ok(if built.sha256 == first.sha256 {
            Reproducibility::Proved { randomised_addresses }
        } else {
            Reproducibility::Differs { randomised_addresses, second: built.sha256 }
        })
    }

    pub(crate) fn send(&mut self, doing: &str, request: &Request) -> Result<(), Error> {
        self.process.send(doing, request)
    }

    pub(crate) fn wait(&mut self, doing: &str, progress: &mut dyn FnMut(Event)) -> Result<Reply, Error> {
        self.process.wait(doing, progress)
    }

    pub(crate) fn send_descriptor(&mut self, doing: &str, file: &File) -> Result<(), Error> {
        self.process.send_descriptor(doing, file)
    }
}

impl Process {
    fn stream(&self) -> Result<&UnixStream, Error> {
        self.stream.as_ref().ok_or_else(|| Error::Protocol("the worker was let go".to_owned()))
    }

    fn send(&mut self, doing: &str, request: &Request) -> Result<(), Error> {
        let mut stream = self.stream()?;
        // A worker that is gone is worth more words than a broken pipe.
        protocol::send(&mut stream, request).map_err(|error| if self.ends() { self.died(doing) } else { error })
    }

    fn send_descriptor(&mut self, doing: &str, file: &File) -> Result<(), Error> {
        let stream = self.stream()?;
        protocol::send_descriptor(stream, file.as_fd()).map_err(|error| if self.ends() { self.died(doing) } else { error })
    }

    /// The next reply that is no event.
    fn wait(&mut self, doing: &str, progress: &mut dyn FnMut(Event)) -> Result<Reply, Error> {
        loop {
            self.ready(doing)?;
            let mut stream = self.stream()?;
            match protocol::receive(&mut stream) {
                Ok(Some(Reply::Event(event))) => progress(event),
                Ok(Some(Reply::Failed(Failure::Parse { nodes }))) => return Err(Error::Parse { path: Default::default(), nodes }),
                Ok(Some(Reply::Failed(Failure::Timings { reason, log }))) => {
                    return Err(Error::TimingCache { path: Default::default(), reason, log, hint: "build without a timing cache" });
                }
                Ok(Some(Reply::Failed(Failure::Unfit { plan, reason, log }))) => return Err(Error::Unfit { path: plan, reason, log }),
                Ok(Some(Reply::Failed(Failure::Other { message, log }))) => return Err(Error::Worker { message, log }),
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => return Err(self.died(doing)),
                Err(error) => return Err(if self.ends() { self.died(doing) } else { error }),
            }
        }
    }

    /// Waits until there is something to receive, as long as it may take; kills the worker when that is over.
    fn ready(&mut self, doing: &str) -> Result<(), Error> {
        while let Some(patience) = self.watch.patience() {
            let system = |error: std::io::Error| Error::Protocol(format!("waiting: {error}"));
            if let Some(over) = self.watch.over() {
                self.kill();
                let doing = doing.to_owned();
                return Err(match over {
                    Over::Late(limit) => Error::TimedOut { doing, limit },
                    Over::Idle(limit) => Error::Idle { doing, limit },
                    Over::Cancelled => Error::Cancelled { doing },
                });
            }
            let stream = self.stream()?;
            stream.set_read_timeout(Some(patience)).map_err(system)?;
            let seen = rustix::net::recv(stream, &mut [0_u8; 1], RecvFlags::PEEK);
            stream.set_read_timeout(None).map_err(system)?;
            // An error other than that nothing came is told by whoever receives next.
            if !matches!(seen, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        Ok(())
    }

    /// Ends it at once.
    fn kill(&mut self) {
        self.stream = None;
        // Fails where it has ended, which is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it has ended, or does within a moment: descriptors close before a process can be waited for.
    fn ends(&mut self) -> bool {
        self.wait_for(Duration::from_millis(500)).is_some()
    }

    fn died(&mut self, doing: &str) -> Error {
        let status = self.end().map_or_else(|| "it does not end".to_owned(), |status| status.to_string());
        Error::WorkerDied { doing: doing.to_owned(), status, output: self.last_lines() }
    }

    /// Closes our end and waits for the worker, for a while patiently.
    fn end(&mut self) -> Option<ExitStatus> {
        self.stream = None;
        if let Some(status) = self.wait_for(Duration::from_secs(5)) {
            return Some(status);
        }
        self.child.kill().ok()?;
        self.child.wait().ok()
    }

    fn wait_for(&mut self, time: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < time => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn last_lines(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = self.output.rewind().and_then(|()| self.output.read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        match read {
            Ok(_) => lines[lines.len().saturating_sub(20)..].to_vec(),
            Err(error) => vec![format!("its output cannot be read: {error}")],
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flavor;

    fn paths(worker: &str) -> WorkerPaths {
        WorkerPaths { flavor: Flavor::Rtx, worker: worker.into(), libraries: "/".into() }
    }

    #[test]
    fn a_program_that_is_no_worker_is_told_apart() {
        let error = Worker::spawn(&paths("/nowhere/worker")).unwrap_err().to_string();
        assert!(error.contains("`/nowhere/worker`: cannot be started: No such file"), "{error}");
        let error = Worker::spawn(&paths("/bin/true")).unwrap_err().to_string();
        assert!(error.contains("died while starting: exit status: 0"), "{error}");
    }
}
