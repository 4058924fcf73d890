//! The one error of this crate.

/// Why a node, a name or a finished graph was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operator's rules refuse its operands.
    #[error("cannot add `{call}` in `{scope}`: {problem}")]
    Node {
        /// The scope it was added in, `/model/layers.3/self_attn` for example.
        scope: String,
        /// The operator with the types of its operands, `Add(f32[tokens, 576], f32[192])`.
        call: String,
        /// What does not fit, both sides of it.
        problem: String,
    },
    /// The operator, in the form asked for, is younger than the graph's operator set.
    #[error("cannot add `{op}` in `{scope}`: it needs opset {since}, the graph is written for opset {opset}")]
    Opset {
        /// The scope it was added in.
        scope: String,
        /// The operator.
        op: &'static str,
        /// The first operator set that has it.
        since: u32,
        /// The graph's.
        opset: u32,
    },
    /// An operator set outside the range whose operators this builder knows.
    #[error("opset {0} is not supported; choose one from 21 to 24")]
    UnsupportedOpset(u32),
    /// A name that must be unique is used for two things, or one thing is described in two ways.
    #[error("`{name}` is {first} and cannot also be {second}")]
    Duplicate {
        /// The name.
        name: String,
        /// What it is already.
        first: String,
        /// What it was to become.
        second: String,
    },
    /// An initialiser whose bytes do not fit its dtype and shape.
    #[error("initialiser `{name}`: {problem}")]
    Initializer {
        /// The initialiser's name.
        name: String,
        /// What does not fit, both sides of it.
        problem: String,
    },
    /// A dimension that no input carries cannot be computed at run time.
    #[error("no input has a dimension `{0}`, so the graph cannot compute it")]
    NoSource(String),
    /// The finished graph computes or holds something that nothing uses.
    #[error("{0}")]
    Unused(String),
    /// A finished graph that breaks a rule of the ONNX IR.
    #[error("the graph is not valid: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Error {
    /// What to do next, where there is one obvious thing.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Opset { since, .. } => Some(format!("use `--opset {since}` or later, or a form of the graph without this operator")),
            Self::NoSource(_) => Some("give the dimension a number, or add an input that has it".to_owned()),
            _ => None,
        }
    }
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The result of a rule: on failure the sentence that becomes [`Error::Node`]'s problem.
pub(crate) type Rule<T> = std::result::Result<T, String>;
