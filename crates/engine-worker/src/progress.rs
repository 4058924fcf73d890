//! TensorRT's progress, passed on.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use plansmith_engine::protocol::{Event, Failure};
use trtx_sys::nvinfer1::IProgressMonitor;

use crate::failure::failed;
use crate::serve::Client;

/// TensorRT's `IProgressMonitor`; it must outlive the build that it watches.
pub(crate) struct Monitor {
    monitor: *mut IProgressMonitor,
    client: Box<Client>,
}

impl Monitor {
    /// A monitor that passes phases and steps on to the client.
    pub(crate) fn new(client: Client) -> Result<Self, Failure> {
        let client = Box::new(client);
        let data: *const Client = &raw const *client;
        // SAFETY: `data` points into a box that lives as long as the monitor; the functions read it as what it is. The bindings declare
        // `extern "system"`, which is the C convention on every platform that this worker is built for.
        let monitor = unsafe { trtx_sys::trtx_create_progress_monitor(data.cast_mut().cast(), started, at, ended) };
        if monitor.is_null() {
            return Err(failed("TensorRT's progress monitor cannot be made", Vec::new()));
        }
        Ok(Self { monitor, client })
    }

    /// The `IProgressMonitor*`.
    pub(crate) fn pointer(&self) -> *mut IProgressMonitor {
        self.monitor
    }

    /// Tells the client of a phase of our own while `work` runs.
    pub(crate) fn phase<T>(&self, phase: &str, work: impl FnOnce() -> T) -> T {
        self.client.event(Event::PhaseStarted { phase: phase.to_owned(), parent: None, steps: 1 });
        let result = work();
        self.client.event(Event::PhaseEnded { phase: phase.to_owned() });
        result
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // SAFETY: made by `trtx_create_progress_monitor` and destroyed once.
        unsafe { trtx_sys::trtx_destroy_progress_monitor(self.monitor) }
    }
}

/// Sends what `event` makes of the texts; a panic must not unwind into C++.
fn pass(data: *mut c_void, phase: *const c_char, parent: *const c_char, event: impl FnOnce(String, Option<String>) -> Event) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: TensorRT gives a C string for the time of the call, or null.
        let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        if data.is_null() {
            return;
        }
        // SAFETY: `data` is the client given to the monitor, alive as long as it.
        let client = unsafe { &*data.cast_const().cast::<Client>() };
        client.event(event(text(phase).unwrap_or_default(), text(parent)));
    }));
}

unsafe extern "system" fn started(data: *mut c_void, phase: *const c_char, parent: *const c_char, steps: i32) {
    pass(data, phase, parent, |phase, parent| Event::PhaseStarted {
        phase,
        parent: Some(parent.unwrap_or_else(|| "build".to_owned())),
        steps: u32::try_from(steps).unwrap_or(0),
    });
}

unsafe extern "system" fn at(data: *mut c_void, phase: *const c_char, step: i32) -> bool {
    pass(data, phase, std::ptr::null(), |phase, _| Event::PhaseAt { phase, done: u32::try_from(step).unwrap_or(0) + 1 });
    // Go on: a client that wants no more closes its end.
    true
}

unsafe extern "system" fn ended(data: *mut c_void, phase: *const c_char) {
    pass(data, phase, std::ptr::null(), |phase, _| Event::PhaseEnded { phase });
}
