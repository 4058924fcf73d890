//! Progress of work that runs on several threads, told on the caller's.

use std::sync::mpsc;

/// Runs `work` on a thread of its own; what it reports from any thread is passed to `told` on this one.
pub(crate) fn watched<T: Send>(work: impl FnOnce(&(dyn Fn(u64) + Sync)) -> T + Send, told: &mut dyn FnMut(u64)) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let worker = scope.spawn(move || {
            // The receiver outlives the work, so a report cannot fail.
            work(&|value| {
                let _ = sender.send(value);
            })
        });
        receiver.iter().for_each(told);
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::watched;

    #[test]
    fn every_report_arrives_before_the_result() {
        let mut seen = Vec::new();
        let work = |report: &(dyn Fn(u64) + Sync)| {
            (0..5).for_each(report);
            "done"
        };
        let result = watched(work, &mut |value| seen.push(value));
        assert_eq!((result, seen), ("done", vec![0, 1, 2, 3, 4]));
    }
}
