//! What was compared with what: names and hashes.

use super::figures::count;
use super::html::{Html, classed, plain};
use crate::verdict::Verdict;

pub(super) fn provenance(verdict: &Verdict) -> Html {
    let code = |text: &str| plain("code", text);
    let mut entries: Vec<(Html, Html)> = vec![("source".into(), code(&verdict.source.path))];
    if let Some(revision) = &verdict.source.revision {
        entries.push(("revision".into(), code(revision)));
    }
    entries.extend(verdict.source.sha256.iter().map(|(file, digest)| (code(file), code(&digest.to_string()))));
    if let Some(golden) = &verdict.golden {
        let producer = golden.producer.as_deref().map(|producer| plain("span", " computed by ").then(code(producer))).unwrap_or_default();
        entries.push(("golden".into(), code(&golden.path).then(producer)));
        entries.push(("".into(), code(&golden.sha256.to_string())));
    }
    if let Some(prompts) = &verdict.prompts {
        entries.push(("prompts".into(), code(&prompts.origin).then(format!(", {} sets", count(prompts.sets)))));
        entries.push(("".into(), code(&prompts.sha256.to_string())));
    }
    let list: Html = entries.into_iter().map(|(name, value)| plain("div", plain("dt", name).then(plain("dd", value)))).collect();
    classed("section", "card", plain("h2", "What was compared").then(classed("dl", "provenance", list)))
}

/// What the words and drawings mean.
pub(super) fn legend() -> Html {
    Html::fixed(include_str!("legend.html"))
}
