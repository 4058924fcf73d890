//! The only place that prints: results to stdout, everything else to stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::Global;
use crate::exit::Failure;
use crate::progress::{Event, Events};

/// Where a command's words go.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    verbose: u8,
    quiet: bool,
    color: bool,
    /// The event stream, where one was asked for.
    events: Option<Arc<Events>>,
    /// Whether stdout was closed by whoever read it.
    closed: Arc<AtomicBool>,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let color = match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self { verbose: global.verbose, quiet: global.quiet, color, events: None, closed: Arc::default() }
    }

    /// Nobody is told anything.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self { verbose: 0, quiet: true, color: false, events: None, closed: Arc::default() }
    }

    /// The same, with an event stream at `path`.
    pub(crate) fn with_events(self, path: &Path) -> Result<Self, Failure> {
        Ok(Self { events: Some(Arc::new(Events::open(path)?)), ..self })
    }

    /// A line of the event stream, where there is one.
    pub(crate) fn event(&self, event: &Event<'_>) {
        if let Some(events) = &self.events {
            events.write(event);
        }
    }

    /// A result: a line on stdout.
    pub(crate) fn result(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.write(&format!("{}\n", printable(text.as_ref())))
    }

    /// A piece of a result, shown at once.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // Whoever closed the pipe has read enough; what the command comes to is for its exit code all the same.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Whether nobody reads stdout any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A result as JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.result(to_json(value)?)
    }

    /// A remark on stderr, unless quiet; and in the event stream.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        self.event(&Event::Message { text: text.as_ref() });
        self.say(text);
    }

    /// A remark that only `-v` shows.
    pub(crate) fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            self.note(text);
        }
    }

    /// A line on stderr that the event stream says in its own way, unless quiet.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.events_on_stderr() {
            stderr(&format!("{}\n", printable(text.as_ref())));
        }
    }

    /// Why a command that went well ends with another exit code than 0: a line on stderr, quiet or not; and in the event stream.
    pub(crate) fn demand(&self, text: &str) {
        self.event(&Event::Message { text });
        if !self.events_on_stderr() {
            stderr(&format!("{}\n", printable(text)));
        }
    }

    /// A failure on stderr, and in the event stream.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.event(&failure.event());
        if !self.events_on_stderr() {
            stderr(&failure.render(&self.paint("31", "error:")));
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A bar, on a terminal only.
    pub(crate) fn bar(&self) -> ProgressBar {
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg}");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let shown = !self.quiet && !self.events_on_stderr() && io::stderr().is_terminal();
        bar.set_draw_target(if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        bar
    }

    fn events_on_stderr(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.on_stderr())
    }
}

fn stderr(text: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// `text` without control characters, which foreign files could steer a terminal with; lines and tabs stay.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| if steers(c) { c.escape_debug().to_string() } else { c.to_string() });
    Cow::Owned(escaped.collect())
}

/// Pretty JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::new(format!("cannot write JSON: {error}")))
}

/// Bytes as people read them: `538.1 MB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// A time as people read it: `9 s`, `2 min 05 s`, `1 h 02 min`.
pub(crate) fn human_time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {:02} s", seconds % 60),
        _ => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{human_bytes, human_time, printable};

    #[test]
    fn nothing_printed_steers_a_terminal() {
        assert_eq!(printable("a\n\tb – ü"), "a\n\tb – ü");
        assert_eq!(printable("a\x1b[2J\rb\u{9b}"), "a\\u{1b}[2J\\rb\\u{9b}");
    }

    #[test]
    fn bytes_are_readable() {
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes(538_090_408), "538.1 MB");
    }

    #[test]
    fn times_are_readable() {
        let times = [9, 125, 3725].map(|seconds| human_time(Duration::from_secs(seconds)));
        assert_eq!(times, ["9 s", "2 min 05 s", "1 h 02 min"]);
    }
}
