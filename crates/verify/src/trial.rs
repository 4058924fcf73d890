//! One way of feeding a prompt set to a session, and what each column should give.

use plansmith_tensor::{Logits, Session, SessionError};

use crate::metrics::{Meter, Place};
use crate::noise::Noise;
use crate::verdict::CheckName;
use crate::{Error, GoldenSet, PromptSet};

/// Columns of one step, at most, unless a rotation that changes with the length wants more.
const MOST_COLUMNS: usize = 1024;
/// Logits of one step, at most: 256 MiB.
const MOST_LOGITS: usize = 1 << 26;

/// The stored logits that a column is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Row of the golden set.
    pub(crate) row: usize,
    /// Index among its stored positions.
    pub(crate) index: usize,
}

/// A prompt set as it is fed, step by step.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) check: CheckName,
    pub(crate) prompt: PromptSet,
    /// Columns fed after each step; the last is all of them.
    pub(crate) steps: Vec<usize>,
    /// `[batch, sequence]`; `None` where nothing is compared.
    pub(crate) expected: Vec<Option<Expected>>,
    /// Whether positions that are compared with nothing have to be finite.
    pub(crate) finite: bool,
}

/// What a trial measured.
#[derive(Debug)]
pub(crate) struct Reading {
    /// At every position that is compared.
    pub(crate) all: Meter,
    /// At the last attended column of each row.
    pub(crate) last: Meter,
}

impl Trial {
    /// Runs the trial on an emptied `session` and measures what can be compared.
    ///
    /// A session that gives only each row's last attended position is compared there. Where the golden has none of those, the trial is
    /// cut behind the last column it has and run again.
    pub(crate) fn run(
        &self,
        session: &mut dyn Session,
        golden: &GoldenSet,
        noise: Option<&Noise>,
    ) -> Result<Result<Reading, Refused>, Error> {
        let meter = || Meter::beside(noise.map(Noise::typical));
        let mut reading = Reading { all: meter(), last: meter() };
        let last_only = match self.read(session, golden, noise, &self.steps, &mut reading)? {
            Ok(last_only) => last_only,
            Err(refused) => return Ok(Err(refused)),
        };
        if last_only && reading.all.positions() == 0 {
            let sequence = self.prompt.sequence();
            let end = (0..sequence).rev().find(|column| self.expected.iter().skip(*column).step_by(sequence).any(Option::is_some));
            if let Some(end) = end.map(|column| column + 1) {
                let steps: Vec<usize> = self.steps.iter().copied().filter(|&step| step < end).chain([end]).collect();
                return Ok(self.read(session, golden, noise, &steps, &mut reading)?.map(|_| reading));
            }
        }
        Ok(Ok(reading))
    }

    fn read(
        &self,
        session: &mut dyn Session,
        golden: &GoldenSet,
        noise: Option<&Noise>,
        steps: &[usize],
        reading: &mut Reading,
    ) -> Result<Result<bool, Refused>, Error> {
        let prompt = &self.prompt;
        let ends: Vec<Option<usize>> = (0..prompt.batch()).map(|row| last_attended(prompt, row, 0, prompt.sequence())).collect();
        let mut wanted = Vec::new();
        feed(session, self.check, prompt, steps, golden.vocab(), &mut |place, given| {
            let Some(expected) = self.expected[place.row * prompt.sequence() + place.column] else {
                if self.finite {
                    reading.all.add_unknown(place, given);
                }
                return Ok(());
            };
            golden.read(expected.row, expected.index, &mut wanted)?;
            let next = prompt.next(place.row, place.column);
            let cell = noise.and_then(|noise| noise.at(golden, expected.row, expected.index));
            let is_last = ends[place.row] == Some(place.column);
            for meter in [Some(&mut reading.all), is_last.then_some(&mut reading.last)].into_iter().flatten() {
                meter.add_logits_before(place, &wanted, given, next);
                cell.into_iter().for_each(|cell| meter.add_noise(place, cell));
            }
            Ok(())
        })
    }
}

/// What takes the logits of one position.
pub(crate) type Each<'a> = dyn FnMut(Place, &[f32]) -> Result<(), Error> + 'a;

/// Empties `session` and feeds it `prompt` up to each of `steps`. Hands over the logits of every position that it gives; of a session that gives
/// each row's last attended position only, those (where a step attends none, what it gives under the step's last column). Returns whether it is
/// such a session.
pub(crate) fn feed(
    session: &mut dyn Session,
    check: CheckName,
    prompt: &PromptSet,
    steps: &[usize],
    vocab: usize,
    each: &mut Each<'_>,
) -> Result<Result<bool, Refused>, Error> {
    let runtime = session.runtime();
    let set = || prompt.name().to_owned();
    let failed = |source: SessionError| Error::Step { check, set: set(), runtime, source };
    if let Err(refused) = reset(session, prompt.batch()).map_err(failed)? {
        return Ok(Err(refused));
    }
    let mut last_only = false;
    let mut from = 0;
    for &to in steps {
        let logits = match session.step(&prompt.slice(from, to)) {
            Err(error) => match error.inapplicable() {
                Some(reason) => return Ok(Err(Refused(reason))),
                None => return Err(failed(error)),
            },
            Ok(logits) => logits,
        };
        let only = check_shape(&logits, prompt.batch(), to - from, vocab);
        let only = only.map_err(|problem| Error::Output { check, set: set(), runtime, problem })?;
        last_only |= only;
        for row in 0..prompt.batch() {
            if only {
                let column = last_attended(prompt, row, from, to).unwrap_or(to - 1);
                each(Place { row, column }, logits.at(row, 0))?;
            } else {
                (from..to).try_for_each(|column| each(Place { row, column }, logits.at(row, column - from)))?;
            }
        }
        from = to;
    }
    Ok(Ok(last_only))
}

/// The steps that feed `columns` of `prompt` at once, or in as few parts as its size allows.
pub(crate) fn at_once(prompt: &PromptSet, columns: usize, vocab: usize) -> Vec<usize> {
    let most = (MOST_LOGITS / (prompt.batch() * vocab)).clamp(64, MOST_COLUMNS);
    let mut steps = Vec::new();
    let mut end = if columns > most { prompt.first_step(most).map_or(columns, |first| first.min(columns)) } else { columns };
    while end < columns {
        steps.push(end);
        end += most;
    }
    steps.push(columns);
    steps
}

/// A session that cannot take an input, in its words.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

/// Empties `session` for `rows` rows, once: to empty it twice would hide what the first time leaves behind. A graph or plan made for one
/// row refuses more, which is no failure.
pub(crate) fn reset(session: &mut dyn Session, rows: usize) -> Result<Result<(), Refused>, SessionError> {
    match session.reset(rows) {
        Err(SessionError::Batch(reason)) if rows > 1 => Ok(Err(Refused(reason))),
        Err(SessionError::Unsupported(reason)) => Ok(Err(Refused(reason))),
        other => other.map(Ok),
    }
}

/// The last column of `from..to` that `row` attends.
fn last_attended(prompt: &PromptSet, row: usize, from: usize, to: usize) -> Option<usize> {
    (from..to).rev().find(|&column| prompt.attends(row, column))
}

/// Checks `[batch, sequence or 1, vocab]`. Returns whether only the last position was given.
pub(crate) fn check_shape(logits: &Logits, batch: usize, sequence: usize, vocab: usize) -> Result<bool, String> {
    let last_only = logits.sequence == 1 && sequence > 1;
    let fits = logits.batch == batch && logits.vocab == vocab && (logits.sequence == sequence || last_only);
    let given = [logits.batch, logits.sequence, logits.vocab];
    if !fits {
        return Err(format!("logits of shape {given:?}; [{batch}, {sequence}, {vocab}] or [{batch}, 1, {vocab}] was wanted"));
    }
    if logits.data.len() != given.iter().product::<usize>() {
        return Err(format!("{} logits for a shape of {given:?}", logits.data.len()));
    }
    Ok(last_only)
}
