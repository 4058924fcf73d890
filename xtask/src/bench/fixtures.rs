//! The fixture of each family that plans are built of.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_files as files;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::plans::{FORMS, Maker};
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
    /// `composite` or `primitive`, of its graph for TensorRT in fp16.
    pub(crate) form: String,
}

/// What is read of `plansmith inspect --json` on a graph.
#[derive(Debug, Deserialize)]
struct Graph {
    nodes: usize,
    operators: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

/// For each family that of its agreeing fixtures whose graph for TensorRT in fp16 says most: composite where one is (tiny heads
/// are not), with most kinds of operators, most nodes; the first by name of those left.
pub(crate) fn one_a_family(maker: &Maker, scratch: &Path) -> Result<Vec<Fixture>, Error> {
    let mut best = BTreeMap::<String, (_, Fixture)>::new();
    for case in agreeing()? {
        let folder = places::root().join(CASES).join(&case);
        let config: serde_json::Value = json(&folder.join("config.json"))?;
        let Some(family) = config["model_type"].as_str().map(str::to_owned) else { continue };
        let graph = maker.export(&folder, FORMS[0].1, &scratch.join(&case))?;
        let said = maker.inspect(&graph)?;
        let said: Graph = serde_json::from_str(&said).map_err(|source| Error::Json { path: graph, source })?;
        let form = said.metadata.get("plansmith.form").cloned().unwrap_or_default();
        let rank = (form == "composite", said.operators.len(), said.nodes, Reverse(case.clone()));
        if best.get(&family).is_none_or(|(known, _)| *known < rank) {
            best.insert(family.clone(), (rank, Fixture { family, case, folder, form }));
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
