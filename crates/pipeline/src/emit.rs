//! A pipeline's fan-out for the engine that a team already runs: one job a cell, and one that merges.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::Error;
use crate::manifest::MANIFEST_NAME;

/// The stages of a pipeline that can be done apart from one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fanout {
    /// The pipeline's name.
    pub name: String,
    /// Stages by name.
    pub cells: Vec<String>,
}

/// What runs jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// A workflow of GitHub Actions.
    GitHubActions,
    /// A pipeline of GitLab CI.
    GitLab,
    /// A workflow of Argo.
    Argo,
    /// A makefile.
    Make,
}

/// What the machines that run jobs are to have.
const RUNNER: &str = "Runners need `plansmith` on PATH, and the pipeline's source where it says.";
const IMAGE: &str = "The image needs `plansmith`; the volume is to hold the pipeline and its source, and takes the parts.";

impl System {
    const ALL: [(Self, &str); 4] =
        [(Self::GitHubActions, "github-actions"), (Self::GitLab, "gitlab"), (Self::Argo, "argo"), (Self::Make, "make")];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(system, _)| system == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(|(_, name)| name).join(", ");
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(system, _)| system).ok_or_else(|| format!("known are {names}"))
    }
}

/// What the command line says that every job is to say too.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The pipeline file as jobs name it: relative to where they start.
    pub pipeline: &'a str,
    /// `--set`.
    pub overrides: &'a [String],
    /// `--require-executed`, which is for the job that verifies.
    pub require_executed: bool,
}

impl Asked<'_> {
    /// The pipeline file and what changes it, as words of a shell's command.
    fn words(&self) -> String {
        let set = self.overrides.iter().map(|assignment| format!(" --set {}", quoted(assignment)));
        std::iter::once(quoted(self.pipeline)).chain(set).collect()
    }

    /// The same for the job that merges.
    fn merging(&self) -> String {
        self.words() + if self.require_executed { " --require-executed" } else { "" }
    }
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+:=,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

impl Fanout {
    /// The file for `system`.
    ///
    /// # Errors
    /// It cannot be written as YAML.
    pub fn write(&self, system: System, asked: Asked<'_>) -> Result<String, Error> {
        let Asked { pipeline, .. } = asked;
        let (build, merge) = (asked.words(), asked.merging());
        let (build, merge) = (build.as_str(), merge.as_str());
        let (head, body) = match system {
            System::Make => return Ok(self.make(pipeline, build, merge)),
            System::GitHubActions => (RUNNER, self.github(build, merge)),
            System::GitLab => (RUNNER, self.gitlab(build, merge)),
            System::Argo => (IMAGE, self.argo(build, merge)),
        };
        let with_plans = self.cells.iter().any(|cell| cell.starts_with("engine:"));
        let tools =
            if with_plans { "# Jobs of plans, and the last one, need TensorRT's libraries and plansmith's worker, too.\n" } else { "" };
        let yaml = serde_yaml::to_string(&body);
        let yaml = yaml.map_err(|error| Error::Manifest { path: MANIFEST_NAME.into(), problem: format!("cannot be written: {error}") })?;
        Ok(format!(
            "# Made by `plansmith build {pipeline:?} --emit {system}`: make it again when the pipeline's stages change.\n# {head}\n{tools}{yaml}"
        ))
    }

    /// Stage and part of each cell.
    fn parts(&self) -> impl Iterator<Item = (&str, String)> {
        self.cells.iter().map(|cell| (cell.as_str(), cell.replace([':', '+'], "-")))
    }

    /// The arguments of `merge`, each below `folder`.
    fn all(&self, folder: &str) -> String {
        self.parts().map(|(_, part)| format!("{folder}/{part}")).collect::<Vec<_>>().join(" ")
    }

    fn github(&self, build: &str, merge: &str) -> Value {
        let cells: Vec<Value> = self.parts().map(|(stage, part)| json!({ "stage": stage, "part": part })).collect();
        let build = format!("plansmith build {build} --only \"$STAGE\" --set output=\"$PWD/parts/$PART\"");
        let plans = "${{ github.workspace }}/.plansmith/plans";
        let cache = json!({
            "uses": "actions/cache@v4",
            "with": { "path": ".plansmith/plans", "key": "plansmith-${{ matrix.part }}-${{ github.run_id }}", "restore-keys": "plansmith-" },
        });
        let keep = json!({
            "uses": "actions/upload-artifact@v4",
            // The record of what is done is a hidden file.
            "with": { "name": "${{ matrix.part }}.partial", "path": "parts/${{ matrix.part }}.partial", "include-hidden-files": true },
        });
        json!({
            "name": format!("plansmith {}", self.name),
            "on": { "workflow_dispatch": {} },
            "permissions": { "contents": "read" },
            "jobs": {
                "cell": {
                    "name": "${{ matrix.stage }}",
                    "runs-on": "ubuntu-latest",
                    "strategy": { "matrix": { "include": cells } },
                    "env": { "STAGE": "${{ matrix.stage }}", "PART": "${{ matrix.part }}", "PLANSMITH_PLAN_CACHE": plans },
                    "steps": [{ "uses": "actions/checkout@v4" }, cache, { "run": build }, keep],
                },
                "merge": {
                    "needs": "cell",
                    "runs-on": "ubuntu-latest",
                    "steps": [
                        { "uses": "actions/checkout@v4" },
                        { "uses": "actions/download-artifact@v4", "with": { "path": "parts" } },
                        { "run": format!("plansmith merge {merge} {}", self.all("parts")) },
                    ],
                },
            },
        })
    }

    fn gitlab(&self, build: &str, merge: &str) -> Value {
        let cells: Vec<Value> = self.parts().map(|(stage, part)| json!({ "STAGE": stage, "PART": part })).collect();
        json!({
            "stages": ["build", "merge"],
            "cell": {
                "stage": "build",
                "parallel": { "matrix": cells },
                "variables": { "PLANSMITH_PLAN_CACHE": "$CI_PROJECT_DIR/.plansmith/plans" },
                "cache": { "key": "plansmith-plans", "paths": [".plansmith/plans"] },
                "script": [format!("plansmith build {build} --only \"$STAGE\" --set output=\"$CI_PROJECT_DIR/parts/$PART\"")],
                "artifacts": { "paths": ["parts/$PART.partial"], "expire_in": "1 day" },
            },
            "merge": {
                "stage": "merge",
                "needs": ["cell"],
                "script": [format!("plansmith merge {merge} {}", self.all("parts"))],
            },
        })
    }

    fn argo(&self, build: &str, merge: &str) -> Value {
        let items: Vec<Value> = self.parts().map(|(stage, part)| json!({ "stage": stage, "part": part })).collect();
        let container = |script: &str| {
            json!({
                "image": "{{workflow.parameters.image}}", "command": ["sh", "-ec"], "args": [script], "workingDir": "/workspace",
                "volumeMounts": [{ "name": "work", "mountPath": "/workspace" }],
                "env": [{ "name": "PLANSMITH_PLAN_CACHE", "value": "/workspace/.plansmith/plans" }],
            })
        };
        let build = format!(
            "plansmith build {build} --only '{{{{inputs.parameters.stage}}}}' --set output=\"$PWD/parts/{{{{inputs.parameters.part}}}}\""
        );
        let inputs = json!([{ "name": "stage" }, { "name": "part" }]);
        let arguments = json!([{ "name": "stage", "value": "{{item.stage}}" }, { "name": "part", "value": "{{item.part}}" }]);
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": { "generateName": format!("plansmith-{}-", dns_label(&self.name)) },
            "spec": {
                "entrypoint": "all",
                "arguments": { "parameters": [{ "name": "image", "value": "plansmith:latest" }] },
                "volumes": [{ "name": "work", "persistentVolumeClaim": { "claimName": "plansmith-work" } }],
                "templates": [
                    {
                        "name": "all",
                        "dag": {
                            "tasks": [
                                { "name": "cell", "template": "cell", "withItems": items, "arguments": { "parameters": arguments } },
                                { "name": "merge", "template": "merge", "depends": "cell.Succeeded" },
                            ],
                        },
                    },
                    { "name": "cell", "inputs": { "parameters": inputs }, "container": container(&build) },
                    { "name": "merge", "container": container(&format!("plansmith merge {merge} {}", self.all("parts"))) },
                ],
            },
        })
    }

    fn make(&self, pipeline: &str, build: &str, merge: &str) -> String {
        // A dollar is make's own, in recipes too.
        let [build, merge] = [build, merge].map(|words| words.replace('$', "$$"));
        let file: String =
            pipeline.chars().flat_map(|c| [(c == '$').then_some('$'), " #:%".contains(c).then_some('\\'), Some(c)]).flatten().collect();
        let mut text = format!(
            "# Made by `plansmith build {pipeline:?} --emit make`: make it again when the pipeline's stages change.\n\
             # make -j4 PLANSMITH=/path/to/plansmith\n\
             PLANSMITH ?= plansmith\n\
             PARTS ?= parts\n\
             .PHONY: bundle\n\n\
             bundle: {}\n\t$(PLANSMITH) merge {merge} {}\n",
            self.parts().map(|(_, part)| format!("$(PARTS)/{part}.done")).collect::<Vec<_>>().join(" "),
            self.all("$(PARTS)")
        );
        for (stage, part) in self.parts() {
            text += &format!(
                "\n$(PARTS)/{part}.done: {file}\n\t@mkdir -p $(PARTS)\n\
                 \t$(PLANSMITH) build {build} --only '{stage}' --set output=\"$(abspath $(PARTS))/{part}\"\n\t@touch $@\n"
            );
        }
        text
    }
}

/// Lower-case letters, digits and dashes: what Kubernetes takes.
fn dns_label(name: &str) -> String {
    name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
