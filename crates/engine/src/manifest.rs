//! What is recorded beside every plan.

use std::path::Path;

use plansmith_files::Digest;
use plansmith_tensor::{DType, TensorSignature};
use serde::{Deserialize, Serialize};

use crate::{
    Architecture, Compatible, Error, Flavor, LayerSummary, PlanHeader, PlanVersion, Profile, ProfilesAs, RefitRecord, TensorShapes,
    TimingRecord, Weights,
};

/// A file by name, size and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Name without folder.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Of the whole file.
    pub sha256: Digest,
}

impl FileRecord {
    /// Measures and hashes a file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn of(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, bytes: plansmith_files::metadata(path)?.len(), sha256: plansmith_files::sha256_file(path)? })
    }
}

/// The TensorRT libraries that built a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryRecord {
    /// As the library itself says.
    pub version: PlanVersion,
    /// The builder and runtime.
    pub core: FileRecord,
    /// The ONNX parser.
    pub parser: FileRecord,
}

/// Builder settings that the bytes of a plan depend on, as read back from the builder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuilderSettings {
    /// Types are those of the graph; TensorRT chooses none.
    pub strongly_typed: bool,
    /// Whether fp32 products may be rounded to TF32.
    pub tf32: bool,
    /// 0 to 5.
    pub optimization_level: i32,
    /// Limit of scratch memory; the builder's default where nobody set one.
    pub workspace_bytes: u64,
    /// Bits of TensorRT's `BuilderFlag`.
    pub builder_flags: u32,
    /// Bits of TensorRT's `OnnxParserFlag`.
    pub parser_flags: u32,
}

/// One profile of a plan with the shapes that follow from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRecord {
    /// Name and ranges.
    pub profile: Profile,
    /// Every input's shapes.
    pub inputs: Vec<TensorShapes>,
}

/// What the choice of profiles cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostRecord {
    /// How the profiles that were named became those of this plan.
    pub profiles_as: ProfilesAs,
    /// Bytes of the graph's weights.
    pub weight_bytes: u64,
    /// Bytes of the plan for a thousand of weights: 2000 and more says that TensorRT keeps them twice.
    pub plan_permille_of_weights: u64,
}

impl CostRecord {
    pub(crate) fn new(profiles_as: ProfilesAs, weight_bytes: u64, plan_bytes: u64) -> Self {
        Self { profiles_as, weight_bytes, plan_permille_of_weights: plan_bytes.saturating_mul(1000) / weight_bytes.max(1) }
    }
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorRecord {
    /// Its name.
    pub name: String,
    /// Its element type by its safetensors name.
    #[serde(with = "dtype_name")]
    pub dtype: DType,
    /// Dimensions; -1 where the profile decides.
    pub shape: Vec<i64>,
}

impl TensorRecord {
    /// As a session's signature names it.
    pub fn signature(&self) -> TensorSignature {
        let shape = self.shape.iter().map(|&axis| u64::try_from(axis).map_err(|_| "?".to_owned())).collect();
        TensorSignature { name: self.name.clone(), dtype: self.dtype, shape }
    }
}

/// A cache input and the output that is its next value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachePair {
    /// `past_key_values.0.key`, for example.
    pub past: String,
    /// `present.0.key`, for example.
    pub present: String,
    /// Both must be bound to one address: the plan updates the cache in place.
    pub aliased: bool,
}

/// The graph that a plan was built from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnnxRecord {
    /// The graph.
    pub graph: FileRecord,
    /// Its external data, sorted by name.
    pub data: Vec<FileRecord>,
}

/// The checkpoint that the graph was exported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// Commit of its repository, where known.
    pub revision: Option<String>,
    /// Its files.
    pub files: Vec<FileRecord>,
}

/// Where a plan was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BuildHost {
    /// Ahead of time, without a GPU.
    CpuAot,
    /// On a GPU.
    Gpu(Gpu),
}

/// A GPU that the driver shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// `NVIDIA GeForce RTX 4090`, for example.
    pub name: String,
    /// Compute capability, `8.9` for example.
    pub compute: String,
    /// The CUDA version that the driver supports, `12.8` for example.
    pub cuda: String,
    /// Version of the kernel driver, where it can be read.
    pub driver: Option<String>,
    /// Bytes of memory.
    pub memory: u64,
}

impl Gpu {
    /// `sm89` of compute capability 8.9.
    pub fn architecture(&self) -> String {
        format!("sm{}", self.compute.replace('.', ""))
    }
}

/// Size and digest of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// Size of the file.
    pub bytes: u64,
    /// Of the whole file.
    pub sha256: Digest,
    /// What its header says.
    pub header: PlanHeader,
}

/// Whether addresses were randomised while a plan was built: two builds then differ in some hundred bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RandomisedAddresses {
    /// Off.
    Off,
    /// On, since the system refused to turn it off.
    On {
        /// What the system said.
        reason: String,
    },
}

/// What is known about a second build of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reproducibility {
    /// A second build in a process of its own gave the same bytes.
    Proved {
        /// State of the address space in both builds.
        randomised_addresses: RandomisedAddresses,
    },
    /// A second build gave other bytes.
    Differs {
        /// State of the address space in both builds.
        randomised_addresses: RandomisedAddresses,
        /// The second build.
        second: Digest,
    },
    /// Nobody built it twice.
    NotTried {
        /// State of the address space in the build.
        randomised_addresses: RandomisedAddresses,
    },
}

/// Whether the plan was executed and agreed with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Agreement {
    /// It was not executed.
    NotExecuted {
        /// Why.
        reason: String,
    },
    /// It agreed.
    Agree {
        /// `golden`, `reference` or `both`.
        oracle: String,
    },
    /// It disagreed.
    Disagree {
        /// `golden`, `reference` or `both`.
        oracle: String,
    },
}

/// Everything about how a plan came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanManifest {
    /// 1.
    pub schema_version: u32,
    /// Version of plansmith.
    pub plansmith: String,
    /// The flavour of TensorRT.
    pub flavor: Flavor,
    /// Its libraries.
    pub library: LibraryRecord,
    /// The worker executable: another one lays its memory out otherwise, which changes some hundred bytes of a plan.
    pub worker: FileRecord,
    /// What it runs on.
    pub architectures: Vec<Architecture>,
    /// How it was built.
    pub builder: BuilderSettings,
    /// Its profiles, in order of preference.
    pub profiles: Vec<ProfileRecord>,
    /// What that choice cost; absent from the first plansmith's manifests.
    #[serde(default)]
    pub cost: Option<CostRecord>,
    /// Inputs in the graph's order.
    pub inputs: Vec<TensorRecord>,
    /// Outputs in the graph's order.
    pub outputs: Vec<TensorRecord>,
    /// Cache inputs with the outputs that replace them.
    pub cache: Vec<CachePair>,
    /// What else it may be used with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<Compatible>,
    /// The timings that its kernels were chosen by, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing_cache: Option<TimingRecord>,
    /// Where the weights are.
    #[serde(default, skip_serializing_if = "Weights::is_embedded")]
    pub weights: Weights,
    /// The weights that a stripped plan lacks, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refit: Vec<RefitRecord>,
    /// The way from the plan's folder to that of the graph's data when the plan was built; for stripped plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_folder: Option<String>,
    /// What the network is made of.
    #[serde(default, skip_serializing_if = "LayerSummary::is_empty")]
    pub layers: LayerSummary,
    /// The graph.
    pub onnx: OnnxRecord,
    /// The checkpoint, where the caller named one.
    pub source: Option<SourceRecord>,
    /// Where it was built.
    pub host: BuildHost,
    /// The plan itself.
    pub plan: PlanRecord,
    /// What TensorRT warned of.
    pub warnings: Vec<String>,
    /// Whether a second build gave the same bytes.
    pub reproducible: Reproducibility,
    /// Whether it was executed and agreed.
    pub agreement: Agreement,
}

impl PlanManifest {
    /// What it runs on: the architectures that it names, else that of the GPU that built it.
    pub fn targets(&self) -> Vec<String> {
        match &self.host {
            BuildHost::Gpu(gpu) if self.architectures.is_empty() => vec![gpu.architecture()],
            _ => self.architectures.iter().map(|architecture| architecture.name().to_owned()).collect(),
        }
    }

    /// The version of this layout.
    pub const SCHEMA_VERSION: u32 = 1;

    /// Reads a manifest; a field that is missing or unknown is refused.
    ///
    /// # Errors
    /// [`Error::Manifest`] with line, column and key; [`Error::File`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::Manifest { path: path.to_owned(), source };
        let manifest: Self = serde_json::from_str(&plansmith_files::read_to_string(path)?).map_err(refuse)?;
        if manifest.schema_version != Self::SCHEMA_VERSION {
            let found = manifest.schema_version;
            return Err(refuse(serde::de::Error::custom(format!(
                "schema_version is {found}; this plansmith reads {}",
                Self::SCHEMA_VERSION
            ))));
        }
        Ok(manifest)
    }

    /// Whether a second build gave the same bytes.
    pub fn is_proved(&self) -> bool {
        matches!(self.reproducible, Reproducibility::Proved { .. })
    }

    /// Writes it, complete or not at all.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(plansmith_files::write_atomic(path, self.text(path)?.as_bytes())?)
    }

    /// What is to be written to `path`.
    pub(crate) fn text(&self, path: &Path) -> Result<String, Error> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| Error::Manifest { path: path.to_owned(), source })?;
        text.push('\n');
        Ok(text)
    }
}

/// Serialises a dtype by its safetensors name.
pub(crate) mod dtype_name {
    use plansmith_tensor::DType;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(dtype.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
