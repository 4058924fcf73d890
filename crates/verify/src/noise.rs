//! The noise floor: what rounding alone makes of a source's logits.

use std::collections::BTreeMap;

use plansmith_tensor::{Session, SessionError};
use serde::{Deserialize, Serialize};

use crate::cache::CapturedCache;
use crate::capture::stored_logits;
use crate::metrics::{Meter, Place};
use crate::verdict::CheckName;
use crate::{Error, Golden, GoldenSet};

/// The least floor of the largest and of the mean difference, in deviations of the source's logits: some steps of fp32 at the magnitude of a
/// logit. A model whose rounded run is exact is not held to nothing.
const LEAST_MAX: f64 = 2e-6;
const LEAST_MEAN: f64 = 2e-7;

/// What rounding did to the logits of one position.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Largest absolute difference.
    pub(crate) max_abs: f32,
    /// Mean absolute difference.
    pub(crate) mean_abs: f32,
    /// KL(source‖rounded), nats.
    pub(crate) kl: f32,
    /// The source's top-1/top-2 margin where rounding flipped the largest logit; else 0.
    pub(crate) flip: f32,
}

/// What rounding alone makes of a check's figures: a candidate of that dtype cannot be expected to be nearer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// As [`crate::Metrics::max_rel`], not below 2e-6.
    pub max_rel: f64,
    /// As [`crate::Metrics::mean_rel`], not below 2e-7.
    pub mean_rel: f64,
    /// As [`crate::Metrics::kl_mean`], not below half the square of the least `mean_rel` in logits. `null` for `cache`.
    pub kl_mean: Option<f64>,
    /// As [`crate::Metrics::kl_max`], not below half the square of the least `max_rel` in logits. `null` for `cache`.
    pub kl_max: Option<f64>,
    /// Largest source margin, in deviations, of a position whose largest logit rounding moved to another entry; 0 where there is none.
    pub flip_margin: f64,
}

/// A rounded run of the source beside its exact one, position by position, over the prompt sets of a [`Golden`].
///
/// Every check takes its floor from the positions that it compares: what rounding does to a position does not depend on whether it came through
/// a cache or a prefill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// By set: `[batch, stored]`; zeros where the mask is 0.
    sets: BTreeMap<String, Vec<Cell>>,
    cache: Option<Floor>,
}

impl Noise {
    /// Runs `rounded` over the prompts of `exact`, whose logits the same source gave unrounded. `scale` is what differences are multiplied by
    /// (divergences by its square): a run rounded to fewer bits than are meant stands for the finer one, since noise is linear where it is small.
    ///
    /// # Errors
    /// The session fails, or gives values that are not finite: rounding then leaves the range of the dtype and there is no floor.
    pub fn measure(rounded: &mut dyn Session, exact: &Golden, cache: Option<&CapturedCache>, scale: f64) -> Result<Self, Error> {
        let mut noise = Self { sets: BTreeMap::new(), cache: None };
        for set in exact.sets() {
            let name = set.prompt().name();
            noise.sets.insert(name.to_owned(), cells(rounded, set, scale)?);
            if let Some(cache) = cache.filter(|cache| cache.prompt().name() == name) {
                noise.cache = Some(cache_floor(rounded, cache, scale)?);
            }
        }
        Ok(noise)
    }

    /// The larger of two noises of the same prompts: of weights that are stored in fewer bits than they are computed with.
    #[must_use]
    pub fn or_larger(mut self, other: &Self) -> Self {
        for (name, cells) in &mut self.sets {
            for (cell, other) in cells.iter_mut().zip(other.sets.get(name).into_iter().flatten()) {
                *cell = cell.or_larger(*other);
            }
        }
        self.cache = match (self.cache, other.cache) {
            (Some(ours), Some(theirs)) => Some(ours.or_larger(theirs)),
            (one, another) => one.or(another),
        };
        self
    }

    /// Whether it has a figure for every stored position of `golden`.
    pub fn covers(&self, golden: &Golden) -> bool {
        let whole = |set: &GoldenSet| {
            let prompt = set.prompt();
            self.sets.get(prompt.name()).is_some_and(|cells| cells.len() == prompt.batch() * prompt.stored())
        };
        golden.sets().iter().all(whole)
    }

    /// Of `row` at the `index`-th stored position of a set.
    pub(crate) fn at(&self, set: &GoldenSet, row: usize, index: usize) -> Option<Cell> {
        self.sets.get(set.prompt().name())?.get(row * set.prompt().stored() + index).copied()
    }

    /// A position as it is on average; its largest difference is the largest of all positions. A check of few positions is not held to less:
    /// theirs may be quiet by chance.
    pub(crate) fn typical(&self) -> Cell {
        let attended = || self.sets.values().flatten().filter(|cell| cell.max_abs > 0.0);
        let count = attended().count().max(1) as f64;
        let mean = |figure: fn(&Cell) -> f32| (attended().map(|cell| f64::from(figure(cell))).sum::<f64>() / count) as f32;
        let largest = attended().map(|cell| cell.max_abs).fold(0.0, f32::max);
        Cell { max_abs: largest, mean_abs: mean(|cell| cell.mean_abs), kl: mean(|cell| cell.kl), flip: 0.0 }
    }

    /// Of keys and values.
    pub(crate) fn cache(&self) -> Option<Floor> {
        self.cache
    }
}

impl Cell {
    fn or_larger(self, other: Self) -> Self {
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            mean_abs: self.mean_abs.max(other.mean_abs),
            kl: self.kl.max(other.kl),
            flip: self.flip.max(other.flip),
        }
    }
}

/// The cells of one set; zeros where the mask is 0.
fn cells(rounded: &mut dyn Session, set: &GoldenSet, scale: f64) -> Result<Vec<Cell>, Error> {
    let prompt = set.prompt();
    let runtime = rounded.runtime();
    let logits = stored_logits(rounded, prompt, set.vocab())?;
    let mut cells = vec![Cell::default(); prompt.batch() * prompt.stored()];
    let mut wanted = Vec::new();
    for (position, cell) in cells.iter_mut().enumerate() {
        let (row, index) = (position / prompt.stored(), position % prompt.stored());
        let column = prompt.column(index);
        if !prompt.attends(row, column) {
            continue;
        }
        set.read(row, index, &mut wanted)?;
        let mut meter = Meter::default();
        meter.add_logits(Place { row, column }, &wanted, logits.at(row, index));
        let metrics = meter.finish();
        if metrics.nonfinite > 0 {
            let problem = format!("{} values that are not finite at row {row}, column {column}, once rounded", metrics.nonfinite);
            return Err(Error::Output { check: CheckName::Prefill, set: prompt.name().to_owned(), runtime, problem });
        }
        let flip = metrics.flips.list().first().map_or(0.0, |flip| flip.margin * metrics.scale);
        let scaled = |value: f64| (value * scale) as f32;
        *cell = Cell {
            max_abs: scaled(metrics.max_abs),
            mean_abs: scaled(metrics.mean_abs),
            kl: scaled(metrics.kl_max.unwrap_or(0.0) * scale),
            flip: scaled(flip),
        };
    }
    Ok(cells)
}

/// Of the cache that `rounded` now holds.
fn cache_floor(rounded: &dyn Session, cache: &CapturedCache, scale: f64) -> Result<Floor, Error> {
    let runtime = rounded.runtime();
    let failed = |source: SessionError| Error::Step { check: CheckName::Cache, set: cache.prompt().name().to_owned(), runtime, source };
    let metrics = cache.compare_with(&rounded.cache().map_err(failed)?, None, runtime)?;
    let (max_rel, mean_rel) = (metrics.max_rel * scale, metrics.mean_rel * scale);
    Ok(Floor { max_rel: max_rel.max(LEAST_MAX), mean_rel: mean_rel.max(LEAST_MEAN), kl_mean: None, kl_max: None, flip_margin: 0.0 })
}

/// The cells of the positions that a check compares.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    typical: Cell,
    count: usize,
    max_abs: f64,
    mean_abs_sum: f64,
    kl_sum: f64,
    kl_max: f64,
    flip: f64,
}

impl Cells {
    /// None so far, of a source whose [`Noise::typical`] is this.
    pub(crate) fn above(typical: Cell) -> Self {
        Self { typical, ..Self::default() }
    }

    pub(crate) fn add(&mut self, cell: Cell) {
        self.count += 1;
        self.max_abs = self.max_abs.max(f64::from(cell.max_abs));
        self.mean_abs_sum += f64::from(cell.mean_abs);
        self.kl_sum += f64::from(cell.kl);
        self.kl_max = self.kl_max.max(f64::from(cell.kl));
        self.flip = self.flip.max(f64::from(cell.flip));
    }

    /// In deviations of `scale` each; `None` where there was no cell.
    pub(crate) fn floor(&self, scale: f64) -> Option<Floor> {
        if self.count == 0 {
            return None;
        }
        let count = self.count as f64;
        let typical = |figure: f32, of: f64| of.max(f64::from(figure));
        let least_kl = |least: f64| 0.5 * (least * scale).powi(2);
        Some(Floor {
            max_rel: (typical(self.typical.max_abs, self.max_abs) / scale).max(LEAST_MAX),
            mean_rel: (typical(self.typical.mean_abs, self.mean_abs_sum / count) / scale).max(LEAST_MEAN),
            kl_mean: Some(typical(self.typical.kl, self.kl_sum / count).max(least_kl(LEAST_MEAN))),
            kl_max: Some(typical(self.typical.kl, self.kl_max).max(least_kl(LEAST_MAX))),
            flip_margin: self.flip / scale,
        })
    }
}

impl Floor {
    /// The larger of each figure.
    pub(crate) fn or_larger(self, other: Self) -> Self {
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        Self {
            max_rel: self.max_rel.max(other.max_rel),
            mean_rel: self.mean_rel.max(other.mean_rel),
            kl_mean: larger(self.kl_mean, other.kl_mean),
            kl_max: larger(self.kl_max, other.kl_max),
            flip_margin: self.flip_margin.max(other.flip_margin),
        }
    }
}
