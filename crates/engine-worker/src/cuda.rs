//! The CUDA driver, loaded when it is there.

use std::path::Path;

use cudarc::driver::result::{self, DriverError, stream};
use cudarc::driver::sys;
use plansmith_engine::Gpu;
use plansmith_engine::protocol::Failure;

use crate::failure::failed;

/// The first GPU, or why there is none.
pub(crate) fn first_gpu() -> Result<Gpu, String> {
    // SAFETY: looks for libcuda.so by name; its initialisers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no CUDA driver (libcuda.so.1) here".to_owned());
    }
    let why = |error: DriverError| format!("the CUDA driver says {error}");
    result::init().map_err(why)?;
    if result::device::get_count().map_err(why)? < 1 {
        return Err("the CUDA driver shows no GPU".to_owned());
    }
    let device = result::device::get(0).map_err(why)?;
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

fn refuse(doing: &str, error: DriverError) -> Failure {
    failed(format!("CUDA fails {doing}: {error}"), Vec::new())
}

/// A stream in the primary context of the first GPU, which is the context that TensorRT uses as well.
#[derive(Debug)]
pub(crate) struct Stream(sys::CUstream);

impl Stream {
    /// Makes the context current in this thread. [`first_gpu`] must have found a GPU.
    pub(crate) fn new() -> Result<Self, Failure> {
        let refuse = |error| refuse("making a context", error);
        let device = result::device::get(0).map_err(refuse)?;
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

/// Memory of the GPU that grows; what it held is lost when it does.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    capacity: usize,
}

/// TensorRT wants an address even for tensors without elements.
const SMALLEST: usize = 256;

impl Buffer {
    /// Makes room for `bytes`, half as much again where it must grow, so that a cache that grows by a token a step rarely moves.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes.max(SMALLEST) <= self.capacity {
            return Ok(());
        }
        self.free();
        let capacity = bytes.saturating_add(bytes / 2).max(SMALLEST);
        // SAFETY: a context is current; the pointer is freed once, by `free`.
        self.pointer = unsafe { result::malloc_sync(capacity) }.map_err(|error| refuse(&format!("allocating {capacity} bytes"), error))?;
        self.capacity = capacity;
        Ok(())
    }

    /// Its address; valid until it grows.
    pub(crate) fn address(&self) -> *mut std::ffi::c_void {
        self.pointer as *mut std::ffi::c_void
    }

    /// Puts a copy of `bytes` into it on `stream`, and waits.
    pub(crate) fn upload(&mut self, bytes: &[u8], stream: &Stream) -> Result<(), Failure> {
        self.reserve(bytes.len())?;
        // SAFETY: there is room for `bytes`, which outlive the copy, since the stream is waited for.
        unsafe { result::memcpy_htod_async(self.pointer, bytes, stream.0) }.map_err(|error| refuse("copying to the GPU", error))?;
        stream.wait()
    }

    /// The first `length` bytes, after all that `stream` does.
    pub(crate) fn download(&self, length: usize, stream: &Stream) -> Result<Vec<u8>, Failure> {
        if length > self.capacity {
            return Err(failed(format!("{length} bytes were asked of a buffer of {}", self.capacity), Vec::new()));
        }
        let mut bytes = vec![0; length];
        if length > 0 {
            // SAFETY: the buffer holds `length` bytes; `bytes` outlives the copy, since the stream is waited for.
            unsafe { result::memcpy_dtoh_async(&mut bytes, self.pointer, stream.0) }
                .map_err(|error| refuse("copying from the GPU", error))?;
        }
        stream.wait()?;
        Ok(bytes)
    }

    fn free(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated by `malloc_sync` and freed once; an error here has nobody to hear it.
            let _ = unsafe { result::free_sync(self.pointer) };
            (self.pointer, self.capacity) = (0, 0);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.free();
    }
}
