//! What the families read from configs and tensor lists, against transformers and in whole sentences.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod defaults;
mod refusals;
mod registry;
mod rope;
mod support;
