//! The pipeline file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use plansmith_engine::{
    Architecture, ArchitecturesAs, Compatible, Flavor, ModelLengths, NATIVE, Preset, Profile, ProfilesAs, Span, TimingCache, Weights,
};
use plansmith_files::{Digest, is_hex};
use plansmith_lowering::{Dialect, Float, Kv, LogitsAt, Target, WeightNames};
use plansmith_runtime::RuntimeKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::text::Text;

/// A pipeline as written; see `docs/pipeline.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineFile {
    /// Name of the bundle.
    pub name: Text,
    /// What is exported.
    pub source: SourceSpec,
    /// The graphs; none where others' graphs are verified only.
    #[serde(default)]
    pub export: Vec<ExportSpec>,
    /// The plans.
    #[serde(default)]
    pub engines: Vec<EngineSpec>,
    /// How graphs and plans are checked.
    #[serde(default)]
    pub verify: VerifySpec,
    /// What the bundle is besides a folder for clients.
    #[serde(default)]
    pub layouts: Vec<Layout>,
    /// Where the bundle goes.
    pub output: Text,
}

/// A form that a bundle has besides that of every bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Weights have the names that transformers.js fetches from a hub.
    Hub,
    /// A model repository for Triton Inference Server lies beside, in `triton/`.
    Triton,
}

/// The checkpoint, and what it must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Its folder.
    pub checkpoint: Text,
    /// Revision of the hub that it must be of, 40 hex digits.
    pub revision: Option<Revision>,
    /// SHA-256 that these files must have, by bare name.
    #[serde(default, deserialize_with = "unique_map")]
    pub sha256: IndexMap<String, Hex>,
    /// Keys of config.json that are not understood and are to be ignored.
    #[serde(default)]
    pub allow_unknown_config: Vec<String>,
    /// Longest sequence that will be run; where rotations change with the length, only its side is written.
    pub max_length: Option<u64>,
}

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants are the field's names")]
pub enum Storage {
    #[default]
    Source,
    Fp32,
    Fp16,
    Bf16,
}

/// One graph.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSpec {
    /// What engines refer to it by.
    pub id: Id,
    /// How weights are stored.
    #[serde(default)]
    pub dtype: Storage,
    /// What the graph computes in; by default what most weights are stored as.
    pub compute: Option<Float>,
    /// Which positions get logits.
    #[serde(default = "all_positions")]
    pub logits: LogitsAt,
    /// Which operators.
    #[serde(default = "portable")]
    pub dialect: Dialect,
    /// ONNX operator set.
    pub opset: Option<u32>,
    /// `concat`, or `static`: a cache of `source.max_length` slots a row.
    #[serde(default)]
    pub kv: Kv,
}

fn all_positions() -> LogitsAt {
    LogitsAt::All
}

fn portable() -> Dialect {
    Dialect::Portable
}

impl ExportSpec {
    /// What lowering is asked for, in a bundle of these layouts.
    pub fn target(&self, layouts: &[Layout]) -> Target {
        let storage = match self.dtype {
            Storage::Source => None,
            Storage::Fp32 => Some(Float::Fp32),
            Storage::Fp16 => Some(Float::Fp16),
            Storage::Bf16 => Some(Float::Bf16),
        };
        let weight_names = if layouts.contains(&Layout::Hub) { WeightNames::Hub } else { WeightNames::Checkpoint };
        let Self { compute, dialect, logits, opset, kv, .. } = *self;
        Target { storage, compute, dialect, logits, opset, kv, weight_names }
    }
}

/// The plans of one graph: one for each architecture and profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// The `id` of an export.
    pub from: String,
    /// Which TensorRT.
    #[serde(default = "rtx", deserialize_with = "parsed")]
    pub flavor: Flavor,
    /// GPU architectures; none stands for `native`, the GPU of the machine that builds.
    #[serde(deserialize_with = "targets")]
    pub architectures: Vec<Architecture>,
    /// Whether each has a plan of its own.
    #[serde(default = "plan_for_each_architecture")]
    pub architectures_as: ArchitecturesAs,
    /// Where the weights go.
    #[serde(default, deserialize_with = "parsed")]
    pub weights: Weights,
    /// What else plans of the enterprise flavour are to be used with.
    #[serde(default, deserialize_with = "parsed_list")]
    pub compatible: Vec<Compatible>,
    /// Where what the enterprise flavour measures is kept: `off`, or a file.
    pub timing_cache: Option<Text>,
    /// Shape profiles, by name.
    #[serde(deserialize_with = "unique_map")]
    pub profiles: IndexMap<String, ProfileSpec>,
    /// Whether each has a plan of its own.
    #[serde(default = "plan_for_each_profile")]
    pub profiles_as: ProfilesAs,
}

impl EngineSpec {
    /// Where timings are kept, as the pipeline in `file` means it.
    pub(crate) fn timing_cache(&self, file: &Path) -> TimingCache {
        match &self.timing_cache {
            None => TimingCache::Usual,
            Some(Text(text)) => match TimingCache::named(Path::new(text)) {
                TimingCache::File(_) => TimingCache::File(relative_to(file, text)),
                other => other,
            },
        }
    }
}

fn plan_for_each_architecture() -> ArchitecturesAs {
    ArchitecturesAs::PlanEach
}

fn plan_for_each_profile() -> ProfilesAs {
    ProfilesAs::PlanEach
}

fn rtx() -> Flavor {
    Flavor::Rtx
}

/// One shape profile: the name of a preset, or axes that are each a number or `[min, opt, max]`.
#[derive(Debug, Clone)]
pub enum ProfileSpec {
    /// Fitted to the model's length.
    Preset(Preset),
    /// As written.
    Axes {
        /// Rows.
        batch: Axis,
        /// New tokens a row.
        sequence: Axis,
        /// Tokens in the cache.
        past: Axis,
    },
}

impl<'de> Deserialize<'de> for ProfileSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Axes {
            batch: Axis,
            sequence: Axis,
            past: Axis,
        }
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = ProfileSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("batch, sequence and past, or a preset (chat, batch, long-prompt)")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ProfileSpec, E> {
                let known = || Preset::ALL.map(Preset::name).join(", ");
                let preset = Preset::of_name(text).ok_or_else(|| E::custom(format!("`{text}` is no preset; they are {}", known())))?;
                Ok(ProfileSpec::Preset(preset))
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<ProfileSpec, A::Error> {
                let Axes { batch, sequence, past } = Axes::deserialize(serde::de::value::MapAccessDeserializer::new(entries))?;
                Ok(ProfileSpec::Axes { batch, sequence, past })
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl ProfileSpec {
    /// As the engine takes it, for a model of these lengths.
    pub(crate) fn profile(&self, name: &str, lengths: &ModelLengths) -> Result<Profile, plansmith_engine::Error> {
        match self {
            Self::Preset(preset) => preset.profile(name, lengths),
            Self::Axes { batch, sequence, past } => Profile::new(name, batch.0, sequence.0, past.0),
        }
    }
}

/// How graphs and plans are checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySpec {
    /// What executes graphs.
    #[serde(default = "embedded", deserialize_with = "parsed_list")]
    pub runtimes: Vec<RuntimeKind>,
    /// `builtin`, or a JSONL file.
    #[serde(default)]
    pub prompts: Prompts,
    /// Logits computed elsewhere.
    pub golden: Option<Text>,
    /// Graphs of the source by others, judged where they are and not taken into the bundle.
    #[serde(default)]
    pub graphs: Vec<Text>,
}

fn embedded() -> Vec<RuntimeKind> {
    vec![RuntimeKind::Rten]
}

impl Default for VerifySpec {
    fn default() -> Self {
        Self { runtimes: embedded(), prompts: Prompts::default(), golden: None, graphs: Vec::new() }
    }
}

/// Which prompts are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Prompts {
    /// The built-in set.
    #[default]
    Builtin,
    /// A JSONL file.
    File(String),
}

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        Ok(if text == "builtin" { Prompts::Builtin } else { Prompts::File(text) })
    }
}

/// A number, or `[min, opt, max]`.
#[derive(Debug, Clone, Copy)]
pub struct Axis(pub Span);

impl<'de> Deserialize<'de> for Axis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Axis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or [min, opt, max]")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Axis, E> {
                Span::fixed(value).map(Axis).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Axis, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = values.next_element::<u64>()? {
                    list.push(value);
                }
                match list[..] {
                    [min, opt, max] => Span::new(min, opt, max).map(Axis).map_err(A::Error::custom),
                    _ => Err(A::Error::custom(format!("{} numbers; [min, opt, max] takes three", list.len()))),
                }
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Letters, digits, `-`, `_` and `.`: it becomes part of file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(pub String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.is_empty() || text.starts_with('.') || !text.bytes().all(plain) {
            return Err(D::Error::custom(format!("`{text}` is no id: letters, digits, `-`, `_` and `.` make one")));
        }
        Ok(Self(text))
    }
}

/// 40 hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(pub String);

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        if !is_hex(&text, 40) {
            return Err(D::Error::custom(format!("`{text}` is no revision: 40 hex digits are needed")));
        }
        Ok(Self(text))
    }
}

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(pub Digest);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer).map(Hex)
    }
}

fn parsed<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    let Text(text) = Text::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

fn parsed_list<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: std::str::FromStr<Err: fmt::Display> + PartialEq,
{
    struct Parsed<T>(T);
    impl<'de, T: std::str::FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            parsed(deserializer).map(Self)
        }
    }
    let list: Vec<T> = Vec::<Parsed<T>>::deserialize(deserializer)?.into_iter().map(|Parsed(value)| value).collect();
    if list.is_empty() {
        return Err(D::Error::custom("the list is empty"));
    }
    if list.iter().enumerate().any(|(index, value)| list[..index].contains(value)) {
        return Err(D::Error::custom("an entry of the list is given twice"));
    }
    Ok(list)
}

/// Architectures, or `native`.
fn targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Architecture>, D::Error> {
    struct Read;
    impl<'de> Visitor<'de> for Read {
        type Value = Vec<Architecture>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of architectures, or `{NATIVE}`")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            if text == NATIVE { Ok(Vec::new()) } else { Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)) }
        }

        fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Self::Value, A::Error> {
            parsed_list(serde::de::value::SeqAccessDeserializer::new(values))
        }
    }
    deserializer.deserialize_any(Read)
}

/// A map whose keys are all different; serde would silently keep the last of two.
fn unique_map<'de, D: Deserializer<'de>, V: Deserialize<'de>>(deserializer: D) -> Result<IndexMap<String, V>, D::Error> {
    struct Unique<V>(std::marker::PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
        type Value = IndexMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = IndexMap::new();
            while let Some(key) = entries.next_key::<String>()? {
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format!("duplicate key `{key}`")));
                }
                let value = entries.next_value()?;
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Unique(std::marker::PhantomData))
}

/// A path as the file means it: relative to the file's own folder.
pub(crate) fn relative_to(file: &Path, text: &str) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.join(text),
        _ => PathBuf::from(text),
    }
}

/// Names that must differ, with what they name.
pub(crate) fn first_duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeMap::new();
    names.into_iter().find(|name| seen.insert(*name, ()).is_some())
}
