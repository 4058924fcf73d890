//! Metrics, tolerances, checks and verdicts over sessions.
