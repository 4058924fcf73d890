//! Writing a golden file position by position.

use std::collections::HashMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use plansmith_files::AtomicFile;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::PRODUCER;
use crate::{Error, PromptSet};

/// A golden file being written: the prompts are there, the logits follow in the order of the sets, rows and stored positions.
///
/// The same prompts and logits give the same bytes.
pub(crate) struct GoldenWriter {
    file: BufWriter<AtomicFile>,
    path: PathBuf,
    vocab: usize,
    missing: usize,
}

impl GoldenWriter {
    /// Starts `path` for logits of `vocab` entries a position.
    pub(crate) fn create(path: &Path, sets: &[PromptSet], vocab: usize, producer: &str) -> Result<Self, Error> {
        let mut tensors = Vec::new();
        let mut integers: Vec<i64> = Vec::new();
        let mut offset = 0;
        let mut list = |name: String, dtype: Dtype, shape: Vec<usize>| {
            let start = offset;
            offset += shape.iter().product::<usize>() * dtype.bitsize() / 8;
            tensors.push((name, TensorInfo { dtype, shape, data_offsets: (start, offset) }));
        };
        for set in sets {
            let shape = vec![set.batch(), set.sequence()];
            let parts = [("input_ids", set.input_ids()), ("attention_mask", set.attention_mask()), ("position_ids", set.position_ids())];
            for (part, values) in parts {
                list(format!("{}.{part}", set.name()), Dtype::I64, shape.clone());
                integers.extend_from_slice(values);
            }
            if let Some(positions) = set.positions() {
                list(format!("{}.positions", set.name()), Dtype::I64, vec![positions.len()]);
                integers.extend(positions.iter().map(|&column| column as i64));
            }
        }
        for set in sets {
            list(format!("{}.logits", set.name()), Dtype::F32, vec![set.batch(), set.stored(), vocab]);
        }
        let refuse = |problem: String| Error::Golden { path: path.to_owned(), problem, hint: "use fewer or shorter prompts".to_owned() };
        let producer = HashMap::from([(PRODUCER.to_owned(), producer.to_owned())]);
        let header = Metadata::new(Some(producer), tensors).map_err(|error| refuse(error.to_string()))?;
        let mut header = serde_json::to_vec(&header).map_err(|error| refuse(error.to_string()))?;
        header.resize(header.len().next_multiple_of(8), b' ');

        let file = BufWriter::with_capacity(1 << 20, AtomicFile::create(path)?);
        let missing = sets.iter().map(|set| set.batch() * set.stored()).sum();
        let mut writer = Self { file, path: path.to_owned(), vocab, missing };
        writer.bytes(&(header.len() as u64).to_le_bytes())?;
        writer.bytes(&header)?;
        for value in integers {
            writer.bytes(&value.to_le_bytes())?;
        }
        Ok(writer)
    }

    /// Appends the `[vocab]` logits of the next stored position.
    pub(crate) fn push(&mut self, logits: &[f32]) -> Result<(), Error> {
        assert!(logits.len() == self.vocab && self.missing > 0, "one position of the announced vocabulary at a time");
        self.missing -= 1;
        logits.iter().try_for_each(|logit| self.bytes(&logit.to_le_bytes()))
    }

    /// Puts the file under its name.
    pub(crate) fn finish(self) -> Result<(), Error> {
        assert_eq!(self.missing, 0, "every stored position has its logits");
        let file = self.file.into_inner().map_err(|error| plansmith_files::Error::new("write", &self.path, error.into_error()))?;
        Ok(file.commit()?)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.file.write_all(bytes).map_err(|error| plansmith_files::Error::new("write", &self.path, error))?)
    }
}
