//! When a worker is no longer waited for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A wish to stop, shared by whoever has it and all that it stops.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that stops when `flag` becomes true: that of a signal handler, for example.
    pub fn on(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Stops.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long a worker may take, and who may stop it. By default it may take for ever, as long as it does something, and nobody stops it.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Longest time of one build.
    pub timeout: Option<Duration>,
    /// Longest time in which it uses no processor and waits for no disk. TensorRT has been seen to wait for itself for ever where memory
    /// ran out.
    pub idle: Duration,
    /// Any of these stops it.
    pub cancels: Vec<Cancel>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: None, idle: Duration::from_secs(120), cancels: Vec::new() }
    }
}

impl Limits {
    /// From now on, for the process of this id.
    pub(crate) fn start(&self, process: u32) -> Watch {
        // A deadline later than the clock can tell never comes.
        let deadline = self.timeout.and_then(|timeout| Some((Instant::now().checked_add(timeout)?, timeout)));
        let pulse = Pulse { process, used: None, since: Instant::now(), limit: self.idle };
        Watch { deadline, cancels: self.cancels.clone(), pulse: Some(pulse) }
    }
}

/// Signs of life of a process.
#[derive(Debug, Clone)]
struct Pulse {
    process: u32,
    /// Ticks of the processor, at the last sign of life.
    used: Option<u64>,
    /// When that was.
    since: Instant,
    limit: Duration,
}

impl Pulse {
    /// Whether there was no sign of life for too long.
    fn is_idle(&mut self) -> bool {
        // How it is told to the user is the same: a process that is gone closes its end.
        let Ok(stat) = plansmith_files::read_to_string(Path::new(&format!("/proc/{}/stat", self.process))) else { return false };
        let used = ticks(&stat);
        if used.is_none() || used != self.used {
            (self.used, self.since) = (used, Instant::now());
        }
        self.since.elapsed() >= self.limit
    }
}

/// Time on processors, of a line of `/proc/PID/stat`; `None` where the process waits for a disk. See proc(5): the state is the third field,
/// after a name in parentheses, and the times are the fourteenth and fifteenth.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.first() == Some(&"D") {
        return None;
    }
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// Limits that run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    deadline: Option<(Instant, Duration)>,
    cancels: Vec<Cancel>,
    pulse: Option<Pulse>,
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// It took longer than this.
    Late(Duration),
    /// For so long it did nothing.
    Idle(Duration),
    /// Somebody stopped it.
    Cancelled,
}

/// How long a wish to stop may go unheard.
const GLANCE: Duration = Duration::from_millis(100);

impl Watch {
    /// How long to wait before looking again; `None` where nothing limits it.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let left = self.deadline.map(|(deadline, _)| deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        let limited = left.is_some() || self.pulse.is_some() || !self.cancels.is_empty();
        limited.then(|| left.unwrap_or(GLANCE).min(GLANCE))
    }

    /// Whether it is over.
    pub(crate) fn over(&mut self) -> Option<Over> {
        if self.cancels.iter().any(Cancel::is_asked) {
            return Some(Over::Cancelled);
        }
        if let Some((_, timeout)) = self.deadline.filter(|(deadline, _)| Instant::now() >= *deadline) {
            return Some(Over::Late(timeout));
        }
        let pulse = self.pulse.as_mut()?;
        pulse.is_idle().then_some(Over::Idle(pulse.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wish_or_the_clock_ends_it() {
        assert_eq!(Watch::default().patience(), None);
        let own = std::process::id();
        let cancel = Cancel::default();
        let mut watch = Limits { cancels: vec![Cancel::default(), cancel.clone()], ..Limits::default() }.start(own);
        assert_eq!((watch.over(), watch.patience()), (None, Some(GLANCE)));
        cancel.now();
        assert_eq!(watch.over(), Some(Over::Cancelled));
        let timeout = Duration::from_millis(2);
        let mut watch = Limits { timeout: Some(timeout), ..Limits::default() }.start(own);
        std::thread::sleep(timeout);
        assert_eq!((watch.over(), watch.patience()), (Some(Over::Late(timeout)), Some(Duration::from_millis(1))));
        let mut watch = Limits { timeout: Some(Duration::MAX), ..Limits::default() }.start(own);
        assert_eq!((watch.over(), watch.patience()), (None, Some(GLANCE)));
    }

    #[test]
    fn a_process_that_sleeps_is_idle_and_one_that_waits_for_a_disk_is_not() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let idle = Duration::from_millis(300);
        let mut watch = Limits { idle, ..Limits::default() }.start(sleeper.id());
        assert_eq!(watch.over(), None);
        let start = Instant::now();
        while watch.over().is_none() {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(start.elapsed() >= idle && watch.over() == Some(Over::Idle(idle)));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // Fields as in proc(5); the name holds what could mislead.
        let stat = |state: &str| format!("7 (a) b) {state} 1 7 7 0 -1 4194304 1 0 0 0 21 4 0 0 20 0 1 0 9");
        assert_eq!((ticks(&stat("S")), ticks(&stat("D"))), (Some(25), None));
    }
}
