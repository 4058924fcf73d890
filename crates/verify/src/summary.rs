//! The verdict as lines of text.

use std::fmt::Write as _;

use crate::label::dtype_label;
use crate::verdict::{CandidateVerdict, Check, FirstDivergence, Oracle, OracleKind, Outcome, Skipped, Verdict};

impl Verdict {
    /// The verdict for a terminal: a block a candidate, then a line that names the oracle and says what its agreement proves, then, where
    /// there are such, a last line that names what was not executed. No trailing newline.
    pub fn summary(&self) -> String {
        let mut lines = Vec::new();
        if let Some(oracles) = &self.oracles {
            lines.push(format!("reference against golden: {}", oracles.verdict.name()));
            lines.extend(oracles.checks.iter().map(check_line));
        }
        for candidate in &self.candidates {
            lines.push(candidate_line(candidate));
            lines.extend(candidate.checks.iter().map(check_line));
            lines.extend(candidate.first_divergence.as_ref().map(FirstDivergence::paragraph));
            let told = |skipped: &Skipped, what: &str| {
                format!("  {:<10} {:<9} {what} {}", skipped.name, oracle_name(skipped.oracle), skipped.reason)
            };
            lines.extend(candidate.failed_to_run.iter().map(|check| told(check, "FAILED to run")));
            lines.extend(candidate.skipped.iter().map(|skipped| told(skipped, "does not apply:")));
        }
        lines.push(self.conclusion());
        let names = |outcome: Outcome| -> Vec<&str> {
            let matching = self.candidates.iter().filter(|candidate| candidate.verdict == outcome);
            matching.map(|candidate| candidate.facts.path.as_str()).collect()
        };
        let not_executed = names(Outcome::NotExecuted);
        if !not_executed.is_empty() {
            lines.push(format!("not_executed on this host: {}", not_executed.join(", ")));
        }
        lines.join("\n")
    }

    /// One line: the outcome, the oracle, and what that proves.
    pub fn conclusion(&self) -> String {
        let outcome = self.verdict.name();
        let reason = self.reason.as_deref().map(|reason| format!("; {reason}")).unwrap_or_default();
        match (self.verdict, self.executed) {
            (Outcome::Agree, 0) => format!("nothing was executed, so nothing was compared with {}", self.oracle_text()),
            (Outcome::Agree, _) => format!("{outcome} with {}: {}", self.oracle_text(), self.proof()),
            _ => format!("{outcome} (oracle: {}){reason}", self.oracle_text()),
        }
    }

    fn oracle_text(&self) -> String {
        let golden = || match &self.golden {
            Some(golden) => match &golden.producer {
                Some(producer) => format!("the golden logits `{}` (computed by {producer})", golden.path),
                None => format!("the golden logits `{}`", golden.path),
            },
            None => "the golden logits".to_owned(),
        };
        match self.oracle {
            Oracle::Reference => "the built-in reference".to_owned(),
            Oracle::Golden => golden(),
            Oracle::Both => format!("the built-in reference and {}", golden()),
        }
    }

    fn proof(&self) -> String {
        let proved = "this proves graph, conversion and runtime";
        let producer = self.golden.as_ref().map(|golden| golden.producer.as_deref());
        let reading = match (self.oracle, producer) {
            (Oracle::Golden | Oracle::Both, Some(None)) => ", not the reading of config.json (the golden does not say what computed it)",
            // Whatever plansmith computes rests on its own reading.
            (Oracle::Golden | Oracle::Both, Some(Some(producer))) if !producer.starts_with("plansmith") => {
                ", and the reading of config.json"
            }
            _ => ", not the reading of config.json (a golden made elsewhere does)",
        };
        let all = self.candidates.len();
        let part =
            if self.executed < all { format!("; of {} of {all} artifacts, which were executed", self.executed) } else { String::new() };
        format!("{proved}{reading}{part}")
    }
}

fn candidate_line(candidate: &CandidateVerdict) -> String {
    let facts = &candidate.facts;
    let (storage, compute) = (dtype_label(facts.storage), dtype_label(facts.compute));
    let mut line = format!("{} on {}, {storage} stored, {compute} computed: {}", facts.path, facts.runtime, candidate.verdict.name());
    if let Some(reason) = &candidate.reason {
        let _ = write!(line, ": {reason}");
    }
    line
}

fn oracle_name(oracle: OracleKind) -> &'static str {
    match oracle {
        OracleKind::Golden => "golden",
        OracleKind::Reference => "reference",
    }
}

/// One check on one line: what was measured, or what failed and where.
fn check_line(check: &Check) -> String {
    let oracle = oracle_name(check.oracle);
    let outcome = if check.passed { "agree" } else { "DIFFER" };
    let mut line = format!("  {:<10} {oracle:<9} {outcome:<6} {:>6} positions  max_rel {:.1e}", check.name, check.positions, check.max_rel);
    if let (Some(kl), Some(top1)) = (check.kl_max, check.top1_agreement) {
        let _ = write!(line, "  KL max {kl:.1e}  top-1 {:.2} %", top1 * 100.0);
    }
    if let Some(ratio) = check.error_over_floor {
        let _ = write!(line, "  {ratio:.1}× floor");
    }
    if let Some(greedy) = &check.greedy {
        let _ = write!(line, "  {} of {} tokens alike", greedy.alike, greedy.tokens);
        if let Some(first) = &greedy.first_divergence {
            let tie = if greedy.tie { ", a tie" } else { "" };
            let _ = write!(line, " (then margin {:.1e}{tie})", first.margin);
        }
    }
    if !check.passed {
        let _ = write!(line, "\n             {}", check.failures.join("; "));
        if let Some(worst) = &check.worst {
            let _ = write!(line, "; worst in set `{}`, row {}, column {}", worst.set, worst.place.row, worst.place.column);
        }
    }
    line
}
