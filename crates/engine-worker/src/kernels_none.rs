//! The enterprise flavour compiles its kernels when it builds a plan: there is nothing to keep for the next time.

use std::path::{Path, PathBuf};

use cxx::UniquePtr;
use plansmith_engine::protocol::Failure;
use plansmith_engine::{Gpu, PlanManifest, Severity};
use trtx_sys::ExecutionContextAllocationStrategy;
use trtx_sys::nvinfer1::{ICudaEngine, IExecutionContext};

use crate::failure::failed;
use crate::libraries::owned;
use crate::log::Logger;
use crate::serve::Client;

/// Nothing.
pub(crate) struct Kernels;

/// A file that is never written.
pub(crate) fn file(folder: &Path, _: &PlanManifest, _: &Gpu) -> PathBuf {
    folder.to_owned()
}

impl Kernels {
    /// Makes a context of `engine`.
    pub(crate) fn context(
        engine: &mut UniquePtr<ICudaEngine>,
        _: Option<PathBuf>,
        logger: &Logger,
    ) -> Result<(UniquePtr<IExecutionContext>, Self), Failure> {
        let made = engine.pin_mut().createExecutionContext(ExecutionContextAllocationStrategy::kSTATIC.into());
        let context = owned(made).ok_or_else(|| failed("TensorRT makes no execution context", logger.take(Severity::Warning)))?;
        Ok((context, Self))
    }

    /// Does nothing.
    pub(crate) fn stepped(&mut self, _: &Client) {}
}
