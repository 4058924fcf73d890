//! Prompts from a file of the user's.

use std::path::Path;

use serde::Deserialize;

use super::{PromptSet, Prompts};
use crate::Error;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    ids: Option<Vec<i64>>,
    text: Option<String>,
}

/// Bytes of a file of prompts.
const MOST_BYTES: u64 = 1 << 28;

impl Prompts {
    /// Reads a JSONL file: one prompt a line, `{"ids": [1, 2, 3]}` or `{"text": "…"}`; empty lines are skipped. The set of line `n` is
    /// called `line-n`. `tokenize` turns a text into ids (special tokens as the caller's tokenizer adds them) or says why it cannot.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, or holds no prompt; a line is not such an object, has no token, an id outside `0..vocab` or more than `max_positions` tokens.
    /// Names the line.
    pub fn from_jsonl(
        path: &Path,
        vocab: usize,
        max_positions: usize,
        tokenize: impl Fn(&str) -> Result<Vec<i64>, String>,
    ) -> Result<Self, Error> {
        let metadata = plansmith_files::metadata(path)?;
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return Err(Error::PromptFile { path: path.to_owned(), problem: format!("no regular file of at most {MOST_BYTES} bytes") });
        }
        let text = plansmith_files::read_to_string(path)?;
        let mut sets = Vec::new();
        for (line, content) in (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty()) {
            let refuse = |problem: String| Error::PromptLine { path: path.to_owned(), line, problem };
            let ids = match serde_json::from_str(content).map_err(|error| refuse(error.to_string()))? {
                Line { ids: Some(ids), text: None } => ids,
                Line { ids: None, text: Some(text) } => {
                    tokenize(&text).map_err(|why| refuse(format!("cannot tokenise the text: {why}")))?
                }
                _ => return Err(refuse("needs `ids` or `text`, and not both".to_owned())),
            };
            if ids.is_empty() || ids.len() > max_positions {
                return Err(refuse(format!("{} tokens; the model takes 1 to {max_positions}", ids.len())));
            }
            if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= vocab as i64) {
                return Err(refuse(format!("id {id} is outside the vocabulary of {vocab}")));
            }
            sets.push(PromptSet::new(&format!("line-{line}"), 1, ids, None, None, None)?);
        }
        if sets.is_empty() {
            return Err(Error::PromptFile { path: path.to_owned(), problem: "there is no prompt in the file".to_owned() });
        }
        Ok(Self::new(sets)?.limited_to(max_positions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<Prompts, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        std::fs::write(&path, content).unwrap();
        let tokenize = |text: &str| if text == "bad" { Err("no such token".to_owned()) } else { Ok(vec![text.len() as i64]) };
        Prompts::from_jsonl(&path, 100, 4, tokenize).map_err(|error| {
            let text = error.to_string();
            text.split_once("p.jsonl` ").map_or(text.clone(), |(_, rest)| rest.to_owned())
        })
    }

    #[test]
    fn ids_and_text_are_read() {
        let prompts = read("{\"ids\": [5, 99]}\n\n{\"text\": \"four\"}\n").unwrap();
        let sets: Vec<_> = prompts.sets().iter().map(|set| (set.name(), set.input_ids().to_vec())).collect();
        assert_eq!(sets, [("line-1", vec![5, 99]), ("line-3", vec![4])]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let wrong = |content: &str| read(content).unwrap_err();
        assert_eq!(wrong("{\"ids\": [1]}\n{\"ids\": [100]}"), "line 2: id 100 is outside the vocabulary of 100");
        assert_eq!(wrong("{\"ids\": [1,2,3,4,5]}"), "line 1: 5 tokens; the model takes 1 to 4");
        assert_eq!(wrong("{\"ids\": []}"), "line 1: 0 tokens; the model takes 1 to 4");
        assert_eq!(wrong("{\"ids\": [1], \"text\": \"a\"}"), "line 1: needs `ids` or `text`, and not both");
        assert_eq!(wrong("{\"text\": \"bad\"}"), "line 1: cannot tokenise the text: no such token");
        assert!(wrong("{\"idz\": [1]}").contains("unknown field `idz`"));
        assert!(wrong("\n").contains("there is no prompt"));
    }
}
