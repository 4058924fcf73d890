//! ONNX Runtime, loaded from a library at run time.

mod environment;
mod library;
mod memory;
mod session;
mod version;

pub use library::{OrtLibrary, find_ort};

use std::time::Instant;

use ort::ErrorCode;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

use crate::error::Refusal;
use crate::graph::Graph;
use crate::open::{LoadBreakdown, Loaded, OpenOptions, Optimization, RuntimeFacts};
use crate::{Error, RuntimeKind};
use environment::Environment;
use memory::InMemory;
use session::OrtSession;

/// Session option: where the external data of a graph in memory lies.
const DATA_FOLDER: &str = "session.model_external_initializers_file_folder_path";

/// Opens `graph`: a file as it is; a graph in memory with its weights in their folder.
pub(crate) fn load(graph: Graph<'_>, options: &OpenOptions) -> Result<Loaded, Error> {
    let start = Instant::now();
    let environment = Environment::get(options.ort_library.as_deref())?;
    let refused = |refusal: Refusal| refusal.into_error(RuntimeKind::Ort, &graph.name);
    let builder = builder(&environment, options).map_err(|message| refused(message.into()))?;
    let session = commit(builder, &graph).map_err(refused)?;
    let compute = graph.interface.cache_dtype;
    let session = OrtSession::new(session, graph.interface.clone(), &options.taps).map_err(|message| refused(message.into()))?;
    let OrtLibrary { path, version } = environment.library;
    Ok(Loaded {
        session: Box::new(session),
        facts: RuntimeFacts { kind: RuntimeKind::Ort, version, library: Some(path), compute },
        breakdown: LoadBreakdown { session: start.elapsed(), ..LoadBreakdown::default() },
    })
}

fn builder(environment: &Environment, options: &OpenOptions) -> Result<SessionBuilder, String> {
    let level = match options.optimization {
        Optimization::Full => GraphOptimizationLevel::All,
        Optimization::Off => GraphOptimizationLevel::Disable,
    };
    let builder = Session::builder(&environment.handle).map_err(|error| error.to_string())?;
    let builder = builder.with_optimization_level(level).map_err(|error| error.to_string())?;
    match options.threads {
        Some(threads) => builder.with_intra_threads(threads).map_err(|error| error.to_string()),
        None => Ok(builder),
    }
}

fn commit(mut builder: SessionBuilder, graph: &Graph<'_>) -> Result<Session, Refusal> {
    if let Some(path) = graph.path {
        return builder.commit_from_file(path).map_err(|error| refusal(&error));
    }
    let InMemory { bytes, folder } = memory::encode(graph)?;
    if let Some(folder) = folder {
        let folder = folder.to_str().ok_or_else(|| format!("the folder {} is not UTF-8", folder.display()))?;
        builder = builder.with_config_entry(DATA_FOLDER, folder).map_err(|error| error.to_string())?;
    }
    builder.commit_from_memory(&bytes).map_err(|error| refusal(&error))
}

/// An operator that this build does not have, or not for a dtype, is its own limit; anything else may be the graph's fault.
fn refusal(error: &ort::Error) -> Refusal {
    let message = error.to_string();
    let unsupported = error.code() == ErrorCode::NotImplemented || message.contains("is not a registered function/op");
    Refusal { message, unsupported }
}
