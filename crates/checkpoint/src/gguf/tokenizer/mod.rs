//! tokenizer.json rebuilt from the metadata, as transformers 5.24 rebuilds it (`integrations/gguf/gguf_tokenizer_mapping.py`).
//!
//! Two kinds exist in llama files: byte-level BPE (`gpt2`) and SentencePiece's BPE with byte fallback (`llama`). We leave
//! transformers' way where it gives ids that the embedding does not have: it adds class defaults (`<|endoftext|>`) that the file
//! does not name, and it respells control tokens with characters outside the byte alphabet.

mod alphabet;
mod json;
mod merges;
mod split;

use indexmap::IndexMap;

use super::error::Problem;
use super::metadata::Metadata;

pub(super) use json::AddedToken;
use split::Split;

/// The numbers of `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Everything that tokenizer.json and tokenizer_config.json say.
#[derive(Debug)]
pub(super) struct Tokenizer {
    kind: Kind,
    /// Ids by token, spelled as the model's vocabulary spells them.
    vocab: IndexMap<String, u32>,
    merges: Vec<(String, String)>,
    added: Vec<AddedToken>,
    pub(super) special: Special,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    pub(super) chat_template: Option<String>,
    /// What a user should know about how faithful the result is.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    ByteLevel(Split),
    SentencePiece,
}

/// The tokens with a role, by id and text.
#[derive(Debug, Clone, Default)]
pub(super) struct Special {
    pub(super) bos: Option<Role>,
    pub(super) eos: Option<Role>,
    pub(super) unk: Option<Role>,
    pub(super) pad: Option<Role>,
    /// Tokens besides `eos` that end a turn or a message: generation stops there too.
    pub(super) stops: Vec<Role>,
}

/// One token with a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) id: u32,
    pub(super) token: String,
}

impl Tokenizer {
    /// Reads the keys under `tokenizer.`; `rows` is the number of rows of the embedding.
    pub(super) fn read(metadata: Metadata<'_>, rows: u64) -> Result<Self, Problem> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let missing = |name: &str| Problem::MissingKey(key(name));
        let model = metadata.text(&key("model"))?.ok_or_else(|| missing("model"))?;
        let tokens = metadata.texts(&key("tokens"))?.ok_or_else(|| missing("tokens"))?;
        if tokens.len() as u64 > rows || u32::try_from(tokens.len()).is_err() {
            return Err(Problem::Tokenizer(format!("it has {} tokens, but the embedding has {rows} rows", tokens.len())));
        }
        let types = metadata.integers(&key("token_type"))?.unwrap_or_default();
        if !types.is_empty() && types.len() != tokens.len() {
            return Err(Problem::Tokenizer(format!("{} token types for {} tokens", types.len(), tokens.len())));
        }
        let pre = metadata.text(&key("pre"))?;
        let mut notes = Vec::new();
        let (kind, add_bos) = match model {
            "gpt2" => (Kind::ByteLevel(Split::of(pre, &mut notes)?), false),
            "llama" => {
                check_sentencepiece(metadata, pre)?;
                // A SentencePiece vocabulary begins with BOS where the file does not say otherwise.
                (Kind::SentencePiece, true)
            }
            other => return Err(Problem::Tokenizer(format!("its model is `{other}`; `gpt2` and `llama` are rebuilt"))),
        };
        let special = roles(metadata, tokens)?;
        let whole: Vec<bool> = (0..tokens.len()).map(|id| matches!(types.get(id), Some(&CONTROL | &USER_DEFINED))).collect();
        let vocab = vocabulary(kind, tokens, &whole, &special);
        let merges = match metadata.texts(&key("merges"))? {
            Some(listed) => merges::listed(listed, &vocab)?,
            None => {
                let scores = metadata.floats(&key("scores"))?.ok_or_else(|| missing("merges"))?;
                merges::implied(tokens, scores, &vocab)?
            }
        };
        let flag = |name: &str| metadata.flag(&key(name));
        let explicit_bos = flag("add_bos_token")?;
        let add_bos = explicit_bos.unwrap_or(add_bos && special.bos.is_some());
        let add_eos = flag("add_eos_token")?.unwrap_or(false);
        for (wanted, role, name) in [(add_bos, &special.bos, "bos"), (add_eos, &special.eos, "eos")] {
            if wanted && role.is_none() {
                return Err(Problem::Tokenizer(format!(
                    "`{}` is true, but `{}` is missing",
                    key(&format!("add_{name}_token")),
                    key(&format!("{name}_token_id"))
                )));
            }
        }
        Ok(Self {
            kind,
            added: added_tokens(kind, tokens, &types, &vocab, &special),
            vocab,
            merges,
            special,
            add_bos,
            add_eos,
            chat_template: metadata.text("tokenizer.chat_template")?.map(str::to_owned),
            notes,
        })
    }
}

/// Refuses what transformers passes over in silence though it changes the ids.
fn check_sentencepiece(metadata: Metadata<'_>, pre: Option<&str>) -> Result<(), Problem> {
    if let Some(other) = pre.filter(|&pre| pre != "default") {
        return Err(Problem::Tokenizer(format!("a SentencePiece vocabulary with the pre-tokenizer `{other}` is not known")));
    }
    const PREFIX: &str = "tokenizer.ggml.add_space_prefix";
    if metadata.flag(PREFIX)? == Some(false) {
        return Err(Problem::Tokenizer(format!("`{PREFIX}` is false, which has no counterpart in what transformers rebuilds")));
    }
    Ok(())
}

fn roles(metadata: Metadata<'_>, tokens: &[String]) -> Result<Special, Problem> {
    let role = |name: &str| -> Result<Option<Role>, Problem> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(id) = metadata.count(&key)? else { return Ok(None) };
        match usize::try_from(id).ok().and_then(|index| tokens.get(index)) {
            Some(token) => Ok(Some(Role { id: id as u32, token: token.clone() })),
            None => Err(Problem::Key { key, value: id.to_string(), reason: format!("there are {} tokens", tokens.len()) }),
        }
    };
    let mut stops: Vec<Role> = Vec::new();
    let eos = role("eos")?;
    for name in ["eot", "eom"] {
        if let Some(stop) = role(name)?.filter(|stop| Some(stop) != eos.as_ref() && !stops.contains(stop)) {
            stops.push(stop);
        }
    }
    Ok(Special { bos: role("bos")?, eos, unk: role("unknown")?, pad: role("padding")?, stops })
}

impl Special {
    /// Those that tokenizer_config.json names.
    fn named(&self) -> impl Iterator<Item = &Role> {
        [&self.bos, &self.eos, &self.unk, &self.pad].into_iter().flatten()
    }
}

/// Ids by token. Of a token that is there twice the last id stays, as in transformers.
///
/// A byte-level vocabulary is spelled in the byte alphabet; some files spell tokens out, and those are respelled unless they are
/// matched `whole` in the text.
fn vocabulary(kind: Kind, tokens: &[String], whole: &[bool], special: &Special) -> IndexMap<String, u32> {
    let mut vocab = IndexMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        let id = id as u32;
        let literal = match kind {
            Kind::SentencePiece => true,
            Kind::ByteLevel(_) => alphabet::covers(token) || whole[id as usize] || special.named().any(|role| role.id == id),
        };
        vocab.insert(if literal { token.clone() } else { alphabet::spell(token) }, id);
    }
    vocab
}

/// Control tokens and those with a role are special; user-defined ones are matched whole but are no more than text.
fn added_tokens(kind: Kind, tokens: &[String], types: &[i64], vocab: &IndexMap<String, u32>, special: &Special) -> Vec<AddedToken> {
    let mut added: IndexMap<&str, bool> = IndexMap::new();
    // The class that transformers hands these to marks the tokens it knows by default.
    let defaults: &[&str] = match kind {
        Kind::ByteLevel(_) => &["<|endoftext|>"],
        Kind::SentencePiece => &["<unk>", "<s>", "</s>"],
    };
    for &token in defaults.iter().filter(|&&token| vocab.contains_key(token)) {
        added.insert(token, true);
    }
    for wanted in [CONTROL, USER_DEFINED] {
        for (token, _) in tokens.iter().zip(types).filter(|&(_, &kind)| kind == wanted) {
            added.entry(token).or_insert(wanted == CONTROL);
        }
    }
    for role in special.named() {
        added.entry(&role.token).or_insert(true);
    }
    let mut list: Vec<AddedToken> =
        added.into_iter().filter_map(|(token, special)| vocab.get(token).map(|&id| AddedToken::new(id, token, special))).collect();
    list.sort_by_key(|token| token.id);
    list
}
