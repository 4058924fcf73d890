//! TensorRT worker process.
