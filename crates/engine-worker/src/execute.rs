//! Plans of one model, executed with a cache that stays on the GPU.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Instant;

use cxx::UniquePtr;
use memmap2::Mmap;
use plansmith_engine::protocol::{Failure, LoadTimes, OpenOrder, PlanOrder, Ready, SharedTensor, StepOrder};
use plansmith_engine::{
    CachePair, Gpu, NotExecuted, PlanManifest, Profile, Severity, TensorRecord, Weights, device_buffers, fits_host, refusal, static_slots,
};
use trtx_sys::Dims64;
use trtx_sys::nvinfer1::{ICudaEngine, IExecutionContext, IRuntime};

use crate::cuda::{self, Stream};
use crate::device::{Device, Pinned};
use crate::failure::{because, failed};
use crate::kernels::{self, Kernels};
use crate::libraries::{Libraries, owned};
use crate::log::Logger;
use crate::network::dims;
use crate::parse::c_string;
use crate::refill;
use crate::serve::Client;

/// Inputs of a step that come from the host, int64, in the order in which they lie in the memory file.
const TOKENS: [&str; 4] = ["input_ids", "attention_mask", "position_ids", "cache_position"];

/// Plans that are ready to run; the first that has a profile for a step runs it.
pub(crate) struct Executor<'a> {
    logger: &'a Logger,
    plans: Vec<Plan>,
    inputs: Vec<TensorRecord>,
    outputs: Vec<TensorRecord>,
    cache: Vec<CachePair>,
    /// Slots a row of a static cache; `None` of one that grows.
    slots: Option<u64>,
    /// Tokens, mask, positions, cache and logits: of the largest size that any profile allows, so that no step allocates.
    device: Device,
    /// Where tokens leave the host, and logits reach it.
    staging: Pinned,
    /// Rows and tokens a row in the cache.
    batch: u64,
    past: u64,
    memory: File,
    client: Client,
    stream: Stream,
    /// After the engines that it made.
    _runtime: UniquePtr<IRuntime>,
}

/// Fields in the order in which they are to be dropped.
struct Plan {
    context: UniquePtr<IExecutionContext>,
    kernels: Kernels,
    _engine: UniquePtr<ICudaEngine>,
    /// In the engine's order.
    profiles: Vec<Profile>,
    /// Index of the one that the context uses.
    chosen: usize,
}

/// What opening gives.
pub(crate) enum Opening<'a> {
    /// Ready.
    Ready(Box<Executor<'a>>, Ready),
    /// There is no GPU; the plans were checked.
    NotExecuted(NotExecuted),
}

impl<'a> Executor<'a> {
    /// Compares the plans with this host, deserialises them, and makes contexts and buffers where there is a GPU.
    pub(crate) fn open(
        libraries: &Libraries,
        logger: &'a Logger,
        client: &Client,
        order: OpenOrder,
        memory: File,
    ) -> Result<Opening<'a>, Failure> {
        let gpu = cuda::gpu(order.gpu);
        let stream = gpu.is_ok().then(|| Stream::new(order.gpu)).transpose()?;
        let mut runtime = libraries.runtime(logger)?;
        let mut checked = order.checked;
        let mut plans = Vec::new();
        let mut times = LoadTimes::default();
        for plan in &order.plans {
            let name = plan.path.file_name().unwrap_or_default().to_string_lossy();
            let fits = fits_host(&plan.manifest, libraries.record.version, gpu.as_ref().ok());
            let unfit = |reason| Failure::Unfit { plan: plan.path.clone(), reason, log: Vec::new() };
            checked.extend(fits.map_err(unfit)?.into_iter().map(|line| format!("{name}: {line}")));
            let engine = deserialise(&mut runtime, logger, plan, &gpu, &mut times)?;
            checked.push(format!("{name}: TensorRT reads its magic, size and section table"));
            if let Some(line) = refill::check(plan)? {
                checked.push(format!("{name}: {line}"));
            }
            if let (Some(mut engine), Ok(gpu)) = (engine, &gpu) {
                match plan.manifest.weights {
                    Weights::Embedded => {}
                    Weights::Stripped => refill::refill(libraries, logger, &mut engine, plan)?,
                    Weights::Streaming => stream_weights(&mut engine, logger)?,
                }
                let file = order.kernels.as_deref().map(|folder| kernels::file(folder, &plan.manifest, gpu));
                let start = Instant::now();
                plans.push(Plan::new(engine, file, logger, &plan.manifest)?);
                times.context_us += microseconds(start);
            }
        }
        let (gpu, stream) = match (gpu, stream) {
            (Ok(gpu), Some(stream)) => (gpu, stream),
            (Err(why), _) => return Ok(Opening::NotExecuted(NotExecuted { checked, why })),
            (Ok(_), None) => return Err(failed("there is a GPU but no stream on it", Vec::new())),
        };
        let manifests: Vec<PlanManifest> = order.plans.into_iter().map(|plan| plan.manifest).collect();
        let start = Instant::now();
        let wanted = device_buffers(&manifests).map_err(|error| because("the plans' buffers", &error))?;
        let device = Device::new(&wanted)?;
        let Some(manifest) = manifests.into_iter().next() else {
            return Err(failed("no plan was named", Vec::new()));
        };
        check_cache(&manifest)?;
        let PlanManifest { inputs, outputs, cache, .. } = manifest;
        let on_host =
            |name: &&str| wanted.iter().filter(|buffer| buffer.names.iter().any(|known| known == name)).map(|buffer| buffer.bytes).sum();
        let tokens: u64 = TOKENS.iter().map(&on_host).sum();
        let staging = Pinned::new(usize::try_from(tokens.max(on_host(&"logits"))).unwrap_or(usize::MAX))?;
        times.buffers_us = microseconds(start);
        let signatures: Vec<_> = inputs.iter().map(TensorRecord::signature).collect();
        let slots = static_slots(&signatures);
        let (batch, past, client) = (0, 0, client.clone());
        let device_bytes = wanted.iter().map(|buffer| buffer.bytes).sum();
        let executor =
            Self { logger, plans, inputs, outputs, cache, slots, device, staging, batch, past, memory, client, stream, _runtime: runtime };
        Ok(Opening::Ready(Box::new(executor), Ready { gpu, times, device_bytes }))
    }

    /// Empties the cache.
    pub(crate) fn reset(&mut self, batch: u64) -> Result<(), Failure> {
        if self.slots.is_some() {
            // Slots without a token are read and given no weight: what is there must be finite.
            for pair in &self.cache {
                self.device.clear(&pair.past, &self.stream)?;
                self.device.clear(&pair.present, &self.stream)?;
            }
        }
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
        if let Some(slots) = self.slots.filter(|&slots| past + sequence > slots) {
            return Err(failed(format!("{} tokens a row do not fit the plan's cache: max_length is {slots}", past + sequence), Vec::new()));
        }
        let mut offset = 0;
        let mut staged = 0;
        for name in TOKENS {
            let shape = match name {
                "attention_mask" => vec![batch, self.slots.unwrap_or(past + sequence)],
                "cache_position" if self.slots.is_none() => continue,
                "cache_position" => vec![batch],
                _ => vec![batch, sequence],
            };
            let length = shape.iter().product::<u64>() * 8;
            // A graph may do without positions; their bytes are there all the same.
            if self.inputs.iter().any(|input| input.name == name) {
                let size = usize::try_from(length).map_err(|error| because("a step's input", &error))?;
                let room = self.staging.slice().len();
                let Some(bytes) = self.staging.slice().get_mut(staged..staged + size) else {
                    return Err(failed(
                        format!("a step's input of {} bytes does not fit the {room} that are pinned", staged + size),
                        Vec::new(),
                    ));
                };
                self.memory.read_exact_at(bytes, offset).map_err(|error| because("the memory file", &error))?;
                self.device.upload(name, bytes, &self.stream)?;
                self.set_input(index, name, &shape)?;
                staged += size;
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
        let logits = self.logits(index)?;
        self.past += sequence;
        for pair in self.cache.iter().filter(|pair| !pair.aliased) {
            // What was written is what the next step reads.
            self.device.swap(&pair.past, &pair.present)?;
        }
        self.plans[index].kernels.stepped(&self.client);
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
            let tensor = self.export(&pair.past, &shape, offset)?;
            offset += tensor.bytes;
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    /// `[batch, kv_heads, past, head_dim]` of a cache input now.
    fn cache_shape(&self, name: &str) -> Result<Vec<u64>, Failure> {
        let record = self.input(name)?;
        match record.shape[..] {
            [_, heads, _, size] if heads > 0 && size > 0 => {
                Ok(vec![self.batch, heads.unsigned_abs(), self.slots.unwrap_or(self.past), size.unsigned_abs()])
            }
            _ => Err(failed(format!("`{name}` of {:?} is no cache of [batch, kv_heads, past, head_dim]", record.shape), Vec::new())),
        }
    }

    fn input(&self, name: &str) -> Result<&TensorRecord, Failure> {
        self.inputs.iter().find(|input| input.name == name).ok_or_else(|| lost(name))
    }

    /// Tells the context an input's shape and address.
    fn set_input(&mut self, plan: usize, name: &str, shape: &[u64]) -> Result<(), Failure> {
        let bytes = byte_size(self.input(name)?, shape)?;
        let address = self.device.address(name, bytes)?;
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

    /// Tells the context where an output of the shape that follows from the inputs goes.
    fn bind_output(&mut self, plan: usize, output: &TensorRecord) -> Result<(), Failure> {
        let shape = self.output_shape(plan, &output.name)?;
        let bytes = byte_size(output, &shape)?;
        let address = self.device.address(&output.name, bytes)?;
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
        let record = self.outputs.iter().find(|output| output.name == "logits").ok_or_else(|| lost("logits"))?;
        let size = byte_size(record, &shape)?;
        let tensor = shared(record, &shape, 0, size);
        let Some(bytes) = self.staging.slice().get_mut(..size) else {
            return Err(failed(format!("logits of {size} bytes do not fit what is pinned"), Vec::new()));
        };
        self.device.download("logits", bytes, &self.stream)?;
        self.memory.write_all_at(bytes, 0).map_err(|error| because("the memory file", &error))?;
        Ok(tensor)
    }

    /// Copies a cache input into the memory file.
    fn export(&self, name: &str, shape: &[u64], offset: u64) -> Result<SharedTensor, Failure> {
        let record = self.input(name)?;
        let mut bytes = vec![0; byte_size(record, shape)?];
        self.device.download(name, &mut bytes, &self.stream)?;
        self.memory.write_all_at(&bytes, offset).map_err(|error| because("the memory file", &error))?;
        Ok(shared(record, shape, offset, bytes.len()))
    }
}

fn shared(record: &TensorRecord, shape: &[u64], offset: u64, bytes: usize) -> SharedTensor {
    let shape = shape.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
    SharedTensor { tensor: TensorRecord { name: record.name.clone(), dtype: record.dtype, shape }, offset, bytes: bytes as u64 }
}

fn microseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Plan {
    fn new(
        mut engine: UniquePtr<ICudaEngine>,
        kernels: Option<PathBuf>,
        logger: &Logger,
        manifest: &PlanManifest,
    ) -> Result<Self, Failure> {
        let profiles: Vec<_> = manifest.profiles.iter().map(|record| record.profile.clone()).collect();
        let found = engine.getNbOptimizationProfiles();
        if usize::try_from(found) != Ok(profiles.len()) {
            return Err(failed(format!("the plan has {found} profiles; its manifest has {}", profiles.len()), Vec::new()));
        }
        let (context, kernels) = Kernels::context(&mut engine, kernels, logger)?;
        Ok(Self { context, kernels, _engine: engine, profiles, chosen: 0 })
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

/// Every cache input needs the output that follows it: at another address, or where the plan updates it in place, at its own.
fn check_cache(manifest: &PlanManifest) -> Result<(), Failure> {
    let followed = |name: &str| manifest.cache.iter().any(|pair| pair.past == name);
    let mut caches = manifest.inputs.iter().filter(|input| input.name.starts_with("past_key_values."));
    match caches.find(|input| !followed(&input.name)) {
        Some(input) => Err(failed(format!("`{}` has no output that follows it", input.name), Vec::new())),
        None => Ok(()),
    }
}

/// `None` where the plan is whole but there is no GPU to put it on.
fn deserialise(
    runtime: &mut UniquePtr<IRuntime>,
    logger: &Logger,
    plan: &PlanOrder,
    gpu: &Result<Gpu, String>,
    times: &mut LoadTimes,
) -> Result<Option<UniquePtr<ICudaEngine>>, Failure> {
    let start = Instant::now();
    let file = plansmith_files::open(&plan.path).map_err(|error| because("the plan", &error))?;
    // SAFETY: nothing is written through the mapping. The client has just compared every byte with the manifest; whoever changes the file
    // from then on changes what TensorRT reads, and one who shortens it ends this process, which the client tells.
    let bytes = unsafe { Mmap::map(&file) }.map_err(|error| because("the plan", &error))?;
    times.read_us += microseconds(start);
    logger.take(Severity::Verbose);
    let start = Instant::now();
    // SAFETY: the mapping lives for the time of the call, after which TensorRT needs it no more.
    let engine = unsafe { runtime.pin_mut().deserializeCudaEngine(bytes.as_ptr().cast(), bytes.len()) };
    times.deserialise_us += microseconds(start);
    let log = logger.take(Severity::Error);
    match (owned(engine), gpu) {
        (Some(engine), _) => Ok(Some(engine)),
        // What is wrong with a plan's structure is said in words; that there is no driver was filtered from the log.
        (None, Err(_)) if log.is_empty() => Ok(None),
        (None, gpu) => {
            let reason = refusal(&plan.manifest, gpu.as_ref().ok(), &log);
            Err(Failure::Unfit { plan: plan.path.clone(), reason: format!("TensorRT refuses it: {reason}"), log })
        }
    }
}

/// Has TensorRT keep as much of the weights on the GPU as fits, and stream the rest.
fn stream_weights(engine: &mut UniquePtr<ICudaEngine>, logger: &Logger) -> Result<(), Failure> {
    let budget = engine.getWeightStreamingAutomaticBudget();
    if engine.pin_mut().setWeightStreamingBudgetV2(budget) {
        return Ok(());
    }
    Err(failed(format!("TensorRT does not stream weights within {budget} bytes"), logger.take(Severity::Warning)))
}
