//! Where the graph's initializers lie: in the checkpoint's own files, or in one converted file.

use std::collections::HashMap;

use plansmith_checkpoint::{Checkpoint, Layout, Planned, layout};
use plansmith_families::DecoderSpec;
use plansmith_tensor::DType;

use crate::{Error, Float, Target, WeightNames};

/// One stored tensor, as the graph refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// How it is stored in the file that the graph points into.
    pub dtype: Float,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Bare file name.
    pub location: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// A file of the checkpoint's that the graph points into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Index into `Checkpoint::files`.
    pub index: usize,
    /// Its bare name beside the graph.
    pub name: String,
}

/// Which files hold the weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WeightFiles {
    /// The checkpoint's own, byte for byte.
    Source(Vec<SourceFile>),
    /// One new file.
    Converted {
        /// Its bare name.
        name: String,
        /// What goes into it.
        plan: Vec<Planned>,
        /// Where.
        layout: Layout,
    },
}

impl WeightFiles {
    /// Bytes that are read to write them anew; [`crate::export`] reports how many of these are done.
    ///
    /// # Errors
    /// The checkpoint lacks a tensor.
    pub fn read_bytes(&self, checkpoint: &Checkpoint) -> Result<u64, Error> {
        match self {
            Self::Source(files) => Ok(files.iter().map(|file| checkpoint.files()[file.index].size).sum()),
            Self::Converted { plan, .. } => {
                let sizes = plan.iter().map(|planned| Ok(checkpoint.tensor(&planned.source)?.bytes));
                sizes.sum::<Result<u64, plansmith_checkpoint::Error>>().map_err(Error::from)
            }
        }
    }
}

/// All weights of a spec under a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightTable {
    /// By tensor name.
    pub tensors: HashMap<String, Stored>,
    /// Which files hold them.
    pub files: WeightFiles,
    /// The storage that most bytes have: what `compute` defaults to.
    pub storage: Float,
}

impl WeightTable {
    /// Decides where each weight of `spec` will lie. Reads no payload.
    ///
    /// # Errors
    /// A weight is stored in a type that graphs do not compute in and no conversion was asked for.
    pub fn new(spec: &DecoderSpec, checkpoint: &Checkpoint, target: &Target) -> Result<Self, Error> {
        let mut names: Vec<&str> = spec.weights().into_iter().map(|weight| weight.name.as_str()).collect();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(*name));
        let as_stored = |wanted: Option<Float>| -> Result<bool, Error> {
            let Some(wanted) = wanted else { return Ok(true) };
            for name in &names {
                if checkpoint.tensor(name)?.dtype != wanted.dtype() {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match target.storage {
            Some(storage) if !as_stored(target.storage)? => Self::converted(&names, checkpoint, storage, target.weight_names),
            _ => Self::source(&names, checkpoint, target.weight_names),
        }
    }

    fn source(names: &[&str], checkpoint: &Checkpoint, called: WeightNames) -> Result<Self, Error> {
        let mut tensors = HashMap::new();
        let mut used = Vec::new();
        for &name in names {
            used.push(checkpoint.tensor(name)?.file);
        }
        used.sort_unstable();
        used.dedup();
        let file = |(at, index): (usize, usize)| SourceFile { index, name: called.name("model.onnx", at, &checkpoint.files()[index].name) };
        let files: Vec<SourceFile> = used.into_iter().enumerate().map(file).collect();
        let name_of: HashMap<usize, &str> = files.iter().map(|file| (file.index, file.name.as_str())).collect();
        let mut bytes_of = HashMap::<Float, u64>::new();
        for &name in names {
            let tensor = checkpoint.tensor(name)?;
            let dtype = float(name, tensor.dtype)?;
            *bytes_of.entry(dtype).or_default() += tensor.bytes;
            let location = name_of[&tensor.file].to_owned();
            let stored = Stored { dtype, shape: tensor.shape.clone(), location, offset: tensor.offset, bytes: tensor.bytes };
            tensors.insert(name.to_owned(), stored);
        }
        // Ties go to the wider type, so that nothing is computed in less than it is stored in.
        let widest = |float: Float| (float == Float::Fp32) as u8;
        let storage = bytes_of.into_iter().max_by_key(|&(float, bytes)| (bytes, widest(float), float as u8));
        let storage = storage.map_or(Float::Fp32, |(float, _)| float);
        Ok(Self { tensors, files: WeightFiles::Source(files), storage })
    }

    fn converted(names: &[&str], checkpoint: &Checkpoint, storage: Float, called: WeightNames) -> Result<Self, Error> {
        let planned = |name: &&str| Planned { name: (*name).to_owned(), source: (*name).to_owned(), dtype: storage.dtype() };
        let plan: Vec<Planned> = names.iter().map(planned).collect();
        let layout = layout(&plan, checkpoint)?;
        let mut stem = format!("model_{storage}");
        // The source's own file of that name stays what it is.
        while checkpoint.files().iter().any(|file| file.name == format!("{stem}.safetensors")) {
            stem.push_str("_converted");
        }
        let file = called.name(&format!("{stem}.onnx"), 0, &format!("{stem}.safetensors"));
        let place = |(name, tensor): (&String, &plansmith_checkpoint::ConvertedTensor)| {
            let (shape, location) = (tensor.shape.clone(), file.clone());
            (name.clone(), Stored { dtype: storage, shape, location, offset: tensor.offset, bytes: tensor.bytes })
        };
        let tensors = layout.tensors.iter().map(place).collect();
        Ok(Self { tensors, files: WeightFiles::Converted { name: file, plan, layout }, storage })
    }
}

fn float(name: &str, dtype: DType) -> Result<Float, Error> {
    Float::of(dtype).ok_or_else(|| Error::Storage { name: name.to_owned(), dtype })
}
