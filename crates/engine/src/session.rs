//! Plans of one model being executed in a worker, with the cache staying there.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use plansmith_tensor::{DType, Signature};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::protocol::{LoadTimes, OpenOrder, PlanOrder, Ready, Reply, Request, SharedTensor, StepOrder};
use crate::{Error, Gpu, PlanCheck, PlanManifest, Profile, Worker, WorkerPaths, check_plans, static_slots};

/// Why plans were not executed, and what could be checked nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotExecuted {
    /// What was checked and found right, one line each.
    pub checked: Vec<String>,
    /// Why the plans cannot be executed here.
    pub why: String,
}

/// What [`PlanSession::open`] gives.
#[derive(Debug)]
pub enum Opened {
    /// The plans can be executed.
    Session(Box<PlanSession>),
    /// They cannot; they were checked as far as that goes.
    NotExecuted(NotExecuted),
}

/// A tensor's bytes, little-endian, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorBytes {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// `dtype.tensor_bytes(shape)` bytes.
    pub bytes: Vec<u8>,
}

/// The input of one step; all arrays are row-major int64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTokens<'a> {
    /// Rows.
    pub batch: u64,
    /// New tokens a row.
    pub sequence: u64,
    /// `[batch, sequence]`.
    pub input_ids: &'a [i64],
    /// `[batch, past + sequence]`; what a static cache has beyond is added here.
    pub attention_mask: &'a [i64],
    /// `[batch, sequence]`.
    pub position_ids: &'a [i64],
}

impl StepTokens<'_> {
    /// The bytes of the token inputs, one after the other, for a cache of `past` tokens a row; of a static one with `slots` slots, the mask
    /// covers them all and `cache_position` follows.
    fn staged(&self, past: u64, slots: Option<u64>) -> Result<Vec<u8>, Error> {
        let (batch, sequence, total) = (self.batch, self.sequence, past + self.sequence);
        if let Some(max_length) = slots.filter(|&slots| slots < total) {
            return Err(Error::Protocol(format!("{total} tokens a row do not fit the plan's static cache: max_length is {max_length}")));
        }
        let mut bytes = Vec::new();
        for (name, array, columns) in [
            ("input_ids", self.input_ids, sequence),
            ("attention_mask", self.attention_mask, total),
            ("position_ids", self.position_ids, sequence),
        ] {
            let (found, expected) = (array.len(), batch * columns);
            if found as u64 != expected || expected == 0 {
                return Err(Error::Protocol(format!(
                    "{name} has {found} elements; batch {batch}, sequence {sequence} and past {past} imply {expected}"
                )));
            }
            // Slots that hold no token are not to be seen.
            let pads = slots.filter(|_| name == "attention_mask").map_or(0, |slots| slots - total);
            for row in array.chunks_exact(columns as usize) {
                bytes.extend(row.iter().copied().chain((0..pads).map(|_| 0)).flat_map(i64::to_le_bytes));
            }
        }
        if slots.is_some() {
            bytes.extend((0..batch).flat_map(|_| past.to_le_bytes()));
        }
        Ok(bytes)
    }
}

/// `logits`: `[batch, sequence, vocab]`, or `[batch, 1, vocab]` where the graph gives only the last attended position.
pub type StepLogits = TensorBytes;

/// One tensor of the cache: name of the input that it will be, `[batch, kv_heads, past, head_dim]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// `past_key_values.0.key`, for example.
    pub name: String,
    /// Its contents.
    pub tensor: TensorBytes,
}

/// Where plans are to be executed, and what is kept of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Which GPU, counted from 0.
    pub gpu: u32,
    /// Folder for the kernels that TensorRT-RTX compiles for it; `None`: they are compiled anew each time.
    pub kernels: Option<PathBuf>,
}

/// Plans of one model (one profile each) that share one cache.
#[derive(Debug)]
pub struct PlanSession {
    worker: Worker,
    memory: File,
    ready: Ready,
    /// Slots a row of a static cache.
    slots: Option<u64>,
    signature: Signature,
    profiles: Vec<Profile>,
    batch: u64,
    past: u64,
}

impl PlanSession {
    /// Checks plans against the manifests beside them and opens them on the first GPU.
    ///
    /// # Errors
    /// Those of [`check_plans`] and of [`PlanSession::open_on`].
    pub fn open(paths: &WorkerPaths, plans: &[PathBuf]) -> Result<Opened, Error> {
        Self::open_on(paths, check_plans(plans)?, &DeviceOptions::default())
    }

    /// Checks plans, which agree with their manifests, against this host, and opens them on a GPU.
    ///
    /// Where several fit a step, the first does it; so prefill and decode can have a plan each.
    ///
    /// # Errors
    /// The plans are not of one model; [`Error::Unfit`]: a plan was built for another library, GPU or driver; the worker
    /// fails; TensorRT refuses the plan for a reason other than that there is no GPU.
    pub fn open_on(paths: &WorkerPaths, plans: Vec<PlanCheck>, device: &DeviceOptions) -> Result<Opened, Error> {
        let mut orders: Vec<PlanOrder> = Vec::new();
        let mut checked = Vec::new();
        for PlanCheck { plan, manifest, checked: lines, .. } in plans {
            let prefix = plan.file_name().unwrap_or_default().to_string_lossy().into_owned();
            checked.extend(lines.into_iter().map(|line| format!("{prefix}: {line}")));
            if let Some(first) = orders.first() {
                same_model(&first.manifest, &plan, &manifest)?;
            }
            let data = manifest.data_files(&plan)?.into_iter().map(|(path, _)| plansmith_files::canonicalize(&path));
            let data = data.collect::<Result<_, _>>()?;
            orders.push(PlanOrder { path: plansmith_files::canonicalize(&plan)?, manifest, data });
        }
        let Some(first) = orders.first() else {
            return Err(Error::Protocol("no plan was given to open".to_owned()));
        };
        let records = |tensors: &[crate::TensorRecord]| tensors.iter().map(crate::TensorRecord::signature).collect();
        let signature = Signature { inputs: records(&first.manifest.inputs), outputs: records(&first.manifest.outputs) };
        let profiles = orders.iter().flat_map(|order| &order.manifest.profiles).map(|record| record.profile.clone()).collect();
        let mut worker = Worker::spawn_to_execute(paths)?;
        let memory = rustix::fs::memfd_create("plansmith-tensors", MemfdFlags::CLOEXEC)
            .map_err(|error| Error::Protocol(format!("no memory file: {error}")))?;
        let slots = static_slots(&signature.inputs);
        let (gpu, kernels) = (device.gpu, device.kernels.clone());
        worker.send("opening a plan", &Request::Open(OpenOrder { plans: orders, checked, gpu, kernels }))?;
        let memory = File::from(memory);
        worker.send_descriptor("opening a plan", &memory)?;
        match worker.wait("opening a plan", &mut |_| {})? {
            Reply::Opened(ready) => {
                let (batch, past) = (0, 0);
                Ok(Opened::Session(Box::new(Self { worker, memory, ready, slots, signature, profiles, batch, past })))
            }
            Reply::NotExecuted(reason) => Ok(Opened::NotExecuted(reason)),
            other => Err(unexpected(&other)),
        }
    }

    /// The GPU it runs on.
    pub fn gpu(&self) -> &Gpu {
        &self.ready.gpu
    }

    /// Where the time of opening went in the worker.
    pub fn times(&self) -> LoadTimes {
        self.ready.times
    }

    /// Bytes on the device for tokens, cache and logits.
    pub fn device_bytes(&self) -> u64 {
        self.ready.device_bytes
    }

    /// Inputs and outputs, open axes named `?`.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The profiles of its plans, in order of preference.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// Tokens a row in the cache.
    pub fn past(&self) -> u64 {
        self.past
    }

    /// Empties the cache and sets the number of rows.
    ///
    /// # Errors
    /// The worker fails.
    pub fn reset(&mut self, batch: u64) -> Result<(), Error> {
        self.worker.send("resetting", &Request::Reset { batch })?;
        match self.worker.wait("resetting", &mut |_| {})? {
            Reply::Done => {
                (self.batch, self.past) = (batch, 0);
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Appends tokens after what each row already holds; gives `logits`.
    ///
    /// # Errors
    /// The arrays do not fit each other, the cache or any profile; the worker fails.
    pub fn step(&mut self, tokens: &StepTokens<'_>) -> Result<StepLogits, Error> {
        let StepTokens { batch, sequence, .. } = *tokens;
        let past = self.past;
        if batch != self.batch {
            return Err(Error::Protocol(format!("a step of {batch} rows; the cache has {}: reset it first", self.batch)));
        }
        if !self.profiles.iter().any(|profile| profile.fits(batch, sequence, past)) {
            let profiles: Vec<_> = self.profiles.iter().map(ToString::to_string).collect();
            let profiles = profiles.join("; ");
            return Err(Error::Protocol(format!(
                "no profile fits batch={batch} sequence={sequence} past={past}; the plans have {profiles}"
            )));
        }
        let bytes = tokens.staged(past, self.slots)?;
        let io = |error| Error::Protocol(format!("memory file: {error}"));
        if self.memory.metadata().map_err(io)?.len() < bytes.len() as u64 {
            self.memory.set_len(bytes.len() as u64).map_err(io)?;
        }
        self.memory.write_all_at(&bytes, 0).map_err(io)?;
        let tensors = self.tensors("running a step", &Request::Step(StepOrder { batch, sequence, past }))?;
        self.past += sequence;
        match <[CacheEntry; 1]>::try_from(tensors) {
            Ok([logits]) => Ok(logits.tensor),
            Err(tensors) => Err(Error::Protocol(format!("a step gave {} tensors instead of logits", tensors.len()))),
        }
    }

    /// Copies the cache out, in the order of the graph's inputs, all slots of a static one; empty before the first step.
    ///
    /// # Errors
    /// The worker fails.
    pub fn cache(&mut self) -> Result<Vec<CacheEntry>, Error> {
        self.tensors("copying the cache", &Request::Cache)
    }

    fn tensors(&mut self, doing: &str, request: &Request) -> Result<Vec<CacheEntry>, Error> {
        self.worker.send(doing, request)?;
        let tensors = match self.worker.wait(doing, &mut |_| {})? {
            Reply::Tensors(tensors) => tensors,
            other => return Err(unexpected(&other)),
        };
        tensors.into_iter().map(|shared| self.copy(shared)).collect()
    }

    fn copy(&self, shared: SharedTensor) -> Result<CacheEntry, Error> {
        let SharedTensor { tensor, offset, bytes } = shared;
        let refuse = || Error::Protocol(format!("tensor `{}` of {:?} does not have {bytes} bytes", tensor.name, tensor.shape));
        let shape = tensor.shape.iter().map(|&axis| u64::try_from(axis)).collect::<Result<Vec<_>, _>>().map_err(|_| refuse())?;
        if tensor.dtype.tensor_bytes(&shape) != Some(bytes) {
            return Err(refuse());
        }
        let mut copy = vec![0; usize::try_from(bytes).map_err(|_| refuse())?];
        self.memory.read_exact_at(&mut copy, offset).map_err(|error| Error::Protocol(format!("memory file: {error}")))?;
        Ok(CacheEntry { name: tensor.name, tensor: TensorBytes { dtype: tensor.dtype, shape, bytes: copy } })
    }
}

fn same_model(first: &PlanManifest, plan: &Path, other: &PlanManifest) -> Result<(), Error> {
    if first.onnx == other.onnx && first.inputs == other.inputs && first.outputs == other.outputs {
        return Ok(());
    }
    Err(Error::PlanMismatch {
        path: plan.to_owned(),
        what: "SHA-256 of the graph",
        found: other.onnx.graph.sha256.to_string(),
        expected: format!("{} (the first plan's)", first.onnx.graph.sha256),
    })
}

pub(crate) fn unexpected(reply: &Reply) -> Error {
    let text = format!("{reply:?}");
    Error::Protocol(format!("an unexpected answer: {}", text.chars().take(200).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Vec<i64> {
        bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn a_static_cache_is_given_a_mask_of_all_slots_and_where_to_write() {
        let tokens = StepTokens { batch: 2, sequence: 1, input_ids: &[5, 6], attention_mask: &[1, 1, 1, 0, 1, 1], position_ids: &[2, 1] };
        assert_eq!(numbers(&tokens.staged(2, None).unwrap()), [5, 6, 1, 1, 1, 0, 1, 1, 2, 1]);
        assert_eq!(numbers(&tokens.staged(2, Some(3)).unwrap()), [5, 6, 1, 1, 1, 0, 1, 1, 2, 1, 2, 2], "the last slot");
        assert_eq!(numbers(&tokens.staged(2, Some(4)).unwrap()), [5, 6, 1, 1, 1, 0, 0, 1, 1, 0, 2, 1, 2, 2]);
        let refused = |past, slots| tokens.staged(past, slots).unwrap_err().to_string();
        assert!(refused(2, Some(2)).ends_with("3 tokens a row do not fit the plan's static cache: max_length is 2"));
        assert!(refused(1, None).ends_with("attention_mask has 6 elements; batch 2, sequence 1 and past 1 imply 4"));
    }
}
