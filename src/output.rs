//! The only place that prints: results to stdout, everything else to stderr.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::Global;
use crate::exit::Failure;

/// Where a command's words go.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    verbose: u8,
    quiet: bool,
    color: bool,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let color = match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self { verbose: global.verbose, quiet: global.quiet, color }
    }

    /// A result: a line on stdout.
    pub(crate) fn result(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.write(&format!("{}\n", printable(text.as_ref())))
    }

    /// A piece of a result, shown at once.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // Whoever closed the pipe has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// A result as JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.result(to_json(value)?)
    }

    /// A remark on stderr, unless quiet.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            stderr(&format!("{}\n", printable(text.as_ref())));
        }
    }

    /// A remark that only `-v` shows.
    pub(crate) fn detail(&self, text: impl AsRef<str>) {
        if self.verbose > 0 {
            stderr(&format!("{}\n", printable(text.as_ref())));
        }
    }

    /// A failure on stderr.
    pub(crate) fn failure(&self, failure: &Failure) {
        stderr(&failure.render(&self.paint("31", "error:")));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A bar over bytes, on a terminal only.
    pub(crate) fn bytes_bar(&self, what: &'static str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}");
        self.bar(what, total, style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// A bar over steps, on a terminal only.
    pub(crate) fn steps_bar(&self, what: &'static str, total: u64) -> ProgressBar {
        let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len} {elapsed}");
        self.bar(what, total, style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    fn bar(&self, what: &'static str, total: u64, style: ProgressStyle) -> ProgressBar {
        let bar = ProgressBar::new(total).with_style(style).with_message(what);
        let shown = !self.quiet && io::stderr().is_terminal();
        bar.set_draw_target(if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
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

#[cfg(test)]
mod tests {
    use super::{human_bytes, printable};

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
}
