//! Pipeline files, stages, cache, manifest and bundle; and the assessment that `verify` and `build` share.

mod assess;
mod bisect;
mod build;
mod candidates;
mod check;
mod clients;
mod emit;
mod error;
mod fanout;
mod file;
mod foreign;
mod judge;
mod made;
mod manifest;
mod noise;
mod output;
mod parse;
mod places;
mod provenance;
mod repository;
mod space;
mod stages;
mod store;
mod text;
mod watch;

pub use assess::{Assessment, Progress, assess, assess_bundle, audit_source, builtin, builtin_within};
pub use build::{BuildOptions, Built, Event, Finished, PARTS, SOURCE, StagePlan, build, cells, plan};
pub use candidates::{GraphCandidate, PlanCandidate};
pub use check::{Against, Checked, check_bundle};
pub use clients::{PlanModel, Sidecars, Variant, served_name, sidecars, triton_config, triton_plans};
pub use emit::{Asked, Fanout, System};
pub use error::Error;
pub use file::{
    Axis, EngineSpec, ExportSpec, Hex, Id, Layout, PipelineFile, ProfileSpec, Prompts, Revision, SourceSpec, Storage, VerifySpec,
};
pub use made::folder_of_build;
pub use manifest::{FileRecord, GraphRecord, MANIFEST_NAME, Manifest, PlanRecord, SourceRecord, VerdictRecord};
pub use parse::read_pipeline;
pub use provenance::{PROVENANCE_NAME, SIGNATURE_NAME, Signed, sign_bundle};
pub use stages::{VERIFY, companions};
pub use text::Text;
