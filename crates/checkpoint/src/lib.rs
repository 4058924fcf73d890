//! Find, validate and map checkpoint weights.
