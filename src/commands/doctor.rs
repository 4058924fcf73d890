//! `plansmith doctor`.

use plansmith_engine::{Flavor, Worker, WorkerPaths};
use plansmith_runtime::{RTEN_VERSION, find_ort};
use serde::Serialize;

use super::engine::lookup;
use crate::args::Doctor;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::stamp;

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
    match WorkerPaths::find(Flavor::Rtx, &lookup(&args.tools)).and_then(|paths| Worker::spawn(&paths).map(|worker| (paths, worker))) {
        Ok((paths, worker)) => {
            let greeting = worker.greeting();
            let detail = format!("{} at {}, worker {}", greeting.library.version, paths.libraries.display(), paths.worker.display());
            findings.push(Finding { what: "tensorrt-rtx", usable: true, detail });
            findings.push(match &greeting.gpu {
                Some(gpu) => Finding { what: "gpu", usable: true, detail: format!("{} (compute {})", gpu.name, gpu.compute) },
                None => {
                    let detail = "no CUDA device: plans build here but are not executed".to_owned();
                    Finding { what: "gpu", usable: false, detail }
                }
            });
        }
        Err(error) => findings.push(missing("tensorrt-rtx", &error.into())),
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
