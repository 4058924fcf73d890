//! The reference against transformers, and at its edges.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod cases;
mod noise;
mod session;
mod support;
mod taps;
