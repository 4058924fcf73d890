//! Weights put into an engine that was built without.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::fs::File;
use std::path::{Path, PathBuf};

use cxx::UniquePtr;
use plansmith_engine::protocol::{Failure, PlanOrder};
use plansmith_engine::{Conversion, Place, RefitRecord, Severity, Weights};
use trtx_sys::nvinfer1::{ICudaEngine, IRefitter};

use crate::failure::{because, failed};
use crate::libraries::Libraries;
use crate::log::Logger;
use crate::parse::c_string;
use crate::refit::plain;

/// Opens every data file of a stripped plan and compares the map with its size; says what it found. `None` for other plans.
pub(crate) fn check(plan: &PlanOrder) -> Result<Option<String>, Failure> {
    if plan.manifest.weights != Weights::Stripped {
        return Ok(None);
    }
    let mut files = Files::new(&plan.data);
    let mut total = 0;
    for record in &plan.manifest.refit {
        if let Place::File { file, offset, bytes } = &record.place {
            let (path, _, size) = files.open(file)?;
            if offset.checked_add(*bytes).is_none_or(|end| end > *size) {
                let message = format!("`{}` is {bytes} bytes from {offset} of `{}`, which has {size}", record.name, path.display());
                return Err(failed(message, Vec::new()));
            }
        }
        total += record.place.bytes();
    }
    Ok(Some(format!("{} weights of {total} bytes are where the map says", plan.manifest.refit.len())))
}

/// Puts every weight in that `engine` says it lacks.
pub(crate) fn refill(libraries: &Libraries, logger: &Logger, engine: &mut UniquePtr<ICudaEngine>, plan: &PlanOrder) -> Result<(), Failure> {
    let mut refitter = libraries.refitter(logger, engine)?;
    let by_name: HashMap<&str, &RefitRecord> = plan.manifest.refit.iter().map(|record| (record.name.as_str(), record)).collect();
    let mut files = Files::new(&plan.data);
    // TensorRT reads them when it refits, so they live until then.
    let mut held = Vec::new();
    for name in wanted(&mut refitter)? {
        let record = by_name.get(name.as_str());
        let record =
            record.ok_or_else(|| failed(format!("the plan lacks the weight `{name}`, which its manifest does not know"), Vec::new()))?;
        let bytes = files.read(record)?;
        let dtype = plain(record.dtype).ok_or_else(|| failed(format!("weights of {} cannot be put in", record.dtype), Vec::new()))?;
        let count = i64::try_from(record.elements).unwrap_or(i64::MAX);
        let weights = trtx_sys::Weights::new_with_type(dtype.into(), bytes.as_ptr().cast(), count);
        let c_name = c_string(&name)?;
        // SAFETY: the name lives for the time of the call, the bytes until the refit is done.
        if !unsafe { refitter.pin_mut().setNamedWeights(c_name.as_ptr(), weights) } {
            return Err(failed(format!("TensorRT does not take the weight `{name}`"), logger.take(Severity::Warning)));
        }
        held.push(bytes);
    }
    if refitter.pin_mut().refitCudaEngine() {
        Ok(())
    } else {
        Err(failed("TensorRT does not put the weights into the plan", logger.take(Severity::Warning)))
    }
}

/// Names of the weights that the engine lacks.
fn wanted(refitter: &mut UniquePtr<IRefitter>) -> Result<Vec<String>, Failure> {
    let pointer = refitter.as_mut_ptr().cast();
    // SAFETY: without room it only counts.
    let count = unsafe { trtx_sys::trtx_refitter_get_all_weights(pointer, 0, std::ptr::null_mut()) };
    let mut names: Vec<*const c_char> = vec![std::ptr::null(); usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many names as it counted.
    let found = unsafe { trtx_sys::trtx_refitter_get_all_weights(pointer, count, names.as_mut_ptr()) };
    if found != count || names.iter().any(|name| name.is_null()) {
        return Err(failed(format!("TensorRT counts {count} weights and names {found}"), Vec::new()));
    }
    // SAFETY: each is a C string that lives as long as the refitter.
    Ok(names.into_iter().map(|name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()).collect())
}

/// Data files by bare name, each opened once.
struct Files<'a> {
    paths: HashMap<&'a str, &'a Path>,
    opened: HashMap<String, (PathBuf, File, u64)>,
}

impl<'a> Files<'a> {
    fn new(paths: &'a [PathBuf]) -> Self {
        let named = paths.iter().filter_map(|path| Some((path.file_name()?.to_str()?, path.as_path())));
        Self { paths: named.collect(), opened: HashMap::new() }
    }

    /// Path, file and size.
    fn open(&mut self, name: &str) -> Result<&(PathBuf, File, u64), Failure> {
        if !self.opened.contains_key(name) {
            let path = *self.paths.get(name).ok_or_else(|| failed(format!("the data file `{name}` was not named"), Vec::new()))?;
            let size = plansmith_files::metadata(path).map_err(|error| because("weights", &error))?.len();
            let file = plansmith_files::open(path).map_err(|error| because("weights", &error))?;
            self.opened.insert(name.to_owned(), (path.to_owned(), file, size));
        }
        Ok(&self.opened[name])
    }

    /// The bytes that TensorRT takes for a weight.
    fn read(&mut self, record: &RefitRecord) -> Result<Vec<u8>, Failure> {
        let bytes = match &record.place {
            Place::Inline(digits) => {
                inline(digits).ok_or_else(|| failed(format!("`{}`: no bytes in its digits", record.name), Vec::new()))?
            }
            Place::File { file, offset, bytes } => {
                let mut buffer = vec![0; usize::try_from(*bytes).map_err(|error| because("weights", &error))?];
                let (path, file, _) = self.open(file)?;
                plansmith_files::read_at(file, path, &mut buffer, *offset).map_err(|error| because("weights", &error))?;
                buffer
            }
        };
        let bytes = match record.conversion {
            Conversion::None => bytes,
            Conversion::DoubleToFloat => {
                let (doubles, _) = bytes.as_chunks::<8>();
                doubles.iter().flat_map(|double| (f64::from_le_bytes(*double) as f32).to_le_bytes()).collect()
            }
        };
        if record.dtype.tensor_bytes(&[record.elements]) == Some(bytes.len() as u64) {
            return Ok(bytes);
        }
        let (elements, found) = (record.elements, bytes.len());
        Err(failed(format!("`{}`: {elements} elements of {} are not {found} bytes", record.name, record.dtype), Vec::new()))
    }
}

fn inline(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use plansmith_tensor::DType;

    use super::*;

    fn record(place: Place, dtype: DType, elements: u64, conversion: Conversion) -> RefitRecord {
        RefitRecord { name: "w".to_owned(), tensor: "w".to_owned(), place, dtype, elements, conversion }
    }

    #[test]
    fn weights_are_read_from_where_the_map_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.data");
        let mut bytes = vec![0xff; 16];
        bytes.extend(1.5_f64.to_le_bytes());
        bytes.extend((-0.25_f64).to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let paths = [path];
        let mut files = Files::new(&paths);
        let place = |offset, bytes| Place::File { file: "model.data".to_owned(), offset, bytes };
        let doubles = files.read(&record(place(16, 16), DType::F32, 2, Conversion::DoubleToFloat)).unwrap();
        assert_eq!(doubles, [1.5_f32.to_le_bytes(), (-0.25_f32).to_le_bytes()].concat());
        assert_eq!(files.read(&record(place(15, 2), DType::F16, 1, Conversion::None)).unwrap(), [0xff, 0]);
        assert!(files.read(&record(place(16, 16), DType::F32, 2, Conversion::None)).is_err());
        assert!(files.read(&record(place(24, 16), DType::F64, 2, Conversion::None)).is_err());
        let digits = Place::inline(&[0, 0x3c, 0xff, 1]).unwrap();
        assert_eq!(files.read(&record(digits, DType::F16, 2, Conversion::None)).unwrap(), [0, 0x3c, 0xff, 1]);
        assert_eq!(inline("0x1"), None);
        assert_eq!(inline("zz"), None);
    }
}
