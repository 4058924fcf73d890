//! Which runtime.

use std::fmt;
use std::str::FromStr;

/// A runtime that executes artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuntimeKind {
    /// rten, embedded in this program.
    Rten,
    /// ONNX Runtime, loaded at run time.
    Ort,
    /// TensorRT, in the worker process.
    TensorRt,
}

/// A name that is no runtime's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown runtime `{0}`; known are rten, ort and tensorrt")]
pub struct UnknownRuntime(pub String);

impl RuntimeKind {
    /// Every runtime, in the order in which they are tried and listed.
    pub const ALL: [Self; 3] = [Self::Rten, Self::Ort, Self::TensorRt];

    /// `rten`, `ort` or `tensorrt`, as on the command line and in verdicts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::Ort => "ort",
            Self::TensorRt => "tensorrt",
        }
    }
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RuntimeKind {
    type Err = UnknownRuntime;

    fn from_str(name: &str) -> Result<Self, UnknownRuntime> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownRuntime(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        assert_eq!("rten".parse(), Ok(RuntimeKind::Rten));
        assert_eq!("ort".parse(), Ok(RuntimeKind::Ort));
        assert_eq!("tensorrt".parse(), Ok(RuntimeKind::TensorRt));
        let error = "onnxruntime".parse::<RuntimeKind>().unwrap_err().to_string();
        assert_eq!(error, "unknown runtime `onnxruntime`; known are rten, ort and tensorrt");
    }
}
