//! The shape of a llama model, from the metadata: every key that changes what it computes is read or refused.

use super::Gguf;
use super::error::Problem;
use super::metadata::Metadata;

/// Sizes of a llama model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
    pub(super) intermediate: u64,
    pub(super) vocab: u64,
    pub(super) context: u64,
    pub(super) norm_epsilon: f64,
    /// No `output.weight`: the head is the embedding.
    pub(super) tied: bool,
    /// q, k, v and output projections have biases.
    pub(super) attention_bias: bool,
    /// gate, up and down projections have biases.
    pub(super) mlp_bias: bool,
}

/// The keys under `llama.` that this module and [`super::rope`] read.
const READ: [&str; 18] = [
    "llama.vocab_size",
    "llama.context_length",
    "llama.embedding_length",
    "llama.block_count",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scale_linear",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    // The two below say what the model was trained on; llama.cpp computes nothing with them in linear or no scaling.
    "llama.rope.scaling.original_context_length",
    "llama.rope.scaling.finetuned",
    // Always the same text, from converters of 2023; the order of rows is the same with and without it.
    "llama.tensor_data_layout",
];

/// Keys that may be there as long as they say what every llama model does.
const NEUTRAL: [(&str, &[&str]); 6] = [
    ("llama.expert_count", &["0"]),
    ("llama.expert_used_count", &["0"]),
    ("llama.use_parallel_residual", &["false"]),
    ("llama.attention.causal", &["true"]),
    ("llama.rope.scaling.attn_factor", &["1"]),
    ("split.count", &["0", "1"]),
];

impl Model {
    /// Reads the metadata and which tensors there are.
    pub(super) fn read(gguf: &Gguf) -> Result<Self, Problem> {
        let metadata = Metadata(&gguf.metadata);
        let architecture = metadata.text("general.architecture")?.ok_or_else(|| Problem::MissingKey("general.architecture".to_owned()))?;
        if architecture != "llama" {
            return Err(Problem::Architecture(architecture.to_owned()));
        }
        check_keys(metadata)?;

        let hidden = metadata.size("llama.embedding_length")?;
        let heads = metadata.size("llama.attention.head_count")?;
        let kv_heads = metadata.optional_size("llama.attention.head_count_kv")?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let reason = format!("the {heads} query heads cannot be shared out among them");
            return Err(Problem::Key { key: "llama.attention.head_count_kv".to_owned(), value: kv_heads.to_string(), reason });
        }
        let vocab = match gguf.tensors.get("token_embd.weight").map(|tensor| tensor.shape.as_slice()) {
            Some(&[rows, _]) => rows,
            Some(shape) => {
                let expected = vec![metadata.count("llama.vocab_size")?.unwrap_or_default(), hidden];
                let reason = "vocabulary, llama.embedding_length".to_owned();
                return Err(Problem::Shape { tensor: "token_embd.weight".to_owned(), found: shape.to_vec(), expected, reason });
            }
            None => {
                let reason = "every llama model has it".to_owned();
                return Err(Problem::MissingTensor { tensor: "token_embd.weight".to_owned(), reason });
            }
        };
        if let Some(stated) = metadata.optional_size("llama.vocab_size")?.filter(|&stated| stated != vocab) {
            let reason = format!("`token_embd.weight` has {vocab} rows");
            return Err(Problem::Key { key: "llama.vocab_size".to_owned(), value: stated.to_string(), reason });
        }
        let has = |suffix: &str, names: &[&str]| {
            gguf.tensors.keys().any(|key| key.strip_suffix(suffix).is_some_and(|key| names.iter().any(|name| key.ends_with(name))))
        };
        Ok(Self {
            hidden,
            layers: metadata.size("llama.block_count")?,
            heads,
            kv_heads,
            head_dim: head_dim(metadata, hidden, heads)?,
            intermediate: metadata.size("llama.feed_forward_length")?,
            vocab,
            context: metadata.size("llama.context_length")?,
            norm_epsilon: norm_epsilon(metadata)?,
            tied: !gguf.tensors.contains_key("output.weight"),
            attention_bias: has(".bias", &[".attn_q", ".attn_k", ".attn_v", ".attn_output"]),
            mlp_bias: has(".bias", &[".ffn_gate", ".ffn_up", ".ffn_down"]),
        })
    }
}

/// Refuses keys that are not known, or known to say what a llama config cannot.
fn check_keys(metadata: Metadata<'_>) -> Result<(), Problem> {
    if let Some(other) = metadata.text("general.type")?.filter(|&kind| kind != "model") {
        let reason = "only files of type `model` hold one".to_owned();
        return Err(Problem::Key { key: "general.type".to_owned(), value: format!("{other:?}"), reason });
    }
    if let Some(version) = metadata.count("general.quantization_version")?.filter(|&version| version != 2) {
        let reason = "blocks of that version have another layout; 2 is read".to_owned();
        return Err(Problem::Key { key: "general.quantization_version".to_owned(), value: version.to_string(), reason });
    }
    if let Some(layout) = metadata.text("llama.tensor_data_layout")?.filter(|&layout| layout != "Meta AI original pth") {
        let reason = "no such order of rows is known".to_owned();
        return Err(Problem::Key { key: "llama.tensor_data_layout".to_owned(), value: format!("{layout:?}"), reason });
    }
    for (key, value) in metadata.0 {
        if let Some((_, allowed)) = NEUTRAL.iter().find(|(neutral, _)| neutral == key) {
            let value = value.to_string();
            if !allowed.contains(&value.as_str()) {
                let reason = format!("only {} is imported", allowed.join(" or "));
                return Err(Problem::Key { key: key.clone(), value, reason });
            }
        } else if key.starts_with("llama.") && !READ.contains(&key.as_str()) {
            return Err(Problem::UnknownKey { key: key.clone(), value: value.to_string() });
        }
    }
    Ok(())
}

/// The width of a head; the keys that state it must agree, since nothing else than a full rotation can be said in a llama config.
fn head_dim(metadata: Metadata<'_>, hidden: u64, heads: u64) -> Result<u64, Problem> {
    const KEYS: [&str; 3] = ["llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"];
    let mut stated: Option<(&str, u64)> = None;
    for key in KEYS {
        let Some(size) = metadata.optional_size(key)? else { continue };
        match stated {
            Some((first, other)) if other != size => {
                let reason = format!("`{first}` is {other}; heads of several widths or a partial rotation are not imported");
                return Err(Problem::Key { key: key.to_owned(), value: size.to_string(), reason });
            }
            _ => stated = Some((key, size)),
        }
    }
    let (key, size) = match stated {
        Some(stated) => stated,
        None if hidden.is_multiple_of(heads) => ("llama.attention.head_count", hidden / heads),
        None => {
            let reason = format!("llama.embedding_length {hidden} is no multiple of it, and no key states the width of a head");
            return Err(Problem::Key { key: "llama.attention.head_count".to_owned(), value: heads.to_string(), reason });
        }
    };
    if !size.is_multiple_of(2) {
        let reason = format!("it makes heads of width {size}; rotation needs an even one");
        return Err(Problem::Key { key: key.to_owned(), value: size.to_string(), reason });
    }
    Ok(size)
}

fn norm_epsilon(metadata: Metadata<'_>) -> Result<f64, Problem> {
    const KEY: &str = "llama.attention.layer_norm_rms_epsilon";
    let epsilon = metadata.float(KEY)?.ok_or_else(|| Problem::MissingKey(KEY.to_owned()))?;
    if epsilon < 0.0 {
        let reason = "it must not be negative".to_owned();
        return Err(Problem::Key { key: KEY.to_owned(), value: epsilon.to_string(), reason });
    }
    Ok(epsilon)
}
