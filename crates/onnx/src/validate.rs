//! What must hold before a model is given to anybody.

use std::collections::BTreeMap;

use crate::proto::ModelProto;
use crate::{Error, ExternalData, check, contents, elements_of, functions, growth, tensors};

/// Refuses a model that a runtime might read otherwise than we do, or not survive: broken structure, tensors whose data is not what
/// their shape says, references that leave the folder or overlap, functions without end, and constants that unfold into gigabytes.
///
/// Only the model's own bytes are looked at; [`crate::data_files`] looks at the files.
///
/// # Errors
/// The first thing found, by name, and how many more there are.
pub fn validate(model: &ModelProto) -> Result<(), Error> {
    let invalid = |problem: String| Err(Error::Invalid { problem, more: 0 });
    if let Err(problem) = functions::check(model) {
        return invalid(problem);
    }
    let mut found = check(model).errors.into_iter();
    if let Some(problem) = found.next() {
        return Err(Error::Invalid { problem, more: found.len() });
    }
    if model.graph.as_ref().is_none_or(|graph| graph.output.is_empty()) {
        return invalid("the graph has no output".to_owned());
    }
    for tensor in tensors(model) {
        contents::check(tensor).map_err(|problem| Error::Tensor { tensor: tensor.name().to_owned(), problem })?;
    }
    overlaps(model)?;
    growth::check(model).or_else(invalid)
}

/// Ranges of one file may be equal, as those of tied weights are; that they overlap otherwise is an accident or a trick.
fn overlaps(model: &ModelProto) -> Result<(), Error> {
    let mut files: BTreeMap<String, Vec<(u64, u64, &str)>> = BTreeMap::new();
    for tensor in tensors(model) {
        let Some(data) = ExternalData::of(tensor)? else { continue };
        let needed = || crate::dtype(tensor.data_type()).and_then(|dtype| dtype.tensor_bytes(&[elements_of(&tensor.dims)?]));
        if let Some(length) = data.length.or_else(needed).filter(|length| *length > 0) {
            files.entry(data.location).or_default().push((data.offset, data.offset.saturating_add(length), tensor.name()));
        }
    }
    for (location, mut ranges) in files {
        ranges.sort_unstable();
        // Equal ranges lie beside each other, so that each need be compared with its neighbour alone.
        for pair in ranges.windows(2) {
            let ((start, end, name), (next, next_end, other)) = (pair[0], pair[1]);
            if next < end && (start, end) != (next, next_end) {
                let problem = format!(
                    "external data: bytes {next}..{next_end} of `{}` overlap those of tensor `{}`, {start}..{end}",
                    location.escape_debug(),
                    name.escape_debug()
                );
                return Err(Error::Tensor { tensor: other.to_owned(), problem });
            }
        }
    }
    Ok(())
}
