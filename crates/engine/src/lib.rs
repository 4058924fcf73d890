//! TensorRT plans from the outside: profiles, architectures, plan headers and manifests, and the client of the worker process.
//!
//! Nothing here links C++ or CUDA. [`Worker`] starts the worker executable, which does, and speaks [`protocol`] with it:
//!
//! ```no_run
//! use plansmith_engine::{BuildRequest, Flavor, Lookup, Worker, WorkerPaths};
//!
//! # fn main() -> Result<(), plansmith_engine::Error> {
//! let paths = WorkerPaths::find(Flavor::Rtx, &Lookup::default())?;
//! let request = BuildRequest::new(
//!     "onnx/model_fp16.onnx",
//!     "engines/decode.plan",
//!     "decode:batch=1,sequence=1,past=0..512..2048".parse()?,
//!     vec!["sm86".parse()?, "sm89".parse()?],
//! );
//! let report = Worker::spawn(&paths)?.build(&request, &mut |event| eprintln!("{event:?}"))?;
//! println!("{} bytes, {}", report.manifest.plan.bytes, report.manifest.plan.sha256);
//! # Ok(())
//! # }
//! ```

mod architecture;
mod buffers;
mod build;
mod cache;
mod check;
mod compatible;
mod error;
mod estimate;
mod farm;
mod flavor;
mod header;
mod host;
mod layers;
mod layout;
mod lengths;
mod limits;
mod manifest;
mod masks;
mod memory;
mod model;
mod pair;
mod paths;
mod prepared;
mod preset;
mod profile;
pub mod protocol;
mod refusal;
mod session;
mod shapes;
mod span;
mod support;
mod timing;
mod types;
mod weights;
mod worker;

pub use architecture::{Architecture, architecture_bits, architectures_of_bits};
pub use buffers::{DeviceBuffer, device_buffers};
pub use build::{BuildReport, BuildRequest};
pub use cache::PlanCache;
pub use check::{PlanCheck, check_plan, check_plans, manifest_path, partial_name};
pub use compatible::Compatible;
pub use error::{Error, NodeError};
pub use estimate::{Forecast, ProfileForecast, Support};
pub use farm::{Farm, FarmEvent, Job, half_of_memory};
pub use flavor::Flavor;
pub use header::{PlanHeader, PlanVersion};
pub use host::{fits_host, refusal};
pub use layers::{LayerRecord, LayerSummary};
pub use layout::{ArchitecturesAs, NATIVE, PlanParts, ProfilesAs, spread};
pub use lengths::ModelLengths;
pub use limits::{Cancel, Limits};
pub use manifest::{
    Agreement, BuildHost, BuilderSettings, CachePair, CostRecord, FileRecord, Gpu, LibraryRecord, OnnxRecord, PlanManifest, PlanRecord,
    ProfileRecord, RandomisedAddresses, Reproducibility, SourceRecord, TensorRecord,
};
pub use memory::DeviceMemory;
pub use model::{ModelFacts, inspect_model};
pub use paths::{Lookup, WorkerPaths};
pub use prepared::{Models, Prepared};
pub use preset::Preset;
pub use profile::{Profile, check_profile_names};
pub use protocol::{Event, Severity};
pub use refusal::{Refusal, Remedy, refusals};
pub use session::{CacheEntry, DeviceOptions, NotExecuted, Opened, PlanSession, StepLogits, StepTokens, TensorBytes};
pub use shapes::{TensorShapes, input_shapes, static_slots};
pub use span::Span;
pub use support::{Unsupported, unsupported};
pub use timing::{TimingCache, TimingRecord};
pub use types::GraphTypes;
pub use weights::{Conversion, Place, RefitRecord, RefitWeight, Weights};
pub use worker::Worker;
