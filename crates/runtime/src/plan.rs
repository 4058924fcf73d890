//! TensorRT plans, executed by the worker.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use plansmith_engine::{DeviceOptions, NotExecuted, Opened, PlanCheck, PlanSession, StepTokens, TensorBytes, WorkerPaths};
use plansmith_tensor::{Batch, Cache, DType, HostTensor, Logits, Session, SessionError, Signature};

use crate::interface::{CachePort, Interface, Reading};
use crate::open::{LoadBreakdown, Loaded, RuntimeFacts};
use crate::{Error, RuntimeKind};

/// What [`open_plans`] gives.
pub enum OpenedPlans {
    /// A session; its cache is empty, for one row.
    Session(Loaded),
    /// This host cannot execute plans: what was checked without, and why.
    NotExecuted(NotExecuted),
}

/// Opens plans of one model, which agree with their manifests, on a GPU: a step is done by the first plan that has a profile for it.
///
/// # Errors
/// The plans are not of one model or not of a decoder; the worker is missing or fails.
pub fn open_plans(paths: &WorkerPaths, plans: Vec<PlanCheck>, device: &DeviceOptions) -> Result<OpenedPlans, Error> {
    let start = Instant::now();
    let header = plans.iter().map(|check| check.time).sum();
    // Opening fails without plans.
    let first = plans.first().map(|check| (check.plan.display().to_string(), check.manifest.library.version.to_string()));
    let (name, version) = first.unwrap_or_default();
    let session = match PlanSession::open_on(paths, plans, device)? {
        Opened::Session(session) => *session,
        Opened::NotExecuted(reason) => return Ok(OpenedPlans::NotExecuted(reason)),
    };
    let interface = Interface::read(session.signature().clone(), &Reading::default()).map_err(|reason| Error::Interface {
        graph: name,
        reason,
        listing: String::new(),
    })?;
    let facts =
        RuntimeFacts { kind: RuntimeKind::TensorRt, version, library: Some(paths.libraries.clone()), compute: interface.cache_dtype };
    let mut session = TensorRtSession { session: RefCell::new(session), interface, past: 0, rows: 1 };
    session.reset(1).map_err(|error| Error::Start { runtime: RuntimeKind::TensorRt, message: error.to_string() })?;
    let times = session.session.get_mut().times();
    let [map, deserialise, context] = [times.read_us, times.deserialise_us, times.context_us].map(Duration::from_micros);
    let mut breakdown = LoadBreakdown { map, deserialise, context, ..LoadBreakdown::default() };
    breakdown.session = start.elapsed().saturating_sub(breakdown.total());
    breakdown.header = header;
    Ok(OpenedPlans::Session(Loaded { session: Box::new(session), facts, breakdown }))
}

/// A decoder in the worker; its cache stays there.
struct TensorRtSession {
    /// Copying the cache out is a conversation, so it needs the session mutably.
    session: RefCell<PlanSession>,
    interface: Interface,
    past: usize,
    rows: usize,
}

impl TensorRtSession {
    fn error(message: impl ToString) -> SessionError {
        SessionError::Runtime { runtime: "tensorrt", message: message.to_string() }
    }
}

impl Session for TensorRtSession {
    fn runtime(&self) -> &'static str {
        "tensorrt"
    }

    fn signature(&self) -> &Signature {
        &self.interface.signature
    }

    fn past(&self) -> usize {
        self.past
    }

    fn reset(&mut self, batch: usize) -> Result<(), SessionError> {
        self.interface.check_rows(batch)?;
        self.session.get_mut().reset(self.interface.rows_held(batch) as u64).map_err(Self::error)?;
        (self.rows, self.past) = (batch, 0);
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Logits, SessionError> {
        let fitted = self.interface.fit(batch, self.rows, self.past)?;
        let batch = &fitted.batch;
        let [rows, sequence, past] = [batch.batch, batch.sequence, self.past].map(|size| size as u64);
        let profiles = self.session.get_mut().profiles();
        if !profiles.iter().any(|profile| profile.fits(rows, sequence, past)) {
            let profiles: Vec<String> = profiles.iter().map(ToString::to_string).collect();
            let step = format!("batch={rows} sequence={sequence} past={past}");
            return Err(SessionError::Unsupported(format!("no profile fits {step}; the plans have {}", profiles.join("; "))));
        }
        let tokens = StepTokens {
            batch: rows,
            sequence,
            input_ids: &batch.input_ids,
            attention_mask: &batch.attention_mask,
            position_ids: &batch.position_ids,
        };
        let logits = self.session.get_mut().step(&tokens).map_err(|error| error.to_string()).and_then(|tensor| {
            let HostTensor { shape, data } = widen(&tensor)?;
            fitted.logits(&self.interface.logits, &shape, data)
        });
        match logits {
            Ok(logits) => {
                self.past += batch.sequence;
                Ok(logits)
            }
            Err(message) => {
                self.reset(self.rows)?;
                Err(Self::error(message))
            }
        }
    }

    fn cache(&self) -> Result<Cache, SessionError> {
        if self.past == 0 {
            return self.interface.layers(self.interface.empty_cache(self.rows), self.rows, 0);
        }
        let mut entries = self.session.borrow_mut().cache().map_err(Self::error)?;
        let mut take = |port: &CachePort| {
            let found = entries.iter().position(|entry| Some(&entry.name) == port.past.as_ref());
            let index = found.ok_or_else(|| Self::error(format!("it returned no keys or values for `{}`", port.present)))?;
            widen(&entries.swap_remove(index).tensor).map_err(Self::error)
        };
        let tensors = self.interface.cache.iter().map(&mut take).collect::<Result<_, _>>()?;
        self.interface.layers(tensors, self.rows, self.past)
    }
}

/// A float tensor widened to fp32.
fn widen(tensor: &TensorBytes) -> Result<HostTensor, String> {
    let data = match tensor.dtype {
        DType::F32 => tensor.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        DType::F16 => tensor.bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect(),
        DType::BF16 => tensor.bytes.as_chunks().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
        other => return Err(format!("it returned {other}, which is no float that we widen")),
    };
    let shape = tensor.shape.iter().map(|&dim| dim as usize).collect();
    HostTensor::new(shape, data).ok_or_else(|| "a tensor's shape and size differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit patterns from IEEE 754 binary16 and from bfloat16's definition (the upper half of binary32).
    #[test]
    fn floats_are_widened_exactly() {
        let tensor = |dtype, bytes: &[u8]| TensorBytes { dtype, shape: vec![1, 2], bytes: bytes.to_vec() };
        let wide = |dtype, bytes: &[u8]| widen(&tensor(dtype, bytes)).unwrap().data;
        assert_eq!(wide(DType::F16, &[0x00, 0x3C, 0x01, 0x00]), [1.0, 2.0f32.powi(-24)]);
        assert_eq!(wide(DType::BF16, &[0x80, 0x3F, 0x20, 0xC1]), [1.0, -10.0]);
        assert_eq!(wide(DType::F32, &[0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]), [1.0, -2.0]);
        assert!(widen(&tensor(DType::I64, &[0; 16])).unwrap_err().contains("I64"));
        assert!(widen(&tensor(DType::F32, &[0; 4])).unwrap_err().contains("shape and size"));
    }
}
