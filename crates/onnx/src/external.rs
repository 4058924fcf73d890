//! Tensors whose elements lie in another file.

use std::collections::BTreeSet;

use crate::Error;
use crate::proto::tensor_proto::DataLocation;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto};

/// Where a tensor's elements are: `length` bytes from `offset` of the file `location`, a bare name beside the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExternalData {
    /// A file name without folder.
    pub location: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; `None` means up to the end of the file.
    pub length: Option<u64>,
}

impl ExternalData {
    /// A reference to `length` bytes from `offset` of `location`.
    ///
    /// # Errors
    /// `location` is not a bare file name; an end beyond 2^63 - 1. The reason is returned as text.
    pub fn new(location: &str, offset: u64, length: u64) -> Result<Self, String> {
        check_location(location)?;
        check_end(offset, length)?;
        Ok(Self { location: location.to_owned(), offset, length: Some(length) })
    }

    /// The reference that `tensor` holds; `None` where its elements are inline.
    ///
    /// # Errors
    /// Names the tensor, and the key that is missing, repeated, negative or not a bare file name.
    pub fn of(tensor: &TensorProto) -> Result<Option<Self>, Error> {
        if tensor.data_location != Some(DataLocation::External as i32) {
            return Ok(None);
        }
        Self::parse(&tensor.external_data)
            .map(Some)
            .map_err(|problem| Error::Tensor { tensor: tensor.name().to_owned(), problem: format!("external data: {problem}") })
    }

    /// The entries that `TensorProto.external_data` holds for this reference.
    pub fn entries(&self) -> Vec<StringStringEntryProto> {
        let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) };
        let mut entries = vec![entry("location", self.location.clone()), entry("offset", self.offset.to_string())];
        entries.extend(self.length.map(|length| entry("length", length.to_string())));
        entries
    }

    fn parse(entries: &[StringStringEntryProto]) -> Result<Self, String> {
        let location = only(entries, "location")?.ok_or("no key `location`")?;
        check_location(location)?;
        let offset = only(entries, "offset")?.map(|text| number("offset", text)).transpose()?.unwrap_or(0);
        let length = only(entries, "length")?.map(|text| number("length", text)).transpose()?;
        check_end(offset, length.unwrap_or(0))?;
        Ok(Self { location: location.to_owned(), offset, length })
    }
}

/// The value of `key`, which may be absent but not repeated.
fn only<'a>(entries: &'a [StringStringEntryProto], key: &str) -> Result<Option<&'a str>, String> {
    let mut found = entries.iter().filter(|entry| entry.key() == key);
    let first = found.next();
    if found.next().is_some() {
        return Err(format!("key `{key}` is given twice"));
    }
    Ok(first.map(StringStringEntryProto::value))
}

fn number(key: &str, text: &str) -> Result<u64, String> {
    match text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>()) {
        Some(Ok(value)) => Ok(value.unsigned_abs()),
        _ => Err(format!("`{key}` is `{}`, not a whole number from 0 to 2^63 - 1", text.escape_debug())),
    }
}

fn check_end(offset: u64, length: u64) -> Result<(), String> {
    match offset.checked_add(length) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(format!("offset {offset} + length {length} is beyond 2^63 - 1")),
    }
}

/// Only a bare name is followed: what lies in another folder is not ours to read, whatever the model says.
fn check_location(location: &str) -> Result<(), String> {
    let problem = if location.is_empty() {
        "is empty"
    } else if location.contains(char::is_control) {
        "holds a control character"
    } else if location == "." || location == ".." || location.contains(['/', '\\']) {
        "is not a bare file name; the data file must lie beside the model"
    } else if location.as_bytes().get(1) == Some(&b':') {
        "starts with a drive letter"
    } else {
        return Ok(());
    };
    Err(format!("location `{}` {problem}", location.escape_debug()))
}

/// Every tensor of the model: initialisers (dense and sparse) and attributes, of subgraphs and functions too.
pub fn tensors(model: &ModelProto) -> Vec<&TensorProto> {
    let mut found = Vec::new();
    if let Some(graph) = &model.graph {
        of_graph(graph, &mut found);
    }
    for function in &model.functions {
        of_nodes(&function.node, &mut found);
        of_attributes(&function.attribute_proto, &mut found);
    }
    found
}

fn of_graph<'a>(graph: &'a GraphProto, found: &mut Vec<&'a TensorProto>) {
    found.extend(&graph.initializer);
    found.extend(graph.sparse_initializer.iter().flat_map(|sparse| sparse.values.iter().chain(&sparse.indices)));
    of_nodes(&graph.node, found);
}

fn of_nodes<'a>(nodes: &'a [NodeProto], found: &mut Vec<&'a TensorProto>) {
    for node in nodes {
        of_attributes(&node.attribute, found);
    }
}

/// Depth is bounded by that of [`crate::decode`].
fn of_attributes<'a>(attributes: &'a [AttributeProto], found: &mut Vec<&'a TensorProto>) {
    for attribute in attributes {
        found.extend(attribute.t.iter().chain(&attribute.tensors));
        let sparse = attribute.sparse_tensor.iter().chain(&attribute.sparse_tensors);
        found.extend(sparse.flat_map(|sparse| sparse.values.iter().chain(&sparse.indices)));
        for graph in attribute.g.iter().chain(&attribute.graphs) {
            of_graph(graph, found);
        }
    }
}

/// Names of the data files that the model refers to, sorted, each once.
///
/// # Errors
/// A reference that [`ExternalData::of`] refuses.
pub fn external_files(model: &ModelProto) -> Result<Vec<String>, Error> {
    let mut files = BTreeSet::new();
    for tensor in tensors(model) {
        files.extend(ExternalData::of(tensor)?.map(|data| data.location));
    }
    Ok(files.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: &[(&str, &str)]) -> String {
        let entries = entries.iter().map(|(key, value)| StringStringEntryProto { key: Some((*key).into()), value: Some((*value).into()) });
        let tensor = TensorProto {
            name: Some("w".to_owned()),
            data_location: Some(DataLocation::External as i32),
            external_data: entries.collect(),
            ..TensorProto::default()
        };
        ExternalData::of(&tensor).unwrap_err().to_string()
    }

    #[test]
    fn only_bare_names_and_sane_ranges_are_followed() {
        let start = "tensor `w`: external data: ";
        let bare = "is not a bare file name; the data file must lie beside the model";
        for location in ["../w.bin", "/etc/passwd", "a/b", "..", ".", "a\\b"] {
            assert_eq!(refused(&[("location", location)]), format!("{start}location `{}` {bare}", location.escape_debug()));
        }
        assert_eq!(refused(&[("location", "a\0b")]), format!("{start}location `a\\0b` holds a control character"));
        assert_eq!(refused(&[("location", "")]), format!("{start}location `` is empty"));
        assert_eq!(refused(&[("location", "C:w")]), format!("{start}location `C:w` starts with a drive letter"));
        assert_eq!(refused(&[("offset", "0")]), format!("{start}no key `location`"));
        for offset in ["-1", "+1", "1.5", "0x10", "", "9223372036854775808"] {
            let problem = format!("`offset` is `{offset}`, not a whole number from 0 to 2^63 - 1");
            assert_eq!(refused(&[("location", "w"), ("offset", offset)]), format!("{start}{problem}"));
        }
        assert_eq!(
            refused(&[("location", "w"), ("offset", "9223372036854775807"), ("length", "1")]),
            format!("{start}offset 9223372036854775807 + length 1 is beyond 2^63 - 1")
        );
        assert_eq!(refused(&[("location", "w"), ("location", "v")]), format!("{start}key `location` is given twice"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let data = ExternalData::new("model-00001-of-00002.safetensors", 1 << 40, 12).unwrap();
        let tensor =
            TensorProto { data_location: Some(DataLocation::External as i32), external_data: data.entries(), ..TensorProto::default() };
        assert_eq!(ExternalData::of(&tensor).unwrap(), Some(data));
    }
}
