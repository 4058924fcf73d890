//! A build that does not fit says so before it begins.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{case, copy_files, plansmith, text};

/// Runs `script` where a disk of 1 MB is mounted at `disk` below the folder: exit code, stdout and stderr; `None` where that is not allowed here.
fn with_a_small_disk(folder: &Path, script: &str) -> Option<(Option<i32>, String, String)> {
    std::fs::create_dir_all(folder.join("disk")).unwrap();
    let script = format!("mount -t tmpfs -o size=1m none disk\n{script}");
    let bin = Path::new(env!("CARGO_BIN_EXE_plansmith")).parent().unwrap().to_owned();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).current_dir(folder).env("PATH", path);
    let output = command.output().unwrap();
    let [said, complaint] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if complaint.contains("unshare") || complaint.contains("mount:") {
        return None;
    }
    Some((output.status.code(), said, complaint))
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), &folder.path().join("model"));
    let pipeline = "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }]\noutput: disk/tiny\n";
    std::fs::write(folder.path().join("pipeline.yaml"), pipeline).unwrap();
    folder
}

#[test]
fn a_full_disk_is_told_with_what_is_missing() {
    let folder = project();
    let script = "plansmith build pipeline.yaml; code=$?; ls -A disk/tiny.partial; exit $code";
    let Some((code, said, complaint)) = with_a_small_disk(folder.path(), script) else {
        println!("not run: no namespace of our own here");
        return;
    };
    assert_eq!(code, Some(2), "{said}{complaint}");
    assert!(complaint.contains("bytes are to be written to ") && complaint.contains(" are missing"), "{complaint}");
    assert!(complaint.contains("hint: make room, or write elsewhere"), "{complaint}");
    assert_eq!(said, ".stages.json\n", "nothing is begun but the record that says whose the folder is");
}

#[test]
fn a_merge_onto_a_full_disk_copies_nothing() {
    let folder = project();
    let part = folder.path().join("part");
    let output = format!("output={}", text(&part));
    plansmith(&["build", text(&folder.path().join("pipeline.yaml")), "--only", "export:fp32", "--set", &output]).exits(0);
    let script = "plansmith merge pipeline.yaml part; code=$?; ls -A disk/tiny.partial | grep -v stages; exit $code";
    let Some((code, said, complaint)) = with_a_small_disk(folder.path(), script) else {
        println!("not run: no namespace of our own here");
        return;
    };
    assert_eq!(code, Some(2), "{said}{complaint}");
    assert!(complaint.contains("bytes are to be written to ") && complaint.contains(" are missing"), "{complaint}");
    assert_eq!(said, "", "nothing is begun");
}

#[test]
fn a_signature_that_does_not_fit_leaves_the_bundle_as_it_was() {
    let folder = project();
    let pipeline = folder.path().join("pipeline.yaml");
    plansmith(&["build", text(&pipeline), "--set", "output=tiny"]).exits(0);
    plansmith(&["sign", "--new-key", text(&folder.path().join("key.pem"))]).exits(0);
    // The bundle fits onto the disk, and nothing more.
    let script = "cp -r tiny disk/tiny && cat /dev/zero > disk/filler 2>/dev/null
        plansmith sign disk/tiny --key key.pem; code=$?
        plansmith check disk/tiny && ls -A disk | grep partial
        exit $code";
    let Some((code, said, complaint)) = with_a_small_disk(folder.path(), script) else {
        println!("not run: no namespace of our own here");
        return;
    };
    assert_eq!(code, Some(2), "{said}{complaint}");
    assert!(complaint.contains("provenance.dsse.json") && complaint.contains("No space left"), "{complaint}");
    assert!(said.contains("manifest sha256 ") && said.contains("not signed"), "{said}{complaint}");
    assert!(!said.contains(".partial"), "{said}");
}

#[test]
fn a_key_that_does_not_fit_is_in_nobody_s_way() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing fits; then the secret half alone; then both.
    let script = "cat /dev/zero > disk/filler 2>/dev/null
        plansmith sign --new-key disk/key.pem; ls -A disk
        rm disk/filler; head -c 1044480 /dev/zero > disk/filler
        plansmith sign --new-key disk/key.pem; ls -A disk
        rm disk/filler
        plansmith sign --new-key disk/key.pem";
    let Some((code, said, complaint)) = with_a_small_disk(folder.path(), script) else {
        println!("not run: no namespace of our own here");
        return;
    };
    assert_eq!(code, Some(0), "{said}{complaint}");
    assert!(said.starts_with("filler\nfiller\n") && complaint.contains("No space left"), "{said}{complaint}");
}
