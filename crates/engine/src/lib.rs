//! Profiles, architectures, plan headers and manifests, and the worker protocol.
