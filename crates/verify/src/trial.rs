//! One way of feeding a prompt set to a session, and what each column should give.

use plansmith_tensor::{Logits, Session, SessionError};

use crate::metrics::{Meter, Place};
use crate::verdict::CheckName;
use crate::{Error, GoldenSet, PromptSet};

/// The stored logits that a column is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Row of the golden set.
    pub(crate) row: usize,
    /// Index among its stored positions.
    pub(crate) index: usize,
}

/// A prompt set as it is fed: a first part in one step, then column by column.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) check: CheckName,
    pub(crate) prompt: PromptSet,
    /// Columns of the first step.
    pub(crate) first: usize,
    /// `[batch, sequence]`; `None` where nothing is compared.
    pub(crate) expected: Vec<Option<Expected>>,
}

impl Trial {
    /// Runs the trial on an emptied `session` and measures what can be compared.
    ///
    /// A session that gives only each row's last attended position is compared there. Where the golden has none of those, the trial is
    /// cut behind the last column it has and run again.
    pub(crate) fn run(&self, session: &mut dyn Session, golden: &GoldenSet) -> Result<Result<Meter, Refused>, Error> {
        let mut meter = Meter::default();
        let last_only = match self.feed(session, golden, &mut meter, self.prompt.sequence())? {
            Ok(last_only) => last_only,
            Err(refused) => return Ok(Err(refused)),
        };
        if last_only && meter.positions() == 0 {
            let sequence = self.prompt.sequence();
            let end = (0..sequence).rev().find(|column| self.expected.iter().skip(*column).step_by(sequence).any(Option::is_some));
            if let Some(end) = end {
                return Ok(self.feed(session, golden, &mut meter, end + 1)?.map(|_| meter));
            }
        }
        Ok(Ok(meter))
    }

    /// Feeds columns `0..end`. Returns whether the session gave fewer positions than it was fed.
    fn feed(&self, session: &mut dyn Session, golden: &GoldenSet, meter: &mut Meter, end: usize) -> Result<Result<bool, Refused>, Error> {
        let runtime = session.runtime();
        let failed = |source: SessionError| Error::Step { check: self.check, set: golden.prompt().name().to_owned(), runtime, source };
        if let Err(refused) = reset(session, self.prompt.batch()).map_err(failed)? {
            return Ok(Err(refused));
        }
        let mut last_only = false;
        let mut from = 0;
        while from < end {
            let to = if from == 0 { self.first.min(end) } else { from + 1 };
            let logits = session.step(&self.prompt.slice(from, to)).map_err(failed)?;
            last_only |= self.compare(&logits, from, to, golden, meter).map_err(|problem| match problem {
                Problem::Output(problem) => Error::Output { check: self.check, set: golden.prompt().name().to_owned(), runtime, problem },
                Problem::Golden(error) => error,
            })?;
            from = to;
        }
        Ok(Ok(last_only))
    }

    fn compare(&self, logits: &Logits, from: usize, to: usize, golden: &GoldenSet, meter: &mut Meter) -> Result<bool, Problem> {
        let last_only = check_shape(logits, self.prompt.batch(), to - from, golden.vocab()).map_err(Problem::Output)?;
        let mut wanted = Vec::new();
        for row in 0..self.prompt.batch() {
            let columns = if last_only { last_attended(&self.prompt, row, from, to) } else { from..to };
            for (position, column) in columns.enumerate() {
                let Some(expected) = self.expected[row * self.prompt.sequence() + column] else { continue };
                golden.read(expected.row, expected.index, &mut wanted).map_err(Problem::Golden)?;
                meter.add_logits(Place { row, column }, &wanted, logits.at(row, position));
            }
        }
        Ok(last_only)
    }
}

/// A session that does not take so many rows, in its words.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

/// Empties `session` for `rows` rows, once: to empty it twice would hide what the first time leaves behind. A graph or plan made for one
/// row refuses more, which is no failure.
pub(crate) fn reset(session: &mut dyn Session, rows: usize) -> Result<Result<(), Refused>, SessionError> {
    match session.reset(rows) {
        Err(SessionError::Batch(reason)) if rows > 1 => Ok(Err(Refused(reason))),
        other => other.map(Ok),
    }
}

enum Problem {
    Output(String),
    Golden(Error),
}

/// The last column of `from..to` that `row` attends; empty where it attends none.
fn last_attended(prompt: &PromptSet, row: usize, from: usize, to: usize) -> std::ops::Range<usize> {
    (from..to).rev().find(|&column| prompt.attends(row, column)).map_or(0..0, |column| column..column + 1)
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
