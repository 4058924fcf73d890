//! Names of activations, as transformers' `ACT2FN` has them.

use crate::config::Config;
use crate::{Activation, Error};

/// The activation that `key` names.
pub(crate) fn read(config: &Config<'_>, key: &'static str, default: &str) -> Result<Activation, Error> {
    let name = config.or_default(key, config.text(key)?, default)?;
    named(name).ok_or_else(|| config.error(key, format!("is `{name}`; supported: {}", NAMES.join(", "))))
}

const NAMES: [&str; 22] = [
    "gelu",
    "gelu_10",
    "gelu_accurate",
    "gelu_fast",
    "gelu_new",
    "gelu_python",
    "gelu_python_tanh",
    "gelu_pytorch_tanh",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "mish",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "sigmoid",
    "silu",
    "sqrtsoftplus",
    "swish",
    "tanh",
];

/// The activation of this name in `ACT2FN`; the two with stored parameters are not among them.
fn named(name: &str) -> Option<Activation> {
    Some(match name {
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_10" => Activation::ClippedGelu,
        "gelu_accurate" | "gelu_fast" | "gelu_new" | "gelu_python_tanh" | "gelu_pytorch_tanh" => Activation::GeluTanh,
        "hardswish" => Activation::HardSwish,
        "laplace" => Activation::Laplace,
        "leaky_relu" => Activation::LeakyRelu,
        "linear" => Activation::Identity,
        "mish" => Activation::Mish,
        "quick_gelu" => Activation::QuickGelu,
        "relu" => Activation::Relu,
        "relu2" => Activation::Relu2,
        "relu6" => Activation::Relu6,
        "sigmoid" => Activation::Sigmoid,
        "silu" | "swish" => Activation::Silu,
        "sqrtsoftplus" => Activation::SqrtSoftplus,
        "tanh" => Activation::Tanh,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_offered_is_known() {
        assert!(NAMES.iter().all(|name| named(name).is_some()));
        assert_eq!(named("prelu"), None);
    }
}
