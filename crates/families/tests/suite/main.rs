//! What the families read from configs and tensor lists, against transformers and in whole sentences.

mod defaults;
mod refusals;
mod rope;
mod support;
