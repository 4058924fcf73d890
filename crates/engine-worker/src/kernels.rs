//! TensorRT-RTX compiles kernels for the GPU when a context is made; a file keeps them for the next time.

use std::path::{Path, PathBuf};

use cxx::UniquePtr;
use plansmith_engine::protocol::{Event, Failure};
use plansmith_engine::{Gpu, PlanManifest, Severity};
use trtx_sys::nvinfer1::{ICudaEngine, IExecutionContext, IRuntimeCache, IRuntimeConfig};

use crate::failure::failed;
use crate::libraries::owned;
use crate::log::Logger;
use crate::serve::Client;

/// Steps after which the kernels are written down: a prefill and a decode bring the shapes that a session lives with.
const STEPS: u32 = 2;

/// A context with the kernels that it compiled.
pub(crate) struct Kernels {
    cache: UniquePtr<IRuntimeCache>,
    /// After the cache, which it made.
    _config: UniquePtr<IRuntimeConfig>,
    file: Option<PathBuf>,
    steps: u32,
    bytes: usize,
}

/// The file of a plan's kernels in `folder`: other plans, libraries, GPUs and drivers have others.
pub(crate) fn file(folder: &Path, manifest: &PlanManifest, gpu: &Gpu) -> PathBuf {
    let plan: String = manifest.plan.sha256.to_string().chars().take(16).collect();
    let driver = gpu.driver.as_deref().unwrap_or("driver").replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
    folder.join(format!("{plan}-{}-sm{}-{driver}.kernels", manifest.library.version, gpu.compute.replace('.', "")))
}

impl Kernels {
    /// Makes a context of `engine`, with the kernels of `file` where it is there and fits.
    pub(crate) fn context(
        engine: &mut UniquePtr<ICudaEngine>,
        file: Option<PathBuf>,
        logger: &Logger,
    ) -> Result<(UniquePtr<IExecutionContext>, Self), Failure> {
        let nothing = |what: &str| failed(format!("TensorRT makes no {what}"), logger.take(Severity::Warning));
        let mut config = owned(engine.pin_mut().createRuntimeConfig()).ok_or_else(|| nothing("runtime configuration"))?;
        let mut cache = owned(config.createRuntimeCache()).ok_or_else(|| nothing("runtime cache"))?;
        let known = file.as_deref().filter(|path| plansmith_files::is_file(path)).and_then(|path| plansmith_files::read(path).ok());
        if let Some(bytes) = &known {
            // SAFETY: the bytes live for the time of the call. What does not fit this GPU and library is refused, and compiled anew.
            let _ = unsafe { cache.pin_mut().deserialize(bytes.as_ptr().cast(), bytes.len()) };
        }
        if !config.pin_mut().setRuntimeCache(&cache) {
            return Err(nothing("use of a runtime cache"));
        }
        // SAFETY: the configuration is alive for the time of the call.
        let made = unsafe { engine.pin_mut().createExecutionContext1(config.as_mut_ptr()) };
        let context = owned(made).ok_or_else(|| nothing("execution context"))?;
        Ok((context, Self { cache, _config: config, file, steps: 0, bytes: known.map_or(0, |bytes| bytes.len()) }))
    }

    /// Writes the kernels down after the first steps, where there are more than were read. A session does not fail for that.
    pub(crate) fn stepped(&mut self, client: &Client) {
        self.steps = self.steps.saturating_add(1);
        let Some(file) = self.file.as_deref().filter(|_| self.steps <= STEPS) else { return };
        let Some(memory) = owned(self.cache.serialize()) else { return };
        let (data, size) = (memory.data().cast::<u8>(), memory.size());
        if data.is_null() || size <= self.bytes {
            return;
        }
        // SAFETY: `data` points to `size` bytes that live as long as `memory`.
        let bytes = unsafe { std::slice::from_raw_parts(data, size) };
        let folder = file.parent().unwrap_or(Path::new("."));
        let written = plansmith_files::create_dir_all(folder).and_then(|()| plansmith_files::write_atomic(file, bytes));
        match written {
            Ok(()) => self.bytes = size,
            Err(error) => {
                client.event(Event::Log { severity: Severity::Warning, text: format!("compiled kernels are not kept: {error}") });
                self.file = None;
            }
        }
    }
}
