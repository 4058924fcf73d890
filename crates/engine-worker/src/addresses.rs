//! Turns address-space randomisation off: with it, two builds of one plan differ.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use plansmith_engine::RandomisedAddresses;

/// Set in the second life, so that there is no third.
const MARK: &str = "PLANSMITH_WORKER_REEXECUTED";

/// The environment lies at the top of the stack and moves what is below it, so only what TensorRT and CUDA need is kept.
const KEPT: [&str; 6] = ["LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TMPDIR", "HOME", "RUST_BACKTRACE"];

/// Executes this program anew with fixed addresses, and says what came of it.
pub(crate) fn fix() -> RandomisedAddresses {
    let on = |reason: String| RandomisedAddresses::On { reason };
    let current = match personality(0xffff_ffff) {
        Ok(current) => current,
        Err(error) => return on(format!("personality(2) cannot be read: {error}")),
    };
    let fixed = current & libc::ADDR_NO_RANDOMIZE as libc::c_ulong != 0;
    if env::var_os(MARK).is_some() {
        return if fixed { RandomisedAddresses::Off } else { on("the system turned it on again".to_owned()) };
    }
    if let Err(error) = personality(current | libc::ADDR_NO_RANDOMIZE as libc::c_ulong) {
        return on(format!("personality(ADDR_NO_RANDOMIZE): {error}"));
    }
    let kept = KEPT.into_iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?)));
    let error = Command::new("/proc/self/exe").args(env::args_os().skip(1)).env_clear().envs(kept).env(MARK, "1").exec();
    on(format!("executing anew: {error}"))
}

fn personality(persona: libc::c_ulong) -> std::io::Result<libc::c_ulong> {
    // SAFETY: personality(2) takes a number and touches no memory of ours.
    let previous = unsafe { libc::personality(persona) };
    if previous < 0 { Err(std::io::Error::last_os_error()) } else { Ok(previous as libc::c_ulong) }
}
