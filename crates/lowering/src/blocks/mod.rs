//! The parts of a decoder, each a plain function over the builder.

pub(crate) mod activation;
pub(crate) mod alibi;
pub(crate) mod attention;
pub(crate) mod embedding;
pub(crate) mod group_query;
pub(crate) mod head;
pub(crate) mod mask;
pub(crate) mod mlp;
pub(crate) mod norm;
pub(crate) mod projections;
pub(crate) mod rope;
