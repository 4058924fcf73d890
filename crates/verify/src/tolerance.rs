//! How far a candidate may be from the source.

use serde::{Deserialize, Serialize};

use crate::metrics::Metrics;
use crate::noise::{Floor, Noise};
use crate::number::{short, unbounded};
use crate::precision::Precision;
use crate::verdict::{CheckSet, OracleKind};

/// How often a candidate may exceed the floor; divergences by its square.
///
/// Measured: see docs/verify.md.
pub(crate) const FACTOR_FP32: f64 = 12.0;
/// The same where the candidate rounds to 16 bits.
pub(crate) const FACTOR_16_BITS: f64 = 4.0;
/// Mean differences by which the source's first logit must lead its second for rounding not to swap them.
const DECIDED: f64 = 4.0;
/// What golden logits in fp32 and a candidate in fp32 may differ by at most, whatever the floor.
const GOLDEN_FP32: f64 = 1e-4;

/// Where the limits of a comparison come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Made for the dtype, measured on one model: [`Tolerance::of`].
    #[default]
    Fixed,
    /// A factor times this model's own noise floor.
    Calibrated,
    /// Given by the user.
    Given,
}

/// The limits of one comparison. In JSON an infinite one, which limits nothing, is `null`.
///
/// Why the fixed figures. `max_rel` and `mean_rel` are in standard deviations of the source's logits, which makes them independent of a
/// model's logit scale (Granite's are 40 times smaller than GPT-2's).
///
/// - **fp32**: two right implementations of one model differ by the order of their sums. transformers in fp32 against itself in fp64 on
///   SmolLM2-135M (30 layers, prompts of random ids, 7 to 160 tokens) is within 4e-5 of the deviation at the worst of 7 million logits; a plausible
///   misreading of a config is off by 0.7 to 43. `max_rel` 1e-4 stands between, and bounds KL by about ½(1e-4·σ)², 5e-7 for σ = 10: `kl_max`
///   is that with an allowance for larger σ. A top-1 flip counts where the source's margin is over 2·1e-4: closer ones are ties.
/// - **fp16, bf16**: measured with the same model, transformers in that dtype against its fp32, worst of four prompts. fp16: `max_rel` 0.62,
///   mean 0.013, KL mean 1.4e-3, max 0.043, flips only where the margin is under 0.004. bf16: 4.3, 0.15, 0.030, 1.2, 0.031. The maxima come
///   from single positions where attention is nearly tied and rounding decides; means grow with the unit roundoff, so a fault shows in
///   `mean_rel` and `kl_mean` long before it shows in a maximum. Limits are two to twelve times what was measured. They are wide: an error
///   below them is not proved to be rounding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// The rounding these limits are made for.
    pub precision: Precision,
    /// Where they come from.
    #[serde(default)]
    pub basis: Basis,
    /// What the floor was multiplied by; `null` where there was none.
    #[serde(default)]
    pub factor: Option<f64>,
    /// Limit of [`Metrics::max_abs`], in logits.
    #[serde(default = "unbounded::none", with = "unbounded")]
    pub max_abs: f64,
    /// Limit of [`Metrics::max_rel`].
    #[serde(with = "unbounded")]
    pub max_rel: f64,
    /// Limit of the mean absolute difference over the same deviation.
    #[serde(with = "unbounded")]
    pub mean_rel: f64,
    /// Limit of [`Metrics::kl_mean`], nats.
    #[serde(with = "unbounded")]
    pub kl_mean: f64,
    /// Limit of [`Metrics::kl_max`], nats.
    #[serde(with = "unbounded")]
    pub kl_max: f64,
    /// Source deviations by which the source's first logit must lead its second for the position to count as decided.
    pub margin: f64,
    /// Least share of the decided positions whose largest logit is the source's.
    pub min_top1: f64,
}

/// Limits given by the user. A check that any of them applies to is held to these alone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Largest absolute difference of logits, or of keys and values.
    pub max_abs: Option<f64>,
    /// Largest KL(source‖candidate) of a position, nats.
    pub max_kl: Option<f64>,
    /// Least share of positions whose largest logit is the source's, those left out where the source's two largest are equal.
    pub min_top1: Option<f64>,
    /// Checks that are not to be made, on the user's word.
    pub without: CheckSet,
}

/// What a candidate is held against.
#[derive(Debug, Clone, Copy)]
pub struct Standard<'a> {
    /// The coarsest rounding between source and candidate.
    pub precision: Precision,
    /// What the user set.
    pub limits: Limits,
    /// What rounding does to the prompts of the golden; `None` falls back to fixed limits.
    pub golden: Option<&'a Noise>,
    /// What rounding does to the prompts of the reference; `None` falls back to fixed limits.
    pub reference: Option<&'a Noise>,
}

impl Limits {
    /// Whether there is any on a figure.
    pub fn is_given(&self) -> bool {
        *self != Self { without: self.without, ..Self::default() }
    }
}

impl<'a> Standard<'a> {
    /// Fixed limits.
    pub fn fixed(precision: Precision) -> Self {
        Self { precision, limits: Limits::default(), golden: None, reference: None }
    }

    pub(crate) fn noise(&self, oracle: OracleKind) -> Option<&'a Noise> {
        match oracle {
            OracleKind::Golden => self.golden,
            OracleKind::Reference => self.reference,
        }
    }

    /// The limits of a check that has `metrics`.
    pub(crate) fn tolerance(&self, oracle: OracleKind, metrics: &Metrics) -> Tolerance {
        let calibrated = match (&metrics.floor, oracle) {
            (Some(floor), _) => Tolerance::above(self.precision, floor, oracle),
            (None, OracleKind::Golden) => Tolerance::of(self.precision),
            (None, OracleKind::Reference) => Tolerance::of(self.precision).between_two_roundings(),
        };
        let is_distribution = metrics.kl_max.is_some();
        let Limits { max_abs, max_kl, min_top1, .. } = self.limits;
        if max_abs.is_none() && !(is_distribution && self.limits.is_given()) {
            return calibrated;
        }
        Tolerance {
            basis: Basis::Given,
            max_abs: max_abs.unwrap_or(f64::INFINITY),
            kl_max: max_kl.unwrap_or(f64::INFINITY),
            min_top1: min_top1.unwrap_or(0.0),
            ..Tolerance::none(self.precision)
        }
    }
}

impl Tolerance {
    /// No limit at all.
    fn none(precision: Precision) -> Self {
        let all = f64::INFINITY;
        let (basis, factor) = (Basis::Fixed, None);
        Self { precision, basis, factor, max_abs: all, max_rel: all, mean_rel: all, kl_mean: all, kl_max: all, margin: 0.0, min_top1: 0.0 }
    }

    /// The fixed limits for `precision`.
    pub fn of(precision: Precision) -> Self {
        let (max_rel, mean_rel, kl_mean, kl_max, margin, min_top1) = match precision {
            Precision::Fp32 => (1e-4, 2e-5, 1e-6, 1e-5, 2e-4, 1.0),
            Precision::Fp16 => (2.0, 0.05, 5e-3, 0.5, 0.05, 0.98),
            Precision::Bf16 => (12.0, 0.3, 0.1, 5.0, 0.25, 0.95),
            Precision::Unknown => return Self::none(precision),
        };
        Self { max_rel, mean_rel, kl_mean, kl_max, margin, min_top1, ..Self::none(precision) }
    }

    /// A factor times the floor.
    pub(crate) fn above(precision: Precision, floor: &Floor, oracle: OracleKind) -> Self {
        let factor = if precision == Precision::Fp32 { FACTOR_FP32 } else { FACTOR_16_BITS };
        let fixed = Self::of(precision);
        let square = |kl: Option<f64>| kl.map_or(f64::INFINITY, |kl| factor * factor * kl);
        let most = if precision == Precision::Fp32 && oracle == OracleKind::Golden { GOLDEN_FP32 } else { f64::INFINITY };
        Self {
            basis: Basis::Calibrated,
            factor: Some(factor),
            max_rel: (factor * floor.max_rel).min(most),
            mean_rel: factor * floor.mean_rel,
            kl_mean: square(floor.kl_mean),
            kl_max: square(floor.kl_max),
            margin: (2.0 * floor.flip_margin).max(factor * DECIDED * floor.mean_rel),
            ..fixed
        }
    }

    /// The fixed limits against a source that rounds as the candidate does: the built-in reference in fp32. Its own error adds to the
    /// candidate's, so `max_rel`, `mean_rel` and the margin are twice as wide at fp32; with 16 bits the candidate's rounding is all that counts.
    ///
    /// Measured on SmolLM2-135M in bf16 storage: ONNX Runtime is 1.3e-5 from transformers and up to 1.1e-4 from the reference, at one early
    /// position of a prompt of random ids.
    pub fn between_two_roundings(&self) -> Self {
        let factor = if self.precision == Precision::Fp32 { 2.0 } else { 1.0 };
        Self { max_rel: factor * self.max_rel, mean_rel: factor * self.mean_rel, margin: factor * self.margin, ..self.clone() }
    }

    /// What of `metrics` is outside, with both sides; empty where all is within. Something that is not a number is outside.
    pub fn failures(&self, metrics: &Metrics) -> Vec<String> {
        let mut failures = Vec::new();
        if metrics.positions == 0 {
            failures.push("nothing was compared".to_owned());
        }
        if metrics.nonfinite > 0 {
            failures.push(format!("{} values are NaN or infinite", metrics.nonfinite));
        }
        let mut at_most = |name: &str, value: Option<f64>, limit: f64, floor: Option<f64>| {
            if let Some(value) = value
                && (value > limit || value.is_nan())
            {
                let floor = floor.filter(|_| self.basis == Basis::Calibrated);
                let floor = floor.map(|floor| format!(" (floor {floor:.1e})")).unwrap_or_default();
                failures.push(format!("{name} {value:.2e} exceeds {:e}{floor}", short(limit)));
            }
        };
        let floor = metrics.floor;
        at_most("max_abs", Some(metrics.max_abs), self.max_abs, None);
        at_most("max_rel", Some(metrics.max_rel), self.max_rel, floor.map(|floor| floor.max_rel));
        at_most("mean_rel", Some(metrics.mean_rel), self.mean_rel, floor.map(|floor| floor.mean_rel));
        at_most("kl_mean", metrics.kl_mean, self.kl_mean, floor.and_then(|floor| floor.kl_mean));
        at_most("kl_max", metrics.kl_max, self.kl_max, floor.and_then(|floor| floor.kl_max));
        let (decided, flips) = metrics.decided(self.margin);
        let agreeing = decided - flips;
        if (agreeing as f64) < self.min_top1 * decided as f64 {
            let (margin, least) = (short(self.margin), short(self.min_top1 * 100.0));
            failures.push(format!(
                "top-1 agrees at {agreeing} of {decided} positions decided by over {margin:e} deviations; {least} % of them are needed"
            ));
        }
        failures
    }
}

impl Floor {
    /// How many times the floor `metrics` is at its worst figure; of divergences the root, since they grow with the square.
    pub(crate) fn ratio(&self, metrics: &Metrics) -> f64 {
        let root = |value: Option<f64>, floor: Option<f64>| value.zip(floor).map_or(0.0, |(value, floor)| (value / floor).sqrt());
        [
            metrics.max_rel / self.max_rel,
            metrics.mean_rel / self.mean_rel,
            root(metrics.kl_mean, self.kl_mean),
            root(metrics.kl_max, self.kl_max),
        ]
        .into_iter()
        .fold(0.0, |worst, ratio| if ratio.is_nan() || ratio > worst { ratio } else { worst })
    }
}

#[cfg(test)]
mod tests;
