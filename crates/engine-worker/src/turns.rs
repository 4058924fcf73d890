//! One thread at a time, so that a plan's bytes do not depend on who comes first.
//!
//! TensorRT's compiler sorts by address here and there. Beside the thread that builds it keeps one for small jobs and starts idle pools;
//! what those allocate and free, while the builder does too, decides where the builder's next objects lie. So this program defines the
//! functions of POSIX threads that wake a thread, in front of the C library's: after each, the builder waits until every other thread
//! sleeps or has ended. A thread that has ended gives its memory back when it is joined. And TensorRT is told of one processor, from the
//! moment that it is loaded, since the number of threads in a pool, too, changes what lies where.
//!
//! Nothing here allocates, and before [`take`] everything else goes straight on to the C library.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use libc::{pthread_attr_t, pthread_cond_t, pthread_mutex_t, pthread_t};

/// Threads that are watched; what comes after them is not.
const THREADS: usize = 4096;

/// How long a thread is waited for; longer is no short job, or it turns in circles until the builder goes on.
const PATIENCE: Duration = Duration::from_secs(5);

/// After a wake, the thread may stand before a mutex that the builder holds: so many of the builder's next unlocks are waited at, too.
const UNLOCKS: u32 = 8;

/// What `Thread::id` is when the thread has ended, or was never started.
const ENDED: i32 = -1;

struct Thread {
    start: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
    /// Its number to the kernel; 0 until it runs.
    id: AtomicI32,
    /// Its number to the C library.
    handle: AtomicU64,
    /// Whether it may end: somebody waits for it, or nobody ever will.
    free: AtomicU32,
}

#[expect(clippy::declare_interior_mutable_const, reason = "what a static is filled with")]
const NEW: Thread = Thread {
    start: AtomicPtr::new(null_mut()),
    argument: AtomicPtr::new(null_mut()),
    id: AtomicI32::new(ENDED),
    handle: AtomicU64::new(0),
    free: AtomicU32::new(0),
};

static ALL: [Thread; THREADS] = [NEW; THREADS];
static STARTED: AtomicUsize = AtomicUsize::new(0);
/// The thread that builds; 0 before there is one.
static BUILDER: AtomicU64 = AtomicU64::new(0);
static UNLOCKS_LEFT: AtomicU32 = AtomicU32::new(0);
static OUT_OF_TURN: AtomicU64 = AtomicU64::new(0);
static ALL_PROCESSORS: AtomicBool = AtomicBool::new(false);

/// Tells TensorRT of all processors: for a worker that executes. Before the library is loaded, which asks then already.
pub(crate) fn tell_of_all_processors() {
    ALL_PROCESSORS.store(true, SeqCst);
}

/// From here on other threads run only while the calling one waits for them.
pub(crate) fn take() {
    // SAFETY: a number in, nothing out. The default depends on the number of processors.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 16) };
    // SAFETY: always succeeds.
    BUILDER.store(unsafe { libc::pthread_self() }, SeqCst);
}

/// From here on all run as they like.
pub(crate) fn give_back() {
    BUILDER.store(0, SeqCst);
    started().iter().for_each(|thread| thread.free.store(1, SeqCst));
}

/// How many times since [`take`] a thread ran beside the builder nevertheless.
pub(crate) fn out_of_turn() -> u64 {
    OUT_OF_TURN.load(SeqCst)
}

fn builds() -> bool {
    // SAFETY: always succeeds.
    BUILDER.load(SeqCst) == unsafe { libc::pthread_self() }
}

/// Waits until all others sleep, where the builder calls it.
fn rest() {
    if !builds() {
        return;
    }
    let patience = Instant::now() + PATIENCE;
    let mut calm = 0;
    while calm < 2 {
        calm = if started().iter().any(runs) { 0 } else { calm + 1 };
        if Instant::now() > patience {
            OUT_OF_TURN.fetch_add(1, SeqCst);
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn rest_after_waking() {
    if builds() {
        UNLOCKS_LEFT.store(UNLOCKS, SeqCst);
        rest();
    }
}

fn started() -> &'static [Thread] {
    &ALL[..STARTED.load(SeqCst).min(THREADS)]
}

/// Whether the kernel says that the thread, another than the builder, does anything but sleep.
fn runs(thread: &Thread) -> bool {
    if thread.handle.load(SeqCst) == BUILDER.load(SeqCst) {
        return false;
    }
    let id = match thread.id.load(SeqCst) {
        ENDED => return false,
        0 => return true,
        id => id,
    };
    let mut path = Text::default();
    let mut stat = [0; 512];
    // Where its folder is gone, so is the thread.
    let Ok(()) = write!(path, "/proc/self/task/{id}/stat\0") else { return false };
    let Ok(path) = CStr::from_bytes_until_nul(&path.bytes) else { return false };
    let Ok(file) = rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()) else { return false };
    let Ok(length) = rustix::io::read(&file, &mut stat) else { return false };
    // `12 (name) S …`, and the name may hold anything.
    let end = stat[..length].iter().rposition(|&byte| byte == b')');
    end.is_some_and(|end| stat.get(end + 2) != Some(&b'S'))
}

#[derive(Debug)]
struct Text {
    bytes: [u8; 64],
    length: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; 64], length: 0 }
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Lets a thread end that stands at its end.
fn free(handle: pthread_t) {
    for thread in started().iter().filter(|thread| thread.handle.load(SeqCst) == handle) {
        thread.free.store(1, SeqCst);
    }
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a thread runs instead of what it was started for.
extern "C-unwind" fn run(thread: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` gives an element of `ALL`.
    let thread = unsafe { &*thread.cast_const().cast::<Thread>() };
    thread.id.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
    // SAFETY: `pthread_create` stored it, as it was given it.
    let start = unsafe { std::mem::transmute::<*mut c_void, Start>(thread.start.load(SeqCst)) };
    let result = start(thread.argument.load(SeqCst));
    thread.id.store(ENDED, SeqCst);
    while thread.free.load(SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    result
}

/// The C library's function of this name.
///
/// Of those of condition variables glibc has two versions on x86-64, of which plain `dlsym` gives the older one before glibc 2.36
/// (<https://sourceware.org/bugzilla/show_bug.cgi?id=14932>); TensorRT calls the newer ones, and the two do not understand each other.
fn real(name: &CStr) -> *mut c_void {
    let mut found = null_mut();
    // A version that does not exist would allocate a message.
    if cfg!(target_arch = "x86_64") && name.to_bytes().starts_with(b"pthread_cond_") {
        // SAFETY: both end with a zero.
        found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
    }
    if found.is_null() {
        // SAFETY: `name` ends with a zero.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    }
    if found.is_null() {
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    found
}

const fn name_of(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the name of a function holds no zero, and one ends it"),
    }
}

/// Defines a function in front of the C library's: `next` in its body is that one.
macro_rules! in_front {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $next:ident $body:block)*) => {$(
        /// As the C library's; see the module.
        // SAFETY: it does what the C library's function of this name does, and only sleeps in addition.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            let mut next = NEXT.load(SeqCst);
            if next.is_null() {
                next = real(const { name_of(concat!(stringify!($name), "\0")) });
                NEXT.store(next, SeqCst);
            }
            // SAFETY: the C library's function of this name has this signature.
            let $next = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($kind),*) -> $result>(next) };
            $body
        }
    )*};
}

in_front! {
    fn pthread_create(handle: *mut pthread_t, attributes: *const pthread_attr_t, start: *mut c_void, argument: *mut c_void) -> c_int, next {
        let Some(thread) = ALL.get(STARTED.fetch_add(1, SeqCst)) else {
            OUT_OF_TURN.fetch_add(1, SeqCst);
            // SAFETY: the arguments are the caller's.
            return unsafe { next(handle, attributes, start, argument) };
        };
        thread.start.store(start, SeqCst);
        thread.argument.store(argument, SeqCst);
        thread.id.store(0, SeqCst);
        thread.free.store((BUILDER.load(SeqCst) == 0 || detached(attributes)).into(), SeqCst);
        let code = {
            let (run, thread) = (run as Start as *mut c_void, (&raw const *thread).cast_mut().cast());
            // SAFETY: `run` is what a thread runs, and its argument lives as long as the program; the others are the caller's.
            unsafe { next(handle, attributes, run, thread) }
        };
        if code == 0 {
            // SAFETY: filled by the call.
            thread.handle.store(unsafe { *handle }, SeqCst);
            rest();
        } else {
            thread.id.store(ENDED, SeqCst);
        }
        code
    }

    fn pthread_join(handle: pthread_t, result: *mut *mut c_void) -> c_int, next {
        free(handle);
        // SAFETY: the arguments are the caller's.
        unsafe { next(handle, result) }
    }

    fn pthread_detach(handle: pthread_t) -> c_int, next {
        free(handle);
        // SAFETY: the argument is the caller's.
        unsafe { next(handle) }
    }

    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int, next {
        // SAFETY: the argument is the caller's.
        let code = unsafe { next(condition) };
        rest_after_waking();
        code
    }

    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int, next {
        // SAFETY: the argument is the caller's.
        let code = unsafe { next(condition) };
        rest_after_waking();
        code
    }

    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int, next {
        // SAFETY: the arguments are the caller's.
        let code = unsafe { next(condition, mutex) };
        rest_after_waking();
        code
    }

    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int, next {
        // SAFETY: the argument is the caller's.
        let code = unsafe { next(mutex) };
        if UNLOCKS_LEFT.load(SeqCst) > 0 && builds() {
            UNLOCKS_LEFT.fetch_sub(1, SeqCst);
            rest();
        }
        code
    }

    fn get_nprocs() -> c_int, next {
        // SAFETY: it takes nothing.
        if ALL_PROCESSORS.load(SeqCst) { unsafe { next() } } else { 1 }
    }
}

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// Whether a thread with these attributes is never joined.
fn detached(attributes: *const pthread_attr_t) -> bool {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    if !attributes.is_null() {
        // SAFETY: the caller's attributes are initialised; `state` takes the answer.
        unsafe { pthread_attr_getdetachstate(attributes, &raw mut state) };
    }
    state == libc::PTHREAD_CREATE_DETACHED
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

    use std::process::Command;
    use std::sync::mpsc::channel;

    use super::*;

    const ALONE: &str = "PLANSMITH_TEST_ALONE";

    /// Runs one of these tests by itself.
    fn again(test: &str) {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        let output = itself.env(ALONE, "1").args(["--exact", &format!("turns::tests::{test}"), "--test-threads=1"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    /// Long enough that the builder would be far ahead if it did not wait.
    fn work(done: &AtomicBool) {
        std::thread::sleep(Duration::ZERO);
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {}
        done.store(true, SeqCst);
    }

    /// In a process of its own: other tests' threads would be waited for.
    #[test]
    fn threads_run_only_while_the_builder_waits() {
        match std::env::var_os(ALONE) {
            Some(_) => alone(),
            None => again("threads_run_only_while_the_builder_waits"),
        }
    }

    fn alone() {
        static FIRST: AtomicBool = AtomicBool::new(false);
        static SECOND: AtomicBool = AtomicBool::new(false);
        static MUTEX: Shared<pthread_mutex_t> = Shared(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        static CONDITION: Shared<pthread_cond_t> = Shared(std::cell::UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER));
        take();

        // What is started has done its work before it is known to have started.
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            work(&FIRST);
            // SAFETY: both live for ever; the mutex is this thread's when it waits and when it unlocks.
            unsafe {
                pthread_mutex_lock(MUTEX.0.get());
                pthread_cond_wait(CONDITION.0.get(), MUTEX.0.get());
                pthread_mutex_unlock(MUTEX.0.get());
            }
            work(&SECOND);
            drop(end);
        });
        assert!(FIRST.load(SeqCst));
        // What is woken has, too, even where it had to wait for a mutex first.
        // SAFETY: both live for ever; the mutex is this thread's when it unlocks.
        unsafe {
            pthread_mutex_lock(MUTEX.0.get());
            pthread_cond_signal(CONDITION.0.get());
            assert!(!SECOND.load(SeqCst));
            pthread_mutex_unlock(MUTEX.0.get());
        }
        assert!(SECOND.load(SeqCst));
        assert!(ended.recv().is_err());
        thread.join().unwrap();
        assert_eq!(out_of_turn(), 0);
    }

    /// In a process of its own, as above: what is told once is told for good.
    #[test]
    fn all_processors_are_told_of_only_where_plans_are_executed() {
        if std::env::var_os(ALONE).is_none() {
            return again("all_processors_are_told_of_only_where_plans_are_executed");
        }
        // SAFETY: no arguments.
        let told = || unsafe { get_nprocs() };
        assert_eq!(told(), 1);
        tell_of_all_processors();
        // SAFETY: a number in, a number out.
        assert_eq!(libc::c_long::from(told()), unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) });
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn functions_of_condition_variables_are_those_that_tensorrt_calls() {
        for name in [c"pthread_cond_signal", c"pthread_cond_broadcast", c"pthread_cond_wait"] {
            let version = |version: &CStr| {
                // SAFETY: both end with a zero.
                unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) }
            };
            let (new, old) = (version(c"GLIBC_2.3.2"), version(c"GLIBC_2.2.5"));
            assert!(!new.is_null() && new != old, "{name:?} has two versions");
            assert_eq!(real(name), new, "{name:?}");
        }
    }

    struct Shared<T>(std::cell::UnsafeCell<T>);

    // SAFETY: what is in it is only given to functions of POSIX threads.
    unsafe impl<T> Sync for Shared<T> {}

    unsafe extern "C" {
        fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
    }
}
