//! TensorRT's log, passed on line by line.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use plansmith_engine::Severity;
use plansmith_engine::protocol::{Event, Failure};

use crate::failure::failed;
use crate::serve::Client;

/// Collects what TensorRT logs, from any of its threads.
struct Sink {
    client: Client,
    /// No driver: then every error is followed by a complaint about CUDA that means nothing.
    without_gpu: bool,
    lines: Mutex<Vec<(Severity, String)>>,
}

/// TensorRT's `ILogger`; it must outlive everything that was made with it.
pub(crate) struct Logger {
    bridge: *mut trtx_sys::RustLoggerBridge,
    sink: Box<Sink>,
}

impl Logger {
    /// A logger that passes lines on to the client.
    pub(crate) fn new(client: Client, without_gpu: bool) -> Result<Self, Failure> {
        let sink = Box::new(Sink { client, without_gpu, lines: Mutex::new(Vec::new()) });
        let data: *const Sink = &raw const *sink;
        // SAFETY: `data` points into a box that lives as long as the bridge; `on_line` reads it as what it is.
        let bridge = unsafe { trtx_sys::create_rust_logger_bridge(on_line, data.cast_mut().cast()) };
        if bridge.is_null() { Err(failed("TensorRT's logger cannot be made", Vec::new())) } else { Ok(Self { bridge, sink }) }
    }

    /// The `ILogger*`.
    pub(crate) fn pointer(&self) -> *mut c_void {
        // SAFETY: the bridge is alive.
        unsafe { trtx_sys::get_logger_interface(self.bridge) }
    }

    /// Takes the lines since the last call, `worst` or graver.
    pub(crate) fn take(&self, worst: Severity) -> Vec<String> {
        let mut lines = self.sink.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.drain(..).filter(|(severity, _)| *severity <= worst).map(|(_, text)| text).collect()
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        // SAFETY: made by `create_rust_logger_bridge` and destroyed once.
        unsafe { trtx_sys::destroy_rust_logger_bridge(self.bridge) }
    }
}

/// Called by TensorRT, in any thread.
unsafe extern "C" fn on_line(data: *mut c_void, severity: i32, text: *const c_char) {
    // A panic must not unwind into C++; a line that cannot be passed on is lost, the build is not.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if data.is_null() || text.is_null() {
            return;
        }
        // SAFETY: `data` is the sink given to the bridge, alive as long as it; `text` is a C string for the time of the call.
        let (sink, text) = unsafe { (&*data.cast_const().cast::<Sink>(), CStr::from_ptr(text)) };
        sink.line(severity, &text.to_string_lossy());
    }));
}

impl Sink {
    fn line(&self, severity: i32, text: &str) {
        let severity = match severity {
            0 => Severity::Internal,
            1 => Severity::Error,
            2 => Severity::Warning,
            3 => Severity::Info,
            _ => Severity::Verbose,
        };
        if self.without_gpu && is_cuda_noise(text) {
            return;
        }
        if severity <= Severity::Warning {
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).push((severity, text.to_owned()));
        }
        if severity <= Severity::Info {
            self.client.event(Event::Log { severity, text: text.to_owned() });
        }
    }
}

/// `cudaErrorInsufficientDriver` (35): what every call into CUDA gives where there is no driver.
fn is_cuda_noise(text: &str) -> bool {
    text.contains("cudaError 35:")
}
