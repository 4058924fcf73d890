//! Chat templates through the command: right ones give what transformers gives, hostile ones are ended.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Run, case, copy_files, plansmith, text, words};
use serde::Deserialize;
use serde_json::json;

/// What `tools/make_chat_cases.py` wrote.
#[derive(Deserialize)]
struct Expected {
    special: BTreeMap<String, String>,
    messages: Vec<String>,
    /// By file, for each message.
    cases: BTreeMap<String, Vec<String>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/chat")
}

/// The text that the process which `run --chat` starts gives, or what is wrong.
fn rendered(template: &str, special: &BTreeMap<String, String>, message: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plansmith"));
    command.arg0("plansmith-chat-template").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let request = json!({ "template": template, "message": message, "special": special });
    child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    if child.wait().unwrap().success() { Ok(text) } else { Err(text) }
}

#[test]
fn templates_give_what_transformers_gives() {
    let expected: Expected = serde_json::from_str(&std::fs::read_to_string(folder().join("expected.json")).unwrap()).unwrap();
    assert!(expected.cases.len() > 5);
    for (name, texts) in &expected.cases {
        let template = std::fs::read_to_string(folder().join(name)).unwrap();
        for (message, text) in expected.messages.iter().zip(texts) {
            assert_eq!(rendered(&template, &expected.special, message).as_ref(), Ok(text), "{name} of {message:?}");
        }
    }
}

/// A model of which `words` are the tokens.
fn model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), folder.path());
    std::fs::write(folder.path().join("tokenizer.json"), words(256).to_string()).unwrap();
    folder
}

fn chat(folder: &Path) -> Run {
    plansmith(&["run", text(folder), "--chat", "--prompt", "t5 t6", "--max-tokens", "4", "--token-ids"])
}

#[test]
fn a_template_of_either_file_is_what_the_model_reads() {
    let folder = model();
    let plain = plansmith(&["run", text(folder.path()), "--prompt", "t1 t5 t6 t2", "--max-tokens", "4", "--token-ids"]).exits(0);
    let none = chat(folder.path()).exits(2);
    assert!(none.stderr.contains("no chat template in"), "{}", none.stderr);
    let template = "{{ bos_token }} {{ messages[0].content }}{% if add_generation_prompt %} t2{% endif %}";
    let config = json!({ "bos_token": { "content": "t1", "lstrip": false }, "chat_template": template });
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    assert_eq!(chat(folder.path()).exits(0).stdout, plain.stdout);
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ bos_token }} t9").unwrap();
    assert_ne!(chat(folder.path()).exits(0).stdout, plain.stdout);
    std::fs::write(folder.path().join("tokenizer_config.json"), "{").unwrap();
    let broken = chat(folder.path()).exits(2);
    assert!(broken.stderr.contains("tokenizer_config.json is no JSON"), "{}", broken.stderr);
}

#[test]
fn a_template_can_take_neither_memory_nor_time_without_end() {
    let folder = model();
    let path = folder.path().join("chat_template.jinja");
    let doubled = |step: &str| format!("{{% set ns = namespace(s='abcdefgh') %}}{{% for i in range(60) %}}{step}{{% endfor %}}");
    let nested = format!("{}{{% set x = 1 %}}{}", "{% for i in range(9999) %}".repeat(9), "{% endfor %}".repeat(9));
    let spent = "more than 256 MiB of memory or 2 s";
    for (template, words) in [
        (doubled("{% set ns.s = ns.s ~ ns.s %}"), spent),
        (doubled("{% set ns.s = ns.s + ns.s %}"), spent),
        (doubled("{% set ns.s = [ns.s, ns.s] | join %}"), spent),
        (doubled("{% set ns.s = ns.s | replace('a', ns.s) %}"), spent),
        (doubled("{% set ns.s = (ns.s, ns.s) | tojson %}"), spent),
        (doubled("{% set ns.s = ns.s | indent(1000000000) | center(1000000000) %}"), ""),
        ("{{ 'x' * 1000000000000 }}".to_owned(), ""),
        ("{{ '%1000000000d' | format(1) }}".to_owned(), ""),
        ("{{ range(10**9) | list | length }}".to_owned(), ""),
        ("{{ 9 ** 9 ** 9 }}".to_owned(), ""),
        (nested, spent),
        ("{% for i in range(9999) %}{% for j in range(9999) %}xxxxxxxx{% endfor %}{% endfor %}".to_owned(), ""),
        ("{{ 'x' * 5000000 }}".to_owned(), "longer than 4 MiB"),
        ("{{ raise_exception('no ' * 1000000) }}".to_owned(), "no no no"),
        ("{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}".to_owned(), ""),
        ("{".repeat(1_000_000), ""),
        (format!("{{{{ {}1{} }}}}", "(".repeat(200_000), ")".repeat(200_000)), ""),
        ("{% if true %}".repeat(200_000), ""),
    ] {
        std::fs::write(&path, &template).unwrap();
        let start = Instant::now();
        let run = chat(folder.path()).exits(2);
        let shown: String = template.chars().take(80).collect();
        assert!(run.stderr.contains("chat_template.jinja") && run.stderr.contains("or leave out --chat"), "{shown}: {}", run.stderr);
        assert!(run.stderr.contains(words) && run.stderr.len() < 8192, "{shown}: {}", run.stderr);
        assert!(start.elapsed() < Duration::from_secs(60), "{shown}: {:?}", start.elapsed());
    }
    std::fs::File::create(&path).unwrap().set_len(1 << 42).unwrap();
    let run = chat(folder.path()).exits(2);
    assert!(run.stderr.contains("4398046511104 bytes"), "{}", run.stderr);
}
