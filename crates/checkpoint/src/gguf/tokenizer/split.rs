//! How byte-level BPE cuts text before it merges, by the name in `tokenizer.ggml.pre`.

use super::Problem;

/// Where a text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// GPT-2's expression, which the tokenizers library has built in.
    Gpt2,
    /// At the matches of this expression.
    Regex(&'static str),
}

/// Llama 3: contractions, words with one leading sign, digits by threes.
const LLAMA3: &str =
    concat!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+");
/// Qwen 2: as Llama 3, digits one by one.
const QWEN2: &str =
    concat!(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+");
/// Mistral's tekken: words by case, digits one by one.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// GPT-4o: words by case with contractions, digits by threes.
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

impl Split {
    /// What transformers takes for the name `pre`; a name for which it would fall back to GPT-2's way wrongly is refused.
    pub(super) fn of(pre: Option<&str>, notes: &mut Vec<String>) -> Result<Self, Problem> {
        Ok(match pre {
            None | Some("default") => {
                notes.push("the file does not say how text is cut before merging: GPT-2's way is assumed, as transformers does".to_owned());
                Self::Gpt2
            }
            Some("gpt-2" | "phi-2" | "mellum" | "gigachat") => Self::Gpt2,
            Some("smollm") => {
                notes.push(
                    "the pre-tokenizer `smollm` is rebuilt as transformers rebuilds it from a GGUF, without the original's cut before \
                     each digit: ids can differ from the original tokenizer's where several blanks or line ends stand before a digit, \
                     and for digits other than 0 to 9"
                        .to_owned(),
                );
                Self::Gpt2
            }
            Some(
                "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" | "jina-v5-nano" | "dbrx"
                | "smaug-bpe",
            ) => Self::Regex(LLAMA3),
            Some("qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez") => Self::Regex(QWEN2),
            Some("tekken") => Self::Regex(TEKKEN),
            Some("gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2") => Self::Regex(GPT4O),
            Some(other) => {
                let why = format!("how the pre-tokenizer `{other}` (tokenizer.ggml.pre) cuts text is not known");
                return Err(Problem::Tokenizer(why));
            }
        })
    }
}
