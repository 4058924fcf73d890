//! `tokenizer_config.json` as every client understands it.

use serde_json::{Map, Value, json};

use super::tokens::{Roles, id_of, text_of, token_of};

/// Keys to set, or to take away where the value is `None`, in a file that says `own`; `tokenizer` is tokenizer.json, `template` the
/// text of chat_template.jinja.
pub(super) fn changes(
    own: &Value,
    tokenizer: &Value,
    template: Option<&str>,
    roles: &Roles,
    context_length: u64,
) -> Vec<(&'static str, Option<Value>)> {
    let mut changes: Vec<(&str, Option<Value>)> = vec![
        // What transformers 5 calls its class is unknown to transformers 4, and everything is in tokenizer.json.
        ("tokenizer_class", Some(json!("PreTrainedTokenizerFast"))),
        // Code of the checkpoint's own is not in the folder.
        ("auto_map", None),
        // That class gives token types too, which no graph takes.
        ("model_input_names", Some(json!(["input_ids", "attention_mask"]))),
        // Generation goes on behind the last column.
        ("padding_side", Some(json!("left"))),
        ("model_max_length", Some(json!(context_length))),
    ];
    let stated = |key: &str| text_of(own.get(key)).and_then(|token| id_of(tokenizer, token));
    // Templates that write the token between messages mean that token, whatever ends a text.
    let ends = stated("eos_token").is_some_and(|id| roles.eos.contains(&id)) || template.is_some_and(names_eos) || names_eos_in(own);
    // A pad token that differs from what generation pads with would be fed as a token of the text.
    let pads = stated("pad_token") == roles.pad;
    let bos = text_of(own.get("bos_token")).is_some();
    for (key, right, id) in [("bos_token", bos, roles.bos), ("eos_token", ends, roles.eos.first().copied()), ("pad_token", pads, roles.pad)]
    {
        if let Some(token) = id.filter(|_| !right).and_then(|id| token_of(tokenizer, id)) {
            changes.push((key, Some(json!(token))));
        }
    }
    if let Some(Value::Array(list)) = own.get("extra_special_tokens") {
        // transformers 5 writes a list where 4 takes a map, and fails at it.
        changes.push(("extra_special_tokens", None));
        if own.get("additional_special_tokens").is_none() && !list.is_empty() {
            changes.push(("additional_special_tokens", Some(json!(list))));
        }
    }
    if let Some(template) = template {
        changes.push(("chat_template", Some(json!(template))));
    }
    changes
}

fn names_eos(template: &str) -> bool {
    template.contains("eos_token")
}

/// Whether the template in tokenizer_config.json writes `eos_token`, which then means more than an end.
pub(super) fn names_eos_in(own: &Value) -> bool {
    template_of(own).is_some_and(|template| names_eos(&template))
}

/// The template that tokenizer_config.json states: a text, or the one named `default` of a list.
pub(super) fn template_of(own: &Value) -> Option<String> {
    match own.get("chat_template")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let named =
                |entry: &&Value| entry.as_object().and_then(|entry: &Map<String, Value>| entry.get("name")) == Some(&json!("default"));
            Some(list.iter().find(named)?.get("template")?.as_str()?.to_owned())
        }
        _ => None,
    }
}
