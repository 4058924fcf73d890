//! Model families: config to DecoderSpec and tensor names.
