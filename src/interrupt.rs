//! Ctrl-C: as usual, or as a wish that work in progress hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plansmith_engine::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Failure;

/// Makes the first Ctrl-C (or SIGTERM) a wish to stop and the second one the end.
///
/// Work that never looks at the wish would not end by the first one, so it counts only between [`Interrupt::heard`] and its drop; outside,
/// signals end the program as they always do.
#[derive(Debug)]
pub(crate) struct Interrupt {
    /// Whether the next signal ends the program.
    deadly: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
}

/// While this lives, the first signal is heard by the work.
#[derive(Debug)]
pub(crate) struct Hearing<'a>(&'a Interrupt);

impl Interrupt {
    /// Handlers for both signals.
    pub(crate) fn new() -> Result<Self, Failure> {
        let interrupt = Self { deadly: Arc::new(AtomicBool::new(true)), asked: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            let refuse = |error: std::io::Error| Failure::new(format!("signal handlers cannot be set: {error}"));
            // In this order: the first looks before the others change what it looks at.
            flag::register_conditional_default(signal, Arc::clone(&interrupt.deadly)).map_err(refuse)?;
            flag::register(signal, Arc::clone(&interrupt.asked)).map_err(refuse)?;
            flag::register(signal, Arc::clone(&interrupt.deadly)).map_err(refuse)?;
        }
        Ok(interrupt)
    }

    /// The wish.
    pub(crate) fn cancel(&self) -> Cancel {
        Cancel::on(Arc::clone(&self.asked))
    }

    /// From now on the work hears it.
    pub(crate) fn heard(&self) -> Hearing<'_> {
        self.deadly.store(false, Ordering::Relaxed);
        Hearing(self)
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.0.deadly.store(true, Ordering::Relaxed);
    }
}
