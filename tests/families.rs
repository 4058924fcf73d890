//! The list of families, and the page about them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::Path;

use common::plansmith;

#[test]
fn the_page_is_what_the_command_prints() {
    let page = plansmith(&["families", "--markdown"]).exits(0).stdout;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/families.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page, "write it anew with UPDATE_DOCS=1 cargo test --test families");
}

#[test]
fn every_family_is_pinned_by_a_fixture() {
    let list: serde_json::Value = serde_json::from_str(&plansmith(&["families", "--json"]).exits(0).stdout).unwrap();
    let list = list.as_array().unwrap();
    assert!(list.len() >= 60, "{} families", list.len());
    for family in list {
        assert!(!family["fixtures"].as_array().unwrap().is_empty(), "{} has no fixture", family["model_type"]);
    }
}

/// What `cargo xtask bench --families` recorded names the same families as the command, each with its plans.
#[test]
fn every_family_has_been_tried_as_a_plan() {
    let list: serde_json::Value = serde_json::from_str(&plansmith(&["families", "--json"]).exits(0).stdout).unwrap();
    for family in list.as_array().unwrap() {
        let forms = family["plans"]["forms"].as_object().unwrap_or_else(|| panic!("{} was not tried", family["model_type"]));
        assert_eq!(forms["tensorrt fp16"], "builds", "{}", family["model_type"]);
    }
}
