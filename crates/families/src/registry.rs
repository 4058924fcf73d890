//! The list of families, and the way from a config to a spec.

use serde_json::{Map, Value};

use crate::config::Config;
use crate::{
    DecoderSpec, Error, Tensors, apertus, apertus1p5_text, arcee, biogpt, bitnet, bloom, codegen, cohere, cohere_compass_text, cohere2,
    ctrl, cwm, emu3, ernie4_5, exaone, exaone4, falcon, gemma, gemma2, gemma3_text, glm, glm4, gpt_bigcode, gpt_neo, gpt_neox,
    gpt_neox_japanese, gpt2, gptj, granite, granite_swa, helium, hunyuan_v1_dense, hyperclovax, internlm3, iquestcoder, jais2, llama,
    ministral, ministral3, mistral, modernbert_decoder, mpt, nanochat, nemotron, olmo, olmo2, olmo3, openai_gpt, opt, persimmon, phi, phi3,
    qwen2, qwen3, seed_oss, smollm3, stablelm, starcoder2, vaultgemma, xglm,
};

/// One family: a `model_type` of transformers and how its config is read.
pub struct Family {
    /// `model_type` in config.json.
    pub model_type: &'static str,
    /// The class whose logits are computed.
    pub architecture: &'static str,
    /// What every tensor of the model without its head is named below; a checkpoint of that model alone lacks it.
    pub(crate) prefix: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    /// Options of the class that are refused, by key.
    pub refuses: &'static [&'static str],
    /// Keys that this class has and inference does not depend on.
    pub(crate) irrelevant: &'static [&'static str],
    pub(crate) read: fn(&Config<'_>, &Tensors<'_>, &Options) -> Result<DecoderSpec, Error>,
}

/// What the user says about reading a config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Keys that are not understood and are to be ignored, with dots for nesting.
    pub allow_unknown_config: Vec<String>,
    /// Longest sequence, prompt and answer, that will be run. Where rotations change at a length, the side that it lies on is taken for
    /// all lengths; `None` keeps the change.
    pub max_length: Option<u64>,
}

/// A config that was read and bound to its tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// `model_type` of the config.
    pub model_type: &'static str,
    /// The class of transformers that computes the same.
    pub architecture: &'static str,
    /// What it computes.
    pub spec: DecoderSpec,
    /// [`Options::max_length`], which may have chosen one side of a rotation.
    pub max_length: Option<u64>,
}

/// By `model_type`.
const FAMILIES: &[Family] = &[
    apertus::FAMILY,
    apertus1p5_text::FAMILY,
    arcee::FAMILY,
    biogpt::FAMILY,
    bitnet::FAMILY,
    bloom::FAMILY,
    codegen::FAMILY,
    cohere::FAMILY,
    cohere2::FAMILY,
    cohere_compass_text::FAMILY,
    ctrl::FAMILY,
    cwm::FAMILY,
    emu3::FAMILY,
    ernie4_5::FAMILY,
    exaone::FAMILY,
    exaone4::FAMILY,
    falcon::FAMILY,
    gemma::FAMILY,
    gemma2::FAMILY,
    gemma3_text::FAMILY,
    glm::FAMILY,
    glm4::FAMILY,
    gpt2::SW3,
    gpt2::FAMILY,
    gpt_bigcode::FAMILY,
    gpt_neo::FAMILY,
    gpt_neox::FAMILY,
    gpt_neox_japanese::FAMILY,
    gptj::FAMILY,
    granite::FAMILY,
    granite_swa::FAMILY,
    helium::FAMILY,
    hunyuan_v1_dense::FAMILY,
    hyperclovax::FAMILY,
    internlm3::FAMILY,
    iquestcoder::FAMILY,
    jais2::FAMILY,
    llama::FAMILY,
    ministral::FAMILY,
    ministral3::FAMILY,
    mistral::FAMILY,
    modernbert_decoder::FAMILY,
    mpt::FAMILY,
    nanochat::FAMILY,
    nemotron::FAMILY,
    olmo::FAMILY,
    olmo2::FAMILY,
    olmo3::FAMILY,
    openai_gpt::FAMILY,
    opt::FAMILY,
    persimmon::FAMILY,
    phi::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    seed_oss::FAMILY,
    smollm3::FAMILY,
    stablelm::FAMILY,
    starcoder2::FAMILY,
    vaultgemma::FAMILY,
    xglm::FAMILY,
];

/// What published configs call the classes that transformers has merged into another since: `model_type` and `architectures`.
const MERGED: &[(&str, &str)] =
    &[("exaone", "ExaoneForCausalLM"), ("internlm3", "InternLM3ForCausalLM"), ("iquestcoder", "IQuestCoderForCausalLM")];

/// All families, by name.
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// Reads a parsed `config.json` against the tensors of its checkpoint.
///
/// # Errors
/// The family or an option of it is not supported; a key is missing, ill-typed, contradictory or not understood; a tensor is missing,
/// of another shape, or read by nobody.
pub fn load(config: &Value, tensors: &Tensors<'_>, options: &Options) -> Result<Loaded, Error> {
    let map = config.as_object().ok_or_else(|| Error::NotAConfig("is not a JSON object".into()))?;
    let family = find(map)?;
    tensors.bound(map)?;
    let config = Config::new(map);
    let mut spec = (family.read)(&config, tensors, options)?;
    config.finish(family.model_type, family.irrelevant, &options.allow_unknown_config)?;
    let short_name = spec.embedding.weight.name.strip_prefix(family.prefix);
    if !tensors.any_below(family.prefix) && short_name.is_some_and(|name| tensors.contains(name)) {
        // As transformers does for a checkpoint that was saved from the model without its head.
        spec.for_each_weight(&mut |weight| {
            if let Some(short) = weight.name.strip_prefix(family.prefix) {
                weight.name = short.to_owned();
            }
        });
    }
    tensors.bind(&spec)?;
    Ok(Loaded { model_type: family.model_type, architecture: family.architecture, spec, max_length: options.max_length })
}

/// The family of a parsed `config.json`.
///
/// # Errors
/// It is no config, or its family or architecture is not supported: names the nearest.
pub fn find_family(config: &Value) -> Result<&'static Family, Error> {
    find(config.as_object().ok_or_else(|| Error::NotAConfig("is not a JSON object".into()))?)
}

fn find(map: &Map<String, Value>) -> Result<&'static Family, Error> {
    let Some(model_type) = map.get("model_type").and_then(Value::as_str) else {
        return Err(Error::NotAConfig("has no `model_type`".into()));
    };
    let Some(family) = FAMILIES.iter().find(|family| family.model_type == model_type) else {
        return Err(Error::UnknownFamily { model_type: model_type.to_owned(), nearest: alike(model_type) });
    };
    let named = map.get("architectures").and_then(Value::as_array).and_then(|list| list.first()).and_then(Value::as_str);
    match named {
        Some(found) if found != family.architecture && !MERGED.contains(&(model_type, found)) => {
            Err(Error::Architecture { model_type: model_type.to_owned(), found: found.to_owned(), supported: family.architecture })
        }
        _ => Ok(family),
    }
}

/// Up to three supported names that are spelt like this one, most alike first.
fn alike(model_type: &str) -> Vec<&'static str> {
    let likeness = |name: &'static str| (strsim::jaro_winkler(model_type, name), name);
    let mut names: Vec<_> = FAMILIES.iter().map(|family| likeness(family.model_type)).filter(|(likeness, _)| *likeness > 0.75).collect();
    names.sort_by(|left, right| right.0.total_cmp(&left.0));
    names.into_iter().take(3).map(|(_, name)| name).collect()
}
