//! The TensorRT worker: builds and runs plans for a `plansmith` that started it.
//!
//! One flavour of TensorRT a build, by feature: `rtx` gives `plansmith-worker-rtx`, `enterprise` `plansmith-worker-enterprise`.
//!
//! It speaks `plansmith_engine::protocol` on its standard input, which is a socket, and ends when the other end closes.

#![allow(unsafe_code, reason = "this crate is the bridge to TensorRT and CUDA; every block says why it is sound")]

mod addresses;
mod build;
mod cuda;
mod device;
mod execute;
mod failure;
#[cfg_attr(feature = "enterprise", path = "kernels_none.rs")]
mod kernels;
mod layers;
mod libraries;
mod log;
mod names;
mod network;
mod parse;
mod partial;
mod progress;
mod refill;
mod refit;
mod serve;
mod timing;
#[cfg(not(feature = "enterprise"))]
mod turns;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use plansmith_engine::Flavor;

/// The flavour that this was compiled for.
pub(crate) const FLAVOR: Flavor = if cfg!(feature = "enterprise") { Flavor::Enterprise } else { Flavor::Rtx };

/// Serves the `plansmith` at the other end of the standard input.
pub fn run() -> ExitCode {
    let addresses = addresses::fix();
    #[cfg(not(feature = "enterprise"))]
    if std::env::args_os().any(|argument| argument == plansmith_engine::protocol::EXECUTES) {
        turns::tell_of_all_processors();
    }
    match rustix::net::sockopt::socket_type(std::io::stdin()) {
        Ok(rustix::net::SocketType::STREAM) => {}
        _ => return refuse("plansmith starts this program and speaks with it on its standard input; it is of no use by itself"),
    }
    match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(stream) => serve::serve(UnixStream::from(stream), addresses),
        Err(error) => refuse(&format!("standard input: {error}")),
    }
}

fn refuse(reason: &str) -> ExitCode {
    // Nobody may be listening; the exit code says the rest.
    let _ = writeln!(std::io::stderr(), "{}: {reason}", FLAVOR.worker_name());
    ExitCode::from(2)
}
