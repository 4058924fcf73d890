//! How far a candidate may be from the source.

use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::label::dtype_label;
use crate::metrics::Metrics;

/// The coarsest rounding between source and candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 24-bit significands: unit roundoff 6.0e-8.
    Fp32,
    /// 11-bit significands: unit roundoff 4.9e-4.
    Fp16,
    /// 8-bit significands: unit roundoff 3.9e-3.
    Bf16,
}

impl Precision {
    fn of_float(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 | DType::F64 => Some(Self::Fp32),
            DType::F16 => Some(Self::Fp16),
            DType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// What rounds between a source stored in `source` and a candidate: its `compute` dtype, and its `storage` dtype where that is not the
    /// source's own (a bf16 checkpoint computed in fp32 is held to fp32; one stored anew as fp16 is held to fp16).
    ///
    /// # Errors
    /// A dtype that no tolerance is known for, by name: quantised weights.
    pub fn between(source: DType, storage: DType, compute: DType) -> Result<Self, String> {
        let known = |role: &str, dtype: DType| {
            Self::of_float(dtype).ok_or_else(|| format!("no tolerance is known for {role} in {}: give limits", dtype_label(dtype)))
        };
        let compute = known("computing", compute)?;
        if storage == source { Ok(compute) } else { Ok(compute.max(known("storing", storage)?)) }
    }
}

/// The limits of one comparison. Every field may be set by hand.
///
/// Why these figures. `max_rel` and `mean_rel` are in standard deviations of the source's logits, which makes them independent of a
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
    /// Limit of [`Metrics::max_rel`].
    pub max_rel: f64,
    /// Limit of the mean absolute difference over the same deviation.
    pub mean_rel: f64,
    /// Limit of [`Metrics::kl_mean`], nats.
    pub kl_mean: f64,
    /// Limit of [`Metrics::kl_max`], nats.
    pub kl_max: f64,
    /// Source deviations by which the source's first logit must lead its second for the position to count as decided.
    pub margin: f64,
    /// Least share of the decided positions whose largest logit is the source's.
    pub min_top1: f64,
}

impl Tolerance {
    /// The limits for `precision`.
    pub fn of(precision: Precision) -> Self {
        let (max_rel, mean_rel, kl_mean, kl_max, margin, min_top1) = match precision {
            Precision::Fp32 => (1e-4, 2e-5, 1e-6, 1e-5, 2e-4, 1.0),
            Precision::Fp16 => (2.0, 0.05, 5e-3, 0.5, 0.05, 0.98),
            Precision::Bf16 => (12.0, 0.3, 0.1, 5.0, 0.25, 0.95),
        };
        Self { precision, max_rel, mean_rel, kl_mean, kl_max, margin, min_top1 }
    }

    /// The limits against a source that rounds as the candidate does: the built-in reference in fp32. Its own error adds to the candidate's,
    /// so `max_rel`, `mean_rel` and the margin are twice as wide at fp32; with 16 bits the candidate's rounding is all that counts.
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
        let mut at_most = |name: &str, value: Option<f64>, limit: f64| {
            if let Some(value) = value
                && (value > limit || value.is_nan())
            {
                failures.push(format!("{name} {value:.2e} exceeds {limit:e}"));
            }
        };
        at_most("max_rel", Some(metrics.max_rel), self.max_rel);
        at_most("mean_rel", Some(metrics.mean_rel), self.mean_rel);
        at_most("kl_mean", metrics.kl_mean, self.kl_mean);
        at_most("kl_max", metrics.kl_max, self.kl_max);
        let agreeing = metrics.decided - metrics.decided_flips;
        if (agreeing as f64) < self.min_top1 * metrics.decided as f64 {
            let (decided, margin, least) = (metrics.decided, self.margin, self.min_top1);
            failures.push(format!(
                "top-1 agrees at {agreeing} of {decided} positions decided by over {margin:e} deviations; {least} is needed"
            ));
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precision_is_that_of_the_coarsest_rounding() {
        use DType::{BF16, F16, F32, I8};
        let cases = [
            ((F32, F32, F32), Precision::Fp32),
            ((BF16, BF16, F32), Precision::Fp32),
            ((BF16, F32, F32), Precision::Fp32),
            ((F32, F16, F32), Precision::Fp16),
            ((BF16, F16, F32), Precision::Fp16),
            ((F32, F16, F16), Precision::Fp16),
            ((F32, BF16, F16), Precision::Bf16),
            ((BF16, BF16, BF16), Precision::Bf16),
            ((F32, F32, F16), Precision::Fp16),
        ];
        for ((source, storage, compute), wanted) in cases {
            assert_eq!(Precision::between(source, storage, compute), Ok(wanted), "{source} {storage} {compute}");
        }
        assert_eq!(Precision::between(F32, I8, F32), Err("no tolerance is known for storing in int8: give limits".to_owned()));
    }

    #[test]
    fn a_nan_figure_is_outside() {
        let metrics = Metrics { max_rel: f64::NAN, positions: 1, ..Metrics::default() };
        assert_eq!(Tolerance::of(Precision::Bf16).failures(&metrics), ["max_rel NaN exceeds 1.2e1"]);
        assert_eq!(Tolerance::of(Precision::Bf16).failures(&Metrics::default()), ["nothing was compared"]);
    }
}
