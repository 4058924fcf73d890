//! Pipeline files, stages, cache, manifest and bundle.
