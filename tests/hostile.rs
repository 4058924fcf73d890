//! Hostile ONNX files (`testdata/onnx_hostile`, made by `tools/make_hostile_onnx.py`) through the command: refused by name, in little memory.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::{Run, copy_files, names, run, text};
use serde::Deserialize;

/// Address space that a refusal may take, in kB: four times what `inspect` takes for a right graph. Every file of the corpus is smaller than
/// half a megabyte.
const REFUSAL: u32 = 300_000;
/// The same where the reference runs: its matrix products reserve half a gigabyte a thread and use little of it.
const EXECUTION: u32 = 3_000_000;

#[derive(Deserialize)]
struct Expected {
    /// Whether `inspect` refuses it too.
    inspect: bool,
    /// What the refusal names.
    names: Vec<String>,
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/onnx_hostile")
}

fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_str(&std::fs::read_to_string(corpus().join("expected.json")).unwrap()).unwrap()
}

/// The command where no more than `space` kB are to be had. Allocating more aborts it, which is no exit code.
fn limited(space: u32, arguments: &[&str]) -> Run {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -v {space}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_plansmith")]).args(arguments);
    // Threads reserve address space, and a machine may have many cores.
    command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "2");
    run(&mut command)
}

fn inspect(graph: &Path) -> Run {
    limited(REFUSAL, &["inspect", text(graph)])
}

/// With the corpus's own checkpoint.
fn verify(space: u32, graph: &Path) -> Run {
    limited(space, &["verify", text(&corpus()), "--onnx", text(graph)])
}

#[track_caller]
fn refuses(run: Run, file: &str, words: &[String]) {
    let run = run.exits(2);
    assert!(run.stdout.is_empty(), "{file}: {}", run.stdout);
    assert!(run.stderr.contains(file), "{file} is not named: {}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word.as_str()), "{file}: `{word}` is not named: {}", run.stderr);
    }
    assert!(run.stderr.len() < 4096, "{file}: {} bytes of message", run.stderr.len());
    let control = run.stderr.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "{file}: {}", run.stderr.escape_debug());
}

#[test]
fn the_graph_that_the_others_are_made_of_agrees() {
    let base = corpus().join("base.onnx");
    inspect(&base).exits(0);
    verify(EXECUTION, &base).exits(0);
}

#[test]
fn every_file_of_the_corpus_is_expected() {
    let graphs = names(&corpus()).into_iter().filter_map(|name| name.strip_suffix(".onnx").map(str::to_owned));
    let graphs: Vec<String> = graphs.filter(|name| name != "base").collect();
    assert_eq!(graphs, expected().into_keys().collect::<Vec<_>>());
    assert!(graphs.len() > 130, "{}", graphs.len());
}

#[test]
fn verify_refuses_each_by_name() {
    for (name, expected) in expected() {
        let file = format!("{name}.onnx");
        // Only the runtime knows which operators it has; the rest is refused before anything runs.
        let space = if name == "node_of_an_unknown_operator" { EXECUTION } else { REFUSAL };
        refuses(verify(space, &corpus().join(&file)), &file, &expected.names);
    }
}

#[test]
fn inspect_refuses_those_that_are_wrong_in_themselves() {
    for (name, expected) in expected() {
        let file = format!("{name}.onnx");
        let run = inspect(&corpus().join(&file));
        if expected.inspect {
            refuses(run, &file, &expected.names);
        } else {
            run.exits(0);
        }
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn onnx_runtime_is_given_none_of_them() {
    for (name, expected) in expected() {
        let file = format!("{name}.onnx");
        let run = run(&mut common::command(&["verify", text(&corpus()), "--runtime", "ort", "--onnx", text(&corpus().join(&file))]));
        refuses(run, &file, &expected.names);
    }
}

/// A copy of the corpus's checkpoint and right graph, whose `model.safetensors` is to be replaced.
fn copy() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(corpus().join("base.onnx"), folder.join("base.onnx")).unwrap();
    let weights = folder.join("model.safetensors");
    (parent, folder, weights)
}

#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let (_parent, folder, weights) = copy();
    std::os::unix::fs::symlink(corpus().join("model.safetensors"), &weights).unwrap();
    let words = ["model.safetensors".to_owned(), "link out of the folder".to_owned()];
    refuses(verify(REFUSAL, &folder.join("base.onnx")), "base.onnx", &words);
}

/// As a hub's cache has it: every file of the model is a link into one folder.
#[test]
fn links_of_graph_and_data_into_one_folder_are_followed() {
    let (parent, folder, weights) = copy();
    let blobs = parent.path().join("blobs");
    copy_files(&corpus(), &blobs);
    std::fs::remove_file(folder.join("base.onnx")).unwrap();
    for (blob, link) in [("base.onnx", folder.join("base.onnx")), ("model.safetensors", weights)] {
        std::fs::rename(blobs.join(blob), blobs.join(format!("{blob}-blob"))).unwrap();
        std::os::unix::fs::symlink(Path::new("../blobs").join(format!("{blob}-blob")), link).unwrap();
    }
    verify(EXECUTION, &folder.join("base.onnx")).exits(0);
}

#[test]
fn a_folder_or_a_pipe_is_no_data_file() {
    let (_parent, folder, weights) = copy();
    std::fs::create_dir(&weights).unwrap();
    refuses(verify(REFUSAL, &folder.join("base.onnx")), "base.onnx", &["not a regular file".to_owned()]);
    std::fs::remove_dir(&weights).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &weights, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
    refuses(verify(REFUSAL, &folder.join("base.onnx")), "base.onnx", &["not a regular file".to_owned()]);
}

#[test]
fn a_folder_or_a_pipe_is_no_graph() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("a_pipe.onnx");
    rustix::fs::mknodat(rustix::fs::CWD, &graph, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
    refuses(inspect(&graph), "a_pipe.onnx", &["no regular file".to_owned()]);
    refuses(verify(REFUSAL, &graph), "a_pipe.onnx", &["no regular file".to_owned()]);
    refuses(verify(REFUSAL, folder.path()), text(folder.path()), &["no regular file".to_owned()]);
    let plan = folder.path().join("a_pipe.plan");
    std::fs::rename(&graph, &plan).unwrap();
    refuses(inspect(&plan), "a_pipe.plan", &["no regular file".to_owned()]);
}

/// A sparse file: nothing of it is read, whatever its name.
#[test]
fn a_graph_of_terabytes_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("sparse.onnx");
    std::fs::File::create(&graph).unwrap().set_len(1 << 42).unwrap();
    refuses(inspect(&graph), "sparse.onnx", &["4398046511104".to_owned()]);
    refuses(verify(REFUSAL, &graph), "sparse.onnx", &["4398046511104".to_owned()]);
}

/// Names are shown, and steer no terminal.
#[test]
fn a_name_cannot_clear_the_screen() {
    let (_parent, folder, weights) = copy();
    std::fs::copy(corpus().join("model.safetensors"), weights).unwrap();
    let graph = folder.join("base.onnx");
    let mut bytes = std::fs::read(&graph).unwrap();
    // Two of one shape: which is which cannot be told, and the refusal lists them.
    let names: [(&[u8], &[u8]); 2] = [(b"input_ids", b"in\x1b[2Jids"), (b"position_ids", b"po\x1b[2Jon_ids")];
    for (name, steering) in names {
        for at in 0..bytes.len() - name.len() {
            if bytes[at..].starts_with(name) {
                bytes[at..at + name.len()].copy_from_slice(steering);
            }
        }
    }
    std::fs::write(&graph, bytes).unwrap();
    let run = inspect(&graph).exits(0);
    assert!(run.stdout.contains(r"in\u{1b}[2Jids") && !run.stdout.contains('\x1b'), "{}", run.stdout.escape_debug());
    refuses(verify(EXECUTION, &graph), "base.onnx", &[r"in\u{1b}[2Jids".to_owned()]);
}

/// Cut at every hundredth byte, and within the last ones. What is left is refused, or was left out by nobody's fault: a graph whose operator
/// sets or metadata are gone.
#[test]
fn a_graph_cut_anywhere_is_refused() {
    let whole = std::fs::read(corpus().join("base.onnx")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("cut.onnx");
    let cuts = (0..whole.len()).step_by(100).chain(whole.len() - 12..whole.len());
    for cut in cuts {
        std::fs::write(&graph, &whole[..cut]).unwrap();
        refuses(inspect(&graph), "cut.onnx", &[]);
    }
}
