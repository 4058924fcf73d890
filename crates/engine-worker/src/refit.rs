//! Weights that a plan is built without.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cxx::UniquePtr;
use plansmith_engine::protocol::Failure;
use plansmith_engine::{Conversion, Place, RefitWeight};
use plansmith_tensor::DType;
use trtx_sys::nvinfer1::{IBuilderConfig, INetworkDefinition};
use trtx_sys::nvonnxparser::IParser;
use trtx_sys::{BuilderFlag, DataType};

use crate::failure::failed;
use crate::parse::c_string;

/// `nvonnxparser::RefitRecord` of NvOnnxParser.h.
#[repr(C)]
struct Record {
    name: *const c_char,
    kind: i32,
    onnx_dtype: i32,
    dtype: i32,
    count: i64,
    sources: i32,
    source_names: *const *const c_char,
    epsilon: f32,
    fixed: *const c_void,
    fixed_bytes: usize,
}

// In trtx-sys' bridge, which does not declare them in Rust.
unsafe extern "C" {
    fn trtx_create_refitter_observer(data: *mut c_void, callback: unsafe extern "C" fn(*mut c_void, *const Record)) -> *mut c_void;
    fn trtx_destroy_refitter_observer(observer: *mut c_void);
    fn trtx_parser_set_refit_observer(parser: *mut c_void, observer: *mut c_void);
}

/// Element types of weights that a plan can be shipped without.
const PLAIN: [(DataType, DType); 7] = [
    (DataType::kFLOAT, DType::F32),
    (DataType::kHALF, DType::F16),
    (DataType::kBF16, DType::BF16),
    (DataType::kINT8, DType::I8),
    (DataType::kINT32, DType::I32),
    (DataType::kINT64, DType::I64),
    (DataType::kFP8, DType::F8E4M3),
];

/// TensorRT's name of one of them.
pub(crate) fn plain(dtype: DType) -> Option<DataType> {
    PLAIN.into_iter().find(|(_, plain)| *plain == dtype).map(|(number, _)| number)
}

type Weighed = Vec<Result<RefitWeight, String>>;

/// An `IRefitterObserver` that keeps what it is told: weights, or the names of those that are computed from several.
pub(crate) struct Observer {
    observer: *mut c_void,
    weights: Box<Weighed>,
}

impl Observer {
    /// Has the builder leave weights out, and the parser say which those can be.
    pub(crate) fn attach(parser: &mut UniquePtr<IParser>, config: &mut UniquePtr<IBuilderConfig>) -> Result<Self, Failure> {
        config.pin_mut().setFlag(BuilderFlag::kREFIT_INDIVIDUAL.into());
        config.pin_mut().setFlag(BuilderFlag::kSTRIP_PLAN.into());
        // SAFETY: the configuration outlives the parse.
        if !unsafe { parser.pin_mut().setBuilderConfig(config.as_ptr()) } {
            return Err(failed("TensorRT's parser does not take the builder's configuration", Vec::new()));
        }
        let mut weights: Box<Weighed> = Box::default();
        let data: *mut Weighed = &raw mut *weights;
        // SAFETY: `data` points into a box that lives as long as the observer; `on_weight` reads it as what it is.
        let observer = unsafe { trtx_create_refitter_observer(data.cast(), on_weight) };
        if observer.is_null() {
            return Err(failed("TensorRT's refit observer cannot be made", Vec::new()));
        }
        // SAFETY: both are alive; `finish` takes the observer away before it is destroyed, and where that is not reached, nothing is parsed.
        unsafe { trtx_parser_set_refit_observer(parser.as_mut_ptr().cast(), observer) };
        Ok(Self { observer, weights })
    }

    /// Takes the observer away and marks what the plan is to lack: weights that lie in data files, and those that the parser left out.
    pub(crate) fn finish(
        mut self,
        parser: &mut UniquePtr<IParser>,
        network: &mut UniquePtr<INetworkDefinition>,
        external: &[String],
    ) -> Result<Vec<RefitWeight>, Failure> {
        // SAFETY: the parser is alive; null takes the observer away.
        unsafe { trtx_parser_set_refit_observer(parser.as_mut_ptr().cast(), std::ptr::null_mut()) };
        // A hash set gives its strings back in an order of chance, and what is allocated after that lies elsewhere each time.
        let external: BTreeSet<&str> = external.iter().map(String::as_str).collect();
        let (mut seen, mut stripped) = (BTreeSet::new(), Vec::new());
        for weight in std::mem::take(&mut *self.weights) {
            let (name, is_external) = match &weight {
                Ok(weight) => (weight.name.clone(), is_worth_it(weight) && external.contains(weight.tensor.as_str())),
                Err(name) => (name.clone(), false),
            };
            if !seen.insert(name.clone()) {
                continue;
            }
            let c_name = c_string(&name)?;
            // SAFETY: the name lives for the time of the calls.
            let lacking = unsafe {
                match is_external {
                    true => network.pin_mut().markWeightsRefittable(c_name.as_ptr()),
                    // Refused for weights that the parser made without values.
                    false => !network.pin_mut().unmarkWeightsRefittable(c_name.as_ptr()),
                }
            };
            match weight {
                Ok(weight) if lacking => stripped.push(weight),
                Err(name) if lacking => {
                    return Err(failed(format!("the weight `{name}` cannot be left out: it is computed from several"), Vec::new()));
                }
                Ok(_) | Err(_) => {}
            }
        }
        stripped.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(stripped)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // SAFETY: made by `trtx_create_refitter_observer` and destroyed once.
        unsafe { trtx_destroy_refitter_observer(self.observer) }
    }
}

/// Small weights stay: a weight that may change keeps the compiler from folding what is computed of it, which takes more room.
fn is_worth_it(weight: &RefitWeight) -> bool {
    const SMALLEST: u64 = 64 << 10;
    weight.dtype.tensor_bytes(&[weight.elements]).is_some_and(|bytes| bytes >= SMALLEST)
}

/// Called by the parser, in the thread that parses.
unsafe extern "C" fn on_weight(data: *mut c_void, record: *const Record) {
    // A panic must not unwind into C++.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `data` is the list given to the observer, which nothing else uses meanwhile; the record is one of the version whose
        // headers were compared, alive for the time of the call.
        unsafe { (*data.cast::<Weighed>()).push(describe(&*record)) };
    }));
}

/// What a record says; only its name where weights are computed from several.
///
/// # Safety
/// The record's pointers are those that the parser gave, during its call.
unsafe fn describe(record: &Record) -> Result<RefitWeight, String> {
    // SAFETY: names are C strings.
    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let name = text(record.name);
    let conversion = match record.kind {
        0 | 4 | 5 => Conversion::None,
        1 => Conversion::DoubleToFloat,
        _ => return Err(name),
    };
    let tensor = match record.sources {
        // SAFETY: there are as many names as the record says.
        1.. => text(unsafe { *record.source_names }),
        _ => name.clone(),
    };
    let fixed = match record.fixed.is_null() {
        true => None,
        // SAFETY: the record says how long its data is.
        false => Place::inline(unsafe { std::slice::from_raw_parts(record.fixed.cast::<u8>(), record.fixed_bytes) }),
    };
    let Some(dtype) = PLAIN.into_iter().find(|(number, _)| *number as i32 == record.dtype).map(|(_, dtype)| dtype) else {
        return Err(name);
    };
    Ok(RefitWeight { name, tensor, dtype, elements: u64::try_from(record.count).unwrap_or(0), conversion, fixed })
}
