//! Failures, and the exit codes of the contract.

use std::process::ExitCode;

use crate::output::printable;
use crate::progress::Event;

/// How a command ends where nothing went wrong in executing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, and everything that was to agree agreed.
    Done,
    /// An artifact disagrees with its source.
    Disagreed,
}

impl Outcome {
    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Disagreed => 1,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        outcome.code().into()
    }
}

/// A refusal: what went wrong, why, and what to do next. Exit code 2.
#[derive(Debug)]
pub(crate) struct Failure {
    chain: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { chain: vec![message.into()], hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn of(error: &dyn std::error::Error, hint: Option<String>) -> Self {
        let mut chain = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if chain.last() != Some(&text) {
                chain.push(text);
            }
            source = cause.source();
        }
        Self { chain, hint }
    }

    /// The message and its causes on one line.
    pub(crate) fn line(&self) -> String {
        self.chain.join(": ")
    }

    /// As the event stream says it.
    pub(crate) fn event(&self) -> Event<'_> {
        Event::Error { exit_code: 2, message: &self.chain[0], causes: &self.chain[1..], hint: self.hint.as_deref() }
    }

    /// The message, its causes, and the next step last.
    pub(crate) fn render(&self, label: &str) -> String {
        let mut text = format!("{label} {}\n", printable(&self.chain[0]));
        for cause in &self.chain[1..] {
            text.push_str(&format!("  caused by: {}\n", printable(cause)));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {}\n", printable(hint)));
        }
        text
    }
}

/// Errors that know the next step.
macro_rules! with_hint {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::of(&error, error.hint())
            }
        }
    )*};
}

/// Errors whose text says it all.
macro_rules! plain {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::of(&error, None)
            }
        }
    )*};
}

with_hint!(
    plansmith_attest::Error,
    plansmith_checkpoint::Error,
    plansmith_checkpoint::gguf::Error,
    plansmith_engine::Error,
    plansmith_hub::Error,
    plansmith_lowering::Error,
    plansmith_pipeline::Error,
    plansmith_reference::Error,
    plansmith_runtime::Error,
    plansmith_tensor::SessionError,
    plansmith_verify::Error,
);
plain!(plansmith_files::Error, plansmith_onnx::Error, plansmith_runtime::UnknownRuntime);
