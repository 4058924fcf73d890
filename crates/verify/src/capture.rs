//! Running a source once, so that any number of candidates can be compared with it.

use std::path::Path;

use plansmith_tensor::{Session, SessionError};

use crate::cache::CapturedCache;
use crate::golden::{GoldenWriter, REFERENCE_PRODUCER};
use crate::trial::check_shape;
use crate::verdict::CheckName;
use crate::{Error, Golden, Progress, PromptSet, Prompts};

/// What a source gave for a run's prompts.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Its logits.
    pub golden: Golden,
    /// Its keys and values for one short set, padded where there is such a set.
    pub cache: CapturedCache,
}

/// Where captured logits are kept.
#[derive(Debug, Clone, Copy)]
pub enum Keep<'a> {
    /// In memory: 4 bytes × vocabulary × compared positions.
    Memory,
    /// In a golden file of this path, read back a position at a time: `plansmith golden`, a bundle, or a model whose logits are too many.
    File(&'a Path),
}

impl Capture {
    /// Feeds every set to `source` in one prefill and keeps what it gives at the positions of interest; zeros where the mask is 0.
    ///
    /// `producer` is recorded in the golden; [`REFERENCE_PRODUCER`] for the built-in reference.
    ///
    /// # Errors
    /// The source fails, gives only the last position or another vocabulary than `vocab`, or a value that is not finite (names set, row and
    /// column: no candidate can be compared with that); the file cannot be written.
    pub fn record(
        source: &mut dyn Session,
        prompts: &Prompts,
        vocab: usize,
        keep: Keep<'_>,
        producer: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        let mut sink = match keep {
            Keep::Memory => Sink::Memory(Vec::new()),
            Keep::File(path) => Sink::File(Box::new(GoldenWriter::create(path, prompts.sets(), vocab, producer)?), path),
        };
        let chosen = cache_set(prompts.sets());
        let mut cache = None;
        for (done, set) in prompts.sets().iter().enumerate() {
            progress(Progress { check: CheckName::Prefill, set: set.name(), done, total: prompts.sets().len() });
            sink.begin(set);
            prefill(source, set, vocab, &mut sink)?;
            if done == chosen {
                cache = Some(CapturedCache::of(source, set)?);
            }
        }
        let golden = match sink {
            Sink::Memory(sets) => Golden::in_memory(sets, vocab, producer),
            Sink::File(writer, path) => {
                writer.finish()?;
                Golden::open(path)?.switching_at(prompts.switch_length())
            }
        };
        let cache = cache.ok_or_else(|| Error::Prompt { set: "(none)".to_owned(), problem: "there is no prompt".to_owned() })?;
        Ok(Self { golden, cache })
    }

    /// [`Capture::record`] in memory, of the built-in reference.
    ///
    /// # Errors
    /// Those of [`Capture::record`].
    pub fn of_reference(reference: &mut dyn Session, prompts: &Prompts, vocab: usize) -> Result<Self, Error> {
        Self::record(reference, prompts, vocab, Keep::Memory, REFERENCE_PRODUCER, &mut |_| ())
    }
}

/// The smallest set of more than one column, a padded one if there is any.
fn cache_set(sets: &[PromptSet]) -> usize {
    let cost = |set: &PromptSet| (set.sequence() == 1, !set.is_padded(), set.batch() * set.sequence());
    (0..sets.len()).min_by_key(|&index| cost(&sets[index])).unwrap_or(0)
}

fn prefill(source: &mut dyn Session, set: &PromptSet, vocab: usize, sink: &mut Sink<'_>) -> Result<(), Error> {
    let runtime = source.runtime();
    let check = CheckName::Prefill;
    let failed = |source: SessionError| Error::Step { check, set: set.name().to_owned(), runtime, source };
    let output = |problem: String| Error::Output { check, set: set.name().to_owned(), runtime, problem };
    source.reset(set.batch()).map_err(failed)?;
    let logits = source.step(&set.slice(0, set.sequence())).map_err(failed)?;
    if check_shape(&logits, set.batch(), set.sequence(), vocab).map_err(output)? {
        return Err(output("only the last position's logits; a source has to give all of them".to_owned()));
    }
    let masked = vec![0.0; vocab];
    for row in 0..set.batch() {
        for column in (0..set.stored()).map(|index| set.column(index)) {
            if !set.attends(row, column) {
                sink.push(&masked)?;
                continue;
            }
            let values = logits.at(row, column);
            if let Some(entry) = values.iter().position(|value| !value.is_finite()) {
                return Err(output(format!("{} at row {row}, column {column}, entry {entry}", values[entry])));
            }
            sink.push(values)?;
        }
    }
    Ok(())
}

enum Sink<'a> {
    Memory(Vec<(PromptSet, Vec<f32>)>),
    File(Box<GoldenWriter>, &'a Path),
}

impl Sink<'_> {
    fn begin(&mut self, set: &PromptSet) {
        if let Self::Memory(sets) = self {
            sets.push((set.clone(), Vec::new()));
        }
    }

    fn push(&mut self, values: &[f32]) -> Result<(), Error> {
        match self {
            Self::Memory(sets) => {
                if let Some((_, logits)) = sets.last_mut() {
                    logits.extend_from_slice(values);
                }
                Ok(())
            }
            Self::File(writer, _) => writer.push(values),
        }
    }
}
