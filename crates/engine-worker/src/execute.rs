//! Plans of one model, executed with a cache that stays on the GPU.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use cxx::UniquePtr;
use plansmith_engine::protocol::{Failure, OpenOrder, PlanOrder, SharedTensor, StepOrder};
use plansmith_engine::{CachePair, Gpu, NotExecuted, PlanManifest, Profile, Severity, TensorRecord};
use trtx_sys::nvinfer1::{ICudaEngine, IExecutionContext, IRuntime};
use trtx_sys::{Dims64, ExecutionContextAllocationStrategy};

use crate::cuda::{Buffer, Stream};
use crate::failure::{because, failed};
use crate::libraries::{Libraries, owned};
use crate::log::Logger;
use crate::network::dims;
use crate::parse::c_string;

/// Plans that are ready to run; the first that has a profile for a step runs it.
pub(crate) struct Executor<'a> {
    logger: &'a Logger,
    plans: Vec<Plan>,
    inputs: Vec<TensorRecord>,
    outputs: Vec<TensorRecord>,
    cache: Vec<CachePair>,
    /// By name: tokens, mask, positions, both halves of the cache, logits.
    buffers: BTreeMap<String, Buffer>,
    /// Rows and tokens a row in the cache.
    batch: u64,
    past: u64,
    memory: File,
    stream: Stream,
    /// After the engines that it made.
    _runtime: UniquePtr<IRuntime>,
}

/// Fields in the order in which they are to be dropped.
struct Plan {
    context: UniquePtr<IExecutionContext>,
    _engine: UniquePtr<ICudaEngine>,
    /// In the engine's order.
    profiles: Vec<Profile>,
    /// Index of the one that the context uses.
    chosen: usize,
}

/// What opening gives.
pub(crate) enum Opening<'a> {
    /// Ready, on this GPU.
    Ready(Box<Executor<'a>>, Gpu),
    /// There is no GPU; the plans were checked.
    NotExecuted(NotExecuted),
}

impl<'a> Executor<'a> {
    /// Deserialises the plans, and makes contexts where there is a GPU.
    pub(crate) fn open(
        libraries: &Libraries,
        logger: &'a Logger,
        gpu: &Result<Gpu, String>,
        order: OpenOrder,
        memory: File,
    ) -> Result<Opening<'a>, Failure> {
        let stream = match gpu {
            Ok(_) => Some(Stream::new()?),
            Err(_) => None,
        };
        let mut runtime = libraries.runtime(logger)?;
        let mut checked = order.checked;
        let mut plans = Vec::new();
        for plan in &order.plans {
            let engine = deserialise(&mut runtime, logger, plan, gpu)?;
            let name = plan.path.file_name().unwrap_or_default().to_string_lossy();
            checked.push(format!("{name}: TensorRT reads its magic, size and section table"));
            if let Some(engine) = engine {
                plans.push(Plan::new(engine, logger, &plan.manifest)?);
            }
        }
        let (gpu, stream) = match (gpu, stream) {
            (Ok(gpu), Some(stream)) => (gpu.clone(), stream),
            (Err(why), _) => return Ok(Opening::NotExecuted(NotExecuted { checked, why: why.clone() })),
            (Ok(_), None) => return Err(failed("there is a GPU but no stream on it", Vec::new())),
        };
        let Some(manifest) = order.plans.into_iter().next().map(|plan| plan.manifest) else {
            return Err(failed("no plan was named", Vec::new()));
        };
        check_cache(&manifest)?;
        let PlanManifest { inputs, outputs, cache, .. } = manifest;
        let buffers = inputs.iter().chain(&outputs).map(|tensor| (tensor.name.clone(), Buffer::default())).collect();
        let executor = Self { logger, plans, inputs, outputs, cache, buffers, batch: 0, past: 0, memory, stream, _runtime: runtime };
        Ok(Opening::Ready(Box::new(executor), gpu))
    }

    /// Empties the cache.
    pub(crate) fn reset(&mut self, batch: u64) -> Result<(), Failure> {
        (self.batch, self.past) = (batch, 0);
        Ok(())
    }

    /// Runs one step and leaves the logits in the memory file.
    pub(crate) fn step(&mut self, order: StepOrder) -> Result<SharedTensor, Failure> {
        let StepOrder { batch, sequence, past } = order;
        if (batch, past) != (self.batch, self.past) {
            let (rows, held) = (self.batch, self.past);
            return Err(failed(format!("a step of {batch} rows after {past} tokens; the cache has {rows} rows of {held}"), Vec::new()));
        }
        let fitting = self.plans.iter().enumerate().find_map(|(index, plan)| Some((index, plan.fitting(batch, sequence, past)?)));
        let Some((index, profile)) = fitting else {
            return Err(failed(format!("no profile fits batch={batch} sequence={sequence} past={past}"), Vec::new()));
        };
        self.plans[index].choose(profile, &self.stream, self.logger)?;
        let mut offset = 0;
        for (name, columns) in [("input_ids", sequence), ("attention_mask", past + sequence), ("position_ids", sequence)] {
            let length = batch * columns * 8;
            // A graph may do without positions; their bytes are there all the same.
            if self.inputs.iter().any(|input| input.name == name) {
                let bytes = self.read(offset, length)?;
                let buffer = self.buffers.get_mut(name).ok_or_else(|| lost(name))?;
                buffer.upload(&bytes, &self.stream)?;
                self.set_input(index, name, &[batch, columns])?;
            }
            offset += length;
        }
        for position in 0..self.cache.len() {
            let name = self.cache[position].past.clone();
            let shape = self.cache_shape(&name)?;
            self.set_input(index, &name, &shape)?;
        }
        for output in self.outputs.clone() {
            self.bind_output(index, &output)?;
        }
        let context = &mut self.plans[index].context;
        // SAFETY: every input and output has an address on the GPU with room for its shape; the stream is alive.
        let queued = unsafe { context.pin_mut().enqueueV3(self.stream.raw().cast()) };
        if !queued {
            return Err(failed("TensorRT does not run the step", self.logger.take(Severity::Warning)));
        }
        self.stream.wait()?;
        let logits = self.logits(index)?;
        self.past += sequence;
        for pair in &self.cache {
            // What was written is what the next step reads.
            let (past, present) = (self.buffers.remove(&pair.past), self.buffers.remove(&pair.present));
            self.buffers.insert(pair.past.clone(), present.ok_or_else(|| lost(&pair.present))?);
            self.buffers.insert(pair.present.clone(), past.ok_or_else(|| lost(&pair.past))?);
        }
        Ok(logits)
    }

    /// Copies the cache into the memory file, in the order of the inputs.
    pub(crate) fn cache(&mut self) -> Result<Vec<SharedTensor>, Failure> {
        let mut tensors = Vec::new();
        if self.past == 0 {
            return Ok(tensors);
        }
        let mut offset = 0;
        for pair in &self.cache {
            let shape = self.cache_shape(&pair.past)?;
            let tensor = self.export(&pair.past, &pair.past, &shape, offset)?;
            offset += tensor.bytes;
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    /// `[batch, kv_heads, past, head_dim]` of a cache input now.
    fn cache_shape(&self, name: &str) -> Result<Vec<u64>, Failure> {
        let record = self.input(name)?;
        match record.shape[..] {
            [_, heads, _, size] if heads > 0 && size > 0 => Ok(vec![self.batch, heads.unsigned_abs(), self.past, size.unsigned_abs()]),
            _ => Err(failed(format!("`{name}` of {:?} is no cache of [batch, kv_heads, past, head_dim]", record.shape), Vec::new())),
        }
    }

    fn input(&self, name: &str) -> Result<&TensorRecord, Failure> {
        self.inputs.iter().find(|input| input.name == name).ok_or_else(|| lost(name))
    }

    /// Tells the context an input's shape and address.
    fn set_input(&mut self, plan: usize, name: &str, shape: &[u64]) -> Result<(), Failure> {
        let bytes = byte_size(self.input(name)?, shape)?;
        let buffer = self.buffers.get_mut(name).ok_or_else(|| lost(name))?;
        // Only a cache without tokens is not there yet.
        buffer.reserve(bytes)?;
        let address = buffer.address();
        let c_name = c_string(name)?;
        let numbers: Vec<i64> = shape.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
        let context = &mut self.plans[plan].context;
        // SAFETY: name and dimensions live for the time of the calls; the address stays valid until the step is done.
        let set = unsafe {
            context.pin_mut().setInputShape(c_name.as_ptr(), &Dims64::from_slice(&numbers))
                && context.pin_mut().setTensorAddress(c_name.as_ptr(), address.cast())
        };
        if set {
            Ok(())
        } else {
            Err(failed(format!("TensorRT does not take {shape:?} for `{name}`"), self.logger.take(Severity::Warning)))
        }
    }

    /// Makes room for an output of the shape that follows from the inputs.
    fn bind_output(&mut self, plan: usize, output: &TensorRecord) -> Result<(), Failure> {
        let shape = self.output_shape(plan, &output.name)?;
        let bytes = byte_size(output, &shape)?;
        let buffer = self.buffers.get_mut(&output.name).ok_or_else(|| lost(&output.name))?;
        buffer.reserve(bytes)?;
        let address = buffer.address();
        let name = c_string(&output.name)?;
        // SAFETY: the name lives for the time of the call; the address stays valid until the step is done.
        let set = unsafe { self.plans[plan].context.pin_mut().setTensorAddress(name.as_ptr(), address.cast()) };
        if set {
            Ok(())
        } else {
            Err(failed(format!("TensorRT does not take an address for `{}`", output.name), self.logger.take(Severity::Warning)))
        }
    }

    fn output_shape(&self, plan: usize, name: &str) -> Result<Vec<u64>, Failure> {
        let c_name = c_string(name)?;
        // SAFETY: the name lives for the time of the call.
        let found = unsafe { self.plans[plan].context.getTensorShape(c_name.as_ptr()) };
        let shape = dims(&found).and_then(|shape| shape.into_iter().map(|axis| u64::try_from(axis).ok()).collect::<Option<Vec<_>>>());
        shape.ok_or_else(|| failed(format!("TensorRT does not know the shape of `{name}`"), self.logger.take(Severity::Warning)))
    }

    fn logits(&mut self, plan: usize) -> Result<SharedTensor, Failure> {
        let shape = self.output_shape(plan, "logits")?;
        self.export("logits", "logits", &shape, 0)
    }

    /// Copies a buffer into the memory file.
    fn export(&self, name: &str, buffer: &str, shape: &[u64], offset: u64) -> Result<SharedTensor, Failure> {
        let record = self.inputs.iter().chain(&self.outputs).find(|tensor| tensor.name == name).ok_or_else(|| lost(name))?;
        let bytes = self.buffers.get(buffer).ok_or_else(|| lost(buffer))?.download(byte_size(record, shape)?, &self.stream)?;
        self.memory.write_all_at(&bytes, offset).map_err(|error| because("the memory file", &error))?;
        let shape = shape.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
        Ok(SharedTensor {
            tensor: TensorRecord { name: record.name.clone(), dtype: record.dtype, shape },
            offset,
            bytes: bytes.len() as u64,
        })
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; usize::try_from(length).map_err(|error| because("a step's input", &error))?];
        self.memory.read_exact_at(&mut bytes, offset).map_err(|error| because("the memory file", &error))?;
        Ok(bytes)
    }
}

impl Plan {
    fn new(mut engine: UniquePtr<ICudaEngine>, logger: &Logger, manifest: &PlanManifest) -> Result<Self, Failure> {
        let profiles: Vec<_> = manifest.profiles.iter().map(|record| record.profile.clone()).collect();
        let found = engine.getNbOptimizationProfiles();
        if usize::try_from(found) != Ok(profiles.len()) {
            return Err(failed(format!("the plan has {found} profiles; its manifest has {}", profiles.len()), Vec::new()));
        }
        let made = engine.pin_mut().createExecutionContext(ExecutionContextAllocationStrategy::kSTATIC.into());
        let context = owned(made).ok_or_else(|| failed("TensorRT makes no execution context", logger.take(Severity::Warning)))?;
        Ok(Self { context, _engine: engine, profiles, chosen: 0 })
    }

    /// The first profile that a step of this size fits.
    fn fitting(&self, batch: u64, sequence: u64, past: u64) -> Option<usize> {
        self.profiles.iter().position(|profile| profile.fits(batch, sequence, past))
    }

    /// Switches to another profile; shapes and addresses have to be set after it.
    fn choose(&mut self, profile: usize, stream: &Stream, logger: &Logger) -> Result<(), Failure> {
        if self.chosen == profile {
            return Ok(());
        }
        let refuse = |log| failed(format!("TensorRT does not switch to profile `{}`", self.profiles[profile].name()), log);
        let index = i32::try_from(profile).map_err(|_| refuse(Vec::new()))?;
        // SAFETY: the stream is alive and outlives the context's use of it.
        let switched = unsafe { self.context.pin_mut().setOptimizationProfileAsync(index, stream.raw().cast()) };
        if !switched {
            return Err(refuse(logger.take(Severity::Warning)));
        }
        self.chosen = profile;
        Ok(())
    }
}

fn lost(name: &str) -> Failure {
    failed(format!("the plan has no `{name}`"), Vec::new())
}

fn byte_size(record: &TensorRecord, shape: &[u64]) -> Result<usize, Failure> {
    let bytes = record.dtype.tensor_bytes(shape).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| failed(format!("`{}` of {shape:?} has no size in bytes", record.name), Vec::new()))
}

/// Every cache input needs the output that follows it, at another address.
fn check_cache(manifest: &PlanManifest) -> Result<(), Failure> {
    for input in manifest.inputs.iter().filter(|input| input.name.starts_with("past_key_values.")) {
        match manifest.cache.iter().find(|pair| pair.past == input.name) {
            None => return Err(failed(format!("`{}` has no output that follows it", input.name), Vec::new())),
            Some(pair) if pair.aliased => {
                return Err(failed(format!("`{}` is updated in place, which this worker cannot run yet", pair.past), Vec::new()));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// `None` where the plan is whole but there is no GPU to put it on.
fn deserialise(
    runtime: &mut UniquePtr<IRuntime>,
    logger: &Logger,
    plan: &PlanOrder,
    gpu: &Result<Gpu, String>,
) -> Result<Option<UniquePtr<ICudaEngine>>, Failure> {
    let bytes = plansmith_files::read(&plan.path).map_err(|error| because("the plan", &error))?;
    logger.take(Severity::Verbose);
    // SAFETY: `bytes` lives for the time of the call, after which TensorRT needs it no more.
    let engine = unsafe { runtime.pin_mut().deserializeCudaEngine(bytes.as_ptr().cast(), bytes.len()) };
    let log = logger.take(Severity::Error);
    match (owned(engine), gpu) {
        (Some(engine), _) => Ok(Some(engine)),
        // What is wrong with a plan's structure is said in words; that there is no driver was filtered from the log.
        (None, Err(_)) if log.is_empty() => Ok(None),
        (None, gpu) => Err(failed(refused(plan, gpu.as_ref().ok(), &log), log)),
    }
}

/// TensorRT's words do not name versions or GPUs; the manifest does.
fn refused(plan: &PlanOrder, gpu: Option<&Gpu>, log: &[String]) -> String {
    let PlanOrder { path, manifest } = plan;
    let has = |text: &str| log.iter().any(|line| line.contains(text));
    let architectures = manifest.architectures.iter().map(|architecture| architecture.name()).collect::<Vec<_>>().join(", ");
    let reason = if has("Version tag does not match") {
        format!("it was built with TensorRT-RTX {}, which is not the version that was loaded", manifest.library.version)
    } else if has("expecting compute") {
        let here = gpu.map_or("another one".to_owned(), |gpu| format!("{} (compute {})", gpu.name, gpu.compute));
        format!("it was built for {architectures}; this GPU is {here}")
    } else {
        format!("it was built with TensorRT-RTX {} for {architectures}", manifest.library.version)
    };
    format!("TensorRT refuses the plan `{}`: {reason}", path.display())
}
