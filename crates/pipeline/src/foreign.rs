//! Graphs that others made: which runtime, and what their form cannot express.

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::NodeProto;
use plansmith_runtime::RuntimeKind;
use plansmith_verify::{CandidateVerdict, Outcome};

use crate::Error;

/// The runtimes to try where none was named: the embedded one first, but a graph of ONNX Runtime's own operators is for ONNX Runtime.
pub(crate) fn preferred(model: &ModelProto) -> Vec<RuntimeKind> {
    let own = nodes(model).any(|node| node.domain() == "com.microsoft");
    if own { vec![RuntimeKind::Ort, RuntimeKind::Rten] } else { vec![RuntimeKind::Rten, RuntimeKind::Ort] }
}

/// Why a runtime cannot run a graph that another may run.
///
/// # Errors
/// `error` itself, where it is the graph's fault; or a missing runtime that was asked for.
pub(crate) fn cannot(error: plansmith_runtime::Error, any: bool) -> Result<String, Error> {
    match error {
        plansmith_runtime::Error::Unsupported { .. } => Ok(error.to_string()),
        plansmith_runtime::Error::LibraryMissing { .. } if any => {
            Ok("no ONNX Runtime library was found (`plansmith doctor` says where)".to_owned())
        }
        other => Err(other.into()),
    }
}

/// Adds to the verdict on a graph whose attention counts positions by itself what that means.
pub(crate) fn explain_padding(model: &ModelProto, verdict: CandidateVerdict) -> CandidateVerdict {
    match nodes(model).find(|node| rotates_by_own_count(node)) {
        Some(node) if verdict.verdict == Outcome::Disagree => {
            let reason = verdict.reason.unwrap_or_default();
            let operator = node.op_type();
            let reason = format!(
                "{reason}; {operator} rotates by its own count of tokens here (do_rotary, no position_ids), so rows with padding on the left \
                 or inside come out wrong whatever is fed (--unpadded checks the others alone)"
            );
            CandidateVerdict { reason: Some(reason), ..verdict }
        }
        _ => verdict,
    }
}

/// GroupQueryAttention with its rotation inside; newer ones may be given position_ids, as their tenth input.
fn rotates_by_own_count(node: &NodeProto) -> bool {
    let rotary = node.attribute.iter().any(|attribute| attribute.name() == "do_rotary" && attribute.i() == 1);
    node.op_type() == "GroupQueryAttention" && rotary && node.input.get(9).is_none_or(String::is_empty)
}

fn nodes(model: &ModelProto) -> impl Iterator<Item = &NodeProto> {
    model.graph.iter().flat_map(|graph| &graph.node)
}
