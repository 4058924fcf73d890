//! A plan from a graph.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::time::{Duration, Instant};

use plansmith_engine::protocol::{BuildOrder, BuiltPlan, Failure};
use plansmith_engine::{Architecture, BuilderSettings, Compatible, Severity, TensorRecord, TensorShapes, Weights};
#[cfg(not(feature = "enterprise"))]
use trtx_sys::ComputeCapability;
use trtx_sys::nvinfer1::{IBuilder, IBuilderConfig, INetworkDefinition, NetworkDefinitionCreationFlag};
use trtx_sys::{BuilderFlag, Dims64, HardwareCompatibilityLevel, MemoryPoolType, OptProfileSelector};

use crate::failure::{because, failed};
use crate::libraries::{Libraries, owned};
use crate::log::Logger;
use crate::parse::{c_string, checked, parse};
use crate::progress::Monitor;
use crate::refit::Observer;
use crate::serve::Client;
use crate::timing::Timings;
use crate::{layers, names, network, partial};

/// Builds a plan and leaves it under a partial name.
///
/// The path that the parser is given, and the working folder's, change the bytes of a plan, so both are the same wherever the model lies. Nor
/// does the compiler of kernels find headers in the model's folder that way.
pub(crate) fn build(
    libraries: &Libraries,
    logger: &Logger,
    client: &Client,
    order: &BuildOrder,
    [model, plan_folder]: &[OwnedFd; 2],
    timings: Option<OwnedFd>,
) -> Result<BuiltPlan, Failure> {
    #[cfg(not(feature = "enterprise"))]
    crate::turns::take();
    rustix::process::chdir(c"/").map_err(|error| because("the root folder cannot be entered", &error))?;
    let name = c_string(&format!("/proc/self/fd/{}/{}", model.as_raw_fd(), order.onnx))?;
    let monitor = Monitor::new(client.clone())?;
    let nothing = |what: &str| failed(format!("TensorRT gave no {what}"), logger.take(Severity::Warning));

    // Dropped in reverse: the parser owns weights that the network uses, the builder what it made and uses the timings.
    let mut known = None;
    let mut builder = libraries.builder(logger)?;
    let flags = 1 << NetworkDefinitionCreationFlag::kSTRONGLY_TYPED as u32;
    let mut network = owned(builder.pin_mut().createNetworkV2(flags)).ok_or_else(|| nothing("network"))?;
    let mut parser = libraries.parser(logger, &mut network)?;
    let mut config = owned(builder.pin_mut().createBuilderConfig()).ok_or_else(|| nothing("builder configuration"))?;

    match order.weights {
        Weights::Embedded | Weights::Stripped => {}
        Weights::Streaming => config.pin_mut().setFlag(BuilderFlag::kWEIGHT_STREAMING.into()),
    }
    let observer = match order.weights {
        Weights::Stripped => Some(Observer::attach(&mut parser, &mut config)?),
        Weights::Embedded | Weights::Streaming => None,
    };

    let start = Instant::now();
    let mut warnings = monitor.phase("parse", || parse(&mut parser, logger, &name))?;
    let parse_ms = milliseconds(start.elapsed());
    let refit = match observer {
        Some(observer) => {
            let refit = observer.finish(&mut parser, &mut network, &order.external)?;
            // It asks of each small weight whether the plan can have it; a no is no warning.
            warnings.extend(logger.take(Severity::Warning).into_iter().filter(|line| !line.contains("unmarkWeightsRefittable")));
            refit
        }
        None => Vec::new(),
    };
    let (inputs, outputs) = (network::inputs(&network)?, network::outputs(&network)?);
    if outputs.is_empty() {
        return Err(failed("the parser made a network without outputs", warnings));
    }
    let cache = network::cache_pairs(&network, &inputs, &outputs);

    configure(config.pin_mut(), &order.architectures)?;
    widen(config.pin_mut(), &order.compatible);
    if let Some((memory, alien)) = timings.zip(order.timings) {
        known = Some(Timings::attach(&mut config, logger, memory.into(), alien)?);
    }
    for (index, shapes) in (0..).zip(&order.profiles) {
        add_profile(builder.pin_mut(), config.pin_mut(), index, &inputs, shapes, logger)?;
    }
    // SAFETY: the monitor lives until after the build.
    unsafe { config.pin_mut().setProgressMonitor(monitor.pointer()) };
    let settings = settings(config.pin_mut(), &network, parser.getFlags());

    let summary = match order.weights {
        Weights::Embedded | Weights::Streaming => None,
        Weights::Stripped => {
            let summary = layers::summary(&network);
            names::shorten(&network)?;
            Some(summary)
        }
    };

    let start = Instant::now();
    let built = monitor.phase("build", || builder.pin_mut().buildSerializedNetwork(network.pin_mut(), config.pin_mut()));
    let build_ms = milliseconds(start.elapsed());
    let Some(memory) = owned(built) else {
        return Err(failed("TensorRT cannot build this plan", logger.take(Severity::Warning)));
    };
    warnings.extend(checked(logger.take(Severity::Warning))?);
    warnings.extend(disorder());
    let (data, size) = (memory.data().cast::<u8>(), memory.size());
    if data.is_null() || size == 0 {
        return Err(failed("TensorRT built an empty plan", warnings));
    }
    // SAFETY: `data` points to `size` bytes that live as long as `memory`.
    let plan = unsafe { std::slice::from_raw_parts(data, size) };
    let timings = known.as_ref().map(Timings::leave).transpose()?;
    let layers = summary.unwrap_or_else(|| layers::summary(&network));
    // Not before: what lies in the folder would move what is allocated after it.
    rustix::process::fchdir(plan_folder).map_err(|error| because("the plan's folder cannot be entered", &error))?;
    plansmith_files::remove_leftovers(Path::new("."));
    #[cfg(not(feature = "enterprise"))]
    crate::turns::give_back();
    let written = monitor.phase("write", || partial::write(Path::new(""), plan));
    let (lock, sha256) = written.map_err(|error| because("the plan cannot be written", &error))?;
    let built = BuiltPlan {
        bytes: size as u64,
        sha256,
        builder: settings,
        inputs,
        outputs,
        cache,
        refit,
        timings,
        layers,
        warnings,
        parse_ms,
        build_ms,
        peak_bytes: peak_bytes()?,
    };
    // The lock on the file stays until this process ends.
    std::mem::forget(lock);
    Ok(built)
}

/// What to say where threads of TensorRT ran beside this one.
#[cfg(not(feature = "enterprise"))]
fn disorder() -> Option<String> {
    let times = crate::turns::out_of_turn();
    (times > 0).then(|| format!("threads of TensorRT ran beside the builder {times} times: another build may give other bytes"))
}

/// On a GPU kernels are chosen by their time; no order of threads makes that the same twice.
#[cfg(feature = "enterprise")]
fn disorder() -> Option<String> {
    None
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The GPU of this machine is what the plan is for: the caller was told so, and named no architecture.
#[cfg(feature = "enterprise")]
fn configure(mut config: Pin<&mut IBuilderConfig>, architectures: &[Architecture]) -> Result<(), Failure> {
    config.as_mut().clearFlag(BuilderFlag::kTF32.into());
    match architectures {
        [] => Ok(()),
        _ => Err(failed("TensorRT builds for the GPU of this machine and takes no other architecture", Vec::new())),
    }
}

#[cfg(not(feature = "enterprise"))]
fn configure(mut config: Pin<&mut IBuilderConfig>, architectures: &[Architecture]) -> Result<(), Failure> {
    // On by default; fp32 products would be rounded to 10 bits of mantissa.
    config.as_mut().clearFlag(BuilderFlag::kTF32.into());
    let refuse = |what: String| failed(format!("TensorRT does not take {what}"), Vec::new());
    let count = i32::try_from(architectures.len()).map_err(|_| refuse("so many architectures".to_owned()))?;
    if !config.as_mut().setNbComputeCapabilities(count) {
        return Err(refuse(format!("{count} architectures")));
    }
    for (index, &architecture) in (0..count).zip(architectures) {
        let capability = match architecture {
            Architecture::Sm75 => ComputeCapability::kSM75,
            Architecture::Sm80 => ComputeCapability::kSM80,
            Architecture::Sm86 => ComputeCapability::kSM86,
            Architecture::Sm89 => ComputeCapability::kSM89,
            Architecture::Sm120 => ComputeCapability::kSM120,
            Architecture::Sm121 => ComputeCapability::kSM121,
        };
        if !config.as_mut().setComputeCapability(capability.into(), index) {
            return Err(refuse(format!("architecture {architecture}")));
        }
    }
    Ok(())
}

/// Makes the plan one for more than this GPU and this version.
fn widen(mut config: Pin<&mut IBuilderConfig>, compatible: &[Compatible]) {
    for compatible in compatible {
        let level = match compatible {
            Compatible::AmperePlus => HardwareCompatibilityLevel::kAMPERE_PLUS,
            Compatible::SameComputeCapability => HardwareCompatibilityLevel::kSAME_COMPUTE_CAPABILITY,
            Compatible::Version => {
                config.as_mut().setFlag(BuilderFlag::kVERSION_COMPATIBLE.into());
                continue;
            }
        };
        config.as_mut().setHardwareCompatibilityLevel(level.into());
    }
}

/// Gives every input its shapes in the profile of this number; the profile belongs to the builder.
fn add_profile(
    builder: Pin<&mut IBuilder>,
    config: Pin<&mut IBuilderConfig>,
    index: i32,
    inputs: &[TensorRecord],
    shapes: &[TensorShapes],
    logger: &Logger,
) -> Result<(), Failure> {
    let names = |names: Vec<&str>| names.join(", ");
    let missing: Vec<_> =
        inputs.iter().filter(|input| shapes.iter().all(|shape| shape.name != input.name)).map(|i| i.name.as_str()).collect();
    let dropped: Vec<_> =
        shapes.iter().filter(|shape| inputs.iter().all(|input| shape.name != input.name)).map(|s| s.name.as_str()).collect();
    if !missing.is_empty() || !dropped.is_empty() {
        let message = "the network's inputs are not those of the graph";
        let log = vec![format!("without shapes: [{}]", names(missing)), format!("dropped by the parser: [{}]", names(dropped))];
        return Err(failed(message, log));
    }
    let profile = builder.createOptimizationProfile();
    // SAFETY: the builder gives null or a profile that lives as long as it; nothing else refers to it.
    let Some(mut profile) = (unsafe { profile.as_mut().map(|profile| Pin::new_unchecked(profile)) }) else {
        return Err(failed("TensorRT gave no profile", logger.take(Severity::Warning)));
    };
    for TensorShapes { name, min, opt, max } in shapes {
        let c_name = c_string(name)?;
        for (selector, shape) in [(OptProfileSelector::kMIN, min), (OptProfileSelector::kOPT, opt), (OptProfileSelector::kMAX, max)] {
            let numbers: Vec<i64> = shape.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
            // SAFETY: `c_name` and the dimensions live for the time of the call.
            let taken = unsafe { profile.as_mut().setDimensions(c_name.as_ptr(), selector.into(), &Dims64::from_slice(&numbers)) };
            if !taken {
                let message = format!("TensorRT does not take {shape:?} for `{name}` in a profile");
                return Err(failed(message, logger.take(Severity::Warning)));
            }
        }
    }
    // SAFETY: the profile is alive; `config` keeps a pointer to it, and the builder, dropped last, keeps it alive.
    let added = unsafe { config.addOptimizationProfile(profile.as_mut().get_unchecked_mut()) };
    if !profile.isValid() || added != index {
        return Err(failed(format!("TensorRT does not take profile {index}"), logger.take(Severity::Warning)));
    }
    Ok(())
}

fn settings(mut config: Pin<&mut IBuilderConfig>, network: &INetworkDefinition, parser_flags: u32) -> BuilderSettings {
    let builder_flags = config.getFlags();
    BuilderSettings {
        strongly_typed: network.getFlag(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED),
        tf32: builder_flags & 1 << BuilderFlag::kTF32 as u32 != 0,
        optimization_level: config.as_mut().getBuilderOptimizationLevel(),
        workspace_bytes: config.getMemoryPoolLimit(MemoryPoolType::kWORKSPACE.into()) as u64,
        builder_flags,
        parser_flags,
    }
}

/// The largest resident size of this process so far.
fn peak_bytes() -> Result<u64, Failure> {
    let status = plansmith_files::read_to_string(Path::new("/proc/self/status")).map_err(|error| because("peak memory", &error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<u64> = line.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| failed("/proc/self/status has no VmHWM", Vec::new()))
}
