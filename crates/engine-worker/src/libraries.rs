//! TensorRT's two libraries, loaded by path.

use std::ffi::c_void;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use libloading::{Library, Symbol};
use plansmith_engine::protocol::Failure;
use plansmith_engine::{FileRecord, LibraryRecord, PlanVersion};
use trtx_sys::{nvinfer1, nvonnxparser};

use crate::FLAVOR;
use crate::failure::{because, failed};
use crate::log::Logger;

/// Both libraries, in the version of the headers that this worker was compiled with. They stay loaded.
pub(crate) struct Libraries {
    core: Library,
    parser: Library,
    /// Through it the libraries have the same path wherever they lie; a path's length moves what is allocated after it.
    _folder: OwnedFd,
    /// Version and digests.
    pub(crate) record: LibraryRecord,
}

impl Libraries {
    /// Loads the core library, then the parser, which needs it.
    pub(crate) fn load(folder: OwnedFd) -> Result<Self, Failure> {
        let place = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let [core_path, parser_path] = FLAVOR.libraries().map(|name| place.join(name));
        let core = open(&core_path)?;
        let version = version(&core)?;
        let parser = open(&parser_path)?;
        let record = |path: &Path| FileRecord::of(path).map_err(|error| because("TensorRT's libraries", &error));
        let record = LibraryRecord { version, core: record(&core_path)?, parser: record(&parser_path)? };
        Ok(Self { core, parser, _folder: folder, record })
    }

    /// A builder. The logger must outlive it.
    pub(crate) fn builder(&self, logger: &Logger) -> Result<cxx::UniquePtr<nvinfer1::IBuilder>, Failure> {
        self.make(logger, "createInferBuilder_INTERNAL")
    }

    /// A runtime. The logger must outlive it.
    pub(crate) fn runtime(&self, logger: &Logger) -> Result<cxx::UniquePtr<nvinfer1::IRuntime>, Failure> {
        self.make(logger, "createInferRuntime_INTERNAL")
    }

    /// What puts weights into `engine`, which must outlive it, as must the logger.
    pub(crate) fn refitter(
        &self,
        logger: &Logger,
        engine: &mut cxx::UniquePtr<nvinfer1::ICudaEngine>,
    ) -> Result<cxx::UniquePtr<nvinfer1::IRefitter>, Failure> {
        type Make = unsafe extern "C" fn(*mut c_void, *mut c_void, u32) -> *mut nvinfer1::IRefitter;
        let name = "createInferRefitter_INTERNAL";
        // SAFETY: the factory function has this signature in NvInferRuntime.h of the version that was compared; `engine` is alive.
        let made =
            unsafe { symbol::<Make>(&self.core, name)?(engine.as_mut_ptr().cast(), logger.pointer(), trtx_sys::get_tensorrt_version()) };
        owned(made).ok_or_else(|| failed(format!("{name} gave nothing"), logger.take(plansmith_engine::Severity::Error)))
    }

    fn make<T: cxx::memory::UniquePtrTarget>(&self, logger: &Logger, name: &str) -> Result<cxx::UniquePtr<T>, Failure> {
        type Make<T> = unsafe extern "C" fn(*mut c_void, u32) -> *mut T;
        // SAFETY: both factory functions have this signature in NvInfer.h and NvInferRuntime.h of the version that was compared.
        let made = unsafe { symbol::<Make<T>>(&self.core, name)?(logger.pointer(), trtx_sys::get_tensorrt_version()) };
        // SAFETY: the factory gives an object of its own to its caller, or null.
        owned(made).ok_or_else(|| failed(format!("{name} gave nothing"), logger.take(plansmith_engine::Severity::Error)))
    }

    /// A parser that fills `network`. It must outlive the build: the weights are its own.
    pub(crate) fn parser(
        &self,
        logger: &Logger,
        network: &mut cxx::UniquePtr<nvinfer1::INetworkDefinition>,
    ) -> Result<cxx::UniquePtr<nvonnxparser::IParser>, Failure> {
        type Make = unsafe extern "C" fn(*mut c_void, *mut c_void, u32) -> *mut nvonnxparser::IParser;
        let name = "createNvOnnxParser_INTERNAL";
        // SAFETY: the factory function has this signature in NvOnnxParser.h of the version that was compared; `network` is alive.
        let made = unsafe {
            symbol::<Make>(&self.parser, name)?(network.as_mut_ptr().cast(), logger.pointer(), trtx_sys::get_nvonnxparser_version())
        };
        owned(made).ok_or_else(|| failed(format!("{name} gave nothing"), logger.take(plansmith_engine::Severity::Error)))
    }
}

/// Takes ownership of what a factory function gave; null is `None`.
pub(crate) fn owned<T: cxx::memory::UniquePtrTarget>(made: *mut T) -> Option<cxx::UniquePtr<T>> {
    if made.is_null() {
        return None;
    }
    // SAFETY: TensorRT's factory functions give each object to its caller, who deletes it; the callers here pass nothing else.
    Some(unsafe { cxx::UniquePtr::from_raw(made) })
}

fn open(path: &Path) -> Result<Library, Failure> {
    // SAFETY: initialisers of the library run; it is NVIDIA's, named by the user.
    unsafe { Library::new(path) }
        .map_err(|error| because(&format!("cannot load `{}`", path.file_name().unwrap_or_default().display()), &error))
}

fn symbol<'lib, T>(library: &'lib Library, name: &str) -> Result<Symbol<'lib, T>, Failure> {
    // SAFETY: every caller names the type that the headers give this symbol.
    unsafe { library.get(name.as_bytes()) }.map_err(|error| because(&format!("TensorRT has no `{name}`"), &error))
}

/// The library accepts a builder of any version number, so the versions are compared here.
fn version(core: &Library) -> Result<PlanVersion, Failure> {
    type Version = unsafe extern "C" fn() -> i32;
    // SAFETY: NvInferRuntimeBase.h and NvInferRuntime.h give these symbols this type.
    let (library, build) =
        unsafe { (symbol::<Version>(core, "getInferLibVersion")?(), symbol::<Version>(core, "getInferLibBuildVersion")?()) };
    // SAFETY: returns a constant of the headers.
    let headers = unsafe { trtx_sys::get_tensorrt_version() };
    let parts = |version: u32| [version / 10_000, version / 100 % 100, version % 100];
    let library = u32::try_from(library).unwrap_or(0);
    if library != headers {
        let text = |version| parts(version).map(|part| part.to_string()).join(".");
        let (found, wanted) = (text(library), text(headers));
        let message = format!("{} {found} was found; this worker was compiled for {wanted}: install that version", FLAVOR.title());
        return Err(failed(message, Vec::new()));
    }
    let [major, minor, patch] = parts(library);
    let byte = |part: u32| {
        u8::try_from(part).map_err(|_| failed(format!("{} says its version is {library} build {build}", FLAVOR.title()), Vec::new()))
    };
    Ok(PlanVersion { parts: [byte(major)?, byte(minor)?, byte(patch)?, byte(u32::try_from(build).unwrap_or(u32::MAX))?] })
}
