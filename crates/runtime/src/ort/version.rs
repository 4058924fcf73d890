//! Asks a library for its version, before anything commits to it.

#![allow(unsafe_code, reason = "a library is loaded and one of its functions called")]

use std::ffi::CStr;
use std::path::Path;

use libloading::{Library, Symbol};
use ort::sys::OrtApiBase;

/// The version that the library at `path` reports, `1.32.0` for example; or why it is no ONNX Runtime.
pub(super) fn version_of(path: &Path) -> Result<String, String> {
    // SAFETY: loading runs the library's initialisers. The user, or a search of the documented places, named it as an ONNX Runtime,
    // whose initialisers have no precondition.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: `OrtGetApiBase` has this signature in every release of ONNX Runtime.
    let base: Symbol<'_, unsafe extern "C" fn() -> *const OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase\0") }.map_err(|_| "it does not export OrtGetApiBase".to_owned())?;
    // SAFETY: the function has no precondition and returns a pointer to a static, or null.
    let base = unsafe { base().as_ref() }.ok_or("OrtGetApiBase returned null")?;
    // SAFETY: the function has no precondition; the string it returns is static in the library, which stays loaded during the copy.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    version.to_str().map(str::to_owned).map_err(|_| "its version is not UTF-8".to_owned())
}
