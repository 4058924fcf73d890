//! The reference against transformers, and at its edges.

mod cases;
mod session;
mod support;
