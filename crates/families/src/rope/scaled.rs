//! Scaled rotations: `linear`, `dynamic`, `llama3`, `yarn`, `longrope`.

use std::f64::consts::PI;

use super::RopeRules;
use crate::Error;
use crate::config::{Config, Stored};
use crate::registry::Options;
use crate::spec::Frequencies;

fn positive(object: &Config<'_>, key: &'static str) -> Result<f64, Error> {
    match object.float(key)? {
        Stored::Value(value) if value > 0.0 => Ok(value),
        Stored::Value(value) => Err(object.error(key, format!("is {value}; a number above 0 is needed"))),
        Stored::Absent | Stored::Null => Err(object.error(key, "is missing")),
    }
}

/// `theta^(2i / dim)`, `[dim / 2]` rounded up, for the `dim` elements of a head that are rotated.
pub(super) struct Base {
    theta: f64,
    dim: u64,
    periods: Vec<f32>,
}

impl Base {
    pub(super) fn new(theta: f64, dim: u64) -> Self {
        let base = f64::from(theta as f32);
        let exponent = |index: u64| f64::from((2 * index) as f32 / dim as f32);
        Self { theta, dim, periods: (0..dim.div_ceil(2)).map(|index| base.powf(exponent(index)) as f32).collect() }
    }

    pub(super) fn inverse(&self) -> Vec<f32> {
        self.periods.iter().map(|period| 1.0 / period).collect()
    }
}

/// Llama 3.1: long wavelengths divided by `factor`, short ones kept, those between blended.
pub(super) fn llama3(object: &Config<'_>, base: &Base, original: f64) -> Result<Vec<f32>, Error> {
    let factor = positive(object, "factor")? as f32;
    let low = positive(object, "low_freq_factor")?;
    let high = positive(object, "high_freq_factor")?;
    if high <= low {
        return Err(object.error("high_freq_factor", format!("is {high}, not above low_freq_factor {low}")));
    }
    let (longest, shortest) = ((original / low) as f32, (original / high) as f32);
    // torch divides a number by a tensor by multiplying with the reciprocal; the blend below would magnify the difference.
    let divide = |number: f64, by: f32| 1.0 / by * number as f32;
    let scaled = |frequency: f32| {
        let wavelength = divide(2.0 * PI, frequency);
        if wavelength > longest {
            frequency / factor
        } else if wavelength < shortest {
            frequency
        } else {
            let smooth = (divide(original, wavelength) - low as f32) / (high - low) as f32;
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    };
    Ok(base.inverse().into_iter().map(scaled).collect())
}

/// YaRN (Peng et al., 2023): interpolated below, extrapolated above, a ramp between; cosine and sine scaled by the attention factor.
pub(super) fn yarn(object: &Config<'_>, base: &Base, original: f64, rules: &RopeRules) -> Result<(Frequencies, f64), Error> {
    // transformers makes a ramp for half of the elements, rounded down: one for 3 serves both pairs, other odd numbers fail.
    if base.dim % 2 == 1 && base.dim != 3 {
        let problem = format!("leaves {} elements of a head to rotate; transformers computes `yarn` for 3 and even numbers only", base.dim);
        return Err(object.error("partial_rotary_factor", problem));
    }
    let factor = match object.float("factor")? {
        Stored::Null => rules.max_positions as f64 / original,
        Stored::Absent => return Err(object.error("factor", "is missing")),
        Stored::Value(factor) if factor > 0.0 => factor,
        Stored::Value(factor) => return Err(object.error("factor", format!("is {factor}; a number above 0 is needed"))),
    };
    let nonzero = |stored: Stored<f64>| stored.optional().filter(|&value| value != 0.0);
    let (mscale, mscale_all) = (nonzero(object.float("mscale")?), nonzero(object.float("mscale_all_dim")?));
    let magnitude = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let amplitude = match (object.float("attention_factor")?.optional(), mscale, mscale_all) {
        (Some(given), _, _) => given,
        (None, Some(mscale), Some(all)) => magnitude(mscale) / magnitude(all),
        (None, _, _) => magnitude(1.0),
    };
    let fast = nonzero(object.float("beta_fast")?).unwrap_or(32.0);
    let slow = nonzero(object.float("beta_slow")?).unwrap_or(1.0);
    let truncate = object.or_default("truncate", object.flag("truncate")?, true)?;
    let dim = base.dim as f64;
    let bound = |rotations: f64| dim * (original / (rotations * 2.0 * PI)).ln() / (2.0 * base.theta.ln());
    let (mut low, mut high) = (bound(fast), bound(slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    let last = base.dim as usize / 2 - 1;
    let blend = |(index, period): (usize, &f32)| {
        let ramp = ((index.min(last) as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let keep = 1.0 - ramp;
        let (interpolated, extrapolated) = (1.0 / (factor as f32 * period), 1.0 / period);
        interpolated * (1.0 - keep) + extrapolated * keep
    };
    Ok((Frequencies::Fixed(base.periods.iter().enumerate().map(blend).collect()), amplitude))
}

/// Every frequency divided by `factor`.
pub(super) fn linear(object: &Config<'_>, base: &Base) -> Result<Vec<f32>, Error> {
    let factor = positive(object, "factor")? as f32;
    Ok(base.inverse().into_iter().map(|frequency| frequency / factor).collect())
}

/// Dynamic NTK: unscaled up to `max_position_embeddings`; beyond it the base would change with every step.
pub(super) fn dynamic(object: &Config<'_>, base: &Base, rules: &RopeRules, options: &Options) -> Result<Frequencies, Error> {
    positive(object, "factor")?;
    match options.max_length {
        Some(length) if length > rules.max_positions => {
            let (key, limit) = ("rope_type", rules.max_positions);
            let problem = "is `dynamic`, whose angles change with every step beyond max_position_embeddings";
            Err(object.error(key, format!("{problem} {limit}; a length of {length} was asked for")))
        }
        _ => Ok(Frequencies::Fixed(base.inverse())),
    }
}

/// LongRoPE (Ding et al., 2024): a divisor for each frequency, one list up to `original` positions and one beyond.
pub(super) fn longrope(
    object: &Config<'_>,
    base: &Base,
    original: f64,
    rules: &RopeRules,
    options: &Options,
) -> Result<(Frequencies, f64), Error> {
    let factor = match object.float("factor")?.optional() {
        Some(factor) => factor,
        None => rules.max_positions as f64 / original,
    };
    let amplitude = match object.float("attention_factor")?.optional() {
        Some(given) => given,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + factor.ln() / original.ln()).sqrt(),
    };
    let divided = |key: &'static str| -> Result<Vec<f32>, Error> {
        let list = object.list(key)?.optional().ok_or_else(|| object.error(key, "is missing"))?;
        if list.len() != base.periods.len() {
            return Err(object.error(key, format!("has {} entries; {} pairs are rotated", list.len(), base.periods.len())));
        }
        let one = |(divisor, period): (&serde_json::Value, &f32)| match divisor.as_f64() {
            Some(divisor) if divisor > 0.0 => Ok(1.0 / (divisor as f32 * period)),
            _ => Err(object.error(key, format!("holds {divisor}, where numbers above 0 are needed"))),
        };
        list.iter().zip(&base.periods).map(one).collect()
    };
    let (short, long, length) = (divided("short_factor")?, divided("long_factor")?, original as u64);
    Ok(match options.max_length {
        None => (Frequencies::Switched { short, long, length }, amplitude),
        Some(max_length) => (Frequencies::Fixed(if max_length <= length { short } else { long }), amplitude),
    })
}
