//! What every block needs beside the graph being built.

use std::cell::RefCell;
use std::collections::HashMap;

use plansmith_families::{DecoderSpec, Linear, LinearLayout, Weight};
use plansmith_graph::{Data, Dim, ExternalData, Graph, Value};
use plansmith_tensor::DType;

use crate::{Dialect, Error, Form, WeightTable};

/// The symbolic dimensions of the contract.
pub(crate) struct Dims {
    pub(crate) batch: Dim,
    pub(crate) sequence: Dim,
    /// Columns of the attention mask: `past_sequence_length + sequence_length`, or the slots of a static cache.
    pub(crate) total: Dim,
    /// `batch_size × sequence_length`: rows of the residual stream.
    pub(crate) tokens: Dim,
}

/// How the cache takes what is new.
pub(crate) enum Growth {
    /// Appended behind what is there.
    Concat {
        /// Columns that are there.
        past: Dim,
        /// Length of the cache as it comes in: as much, or more where the runtime writes into it.
        cache: Dim,
    },
    /// Written into slots of a cache of fixed size.
    Scatter {
        /// The input `cache_position`, int64 `[batch]`: each row's first new slot.
        first: Value,
    },
}

/// One layer's cache as it comes in, `[batch, kv_heads, past, head_dim]`; of a static one, `[batch, kv_heads, max_length, head_dim]`.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    pub(crate) key: Value,
    pub(crate) value: Value,
}

/// One layer's cache as it goes out, `[batch, kv_heads, total, head_dim]`; of a static one, of the shape that it came in.
#[derive(Clone, Copy)]
pub(crate) struct Present {
    pub(crate) key: Value,
    pub(crate) value: Value,
}

/// The choices that hold for every block, the inputs, and where weights lie.
pub(crate) struct Context<'a> {
    pub(crate) form: Form,
    pub(crate) dialect: Dialect,
    /// What activations and caches are.
    pub(crate) compute: DType,
    pub(crate) dims: Dims,
    /// Tokens of the longest sequence that the graph is for.
    pub(crate) longest: u64,
    pub(crate) growth: Growth,
    pub(crate) input_ids: Value,
    pub(crate) attention_mask: Value,
    pub(crate) position_ids: Value,
    table: &'a WeightTable,
    cast: RefCell<HashMap<String, Value>>,
}

impl<'a> Context<'a> {
    /// Declares the inputs that do not belong to a layer. `slots` are those of a static cache.
    ///
    /// With `shares_buffer`, the cache that comes in may be longer than what it holds: the mask alone says how many columns there are.
    pub(crate) fn new(
        g: &mut Graph,
        (form, dialect): (Form, Dialect),
        compute: DType,
        (slots, longest): (Option<u64>, u64),
        shares_buffer: bool,
        table: &'a WeightTable,
    ) -> Result<Self, Error> {
        let (batch, sequence) = (Dim::symbol("batch_size"), Dim::symbol("sequence_length"));
        let cache = Dim::symbol("past_sequence_length");
        let (past, total) = match (slots, shares_buffer) {
            (None, false) => (cache.clone(), g.define_dim("total_sequence_length", &cache + &sequence)),
            (None, true) => {
                let total = Dim::symbol("total_sequence_length");
                (&total - &sequence, total)
            }
            (Some(slots), _) => (cache.clone(), Dim::from(slots)),
        };
        let tokens = g.define_dim("tokens", &batch * &sequence);
        let per_token = [batch.clone(), sequence.clone()];
        let input_ids = g.input("input_ids", DType::I64, &per_token)?;
        let attention_mask = g.input("attention_mask", DType::I64, &[batch.clone(), total.clone()])?;
        let position_ids = g.input("position_ids", DType::I64, &per_token)?;
        // So that every graph reads the input: TensorRT drops one that nothing reads, and ALiBi needs no positions.
        g.read_sizes_off(position_ids);
        if dialect == Dialect::Tensorrt {
            g.spell_sizes_out();
        }
        let growth = match slots {
            None => Growth::Concat { past, cache },
            Some(_) => Growth::Scatter { first: g.input("cache_position", DType::I64, std::slice::from_ref(&batch))? },
        };
        let dims = Dims { batch, sequence, total, tokens };
        Ok(Self { form, dialect, compute, dims, longest, growth, input_ids, attention_mask, position_ids, table, cast: RefCell::default() })
    }

    /// Declares the cache inputs of every layer.
    pub(crate) fn pasts(&self, g: &mut Graph, spec: &DecoderSpec) -> Result<Vec<Past>, Error> {
        let mut pasts = Vec::new();
        for (index, layer) in spec.layers.iter().enumerate() {
            let (heads, head_dim) = (Dim::from(layer.attention.kv_heads), Dim::from(layer.attention.head_dim));
            let held = match &self.growth {
                Growth::Concat { cache, .. } => cache,
                Growth::Scatter { .. } => &self.dims.total,
            };
            let dims = [self.dims.batch.clone(), heads, held.clone(), head_dim];
            let mut input = |part: &str| g.input(&format!("past_key_values.{index}.{part}"), self.compute, &dims);
            pasts.push(Past { key: input("key")?, value: input("value")? });
        }
        Ok(pasts)
    }

    /// One half of a layer's cache with what is new, `[batch, kv_heads, seq, head_dim]`.
    pub(crate) fn grown(&self, g: &mut Graph, cache: Value, new: Value) -> Result<Value, Error> {
        Ok(match &self.growth {
            Growth::Concat { .. } => g.concat(&[cache, new], 2)?,
            Growth::Scatter { first } => g.tensor_scatter(cache, new, *first)?,
        })
    }

    /// The initializer of a stored tensor, in its stored dtype.
    pub(crate) fn stored(&self, g: &mut Graph, weight: &Weight) -> Result<Value, Error> {
        let stored = &self.table.tensors[&weight.name];
        let place = ExternalData { location: stored.location.clone(), offset: stored.offset, length: Some(stored.bytes) };
        Ok(g.initializer(&weight.name, stored.dtype.dtype(), &stored.shape, Data::External(place))?)
    }

    /// A stored tensor in the compute dtype: cast once, however often it is used.
    pub(crate) fn weight(&self, g: &mut Graph, weight: &Weight) -> Result<Value, Error> {
        if let Some(&value) = self.cast.borrow().get(&weight.name) {
            return Ok(value);
        }
        let stored = self.stored(g, weight)?;
        let value = g.cast(stored, self.compute)?;
        self.cast.borrow_mut().insert(weight.name.clone(), value);
        Ok(value)
    }

    /// A linear map of `x`, `[tokens, in]`, as one Gemm over the layout that is stored: no weight is transposed.
    pub(crate) fn linear(&self, g: &mut Graph, name: &str, linear: &Linear, x: Value) -> Result<Value, Error> {
        g.scope(name, |g| {
            let weight = self.weight(g, &linear.weight)?;
            let bias = linear.bias.as_ref().map(|bias| self.weight(g, bias)).transpose()?;
            Ok(g.gemm(x, weight, bias, linear.layout == LinearLayout::OutIn)?)
        })
    }
}
