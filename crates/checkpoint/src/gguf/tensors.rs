//! Which tensor of the file becomes which tensor of the checkpoint.

use super::error::Problem;
use super::model::Model;
use super::rope;
use super::{Gguf, GgufTensor};

/// How the rows of a stored tensor are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// As in the checkpoint.
    AsStored,
    /// The rows of each of `heads` heads lie in pairs (0, d/2, 1, d/2 + 1, …): the interleaved rotation that ggml computes. The
    /// checkpoint wants the first halves of the pairs, then the second ones.
    Paired { heads: u64 },
}

/// One tensor to write.
#[derive(Debug)]
pub(super) struct Mapped<'a> {
    /// Its name in the checkpoint.
    pub(super) name: String,
    pub(super) source: &'a GgufTensor,
    pub(super) rows: Rows,
}

/// Every tensor of the checkpoint by its name, in the order of names; every tensor of the file is used or refused.
pub(super) fn map<'a>(gguf: &'a Gguf, model: &Model) -> Result<Vec<Mapped<'a>>, Problem> {
    let mut mapper = Mapper { gguf, mapped: Vec::with_capacity(gguf.tensors.len()) };
    mapper.take("token_embd.weight", "model.embed_tokens.weight", &[model.vocab, model.hidden], Rows::AsStored)?;
    mapper.take("output_norm.weight", "model.norm.weight", &[model.hidden], Rows::AsStored)?;
    if !model.tied {
        mapper.take("output.weight", "lm_head.weight", &[model.vocab, model.hidden], Rows::AsStored)?;
    }
    for layer in 0..model.layers {
        mapper.layer(layer, model)?;
    }
    let mut mapped = mapper.mapped;
    if let Some(unused) = gguf.tensors.keys().find(|&name| name != rope::FACTORS && !mapped.iter().any(|m| m.source.name == *name)) {
        return Err(Problem::UnknownTensor(unused.clone()));
    }
    mapped.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mapped)
}

struct Mapper<'a> {
    gguf: &'a Gguf,
    mapped: Vec<Mapped<'a>>,
}

impl Mapper<'_> {
    fn layer(&mut self, layer: u64, model: &Model) -> Result<(), Problem> {
        let Model { hidden, heads, kv_heads, head_dim, intermediate, attention_bias, mlp_bias, .. } = *model;
        let queries = heads * head_dim;
        let keys = kv_heads * head_dim;
        let projections = [
            ("attn_q", "self_attn.q_proj", [queries, hidden], Rows::Paired { heads }, attention_bias),
            ("attn_k", "self_attn.k_proj", [keys, hidden], Rows::Paired { heads: kv_heads }, attention_bias),
            ("attn_v", "self_attn.v_proj", [keys, hidden], Rows::AsStored, attention_bias),
            ("attn_output", "self_attn.o_proj", [hidden, queries], Rows::AsStored, attention_bias),
            ("ffn_gate", "mlp.gate_proj", [intermediate, hidden], Rows::AsStored, mlp_bias),
            ("ffn_up", "mlp.up_proj", [intermediate, hidden], Rows::AsStored, mlp_bias),
            ("ffn_down", "mlp.down_proj", [hidden, intermediate], Rows::AsStored, mlp_bias),
        ];
        for (from, to, shape, rows, bias) in projections {
            self.take(&format!("blk.{layer}.{from}.weight"), &format!("model.layers.{layer}.{to}.weight"), &shape, rows)?;
            if bias {
                self.take(&format!("blk.{layer}.{from}.bias"), &format!("model.layers.{layer}.{to}.bias"), &shape[..1], rows)?;
            }
        }
        for (from, to) in [("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")] {
            self.take(&format!("blk.{layer}.{from}.weight"), &format!("model.layers.{layer}.{to}.weight"), &[hidden], Rows::AsStored)?;
        }
        Ok(())
    }

    fn take(&mut self, from: &str, to: &str, shape: &[u64], rows: Rows) -> Result<(), Problem> {
        let Some(source) = self.gguf.tensors.get(from) else {
            let reason = if from.ends_with(".bias") {
                "others of its kind have biases, and a config can only say all or none".to_owned()
            } else {
                format!("it holds `{to}`")
            };
            return Err(Problem::MissingTensor { tensor: from.to_owned(), reason });
        };
        if source.shape != shape {
            let reason = format!("it holds `{to}`");
            return Err(Problem::Shape { tensor: from.to_owned(), found: source.shape.clone(), expected: shape.to_vec(), reason });
        }
        if !source.ggml_type.holds_weights() {
            return Err(Problem::NotWeights { tensor: from.to_owned(), ggml_type: source.ggml_type });
        }
        if let Rows::Paired { heads } = rows {
            // A head is decoded by itself: it must not begin inside a block.
            let (row, block) = (source.elements() / heads, source.ggml_type.block_elements());
            if !row.is_multiple_of(block as u64) {
                return Err(Problem::Row { tensor: from.to_owned(), row, block, ggml_type: source.ggml_type });
            }
        }
        self.mapped.push(Mapped { name: to.to_owned(), source, rows });
        Ok(())
    }
}
