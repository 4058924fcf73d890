//! The noise floors of a run: the reference rounded as a candidate rounds, once for all candidates of a kind.

use std::path::Path;

use plansmith_files::write_atomic;
use plansmith_lowering::Source;
use plansmith_reference::{Reference, Rounding, Significand};
use plansmith_tensor::DType;
use plansmith_verify::{Capture, Golden, Keep, Noise, Precision, Prompts, REFERENCE_PRODUCER};
use serde::{Deserialize, Serialize};

use crate::Error;

/// File name in a bundle.
pub(crate) const NOISE_NAME: &str = "noise.json";
const SCHEMA_VERSION: u32 = 1;

/// Significand bits that stand for fp32's 24. The noise of 24 is taken to be 2⁻⁸ of what is measured with 16, which is far above what the reference
/// itself loses in fp32, and small enough to be linear: divergences go with the square. Sums of products are not rounded, so that a runtime in
/// fp32 has a few times as much (measured: transformers 2.3 to 5 times).
///
/// The larger of two runs counts, since one may be quiet by chance where a single nearly tied attention decides.
const FINE: [u32; 2] = [16, 15];

/// What a candidate rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kind {
    /// How weights are stored, where that rounds those of the source.
    storage: Option<Precision>,
    /// What is computed in.
    compute: Precision,
    /// Whether attention scores are stored in it.
    scores: bool,
}

impl Kind {
    /// Of a candidate whose source is stored in `stored`; `None` for quantised weights.
    pub(crate) fn of(stored: DType, storage: DType, compute: DType, scores: bool) -> Option<Self> {
        let (compute, narrow) = (Precision::of_float(compute)?, Precision::of_float(storage)?);
        let rounds = storage != stored && narrow != Precision::Fp32;
        Some(Self { storage: rounds.then_some(narrow), compute, scores: scores && compute != Precision::Fp32 })
    }

    pub(crate) fn fp32() -> Self {
        Self { storage: None, compute: Precision::Fp32, scores: false }
    }
}

/// Of the prompts of each oracle.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) reference: Option<Noise>,
    pub(crate) golden: Option<Noise>,
}

/// What can be measured where the source is at hand.
pub(crate) struct Measure<'a> {
    source: &'a Source,
    capture: &'a Capture,
    /// The reference's own logits for the prompts of a golden made elsewhere.
    golden: Option<Golden>,
}

/// Floors measured so far, by kind; `None` where rounding leaves the dtype's range.
pub(crate) struct Floors<'a> {
    /// How the source's weights are stored.
    pub(crate) stored: DType,
    measure: Option<Measure<'a>>,
    known: Vec<(Kind, Option<Pair>)>,
}

impl<'a> Floors<'a> {
    /// Those of a source. `golden` is one made elsewhere.
    pub(crate) fn new(source: &'a Source, reference: &mut Reference, capture: &'a Capture, golden: Option<&Golden>) -> Self {
        let spec = &source.loaded.spec;
        let stored = source.checkpoint.get(&spec.embedding.weight.name).map_or(DType::F32, |tensor| tensor.dtype);
        // Where the reference cannot run its prompts, comparing it with the golden says so.
        let of_golden = golden.and_then(|golden| {
            let prompts = Prompts::new(golden.sets().iter().map(|set| set.prompt().clone()).collect()).ok()?;
            let capture = Capture::record(reference, &prompts, golden.vocab(), Keep::Memory, REFERENCE_PRODUCER, &mut |_| ());
            capture.ok().map(|capture| capture.golden)
        });
        Self { stored, measure: Some(Measure { source, capture, golden: of_golden }), known: Vec::new() }
    }

    /// Measures the floor of `kind`, unless that was done or cannot be done.
    ///
    /// # Errors
    /// The source cannot be opened.
    pub(crate) fn prepare(&mut self, kind: Kind) -> Result<(), Error> {
        let Some(measure) = &self.measure else { return Ok(()) };
        if self.known.iter().any(|(known, _)| *known == kind) {
            return Ok(());
        }
        let pair = match (kind.compute, kind.storage) {
            (Precision::Fp32, None) => {
                let fine = |bits: u32| {
                    let rounding = Rounding { weights: None, activations: Some(Significand::Bits(bits)), scores: true };
                    measure.pair(rounding, 2f64.powi(bits as i32 - 24))
                };
                let (one, other) = (fine(FINE[0])?, fine(FINE[1])?);
                one.zip(other).map(|(one, other)| one.or_larger(&other))
            }
            (Precision::Fp32, Some(storage)) => {
                self.prepare(Kind::fp32())?;
                let Some(measure) = &self.measure else { return Ok(()) };
                let weights = measure.pair(Rounding { weights: significand(storage), ..Rounding::default() }, 1.0)?;
                weights.zip(self.get(Kind::fp32())).map(|(weights, fine)| weights.or_larger(fine))
            }
            (compute, storage) => {
                let weights = storage.unwrap_or(compute).max(compute);
                measure.pair(Rounding { weights: significand(weights), activations: significand(compute), scores: kind.scores }, 1.0)?
            }
        };
        self.known.push((kind, pair));
        Ok(())
    }

    /// Whether the floor of `kind` can be known here: a bundle has those of its own artifacts, and no source to measure others.
    pub(crate) fn can_know(&self, kind: Kind) -> bool {
        self.measure.is_some() || self.known.iter().any(|(known, _)| *known == kind)
    }

    /// The floor of `kind`, if there is one.
    pub(crate) fn get(&self, kind: Kind) -> Option<&Pair> {
        self.known.iter().find(|(known, _)| *known == kind).and_then(|(_, pair)| pair.as_ref())
    }

    /// Writes what is known of the oracle that a bundle holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path, of_golden: bool) -> Result<(), Error> {
        let noise = |pair: &Pair| if of_golden { pair.golden.clone() } else { pair.reference.clone() };
        let run = |(kind, pair): &(Kind, Option<Pair>)| Some(Run { kind: *kind, noise: pair.as_ref().and_then(noise)? });
        let file = File {
            schema_version: SCHEMA_VERSION,
            stored: self.stored.name().to_owned(),
            runs: self.known.iter().filter_map(run).collect(),
        };
        let text = serde_json::to_string(&file).map_err(|error| Error::Bundle { path: path.to_owned(), problem: error.to_string() })?;
        Ok(write_atomic(path, text.as_bytes())?)
    }

    /// Those that a bundle holds, of its own logits; none where it has no such file. `stored` is how its source was stored as far as is known.
    ///
    /// # Errors
    /// The file is there and cannot be read, is no such file, or is of other prompts than `golden`.
    pub(crate) fn read(path: &Path, golden: &Golden, stored: DType) -> Result<Self, Error> {
        if !path.exists() {
            return Ok(Self { stored, measure: None, known: Vec::new() });
        }
        let refuse = |problem: String| Error::Bundle { path: path.to_owned(), problem };
        let file: File = serde_json::from_slice(&plansmith_files::read(path)?).map_err(|error| refuse(error.to_string()))?;
        if file.schema_version != SCHEMA_VERSION {
            return Err(refuse(format!("schema_version is {}; this plansmith reads {SCHEMA_VERSION}", file.schema_version)));
        }
        if let Some(run) = file.runs.iter().find(|run| !run.noise.covers(golden)) {
            return Err(refuse(format!("the noise of {:?} is not of the prompts in golden.safetensors", run.kind)));
        }
        let stored = file.stored.parse().map_err(|error| refuse(format!("stored: {error}")))?;
        let pair = |run: Run| (run.kind, Some(Pair { reference: None, golden: Some(run.noise) }));
        Ok(Self { stored, measure: None, known: file.runs.into_iter().map(pair).collect() })
    }
}

impl Measure<'_> {
    /// `None` where rounding leaves the dtype's range.
    fn pair(&self, rounding: Rounding, scale: f64) -> Result<Option<Pair>, Error> {
        let mut rounded = Reference::open_rounded(self.source.loaded.spec.clone(), &self.source.checkpoint, rounding)?;
        let Capture { golden, cache } = self.capture;
        let Ok(reference) = Noise::measure(&mut rounded, golden, Some(cache), scale) else { return Ok(None) };
        let golden = self.golden.as_ref().and_then(|golden| Noise::measure(&mut rounded, golden, None, scale).ok());
        Ok(Some(Pair { reference: Some(reference), golden }))
    }
}

impl Pair {
    fn or_larger(self, other: &Self) -> Self {
        let larger = |ours: Option<Noise>, theirs: &Option<Noise>| ours.zip(theirs.as_ref()).map(|(ours, theirs)| ours.or_larger(theirs));
        Self { reference: larger(self.reference, &other.reference), golden: larger(self.golden, &other.golden) }
    }
}

fn significand(precision: Precision) -> Option<Significand> {
    match precision {
        Precision::Fp16 => Some(Significand::Fp16),
        Precision::Bf16 => Some(Significand::Bf16),
        Precision::Fp32 | Precision::Unknown => None,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    stored: String,
    runs: Vec<Run>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    #[serde(flatten)]
    kind: Kind,
    noise: Noise,
}
