//! Whether a plan can run where it is about to run, said before TensorRT is asked; and what TensorRT's own words mean.

use crate::{BuildHost, Compatible, Gpu, PlanManifest, PlanVersion};

/// Compares what a plan was built for with the library that was loaded and, where there is one, the GPU. Returns what was compared, a line each.
///
/// # Errors
/// The first thing that does not fit, with both sides.
pub fn fits_host(manifest: &PlanManifest, library: PlanVersion, gpu: Option<&Gpu>) -> Result<Vec<String>, String> {
    let [built, here] = [manifest.library.version.parts, library.parts];
    let later = manifest.compatible.contains(&Compatible::Version) && built[0] == here[0] && built <= here;
    if built != here && !later {
        return Err(format!("{}; version {library} is loaded", built_with(manifest)));
    }
    let by =
        if built == here { "which built it".to_owned() } else { format!("built with {} to run with later ones", manifest.library.version) };
    let mut compared = vec![format!("library: {} {library}, {by}", manifest.flavor.title())];
    let Some(gpu) = gpu else { return Ok(compared) };
    let here = format!("{} (compute {})", gpu.name, gpu.compute);
    let from_ampere = || gpu.compute.split('.').next().and_then(|major| major.parse::<u32>().ok()) >= Some(8);
    // Plans of the enterprise flavour are for the GPU that built them, and what their options add.
    let widened = manifest.compatible.contains(&Compatible::AmperePlus) && from_ampere();
    if !widened && !manifest.targets().contains(&gpu.architecture()) {
        return Err(format!("{}; this GPU is {here}", built_for(manifest)));
    }
    let model = match &manifest.host {
        BuildHost::Gpu(there) if there.name != gpu.name => format!(", built on {}: kernels were chosen for that model", there.name),
        _ => String::new(),
    };
    compared.push(format!("architecture: {here}{model}"));
    if let BuildHost::Gpu(there) = &manifest.host {
        let major = |cuda: &str| cuda.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major(&gpu.cuda) < major(&there.cuda) {
            let driver = gpu.driver.as_deref().unwrap_or("of unknown version");
            return Err(format!(
                "it was built under a driver for CUDA {}; the driver here ({driver}) supports CUDA {}",
                there.cuda, gpu.cuda
            ));
        }
        compared.push(format!("driver: CUDA {}, built under CUDA {}", gpu.cuda, there.cuda));
    }
    Ok(compared)
}

/// What TensorRT means by the lines with which it refused a plan: it names neither versions nor GPUs, the manifest does.
pub fn refusal(manifest: &PlanManifest, gpu: Option<&Gpu>, log: &[String]) -> String {
    let has = |text: &str| log.iter().any(|line| line.contains(text));
    if has("Version tag does not match") {
        format!("{}, which is not the version that was loaded", built_with(manifest))
    } else if has("expecting compute") {
        let here = gpu.map_or("another one".to_owned(), |gpu| format!("{} (compute {})", gpu.name, gpu.compute));
        format!("{}; this GPU is {here}", built_for(manifest))
    } else if has("CUDA_ERROR_OUT_OF_MEMORY") || has("out of memory") {
        let free = gpu.map_or(String::new(), |gpu| format!(" of {} MB", gpu.memory / 1_000_000));
        format!("the plan of {} MB does not fit into the GPU's memory{free} beside what is there", manifest.plan.bytes / 1_000_000)
    } else {
        format!("{} for {}", built_with(manifest), manifest.targets().join(", "))
    }
}

fn built_with(manifest: &PlanManifest) -> String {
    format!("it was built with {} {}", manifest.flavor.title(), manifest.library.version)
}

fn built_for(manifest: &PlanManifest) -> String {
    format!("it was built for {}", manifest.targets().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest that a worker wrote, of a plan for sm86 and sm89 by TensorRT-RTX 1.7.1.116.
    fn manifest() -> PlanManifest {
        serde_json::from_str(include_str!("../tests/data/static.json")).unwrap()
    }

    fn gpu(compute: &str, cuda: &str) -> Gpu {
        let name = "NVIDIA GeForce RTX 2080".to_owned();
        Gpu { name, compute: compute.to_owned(), cuda: cuda.to_owned(), driver: Some("535.104".to_owned()), memory: 8 << 30 }
    }

    fn version(text: &str) -> PlanVersion {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn what_does_not_fit_is_said_with_both_sides() {
        let (mut manifest, right) = (manifest(), version("1.7.1.116"));
        assert_eq!(fits_host(&manifest, right, None).unwrap().len(), 1);
        assert_eq!(fits_host(&manifest, right, Some(&gpu("8.9", "12.8"))).unwrap().len(), 2);
        let other = fits_host(&manifest, version("1.6.0.4"), None).unwrap_err();
        assert_eq!(other, "it was built with TensorRT-RTX 1.7.1.116; version 1.6.0.4 is loaded");
        let turing = fits_host(&manifest, right, Some(&gpu("7.5", "12.8"))).unwrap_err();
        assert_eq!(turing, "it was built for sm86, sm89; this GPU is NVIDIA GeForce RTX 2080 (compute 7.5)");
        // Compute 8.6 is in 8.60 as a text, and no other architecture is.
        assert!(fits_host(&manifest, right, Some(&gpu("8.60", "12.8"))).is_err());
        manifest.host = BuildHost::Gpu(gpu("8.9", "12.8"));
        let old = fits_host(&manifest, right, Some(&gpu("8.9", "11.8"))).unwrap_err();
        assert_eq!(old, "it was built under a driver for CUDA 12.8; the driver here (535.104) supports CUDA 11.8");
        assert_eq!(fits_host(&manifest, right, Some(&gpu("8.9", "13.0"))).unwrap().len(), 3);
    }

    #[test]
    fn a_plan_that_names_no_architecture_is_for_the_gpu_that_built_it() {
        let (mut manifest, right) = (manifest(), version("1.7.1.116"));
        manifest.architectures.clear();
        manifest.host = BuildHost::Gpu(Gpu { name: "NVIDIA H200".to_owned(), ..gpu("9.0", "12.8") });
        let other = fits_host(&manifest, right, Some(&gpu("8.9", "12.8"))).unwrap_err();
        assert_eq!(other, "it was built for sm90; this GPU is NVIDIA GeForce RTX 2080 (compute 8.9)");
        let alike = fits_host(&manifest, right, Some(&gpu("9.0", "12.8"))).unwrap();
        assert!(alike[1].ends_with(", built on NVIDIA H200: kernels were chosen for that model"), "{alike:?}");
        manifest.compatible = vec![Compatible::AmperePlus];
        assert!(fits_host(&manifest, right, Some(&gpu("12.0", "12.8"))).is_ok());
        assert!(fits_host(&manifest, right, Some(&gpu("7.5", "12.8"))).is_err());
        assert_eq!(refusal(&manifest, None, &["anything else".to_owned()]), "it was built with TensorRT-RTX 1.7.1.116 for sm90");
    }

    /// The texts are NVIDIA's, as met in the field.
    #[test]
    fn tensorrts_words_are_translated() {
        let said = |line: &str| refusal(&manifest(), Some(&gpu("7.5", "12.8")), &[line.to_owned()]);
        assert_eq!(
            said("Error Code 1: Serialization (Version tag does not match. Note: Current Version: 243, Serialized Engine Version: 240)"),
            "it was built with TensorRT-RTX 1.7.1.116, which is not the version that was loaded"
        );
        assert_eq!(
            said("The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 7.5, please rebuild."),
            "it was built for sm86, sm89; this GPU is NVIDIA GeForce RTX 2080 (compute 7.5)"
        );
        assert!(said("Error Code 2: OutOfMemory (out of memory)").contains("does not fit into the GPU's memory of 8589 MB"));
        assert_eq!(said("anything else"), "it was built with TensorRT-RTX 1.7.1.116 for sm86, sm89");
    }
}
