//! The mutation table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plansmith_verify::FirstDivergence;

use crate::clean::Clean;
use crate::fault::{Fault, Way};
use crate::score::Scored;

/// All that was seeded, and what became of it.
#[derive(Default)]
pub struct Table {
    rows: Vec<(Fault, Way, Result<Scored, String>)>,
    /// Graphs without a fault.
    pub cleans: Vec<Clean>,
}

/// How a row ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grade {
    Found,
    /// Found, and not where it is.
    Misplaced,
    Escaped,
    /// The fault could not be seeded.
    Unseeded,
}

impl Table {
    /// Adds a row and returns its line for a terminal.
    pub fn add(&mut self, fault: Fault, way: Way, scored: Result<Scored, String>) -> String {
        self.rows.push((fault, way, scored));
        self.rows.last().map(line).unwrap_or_default()
    }

    /// Whether every fault was found where it is, and no graph without a fault was accused.
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| grade(row) == Grade::Found) && self.cleans.iter().all(|clean| clean.alarm.is_none())
    }

    /// The totals, for a terminal.
    pub fn totals(&self) -> String {
        let count = |way: Way, wanted: fn(Grade) -> bool| self.rows.iter().filter(|row| row.1 == way && wanted(grade(row))).count();
        let caught = |way| count(way, |grade| matches!(grade, Grade::Found | Grade::Misplaced));
        let all = |way| count(way, |_| true);
        let alarms = self.cleans.iter().filter(|clean| clean.alarm.is_some()).count();
        format!(
            "graph faults: {} of {} caught with the reference alone, {} located\nspec faults: {} of {} caught with a golden\nclean graphs: {} \
             false alarms in {}",
            caught(Way::Graph),
            all(Way::Graph),
            count(Way::Graph, |grade| grade == Grade::Found),
            caught(Way::Both),
            all(Way::Both),
            alarms,
            self.cleans.len(),
        )
    }

    /// The table as `docs/verify.md` holds it, without its heading.
    pub fn markdown(&self, runtime: &str) -> String {
        let mut text = format!(
            "\nMade by `cargo xtask mutants` (runtime: {runtime}); do not edit. Faults are seeded into the checkpoints of \
             `testdata/mutants`. *Graph* faults are in the graph alone and are to be caught with the built-in reference alone; *found at* is \
             what `--bisect` says, by the names of our nodes and, with those taken away, by structure. *Spec* faults are in graph and \
             reference alike and are to be caught with golden logits of transformers.\n\n```text\n{}\n```\n\n| checkpoint | fault in the \
             graph | caught by | is at | found at | by structure | first hint |\n|---|---|---|---|---|---|---|\n",
            self.totals()
        );
        for (fault, _, scored) in self.rows.iter().filter(|row| row.1 == Way::Graph) {
            let is_at = place(fault.place.layer(), fault.place.block());
            let cells = match scored {
                Err(problem) => format!("not seeded: {} | {is_at} | | |", cell(problem)),
                Ok(scored) => {
                    let hint = scored.by_name.as_ref().and_then(|found| found.cause_hints.first()).map(|hint| cell(hint));
                    let (by_name, by_structure) = (found(scored.by_name.as_ref()), found(scored.by_structure.as_ref()));
                    let caught = scored.caught.as_deref().map_or_else(|| "**escaped**".to_owned(), cell);
                    format!("{caught} | {is_at} | {by_name} | {by_structure} | {}", hint.unwrap_or_default())
                }
            };
            let _ = writeln!(text, "| {} | {} | {cells} |", fault.checkpoint, fault.name);
        }
        text += "\n| checkpoint | fault in the spec | caught by |\n|---|---|---|\n";
        for (fault, _, scored) in self.rows.iter().filter(|row| row.1 == Way::Both) {
            let caught = match scored {
                Err(problem) => format!("not seeded: {}", cell(problem)),
                Ok(scored) => scored.caught.as_deref().map_or_else(|| "**escaped**".to_owned(), cell),
            };
            let _ = writeln!(text, "| {} | {} | {caught} |", fault.checkpoint, fault.name);
        }
        let mut by_dtype: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for clean in &self.cleans {
            let (count, alarms) = by_dtype.entry(&clean.dtypes).or_default();
            *count += 1;
            *alarms += usize::from(clean.alarm.is_some());
        }
        text += "\n| graphs without a fault | graphs | false alarms |\n|---|---|---|\n";
        for (dtypes, (count, alarms)) in by_dtype {
            let _ = writeln!(text, "| {dtypes} | {count} | {alarms} |");
        }
        for clean in self.cleans.iter().filter(|clean| clean.alarm.is_some()) {
            let _ = writeln!(text, "\nFalse alarm: `{}`, {}.", clean.checkpoint, clean.dtypes);
        }
        text
    }
}

fn grade((fault, way, scored): &(Fault, Way, Result<Scored, String>)) -> Grade {
    let Ok(scored) = scored else { return Grade::Unseeded };
    let right = |found: Option<&FirstDivergence>| {
        found.is_some_and(|found| found.layer == fault.place.layer() && (found.layer.is_some() || found.block == fault.place.block()))
    };
    // A graph that is not run at all has no divergence; its refusal says which tensor it is about.
    let names_layer = |caught: &str| {
        caught.starts_with("refused") && fault.place.layer().is_some_and(|layer| caught.contains(&format!("layers.{layer}.")))
    };
    match (&scored.caught, way) {
        (None, _) => Grade::Escaped,
        (Some(_), Way::Both) => Grade::Found,
        (Some(caught), Way::Graph) if names_layer(caught) => Grade::Found,
        (Some(_), Way::Graph) if right(scored.by_name.as_ref()) && right(scored.by_structure.as_ref()) => Grade::Found,
        (Some(_), Way::Graph) => Grade::Misplaced,
    }
}

fn line(row: &(Fault, Way, Result<Scored, String>)) -> String {
    let (fault, way, scored) = row;
    let way = match way {
        Way::Graph => "graph",
        Way::Both => "spec",
    };
    let start = format!("{:<9} {:<8} {way:<5} {}", format!("{:?}", grade(row)).to_lowercase(), fault.checkpoint, fault.name);
    match scored {
        Err(problem) => format!("{start}: {problem}"),
        Ok(scored) => {
            let caught = scored.caught.as_deref().unwrap_or("nothing");
            let places = match (&scored.by_name, &scored.by_structure) {
                (None, None) => String::new(),
                (by_name, by_structure) => format!(
                    "; at {} (is at {}; by structure {}; {}; {})",
                    found(by_name.as_ref()),
                    place(fault.place.layer(), fault.place.block()),
                    found(by_structure.as_ref()),
                    by_name.as_ref().and_then(|found| found.run.clone()).unwrap_or_default(),
                    by_name.as_ref().map(|found| found.cause_hints.join("; ")).unwrap_or_default(),
                ),
            };
            let lost = scored.lost.as_ref().map(|lost| format!("; {lost}")).unwrap_or_default();
            format!("{start}: {caught}{places}{lost}")
        }
    }
}

fn place(layer: Option<usize>, block: &str) -> String {
    layer.map_or_else(|| block.to_owned(), |layer| format!("{layer} {block}"))
}

fn found(found: Option<&FirstDivergence>) -> String {
    found.map_or_else(|| "nowhere".to_owned(), |found| place(found.layer, &found.block))
}

/// Text within a cell of a table: one line, shortened.
fn cell(text: &str) -> String {
    let line: String = text.chars().map(|each| if each.is_control() { ' ' } else { each }).take(120).collect();
    line.replace('|', "\\|")
}
