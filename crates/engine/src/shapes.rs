//! The shape of every graph input in a profile.

use plansmith_tensor::TensorSignature;
use serde::{Deserialize, Serialize};

use crate::{Error, Flavor, Profile, Span};

/// Minimum, optimum and maximum shape of one input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorShapes {
    /// The input's name.
    pub name: String,
    /// Smallest.
    pub min: Vec<u64>,
    /// The one that kernels are chosen for.
    pub opt: Vec<u64>,
    /// Largest.
    pub max: Vec<u64>,
}

/// What an axis of an input counts.
#[derive(Debug, Clone, Copy)]
enum Axis {
    Batch,
    Sequence,
    Past,
    Total,
    /// The graph says how much: key/value heads, elements a head.
    Given(&'static str),
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Sequence => "sequence",
            Self::Past => "past",
            Self::Total => "past + sequence",
            Self::Given(name) => name,
        }
    }

    fn span(self, profile: &Profile) -> Option<Span> {
        match self {
            Self::Batch => Some(profile.batch()),
            Self::Sequence => Some(profile.sequence()),
            Self::Past => Some(profile.past()),
            Self::Total => Some(profile.total()),
            Self::Given(_) => None,
        }
    }
}

const TOKENS: &[Axis] = &[Axis::Batch, Axis::Sequence];
const MASK: &[Axis] = &[Axis::Batch, Axis::Total];
const CACHE: &[Axis] = &[Axis::Batch, Axis::Given("key/value heads"), Axis::Past, Axis::Given("head size")];

/// With a static cache, which is as long as the graph says.
const STATIC_MASK: &[Axis] = &[Axis::Batch, Axis::Given("max_length")];
const STATIC_CACHE: &[Axis] = &[Axis::Batch, Axis::Given("key/value heads"), Axis::Given("max_length"), Axis::Given("head size")];
const ROWS: &[Axis] = &[Axis::Batch];
/// The input that only graphs with a static cache have.
const CACHE_POSITION: &str = "cache_position";

fn axes_of(name: &str, is_static: bool) -> Option<&'static [Axis]> {
    match name {
        "input_ids" | "position_ids" => Some(TOKENS),
        "attention_mask" => Some(if is_static { STATIC_MASK } else { MASK }),
        CACHE_POSITION => Some(ROWS),
        _ => {
            let (layer, part) = name.strip_prefix("past_key_values.")?.split_once('.')?;
            let cache = if is_static { STATIC_CACHE } else { CACHE };
            (layer.parse::<u32>().is_ok() && matches!(part, "key" | "value")).then_some(cache)
        }
    }
}

/// Slots a row of the static cache of a graph with these inputs; `None` where the cache grows.
pub fn static_slots(inputs: &[TensorSignature]) -> Option<u64> {
    let named = |name: &str| inputs.iter().find(|input| input.name == name);
    named(CACHE_POSITION)?;
    named("attention_mask")?.shape.get(1)?.as_ref().ok().copied()
}

/// Shapes of `inputs` in `profile`, by the contract's names: `input_ids` and `position_ids` `[batch, sequence]`,
/// `attention_mask` `[batch, past + sequence]`, `past_key_values.N.key` and `.value` `[batch, kv_heads, past, head_dim]`. With a static cache
/// the graph gives the length of mask and cache, `cache_position` is `[batch]`, and `past` only bounds the steps.
///
/// # Errors
/// [`Error::Shapes`]: an input has another name or rank, leaves heads or head size open, or fixes an axis at a
/// number that is not the profile's; a static cache has fewer slots than the profile fills; the largest shapes need more memory than any GPU of `flavor` has.
pub fn input_shapes(profile: &Profile, inputs: &[TensorSignature], flavor: Flavor) -> Result<Vec<TensorShapes>, Error> {
    let refuse = |reason: String| Error::Shapes { profile: profile.name().to_owned(), reason };
    if inputs.is_empty() {
        return Err(refuse("the graph has no inputs".to_owned()));
    }
    let slots = static_slots(inputs);
    // That the largest `sequence` and the largest `past` do not fit together is no fault: each is of use with less of the other.
    let (past, sequence) = (profile.past(), profile.sequence());
    if let Some(slots) = slots
        && (past.max() + sequence.min()).max(past.min() + sequence.max()) > slots
    {
        let reason = format!("past = {past} and sequence = {sequence} reach beyond the {slots} slots (max_length) of its static cache");
        return Err(refuse(reason));
    }
    let mut shapes = Vec::with_capacity(inputs.len());
    let mut bytes = 0_u64;
    for input in inputs {
        let tensor = shapes_of(profile, input, slots.is_some()).map_err(refuse)?;
        let size = input.dtype.tensor_bytes(&tensor.max);
        // What is read from a growing cache is written again as `present`.
        let size = size.and_then(|size| if slots.is_none() && input.name.starts_with("past") { size.checked_mul(2) } else { Some(size) });
        bytes = bytes.saturating_add(size.unwrap_or(u64::MAX));
        if bytes > flavor.most_memory() {
            return Err(refuse(format!(
                "inputs and cache at the maximum need more than {} GiB with `{}` {:?}; no GPU of this flavour has that",
                flavor.most_memory() >> 30,
                tensor.name,
                tensor.max,
            )));
        }
        shapes.push(tensor);
    }
    Ok(shapes)
}

fn shapes_of(profile: &Profile, input: &TensorSignature, is_static: bool) -> Result<TensorShapes, String> {
    let name = &input.name;
    let Some(axes) = axes_of(name, is_static) else {
        return Err(format!(
            "the graph's input `{name}` is none that a profile describes: input_ids, attention_mask, position_ids, past_key_values.N.key/value"
        ));
    };
    if axes.len() != input.shape.len() {
        return Err(format!("the graph's input `{name}` has {} axes; {} were expected", input.shape.len(), axes.len()));
    }
    let mut tensor = TensorShapes { name: name.clone(), min: Vec::new(), opt: Vec::new(), max: Vec::new() };
    for (index, (axis, fixed)) in axes.iter().zip(&input.shape).enumerate() {
        let [min, opt, max] = match (axis.span(profile), fixed) {
            (None, Err(_)) => return Err(format!("the graph leaves axis {index} of `{name}` ({}) open", axis.name())),
            (None, Ok(fixed)) => [*fixed; 3],
            (Some(span), Ok(fixed)) if span.to_array() != [*fixed; 3] => {
                return Err(format!("the graph fixes axis {index} of `{name}` at {fixed}; the profile says {} = {span}", axis.name()));
            }
            (Some(span), _) => span.to_array(),
        };
        if max > i32::MAX as u64 {
            return Err(format!("axis {index} of `{name}` ({}) reaches {max}; TensorRT's limit is {}", axis.name(), i32::MAX));
        }
        tensor.min.push(min);
        tensor.opt.push(opt);
        tensor.max.push(max);
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use plansmith_tensor::DType;

    use super::*;

    fn input(name: &str, dtype: DType, shape: &[i64]) -> TensorSignature {
        let shape = shape.iter().map(|&axis| u64::try_from(axis).map_err(|_| "open".to_owned())).collect();
        TensorSignature { name: name.to_owned(), dtype, shape }
    }

    fn decoder() -> Vec<TensorSignature> {
        vec![
            input("input_ids", DType::I64, &[-1, -1]),
            input("attention_mask", DType::I64, &[-1, -1]),
            input("position_ids", DType::I64, &[-1, -1]),
            input("past_key_values.0.key", DType::F16, &[-1, 3, -1, 64]),
            input("past_key_values.0.value", DType::F16, &[-1, 3, -1, 64]),
        ]
    }

    #[test]
    fn every_input_follows_the_profile() {
        let profile = "p:batch=1..2..4,sequence=1..128..1024,past=0..512..2048".parse().unwrap();
        let shapes = input_shapes(&profile, &decoder(), Flavor::Rtx).unwrap();
        assert_eq!(shapes[0].opt, [2, 128]);
        assert_eq!((&shapes[1].min, &shapes[1].opt, &shapes[1].max), (&vec![1, 1], &vec![2, 640], &vec![4, 3072]));
        assert_eq!((&shapes[4].min, &shapes[4].max), (&vec![1, 3, 0, 64], &vec![4, 3, 2048, 64]));
    }

    #[test]
    fn a_static_cache_is_as_long_as_the_graph_says() {
        let mut inputs = decoder();
        inputs[1] = input("attention_mask", DType::I64, &[-1, 2048]);
        for cache in &mut inputs[3..] {
            cache.shape[2] = Ok(2048);
        }
        inputs.push(input("cache_position", DType::I64, &[-1]));
        let shapes = |profile: &str| input_shapes(&profile.parse().unwrap(), &inputs, Flavor::Rtx);
        let fitting = shapes("p:batch=1..2..4,sequence=1..128..1024,past=0..512..2047").unwrap();
        assert_eq!((&fitting[1].min, &fitting[1].max), (&vec![1, 2048], &vec![4, 2048]));
        assert_eq!((&fitting[3].opt, &fitting[5].opt), (&vec![2, 3, 2048, 64], &vec![2]));
        let error = shapes("p:batch=1,sequence=1..128..1024,past=0..512..2048").unwrap_err().to_string();
        assert!(error.ends_with("sequence = 1..128..1024 reach beyond the 2048 slots (max_length) of its static cache"), "{error}");
        assert!(shapes("p:batch=1,sequence=1..128..2049,past=0").is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let profile = "p:batch=1,sequence=1,past=0..512..2048".parse().unwrap();
        let refusal = |change: TensorSignature| input_shapes(&profile, &[change], Flavor::Rtx).unwrap_err().to_string();
        assert!(refusal(input("inputs_embeds", DType::F16, &[-1, -1, 64])).contains("`inputs_embeds`"));
        assert!(refusal(input("past_key_values.x.key", DType::F16, &[-1, 3, -1, 64])).contains("past_key_values.x.key"));
        assert!(refusal(input("input_ids", DType::I64, &[-1])).contains("has 1 axes; 2"));
        assert!(refusal(input("past_key_values.0.key", DType::F16, &[-1, 3, -1, -1])).contains("(head size) open"));
        let fixed = refusal(input("input_ids", DType::I64, &[2, -1]));
        assert!(fixed.contains("fixes axis 0 of `input_ids` at 2; the profile says batch = 1"), "{fixed}");
    }

    #[test]
    fn absurd_maxima_are_refused_before_anything_is_built() {
        let profile = "p:batch=1,sequence=1,past=0..1..2147483647".parse().unwrap();
        let error = input_shapes(&profile, &decoder(), Flavor::Rtx).unwrap_err().to_string();
        assert!(error.contains("2147483648") || error.contains("128 GiB"), "{error}");
        let profile = "p:batch=1..1..100000,sequence=1,past=0..512..2048".parse().unwrap();
        let error = input_shapes(&profile, &decoder(), Flavor::Rtx).unwrap_err().to_string();
        assert!(error.contains("128 GiB") && error.contains("[100000, 3, 2048, 64]"), "{error}");
    }
}
