//! The header of ONNX Runtime's C API, which PyPI's packages do not hold: Debian's, pinned. It asks the library for its own, older
//! version of the API, which every later library has.

use std::path::PathBuf;

use plansmith_files::{self as files, TempFolder};

use crate::error::Error;
use crate::places;
use crate::process::tail;
use crate::python::Python;

const VERSION: &str = "1.21.0+dfsg-1";
const URL: &str = "http://deb.debian.org/debian/pool/main/o/onnxruntime/libonnxruntime-dev_1.21.0+dfsg-1_amd64.deb";
const SHA256: &str = "14f7d959d5deacbcf1504830d4189f91fc67382b399ed9ae9d3aa9c4050ced08";

/// The folder that holds `onnxruntime_c_api.h`, downloaded if it is not there.
pub(crate) fn get() -> Result<PathBuf, Error> {
    let folder = places::cache()?.join(format!("onnxruntime-header-{VERSION}"));
    if files::is_file(&folder.join("onnxruntime_c_api.h")) {
        return Ok(folder);
    }
    println!("getting ONNX Runtime's C header (Debian libonnxruntime-dev {VERSION}, 85 KB) into {}", folder.display());
    println!("  Microsoft's, under the MIT licence; the text will lie in {}", folder.join("copyright").display());
    let beside = TempFolder::beside(&folder)?;
    let script = Python::find()?.program().arg("-c").arg(include_str!("fetch_deb.py")).args([URL, SHA256]).arg(beside.path());
    let output = script.args(["*/onnxruntime_c_api.h", "*/copyright"]).capture()?;
    if !output.status.success() {
        return Err(Error::Missing {
            what: "ONNX Runtime's C header".into(),
            why: tail(&output.stderr, 1),
            hint: format!(
                "check the network ({URL}), or put onnxruntime_c_api.h into {}; --allow-missing goes on without",
                folder.display()
            ),
        });
    }
    files::replace_folder(beside, &folder)?;
    Ok(folder)
}
