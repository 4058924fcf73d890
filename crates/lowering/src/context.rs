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
    /// Columns before the step's.
    pub(crate) past: Dim,
    /// Length of the cache as it comes in: `past`, or more where the runtime writes into it.
    pub(crate) cache: Dim,
    /// `past_sequence_length + sequence_length`.
    pub(crate) total: Dim,
    /// `batch_size × sequence_length`: rows of the residual stream.
    pub(crate) tokens: Dim,
}

/// One layer's cache as it comes in, `[batch, kv_heads, past, head_dim]`.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    pub(crate) key: Value,
    pub(crate) value: Value,
}

/// One layer's cache as it goes out, `[batch, kv_heads, total, head_dim]`.
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
    pub(crate) input_ids: Value,
    pub(crate) attention_mask: Value,
    pub(crate) position_ids: Value,
    table: &'a WeightTable,
    cast: RefCell<HashMap<String, Value>>,
}

impl<'a> Context<'a> {
    /// Declares the inputs that do not belong to a layer.
    ///
    /// With `shares_buffer`, the cache that comes in may be longer than what it holds: the mask alone says how many columns there are.
    pub(crate) fn new(
        g: &mut Graph,
        (form, dialect): (Form, Dialect),
        compute: DType,
        table: &'a WeightTable,
        shares_buffer: bool,
    ) -> Result<Self, Error> {
        let (batch, sequence) = (Dim::symbol("batch_size"), Dim::symbol("sequence_length"));
        let cache = Dim::symbol("past_sequence_length");
        let (past, total) = match shares_buffer {
            false => (cache.clone(), g.define_dim("total_sequence_length", &cache + &sequence)),
            true => {
                let total = Dim::symbol("total_sequence_length");
                (&total - &sequence, total)
            }
        };
        let tokens = g.define_dim("tokens", &batch * &sequence);
        let per_token = [batch.clone(), sequence.clone()];
        let input_ids = g.input("input_ids", DType::I64, &per_token)?;
        let attention_mask = g.input("attention_mask", DType::I64, &[batch.clone(), total.clone()])?;
        let position_ids = g.input("position_ids", DType::I64, &per_token)?;
        // So that every graph reads the input: TensorRT drops one that nothing reads, and ALiBi needs no positions.
        g.read_sizes_off(position_ids);
        let dims = Dims { batch, sequence, past, cache, total, tokens };
        Ok(Self { form, dialect, compute, dims, input_ids, attention_mask, position_ids, table, cast: RefCell::default() })
    }

    /// Declares the cache inputs of every layer.
    pub(crate) fn pasts(&self, g: &mut Graph, spec: &DecoderSpec) -> Result<Vec<Past>, Error> {
        let mut pasts = Vec::new();
        for (index, layer) in spec.layers.iter().enumerate() {
            let (heads, head_dim) = (Dim::from(layer.attention.kv_heads), Dim::from(layer.attention.head_dim));
            let dims = [self.dims.batch.clone(), heads, self.dims.cache.clone(), head_dim];
            let mut input = |part: &str| g.input(&format!("past_key_values.{index}.{part}"), self.compute, &dims);
            pasts.push(Past { key: input("key")?, value: input("value")? });
        }
        Ok(pasts)
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
