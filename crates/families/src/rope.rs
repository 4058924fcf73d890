//! RoPE keys, in both layouts, to angles a position.
//!
//! Arithmetic is fp32 where transformers 5.24 (`modeling_rope_utils.py`) computes in fp32, and fp64 where Python does.

use std::f64::consts::PI;

use crate::Error;
use crate::config::{Config, Stored};
use crate::names::Core;
use crate::registry::Options;
use crate::spec::Rope;

/// What the keys depend on besides themselves.
pub(crate) struct RopeContext<'a> {
    pub(crate) head_dim: u64,
    pub(crate) max_positions: u64,
    pub(crate) model_type: &'a str,
    pub(crate) allowed: &'a [String],
}

impl<'a> RopeContext<'a> {
    pub(crate) fn of(core: &Core, model_type: &'a str, options: &'a Options) -> Self {
        Self { head_dim: core.head_dim, max_positions: core.max_positions, model_type, allowed: &options.allow_unknown_config }
    }
}

/// The class default of transformers for these families.
const DEFAULT_THETA: f64 = 10_000.0;

/// Reads `rope_parameters` (v5) or `rope_theta` and `rope_scaling` (v4). Values that contradict each other are refused.
pub(crate) fn read(config: &Config<'_>, context: &RopeContext<'_>) -> Result<Rope, Error> {
    let parameters = config.object("rope_parameters", "rope_parameters.")?.optional();
    let scaling = config.object("rope_scaling", "rope_scaling.")?.optional();
    let top_theta = config.not_null("rope_theta", config.float("rope_theta")?)?;
    let (object, name) = match (parameters, scaling) {
        (Some(_), Some(_)) => return Err(config.error("rope_scaling", "stands beside `rope_parameters`: one of the two must go")),
        (Some(object), None) => (Some(object), "rope_parameters"),
        (None, Some(object)) => (Some(object), "rope_scaling"),
        (None, None) => (None, ""),
    };
    let Some(object) = object else {
        let theta = top_theta.unwrap_or(DEFAULT_THETA);
        check_base(config, theta)?;
        return finish(config, Frequencies::new(theta, context.head_dim).inverse(), 1.0);
    };
    let theta = match (object.not_null("rope_theta", object.float("rope_theta")?)?, top_theta) {
        (Some(inner), Some(outer)) if inner != outer => {
            return Err(config.error("rope_theta", format!("is {outer}, but `{name}.rope_theta` is {inner}")));
        }
        (inner, outer) => inner.or(outer).unwrap_or(DEFAULT_THETA),
    };
    check_base(&object, theta)?;
    let kind = match (object.text("rope_type")?.optional(), object.text("type")?.optional()) {
        (Some(new), Some(old)) if new != old => return Err(object.error("rope_type", format!("is `{new}`, but `type` is `{old}`"))),
        (Some(kind), _) | (None, Some(kind)) => kind,
        (None, None) => "default",
    };
    let frequencies = Frequencies::new(theta, context.head_dim);
    let (inverse, amplitude) = match kind {
        "default" => (frequencies.inverse(), 1.0),
        "linear" => {
            let factor = positive(&object, "factor")? as f32;
            (frequencies.inverse().into_iter().map(|frequency| frequency / factor).collect(), 1.0)
        }
        "llama3" => (llama3(&object, &frequencies, context)?, 1.0),
        "yarn" => yarn(&object, &frequencies, context)?,
        other => {
            let problem = format!("is `{other}`; supported for this model_type: default, linear, llama3, yarn");
            return Err(object.error("rope_type", problem));
        }
    };
    object.finish(context.model_type, &[], context.allowed)?;
    finish(config, inverse, amplitude)
}

fn check_base(object: &Config<'_>, theta: f64) -> Result<(), Error> {
    if theta > 1.0 { Ok(()) } else { Err(object.error("rope_theta", format!("is {theta}; a base above 1 is needed"))) }
}

fn finish(config: &Config<'_>, inverse_frequencies: Vec<f32>, amplitude: f64) -> Result<Rope, Error> {
    if amplitude.is_finite() && inverse_frequencies.iter().all(|frequency| frequency.is_finite()) {
        return Ok(Rope { inverse_frequencies, amplitude });
    }
    Err(config.error("rope_parameters", "lead to frequencies that are not finite"))
}

fn positive(object: &Config<'_>, key: &'static str) -> Result<f64, Error> {
    match object.float(key)? {
        Stored::Value(value) if value > 0.0 => Ok(value),
        Stored::Value(value) => Err(object.error(key, format!("is {value}; a number above 0 is needed"))),
        Stored::Absent | Stored::Null => Err(object.error(key, "is missing")),
    }
}

fn original_positions(object: &Config<'_>, context: &RopeContext<'_>) -> Result<f64, Error> {
    let key = "original_max_position_embeddings";
    Ok(object.or_default(key, object.size(key)?, context.max_positions)? as f64)
}

/// `theta^(2i / head_dim)`, `[head_dim / 2]`.
struct Frequencies {
    theta: f64,
    head_dim: u64,
    periods: Vec<f32>,
}

impl Frequencies {
    fn new(theta: f64, head_dim: u64) -> Self {
        let base = f64::from(theta as f32);
        let exponent = |index: u64| f64::from((2 * index) as f32 / head_dim as f32);
        Self { theta, head_dim, periods: (0..head_dim / 2).map(|index| base.powf(exponent(index)) as f32).collect() }
    }

    fn inverse(&self) -> Vec<f32> {
        self.periods.iter().map(|period| 1.0 / period).collect()
    }
}

/// Llama 3.1: long wavelengths divided by `factor`, short ones kept, those between blended.
fn llama3(object: &Config<'_>, frequencies: &Frequencies, context: &RopeContext<'_>) -> Result<Vec<f32>, Error> {
    let factor = positive(object, "factor")? as f32;
    let low = positive(object, "low_freq_factor")?;
    let high = positive(object, "high_freq_factor")?;
    if high <= low {
        return Err(object.error("high_freq_factor", format!("is {high}, not above low_freq_factor {low}")));
    }
    let original = original_positions(object, context)?;
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
    Ok(frequencies.inverse().into_iter().map(scaled).collect())
}

/// YaRN (Peng et al., 2023): interpolated below, extrapolated above, a ramp between; cosine and sine scaled by the attention factor.
fn yarn(object: &Config<'_>, frequencies: &Frequencies, context: &RopeContext<'_>) -> Result<(Vec<f32>, f64), Error> {
    let original = original_positions(object, context)?;
    let factor = match object.float("factor")? {
        Stored::Null => context.max_positions as f64 / original,
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
    let dim = frequencies.head_dim as f64;
    let bound = |rotations: f64| dim * (original / (rotations * 2.0 * PI)).ln() / (2.0 * frequencies.theta.ln());
    let (mut low, mut high) = (bound(fast), bound(slow));
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    let blend = |(index, period): (usize, &f32)| {
        let ramp = ((index as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let keep = 1.0 - ramp;
        let (interpolated, extrapolated) = (1.0 / (factor as f32 * period), 1.0 / period);
        interpolated * (1.0 - keep) + extrapolated * keep
    };
    Ok((frequencies.periods.iter().enumerate().map(blend).collect(), amplitude))
}
