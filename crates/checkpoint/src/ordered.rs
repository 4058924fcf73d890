//! Work done in parallel whose results are taken in order.
