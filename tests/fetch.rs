//! `plansmith fetch` against a hub on this machine.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;
#[path = "common/hub.rs"]
mod hub;

use std::path::Path;
use std::process::{Command, Output};

use common::{case, text};
use hub::{COMMIT, Fault, Server, hub};

fn fetch(hub: &Server, home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plansmith"));
    command.arg("fetch").args(arguments).env("HF_ENDPOINT", &hub.address).env("HF_HOME", home).env_remove("HF_TOKEN");
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn what_is_fetched_is_verified_with_its_commit() {
    let (hub, home) = (hub(), tempfile::tempdir().unwrap());
    hub.fault("model.safetensors", Fault::Cut(1000));
    let address = format!("org/tiny@{COMMIT}");
    let output = fetch(&hub, home.path(), &[&address]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let folder = String::from_utf8(output.stdout).unwrap();
    let wanted = home.path().join("hub/models--org--tiny/snapshots").join(COMMIT);
    assert_eq!(folder.trim_end(), text(&wanted), "stdout is the folder and nothing else");
    let golden = case("untied_distinct").join("golden.safetensors");
    let run = common::plansmith(&["verify", folder.trim_end(), "--golden", text(&golden), "--json", "-"]).exits(0);
    let verdict: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(verdict["source"]["revision"], COMMIT);

    let out = home.path().join("plain");
    let output = fetch(&hub, home.path(), &[&address, "-o", text(&out), "--json"]);
    let fetched: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&fetched["commit"], &fetched["files"][1]["taken_over"]), (&COMMIT.into(), &false.into()));
    assert!(out.join("model.safetensors").symlink_metadata().unwrap().is_file());
}

#[test]
fn refusals_say_what_to_do() {
    let (hub, home) = (hub(), tempfile::tempdir().unwrap());
    let refused = |arguments: &[&str], words: &str, hint: &str| {
        let output = fetch(&hub, home.path(), arguments);
        let said = stderr(&output);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{said}");
        assert!(said.contains(words) && said.contains(hint), "{said}");
    };
    refused(&["org/tiny"], "`org/tiny@main` is a branch or tag", &format!("plansmith fetch org/tiny@{COMMIT}"));
    refused(&["a/b/c"], "`a/b/c` is no address", "write ORG/NAME@COMMIT");
    let address = format!("org/tiny@{COMMIT}");
    hub.fault("model.safetensors", Fault::Status(401));
    refused(&[&address], "answers 401", "HF_TOKEN");
    hub.fault("model.safetensors", Fault::Garble);
    refused(&[&address], "the hub's listing says the SHA-256", "distrust the mirror");
}
