//! A pipeline on many machines: the jobs that `--emit` writes, run one by one from their own command lines, give the bundle that one build gives.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{case, copy_files, names, plansmith, text};
use serde_json::Value;

const PIPELINE: &str = "name: tiny\nsource: { checkpoint: model }\nexport:\n  - { id: fp32 }\n  - { id: again, logits: last }\n  \
                        - { id: fp16, dtype: fp16 }\noutput: dist/tiny\n";
const PLANS: &str =
    "engines:\n  - { from: fp16, architectures: [sm86, sm89], profiles: { decode: { batch: 1, sequence: 1, past: [0, 8, 64] } } }\n";

/// A name that a shell and make read otherwise where it is not quoted.
const FILE: &str = "a pipe'line $HOME #1.yaml";
/// The same of a value.
const SET: &str = "name=it's $HOME";

/// A team's checkout.
fn checkout(more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), &folder.path().join("model"));
    std::fs::write(folder.path().join(FILE), format!("{PIPELINE}{more}")).unwrap();
    folder
}

/// Runs a job's script where jobs start, with its variables.
fn shell(folder: &Path, script: &str, variables: &[(&str, &str)]) {
    let bin = Path::new(env!("CARGO_BIN_EXE_plansmith")).parent().unwrap();
    let path =
        std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))).unwrap();
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(folder).env("PATH", path).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}\n{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

fn emitted(folder: &Path, system: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plansmith"));
    let output = command.args(["build", FILE, "--set", SET, "--emit", system]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

/// Runs every job of what `system` was written.
fn run_jobs(folder: &Path, system: &str) {
    let text = emitted(folder, system);
    let here = folder.to_str().unwrap();
    match system {
        "github-actions" => {
            let jobs = &yaml(&text)["jobs"];
            let run = |job: &Value| job["steps"].as_array().unwrap().iter().find_map(|step| step["run"].as_str()).unwrap().to_owned();
            for cell in jobs["cell"]["strategy"]["matrix"]["include"].as_array().unwrap() {
                let variables = [("STAGE", cell["stage"].as_str().unwrap()), ("PART", cell["part"].as_str().unwrap())];
                shell(folder, &run(&jobs["cell"]), &variables);
            }
            shell(folder, &run(&jobs["merge"]), &[]);
        }
        "gitlab" => {
            let jobs = yaml(&text);
            for cell in jobs["cell"]["parallel"]["matrix"].as_array().unwrap() {
                let variables =
                    [("STAGE", cell["STAGE"].as_str().unwrap()), ("PART", cell["PART"].as_str().unwrap()), ("CI_PROJECT_DIR", here)];
                shell(folder, jobs["cell"]["script"][0].as_str().unwrap(), &variables);
                assert!(folder.join(jobs["cell"]["artifacts"]["paths"][0].as_str().unwrap().replace("$PART", variables[1].1)).is_dir());
            }
            shell(folder, jobs["merge"]["script"][0].as_str().unwrap(), &[]);
        }
        "argo" => {
            let workflow = yaml(&text);
            let templates: BTreeMap<&str, &Value> =
                workflow["spec"]["templates"].as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), one)).collect();
            let script = |name: &str| templates[name]["container"]["args"][0].as_str().unwrap();
            for item in templates["all"]["dag"]["tasks"][0]["withItems"].as_array().unwrap() {
                let filled = ["stage", "part"].iter().fold(script("cell").to_owned(), |script, name| {
                    script.replace(&format!("{{{{inputs.parameters.{name}}}}}"), item[name].as_str().unwrap())
                });
                shell(folder, &filled, &[]);
            }
            shell(folder, script("merge"), &[]);
        }
        _ => {
            std::fs::write(folder.join("Makefile"), &text).unwrap();
            shell(folder, "make -s", &[]);
        }
    }
}

fn every_system_gives_the_same(more: &str) {
    let one = checkout(more);
    plansmith(&["build", text(&one.path().join(FILE)), "--set", SET]).exits(0);
    let wanted = std::fs::read_to_string(one.path().join("dist/tiny/manifest.json")).unwrap();
    for system in ["github-actions", "gitlab", "argo", "make"] {
        let team = checkout(more);
        run_jobs(team.path(), system);
        let bundle = team.path().join("dist/tiny");
        assert_eq!(std::fs::read_to_string(bundle.join("manifest.json")).unwrap(), wanted, "{system}");
        plansmith(&["check", text(&bundle)]).exits(0);
    }
}

#[test]
fn jobs_of_every_system_give_the_bundle_of_one_build() {
    every_system_gives_the_same("layouts: [hub, triton]\n");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn jobs_with_plans_give_the_bundle_of_one_build() {
    every_system_gives_the_same(PLANS);
}

/// The command that has `files` of `system` read by its linter.
fn linter(system: &str, files: &[&str]) -> Command {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/linters");
    let set = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set; `cargo xtask test` sets it"));
    let mut command = match system {
        "github-actions" => {
            let mut command = Command::new("node");
            command.arg(tools.join("lint_actions.mjs")).arg(set("PLANSMITH_LINTERS_MODULES"));
            command
        }
        "gitlab" => {
            let mut command = Command::new(set("PLANSMITH_LINTERS_PYTHON"));
            command.args(["-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci"]);
            command
        }
        "argo" => {
            let mut command = Command::new(set("PLANSMITH_LINTERS_PYTHON"));
            command.arg(tools.join("lint_argo.py"));
            command
        }
        _ => {
            let mut command = Command::new("make");
            command.args(["--dry-run", "--warn-undefined-variables", "-f"]);
            command
        }
    };
    command.args(files);
    command
}

/// What it says, each line with the file that it is about, and whether it takes them all.
fn lint(folder: &Path, system: &str, files: &[&str]) -> (bool, String) {
    let read = |files: &[&str]| {
        let output = linter(system, files).current_dir(folder).output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success() && !said.contains("warning:"), said)
    };
    if system != "make" {
        return read(files);
    }
    let said = files.iter().map(|file| {
        let (passes, said) = read(&[file]);
        (passes, said.lines().map(|line| format!("{file}: {line}\n")).collect::<String>())
    });
    said.fold((true, String::new()), |all, one| (all.0 && one.0, all.1 + &one.1))
}

#[test]
#[ignore = "needs the linters: run by cargo xtask test"]
fn emitted_files_pass_their_linters_and_faulty_ones_do_not() {
    let team = checkout("");
    // System, what is changed, and what the linter says then.
    let faults = [
        ("github-actions", "needs: cell", "needs: cel", "\"cel\" which does not exist"),
        ("github-actions", "matrix.stage", "matrix.stag", "property \"stag\" is not defined"),
        ("github-actions", "steps:", "step:", "unexpected key \"step\""),
        ("gitlab", "script:", "scripts:", "'scripts' was unexpected"),
        ("gitlab", "expire_in: 1 day", "expire_in: [1]", "is not of type 'string'"),
        ("argo", "withItems", "withItem", "withItem: no such key"),
        ("argo", "mountPath", "mountpath", "mountPath: Field required"),
        ("argo", "template: merge", "template: merg", "no template `merg`"),
        ("make", "$(PARTS)/export-fp16.done: a", "$(PARTS)/export-fp16: a", "No rule to make target"),
        ("make", "$(PLANSMITH) merge", "$(PLANSMIT) merge", "undefined variable"),
        ("make", "\t@touch", "    @touch", "missing separator"),
    ];
    for system in ["github-actions", "gitlab", "argo", "make"] {
        let text = emitted(team.path(), system);
        std::fs::write(team.path().join("right.yaml"), &text).unwrap();
        let (passes, said) = lint(team.path(), system, &["right.yaml"]);
        assert!(passes, "{system}: {said}");
        let faults: Vec<_> = faults.iter().filter(|fault| fault.0 == system).enumerate().collect();
        let names: Vec<String> = faults.iter().map(|(index, _)| format!("faulty{index}.yaml")).collect();
        for (index, (_, from, to, _)) in &faults {
            let faulty = text.replace(from, to);
            assert_ne!(faulty, text, "{system} has no {from}");
            std::fs::write(team.path().join(&names[*index]), faulty).unwrap();
        }
        let (passes, said) = lint(team.path(), system, &names.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!passes, "{system}: {said}");
        for (index, (_, _, to, words)) in &faults {
            assert!(said.lines().any(|line| line.contains(&names[*index]) && line.contains(words)), "{system}, {to}: {said}");
        }
    }
}

#[test]
fn parts_are_hashed_and_have_to_be_of_this_pipeline() {
    let team = checkout("");
    let pipeline = team.path().join(FILE);
    let part = |name: &str| team.path().join(name);
    let build = |stage: &str, name: &str| {
        let output = format!("output={}", text(&part(name)));
        plansmith(&["build", text(&pipeline), "--only", stage, "--set", &output]).exits(0);
    };
    build("export:again", "a");
    // The graph that shares weights comes with the one that writes them.
    assert_eq!(names(&part("a.partial/onnx")), ["model.onnx", "model.safetensors", "model_again.onnx"]);
    let merge = |names: &[&str]| {
        let parts: Vec<String> = names.iter().map(|name| text(&part(name)).to_owned()).collect();
        let arguments = [&["merge", text(&pipeline)][..], &parts.iter().map(String::as_str).collect::<Vec<_>>()].concat();
        plansmith(&arguments)
    };
    let run = merge(&["a"]).exits(2);
    assert!(run.stderr.contains("the parts do not have export:fp16") && run.stderr.contains("--only export:fp16"), "{}", run.stderr);
    build("export:fp16", "b");
    let graph = part("b.partial/onnx/model_fp16.onnx");
    let original = std::fs::read(&graph).unwrap();
    let mut changed = original.clone();
    changed[100] ^= 1;
    std::fs::write(&graph, changed).unwrap();
    let run = merge(&["a", "b"]).exits(2);
    assert!(run.stderr.contains("model_fp16.onnx") && run.stderr.contains("its record says"), "{}", run.stderr);
    // What has no end is not hashed to it.
    let refused = |said: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_plansmith"), "merge", text(&pipeline), text(&part("a")), text(&part("b"))]);
        let run = common::run(&mut command).exits(2);
        assert!(run.stderr.contains("model_fp16.onnx") && run.stderr.contains(said), "{}", run.stderr);
    };
    std::fs::File::create(&graph).unwrap().set_len(1 << 42).unwrap();
    refused("has 4398046511104 bytes; its record says");
    std::fs::remove_file(&graph).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &graph).unwrap();
    refused("");
    std::fs::remove_file(&graph).unwrap();
    std::fs::write(&graph, original).unwrap();
    assert!(merge(&["a", "nowhere"]).exits(2).stderr.contains("nowhere"));
    // A record that leads out of its part.
    let record = part("b.partial/.stages.json");
    let stages = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, stages.replace("onnx/model_fp16.onnx", "../../model")).unwrap();
    assert!(merge(&["a", "b"]).exits(2).stderr.contains("which is outside of the part"));
    std::fs::write(&record, stages).unwrap();
    merge(&["a", "b"]).exits(0);
    plansmith(&["check", text(&team.path().join("dist/tiny"))]).exits(0);
    // Parts are looked at although the bundle is there.
    assert!(merge(&["a", "nowhere"]).exits(2).stderr.contains("nowhere"));

    let run = plansmith(&["build", text(&pipeline), "--only", "verify"]).exits(2);
    assert!(run.stderr.contains("no stage is called `verify`") && run.stderr.contains("export:fp32, export:again"), "{}", run.stderr);
    let run = plansmith(&["build", text(&pipeline), "--emit", "jenkins"]).exits(2);
    assert!(run.stderr.contains("known are github-actions, gitlab, argo, make"), "{}", run.stderr);
}
