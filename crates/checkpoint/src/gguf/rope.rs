//! How positions are scaled: from metadata keys and `rope_freqs.weight` to transformers' `rope_parameters`.

use serde::Serialize;

use super::error::Problem;
use super::metadata::Metadata;

const TYPE: &str = "llama.rope.scaling.type";
const FACTOR: &str = "llama.rope.scaling.factor";
/// What `FACTOR` was called before.
const OLD_FACTOR: &str = "llama.rope.scale_linear";
/// The tensor of divisors, one for each pair of a head.
pub(super) const FACTORS: &str = "rope_freqs.weight";

/// `rope_parameters` of a config.json, as transformers 5 lays it out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rope_type", rename_all = "lowercase")]
pub(super) enum Rope {
    Default { rope_theta: f64 },
    Linear { rope_theta: f64, factor: f64 },
    Llama3 { rope_theta: f64, factor: f64, low_freq_factor: f64, high_freq_factor: f64, original_max_position_embeddings: u64 },
}

/// `rope_scaling`, as transformers 4 lays it out; where nothing is scaled it has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "rope_type", rename_all = "lowercase")]
pub(super) enum Scaling {
    Linear { factor: f64 },
    Llama3 { factor: f64, low_freq_factor: f64, high_freq_factor: f64, original_max_position_embeddings: u64 },
}

impl Rope {
    pub(super) fn theta(&self) -> f64 {
        let (Self::Default { rope_theta } | Self::Linear { rope_theta, .. } | Self::Llama3 { rope_theta, .. }) = *self;
        rope_theta
    }

    pub(super) fn scaling(&self) -> Option<Scaling> {
        match *self {
            Self::Default { .. } => None,
            Self::Linear { factor, .. } => Some(Scaling::Linear { factor }),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings, .. } => {
                Some(Scaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings })
            }
        }
    }
}

/// Reads the keys; `factors` is what `rope_freqs.weight` holds, where the file has it.
pub(super) fn read(metadata: Metadata<'_>, head_dim: u64, factors: Option<&[f32]>) -> Result<Rope, Problem> {
    let rope_theta = metadata.float("llama.rope.freq_base")?.unwrap_or(10_000.0);
    if rope_theta <= 0.0 {
        return Err(refused("llama.rope.freq_base", rope_theta, "the base of the rotation must be positive"));
    }
    let factor_key = if metadata.get(FACTOR).is_some() { FACTOR } else { OLD_FACTOR };
    // Zero and one both mean that nothing is scaled, and a factor without a type is linear: llama.cpp, `load_hparams`.
    let factor = metadata.float(factor_key)?.filter(|&factor| factor != 0.0 && factor != 1.0);
    let linear = match metadata.text(TYPE)? {
        None | Some("linear") => factor,
        Some("none") => None,
        Some(other) => return Err(refused(TYPE, format!("{other:?}"), "only `none` and `linear` scaling are imported")),
    };
    match (linear, factors) {
        (None, None) => Ok(Rope::Default { rope_theta }),
        (Some(factor), None) if factor > 0.0 => Ok(Rope::Linear { rope_theta, factor }),
        (Some(factor), None) => Err(refused(factor_key, factor, "the factor must be positive")),
        (None, Some(factors)) => llama3(rope_theta, head_dim, factors),
        (Some(_), Some(_)) => Err(Problem::RopeFactors("comes together with linear scaling; no config can say both".to_owned())),
    }
}

fn refused(key: &str, value: impl ToString, reason: &str) -> Problem {
    Problem::Key { key: key.to_owned(), value: value.to_string(), reason: reason.to_owned() }
}

/// The constants of every published Llama 3.1, 3.2 and 3.3 but the factor: `low_freq_factor`, `high_freq_factor`, original context.
const LOW: f32 = 1.0;
const HIGH: f32 = 4.0;
const ORIGINAL: u64 = 8192;

/// Two libraries' powers differ in the last bits of fp32; a wrong constant moves the blended divisors by percents.
const TOLERANCE: f32 = 1e-6;

/// Finds the llama3 parameters that these divisors were computed from.
///
/// The tensor does not state them, so they are tried: the factor is the largest divisor, the rest are `LOW`, `HIGH` and `ORIGINAL`;
/// every divisor must come out again.
fn llama3(rope_theta: f64, head_dim: u64, found: &[f32]) -> Result<Rope, Problem> {
    let pairs = head_dim / 2;
    if found.len() as u64 != pairs {
        return Err(Problem::RopeFactors(format!("has {} divisors; head_dim {head_dim} implies {pairs}", found.len())));
    }
    let factor = found.iter().copied().fold(f32::MIN, f32::max);
    for (pair, &divisor) in found.iter().enumerate() {
        let expected = llama3_divisor(rope_theta as f32, head_dim as f32, pair as f32, factor);
        // Written so that NaN does not pass.
        let agrees = (divisor - expected).abs() <= TOLERANCE * expected;
        if !agrees {
            return Err(Problem::RopeFactors(format!(
                "is not the one of llama3 scaling with factor {factor}, low_freq_factor {LOW}, high_freq_factor {HIGH} and original \
                 context {ORIGINAL}: divisor {pair} is {divisor}, not {expected}"
            )));
        }
    }
    Ok(Rope::Llama3 {
        rope_theta,
        factor: factor.into(),
        low_freq_factor: LOW.into(),
        high_freq_factor: HIGH.into(),
        original_max_position_embeddings: ORIGINAL,
    })
}

/// The divisor of pair `pair`'s frequency. Source: transformers `modeling_rope_utils.py`, `_compute_llama3_parameters`.
fn llama3_divisor(theta: f32, head_dim: f32, pair: f32, factor: f32) -> f32 {
    let wavelength = std::f32::consts::TAU * theta.powf(2.0 * pair / head_dim);
    let original = ORIGINAL as f32;
    if wavelength < original / HIGH {
        1.0
    } else if wavelength > original / LOW {
        factor
    } else {
        let smooth = (original / wavelength - LOW) / (HIGH - LOW);
        1.0 / ((1.0 - smooth) / factor + smooth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_constants_are_refused() {
        let mut factors: Vec<f32> = (0..64).map(|pair| llama3_divisor(500_000.0, 128.0, pair as f32, 32.0)).collect();
        let rope = llama3(500_000.0, 128, &factors).unwrap();
        assert!(matches!(rope, Rope::Llama3 { factor: 32.0, .. }), "{rope:?}");
        assert!(llama3(500_000.0, 64, &factors).is_err());
        assert!(llama3(10_000.0, 128, &factors).is_err());
        factors[33] = f32::NAN;
        assert!(llama3(500_000.0, 128, &factors).is_err());
    }
}
