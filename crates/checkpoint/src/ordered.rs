//! Work done on all cores whose results are taken in order, as a hash needs them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;

/// Payload bytes that are read at once.
pub(crate) const PIECE: u64 = 1 << 20;

/// As many threads as there are cores, at most 16, which bounds the memory of their buffers to about 50 MB.
pub(crate) fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(16)
}

/// The memory of one thread, kept from piece to piece.
#[derive(Default)]
pub(crate) struct Buffers {
    /// What was read.
    pub(crate) input: Vec<u8>,
    /// What was made of it.
    pub(crate) output: Vec<u8>,
}

impl Buffers {
    /// The input buffer, with exactly `bytes` bytes.
    pub(crate) fn input(&mut self, bytes: u64) -> &mut [u8] {
        // Pieces have at most `PIECE` bytes.
        self.input.resize(bytes as usize, 0);
        &mut self.input
    }
}

struct Turn<F> {
    next: usize,
    stopped: bool,
    error: Option<Error>,
    take: F,
}

/// Does `work` for each of `0..count` on `threads` threads, lowest first, and calls `take` with each result in order, one at a time.
///
/// # Errors
/// The first error of `work` by order, after which no more is taken.
pub(crate) fn in_order<T>(
    count: usize,
    threads: usize,
    work: impl Fn(usize, &mut Buffers) -> Result<T, Error> + Sync,
    take: impl FnMut(usize, &Buffers, T) + Send,
) -> Result<(), Error> {
    let claimed = AtomicUsize::new(0);
    let turn = Mutex::new(Turn { next: 0, stopped: false, error: None, take });
    let moved = Condvar::new();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                let _on_panic = StopOnPanic { turn: &turn, moved: &moved };
                let mut buffers = Buffers::default();
                loop {
                    let index = claimed.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index, &mut buffers);
                    let mut guard = lock(&turn);
                    while guard.next != index && !guard.stopped {
                        guard = moved.wait(guard).unwrap_or_else(PoisonError::into_inner);
                    }
                    if guard.stopped {
                        return;
                    }
                    match result {
                        Ok(result) => (guard.take)(index, &buffers, result),
                        Err(error) => (guard.error, guard.stopped) = (Some(error), true),
                    }
                    guard.next += 1;
                    moved.notify_all();
                }
            });
        }
    });
    turn.into_inner().unwrap_or_else(PoisonError::into_inner).error.map_or(Ok(()), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the threads that would otherwise wait for a piece that never comes; the scope then passes the panic on.
struct StopOnPanic<'a, F> {
    turn: &'a Mutex<Turn<F>>,
    moved: &'a Condvar,
}

impl<F> Drop for StopOnPanic<'_, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(self.turn).stopped = true;
            self.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_taken_in_order() {
        let mut taken = Vec::new();
        let work = |index: usize, _: &mut Buffers| {
            thread::sleep(std::time::Duration::from_micros((index * 7919 % 13) as u64 * 50));
            Ok(index)
        };
        in_order(200, 8, work, |_, _, result| taken.push(result)).unwrap();
        assert_eq!(taken, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_by_order_stops_the_run() {
        let mut taken = 0;
        let work = |index: usize, _: &mut Buffers| if index < 30 { Ok(()) } else { Err(Error::PlannedTwice(index.to_string())) };
        let error = in_order(100, 8, work, |_, _, ()| taken += 1).unwrap_err();
        assert!(matches!(error, Error::PlannedTwice(index) if index == "30"));
        assert_eq!(taken, 30);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on_and_does_not_hang() {
        let work = |index: usize, _: &mut Buffers| if index == 5 { panic!("on purpose") } else { Ok(()) };
        let _ = in_order(100, 4, work, |_, _, ()| ());
    }
}
