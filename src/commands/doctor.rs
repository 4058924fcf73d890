//! `plansmith doctor`.

use std::path::Path;

use plansmith_engine::{Flavor, Lookup, Worker, WorkerPaths};
use plansmith_runtime::{RTEN_VERSION, find_ort};
use serde::Serialize;

use super::engine::lookup;
use crate::args::Doctor;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::stamp;

/// What NVIDIA's driver makes.
const DEVICE: &str = "/dev/nvidiactl";

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    usable: bool,
    detail: String,
}

pub(crate) fn run(args: &Doctor, output: &Output) -> Result<Outcome, Failure> {
    let mut findings = vec![Finding { what: "rten", usable: true, detail: format!("{RTEN_VERSION}, embedded") }];
    findings.push(match find_ort(args.tools.ort_library.as_deref()) {
        Ok(library) => Finding { what: "onnxruntime", usable: true, detail: format!("{} at {}", library.version, library.path.display()) },
        Err(error) => missing("onnxruntime", &error.into()),
    });
    let mut gpu = None;
    for flavor in Flavor::ALL {
        // The flags name the flavour that most use; the other is found by its variables.
        let lookup = if flavor == Flavor::Rtx { lookup(&args.tools) } else { Lookup::default() };
        let what = what(flavor);
        match WorkerPaths::find(flavor, &lookup).and_then(|paths| Worker::spawn(&paths).map(|worker| (paths, worker))) {
            Ok((paths, worker)) => {
                let greeting = worker.greeting();
                let detail = format!("{} at {}, worker {}", greeting.library.version, paths.libraries.display(), paths.worker.display());
                findings.push(Finding { what, usable: true, detail });
                gpu = Some(greeting.gpu.clone());
            }
            Err(error) => {
                let mut finding = missing(what, &error.into());
                // What is missing may be the worker, the libraries or both.
                let libraries = match WorkerPaths::find_libraries(flavor, &lookup) {
                    Ok(folder) => format!("its libraries are at {}", folder.display()),
                    Err(error) => missing(what, &error.into()).detail,
                };
                if libraries != finding.detail {
                    finding.detail = format!("{}\n{libraries}", finding.detail);
                }
                findings.push(finding);
            }
        }
    }
    match gpu {
        Some(Some(gpu)) => {
            findings.push(Finding { what: "gpu", usable: true, detail: format!("{} (compute {})", gpu.name, gpu.compute) });
        }
        Some(None) => {
            let detail = "no CUDA device: plans of TensorRT-RTX build here, those of TensorRT do not, and none is executed".to_owned();
            findings.push(Finding { what: "gpu", usable: false, detail });
        }
        None => {
            let driver = if Path::new(DEVICE).exists() { "is there, so there is a driver" } else { "is not there, so there is no driver" };
            let detail = format!("only a worker can ask CUDA for one, and none is usable; {DEVICE} {driver}");
            findings.push(Finding { what: "gpu", usable: false, detail });
        }
    }
    if args.json {
        output.json(&findings)?;
        return Ok(Outcome::Done);
    }
    output.result(format!("plansmith {}", stamp::LONG))?;
    for finding in &findings {
        let mark = if finding.usable { "ok " } else { "no " };
        output.result(format!("{mark} {:<13} {}", finding.what, finding.detail.replace('\n', "\n                  ")))?;
    }
    Ok(Outcome::Done)
}

fn missing(what: &'static str, failure: &Failure) -> Finding {
    Finding { what, usable: false, detail: failure.render("").trim().to_owned() }
}

fn what(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Rtx => "tensorrt-rtx",
        Flavor::Enterprise => "tensorrt",
    }
}
