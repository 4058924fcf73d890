//! The CUDA driver, loaded when it is there.

use std::path::Path;

use cudarc::driver::result::{self, DriverError, stream};
use cudarc::driver::sys;
use plansmith_engine::Gpu;
use plansmith_engine::protocol::Failure;

use crate::failure::failed;

/// The GPU of this number, counted from 0, or why there is none.
pub(crate) fn gpu(index: u32) -> Result<Gpu, String> {
    // SAFETY: looks for libcuda.so by name; its initialisers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no CUDA driver (libcuda.so.1) here".to_owned());
    }
    let why = |error: DriverError| format!("the CUDA driver says {error}");
    result::init().map_err(why)?;
    let count = result::device::get_count().map_err(why)?;
    let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
    match count {
        ..1 => return Err("the CUDA driver shows no GPU".to_owned()),
        _ if ordinal >= count => return Err(format!("GPU {index} was asked for; the CUDA driver shows {count}, counted from 0")),
        _ => {}
    }
    let device = result::device::get(ordinal).map_err(why)?;
    let mut version = 0;
    // SAFETY: `device` was given by the driver; `version` is written by the call.
    let (major, minor, memory) = unsafe {
        sys::cuDriverGetVersion(&raw mut version).result().map_err(why)?;
        (
            result::device::get_attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).map_err(why)?,
            result::device::get_attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).map_err(why)?,
            result::device::total_mem(device).map_err(why)?,
        )
    };
    Ok(Gpu {
        name: result::device::get_name(device).map_err(why)?,
        compute: format!("{major}.{minor}"),
        cuda: format!("{}.{}", version / 1000, version % 1000 / 10),
        driver: plansmith_files::read_to_string(Path::new("/sys/module/nvidia/version")).ok().map(|text| text.trim().to_owned()),
        memory: memory as u64,
    })
}

/// A failure of the driver.
pub(crate) fn refuse(doing: &str, error: DriverError) -> Failure {
    failed(format!("CUDA fails {doing}: {error}"), Vec::new())
}

/// A stream in the primary context of a GPU, which is the context that TensorRT uses as well.
#[derive(Debug)]
pub(crate) struct Stream(sys::CUstream);

impl Stream {
    /// Makes the context current in this thread. [`gpu`] must have found this GPU.
    pub(crate) fn new(index: u32) -> Result<Self, Failure> {
        let refuse = |error| refuse("making a context", error);
        let device = result::device::get(i32::try_from(index).unwrap_or(i32::MAX)).map_err(refuse)?;
        // SAFETY: `device` was given by the driver; the context stays retained as long as the process lives.
        unsafe { result::primary_ctx::retain(device).and_then(|context| result::ctx::set_current(context)).map_err(refuse)? };
        stream::create(stream::StreamKind::NonBlocking).map(Self).map_err(refuse)
    }

    /// For TensorRT.
    pub(crate) fn raw(&self) -> sys::CUstream {
        self.0
    }

    /// Waits for all that was put on it.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        // SAFETY: the stream is alive.
        unsafe { stream::synchronize(self.0) }.map_err(|error| refuse("running", error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `stream::create` and destroyed once; an error here has nobody to hear it.
        let _ = unsafe { stream::destroy(self.0) };
    }
}
