//! Many plans, built side by side within a budget of memory.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, Scope};
use std::time::Duration;

use plansmith_files::{Digest, NewFolders, folder_of};

use crate::cache::Tools;
use crate::estimate::worker_peak;
use crate::{BuildReport, BuildRequest, Cancel, Error, Event, Limits, Models, PlanCache, Prepared, Worker, WorkerPaths};

/// One plan to build.
#[derive(Debug, Clone)]
pub struct Job {
    /// The worker and libraries for it.
    pub paths: WorkerPaths,
    /// What to build.
    pub request: BuildRequest,
}

/// How plans are built.
#[derive(Debug, Clone)]
pub struct Farm {
    /// Where plans are kept, if anywhere.
    pub cache: Option<PlanCache>,
    /// Build each anew; what is built is kept all the same.
    pub fresh: bool,
    /// Workers at a time.
    pub jobs: usize,
    /// Bytes that all workers together may have, as far as their sizes are known; a single worker that is larger runs alone.
    pub memory: u64,
    /// Longest time of one build.
    pub timeout: Option<Duration>,
    /// Stops everything.
    pub cancel: Cancel,
}

/// What happens in a farm; jobs are named by their place in the list.
#[derive(Debug)]
pub enum FarmEvent<'a> {
    /// Workers are about to be started: from here on a wish to stop is heard.
    Opens,
    /// No worker runs any more.
    Closes,
    /// A worker was started for a job, of this estimated size in bytes.
    Started(usize, u64),
    /// What its worker says.
    Worker(usize, Event),
    /// The plan is there.
    Done(usize, &'a BuildReport),
    /// The plan was built and is in its place, and could not be kept in the cache.
    NotKept(usize, &'a Error),
}

impl FarmEvent<'_> {
    /// The place of the job that it is about.
    pub fn job(&self) -> Option<usize> {
        match self {
            Self::Opens | Self::Closes => None,
            Self::Started(index, _) | Self::Worker(index, _) | Self::Done(index, _) | Self::NotKept(index, _) => Some(*index),
        }
    }
}

/// What a thread tells.
enum Told {
    Event(usize, Event),
    Ended(usize, Box<Result<BuildReport, Error>>),
}

/// A job that was not in the cache.
struct Waiting {
    index: usize,
    prepared: Prepared,
    key: Option<Digest>,
    estimate: u64,
}

/// Half of this machine's memory, in bytes; 4 GiB where the system does not say.
pub fn half_of_memory() -> u64 {
    let total = plansmith_files::read_to_string(std::path::Path::new("/proc/meminfo")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().to_owned();
        line.strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    total.map_or(4 << 30, |kib| kib * 1024 / 2)
}

impl Farm {
    /// One worker for every two processors (a build keeps more than one busy), half of the memory, no time-out, no cache.
    pub fn usual() -> Self {
        let jobs = thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2));
        Self { cache: None, fresh: false, jobs, memory: half_of_memory(), timeout: None, cancel: Cancel::default() }
    }

    /// Checks all jobs, takes what is in the cache, and builds the rest. Reports are in the order of the jobs.
    ///
    /// # Errors
    /// Those of the first job that fails, with its place; whatever else is being built is then stopped, and what was built stays.
    pub fn run(&self, jobs: &[Job], told: &mut dyn FnMut(FarmEvent<'_>)) -> Result<Vec<BuildReport>, (usize, Error)> {
        let mut models = Models::default();
        // Everything is checked before the first worker starts.
        let checked = jobs.iter().enumerate().map(|(index, job)| {
            let prepared = Prepared::of(&job.request, &mut models);
            prepared.map(|prepared| (index, prepared)).map_err(|error| (index, error))
        });
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let mut done: BTreeMap<usize, BuildReport> = BTreeMap::new();
        let mut waiting = Vec::new();
        let mut tools: Vec<(&WorkerPaths, Tools)> = Vec::new();
        for (index, prepared) in checked {
            let job = &jobs[index];
            let key = self.key(job, &prepared, &mut tools).map_err(|error| (index, error))?;
            let cached = match (&self.cache, key) {
                (Some(cache), Some(key)) if !self.fresh => cache.take(key, &job.request, &prepared).map_err(|error| (index, error))?,
                _ => None,
            };
            match cached {
                Some(report) => {
                    told(FarmEvent::Done(index, &report));
                    done.insert(index, report);
                }
                None => {
                    let known = self.cache.as_ref().and_then(|cache| cache.peak(&prepared));
                    let estimate = known.unwrap_or_else(|| worker_peak(prepared.weight_bytes(), prepared.profiles.len()));
                    waiting.push(Waiting { index, prepared, key, estimate });
                }
            }
        }
        if let Some(first) = waiting.first().map(|job| job.index) {
            let outputs = waiting.iter().map(|job| folder_of(&jobs[job.index].request.output));
            // Until all workers are gone: where nothing was built, no folder is left.
            let _new = NewFolders::create(outputs).map_err(|error| (first, error.into()))?;
            told(FarmEvent::Opens);
            let built = self.build(jobs, waiting, &mut done, told);
            told(FarmEvent::Closes);
            built?;
        }
        Ok(done.into_values().collect())
    }

    /// The key of a job, where its plans may be shared: those that are built on the GPU that they are for are not.
    fn key<'a>(&self, job: &'a Job, prepared: &Prepared, tools: &mut Vec<(&'a WorkerPaths, Tools)>) -> Result<Option<Digest>, Error> {
        if self.cache.is_none() || !job.paths.flavor.builds_anywhere() {
            return Ok(None);
        }
        let known = tools.iter().position(|(paths, _)| **paths == job.paths);
        let index = match known {
            Some(index) => index,
            None => {
                tools.push((&job.paths, Tools::of(&job.paths)?));
                tools.len() - 1
            }
        };
        PlanCache::key(prepared, &tools[index].1).map(Some)
    }

    fn build(
        &self,
        jobs: &[Job],
        mut waiting: Vec<Waiting>,
        done: &mut BTreeMap<usize, BuildReport>,
        told: &mut dyn FnMut(FarmEvent<'_>),
    ) -> Result<(), (usize, Error)> {
        let stop = Cancel::default();
        let limits = Limits { timeout: self.timeout, cancels: vec![self.cancel.clone(), stop.clone()], ..Limits::default() };
        let mut failed: Option<(usize, Error)> = None;
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let mut running: BTreeMap<usize, Waiting> = BTreeMap::new();
            loop {
                while failed.is_none()
                    && running.len() < self.jobs.max(1)
                    && let Some(next) = self.next(jobs, &waiting, &running)
                {
                    let job = waiting.remove(next);
                    told(FarmEvent::Started(job.index, job.estimate));
                    start(scope, &jobs[job.index], &job, &limits, sender.clone());
                    running.insert(job.index, job);
                }
                if running.is_empty() {
                    break;
                }
                // The sender here keeps the channel open, so a message comes as long as a thread runs.
                match receiver.recv() {
                    Ok(Told::Event(index, event)) => told(FarmEvent::Worker(index, event)),
                    Ok(Told::Ended(index, result)) => match (*result, running.remove(&index)) {
                        (Ok(report), Some(job)) => {
                            if let Err(error) = self.keep(&job, &report) {
                                told(FarmEvent::NotKept(index, &error));
                            }
                            told(FarmEvent::Done(index, &report));
                            done.insert(index, report);
                        }
                        (Ok(_), None) => {}
                        (Err(error), _) => {
                            stop.now();
                            // What was stopped because of another is not what failed.
                            if failed.is_none() {
                                failed = Some((index, error));
                            }
                        }
                    },
                    Err(mpsc::RecvError) => break,
                }
            }
        });
        match failed {
            Some(failed) => Err(failed),
            None => Ok(()),
        }
    }

    /// The first that fits beside those that run. Builders that measure on the GPU do so one after another: side by side they would measure
    /// each other, and the timings that one leaves are those that the next begins with.
    fn next(&self, jobs: &[Job], waiting: &[Waiting], running: &BTreeMap<usize, Waiting>) -> Option<usize> {
        let used: u64 = running.values().map(|job| job.estimate).sum();
        let measures = |job: &Waiting| !jobs[job.index].paths.flavor.builds_anywhere();
        let measured = running.values().any(measures);
        let fits = |job: &Waiting| running.is_empty() || used.saturating_add(job.estimate) <= self.memory;
        waiting.iter().position(|job| fits(job) && !(measured && measures(job)))
    }

    fn keep(&self, job: &Waiting, report: &BuildReport) -> Result<(), Error> {
        let (Some(cache), Some(key)) = (&self.cache, job.key) else { return Ok(()) };
        cache.remember_peak(&job.prepared, report.peak_bytes)?;
        cache.keep(key, report)
    }

    /// Where the plan of a job is kept or would be.
    ///
    /// # Errors
    /// As [`Farm::run`], of its checks.
    pub fn is_cached(&self, job: &Job, models: &mut Models) -> Result<bool, Error> {
        let prepared = Prepared::of(&job.request, models)?;
        let key = self.key(job, &prepared, &mut Vec::new())?;
        Ok(!self.fresh && key.is_some_and(|key| self.cache.as_ref().is_some_and(|cache| cache.has(key))))
    }
}

fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, job: &'env Job, waiting: &Waiting, limits: &Limits, sender: Sender<Told>) {
    let (prepared, limits) = (waiting.prepared.clone(), limits.clone());
    start_work(scope, waiting.index, sender, move |progress| {
        Worker::spawn(&job.paths).and_then(|worker| worker.build_prepared(&job.request, prepared, &limits, progress))
    });
}

/// Runs `work` in a thread of its own and tells how it ended, however it did: who waits would wait for ever.
fn start_work<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    index: usize,
    sender: Sender<Told>,
    work: impl FnOnce(&mut dyn FnMut(Event)) -> Result<BuildReport, Error> + Send + 'scope,
) {
    scope.spawn(move || {
        // The receiver outlives all threads of the scope.
        let mut progress = |event| {
            let _ = sender.send(Told::Event(index, event));
        };
        // Nothing that the work borrows or owns is looked at after it panicked.
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut progress)));
        let result = result.unwrap_or_else(|panic| Err(Error::Panicked { said: said(&*panic) }));
        let _ = sender.send(Told::Ended(index, Box::new(result)));
    });
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it does not say why".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_ends_its_job() {
        for (work, wanted) in [(0, "the first"), (1, "the number 1")] {
            let told = thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                start_work(scope, 7, sender, move |_| if work == 0 { panic!("the first") } else { panic!("the number {work}") });
                receiver.iter().collect::<Vec<_>>()
            });
            let [Told::Ended(7, result)] = &told[..] else { panic!("{} messages", told.len()) };
            let said = result.as_ref().as_ref().map_or_else(Error::to_string, |report| report.plan.display().to_string());
            assert!(said.ends_with(wanted), "{said}");
        }
    }
}
