//! ONNX into a network, with everything that the parser says.

use std::ffi::{CStr, CString, c_char, c_void};

use plansmith_engine::protocol::Failure;
use plansmith_engine::{NodeError, Severity};
use trtx_sys::nvonnxparser::IParser;

use crate::failure::failed;
use crate::log::Logger;

/// Parses the file `name`: this path changes a plan's bytes.
pub(crate) fn parse(parser: &mut cxx::UniquePtr<IParser>, logger: &Logger, name: &CStr) -> Result<Vec<String>, Failure> {
    // SAFETY: `name` is a C string for the time of the call.
    let parsed = unsafe { parser.pin_mut().parseFromFile(name.as_ptr(), (Severity::Warning as i32).into()) };
    let nodes = errors(parser);
    let log = logger.take(Severity::Warning);
    if !nodes.is_empty() {
        return Err(Failure::Parse { nodes });
    }
    if !parsed {
        return Err(failed("TensorRT's parser refuses the graph without naming a node", log));
    }
    checked(log)
}

/// The warnings worth keeping, unless one says that the plan would lack something.
pub(crate) fn checked(warnings: Vec<String>) -> Result<Vec<String>, Failure> {
    // An input that nothing reads carries meaning that the plan would lack.
    let (dropped, rest): (Vec<_>, Vec<_>) = warnings.into_iter().partition(|line| line.contains("Unused Input"));
    if !dropped.is_empty() {
        return Err(failed("TensorRT drops inputs of the graph, so the plan would compute something else", dropped));
    }
    // Says of every int64 input that it is one, which the signature says as well.
    Ok(rest.into_iter().filter(|line| !line.contains("has Int64 binding")).collect())
}

fn errors(parser: &mut cxx::UniquePtr<IParser>) -> Vec<NodeError> {
    let parser: *mut c_void = parser.as_mut_ptr().cast();
    // SAFETY: the parser is alive; the indices are below the count that it gives; each error lives as long as the parser.
    unsafe {
        (0..trtx_sys::parser_get_nb_errors(parser))
            .map(|index| trtx_sys::parser_get_error(parser, index))
            .filter(|error| !error.is_null())
            .map(|error| node_error(error))
            .collect()
    }
}

/// Reads an `IParserError`, which the bindings leave opaque, through its table of virtual functions.
///
/// # Safety
/// `error` is a living `nvonnxparser::IParserError` of a library whose version was compared with the headers.
unsafe fn node_error(error: *const c_void) -> NodeError {
    // In the order of the class in NvOnnxParser.h: code, desc, file, line, func, node, nodeName, nodeOperator. With the Itanium ABI the
    // object starts with a pointer to the table, and the table holds these in order: the destructor, declared last, follows them.
    let table = |index: usize| {
        // SAFETY: see above; no index is beyond 7.
        unsafe { *(*error.cast::<*const *const c_void>()).add(index) }
    };
    let number = |index: usize| {
        // SAFETY: code, line and node are `int f() const`.
        let function: unsafe extern "C" fn(*const c_void) -> i32 = unsafe { std::mem::transmute(table(index)) };
        // SAFETY: as above.
        unsafe { function(error) }
    };
    let text = |index: usize| {
        // SAFETY: the others are `char const* f() const`.
        let function: unsafe extern "C" fn(*const c_void) -> *const c_char = unsafe { std::mem::transmute(table(index)) };
        // SAFETY: as above; what is not null is a C string that lives as long as the error.
        unsafe {
            let text = function(error);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    };
    NodeError {
        code: code_name(number(0)).to_owned(),
        message: text(1),
        position: format!("{} in {}:{}", text(4), text(2), number(3)),
        index: u32::try_from(number(5)).ok(),
        name: text(6),
        operator: text(7),
    }
}

/// `nvonnxparser::ErrorCode`.
fn code_name(code: i32) -> &'static str {
    match code {
        1 => "internal error",
        2 => "out of memory",
        3 => "model not deserialised",
        4 => "invalid value",
        5 => "invalid graph",
        6 => "invalid node",
        7 => "unsupported graph",
        8 => "unsupported node",
        9 => "unsupported attribute",
        10 => "unsupported input",
        11 => "unsupported data type",
        12 => "unsupported dynamic shape",
        13 => "unsupported shape",
        14 => "refit failed",
        _ => "unknown error",
    }
}

/// A C string of `text`.
pub(crate) fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| failed(format!("`{}` holds a zero byte", text.escape_debug()), Vec::new()))
}
