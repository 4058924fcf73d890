//! SantaCoder, StarCoder: GPT-2 with `nn.Linear` matrices and, unless switched off, one key and value head for all queries.
//!
//! Source: transformers 5.24 `models/gpt_bigcode`.

use crate::config::Config;
use crate::gpt::{fused, unrotated};
use crate::names::{self, linear};
use crate::registry::{Family, Options};
use crate::spec::Attention;
use crate::{DecoderSpec, Error, Tensors, activation, gpt2};

pub(crate) const FAMILY: Family = Family {
    model_type: "gpt_bigcode",
    architecture: "GPTBigCodeForCausalLM",
    prefix: "transformer.",
    summary: "SantaCoder, StarCoder, StarCoderBase",
    refuses: &[],
    irrelevant: &[
        "attention_softmax_in_fp32",
        "inference_runner",
        "max_batch_size",
        "n_ctx",
        "num_key_value_heads", // follows from `multi_query`
        "pre_allocate_kv_cache",
        "runner_max_sequence_length",
        "scale_attention_softmax_in_fp32",
        "validate_runner_input",
    ],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_epsilon", 1e-5)?;
    let mut core = gpt2::KEYS.read(config, eps, activation::read(config, "activation_function", "gelu_pytorch_tanh")?)?;
    if config.flag_or("multi_query", true)? {
        core.kv_heads = 1;
    }
    // One key and value head: all queries, the key, the value. Else head by head.
    let blocks = core.kv_heads;
    let scale = gpt2::scale(config, &core)?;
    let attention = |_: u64, prefix: &str| {
        let projections = fused(linear(&format!("{prefix}.c_attn"), &core.fused(), &core.hidden(), true), blocks);
        let output = linear(&format!("{prefix}.c_proj"), &core.hidden(), &core.queries(), true);
        Attention { scale, ..unrotated(&core, projections, output) }
    };
    Ok(gpt2::decoder(&core, tensors, linear, attention))
}
