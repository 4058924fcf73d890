//! Two golden files against each other.

use crate::metrics::{Meter, Place};
use crate::tolerance::Tolerance;
use crate::verdict::{Check, CheckName, OracleKind};
use crate::{Error, Golden, GoldenSet};

/// Compares the logits of two golden files that hold the same prompts: `a` is the source, `b` the candidate.
///
/// Columns that either stores are compared where both do and both attend. The result is one check a set, in the order of `a`; the set is
/// named by `worst`.
///
/// # Errors
/// The two differ in sets, ids, masks, position ids or vocabulary, or share no position of a set; a file can no longer be read.
pub fn compare(a: &Golden, b: &Golden, tolerance: &Tolerance) -> Result<Vec<(String, Check)>, Error> {
    let refuse = |problem: String| {
        let path = |golden: &Golden| golden.path().map(ToOwned::to_owned).unwrap_or_default();
        Error::Compare { a: path(a), b: path(b), problem }
    };
    if a.vocab() != b.vocab() {
        return Err(refuse(format!("the logits have {} and {} entries a position", a.vocab(), b.vocab())));
    }
    let find = |golden: &Golden, name: &str| golden.sets().iter().position(|set| set.prompt().name() == name);
    if let Some(extra) = b.sets().iter().find(|set| find(a, set.prompt().name()).is_none()) {
        return Err(refuse(format!("set `{}` is in the second file only", extra.prompt().name())));
    }
    let mut checks = Vec::new();
    for set in a.sets() {
        let name = set.prompt().name();
        let Some(other) = find(b, name).map(|index| &b.sets()[index]) else {
            return Err(refuse(format!("set `{name}` is in the first file only")));
        };
        same_prompt(set, other).map_err(refuse)?;
        let mut meter = Meter::default();
        compare_set(set, other, &mut meter)?;
        if meter.positions() == 0 {
            return Err(refuse(format!("set `{name}`: the two files have no position in common")));
        }
        let metrics = meter.finish();
        checks.push((name.to_owned(), Check::new(CheckName::Prefill, OracleKind::Golden, &metrics, name.to_owned(), tolerance)));
    }
    Ok(checks)
}

/// Ids and positions count where the mask is 1 only.
fn same_prompt(a: &GoldenSet, b: &GoldenSet) -> Result<(), String> {
    let (a, b) = (a.prompt(), b.prompt());
    let name = a.name();
    let shape = |prompt: &crate::PromptSet| [prompt.batch(), prompt.sequence()];
    if shape(a) != shape(b) {
        return Err(format!("`{name}.input_ids` is {:?} and {:?}", shape(a), shape(b)));
    }
    let masked = a.attention_mask();
    let arrays = [
        ("attention_mask", masked, b.attention_mask()),
        ("input_ids", a.input_ids(), b.input_ids()),
        ("position_ids", a.position_ids(), b.position_ids()),
    ];
    for (part, a_values, b_values) in arrays {
        let counts = |index: &usize| part == "attention_mask" || masked[*index] == 1;
        if let Some(index) = (0..masked.len()).filter(counts).find(|&index| a_values[index] != b_values[index]) {
            let (row, column) = (index / a.sequence(), index % a.sequence());
            let (a_value, b_value) = (a_values[index], b_values[index]);
            return Err(format!("`{name}.{part}` is {a_value} and {b_value} at row {row}, column {column}"));
        }
    }
    Ok(())
}

fn compare_set(a: &GoldenSet, b: &GoldenSet, meter: &mut Meter) -> Result<(), Error> {
    let prompt = a.prompt();
    let (in_a, in_b) = (a.index_of_columns(), b.index_of_columns());
    let (mut source, mut candidate) = (Vec::new(), Vec::new());
    for row in 0..prompt.batch() {
        for column in (0..prompt.sequence()).filter(|&column| prompt.attends(row, column)) {
            if let (Some(index_a), Some(index_b)) = (in_a[column], in_b[column]) {
                a.read(row, index_a, &mut source)?;
                b.read(row, index_b, &mut candidate)?;
                meter.add_logits_before(Place { row, column }, &source, &candidate, prompt.next(row, column));
            }
        }
    }
    Ok(())
}
