//! When a worker is no longer waited for.

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

/// How long a worker may take, and who may stop it. By default it may take for ever and nobody stops it.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Longest time of one build.
    pub timeout: Option<Duration>,
    /// Any of these stops it.
    pub cancels: Vec<Cancel>,
}

impl Limits {
    /// From now on.
    pub(crate) fn start(&self) -> Watch {
        Watch { deadline: self.timeout.map(|timeout| (Instant::now() + timeout, timeout)), cancels: self.cancels.clone() }
    }
}

/// Limits that run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    deadline: Option<(Instant, Duration)>,
    cancels: Vec<Cancel>,
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// It took longer than this.
    Late(Duration),
    /// Somebody stopped it.
    Cancelled,
}

/// How long a wish to stop may go unheard.
const GLANCE: Duration = Duration::from_millis(100);

impl Watch {
    /// How long to wait before looking again; `None` where nothing limits it.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let left = self.deadline.map(|(deadline, _)| deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        match (left, self.cancels.is_empty()) {
            (None, true) => None,
            (left, _) => Some(left.unwrap_or(GLANCE).min(GLANCE)),
        }
    }

    /// Whether it is over.
    pub(crate) fn over(&self) -> Option<Over> {
        if self.cancels.iter().any(Cancel::is_asked) {
            return Some(Over::Cancelled);
        }
        self.deadline.filter(|(deadline, _)| Instant::now() >= *deadline).map(|(_, timeout)| Over::Late(timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wish_or_the_clock_ends_it() {
        assert_eq!(Limits::default().start().patience(), None);
        let cancel = Cancel::default();
        let watch = Limits { timeout: None, cancels: vec![Cancel::default(), cancel.clone()] }.start();
        assert_eq!((watch.over(), watch.patience()), (None, Some(GLANCE)));
        cancel.now();
        assert_eq!(watch.over(), Some(Over::Cancelled));
        let timeout = Duration::from_millis(2);
        let watch = Limits { timeout: Some(timeout), cancels: Vec::new() }.start();
        std::thread::sleep(timeout);
        assert_eq!((watch.over(), watch.patience()), (Some(Over::Late(timeout)), Some(Duration::from_millis(1))));
    }
}
