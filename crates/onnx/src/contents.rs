//! What a tensor says of itself against what it holds.

use crate::proto::TensorProto;
use crate::proto::tensor_proto::{DataLocation, DataType};

/// Dimensions that a tensor may have; more serve nobody.
const MOST_DIMENSIONS: usize = 64;

/// Where elements lie when they are not in `raw_data`, and how many entries of that field `elements` of them take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    field: &'static str,
    /// Bits of an element in `raw_data`; `None` where it may not hold any.
    bits: Option<u64>,
    /// Elements of an entry, or entries of an element where that is the larger.
    packed: u64,
    entries: u64,
}

/// As `onnx.proto` of the standard says it.
fn layout(dtype: DataType) -> Option<Layout> {
    let plain = |field, bits| Some(Layout { field, bits: Some(bits), packed: 1, entries: 1 });
    match dtype {
        DataType::Undefined => None,
        DataType::String => Some(Layout { field: "string_data", bits: None, packed: 1, entries: 1 }),
        DataType::Float => plain("float_data", 32),
        DataType::Complex64 => Some(Layout { field: "float_data", bits: Some(64), packed: 1, entries: 2 }),
        DataType::Double => plain("double_data", 64),
        DataType::Complex128 => Some(Layout { field: "double_data", bits: Some(128), packed: 1, entries: 2 }),
        DataType::Int64 => plain("int64_data", 64),
        DataType::Uint64 => plain("uint64_data", 64),
        DataType::Uint32 => plain("uint64_data", 32),
        DataType::Int32 => plain("int32_data", 32),
        DataType::Int16 | DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => plain("int32_data", 16),
        DataType::Int8
        | DataType::Uint8
        | DataType::Bool
        | DataType::Float8e4m3fn
        | DataType::Float8e4m3fnuz
        | DataType::Float8e5m2
        | DataType::Float8e5m2fnuz
        | DataType::Float8e8m0 => plain("int32_data", 8),
        DataType::Int4 | DataType::Uint4 | DataType::Float4e2m1 => {
            Some(Layout { field: "int32_data", bits: Some(4), packed: 2, entries: 1 })
        }
        DataType::Int2 | DataType::Uint2 => Some(Layout { field: "int32_data", bits: Some(2), packed: 4, entries: 1 }),
    }
}

/// Refuses a tensor whose dtype nobody knows, whose shape is impossible, or whose data is not as much as its shape takes.
pub(crate) fn check(tensor: &TensorProto) -> Result<(), String> {
    let number = tensor.data_type();
    let dtype = DataType::try_from(number).ok().filter(|dtype| layout(*dtype).is_some());
    let Some((dtype, layout)) = dtype.and_then(|dtype| Some((dtype, layout(dtype)?))) else {
        return Err(format!("its data type is {number}, which the standard does not define"));
    };
    if tensor.segment.is_some() {
        return Err("it is a segment of a tensor; no reader puts those together".to_owned());
    }
    let elements = elements(&tensor.dims)?;
    let name = dtype.as_str_name();
    let held = held(tensor);
    if tensor.data_location == Some(DataLocation::External as i32) {
        return match (held.first(), layout.bits) {
            (Some((field, _)), _) => Err(format!("it is external and holds {field} too")),
            (None, None) => Err(format!("it is external, and {name} cannot be")),
            (None, Some(_)) => Ok(()),
        };
    }
    if !tensor.external_data.is_empty() {
        return Err("it has external_data and is not marked as external".to_owned());
    }
    let shape = &tensor.dims;
    match held.as_slice() {
        [] if elements == 0 => Ok(()),
        [] => Err(format!("its shape {shape:?} takes {elements} elements and it holds none")),
        [("raw_data", bytes)] => {
            let Some(bits) = layout.bits else { return Err(format!("{name} cannot be in raw_data")) };
            let needed = elements.checked_mul(bits).map(|bits| bits.div_ceil(8));
            let needed = needed.ok_or_else(|| format!("its shape {shape:?} is impossible for {name}"))?;
            match needed == *bytes {
                true => Ok(()),
                false => Err(format!("its shape {shape:?} of {name} takes {needed} bytes, raw_data has {bytes}")),
            }
        }
        [(field, entries)] if *field == layout.field => {
            let needed = elements.div_ceil(layout.packed).checked_mul(layout.entries);
            match needed == Some(*entries) {
                true => Ok(()),
                false => Err(format!(
                    "its shape {shape:?} of {name} takes {} entries of {field}, which has {entries}",
                    needed.map_or("too many".to_owned(), |needed| needed.to_string())
                )),
            }
        }
        [(field, _)] => Err(format!("its elements, {name}, are in {field}; they belong into {} or raw_data", layout.field)),
        [(one, _), (other, _), ..] => Err(format!("it holds both {one} and {other}")),
    }
}

/// The number of elements of a shape.
pub(crate) fn elements(dims: &[i64]) -> Result<u64, String> {
    if dims.len() > MOST_DIMENSIONS {
        return Err(format!("it has {} dimensions; {MOST_DIMENSIONS} are the most that is read", dims.len()));
    }
    let mut elements: u64 = 1;
    let mut empty = false;
    for &dim in dims {
        let dim = u64::try_from(dim).map_err(|_| format!("its shape {dims:?} holds {dim}"))?;
        empty |= dim == 0;
        elements = elements.checked_mul(dim.max(1)).ok_or_else(|| format!("its shape {dims:?} overflows"))?;
    }
    Ok(if empty { 0 } else { elements })
}

/// The fields that hold anything, with how many entries (bytes for `raw_data`).
fn held(tensor: &TensorProto) -> Vec<(&'static str, u64)> {
    let fields = [
        ("raw_data", tensor.raw_data().len()),
        ("float_data", tensor.float_data.len()),
        ("int32_data", tensor.int32_data.len()),
        ("string_data", tensor.string_data.len()),
        ("int64_data", tensor.int64_data.len()),
        ("double_data", tensor.double_data.len()),
        ("uint64_data", tensor.uint64_data.len()),
    ];
    fields.into_iter().filter(|(_, entries)| *entries > 0).map(|(field, entries)| (field, entries as u64)).collect()
}
