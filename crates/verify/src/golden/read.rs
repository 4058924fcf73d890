//! Opening a golden file: every tensor is known, fits the others, and is finite where it is compared.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::{Golden, GoldenSet, PRODUCER, Store};
use crate::{Error, PromptSet};

const PARTS: [&str; 5] = ["input_ids", "attention_mask", "position_ids", "positions", "logits"];
const HEADER_LIMIT: u64 = 100_000_000;

impl Golden {
    /// Opens a golden file: per set NAME `NAME.input_ids` int64 `[batch, seq]`, `NAME.logits` float32 `[batch, seq, vocab]`, and optionally
    /// `NAME.attention_mask`, `NAME.position_ids` (counted from the mask when absent) and `NAME.positions` int64 `[n]`, with which
    /// logits are `[batch, n, vocab]`. NAME may hold dots.
    ///
    /// Reads the payload once and keeps all but the logits in memory.
    ///
    /// # Errors
    /// It is not a safetensors file; a tensor is unknown, missing, of another dtype, or does not fit the others; an id is outside the
    /// vocabulary of the logits; a logit that would be compared is NaN or infinite. Names the tensor.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = Arc::new(plansmith_files::open_regular(path)?);
        let source = Source { file, path: path.into(), data_start: 0 };
        let (source, header) = source.header()?;
        let mut groups: BTreeMap<String, BTreeMap<&str, (String, TensorInfo)>> = BTreeMap::new();
        for (tensor, info) in header.tensors() {
            let (set, part) = source.split(&tensor)?;
            groups.entry(set).or_default().insert(part, (tensor, info.clone()));
        }
        let mut sets: Vec<GoldenSet> = Vec::new();
        for (name, parts) in groups {
            let set = source.set(&name, &parts)?;
            if let Some(first) = sets.first().filter(|first| first.vocab != set.vocab) {
                let (a, b) = (first.prompt.name(), first.vocab);
                return Err(source.refuse(format!("`{name}.logits` have {} entries a position, `{a}.logits` {b}", set.vocab)));
            }
            sets.push(set);
        }
        let Some(vocab) = sets.first().map(|set| set.vocab) else {
            return Err(source.refuse("there is no prompt set in the file".to_owned()));
        };
        let producer = header.metadata().as_ref().and_then(|metadata| metadata.get(PRODUCER).cloned());
        Ok(Self { sets, vocab, producer, path: Some(path.to_owned()) })
    }

    /// Whether the file's header is that of a golden file: a safetensors file with the tensors of prompt sets, and no others. Reads no payload.
    pub fn is_at(path: &Path) -> bool {
        let header = || {
            let source = Source { file: Arc::new(plansmith_files::open_regular(path)?), path: path.into(), data_start: 0 };
            source.header()
        };
        header().is_ok_and(|(source, header)| {
            let tensors = header.tensors();
            !tensors.is_empty() && tensors.keys().all(|tensor| source.split(tensor).is_ok())
        })
    }
}

/// The open file, past its header.
struct Source {
    file: Arc<File>,
    path: Arc<Path>,
    data_start: u64,
}

impl Source {
    fn refuse(&self, problem: String) -> Error {
        let hint = "a golden file holds NAME.input_ids (I64), NAME.logits (F32) and optionally NAME.attention_mask, NAME.position_ids, \
                    NAME.positions (I64)";
        Error::Golden { path: self.path.to_path_buf(), problem, hint: hint.to_owned() }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        Ok(plansmith_files::read_at(&self.file, &self.path, bytes, offset)?)
    }

    fn header(self) -> Result<(Self, Metadata), Error> {
        let size = plansmith_files::metadata(&self.path)?.len();
        let broken = |problem: String| self.refuse(format!("not a safetensors file: {problem}"));
        let mut length = [0; 8];
        if size < 8 {
            return Err(broken(format!("{size} bytes are less than a header")));
        }
        self.read(0, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_LIMIT.min(size - 8) {
            return Err(broken(format!("the header claims {length} bytes; the file has {size}")));
        }
        let mut header = vec![0; length as usize];
        self.read(8, &mut header)?;
        let keys: Keys = serde_json::from_slice(&header).map_err(|error| broken(error.to_string()))?;
        if let Some(key) = keys.0.iter().enumerate().find(|(index, key)| keys.0[..*index].contains(key)) {
            return Err(broken(format!("`{}` is listed twice", key.1)));
        }
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| broken(error.to_string()))?;
        let wanted = 8 + length + metadata.data_len() as u64;
        if wanted != size {
            return Err(broken(format!("the header describes {wanted} bytes; the file has {size}")));
        }
        Ok((Self { data_start: 8 + length, ..self }, metadata))
    }

    /// Splits `NAME.part` at the last dot.
    fn split(&self, tensor: &str) -> Result<(String, &'static str), Error> {
        let (set, part) = tensor.rsplit_once('.').unwrap_or(("", tensor));
        let nearest = |a: &&&str| (strsim::jaro_winkler(a, part) * 1e6) as u64;
        let Some(&known) = PARTS.iter().find(|known| **known == part) else {
            let nearest = PARTS.iter().max_by_key(nearest).unwrap_or(&PARTS[0]);
            let prefix = if set.is_empty() { "NAME" } else { set };
            return Err(self.refuse(format!("unknown tensor `{tensor}`; the nearest name is `{prefix}.{nearest}`")));
        };
        if set.is_empty() {
            return Err(self.refuse(format!("tensor `{tensor}` has no set's name before the dot")));
        }
        Ok((set.to_owned(), known))
    }

    fn set(&self, name: &str, parts: &BTreeMap<&str, (String, TensorInfo)>) -> Result<GoldenSet, Error> {
        let missing = |part: &str| self.refuse(format!("`{name}.{part}` is missing"));
        let (_, ids) = parts.get("input_ids").ok_or_else(|| missing("input_ids"))?;
        let (logits_name, logits) = parts.get("logits").ok_or_else(|| missing("logits"))?;
        let &[batch, sequence] = ids.shape.as_slice() else {
            return Err(self.refuse(format!("`{name}.input_ids` is {:?}; [batch, seq] is needed", ids.shape)));
        };
        let input_ids = self.integers(name, "input_ids", ids, &[batch, sequence])?;
        let optional =
            |part: &'static str, shape: &[usize]| parts.get(part).map(|(_, info)| self.integers(name, part, info, shape)).transpose();
        let mask = optional("attention_mask", &[batch, sequence])?;
        let position_ids = optional("position_ids", &[batch, sequence])?;
        let count = parts.get("positions").and_then(|(_, info)| info.shape.first().copied());
        let positions = optional("positions", &[count.unwrap_or(0)])?;
        let positions: Option<Vec<usize>> = match positions {
            None => None,
            Some(list) => {
                let columns: Result<_, _> = list.iter().map(|&column| usize::try_from(column)).collect();
                Some(columns.map_err(|_| self.refuse(format!("`{name}.positions` holds a negative column")))?)
            }
        };
        if logits.dtype != Dtype::F32 {
            return Err(self.refuse(format!("`{logits_name}` is {}; F32 is needed", logits.dtype)));
        }
        let stored = count.unwrap_or(sequence);
        let vocab = match logits.shape.as_slice() {
            &[rows, columns, vocab] if (rows, columns) == (batch, stored) && vocab > 0 => vocab,
            shape => {
                let implied = if count.is_some() { "positions" } else { "input_ids" };
                return Err(self.refuse(format!("`{logits_name}` is {shape:?}; {implied} implies [{batch}, {stored}, vocab]")));
            }
        };
        if let Some(id) = input_ids.iter().find(|&&id| id >= vocab as i64) {
            return Err(self.refuse(format!("`{name}.input_ids` holds {id}; `{logits_name}` has a vocabulary of {vocab}")));
        }
        let prompt =
            PromptSet::new(name, batch, input_ids, mask, position_ids, positions).map_err(|error| self.refuse(error.to_string()))?;
        let offset = self.data_start + logits.data_offsets.0 as u64;
        let store = Store::File { file: Arc::clone(&self.file), path: Arc::clone(&self.path), offset };
        let set = GoldenSet { prompt, vocab, logits: store };
        self.check_finite(&set)?;
        Ok(set)
    }

    fn integers(&self, set: &str, part: &str, info: &TensorInfo, shape: &[usize]) -> Result<Vec<i64>, Error> {
        if info.dtype != Dtype::I64 {
            return Err(self.refuse(format!("`{set}.{part}` is {}; I64 is needed", info.dtype)));
        }
        if info.shape != shape {
            return Err(self.refuse(format!("`{set}.{part}` is {:?}; {shape:?} is needed", info.shape)));
        }
        let (from, to) = info.data_offsets;
        let mut bytes = vec![0; to - from];
        self.read(self.data_start + from as u64, &mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }

    fn check_finite(&self, set: &GoldenSet) -> Result<(), Error> {
        let mut logits = Vec::new();
        for row in 0..set.prompt.batch() {
            for index in 0..set.prompt.stored() {
                let column = set.prompt.column(index);
                if !set.prompt.attends(row, column) {
                    continue;
                }
                set.read(row, index, &mut logits)?;
                if let Some(entry) = logits.iter().position(|logit| !logit.is_finite()) {
                    let (name, value) = (set.prompt.name(), logits[entry]);
                    return Err(self.refuse(format!("`{name}.logits` is {value} at row {row}, column {column}, entry {entry}")));
                }
            }
        }
        Ok(())
    }
}

/// The keys of a JSON object in their order, duplicates kept.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(KeyVisitor)
    }
}
