//! Where a plan's weights are: in it, or in the data file beside it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::{Error, FileRecord, ModelFacts, PlanManifest};

/// What is done with the weights of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// They are in the plan.
    #[default]
    Embedded,
    /// They are in the plan, and the runtime may keep a part of them in host memory.
    Streaming,
    /// They are not in the plan: a map says where in the graph's data files they are, and they are put in when the plan is loaded.
    Stripped,
}

impl Weights {
    /// All.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Streaming, Self::Stripped];

    /// `stripped`, for example.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Streaming => "streaming",
            Self::Stripped => "stripped",
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        *self == Self::Embedded
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Weights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|weights| weights.name() == text).ok_or_else(|| Error::UnknownWeights(text.to_owned()))
    }
}

/// How a plan's weights come from those of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conversion {
    /// Byte for byte.
    None,
    /// Each fp64 is rounded to fp32.
    #[serde(rename = "fp64-to-fp32")]
    DoubleToFloat,
}

/// Where the bytes of a tensor are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Place {
    /// In a data file of the graph.
    File {
        /// Its bare name.
        file: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Here, as they are few: hexadecimal digits.
    Inline(String),
}

/// Inline tensors may have so many bytes.
pub(crate) const MOST_INLINE: usize = 4096;

impl Place {
    /// `bytes` written inline; `None` where they are too many.
    pub fn inline(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MOST_INLINE).then(|| Self::Inline(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => *bytes,
            Self::Inline(digits) => digits.len() as u64 / 2,
        }
    }
}

/// A weight that a stripped plan lacks, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefitRecord {
    /// TensorRT's name of it.
    pub name: String,
    /// The graph's initialiser that it comes from.
    pub tensor: String,
    /// Where that is.
    pub place: Place,
    /// Element type in the plan.
    #[serde(with = "crate::manifest::dtype_name")]
    pub dtype: DType,
    /// Number of elements.
    pub elements: u64,
    /// What is done to them on the way.
    pub conversion: Conversion,
}

/// A weight that the worker took out of a plan, as TensorRT's parser described it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefitWeight {
    /// TensorRT's name of it.
    pub name: String,
    /// The graph's initialiser, or the output of its Constant node.
    pub tensor: String,
    /// Element type in the plan.
    #[serde(with = "crate::manifest::dtype_name")]
    pub dtype: DType,
    /// Number of elements.
    pub elements: u64,
    /// What is done to them on the way.
    pub conversion: Conversion,
    /// The bytes, where the graph has no initialiser for them.
    pub fixed: Option<Place>,
}

/// Puts what the worker took out beside where the graph has it, and checks that both are as long.
///
/// # Errors
/// [`Error::Refit`]: a weight that the graph does not have, or in another size.
pub(crate) fn refit_map(model: &ModelFacts, weights: &[RefitWeight]) -> Result<Vec<RefitRecord>, Error> {
    let record = |weight: &RefitWeight| {
        let refuse = |reason: String| Error::Refit { path: model.path.clone(), weight: weight.name.clone(), reason };
        let place = match &weight.fixed {
            Some(place) => place.clone(),
            None => model.places.get(&weight.tensor).cloned().ok_or_else(|| {
                refuse(format!("it comes from `{}`, which is neither in a data file nor a small constant", weight.tensor))
            })?,
        };
        let source = match weight.conversion {
            Conversion::None => weight.dtype,
            Conversion::DoubleToFloat => DType::F64,
        };
        if source.tensor_bytes(&[weight.elements]) != Some(place.bytes()) {
            let (elements, found) = (weight.elements, place.bytes());
            return Err(refuse(format!("TensorRT takes {elements} elements of {source}, the graph has {found} bytes for them")));
        }
        Ok(RefitRecord {
            name: weight.name.clone(),
            tensor: weight.tensor.clone(),
            place,
            dtype: weight.dtype,
            elements: weight.elements,
            conversion: weight.conversion,
        })
    };
    weights.iter().map(record).collect()
}

/// The way from `folder`, where a stripped plan goes, to the data of its graph; `None` for plans that need none.
///
/// # Errors
/// [`Error::File`]: `folder` is not there.
pub(crate) fn data_folder(weights: Weights, folder: &Path, model: &ModelFacts) -> Result<Option<String>, Error> {
    if weights != Weights::Stripped {
        return Ok(None);
    }
    let way = relative(&plansmith_files::canonicalize(folder)?, model.path.parent().unwrap_or(Path::new("/")));
    Ok(Some(way.to_string_lossy().into_owned()))
}

impl PlanManifest {
    /// The data files that a stripped plan needs, as they lie beside the plan or where they lay when it was built; empty for other plans.
    ///
    /// # Errors
    /// [`Error::Data`]: one is missing, or not as long as the manifest says.
    pub fn data_files(&self, plan: &Path) -> Result<Vec<(PathBuf, &FileRecord)>, Error> {
        if self.weights != Weights::Stripped {
            return Ok(Vec::new());
        }
        let beside = plan.parent().unwrap_or(Path::new(""));
        let find = |record: &'_ FileRecord| {
            let places = [Some(beside.to_owned()), self.data_folder.as_ref().map(|folder| beside.join(folder))];
            let places: Vec<PathBuf> = places.into_iter().flatten().map(|folder| folder.join(&record.name)).collect();
            let refuse = |reason: String| Error::Data { plan: plan.to_owned(), file: record.name.clone(), reason };
            let Some(path) = places.iter().find(|path| plansmith_files::is_file(path)) else {
                let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
                return Err(refuse(format!("is missing; looked at {}", looked.join(" and "))));
            };
            let found = plansmith_files::metadata(path)?.len();
            if found != record.bytes {
                return Err(refuse(format!("has {found} bytes at {}; the plan was built from one of {}", path.display(), record.bytes)));
            }
            Ok(path.clone())
        };
        let used = |record: &&FileRecord| {
            self.refit.iter().any(|weight| matches!(&weight.place, Place::File { file, .. } if *file == record.name))
        };
        self.onnx.data.iter().filter(used).map(|record| Ok((find(record)?, record))).collect()
    }
}

/// The way from `from` to `to`, both absolute and without links.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = from[common..].iter().map(|_| Path::new("..").to_owned());
    up.chain(to[common..].iter().map(|part| PathBuf::from(part.as_os_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_others_are_refused() {
        for weights in Weights::ALL {
            assert_eq!(weights.name().parse::<Weights>().unwrap(), weights);
        }
        assert!("none".parse::<Weights>().unwrap_err().to_string().contains("`embedded`, `streaming` or `stripped`"));
    }

    #[test]
    fn a_way_goes_up_to_the_common_folder_and_down() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(way("/b/engines/rtx/sm86", "/b/onnx"), "../../../onnx");
        assert_eq!(way("/b", "/b/onnx"), "onnx");
        assert_eq!(way("/b/onnx", "/b/onnx"), "");
        assert_eq!(way("/a", "/b"), "../b");
    }
}
