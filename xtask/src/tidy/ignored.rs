//! Tests that need more than a Rust toolchain say so in their `#[ignore]`: this reads what they say.

use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::tidy::source::Source;

/// A test marked `#[ignore = "needs …"]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// The function's name.
    pub(crate) name: String,
    /// What the reason names, in the words of [`NEEDS`].
    pub(crate) needs: Vec<&'static str>,
}

/// The words of a reason, and the asset that each stands for; a GPU, a browser and the worker are no assets.
const NEEDS: [(&str, Option<Asset>); 13] = [
    ("ONNX Runtime", Some(Asset::OnnxRuntime)),
    ("the demo model", Some(Asset::DemoModel)),
    ("the demo GGUF", Some(Asset::DemoModel)),
    ("the Python package onnx", Some(Asset::PythonOnnx)),
    ("TensorRT-RTX", Some(Asset::TensorRtRtx)),
    ("worker", None),
    ("a GPU", None),
    ("the enterprise flavour", None),
    ("Chromium", None),
    ("the Python clients", None),
    ("transformers.js", None),
    ("the linters", None),
    ("C header", None),
];

impl Ignored {
    /// Whether it needs `asset`.
    pub(crate) fn needs(&self, asset: Asset) -> bool {
        NEEDS.iter().any(|(word, needed)| *needed == Some(asset) && self.needs.contains(word))
    }

    /// Whether it needs the worker built.
    pub(crate) fn needs_worker(&self) -> bool {
        self.needs.contains(&"worker")
    }

    /// Whether it needs a GPU.
    pub(crate) fn needs_gpu(&self) -> bool {
        self.needs.contains(&"a GPU")
    }

    /// Whether it needs the worker and libraries of the enterprise flavour, which nobody but the user can name.
    pub(crate) fn needs_enterprise(&self) -> bool {
        self.needs.contains(&"the enterprise flavour")
    }

    /// Whether it needs a browser.
    pub(crate) fn needs_chromium(&self) -> bool {
        self.needs.contains(&"Chromium")
    }

    /// Whether it needs onnxruntime-genai and Optimum.
    pub(crate) fn needs_python_clients(&self) -> bool {
        self.needs.contains(&"the Python clients")
    }

    /// Whether it needs transformers.js.
    pub(crate) fn needs_transformers_js(&self) -> bool {
        self.needs.contains(&"transformers.js")
    }
    /// Whether it needs actionlint, check-jsonschema and hera.
    pub(crate) fn needs_linters(&self) -> bool {
        self.needs.contains(&"the linters")
    }

    /// Whether it needs ONNX Runtime's C header.
    pub(crate) fn needs_header(&self) -> bool {
        self.needs.contains(&"C header")
    }
}

/// Every ignored test of the repository.
pub(crate) fn ignored_tests() -> Result<Vec<Ignored>, Error> {
    let sources = Source::all(&places::root())?;
    Ok(sources.iter().flat_map(|source| read(&source.text)).filter_map(|(_, ignored)| ignored).collect())
}

/// Tests whose reason says nothing that the test task understands: they would never run.
pub(crate) fn check(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen: Vec<Ignored> = Vec::new();
    for source in sources.iter().filter(|source| !source.below("xtask")) {
        for (number, ignored) in read(&source.text) {
            let place = format!("{}:{number}", source.path.display());
            let Some(ignored) = ignored.filter(|ignored| !ignored.needs.is_empty()) else {
                let words: Vec<&str> = NEEDS.iter().map(|(word, _)| *word).collect();
                findings.push(format!("{place}: an ignored test whose reason names none of: {}", words.join(", ")));
                continue;
            };
            if seen.iter().any(|other| other.name == ignored.name && other.needs != ignored.needs) {
                findings.push(format!("{place}: another ignored test is called `{}` and needs something else", ignored.name));
            }
            seen.push(ignored);
        }
    }
    findings
}

/// The ignored tests of a file with the lines of their attributes; none where no function follows.
fn read(text: &str) -> Vec<(usize, Option<Ignored>)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let attributes = lines.iter().enumerate().filter(|(_, line)| line.starts_with("#[ignore"));
    attributes
        .map(|(index, attribute)| {
            let function = lines[index + 1..].iter().find(|line| !line.starts_with('#') && !line.starts_with("//"));
            let name = function.and_then(|line| line.split_once("fn ")).and_then(|(_, rest)| rest.split(['(', '<']).next());
            let needs = NEEDS.iter().map(|(word, _)| *word).filter(|word| attribute.contains(word)).collect();
            (index + 1, name.map(|name| Ignored { name: name.to_owned(), needs }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_read_and_the_function_found() {
        let text = "#[test]\n#[ignore = \"needs ONNX Runtime and the worker: run by cargo xtask test\"]\n#[cfg(unix)]\nfn agrees() {}\n#[ignore]\nfn never() {}\n";
        let read = read(text);
        assert_eq!(read[0], (2, Some(Ignored { name: "agrees".into(), needs: vec!["ONNX Runtime", "worker"] })));
        assert_eq!(read[1], (5, Some(Ignored { name: "never".into(), needs: vec![] })));
        let source = Source { path: "crates/x/tests/a.rs".into(), text: text.into() };
        assert_eq!(check(&[source]).len(), 1);
    }
}
