//! Memory on the device and pinned memory of the host: allocated once, before the first step.

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys;
use plansmith_engine::DeviceBuffer;
use plansmith_engine::protocol::Failure;

use crate::cuda::{Stream, refuse};
use crate::failure::failed;

/// TensorRT wants an address even for tensors without elements.
const SMALLEST: usize = 256;

/// All that a session of plans has on the device beside the plans themselves.
pub(crate) struct Device {
    buffers: Vec<Buffer>,
}

struct Buffer {
    names: Vec<String>,
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl Device {
    /// Allocates. A context is current in this thread and stays so.
    pub(crate) fn new(wanted: &[DeviceBuffer]) -> Result<Self, Failure> {
        let mut device = Self { buffers: Vec::with_capacity(wanted.len()) };
        let total: u64 = wanted.iter().map(|buffer| buffer.bytes).sum();
        for DeviceBuffer { names, bytes } in wanted {
            let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX).max(SMALLEST);
            let place = || format!("allocating {bytes} bytes for `{}`, of {total} in all", names.join("` and `"));
            // SAFETY: a context is current; the pointer is freed once, when the device is dropped.
            let pointer = unsafe { result::malloc_sync(bytes) }.map_err(|error| refuse(&place(), error))?;
            device.buffers.push(Buffer { names: names.clone(), pointer, bytes });
        }
        Ok(device)
    }

    fn find(&self, name: &str) -> Result<&Buffer, Failure> {
        let found = self.buffers.iter().find(|buffer| buffer.names.iter().any(|known| known == name));
        found.ok_or_else(|| failed(format!("the plan has no `{name}`"), Vec::new()))
    }

    /// Where a tensor of `bytes` is; it stays there.
    pub(crate) fn address(&self, name: &str, bytes: usize) -> Result<*mut c_void, Failure> {
        let buffer = self.find(name)?;
        if bytes > buffer.bytes {
            return Err(failed(format!("`{name}` of {bytes} bytes does not fit its buffer of {}", buffer.bytes), Vec::new()));
        }
        Ok(buffer.pointer as *mut c_void)
    }

    /// Makes two buffers change names: what was written under the one is read under the other.
    pub(crate) fn swap(&mut self, one: &str, other: &str) -> Result<(), Failure> {
        let at = |name: &str| self.buffers.iter().position(|buffer| buffer.names.iter().any(|known| known == name));
        let (Some(first), Some(second)) = (at(one), at(other)) else {
            return Err(failed(format!("the plan has no pair `{one}` and `{other}`"), Vec::new()));
        };
        let names = std::mem::take(&mut self.buffers[first].names);
        self.buffers[first].names = std::mem::replace(&mut self.buffers[second].names, names);
        Ok(())
    }

    /// Sets every byte of a tensor's buffer to 0, in the order of the stream.
    pub(crate) fn clear(&self, name: &str, stream: &Stream) -> Result<(), Failure> {
        let buffer = self.find(name)?;
        // SAFETY: the buffer has that many bytes and lives as long as the stream's work, which its owner waits for before it drops either.
        unsafe { result::memset_d8_async(buffer.pointer, 0, buffer.bytes, stream.raw()) }
            .map_err(|error| refuse("clearing the cache", error))
    }

    /// Copies `bytes`, pinned, to the beginning of a tensor, in the order of the stream.
    pub(crate) fn upload(&self, name: &str, bytes: &[u8], stream: &Stream) -> Result<(), Failure> {
        let address = self.address(name, bytes.len())? as sys::CUdeviceptr;
        // SAFETY: there is room; the pinned bytes stay as they are until the step that reads them was waited for.
        unsafe { result::memcpy_htod_async(address, bytes, stream.raw()) }.map_err(|error| refuse("copying to the GPU", error))
    }

    /// Copies the beginning of a tensor into `bytes`, after all that the stream does, and waits.
    pub(crate) fn download(&self, name: &str, bytes: &mut [u8], stream: &Stream) -> Result<(), Failure> {
        let address = self.address(name, bytes.len())? as sys::CUdeviceptr;
        if !bytes.is_empty() {
            // SAFETY: the buffer holds as many bytes; `bytes` outlives the copy, since the stream is waited for.
            unsafe { result::memcpy_dtoh_async(bytes, address, stream.raw()) }.map_err(|error| refuse("copying from the GPU", error))?;
        }
        stream.wait()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `malloc_sync` and freed once; an error here has nobody to hear it.
        let _ = unsafe { result::free_sync(self.pointer) };
    }
}

/// Memory of the host that the GPU reads and writes by itself.
pub(crate) struct Pinned {
    pointer: *mut u8,
    bytes: usize,
}

impl Pinned {
    /// Allocates and clears `bytes`.
    pub(crate) fn new(bytes: usize) -> Result<Self, Failure> {
        let bytes = bytes.max(SMALLEST);
        // SAFETY: a context is current; the pointer is freed once, when this is dropped.
        let pointer =
            unsafe { result::malloc_host(bytes, 0) }.map_err(|error| refuse(&format!("pinning {bytes} bytes"), error))?.cast::<u8>();
        // SAFETY: the allocation has that many bytes; from here on all of them are initialised.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(Self { pointer, bytes })
    }

    /// All of it.
    pub(crate) fn slice(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are initialised, live as long as this, and nothing else of this process refers to them; the GPU writes them only
        // while a download is waited for.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `malloc_host` and freed once; an error here has nobody to hear it.
        let _ = unsafe { result::free_host(self.pointer.cast()) };
    }
}
