//! Gives each build the same address space: with another, TensorRT's compiler gives other bytes.

use std::env;
use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use plansmith_engine::RandomisedAddresses;
use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set in the second life, so that there is no third.
const MARK: &str = "PLANSMITH_WORKER_REEXECUTED";

/// The environment lies at the top of the stack and moves what is below it, so only what TensorRT and CUDA need is kept.
const KEPT: [&str; 6] = ["LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TMPDIR", "HOME", "RUST_BACKTRACE"];

/// TensorRT asks for the local time, and without this the C library reads the rules of this machine's zone into its memory.
const ZONE: (&str, &str) = ("TZ", "UTC0");

/// How large the stack may become: what is mapped lies below the room that is left for it, and threads get stacks of this size.
const STACK: u64 = 8 << 20;

/// Every flag of personality(2) that moves addresses.
const MOVING: libc::c_ulong = (libc::ADDR_NO_RANDOMIZE
    | libc::MMAP_PAGE_ZERO
    | libc::ADDR_COMPAT_LAYOUT
    | libc::READ_IMPLIES_EXEC
    | libc::ADDR_LIMIT_32BIT
    | libc::ADDR_LIMIT_3GB) as libc::c_ulong;

const WANTED: libc::c_ulong = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;

/// Executes this program anew with the addresses that every worker has, and says what came of it.
pub(crate) fn fix() -> RandomisedAddresses {
    let outcome = if env::var_os(MARK).is_some() { check() } else { again() };
    match outcome {
        Ok(()) => RandomisedAddresses::Off,
        Err(reason) => RandomisedAddresses::On { reason },
    }
}

/// Returns only where that cannot be done.
fn again() -> Result<(), String> {
    let current = personality(0xffff_ffff).map_err(|error| format!("personality(2) cannot be read: {error}"))?;
    personality(current & !MOVING | WANTED).map_err(|error| format!("personality(ADDR_NO_RANDOMIZE): {error}"))?;
    let maximum = getrlimit(Resource::Stack).maximum;
    if let Some(maximum) = maximum.filter(|&maximum| maximum < STACK) {
        return Err(format!("the stack may not become larger than {} KiB (ulimit -H -s); {} are needed", maximum >> 10, STACK >> 10));
    }
    setrlimit(Resource::Stack, Rlimit { current: Some(STACK), maximum }).map_err(|error| format!("the stack's limit: {error}"))?;
    close_inherited()?;
    let kept = KEPT.into_iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?)));
    let mut itself = Command::new("/proc/self/exe");
    itself.args(env::args_os().skip(1)).env_clear().envs(kept).env(ZONE.0, ZONE.1).env(MARK, "1");
    Err(format!("executing anew: {}", itself.exec()))
}

/// Whether all is as [`again`] left it.
fn check() -> Result<(), String> {
    let current = personality(0xffff_ffff).map_err(|error| format!("personality(2) cannot be read: {error}"))?;
    if current & MOVING != WANTED {
        return Err(format!("the system turned it on again: personality {current:#x}"));
    }
    match getrlimit(Resource::Stack).current {
        Some(STACK) => {}
        other => return Err(format!("the system changed the stack's limit to {other:?} bytes")),
    }
    match env::vars_os().find(|(name, _)| ![MARK, ZONE.0].iter().chain(&KEPT).any(|kept| name == kept)) {
        Some((name, _)) => Err(format!("the system added {} to the environment", name.display())),
        None => Ok(()),
    }
}

/// Has what else is open closed when this program is executed anew: the number of a descriptor is part of the libraries' path.
fn close_inherited() -> Result<(), String> {
    let names = plansmith_files::list(Path::new("/proc/self/fd")).map_err(|error| format!("descriptors cannot be listed: {error}"))?;
    for name in names {
        let number = name.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(-1);
        if number > std::io::stderr().as_raw_fd() {
            // SAFETY: whether it is open or not, only its flag is set.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            // Fails for the one that read the list, which is gone.
            let _ = rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

fn personality(persona: libc::c_ulong) -> std::io::Result<libc::c_ulong> {
    // SAFETY: personality(2) takes a number and touches no memory of ours.
    let previous = unsafe { libc::personality(persona) };
    if previous < 0 { Err(std::io::Error::last_os_error()) } else { Ok(previous as libc::c_ulong) }
}
