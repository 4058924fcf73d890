//! The fixture of each family that plans are built of.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_files as files;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::plans::{Maker, PORTABLE};
use crate::error::Error;
use crate::places;

const CASES: &str = "testdata/cases";

/// A checkpoint that transformers made.
#[derive(Debug)]
pub(crate) struct Fixture {
    /// Its `model_type`.
    pub(crate) family: String,
    pub(crate) case: String,
    pub(crate) folder: PathBuf,
    /// A size of heads that TensorRT has no composite attention for, where there is one: fixtures are tiny.
    pub(crate) odd_head: Option<u64>,
}

/// What is read of `plansmith inspect --json` on a graph.
#[derive(Debug, Deserialize)]
struct Graph {
    nodes: usize,
    operators: BTreeMap<String, usize>,
    inputs: Vec<Input>,
}

#[derive(Debug, Deserialize)]
struct Input {
    name: String,
    /// `F16[batch_size, 2, past_sequence_length, 16]`
    r#type: String,
}

impl Graph {
    fn odd_head(&self) -> Option<u64> {
        let caches = self.inputs.iter().filter(|input| input.name.starts_with("past_key_values."));
        let mut heads = caches.filter_map(|input| input.r#type.trim_end_matches(']').rsplit(' ').next()?.parse::<u64>().ok());
        heads.find(|head| !head.is_multiple_of(8) || !(16..=256).contains(head))
    }
}

/// For each family that of its agreeing fixtures whose graph says most: one whose heads TensorRT has composite attention for, where
/// there is one; then with most kinds of operators, most nodes; the first by name of those left.
pub(crate) fn one_a_family(maker: &Maker, scratch: &Path) -> Result<Vec<Fixture>, Error> {
    let mut best = BTreeMap::<String, (_, Fixture)>::new();
    for case in agreeing()? {
        let folder = places::root().join(CASES).join(&case);
        let config: serde_json::Value = json(&folder.join("config.json"))?;
        let Some(family) = config["model_type"].as_str().map(str::to_owned) else { continue };
        let graph = maker.export(&folder, PORTABLE, &scratch.join(&case))?;
        let said = maker.inspect(&graph)?;
        let said: Graph = serde_json::from_str(&said).map_err(|source| Error::Json { path: graph, source })?;
        let odd_head = said.odd_head();
        let rank = (odd_head.is_none(), said.operators.len(), said.nodes, Reverse(case.clone()));
        if best.get(&family).is_none_or(|(known, _)| *known < rank) {
            best.insert(family.clone(), (rank, Fixture { family, case, folder, odd_head }));
        }
    }
    Ok(best.into_values().map(|(_, fixture)| fixture).collect())
}

/// The cases made by our script whose logits must agree.
fn agreeing() -> Result<Vec<String>, Error> {
    let expected: BTreeMap<String, serde_json::Value> = json(&places::root().join(CASES).join("expected.json"))?;
    let agrees = |(name, value): (String, serde_json::Value)| (name.starts_with("made_") && value["verdict"] == "agree").then_some(name);
    Ok(expected.into_iter().filter_map(agrees).collect())
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_str(&files::read_to_string(path)?).map_err(|source| Error::Json { path: path.to_owned(), source })
}
