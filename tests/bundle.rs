//! Pipelines and bundles, on a tiny checkpoint and without plans.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Run, case, copy_files, names, plansmith, run, text};

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_files(&case("llama3_rope"), &folder.path().join("model"));
        let project = Self { folder };
        project.write("");
        project
    }

    fn write(&self, more: &str) {
        let text = format!(
            "name: tiny\nsource: {{ checkpoint: model }}\nexport:\n  - {{ id: fp32 }}\n  - {{ id: fp16, dtype: fp16, logits: last }}\n\
             output: dist/tiny\n{more}"
        );
        std::fs::write(self.pipeline(), text).unwrap();
    }

    fn pipeline(&self) -> PathBuf {
        self.folder.path().join("pipeline.yaml")
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("dist/tiny")
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

#[test]
fn a_second_build_does_nothing_and_a_changed_one_only_what_changed() {
    let project = Project::new();
    let pipeline = project.pipeline();
    let planned = plansmith(&["build", text(&pipeline), "--plan-only"]).exits(0);
    assert_eq!(planned.stdout, "run    export:fp32\nrun    export:fp16\nrun    verify\nrun    bundle\n");
    assert_eq!(names(project.folder.path()), ["model", "pipeline.yaml"], "a plan writes nothing");
    let built = plansmith(&["build", text(&pipeline)]).exits(0);
    assert!(built.stdout.contains("built: "), "{}", built.stdout);
    let again = plansmith(&["build", text(&pipeline)]).exits(0);
    assert!(again.stdout.starts_with("up to date: nothing changed, nothing to do"), "{}", again.stdout);
    assert_eq!(again.stderr, "");
    // What the manifest says of the source is part of it.
    let revision = format!("source.revision={}", "a".repeat(40));
    let pinned = plansmith(&["build", text(&pipeline), "--set", &revision]).exits(0);
    assert_eq!(pinned.stderr.matches("taken over").count(), 2, "{}", pinned.stderr);
    assert!(std::fs::read_to_string(project.bundle().join("manifest.json")).unwrap().contains(&"a".repeat(40)));
    let planned = plansmith(&["build", text(&pipeline), "--set", "export.1.logits=all", "--plan-only"]).exits(0);
    assert_eq!(planned.stdout, "cached export:fp32\nrun    export:fp16\nrun    verify\nrun    bundle\n");
    plansmith(&["build", text(&pipeline), "--set", "export.1.logits=all"]).exits(0);
    plansmith(&["check", text(&project.bundle())]).exits(0);
    assert_eq!(names(&project.folder.path().join("dist")), ["tiny"]);
}

#[test]
fn a_changed_byte_of_any_file_is_found_and_named() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let checked = plansmith(&["check", text(&project.bundle())]).exits(0);
    let digest = checked.stdout.lines().last().unwrap().strip_prefix("manifest sha256 ").unwrap().to_owned();
    plansmith(&["check", text(&project.bundle()), "--digest", &digest]).exits(0);
    plansmith(&["check", text(&project.bundle()), "--digest", &"0".repeat(64)]).exits(2);
    let all = files(&project.bundle());
    assert!(all.len() >= 9, "{all:?}");
    for path in all {
        let original = std::fs::read(&path).unwrap();
        for at in [0, original.len() / 2, original.len() - 1] {
            let mut changed = original.clone();
            changed[at] ^= 1;
            std::fs::write(&path, changed).unwrap();
            let run = plansmith(&["check", text(&project.bundle())]).exits(2);
            assert!(run.stderr.contains(text(&path)), "{}: {}", path.display(), run.stderr);
        }
        std::fs::write(&path, original).unwrap();
    }
    plansmith(&["check", text(&project.bundle())]).exits(0);
    std::fs::write(project.bundle().join("stray"), "x").unwrap();
    assert!(plansmith(&["check", text(&project.bundle())]).exits(2).stderr.contains("stray"));
}

#[test]
fn what_a_graph_says_of_itself_is_made_anew_with_it() {
    let project = Project::new();
    let build = |set: &[&str]| {
        plansmith(&[&["build", text(&project.pipeline()), "--set"], set].concat()).exits(0);
        plansmith(&["check", text(&project.bundle())]).exits(0);
        std::fs::read(project.bundle().join("manifest.json")).unwrap()
    };
    // The length that a graph is for stands in its metadata, which clients' files follow.
    let short = build(&["source.max_length=2048"]);
    build(&["source.max_length=null"]);
    assert_eq!(build(&["source.max_length=2048"]), short, "as a clean build");
    // So does the digest of config.json.
    let config = project.folder.path().join("model/config.json");
    let original = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, original.replacen('{', "{ \"x_note\": 1,", 1)).unwrap();
    let set = ["source.allow_unknown_config=[x_note]", "--force"];
    let clean = build(&set);
    std::fs::write(&config, original.replacen('{', "{ \"x_note\": 2,", 1)).unwrap();
    build(&set[..1]);
    std::fs::write(&config, original.replacen('{', "{ \"x_note\": 1,", 1)).unwrap();
    assert_eq!(build(&set[..1]), clean);
}

#[test]
fn damage_to_the_last_bundle_does_not_reach_the_next() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let weights = project.bundle().join("onnx/model_fp16.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    // The lowest bit of the last weight: what is computed hardly changes.
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let run = plansmith(&["build", text(&project.pipeline()), "--set", "name=other"]).exits(0);
    assert!(run.stderr.contains("export:fp32") && run.stderr.matches("taken over").count() == 1, "{}", run.stderr);
    plansmith(&["check", text(&project.bundle())]).exits(0);
}

#[test]
fn no_folder_is_replaced_that_holds_anything_else() {
    let project = Project::new();
    let pipeline = project.pipeline();
    let before = files(project.folder.path());
    for (output, said) in
        [("model", "config.json"), (".", "model"), ("..", "needs the name of a folder"), ("pipeline.yaml", "no build made")]
    {
        let run = plansmith(&["build", text(&pipeline), "--set", &format!("output={output}")]).exits(2);
        assert!(run.stderr.contains("`output`") && run.stderr.contains(said), "{output}: {}", run.stderr);
        assert_eq!(files(project.folder.path()), before);
    }
    // A bundle is a build's own; one that the checkpoint was moved into is not replaced either.
    plansmith(&["build", text(&pipeline)]).exits(0);
    std::fs::rename(project.folder.path().join("model"), project.bundle().join("model")).unwrap();
    let run = plansmith(&["build", text(&pipeline), "--set", "source.checkpoint=dist/tiny/model"]).exits(2);
    assert!(run.stderr.contains("dist/tiny/model/"), "{}", run.stderr);
    assert!(project.bundle().join("model/config.json").is_file());
}

#[test]
fn files_of_a_stopped_build_count_by_their_bytes() {
    let project = Project::new();
    let pipeline = project.pipeline();
    plansmith(&["build", text(&pipeline), "--stage", "export"]).exits(0);
    let graph = project.folder.path().join("dist/tiny.partial/onnx/model.onnx");
    let changed = String::from_utf8_lossy(&std::fs::read(&graph).unwrap()).into_owned();
    assert!(changed.contains("plansmith"));
    let mut bytes = std::fs::read(&graph).unwrap();
    let at = bytes.windows(9).position(|part| part == b"plansmith").unwrap();
    bytes[at] = b'P';
    std::fs::write(&graph, bytes).unwrap();
    let run = plansmith(&["build", text(&pipeline)]).exits(0);
    assert_eq!(run.stderr.matches("taken over").count(), 1, "{}", run.stderr);
    plansmith(&["check", text(&project.bundle())]).exits(0);
    // A source that was changed and changed back leaves files of the same sizes.
    let weights = project.folder.path().join("model/model.safetensors");
    let original = std::fs::read(&weights).unwrap();
    let mut other = original.clone();
    let end = other.len();
    other[end - 2] ^= 0x20;
    std::fs::write(&weights, &other).unwrap();
    plansmith(&["build", text(&pipeline), "--stage", "export"]).exits(0);
    std::fs::write(&weights, &original).unwrap();
    plansmith(&["build", text(&pipeline), "--set", "name=again"]).exits(0);
    plansmith(&["check", text(&project.bundle())]).exits(0);
}

#[test]
fn a_failed_build_leaves_the_last_bundle_and_the_failed_one_beside_it() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let before = std::fs::read(project.bundle().join("manifest.json")).unwrap();
    let golden = case("tied_flag_but_two_different").join("golden.safetensors");
    project.write(&format!("verify: {{ golden: {} }}\n", golden.display()));
    let run = plansmith(&["build", text(&project.pipeline())]).exits(1);
    assert!(run.stdout.contains("the last good bundle is untouched"), "{}", run.stdout);
    assert_eq!(std::fs::read(project.bundle().join("manifest.json")).unwrap(), before);
    let failed = project.folder.path().join("dist/tiny.failed");
    assert!(failed.join("report.html").is_file() && failed.join("verdict.json").is_file());
    plansmith(&["check", text(&project.bundle())]).exits(0);
    // One that is whole and disagrees is not to be shipped.
    assert!(plansmith(&["check", text(&failed)]).exits(1).stdout.contains("verdict disagree"));
    let key = project.folder.path().join("key.pem");
    plansmith(&["sign", "--new-key", text(&key)]).exits(0);
    assert!(plansmith(&["sign", text(&failed), "--key", text(&key)]).exits(2).stderr.contains("says disagree"));
    // A run that stops behind the verdict ends as the verdict does.
    let run = plansmith(&["build", text(&project.pipeline()), "--stage", "verify"]).exits(1);
    assert!(run.stdout.contains("tiny.partial") && run.stdout.contains("reference against golden: disagree"), "{}", run.stdout);
    let run = plansmith(&["build", text(&project.pipeline()), "--stage", "verify", "--json"]).exits(1);
    let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&said["result"], &said["stage"], &said["verdict"]["verdict"]), (&"stopped".into(), &"verify".into(), &"disagree".into()));
    assert!(project.folder.path().join("dist/tiny.partial/report.html").is_file());
}

#[test]
fn pins_and_mistakes_are_refused_by_name() {
    let project = Project::new();
    let pipeline = project.pipeline();
    let refused = |set: &str, said: &str| {
        let run = plansmith(&["build", text(&pipeline), "--set", set]).exits(2);
        assert!(run.stderr.contains(said), "{set}: {}", run.stderr);
        assert!(!project.bundle().exists());
    };
    refused(&format!("source.sha256={{ model.safetensors: {} }}", "0".repeat(64)), "model.safetensors");
    refused("export.0.dtype=fp33", "fp33");
    refused("export.0.compute=fp8", "fp8");
    refused("source.chekpoint=x", "chekpoint");
    let run = plansmith(&["build", text(&pipeline), "--stage", "exprot"]).exits(2);
    assert!(run.stderr.contains("stages are export:fp32, export:fp16, verify, bundle"), "{}", run.stderr);
    // A folder that was fetched, and then edited.
    let records = project.folder.path().join("model/.cache/huggingface/download");
    std::fs::create_dir_all(&records).unwrap();
    let commit = "a".repeat(40);
    std::fs::write(records.join("config.json.metadata"), format!("{commit}\n9e26dfeeb6e641a33dae4961196235bdb965b21b\n1732900000.5\n"))
        .unwrap();
    refused(&format!("source.revision={commit}"), "is not what was fetched");
    project.write("outptu: x\n");
    let run = plansmith(&["build", text(&pipeline)]).exits(2);
    assert!(
        run.stderr.contains("pipeline.yaml:7:1: unknown field `outptu`") && run.stderr.contains("did you mean `output`?"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_interrupted_build_goes_on_where_it_was() {
    let project = Project::new();
    let run = plansmith(&["build", text(&project.pipeline()), "--stage", "export:fp32"]).exits(0);
    assert!(run.stdout.contains("stages up to export:fp32 are done"), "{}", run.stdout);
    assert!(!project.bundle().exists());
    let planned = plansmith(&["build", text(&project.pipeline()), "--plan-only"]).exits(0);
    assert!(planned.stdout.starts_with("cached export:fp32\nrun    export:fp16"), "{}", planned.stdout);
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    assert_eq!(names(&project.folder.path().join("dist")), ["tiny"]);
    assert!(plansmith(&["run", text(&project.bundle()), "--prompt", "x"]).exits(2).stderr.contains("tokenizer.json"));
}

#[test]
fn a_bundle_is_verified_without_its_source() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    std::fs::remove_dir_all(project.folder.path().join("model")).unwrap();
    let run = plansmith(&["verify", "--bundle", text(&project.bundle())]).exits(0);
    assert!(run.stdout.contains("cache      golden    does not apply: needs a source that can be executed"), "{}", run.stdout);
    assert!(run.stdout.contains("onnx/model.onnx on rten") && run.stdout.contains("onnx/model_fp16.onnx on rten"), "{}", run.stdout);
    let weights = project.bundle().join("onnx/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    // The high byte of the last weight: its sign and most of its exponent.
    *bytes.last_mut().unwrap() ^= 0xc0;
    std::fs::write(&weights, bytes).unwrap();
    let run = plansmith(&["verify", "--bundle", text(&project.bundle())]).exits(2);
    assert!(run.stderr.contains("onnx/model.safetensors") && run.stderr.contains("the manifest says"), "{}", run.stderr);
    let graph = project.bundle().join("onnx/model.onnx");
    plansmith(&["verify", "--bundle", text(&project.bundle()), "--onnx", text(&graph)]).exits(1);
    // Another kind of arithmetic than any artifact's: nobody has measured what it may lose.
    let out = project.folder.path().join("bf16");
    plansmith(&["export", text(&case("llama3_rope")), "-o", text(&out), "--dtype", "bf16"]).exits(0);
    let run = plansmith(&["verify", "--bundle", text(&project.bundle()), "--onnx", text(&out.join("model_bf16.onnx"))]).exits(2);
    assert!(run.stdout.contains("the bundle has no noise floor of weights in BF16"), "{}", run.stdout);
    // Looser limits, or other logits, than the bundle was sealed with.
    for name in ["noise.json", "golden.safetensors"] {
        let path = project.bundle().join(name);
        let original = std::fs::read(&path).unwrap();
        let changed = if name == "noise.json" {
            String::from_utf8(original.clone()).unwrap().replace("e-", "e0").into()
        } else {
            [&original[..], &[0]].concat()
        };
        assert_ne!(original, changed);
        std::fs::write(&path, changed).unwrap();
        let run = plansmith(&["verify", "--bundle", text(&project.bundle())]).exits(2);
        assert!(run.stderr.contains(name) && run.stderr.contains("the manifest says"), "{}", run.stderr);
        std::fs::write(&path, original).unwrap();
    }
}

#[test]
fn two_builds_give_the_same_manifest_and_provenance_but_for_when_and_where() {
    let projects = [Project::new(), Project::new()];
    let built = projects.each_ref().map(|project| {
        plansmith(&["build", text(&project.pipeline())]).exits(0);
        let read = |name: &str| std::fs::read_to_string(project.bundle().join(name)).unwrap();
        let mut provenance: serde_json::Value = serde_json::from_str(&read("provenance.json")).unwrap();
        let run = provenance["predicate"].as_object_mut().unwrap().remove("runDetails").unwrap();
        assert!(run["metadata"]["startedOn"].as_str().unwrap().ends_with('Z'), "{run}");
        (read("manifest.json"), provenance)
    });
    assert_eq!(built[0], built[1]);
    let provenance = &built[0].1;
    assert_eq!(provenance["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(provenance["predicateType"], "https://slsa.dev/provenance/v1");
    let subjects = provenance["subject"].as_array().unwrap();
    let names: Vec<&str> = subjects.iter().map(|subject| subject["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "manifest.json");
    assert!(names.contains(&"onnx/model_fp16.onnx") && names.contains(&"verdict.json"), "{names:?}");
    let sources = provenance["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["name"] == "model/model.safetensors"), "{sources:?}");
}

#[test]
fn a_signature_holds_for_one_key_and_every_byte() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let bundle = project.bundle();
    let key = |name: &str| {
        let path = project.folder.path().join(name);
        plansmith(&["sign", "--new-key", text(&path)]).exits(0);
        (path.clone(), path.with_added_extension("pub"))
    };
    let ((secret, public), (_, other)) = (key("a.pem"), key("b.pem"));
    assert!(plansmith(&["sign", "--new-key", text(&secret)]).exits(2).stderr.contains("is there already"));
    let run = plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(2);
    assert!(run.stderr.contains("provenance.dsse.json") && run.stderr.contains("nobody signed this bundle"), "{}", run.stderr);

    plansmith(&["sign", text(&bundle), "--key", text(&secret)]).exits(0);
    let run = plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(0);
    assert!(run.stdout.contains("signed by the key with the fingerprint "), "{}", run.stdout);
    assert!(plansmith(&["check", text(&bundle)]).exits(0).stdout.contains("signed; --key FILE says by whom"));
    assert!(plansmith(&["check", text(&bundle), "--key", text(&other)]).exits(2).stderr.contains("no signature in"));
    assert!(plansmith(&["check", text(&bundle), "--key", text(&secret)]).exits(2).stderr.contains("is no ed25519 public key in PEM"));

    for name in ["provenance.json", "provenance.dsse.json", "manifest.json"] {
        let path = bundle.join(name);
        let original = std::fs::read(&path).unwrap();
        for at in (0..original.len()).step_by(original.len() / 23) {
            let mut changed = original.clone();
            changed[at] ^= 1;
            std::fs::write(&path, changed).unwrap();
            plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(2);
        }
        std::fs::write(&path, original).unwrap();
    }
    // A file that was exchanged together with its line of the manifest still lacks the signature.
    plansmith(&["build", text(&project.pipeline()), "--set", "export.1.logits=all"]).exits(0);
    plansmith(&["check", text(&bundle)]).exits(0);
    plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(2);
}

#[test]
fn a_bundle_is_held_to_the_source_it_names() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let bundle = project.bundle();
    let run = plansmith(&["check", text(&bundle), "--against", text(&project.folder.path().join("model"))]).exits(0);
    assert!(run.stdout.contains("made of "), "{}", run.stdout);
    let run = plansmith(&["check", text(&bundle), "--against", text(&case("linear_rope"))]).exits(2);
    assert!(run.stderr.contains("the bundle was made of "), "{}", run.stderr);
}

/// Kills builds wherever they are. The bundle is always one of the two that were wanted, whole, and the next build goes on.
#[test]
fn a_build_that_is_killed_anywhere_leaves_a_whole_bundle() {
    let project = Project::new();
    let pipeline = project.pipeline();
    plansmith(&["build", text(&pipeline)]).exits(0);
    let mut killer = Killer::default();
    for round in 0..50 {
        let logits = ["export.1.logits=all", "export.1.logits=last"][round % 2];
        killer.strike(&mut common::command(&["-q", "build", text(&pipeline), "--set", logits, "--force"]));
        plansmith(&["check", text(&project.bundle())]).exits(0);
    }
    assert!(killer.killed >= 10 && killer.ended >= 1, "{killer:?}");
    plansmith(&["build", text(&pipeline)]).exits(0);
    plansmith(&["check", text(&project.bundle())]).exits(0);
    assert_eq!(names(&project.folder.path().join("dist")), ["tiny"]);
}

/// Kills processes somewhere within the time that they take, which this machine tells: about one in two ends before.
#[derive(Debug)]
struct Killer {
    random: u64,
    /// The longest that the next process is left alone.
    within: Duration,
    killed: usize,
    ended: usize,
}

impl Default for Killer {
    fn default() -> Self {
        Self { random: 20_261_130, within: Duration::from_millis(100), killed: 0, ended: 0 }
    }
}

impl Killer {
    fn strike(&mut self, command: &mut Command) {
        let mut child = command.spawn().unwrap();
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(self.within.mul_f64((self.random >> 33) as f64 / f64::from(1_u32 << 31)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        if status.code().is_none() {
            (self.killed, self.within) = (self.killed + 1, self.within * 5 / 4);
        } else {
            assert!(status.success(), "{status}");
            (self.ended, self.within) = (self.ended + 1, self.within * 4 / 5);
        }
    }
}

/// As above, where the bundle is joined of parts.
#[test]
fn a_merge_that_is_killed_anywhere_leaves_a_whole_bundle() {
    let project = Project::new();
    let pipeline = project.pipeline();
    let forms = ["all", "last"].map(|logits| {
        let part = project.folder.path().join(logits);
        let (logits, output) = (format!("export.1.logits={logits}"), format!("output={}", text(&part)));
        plansmith(&["build", text(&pipeline), "--set", &logits, "--set", &output, "--only", "export:fp16", "--only", "export:fp32"])
            .exits(0);
        (logits, part)
    });
    let run = |form: &(String, PathBuf)| common::command(&["-q", "merge", text(&pipeline), text(&form.1), "--set", &form.0]);
    common::run(&mut run(&forms[0])).exits(0);
    let mut killer = Killer::default();
    for round in 1..=30 {
        killer.strike(&mut run(&forms[round % 2]));
        plansmith(&["check", text(&project.bundle())]).exits(0);
    }
    assert!(killer.killed >= 5 && killer.ended >= 1, "{killer:?}");
    common::run(&mut run(&forms[1])).exits(0);
    plansmith(&["check", text(&project.bundle())]).exits(0);
    assert_eq!(names(&project.folder.path().join("dist")), ["tiny"]);
}

/// A signature is there or not, never half, and nothing else is left in the bundle.
#[test]
fn a_signing_that_is_killed_anywhere_leaves_a_whole_bundle() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let (bundle, key) = (project.bundle(), project.folder.path().join("key.pem"));
    plansmith(&["sign", "--new-key", text(&key)]).exits(0);
    let public = key.with_added_extension("pub");
    let signature = bundle.join("provenance.dsse.json");
    let (mut killer, mut signed) = (Killer::default(), 0);
    for _ in 0..60 {
        killer.strike(&mut common::command(&["-q", "sign", text(&bundle), "--key", text(&key)]));
        plansmith(&["check", text(&bundle)]).exits(0);
        if signature.exists() {
            plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(0);
            signed += 1;
            std::fs::remove_file(&signature).unwrap();
        }
    }
    assert!(killer.killed >= 5 && signed >= killer.ended && signed >= 1, "{killer:?}, {signed} signed");
    plansmith(&["sign", text(&bundle), "--key", text(&key)]).exits(0);
    plansmith(&["check", text(&bundle), "--key", text(&public)]).exits(0);
    assert_eq!(names(&project.folder.path().join("dist")), ["tiny"], "what the killed ones left is gone");
}

/// A pipe that nobody writes to would be waited for without end, and a file that is long and empty read to its end.
#[test]
fn a_pipe_in_a_bundle_is_not_waited_for() {
    let project = Project::new();
    plansmith(&["build", text(&project.pipeline())]).exits(0);
    let (bundle, pipeline) = (project.bundle(), project.pipeline());
    let key = project.folder.path().join("key.pem");
    plansmith(&["sign", "--new-key", text(&key)]).exits(0);
    let verbs: [&[&str]; 4] = [
        &["check", text(&bundle)],
        &["sign", text(&bundle), "--key", text(&key)],
        &["verify", "--bundle", text(&bundle)],
        &["build", text(&pipeline)],
    ];
    for (name, refusing) in
        [("manifest.json", &verbs[..]), ("onnx/model.onnx", &verbs[..3]), ("golden.safetensors", &verbs[..3]), ("noise.json", &verbs[..3])]
    {
        let path = bundle.join(name);
        let original = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for long in [false, true] {
            if long {
                std::fs::File::create(&path).unwrap().set_len(1 << 42).unwrap();
            } else {
                rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
            }
            for arguments in refusing {
                let mut command = std::process::Command::new("timeout");
                let Run { code, stderr, .. } = run(command.args(["60", env!("CARGO_BIN_EXE_plansmith")]).args(*arguments));
                assert_eq!(code, Some(2), "{arguments:?} of {name}, long {long}: {stderr}");
            }
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::write(&path, original).unwrap();
    }
    plansmith(&["check", text(&bundle)]).exits(0);
}
