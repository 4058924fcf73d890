//! Words that may stand in some files only.

use std::path::Path;

use crate::error::Error;
use crate::tidy::source::Source;

/// Names of model families that are not yet files of `crates/families`.
const FAMILY_WORDS: [&str; 16] = [
    "llama", "qwen", "mistral", "mixtral", "gemma", "phi3", "phi4", "gpt2", "neox", "falcon", "granite", "olmo", "smollm", "deepseek",
    "cohere", "internlm",
];

/// Every finding in `sources`.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for source in sources {
        for (number, line) in source.lines() {
            if let Some(word) = family_word(source, line.split("//").next().unwrap_or_default()) {
                findings.push(format!("{}:{number}: names the model family `{word}`; only crates/families may", source.path.display()));
            }
        }
        for (number, code) in source.code() {
            let place = format!("{}:{number}", source.path.display());
            if !may_print(source) && contains_any(&code, &["println!", "print!(", "dbg!("]) {
                findings.push(format!("{place}: prints; only src/, xtask, the worker and the mutants may"));
            }
            if !may_use_fs(source) && raw_file_access(&code) {
                findings.push(format!("{place}: raw file access; use plansmith-files, whose errors name the path"));
            }
            if !may_use_network(source) && contains_any(&code, &["std::net", "ureq::", "TcpStream", "UdpSocket"]) {
                findings.push(format!("{place}: opens connections; only crates/hub may"));
            }
            if !may_be_unsafe(source) && has_word(&code, "unsafe") {
                findings.push(format!("{place}: `unsafe` outside of the files that ARCHITECTURE.md allows"));
            }
        }
    }
    let onnx = root.join("crates/onnx/src/lib.rs");
    if !plansmith_files::read_to_string(&onnx)?.contains("#![forbid(unsafe_code)]") {
        findings.push("crates/onnx/src/lib.rs: does not say #![forbid(unsafe_code)]".into());
    }
    Ok(findings)
}

/// The family that a line of a library, less its comment, names where it may not. GGUF names its architectures, so its reader may too; the
/// mutants name the checkpoints that they change.
fn family_word(source: &Source, line: &str) -> Option<&'static str> {
    let path = source.path.to_string_lossy();
    let library = source.library()?;
    if library == "families" || library == "mutants" || path.starts_with("crates/checkpoint/src/gguf") {
        return None;
    }
    let line = line.to_ascii_lowercase();
    FAMILY_WORDS.into_iter().find(|word| starts_word(&line, word))
}

fn may_print(source: &Source) -> bool {
    let commands = ["src", "xtask", "crates/engine-worker", "crates/mutants", "examples"];
    commands.iter().any(|folder| source.below(folder)) || is_build_script(source)
}

fn may_use_fs(source: &Source) -> bool {
    // Examples are programs of users, who have no plansmith.
    source.below("crates/files") || source.below("xtask") || source.below("examples") || is_build_script(source)
}

fn may_use_network(source: &Source) -> bool {
    source.below("crates/hub") || source.below("xtask") || source.below("examples")
}

fn may_be_unsafe(source: &Source) -> bool {
    let path = source.path.to_string_lossy();
    let runtime = path.strip_prefix("crates/runtime/src/").is_some_and(|rest| rest.starts_with("ort") || rest.starts_with("worker"));
    ["crates/checkpoint/src/mmap.rs", "crates/runtime/src/rten/mapped.rs"].contains(&&*path)
        || source.below("crates/engine-worker")
        || runtime
}

fn is_build_script(source: &Source) -> bool {
    source.path.file_name().is_some_and(|name| name == "build.rs") && !source.path.iter().any(|part| part == "src")
}

/// Calls of `std::fs` and of `File`'s constructors; the types alone are free.
fn raw_file_access(code: &str) -> bool {
    if contains_any(code, &["fs::OpenOptions", "use std::fs;", "std::fs::{self"])
        || has_word(code, "File::open")
        || has_word(code, "File::create")
    {
        return true;
    }
    code.match_indices("fs::").any(|(at, _)| {
        let boundary = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rustix = code[..at].ends_with("rustix::");
        boundary && !rustix && code[at + 4..].starts_with(|c: char| c.is_ascii_lowercase())
    })
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}

/// Whether `word` occurs where no letter or digit stands before it.
fn starts_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether `word` occurs with no letter, digit or underscore on either side.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_family_may_be_named_in_its_crate_only() {
        assert_eq!(family_word(&source("crates/lowering/src/a.rs", ""), "if family == \"Llama-3\""), Some("llama"));
        assert_eq!(family_word(&source("crates/lowering/src/a.rs", ""), "Rope::Llama3 {"), Some("llama"));
        assert_eq!(family_word(&source("crates/lowering/src/a.rs", ""), "ollama"), None);
        assert_eq!(family_word(&source("crates/families/src/llama.rs", ""), "llama"), None);
        assert_eq!(family_word(&source("crates/checkpoint/src/gguf/meta.rs", ""), "llama.block_count"), None);
        assert_eq!(family_word(&source("src/main.rs", ""), "llama"), None);
    }

    #[test]
    fn types_of_std_fs_are_free_and_calls_are_not() {
        assert!(raw_file_access("let bytes = std::fs::read(path)?;"));
        assert!(raw_file_access("let file = File::open(path)?;"));
        assert!(raw_file_access("fs::remove_file(path)"));
        assert!(!raw_file_access("use std::fs::File;"));
        assert!(!raw_file_access("fn a(file: &std::fs::File)"));
        assert!(!raw_file_access("rustix::fs::fsync(file)"));
        assert!(!raw_file_access("buffs::read(path)"));
        assert!(!raw_file_access("AtomicFile::create(path)"));
    }

    #[test]
    fn an_attribute_about_unsafe_code_is_not_unsafe() {
        assert!(has_word("unsafe { a() }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    }
}
