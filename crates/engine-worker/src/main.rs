//! `plansmith-worker-rtx`: builds and runs TensorRT-RTX plans for a `plansmith` that started it.
//!
//! It speaks `plansmith_engine::protocol` on its standard input, which is a socket, and ends when the other end closes.

#![allow(unsafe_code, reason = "this crate is the bridge to TensorRT and CUDA; every block says why it is sound")]

mod addresses;
mod build;
mod cuda;
mod device;
mod execute;
mod failure;
mod kernels;
mod libraries;
mod log;
mod network;
mod parse;
mod partial;
mod progress;
mod serve;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    let addresses = addresses::fix();
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
    let _ = writeln!(std::io::stderr(), "plansmith-worker-rtx: {reason}");
    ExitCode::from(2)
}
