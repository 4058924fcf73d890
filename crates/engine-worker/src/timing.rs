//! What the builder measures, taken from a memory file and left there.

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use cxx::UniquePtr;
use plansmith_engine::Severity;
use plansmith_engine::protocol::{AlienTimings, BuiltTimings, Failure};
use plansmith_files::Digest;
use trtx_sys::nvinfer1::{IBuilderConfig, IHostMemory, ITimingCache};

use crate::failure::{because, failed};
use crate::libraries::owned;
use crate::log::Logger;

/// A timing cache that a builder uses; it must outlive the builder.
pub(crate) struct Timings {
    cache: UniquePtr<ITimingCache>,
    memory: File,
    refused: Option<String>,
}

impl Timings {
    /// Gives the builder the cache in `memory`, or an empty one where there is none.
    pub(crate) fn attach(
        config: &mut UniquePtr<IBuilderConfig>,
        logger: &Logger,
        memory: File,
        alien: AlienTimings,
    ) -> Result<Self, Failure> {
        let unreadable = |error: &dyn std::error::Error| because("the timing cache", error);
        let length = memory.metadata().map_err(|error| unreadable(&error))?.len();
        let mut known = vec![0; usize::try_from(length).map_err(|error| unreadable(&error))?];
        memory.read_exact_at(&mut known, 0).map_err(|error| unreadable(&error))?;
        let mut refused = None;
        if !known.is_empty() {
            logger.take(Severity::Verbose);
            let cache = set(config, &known);
            // Of bytes that it does not know the library makes an empty cache, and warns: measured.
            let mut log = logger.take(Severity::Warning);
            log.retain(|line| line.contains("timing cache"));
            match cache {
                Some(cache) if log.is_empty() => return Ok(Self { cache, memory, refused: None }),
                Some(_) | None => {}
            }
            let reason = "TensorRT does not take it for this GPU and library";
            match alien {
                AlienTimings::Refuse => return Err(Failure::Timings { reason: reason.to_owned(), log }),
                AlienTimings::Replace => refused = Some([&[reason.to_owned()], log.as_slice()].concat().join("; ")),
            }
        }
        let cache = set(config, &[]).ok_or_else(|| failed("TensorRT makes no timing cache", logger.take(Severity::Warning)))?;
        Ok(Self { cache, memory, refused })
    }

    /// Leaves what is known after the build in the memory file.
    pub(crate) fn leave(&self) -> Result<BuiltTimings, Failure> {
        let memory = serialize(&self.cache).ok_or_else(|| failed("TensorRT does not give its timings", Vec::new()))?;
        let (data, size) = (memory.data().cast::<u8>(), memory.size());
        // SAFETY: `data` points to `size` bytes that live as long as `memory`; of none it may be null.
        let bytes = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, size) } };
        let written = self.memory.set_len(0).and_then(|()| self.memory.write_all_at(bytes, 0));
        written.map_err(|error| because("the timing cache", &error))?;
        Ok(BuiltTimings { refused: self.refused.clone(), bytes: bytes.len() as u64, sha256: Digest::of(bytes) })
    }
}

/// A cache of these bytes, which the builder took.
fn set(config: &mut UniquePtr<IBuilderConfig>, bytes: &[u8]) -> Option<UniquePtr<ITimingCache>> {
    let data = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() };
    // SAFETY: `data` points to so many bytes for the time of the call.
    let cache = owned(unsafe { config.createTimingCache(data, bytes.len()) })?;
    config.pin_mut().setTimingCache(&cache, false).then_some(cache)
}

/// `ITimingCache::serialize`, which the bindings lack.
fn serialize(cache: &ITimingCache) -> Option<UniquePtr<IHostMemory>> {
    /// `ITimingCache` of NvInfer.h: a class with virtual functions and one member.
    #[repr(C)]
    struct Outer {
        functions: *const c_void,
        inner: *const Inner,
    }
    /// `apiv::VTimingCache` of NvInferImpl.h. In its table the two entries of the destructor, declared first in `VRoot`, come before `serialize`.
    #[repr(C)]
    struct Inner {
        functions: *const [*const c_void; 3],
    }
    type Serialize = unsafe extern "C" fn(*const Inner) -> *mut IHostMemory;
    let outer: *const Outer = std::ptr::from_ref(cache).cast();
    // SAFETY: with the Itanium ABI an object starts with a pointer to its table of virtual functions, members follow, and the table holds the
    // functions in the order of their declaration. The library's version was compared with the headers'; the test below compiles the headers.
    unsafe {
        let inner = (*outer).inner;
        let serialize: Serialize = std::mem::transmute((*(*inner).functions)[2]);
        owned(serialize(inner))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use libloading::Library;

    use super::*;

    /// The headers that the bindings were made from.
    fn headers() -> PathBuf {
        let cargo = Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--offline"]).output().unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let found = packages.iter().find(|package| package["name"] == "trtx-sys").unwrap();
        PathBuf::from(found["manifest_path"].as_str().unwrap()).with_file_name("TensorRT-Headers")
    }

    /// Compiles a cache by NVIDIA's headers that serialises to seven bytes, and reads it through the table.
    #[test]
    fn the_table_is_that_of_the_headers() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("cache.cpp"), folder.path().join("cache.so"));
        std::fs::write(&source, include_str!("../testdata/timing_cache.cpp")).unwrap();
        let headers = headers();
        let flavor = if cfg!(feature = "enterprise") { "TRT-Enterprise-11.4" } else { "TRT-RTX-1.7" };
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-shared", "-fPIC", "-w", "-isystem"]).arg(headers.join(flavor)).arg("-isystem").arg(&headers);
        assert!(compiler.arg("-o").arg(&library).arg(&source).status().unwrap().success());
        // SAFETY: what was just compiled runs nothing when it is loaded.
        let library = unsafe { Library::new(&library) }.unwrap();
        // SAFETY: the source gives this symbol this type.
        let cache = unsafe { library.get::<unsafe extern "C" fn() -> *mut ITimingCache>(b"make_timing_cache").unwrap()() };
        // SAFETY: the source makes an object that nobody frees.
        let memory = serialize(unsafe { &*cache }).unwrap();
        // SAFETY: so many bytes are there as long as `memory`.
        let bytes = unsafe { std::slice::from_raw_parts(memory.data().cast::<u8>(), memory.size()) };
        assert_eq!(bytes, b"timings");
    }
}
