//! Running a source once, so that any number of candidates can be compared with it.

use std::path::Path;

use plansmith_tensor::{Logits, Session, SessionError};

use crate::cache::CapturedCache;
use crate::checks::largest;
use crate::golden::{GoldenWriter, REFERENCE_PRODUCER};
use crate::trial::check_shape;
use crate::verdict::CheckName;
use crate::{Error, Golden, Progress, PromptSet, Prompts};

/// Tokens that a source generates and is fed; it chooses one more.
const GENERATED: usize = 15;

/// What a source gave for a run's prompts.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Its logits; besides those of the prompts those of [`Capture::GREEDY`], where there is room for it.
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
    /// Name of the set that is one of the prompts with the 15 tokens that the source itself chooses after it. Its logits are those of the
    /// prompt's last column and of every column after it: 16 choices.
    pub const GREEDY: &'static str = "greedy";

    /// Feeds every set to `source` in one prefill and keeps what it gives at the positions of interest; zeros where the mask is 0. Then lets it
    /// go on from one of the prompts, where [`Prompts::limit`] leaves room and no set is called [`Capture::GREEDY`] already.
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
        let total = prompts.sets().len() + 1;
        progress(Progress { check: CheckName::Greedy, set: Self::GREEDY, done: 0, total });
        let generated = to_continue(prompts).map(|set| generate(source, set, vocab)).transpose()?;
        let mut sets = prompts.sets().to_vec();
        sets.extend(generated.iter().map(|(set, _)| set.clone()));
        let mut sink = match keep {
            Keep::Memory => Sink::Memory(Vec::new()),
            Keep::File(path) => Sink::File(Box::new(GoldenWriter::create(path, &sets, vocab, producer)?), path),
        };
        let chosen = cache_set(prompts.sets());
        let mut cache = None;
        for (done, set) in prompts.sets().iter().enumerate() {
            progress(Progress { check: CheckName::Prefill, set: set.name(), done: done + 1, total });
            sink.begin(set);
            prefill(source, set, vocab, &mut sink)?;
            if done == chosen {
                cache = Some(CapturedCache::of(source, set)?);
            }
        }
        if let Some((set, logits)) = &generated {
            sink.begin(set);
            logits.chunks_exact(vocab).try_for_each(|logits| sink.push(logits))?;
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

/// The longest prompt of a moderate length that the source may go on from without leaving its positions or its side of a switch.
fn to_continue(prompts: &Prompts) -> Option<&PromptSet> {
    let limit = prompts.limit()?;
    let fits = |set: &&PromptSet| {
        let last = set.position_ids().last().copied().unwrap_or(0) + GENERATED as i64;
        let beyond = |position: i64| prompts.switch_length().is_some_and(|length| position >= length as i64);
        let counted = set.position_ids().iter().copied().eq(0..set.sequence() as i64);
        set.batch() == 1 && !set.is_padded() && counted && last < limit as i64 && beyond(last) == beyond(last - GENERATED as i64)
    };
    let taken = prompts.sets().iter().any(|set| set.name() == Capture::GREEDY);
    let moderate = |set: &&PromptSet| (set.sequence() > 64, set.sequence().abs_diff(32));
    prompts.sets().iter().filter(fits).min_by_key(moderate).filter(|_| !taken)
}

/// The set with what `source` chooses after it, and the logits of every choice and of the last token.
fn generate(source: &mut dyn Session, set: &PromptSet, vocab: usize) -> Result<(PromptSet, Vec<f32>), Error> {
    let runtime = source.runtime();
    let check = CheckName::Greedy;
    let failed = |source: SessionError| Error::Step { check, set: set.name().to_owned(), runtime, source };
    let output = |problem: String| Error::Output { check, set: set.name().to_owned(), runtime, problem };
    let length = set.sequence();
    let mut ids = set.input_ids().to_vec();
    let mut kept = Vec::new();
    source.reset(1).map_err(failed)?;
    for end in length..=length + GENERATED {
        let longer = PromptSet::new(set.name(), 1, ids.clone(), None, None, None)?;
        let from = if end == length { 0 } else { end - 1 };
        let logits = source.step_at(&longer.slice(from, end), &[end - from - 1]).map_err(failed)?;
        check_shape(&logits, 1, 1, vocab).map_err(output)?;
        kept.extend_from_slice(&logits.data);
        if let Some(entry) = logits.data.iter().position(|value| !value.is_finite()) {
            return Err(output(format!("{} at column {}, entry {entry}", logits.data[entry], end - 1)));
        }
        ids.extend(largest(&logits.data).map(|id| id as i64));
    }
    ids.truncate(length + GENERATED);
    let columns = (length - 1..length + GENERATED).collect();
    let continued = PromptSet::new(Capture::GREEDY, 1, ids, None, None, Some(columns))?;
    Ok((continued.switching_at(set.switch_length()), kept))
}

/// The logits of a set's stored columns, `[batch, stored, vocab]`, after one prefill.
pub(crate) fn stored_logits(source: &mut dyn Session, set: &PromptSet, vocab: usize) -> Result<Logits, Error> {
    let runtime = source.runtime();
    let check = CheckName::Prefill;
    let failed = |source: SessionError| Error::Step { check, set: set.name().to_owned(), runtime, source };
    let output = |problem: String| Error::Output { check, set: set.name().to_owned(), runtime, problem };
    source.reset(set.batch()).map_err(failed)?;
    let columns: Vec<usize> = (0..set.stored()).map(|index| set.column(index)).collect();
    let logits = source.step_at(&set.slice(0, set.sequence()), &columns).map_err(failed)?;
    if check_shape(&logits, set.batch(), set.stored(), vocab).map_err(output)? {
        return Err(output("only the last position's logits; a source has to give all of them".to_owned()));
    }
    Ok(logits)
}

fn prefill(source: &mut dyn Session, set: &PromptSet, vocab: usize, sink: &mut Sink<'_>) -> Result<(), Error> {
    let logits = stored_logits(source, set, vocab)?;
    let runtime = source.runtime();
    let masked = vec![0.0; vocab];
    for row in 0..set.batch() {
        for index in 0..set.stored() {
            let column = set.column(index);
            if !set.attends(row, column) {
                sink.push(&masked)?;
                continue;
            }
            let values = logits.at(row, index);
            if let Some(entry) = values.iter().position(|value| !value.is_finite()) {
                let problem = format!("{} at row {row}, column {column}, entry {entry}", values[entry]);
                return Err(Error::Output { check: CheckName::Prefill, set: set.name().to_owned(), runtime, problem });
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
