//! Tokens and text: the tokenizer, and where generation stops.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::chat::Template;
use crate::exit::Failure;

/// The tokenizer of a model and the ids that end a text.
pub(crate) struct TextModel {
    tokenizer: Tokenizer,
    /// Any of these ends generation.
    pub(crate) eos: Vec<u32>,
    folder: PathBuf,
}

impl TextModel {
    /// Reads `tokenizer.json` and its companions from the first of `folders` that has it.
    pub(crate) fn find(folders: &[PathBuf]) -> Result<Self, Failure> {
        let Some(folder) = folders.iter().find(|folder| plansmith_files::is_file(&folder.join("tokenizer.json"))) else {
            let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(
                Failure::new(format!("no tokenizer.json in {}", looked.join(" or "))).hint("copy the checkpoint's tokenizer.json there")
            );
        };
        let path = folder.join("tokenizer.json");
        let bytes = plansmith_files::read(&path)?;
        let tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        Ok(Self { tokenizer, eos: eos_ids(folder)?, folder: folder.clone() })
    }

    /// Ids of a text; a beginning-of-text id where the tokenizer's post-processor adds one.
    pub(crate) fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, Failure> {
        let encoding = self.tokenizer.encode(text, special).map_err(|error| Failure::new(format!("cannot tokenise: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of ids, special tokens left out.
    pub(crate) fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        self.tokenizer.decode(ids, true).map_err(|error| Failure::new(format!("cannot decode tokens: {error}")))
    }

    /// The chat template's text for one message of the user, asking for an answer.
    pub(crate) fn chat(&self, message: &str) -> Result<String, Failure> {
        Template::of(&self.folder)?.render(message)
    }
}

/// `eos_token_id` of generation_config.json, else of config.json; a number or a list.
fn eos_ids(folder: &Path) -> Result<Vec<u32>, Failure> {
    for name in ["generation_config.json", "config.json"] {
        let path = folder.join(name);
        if !plansmith_files::is_file(&path) {
            continue;
        }
        let bad = |problem: &str| Failure::new(format!("{}: {problem}", path.display()));
        let config: Value =
            serde_json::from_str(&plansmith_files::read_to_string(&path)?).map_err(|error| bad(&format!("is no JSON: {error}")))?;
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| bad("`eos_token_id` is no token id"));
        match config.get("eos_token_id") {
            None | Some(Value::Null) => {}
            Some(Value::Array(list)) => return list.iter().map(id).collect(),
            Some(value) => return Ok(vec![id(value)?]),
        }
    }
    Ok(Vec::new())
}
