//! RoPE keys, in both layouts, to angles a position.
//!
//! Arithmetic is fp32 where transformers 5.24 (`modeling_rope_utils.py`) computes in fp32, and fp64 where Python does.

mod scaled;

use serde_json::Value;

use crate::config::{Config, Stored};
use crate::names::Core;
use crate::registry::Options;
use crate::spec::{Frequencies, Pairing, Rope};
use crate::{DecoderSpec, Error};
use scaled::Base;

/// What a class fixes about its rotation.
#[derive(Debug, Clone)]
pub(crate) struct RopeRules {
    pub(crate) head_dim: u64,
    pub(crate) max_positions: u64,
    /// The class's default for `rope_theta`.
    pub(crate) theta: f64,
    /// The class's default for `partial_rotary_factor`; `None` where the class always turns whole heads.
    pub(crate) partial: Option<f64>,
    /// The class's default for `original_max_position_embeddings` beside the other keys, where it has one.
    pub(crate) original_positions: Option<u64>,
    pub(crate) pairing: Pairing,
    /// Whether an odd number of rotated elements is rounded up to whole pairs; elsewhere the class fails at it.
    pub(crate) rounds_up: bool,
}

impl RopeRules {
    /// Whole heads in halves, theta 10,000.
    pub(crate) fn of(core: &Core) -> Self {
        let (head_dim, max_positions) = (core.head_dim, core.max_positions);
        Self {
            head_dim,
            max_positions,
            theta: 10_000.0,
            partial: None,
            original_positions: None,
            pairing: Pairing::Halves,
            rounds_up: true,
        }
    }
}

/// The keys that stand beside the RoPE object, in the v4 layout and in some classes of v5.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outer {
    pub(crate) theta: Option<f64>,
    pub(crate) partial: Option<f64>,
    pub(crate) original_positions: Option<u64>,
    /// A base that the class gives one layer, whatever the other keys say.
    pub(crate) layer_theta: Option<f64>,
}

impl Outer {
    /// Reads `rope_theta`, `partial_rotary_factor` (where the class knows it) and `original_max_position_embeddings`.
    pub(crate) fn read(config: &Config<'_>, rules: &RopeRules) -> Result<Self, Error> {
        let partial = match rules.partial {
            Some(_) => config.float("partial_rotary_factor")?.optional(),
            None => None,
        };
        let theta = config.not_null("rope_theta", config.float("rope_theta")?)?;
        Ok(Self { theta, partial, original_positions: Self::original(config, rules)?, layer_theta: None })
    }

    /// As [`Outer::read`], for classes whose keys are `rotary_emb_base` and `rotary_pct` instead.
    pub(crate) fn read_rotary(config: &Config<'_>, rules: &RopeRules) -> Result<Self, Error> {
        let number = |key: &'static str| config.not_null(key, config.float(key)?);
        Ok(Self {
            theta: number("rotary_emb_base")?,
            partial: number("rotary_pct")?,
            original_positions: Self::original(config, rules)?,
            layer_theta: None,
        })
    }

    fn original(config: &Config<'_>, rules: &RopeRules) -> Result<Option<u64>, Error> {
        // The keys of scaled rotations alone: anywhere else it would be a key that nobody reads.
        match (config.object("rope_parameters", "")?.optional(), config.object("rope_scaling", "")?.optional()) {
            (None, None) if rules.original_positions.is_none() => Ok(None),
            _ => Ok(config.size("original_max_position_embeddings")?.optional()),
        }
    }
}

/// `theta^(−2i / dim)`, `[dim / 2]`: radians a position, for classes without keys for it.
pub(crate) fn inverse(theta: f64, dim: u64) -> Vec<f32> {
    Base::new(theta, dim).inverse()
}

/// Reads `rope_parameters` (v5) or `rope_theta` and `rope_scaling` (v4). Values that contradict each other are refused.
pub(crate) fn read(config: &Config<'_>, rules: &RopeRules, model_type: &str, options: &Options) -> Result<Rope, Error> {
    read_beside(config, &Outer::read(config, rules)?, rules, model_type, options)
}

/// As [`read`], for classes with other keys beside the RoPE object.
pub(crate) fn read_beside(
    config: &Config<'_>,
    outer: &Outer,
    rules: &RopeRules,
    model_type: &str,
    options: &Options,
) -> Result<Rope, Error> {
    resolve(config, object(config)?, outer, rules, model_type, options)
}

/// As [`read`], for classes that rotate by `default`, an object like `rope_parameters`, where the config has no such object.
/// `rope_theta` beside it has no effect then: transformers drops it.
pub(crate) fn read_or(config: &Config<'_>, default: &Value, rules: &RopeRules, model_type: &str, options: &Options) -> Result<Rope, Error> {
    let outer = Outer::read(config, rules)?;
    match (object(config)?, default.as_object()) {
        (None, Some(default)) => resolve(config, Some(Config::new(default)), &Outer::default(), rules, model_type, options),
        (object, _) => resolve(config, object, &outer, rules, model_type, options),
    }
}

/// `rope_parameters` or `rope_scaling`. transformers takes an empty `rope_scaling` for none. Where both are there, for readers of either
/// layout, it reads `rope_scaling` and the base beside it: both have to say the same.
pub(crate) fn object<'a>(config: &Config<'a>) -> Result<Option<Config<'a>>, Error> {
    let parameters = config.object("rope_parameters", "rope_parameters.")?.optional();
    let scaling = config.object("rope_scaling", "rope_scaling.")?.optional().filter(|scaling| !scaling.is_empty());
    match (parameters, scaling) {
        (Some(parameters), Some(scaling)) => {
            let theta = scaling.float("rope_theta")?.optional().or(config.float("rope_theta")?.optional());
            if !scaling.says(&parameters, &["rope_theta"]) || theta != parameters.float("rope_theta")?.optional() {
                return Err(config.error("rope_scaling", "stands beside `rope_parameters` and says something else: one of the two must go"));
            }
            Ok(Some(scaling))
        }
        (object, None) | (None, object) => Ok(object),
    }
}

/// Gives each layer its rotation, `None` where it does not rotate; those that are equal are stored once.
pub(crate) fn by_layer(spec: &mut DecoderSpec, ropes: impl IntoIterator<Item = Option<Rope>>) {
    spec.ropes.clear();
    for (layer, rope) in spec.layers.iter_mut().zip(ropes) {
        layer.attention.rope = rope.map(|rope| match spec.ropes.iter().position(|stored| *stored == rope) {
            Some(index) => index,
            None => {
                spec.ropes.push(rope);
                spec.ropes.len() - 1
            }
        });
    }
}

/// Passes over the keys of a rotation where no layer rotates.
pub(crate) fn pass_over(config: &Config<'_>) -> Result<(), Error> {
    config.object("rope_parameters", "rope_parameters.")?;
    config.object("rope_scaling", "rope_scaling.")?;
    config.float("rope_theta")?;
    config.float("partial_rotary_factor")?;
    config.size("original_max_position_embeddings")?;
    Ok(())
}

/// As [`read`], for classes whose layers rotate by type: `rope_parameters` holds an object for each of `types`, `null` where layers of
/// that type do not rotate. `None` where the config has no such object at all (the v4 layout is the class's own).
pub(crate) fn read_by_type<const N: usize>(
    config: &Config<'_>,
    types: [(&'static str, &'static str, &RopeRules); N],
    model_type: &str,
    options: &Options,
) -> Result<Option<[Option<Rope>; N]>, Error> {
    let Some(parameters) = config.object("rope_parameters", "rope_parameters.")?.optional() else {
        return Ok(None);
    };
    let mut ropes = [const { None }; N];
    for (rope, (key, path, rules)) in ropes.iter_mut().zip(types) {
        *rope = match parameters.object(key, path)? {
            // Where rotations differ by layer, transformers looks for `truncate` in the wrong object and never finds it.
            Stored::Value(object) if object.flag("truncate")? == Stored::Value(false) => {
                return Err(object.error("truncate", "is false, which transformers does not heed where layers rotate by type"));
            }
            Stored::Value(object) => Some(resolve(config, Some(object), &Outer::default(), rules, model_type, options)?),
            Stored::Null => None,
            Stored::Absent => return Err(parameters.error(key, "is missing")),
        };
    }
    parameters.finish(model_type, &[], &options.allow_unknown_config)?;
    Ok(Some(ropes))
}

/// The rotation that `object` describes beside the keys of `outer`; without an object, the unscaled one.
pub(crate) fn resolve(
    config: &Config<'_>,
    object: Option<Config<'_>>,
    outer: &Outer,
    rules: &RopeRules,
    model_type: &str,
    options: &Options,
) -> Result<Rope, Error> {
    let Some(object) = object else {
        whole_heads(config, "default", rules)?;
        let base = base(config, outer.layer_theta.or(outer.theta).unwrap_or(rules.theta), outer.partial, rules)?;
        return finish(config, Frequencies::Fixed(base.inverse()), 1.0, rules);
    };
    let stored = object.not_null("rope_theta", object.float("rope_theta")?)?;
    let theta = match (stored, outer.theta) {
        _ if outer.layer_theta.is_some() => outer.layer_theta.unwrap_or(rules.theta),
        (Some(inner), Some(outer)) if inner != outer => {
            return Err(config.error("rope_theta", format!("is {outer}, but `{}` is {inner}", object.name("rope_theta"))));
        }
        (inner, outer) => inner.or(outer).unwrap_or(rules.theta),
    };
    let partial = match rules.partial {
        None => None,
        Some(_) => match (object.float("partial_rotary_factor")?.optional(), outer.partial) {
            (Some(inner), Some(outer)) if inner != outer => {
                return Err(object.error("partial_rotary_factor", format!("is {inner}, but `partial_rotary_factor` is {outer}")));
            }
            (inner, outer) => inner.or(outer),
        },
    };
    let kind = match (object.text("rope_type")?.optional(), object.text("type")?.optional()) {
        (Some(new), Some(old)) if new != old => return Err(object.error("rope_type", format!("is `{new}`, but `type` is `{old}`"))),
        (Some(kind), _) | (None, Some(kind)) => kind,
        (None, None) => "default",
    };
    whole_heads(config, kind, rules)?;
    whole_heads(&object, kind, rules)?;
    let base = base(&object, theta, partial, rules)?;
    let original = || original_positions(&object, outer, rules);
    let (frequencies, amplitude) = match kind {
        "default" => (Frequencies::Fixed(base.inverse()), 1.0),
        "linear" => (Frequencies::Fixed(scaled::linear(&object, &base)?), 1.0),
        "dynamic" => (scaled::dynamic(&object, &base, rules, options)?, 1.0),
        "llama3" => (Frequencies::Fixed(scaled::llama3(&object, &base, original()?)?), 1.0),
        "yarn" => scaled::yarn(&object, &base, original()?, rules)?,
        "longrope" => scaled::longrope(&object, &base, original()?, rules, options)?,
        other => {
            let problem = format!("is `{other}`; supported: default, dynamic, linear, llama3, longrope, yarn");
            return Err(object.error("rope_type", problem));
        }
    };
    object.finish(model_type, &[], &options.allow_unknown_config)?;
    finish(config, frequencies, amplitude, rules)
}

/// Classes that rotate whole heads do not look at `partial_rotary_factor` in an unscaled rotation, and fail at it in a scaled one.
fn whole_heads(object: &Config<'_>, kind: &str, rules: &RopeRules) -> Result<(), Error> {
    if rules.partial.is_some() {
        return Ok(());
    }
    match object.float("partial_rotary_factor")?.optional() {
        Some(factor) if factor != 1.0 && kind != "default" => {
            Err(object.error("partial_rotary_factor", format!("is {factor}, but this class can only rotate whole heads")))
        }
        _ => Ok(()),
    }
}

fn base(object: &Config<'_>, theta: f64, partial: Option<f64>, rules: &RopeRules) -> Result<Base, Error> {
    if theta <= 1.0 {
        return Err(object.error("rope_theta", format!("is {theta}; a base above 1 is needed")));
    }
    let factor = partial.or(rules.partial).unwrap_or(1.0);
    let dim = (rules.head_dim as f64 * factor) as u64;
    if !rules.rounds_up && !dim.is_multiple_of(2) {
        let problem = format!("is {factor}, which leaves {dim} elements of a head to rotate; this class needs an even number");
        return Err(object.error("partial_rotary_factor", problem));
    }
    // transformers rounds an odd number up to whole pairs.
    let rotated = dim.div_ceil(2).saturating_mul(2);
    if rotated > rules.head_dim || rotated == 0 {
        let problem = match rules.partial {
            None => format!("is {dim}; rotation needs an even one"),
            Some(_) => format!("is {}, of which {factor} is to be rotated; rotation needs 2 to head_dim", rules.head_dim),
        };
        return Err(object.error("head_dim", problem));
    }
    Ok(Base::new(theta, dim))
}

fn finish(config: &Config<'_>, frequencies: Frequencies, amplitude: f64, rules: &RopeRules) -> Result<Rope, Error> {
    let finite = match &frequencies {
        Frequencies::Fixed(all) => all.iter().all(|frequency| frequency.is_finite()),
        Frequencies::Switched { short, long, .. } => short.iter().chain(long).all(|frequency| frequency.is_finite()),
    };
    if finite && amplitude.is_finite() {
        return Ok(Rope { frequencies, amplitude, pairing: rules.pairing });
    }
    Err(config.error("rope_parameters", "lead to frequencies that are not finite"))
}

/// transformers takes the key beside the object first where it stands there.
pub(crate) fn original_positions(object: &Config<'_>, outer: &Outer, rules: &RopeRules) -> Result<f64, Error> {
    let key = "original_max_position_embeddings";
    let inner = object.not_null(key, object.size(key)?)?;
    if let (Some(inner), Some(outer)) = (inner, outer.original_positions)
        && inner != outer
    {
        return Err(object.error(key, format!("is {inner}, but the key beside `{}` is {outer}", object.name("").trim_end_matches('.'))));
    }
    let positions = outer.original_positions.or(rules.original_positions.filter(|_| inner.is_none())).or(inner);
    Ok(positions.unwrap_or(rules.max_positions) as f64)
}
