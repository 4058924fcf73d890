//! Golden files: prompts with the right logits, made by somebody else or by the built-in reference.

mod read;
mod write;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use write::GoldenWriter;

use crate::{Error, PromptSet};

/// The `__metadata__` key that says who computed the logits.
pub(crate) const PRODUCER: &str = "producer";

/// What our own reference writes as `producer` into a golden file: such a file does not prove that the config was read rightly.
pub const REFERENCE_PRODUCER: &str = "plansmith reference";

/// Prompt sets with their logits.
///
/// The logits stay in the file they were read from; a check holds one position of them at a time.
#[derive(Debug, Clone)]
pub struct Golden {
    sets: Vec<GoldenSet>,
    vocab: usize,
    producer: Option<String>,
    path: Option<PathBuf>,
}

/// One prompt set with logits `[batch, stored, vocab]` fp32, `stored` being all columns or those of `positions`.
#[derive(Debug, Clone)]
pub struct GoldenSet {
    prompt: PromptSet,
    vocab: usize,
    logits: Store,
}

#[derive(Debug, Clone)]
enum Store {
    Memory(Vec<f32>),
    File { file: Arc<File>, path: Arc<Path>, offset: u64 },
}

impl Golden {
    /// A golden kept in memory.
    pub(crate) fn in_memory(sets: Vec<(PromptSet, Vec<f32>)>, vocab: usize, producer: &str) -> Self {
        let sets = sets.into_iter().map(|(prompt, logits)| GoldenSet { prompt, vocab, logits: Store::Memory(logits) }).collect();
        Self { sets, vocab, producer: Some(producer.to_owned()), path: None }
    }

    /// The same logits, of a source whose rotations change at this total length.
    #[must_use]
    pub fn switching_at(mut self, length: Option<usize>) -> Self {
        self.sets = self.sets.into_iter().map(|set| GoldenSet { prompt: set.prompt.switching_at(length), ..set }).collect();
        self
    }

    /// The sets, by name where they come from a file.
    pub fn sets(&self) -> &[GoldenSet] {
        &self.sets
    }

    /// Entries a position, the same in every set.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Who computed the logits, where the file says so.
    pub fn producer(&self) -> Option<&str> {
        self.producer.as_deref()
    }

    /// Whether the built-in reference computed the logits: agreement then says nothing about the reading of the config.
    pub fn is_own_reference(&self) -> bool {
        self.producer.as_deref() == Some(REFERENCE_PRODUCER)
    }

    /// The file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Refuses a golden that cannot belong to a model of `vocab` entries and `max_positions` positions.
    ///
    /// # Errors
    /// Names the set and both sizes.
    pub fn check_fits(&self, vocab: usize, max_positions: usize) -> Result<(), Error> {
        let refuse = |problem: String| {
            let path = self.path.clone().unwrap_or_default();
            Err(Error::Golden { path, problem, hint: "capture the golden from the checkpoint that is being verified".to_owned() })
        };
        if self.vocab != vocab {
            return refuse(format!("the logits have {} entries a position; the model's vocabulary has {vocab}", self.vocab));
        }
        for set in &self.sets {
            let highest = set.prompt.position_ids().iter().zip(set.prompt.attention_mask()).filter(|pair| *pair.1 == 1).map(|pair| *pair.0);
            if let Some(position) = highest.max().filter(|&position| position >= max_positions as i64) {
                let name = set.prompt.name();
                return refuse(format!("`{name}.position_ids` reaches {position}; the model has {max_positions} positions"));
            }
        }
        Ok(())
    }
}

impl GoldenSet {
    /// The prompt.
    pub fn prompt(&self) -> &PromptSet {
        &self.prompt
    }

    /// Entries a position.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Copies the `[vocab]` logits of `row` at the `index`-th stored position into `logits`.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn read(&self, row: usize, index: usize, logits: &mut Vec<f32>) -> Result<(), Error> {
        let cell = row * self.prompt.stored() + index;
        logits.clear();
        match &self.logits {
            Store::Memory(all) => logits.extend_from_slice(&all[cell * self.vocab..(cell + 1) * self.vocab]),
            Store::File { file, path, offset } => {
                let mut bytes = vec![0; self.vocab * size_of::<f32>()];
                let start = offset + (cell * bytes.len()) as u64;
                plansmith_files::read_at(file, path, &mut bytes, start)?;
                logits.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
        }
        Ok(())
    }

    /// Where among the stored positions each column is: `[sequence]`, `None` for one without logits.
    pub(crate) fn index_of_columns(&self) -> Vec<Option<usize>> {
        let mut indices = vec![None; self.prompt.sequence()];
        for index in 0..self.prompt.stored() {
            indices[self.prompt.column(index)] = Some(index);
        }
        indices
    }
}

#[cfg(test)]
mod tests;
