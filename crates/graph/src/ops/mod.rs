//! The operators, one file a group. Each method adds one node and returns what it computes.

mod activation;
mod arithmetic;
mod attention;
mod group_query;
mod index;
mod layout;
mod linear;
mod logic;
mod norm;
mod reduce;
mod rotary_at;
mod shape;

pub use attention::{AttentionOptions, RotaryOptions};
pub use group_query::GroupQuery;
