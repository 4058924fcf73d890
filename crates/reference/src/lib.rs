//! Eager fp32 reference of a DecoderSpec.
