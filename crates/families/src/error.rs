//! Why a checkpoint's config or tensor list is refused.

/// A refusal. The text names the key or tensor; [`Error::hint`] gives the next step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// `config.json` is no JSON object, or has no `model_type`.
    #[error("config.json {0}")]
    NotAConfig(String),
    /// A family that nobody has written.
    #[error("model_type `{model_type}` is not supported")]
    UnknownFamily {
        /// As in the config.
        model_type: String,
        /// Supported names that are alike, most alike first; a few or none.
        nearest: Vec<&'static str>,
    },
    /// The family is known, but the architecture is not its causal language model.
    #[error("architecture `{found}` of model_type `{model_type}` is not supported (supported: {supported})")]
    Architecture {
        /// As in the config.
        model_type: String,
        /// First entry of `architectures`.
        found: String,
        /// What the family reads.
        supported: &'static str,
    },
    /// A key whose value is missing, of another type or out of range.
    #[error("config.json: `{key}` {problem}")]
    Key {
        /// With dots for nesting.
        key: String,
        /// What is wrong, with the value.
        problem: String,
    },
    /// Keys that this family does not read and that are not known to be irrelevant.
    #[error("config.json: `{key}` = {value} is not understood for model_type `{model_type}` and may change what the model computes")]
    UnknownKey {
        /// With dots for nesting.
        key: String,
        /// Its JSON.
        value: String,
        /// As in the config.
        model_type: String,
        /// Known key that is most alike.
        nearest: Option<String>,
    },
    /// Weights that need more than themselves to be read.
    #[error("the checkpoint is quantised by `{method}`, which is not implemented")]
    Quantised {
        /// `quantization_config.quant_method`.
        method: String,
    },
    /// A weight that the config implies and the checkpoint lacks.
    #[error("the checkpoint has no tensor `{name}`")]
    MissingTensor {
        /// What is needed.
        name: String,
        /// Name in the checkpoint that is most alike.
        nearest: Option<String>,
    },
    /// A weight of another shape.
    #[error("cannot bind weight `{name}`: its shape is {found:?}; config.json implies {wanted:?} ({because})")]
    WrongShape {
        /// Which tensor.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// What the config implies.
        wanted: Vec<u64>,
        /// How.
        because: String,
    },
    /// Tensors that the spec does not use.
    #[error("nothing consumes tensor `{name}`{}", more(*count))]
    UnreadTensor {
        /// The first of them.
        name: String,
        /// How many there are.
        count: usize,
    },
}

fn more(count: usize) -> String {
    if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() }
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NotAConfig(_) => "give the folder of a checkpoint as transformers saves it: config.json beside *.safetensors".into(),
            Error::UnknownFamily { nearest, .. } if nearest.is_empty() => "`plansmith families` lists what is supported".into(),
            Error::UnknownFamily { nearest, .. } => format!(
                "a look-alike is never assumed; supported names like it: `{}`; `plansmith families` lists all",
                nearest.join("`, `")
            ),
            Error::Architecture { supported, .. } => format!("export a checkpoint saved from {supported}"),
            Error::Key { .. } => "correct config.json, or re-save the checkpoint with transformers".into(),
            Error::UnknownKey { nearest, key, .. } => match nearest {
                Some(nearest) => format!("did you mean `{nearest}`? If `{key}` does not matter, pass --allow-unknown-config {key}"),
                None => format!("if `{key}` does not matter to inference, pass --allow-unknown-config {key}: the manifest records it"),
            },
            Error::Quantised { .. } => "dequantise the checkpoint with the tool that made it and save it as bf16, fp16 or fp32".into(),
            Error::MissingTensor { nearest, .. } => match nearest {
                Some(nearest) => {
                    format!("the nearest stored name is `{nearest}`; re-save the checkpoint with transformers if a prefix differs")
                }
                None => "the checkpoint is incomplete: fetch it again".into(),
            },
            Error::WrongShape { found, wanted, .. } => shape_hint(found, wanted),
            Error::UnreadTensor { name, .. } => {
                format!("config.json does not describe `{name}`: check model_type and num_hidden_layers, or remove the tensor")
            }
        })
    }
}

fn shape_hint(found: &[u64], wanted: &[u64]) -> String {
    if found.len() == 2 && wanted.len() == 2 && found[0] == wanted[1] && found[1] == wanted[0] {
        return "the stored matrix is transposed: this family stores [out, in]".into();
    }
    "config.json belongs to another checkpoint, or a size in it was edited".into()
}
