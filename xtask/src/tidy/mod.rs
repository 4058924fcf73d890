//! Checks of the source text that no compiler makes: layers, words, places of `unsafe`, sizes.

mod ignored;
mod layers;
mod licences;
mod sizes;
mod source;
mod words;

pub(crate) use ignored::{Ignored, ignored_tests};
pub(crate) use licences::check as licences;

use crate::error::Error;
use crate::places;
use source::Source;

/// Runs every check and says what each found; `Ok` with the number of findings.
pub(crate) fn check() -> Result<usize, Error> {
    let root = places::root();
    let sources = Source::all(&root)?;
    let mut findings = layers::check()?;
    findings.extend(words::check(&root, &sources)?);
    findings.extend(ignored::check(&sources));
    findings.extend(sizes::check(&root, &sources)?);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    println!("tidy: {} Rust files, median {} lines, {} findings", sources.len(), sizes::median(&sources), findings.len());
    Ok(findings.len())
}
