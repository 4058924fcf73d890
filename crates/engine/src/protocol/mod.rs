//! What client and worker say to each other.
//!
//! The worker gets one end of a socket pair as its standard input (the libraries print to standard output). Both ends send frames: a
//! `u32` length, little-endian, then that many bytes of JSON. [`Request::Hello`] comes first and is answered by [`Reply::Hello`]. Every
//! request gets any number of [`Reply::Event`] and then one other reply. Folders, and the memory file in which large tensors lie, follow a
//! request as descriptors. The worker ends when the client's end of the socket closes, whatever it is doing.

mod frame;
mod message;

pub use frame::{receive, receive_descriptor, send, send_descriptor};
pub use message::{
    AlienTimings, BuildOrder, BuiltPlan, BuiltTimings, Event, Failure, Greeting, LoadTimes, OpenOrder, PlanOrder, Ready, Reply, Request,
    Severity, SharedTensor, StepOrder,
};

/// Changes with every change of a message.
pub const VERSION: u32 = 5;

/// What a worker is started with where it is to execute: TensorRT asks for the number of processors when it is loaded, and a builder is told
/// of one.
pub const EXECUTES: &str = "--executes";
