//! A build that does not fit says so before it begins.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::process::Command;

use common::{case, copy_files, text};

#[test]
fn a_full_disk_is_told_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), &folder.path().join("model"));
    let (pipeline, disk) = (folder.path().join("pipeline.yaml"), folder.path().join("disk"));
    std::fs::create_dir(&disk).unwrap();
    std::fs::write(&pipeline, "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }]\noutput: disk/tiny\n").unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$1\" && \"$0\" build \"$2\"; code=$?; ls -A \"$1/tiny.partial\"; exit $code";
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_plansmith"),
        text(&disk),
        text(&pipeline),
    ]);
    let output = command.output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if complaint.contains("unshare") || complaint.contains("mount:") {
        println!("no namespace of our own: {complaint}");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}{complaint}");
    assert!(complaint.contains("bytes are to be written to ") && complaint.contains(" are missing"), "{complaint}");
    assert!(complaint.contains("hint: make room, or write elsewhere"), "{complaint}");
    assert_eq!(said, "", "nothing is begun");
}
