//! GPT-Neo: GPT-2 with separate `nn.Linear` projections without biases, unscaled scores, and windows on every layer named `local`.
//!
//! Source: transformers 5.24 `models/gpt_neo`.

use serde_json::Value;

use crate::config::Config;
use crate::gpt::{Intermediate, SizeKeys, separate, unrotated};
use crate::names::{self, linear};
use crate::registry::{Family, Options};
use crate::spec::Attention;
use crate::{DecoderSpec, Error, Tensors, activation, gpt2};

pub(crate) const FAMILY: Family = Family {
    model_type: "gpt_neo",
    architecture: "GPTNeoForCausalLM",
    prefix: "transformer.",
    summary: "GPT-Neo 125M, 1.3B, 2.7B; TinyStories",
    refuses: &["attention_layers that contradict attention_types"],
    irrelevant: &[],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 50_257,
    hidden_size: ("hidden_size", None, 2048),
    layers: ("num_layers", Some("num_hidden_layers"), 24),
    heads: ("num_heads", Some("num_attention_heads"), 16),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::KeyOrFourfold("intermediate_size"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_epsilon", 1e-5)?;
    let core = KEYS.read(config, eps, activation::read(config, "activation_function", "gelu_new")?)?;
    let window = config.size_or("window_size", 256)?;
    let local = local_layers(config, core.layers)?;
    let attention = |index: u64, prefix: &str| {
        let prefix = format!("{prefix}.attention");
        let projections = separate(&core, &prefix, ["q_proj", "k_proj", "v_proj"], false);
        let output = linear(&format!("{prefix}.out_proj"), &core.hidden(), &core.queries(), true);
        Attention { scale: 1.0, window: local[index as usize].then_some(window), ..unrotated(&core, projections, output) }
    };
    Ok(gpt2::decoder(&core, tensors, linear, attention))
}

/// Which layers slide: by `attention_layers`, one name a layer, which the class takes before `attention_types`, lists of names to repeat.
fn local_layers(config: &Config<'_>, layers: u64) -> Result<Vec<bool>, Error> {
    let types = config.list("attention_types")?.optional();
    let (key, names) = match (config.list("attention_layers")?.optional(), types) {
        (Some(names), None) => ("attention_layers", names.iter().collect()),
        (Some(names), Some(types)) if expand(types).is_none_or(|expanded| expanded != names.iter().collect::<Vec<_>>()) => {
            return Err(config.error("attention_layers", format!("names {} layers that `attention_types` gives otherwise", names.len())));
        }
        (_, Some(types)) => match expand(types) {
            Some(names) => ("attention_types", names),
            None => {
                return Err(config.error(
                    "attention_types",
                    format!("is no list of pairs, names of layers and how often, of up to {} layers", names::MAX_LAYERS),
                ));
            }
        },
        (None, None) => return by_default(config, layers),
    };
    if names.len() as u64 != layers {
        return Err(config.error(key, format!("gives {} layers; num_layers is {layers}", names.len())));
    }
    let slides = |name: &&Value| match name.as_str() {
        Some("global") => Ok(false),
        Some("local") => Ok(true),
        _ => Err(config.error(key, format!("names {name}; supported: global, local"))),
    };
    names.iter().map(slides).collect()
}

/// Twelve pairs of a global and a local layer: the class takes no other depth.
fn by_default(config: &Config<'_>, layers: u64) -> Result<Vec<bool>, Error> {
    match layers {
        24 => Ok((0..24).map(|layer| layer % 2 == 1).collect()),
        _ => Err(config.error("attention_types", format!("is missing; the class default has 24 layers, num_layers is {layers}"))),
    }
}

/// `[[["global", "local"], 2]]` as `global, local, global, local`.
fn expand(types: &[Value]) -> Option<Vec<&Value>> {
    let mut all = Vec::new();
    for pair in types {
        let [names, times] = pair.as_array()?.as_slice() else { return None };
        let (names, times) = (names.as_array()?, times.as_u64().filter(|&times| times <= names::MAX_LAYERS)?);
        if all.len() as u64 + names.len() as u64 * times > names::MAX_LAYERS {
            return None;
        }
        (0..times).for_each(|_| all.extend(names));
    }
    Some(all)
}
