//! The static audit: every initializer that bears a checkpoint tensor's name holds that tensor after the declared conversion.

use std::fs::File;
use std::path::Path;

use plansmith_checkpoint::{TensorInfo, convert};
use plansmith_onnx::proto::{ModelProto, TensorProto};
use plansmith_onnx::{ExternalData, dtype};
use rayon::prelude::*;
use serde::Serialize;

use crate::{Error, Source};

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Audited {
    /// Initializers that point into the checkpoint's own file, at the tensor's own bytes.
    pub in_place: usize,
    /// Initializers whose bytes were compared.
    pub compared: usize,
}

/// Bytes of the source that are held at a time, a thread.
const PIECE: u64 = 4 << 20;

/// Checks `model`, whose external data lies in `folder`, against `source`. Streams the payload where it is not the source's own.
///
/// # Errors
/// Names the first initializer that differs, and how; or a file cannot be read.
pub fn audit_initializers(model: &ModelProto, folder: &Path, source: &Source) -> Result<Audited, Error> {
    let initializers = model.graph.as_ref().map_or(&[][..], |graph| &graph.initializer);
    let results: Vec<Audited> = initializers
        .par_iter()
        .filter_map(|initializer| Some((initializer, source.checkpoint.get(initializer.name())?)))
        .map(|(initializer, tensor)| audit_one(initializer, tensor, folder, source))
        .collect::<Result<_, _>>()?;
    let sum = |total: Audited, one: &Audited| Audited { in_place: total.in_place + one.in_place, compared: total.compared + one.compared };
    Ok(results.iter().fold(Audited::default(), sum))
}

fn audit_one(initializer: &TensorProto, tensor: &TensorInfo, folder: &Path, source: &Source) -> Result<Audited, Error> {
    let fail = |problem: String| Error::Audit { name: tensor.name.clone(), problem };
    let shape: Vec<u64> = initializer.dims.iter().map(|&dim| dim as u64).collect();
    if shape != tensor.shape {
        return Err(fail(format!("its shape is {shape:?}, the source's {:?}", tensor.shape)));
    }
    let dtype = dtype(initializer.data_type()).ok_or_else(|| fail(format!("its data type {} is unknown", initializer.data_type())))?;
    let elements = tensor.elements();
    let width = dtype.bytes().ok_or_else(|| fail(format!("its dtype is {dtype}")))? as u64;
    let external = ExternalData::of(initializer).map_err(|error| fail(error.to_string()))?;
    let Some(external) = external else {
        let mut expected = Vec::new();
        convert(tensor.dtype, dtype, &source.checkpoint.read_tensor(tensor)?, &mut expected)?;
        return match initializer.raw_data() == expected {
            true => Ok(Audited { in_place: 0, compared: 1 }),
            false => Err(fail("its inline bytes are others".into())),
        };
    };
    let length = external.length.unwrap_or(elements * width);
    if length != elements * width {
        return Err(fail(format!("its length is {length} bytes; {elements} elements of {dtype} take {}", elements * width)));
    }
    let path = folder.join(&external.location);
    if !plansmith_files::metadata(&path)?.is_file() {
        return Err(fail(format!("`{}` is not a regular file", path.display())));
    }
    let home = source.checkpoint.file_of(tensor);
    if dtype == tensor.dtype && external.offset == tensor.offset && same_file(&path, &home.path)? {
        return Ok(Audited { in_place: 1, compared: 0 });
    }
    compare(&Pieces { path: &path, offset: external.offset, width, dtype }, tensor, source)?;
    Ok(Audited { in_place: 0, compared: 1 })
}

struct Pieces<'a> {
    path: &'a Path,
    offset: u64,
    width: u64,
    dtype: plansmith_tensor::DType,
}

fn compare(pieces: &Pieces<'_>, tensor: &TensorInfo, source: &Source) -> Result<(), Error> {
    let file: File = plansmith_files::open(pieces.path)?;
    let home = source.checkpoint.file_of(tensor);
    let elements = tensor.elements();
    let source_width = tensor.bytes.checked_div(elements).unwrap_or(1);
    let step = PIECE / source_width.max(1);
    let (mut stored, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    while first < elements {
        let count = step.min(elements - first);
        stored.resize((count * source_width) as usize, 0);
        home.read_at(&mut stored, tensor.offset + first * source_width)?;
        expected.clear();
        convert(tensor.dtype, pieces.dtype, &stored, &mut expected)?;
        found.resize((count * pieces.width) as usize, 0);
        plansmith_files::read_at(&file, pieces.path, &mut found, pieces.offset + first * pieces.width)?;
        if expected != found {
            let byte = expected.iter().zip(&found).take_while(|(expected, found)| expected == found).count() as u64;
            let element = first + byte / pieces.width;
            let problem = format!("element {element} of {elements} in `{}`", pieces.path.display());
            return Err(Error::Audit { name: tensor.name.clone(), problem });
        }
        first += count;
    }
    Ok(())
}

fn same_file(left: &Path, right: &Path) -> Result<bool, Error> {
    use std::os::unix::fs::MetadataExt as _;
    let (left, right) = (plansmith_files::metadata(left)?, plansmith_files::metadata(right)?);
    Ok(left.dev() == right.dev() && left.ino() == right.ino())
}
