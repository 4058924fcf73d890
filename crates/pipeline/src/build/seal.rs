//! The last stage: what goes beside the artifacts, the manifest, and the folder under its name.

use std::path::Path;

use plansmith_files::{Digest, create_dir_all, exchange_folder, write_atomic};
use plansmith_lowering::Dialect;
use plansmith_verify::{Outcome, Verdict};

use super::run::Run;
use super::{Built, Finished};
use crate::assess::unchanged;
use crate::clients::{Variant, check_clients, sidecars};
use crate::file::Layout;
use crate::manifest::{GraphRecord, MANIFEST_NAME, Manifest, PlanRecord, SourceRecord, VerdictRecord};
use crate::output::MARKS;
use crate::stages::{ExportStage, PlanStage, source_digests};
use crate::{Error, provenance, repository};

impl Run<'_> {
    pub(super) fn bundle(&mut self, verdict: Verdict) -> Result<Built, Error> {
        let variants = variants(&self.prepared.stages.exports);
        for (name, bytes) in sidecars(&self.prepared.source, &self.prepared.companions, &variants)?.files {
            write_atomic(&self.folder.join(&name), &bytes)?;
            self.record(&name)?;
        }
        if self.prepared.pipeline.layouts.contains(&Layout::Triton) {
            let name = &self.prepared.pipeline.name.0;
            let written = repository::write(self.folder, name, &self.prepared.stages.exports, &self.files)?;
            self.files.extend(written);
            let written = repository::write_plans(self.folder, name, &self.prepared.stages, &self.files)?;
            self.files.extend(written);
        }
        self.store.clear(&self.files)?;
        let mut manifest = self.manifest(&verdict);
        check_clients(self.folder, &manifest.graphs.iter().map(|graph| graph.path.clone()).collect::<Vec<_>>())?;
        // The manifest says of which bytes the bundle was made: they have to be the ones that were read.
        unchanged(&self.prepared.source, &self.prepared.audit)?;
        let bytes = manifest.seal()?;
        write_atomic(&self.folder.join(MANIFEST_NAME), &bytes)?;
        provenance::write(self.folder, &manifest, Digest::of(&bytes), self.started)?;
        self.store.close()?;
        let agreed = verdict.exit_code(self.options.require_executed) == 0;
        let target = if agreed { &self.prepared.output.bundle } else { &self.prepared.output.failed }.clone();
        create_dir_all(target.parent().unwrap_or(Path::new(".")))?;
        exchange_folder(self.folder, &target, &MARKS)?;
        let finished = Finished { folder: target, manifest_sha256: Digest::of(&bytes), manifest, verdict: Some(verdict) };
        Ok(if agreed { Built::Done(finished) } else { Built::Failed(finished) })
    }

    fn manifest(&self, verdict: &Verdict) -> Manifest {
        let prepared = self.prepared;
        let pipeline = &prepared.pipeline;
        let source = SourceRecord {
            checkpoint: pipeline.source.checkpoint.0.clone(),
            revision: prepared.revision(),
            model_type: prepared.source.loaded.model_type.to_owned(),
            sha256: source_digests(&prepared.source, &prepared.audit),
            allow_unknown_config: pipeline.source.allow_unknown_config.clone(),
            max_length: pipeline.source.max_length,
            switch_length: prepared.source.loaded.spec.switch_length(),
        };
        let not_executed = verdict.candidates.iter().filter(|candidate| candidate.verdict == Outcome::NotExecuted);
        let short = VerdictRecord {
            verdict: verdict.verdict.name().to_owned(),
            oracle: verdict.oracle,
            executed: verdict.executed,
            not_executed: not_executed.map(|candidate| candidate.facts.path.clone()).collect(),
        };
        let (name, version, recipe) = (pipeline.name.0.clone(), self.options.version.to_owned(), prepared.stages.recipe);
        let mut manifest = Manifest::new(name, version, recipe, source, short);
        let exports = &prepared.stages.exports;
        manifest.graphs = exports.iter().map(graph_record).collect();
        let plan = |stage: &PlanStage| PlanRecord {
            path: stage.path.clone(),
            from: format!("onnx/{}", exports[stage.from].file),
            architecture: stage.target(),
            profile: stage.parts.name(),
            recipe: stage.key,
        };
        manifest.plans = prepared.stages.plans.iter().map(plan).collect();
        manifest.files = self.files.clone();
        manifest
    }
}

/// What clients are told of: every graph whose cache grows, those that are there for TensorRT last.
fn variants(exports: &[ExportStage]) -> Vec<Variant> {
    let (for_tensorrt, for_all): (Vec<&ExportStage>, _) =
        exports.iter().filter(|stage| stage.lowered.slots.is_none()).partition(|stage| stage.target.dialect == Dialect::Tensorrt);
    for_all
        .into_iter()
        .chain(for_tensorrt)
        .map(|stage| Variant {
            file: format!("onnx/{}", stage.file),
            cache: stage.lowered.compute,
            shares_buffer: stage.lowered.shares_buffer,
            data: stage.weights.clone(),
        })
        .collect()
}

fn graph_record(stage: &ExportStage) -> GraphRecord {
    GraphRecord {
        id: stage.id.clone(),
        path: format!("onnx/{}", stage.file),
        weights: stage.weights.iter().map(|name| format!("onnx/{name}")).collect(),
        target: stage.target.clone(),
        storage: stage.lowered.table.storage,
        compute: stage.lowered.compute,
        opset: stage.lowered.opset,
        recipe: stage.key,
    }
}
