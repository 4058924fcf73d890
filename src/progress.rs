//! How far long work is: a bar on a terminal, a line now and then elsewhere, and the event stream.

mod events;
mod rate;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

pub(crate) use self::events::{Candidate, Ended, Event, Events};
use self::events::{Standing, thousandths};
use self::rate::Rate;
use crate::output::{Output, human_bytes, human_time};

/// Where there is no terminal, a line comes after so much silence.
const LINE_EVERY: Duration = Duration::from_secs(20);
/// Events of bytes come no more often than this.
const EVENT_EVERY: Duration = Duration::from_secs(1);
/// The stream says at least so often that a stage still runs.
const EVENT_SILENCE: Duration = Duration::from_secs(10);

/// Follows work and tells of it. Several threads may report.
///
/// Stages that are still open when it is dropped have failed.
#[derive(Debug)]
pub(crate) struct Meter {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    closed: Condvar,
}

#[derive(Debug)]
struct State {
    output: Output,
    bar: ProgressBar,
    open: Vec<Stage>,
    done: usize,
    total: Option<usize>,
    closed: bool,
}

/// A stage that runs.
#[derive(Debug)]
struct Stage {
    name: String,
    began: Instant,
    doing: Option<String>,
    /// Done, and all there are.
    bytes: Option<(u64, u64)>,
    rate: Rate,
    /// When the stream last heard of it.
    event: Option<Instant>,
    /// When people last did.
    line: Instant,
}

impl Meter {
    /// Begins to follow.
    pub(crate) fn new(output: &Output) -> Self {
        let state = State { output: output.clone(), bar: output.bar(), open: Vec::new(), done: 0, total: None, closed: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), closed: Condvar::new() });
        let ticking = Arc::clone(&shared);
        // Without the thread there are fewer words, and the same work.
        let ticker = std::thread::Builder::new().name("progress".to_owned()).spawn(move || ticking.tick()).ok();
        Self { shared, ticker }
    }

    /// One piece of work that is measured in bytes.
    pub(crate) fn of(output: &Output, what: &str) -> Self {
        let meter = Self::new(output);
        meter.begin(what);
        meter
    }

    /// The stages that are to come.
    pub(crate) fn stages(&self, stages: &[String]) {
        let mut state = self.shared.lock();
        state.total = Some(stages.len());
        state.output.event(&Event::Stages { stages });
    }

    /// A stage begins.
    pub(crate) fn begin(&self, name: &str) {
        self.shared.lock().begin(name, Instant::now());
    }

    /// So many bytes of a stage are done. Reports may overtake one another.
    pub(crate) fn bytes(&self, name: &str, done: u64, total: u64) {
        self.shared.lock().bytes(name, done, total, Instant::now());
    }

    /// What a stage does now.
    pub(crate) fn doing(&self, name: &str, what: String) {
        let mut state = self.shared.lock();
        if let Some(stage) = state.stage(name) {
            stage.doing = Some(what);
        }
        state.draw(Instant::now());
    }

    /// A stage ended. `counts`: it is one of [`Meter::stages`].
    pub(crate) fn end(&self, name: &str, how: Ended, time: Duration, counts: bool) {
        let mut state = self.shared.lock();
        state.open.retain(|stage| stage.name != name);
        state.done += usize::from(counts);
        state.output.event(&Event::End { stage: name, result: how, seconds: thousandths(time.as_secs_f64()) });
        state.draw(Instant::now());
    }

    /// Something else, where no bar is in its way.
    pub(crate) fn aside(&self, tell: impl FnOnce(&Output)) {
        let state = self.shared.lock();
        state.bar.suspend(|| tell(&state.output));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.closed = true;
            for stage in std::mem::take(&mut state.open) {
                let seconds = thousandths(stage.began.elapsed().as_secs_f64());
                state.output.event(&Event::End { stage: &stage.name, result: Ended::Failed, seconds });
            }
            state.bar.finish_and_clear();
        }
        self.shared.closed.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // It ends at once, and a panic of its own harms nothing.
            let _ = ticker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of stages that say nothing themselves.
    fn tick(&self) {
        let mut state = self.lock();
        while !state.closed {
            state.beat(Instant::now());
            let waited = self.closed.wait_timeout(state, Duration::from_secs(1));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn stage(&mut self, name: &str) -> Option<&mut Stage> {
        self.open.iter_mut().find(|stage| stage.name == name)
    }

    fn begin(&mut self, name: &str, now: Instant) {
        let (name, rate) = (name.to_owned(), Rate::default());
        self.output.event(&Event::Begin { stage: &name });
        self.open.push(Stage { name, began: now, doing: None, bytes: None, rate, event: None, line: now });
        self.draw(now);
    }

    fn bytes(&mut self, name: &str, done: u64, total: u64, now: Instant) {
        let Some(stage) = self.stage(name) else { return };
        let before = stage.bytes.filter(|(_, all)| *all == total);
        if before.is_none() {
            stage.rate = Rate::default();
        }
        let done = done.max(before.map_or(0, |(before, _)| before)).min(total);
        stage.bytes = Some((done, total));
        stage.rate.add(now, done);
        let due = stage.event.is_none_or(|last| done == total || now.duration_since(last) >= EVENT_EVERY);
        if due {
            stage.event = Some(now);
            self.tell(name, now);
        }
        self.draw(now);
    }

    /// A second has passed. Returns the lines that people were told, where there is no bar.
    fn beat(&mut self, now: Instant) -> Vec<String> {
        let silent = |stage: &Stage| now.duration_since(stage.event.unwrap_or(stage.began)) >= EVENT_SILENCE;
        let names: Vec<String> = self.open.iter().filter(|stage| silent(stage)).map(|stage| stage.name.clone()).collect();
        for name in names {
            self.tell(&name, now);
            if let Some(stage) = self.stage(&name) {
                stage.event = Some(now);
            }
        }
        self.draw(now);
        let due = self.open.iter_mut().filter(|stage| now.duration_since(stage.line) >= LINE_EVERY);
        let lines: Vec<String> = due
            .map(|stage| {
                stage.line = now;
                format!("{}: {}", stage.name, stage.standing(now))
            })
            .collect();
        if self.bar.is_hidden() {
            lines.iter().for_each(|line| self.output.say(line));
        }
        lines
    }

    /// How far a stage is, to the stream.
    fn tell(&self, name: &str, now: Instant) {
        let Some(stage) = self.open.iter().find(|stage| stage.name == name) else { return };
        let known = stage.bytes.map(|(_, total)| (stage.rate.per_second(now), stage.rate.left(now, total)));
        let (rate, left) = known.unwrap_or_default();
        self.output.event(&Event::Progress(Standing {
            stage: name,
            doing: stage.doing.as_deref(),
            done_bytes: stage.bytes.map(|(done, _)| done),
            total_bytes: stage.bytes.map(|(_, total)| total),
            bytes_per_s: rate.map(|rate| rate as u64),
            left_s: left.map(|left| thousandths(left.as_secs_f64())),
            stage_s: thousandths(now.duration_since(stage.began).as_secs_f64()),
            stages_done: self.done,
            stages_total: self.total,
        }));
    }

    fn draw(&self, now: Instant) {
        if self.bar.is_hidden() {
            return;
        }
        let count = self.total.map_or_else(String::new, |total| format!("[{}/{total}] ", self.done));
        let Some(stage) = self.open.first() else { return };
        let others = if self.open.len() > 1 { format!(" and {} more", self.open.len() - 1) } else { String::new() };
        let (done, total) = stage.bytes.unwrap_or((self.done as u64, self.total.unwrap_or(0) as u64));
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_prefix(format!("{count}{}{others}", stage.name));
        self.bar.set_message(stage.standing(now));
    }
}

impl Stage {
    fn standing(&self, now: Instant) -> String {
        let Some((done, total)) = self.bytes else {
            let time = human_time(now.duration_since(self.began));
            return self.doing.as_ref().map_or_else(|| format!("{time} so far"), |doing| format!("{doing}, {time} so far"));
        };
        let rate = self.rate.per_second(now).map(|rate| format!(", {}/s", human_bytes(rate as u64)));
        let left = self.rate.left(now, total).map(|left| format!(", {} left", human_time(left)));
        format!("{} of {}{}{}", human_bytes(done), human_bytes(total), rate.unwrap_or_default(), left.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let bar = ProgressBar::hidden();
        State { output: Output::silent(), bar, open: Vec::new(), done: 0, total: None, closed: false }
    }

    #[test]
    fn long_work_is_not_silent_and_says_rate_and_time_left() {
        let (mut state, start) = (state(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        state.begin("export:fp16", start);
        let mut lines = Vec::new();
        for second in 0..=40 {
            state.bytes("export:fp16", second * 100_000_000, 10_000_000_000, at(second));
            lines.extend(state.beat(at(second)));
        }
        let wanted =
            ["export:fp16: 2.0 GB of 10.0 GB, 100.0 MB/s, 1 min 20 s left", "export:fp16: 4.0 GB of 10.0 GB, 100.0 MB/s, 1 min 00 s left"];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn work_without_bytes_says_what_it_does_and_since_when() {
        let (mut state, start) = (state(), Instant::now());
        state.begin("verify", start);
        if let Some(stage) = state.stage("verify") {
            stage.doing = Some("onnx/model.onnx on rten: decode".to_owned());
        }
        assert_eq!(state.beat(start + Duration::from_secs(19)), [""; 0]);
        assert_eq!(state.beat(start + Duration::from_secs(75)), ["verify: onnx/model.onnx on rten: decode, 1 min 15 s so far"]);
        assert_eq!(state.beat(start + Duration::from_secs(80)), [""; 0]);
    }

    #[test]
    fn reports_that_overtake_one_another_do_not_go_back() {
        let (mut state, start) = (state(), Instant::now());
        state.begin("source", start);
        for done in [3, 9, 5] {
            state.bytes("source", done, 10, start);
        }
        assert_eq!(state.open[0].bytes, Some((9, 10)));
    }
}
