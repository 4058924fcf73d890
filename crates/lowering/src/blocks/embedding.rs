//! Token ids to the residual stream.

use plansmith_families::Embedding;
use plansmith_graph::{Dim, Graph, Value};

use crate::Error;
use crate::context::Context;

/// Rows of the table for `input_ids`, `[tokens, hidden_size]` in the compute dtype.
///
/// Rows are gathered before they are cast, so that the table itself is never converted.
pub(crate) fn lookup(g: &mut Graph, cx: &Context<'_>, embedding: &Embedding) -> Result<Value, Error> {
    g.scope("model/embed_tokens", |g| {
        let table = cx.stored(g, &embedding.weight)?;
        let rows = g.gather(table, cx.input_ids, 0)?;
        let rows = g.cast(rows, cx.compute)?;
        let dims = [cx.dims.tokens.clone(), Dim::from(embedding.weight.shape[1])];
        Ok(g.reshape(rows, &dims)?)
    })
}
