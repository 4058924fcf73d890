//! Which input and output of a graph is what.

mod fit;
mod links;
mod listing;
mod recognise;
mod slot;

use std::collections::BTreeMap;

use plansmith_onnx::ModelProto;
use plansmith_tensor::{DType, Signature, TensorSignature};

pub(crate) use fit::Fitted;
pub(crate) use listing::listing;
pub(crate) use slot::{Part, Slot};

use crate::NameMap;
use recognise::recognise;

/// What an input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    InputIds,
    AttentionMask,
    PositionIds,
    /// The first slot that is written, a number a row.
    CachePosition,
    /// Whether the cache holds anything.
    UseCache,
    /// Index into [`Interface::cache`].
    Cache(usize),
}

/// One input, in the graph's order.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) dtype: DType,
}

/// One tensor of the cache, `[batch, heads, past, head_dim]`, or key and value stacked, `[2, batch, heads, past, head_dim]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachePort {
    /// The input that carries it; `None` where the graph starts afresh each time.
    pub(crate) past: Option<String>,
    /// The output that carries it.
    pub(crate) present: String,
    pub(crate) part: Part,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
}

impl CachePort {
    /// For `rows` rows of `past` tokens, or slots of a static cache, each.
    pub(crate) fn shape(&self, rows: usize, past: usize) -> Vec<usize> {
        let stacked = (self.part == Part::Both).then_some(2);
        stacked.into_iter().chain([rows, self.heads, past, self.head_dim]).collect()
    }
}

/// A decoder graph's interface.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) signature: Signature,
    pub(crate) inputs: Vec<Input>,
    /// Key of layer 0, value of layer 0, key of layer 1, …; or one port a layer that holds both. Empty where the graph gives no cache.
    pub(crate) cache: Vec<CachePort>,
    /// Of every cache tensor; of the logits where there is none.
    pub(crate) cache_dtype: DType,
    /// The output that holds logits.
    pub(crate) logits: String,
    /// Slots a row of a static cache; `None` of one that grows, or where there is none.
    pub(crate) slots: Option<usize>,
    /// Whether rows with padding are to be refused.
    unpadded: bool,
}

/// What is known of a model besides its graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelShape {
    /// KV heads and head dimension of each layer: graphs may leave them open.
    pub cache: Vec<(usize, usize)>,
}

/// How an interface is read.
#[derive(Debug, Default)]
pub(crate) struct Reading<'a> {
    pub(crate) map: NameMap,
    /// The graph whose signature it is, where there is one.
    pub(crate) model: Option<&'a ModelProto>,
    pub(crate) shape: Option<ModelShape>,
    pub(crate) unpadded: bool,
}

impl Interface {
    /// Recognises inputs and outputs.
    ///
    /// Errors name the input or output that is missing, unknown, or of a dtype or shape that cannot be served.
    pub(crate) fn read(signature: Signature, reading: &Reading<'_>) -> Result<Self, String> {
        let slots = recognise(&signature, &reading.map, reading.model)?;
        let missing = |slot: Slot| {
            let kind = if slot.is_input() { "input" } else { "output" };
            format!("it has no {kind} `{slot}`")
        };
        for needed in [Slot::InputIds, Slot::Logits] {
            slots.get(&needed).ok_or_else(|| missing(needed))?;
        }
        let logits = &signature.outputs[slots[&Slot::Logits]];
        if !matches!(logits.shape.len(), 2 | 3) || !logits.dtype.is_compute_float() {
            let (name, dtype, rank) = (&logits.name, logits.dtype, logits.shape.len());
            return Err(format!("output `{name}` is {dtype} of rank {rank}; a float of shape [batch, sequence, vocab] is needed"));
        }

        let pasts = slots.keys().any(|slot| matches!(slot, Slot::Past(..)));
        let layer = |slot: &Slot| match *slot {
            Slot::Past(layer, _) | Slot::Present(layer, _) => Some(layer + 1),
            _ => None,
        };
        let layers = slots.keys().filter_map(layer).max().unwrap_or(0);
        let mut cache: Vec<CachePort> = Vec::with_capacity(2 * layers);
        let mut cache_dtype = None;
        for layer in 0..layers {
            let stacked = slots.contains_key(&Slot::Past(layer, Part::Both)) || slots.contains_key(&Slot::Present(layer, Part::Both));
            for &part in if stacked { &[Part::Both][..] } else { &[Part::Key, Part::Value] } {
                let (past, present) = (Slot::Past(layer, part), Slot::Present(layer, part));
                let input = slots.get(&past).map(|&index| &signature.inputs[index]);
                if pasts && input.is_none() {
                    return Err(missing(past));
                }
                let output = &signature.outputs[*slots.get(&present).ok_or_else(|| missing(present))?];
                if let Some(input) = input.filter(|input| input.dtype != output.dtype) {
                    let (present, past) = (&output.name, &input.name);
                    return Err(format!("output `{present}` is {}, input `{past}` is {}", output.dtype, input.dtype));
                }
                if *cache_dtype.get_or_insert(output.dtype) != output.dtype {
                    let (name, dtype) = (&input.unwrap_or(output).name, output.dtype);
                    return Err(format!("`{name}` is {dtype}, the cache before it is another dtype"));
                }
                let (heads, head_dim) = cache_shape(input, output, part, reading.shape.as_ref().and_then(|shape| shape.cache.get(layer)))?;
                let past = input.map(|input| input.name.clone());
                cache.push(CachePort { past, present: output.name.clone(), part, heads, head_dim });
            }
        }
        let cache_dtype = cache_dtype.unwrap_or(logits.dtype);
        if !cache_dtype.is_compute_float() {
            return Err(format!("the cache is {cache_dtype}; F32, F16 and BF16 can be served"));
        }
        let fixed = if slots.contains_key(&Slot::CachePosition) { Some(static_slots(&signature, &slots)?) } else { None };
        let logits = logits.name.clone();
        let inputs = signature.inputs.iter().enumerate().map(|(index, input)| {
            let slot = slots.iter().find(|(slot, at)| slot.is_input() && **at == index).map(|(slot, _)| *slot);
            role(input, slot, &cache)
        });
        let inputs = inputs.collect::<Result<_, _>>()?;
        Ok(Self { signature, inputs, cache, cache_dtype, logits, slots: fixed, unpadded: reading.unpadded })
    }

    /// Columns of a cache tensor that goes in before a step after `past` tokens.
    pub(crate) fn columns(&self, past: usize) -> usize {
        self.slots.unwrap_or(past)
    }

    fn has(&self, role: Role) -> bool {
        self.inputs.iter().any(|input| input.role == role)
    }

    /// Whether each step can go on from the last.
    fn keeps_cache(&self) -> bool {
        self.cache.first().is_some_and(|port| port.past.is_some())
    }
}

fn role(input: &TensorSignature, slot: Option<Slot>, cache: &[CachePort]) -> Result<Input, String> {
    let served = |dtypes: &[DType]| dtypes.contains(&input.dtype);
    let (role, fits) = match slot {
        Some(Slot::InputIds) => (Role::InputIds, served(&[DType::I64, DType::I32])),
        Some(Slot::AttentionMask) => (Role::AttentionMask, served(&[DType::I64, DType::I32, DType::Bool])),
        Some(Slot::PositionIds) => (Role::PositionIds, served(&[DType::I64, DType::I32])),
        Some(Slot::CachePosition) => (Role::CachePosition, served(&[DType::I64])),
        Some(Slot::UseCache) => (Role::UseCache, served(&[DType::Bool])),
        _ => {
            let port = cache.iter().position(|port| port.past.as_ref() == Some(&input.name));
            (Role::Cache(port.ok_or_else(|| format!("input `{}` is none that we know", input.name))?), true)
        }
    };
    if !fits {
        let dtypes = match role {
            Role::UseCache => "BOOL",
            Role::AttentionMask => "I64, I32 and BOOL",
            _ => "I64 and I32",
        };
        return Err(format!("input `{}` is {}; {dtypes} can be served", input.name, input.dtype));
    }
    Ok(Input { name: input.name.clone(), role, dtype: input.dtype })
}

/// The length that a static cache has in every cache tensor.
fn static_slots(signature: &Signature, slots: &BTreeMap<Slot, usize>) -> Result<usize, String> {
    let mut found: Option<u64> = None;
    for (slot, &index) in slots {
        let tensor = match slot {
            Slot::Past(..) => &signature.inputs[index],
            Slot::Present(..) => &signature.outputs[index],
            _ => continue,
        };
        let length = tensor.shape.len().checked_sub(2).and_then(|axis| tensor.shape[axis].as_ref().ok()).copied();
        if length.is_none() || found.is_some_and(|found| Some(found) != length) {
            let (name, shape) = (&tensor.name, listing::shape(&tensor.shape));
            return Err(format!("`{name}` is {shape}: with `cache_position`, every cache tensor has one fixed length, max_length"));
        }
        found = length;
    }
    let slots = found.and_then(|length| usize::try_from(length).ok());
    slots.ok_or_else(|| "it has an input `cache_position` and no cache".to_owned())
}

/// Heads and head dimension: of the input, of the output, or what is known of the model.
fn cache_shape(
    input: Option<&TensorSignature>,
    output: &TensorSignature,
    part: Part,
    known: Option<&(usize, usize)>,
) -> Result<(usize, usize), String> {
    let rank = if part == Part::Both { 5 } else { 4 };
    let first = input.unwrap_or(output);
    if let Some(wrong) = input.into_iter().chain([output]).find(|tensor| tensor.shape.len() != rank) {
        let (name, shape) = (&wrong.name, listing::shape(&wrong.shape));
        return Err(format!("`{name}` is {shape}; [batch, heads, past, head_dim] is needed, or [2, batch, heads, past, head_dim]"));
    }
    let number = |axis: usize, known: Option<usize>| {
        let fixed = input.into_iter().chain([output]).find_map(|tensor| tensor.shape[axis].as_ref().ok());
        fixed.and_then(|&dim| usize::try_from(dim).ok()).or(known)
    };
    let heads = number(rank - 3, known.map(|known| known.0));
    let head_dim = number(rank - 1, known.map(|known| known.1));
    heads.zip(head_dim).ok_or_else(|| {
        let (name, shape) = (&first.name, listing::shape(&first.shape));
        format!(
            "`{name}` is {shape}: the numbers of heads and head_dim are in no input and output; they are taken from the checkpoint that it \
             is verified against, or from a genai_config.json beside it"
        )
    })
}

#[cfg(test)]
mod tests {
    use plansmith_tensor::{Batch, HostTensor};

    use super::*;

    fn tensor(name: &str, dtype: DType, shape: &[Option<u64>]) -> TensorSignature {
        let shape = shape.iter().map(|dim| dim.ok_or_else(|| "n".to_owned())).collect();
        TensorSignature { name: name.to_owned(), dtype, shape }
    }

    fn one_layer() -> Signature {
        let kv = [None, Some(2), None, Some(16)];
        Signature {
            inputs: vec![
                tensor("input_ids", DType::I64, &[None, None]),
                tensor("attention_mask", DType::I64, &[None, None]),
                tensor("past_key_values.0.key", DType::F16, &kv),
                tensor("past_key_values.0.value", DType::F16, &kv),
            ],
            outputs: vec![
                tensor("logits", DType::F32, &[None, None, Some(256)]),
                tensor("present.0.key", DType::F16, &kv),
                tensor("present.0.value", DType::F16, &kv),
            ],
        }
    }

    fn read(signature: Signature) -> Result<Interface, String> {
        Interface::read(signature, &Reading::default())
    }

    #[test]
    fn position_ids_may_be_absent_and_the_cache_is_in_layer_order() {
        let interface = read(one_layer()).unwrap();
        assert_eq!(interface.cache_dtype, DType::F16);
        assert_eq!(interface.cache.len(), 2);
        assert_eq!(interface.cache[1].present, "present.0.value");
        assert_eq!(interface.cache[0].shape(3, 5), [3, 2, 5, 16]);
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_name() {
        let refused = |change: fn(&mut Signature)| {
            let mut signature = one_layer();
            change(&mut signature);
            read(signature).unwrap_err()
        };
        assert_eq!(
            refused(|s| s.inputs[0] = tensor("inputs_embeds", DType::F32, &[None, None, Some(32)])),
            "input `inputs_embeds` is none that we know"
        );
        assert_eq!(
            refused(|s| s.inputs.push(tensor("cache_position", DType::I64, &[None]))),
            "`past_key_values.0.key` is [n, 2, n, 16]: with `cache_position`, every cache tensor has one fixed length, max_length"
        );
        assert_eq!(
            refused(|s| s.inputs.push(tensor("cache_position", DType::I64, &[None, None]))),
            "input `cache_position` is none that we know: I64 [batch] is, where a TensorScatter writes by it"
        );
        assert_eq!(refused(|s| drop(s.inputs.remove(0))), "it has no input `input_ids`");
        assert_eq!(refused(|s| drop(s.outputs.remove(0))), "it has no output `logits`");
        assert_eq!(refused(|s| drop(s.outputs.remove(1))), "it has no output `present.0.key`");
        assert_eq!(refused(|s| drop(s.inputs.remove(3))), "it has no input `past_key_values.0.value`");
        assert_eq!(
            refused(|s| s.inputs[2].name = "v.0".to_owned()),
            "`v.0` and `past_key_values.0.value` both look like `past_key_values.0.value`"
        );
        assert_eq!(refused(|s| s.outputs[2].dtype = DType::F32), "output `present.0.value` is F32, input `past_key_values.0.value` is F16");
        let open = refused(|s| {
            s.inputs[2].shape[3] = Err("d".to_owned());
            s.outputs[1].shape[3] = Err("d".to_owned());
        });
        assert!(open.starts_with("`past_key_values.0.key` is [n, 2, n, d]: the numbers of heads and head_dim are in no input"), "{open}");
        assert_eq!(refused(|s| s.inputs[0].dtype = DType::U8), "input `input_ids` is U8; I64 and I32 can be served");
        assert_eq!(
            refused(|s| s.inputs[2].name = "past_key_values.0.attn".to_owned()),
            "input `past_key_values.0.attn` is none that we know"
        );
        assert!(refused(|s| s.outputs[0].shape.push(Ok(1))).starts_with("output `logits` is F32 of rank 4"));
    }

    #[test]
    fn a_static_cache_is_fed_whole_and_never_beyond_its_end() {
        let mut signature = one_layer();
        signature.inputs.push(tensor("cache_position", DType::I64, &[None]));
        signature.inputs[1].shape[1] = Ok(8);
        for tensor in signature.inputs[2..4].iter_mut().chain(&mut signature.outputs[1..]) {
            tensor.shape[2] = Ok(8);
        }
        let interface = read(signature).unwrap();
        assert_eq!((interface.slots, interface.columns(3)), (Some(8), 8));
        let fitted = interface.fit(&Batch::unpadded(2, vec![1, 2, 3, 4], 6).unwrap(), 2, 6).unwrap();
        assert_eq!(fitted.integers(Role::CachePosition), Some((vec![2], &[6, 6][..])));
        assert_eq!(fitted.integers(Role::AttentionMask), Some((vec![2, 8], &[1; 16][..])), "filled to the last slot");
        let fitted = interface.fit(&Batch::unpadded(1, vec![1, 2], 0).unwrap(), 1, 0).unwrap();
        assert_eq!(
            fitted.integers(Role::AttentionMask),
            Some((vec![1, 8], &[1, 1, 0, 0, 0, 0, 0, 0][..])),
            "slots without a token are not seen"
        );
        let error = interface.fit(&Batch::unpadded(1, vec![1, 2], 7).unwrap(), 1, 7).unwrap_err();
        assert_eq!(error.to_string(), "9 tokens a row do not fit its static cache: max_length is 8");
        let held = HostTensor::new(vec![2, 2, 8, 16], (0..512).map(|index| index as f32).collect()).unwrap();
        let layer = interface.layers(vec![held.clone(), held], 1, 3).unwrap().remove(0);
        assert_eq!(layer.key.shape, [1, 2, 3, 16]);
        assert_eq!((layer.key.data[47], layer.key.data[48]), (47.0, 128.0), "the second head begins after the first one's eight slots");
    }

    #[test]
    fn what_the_graph_leaves_open_is_known_from_elsewhere() {
        let mut signature = one_layer();
        for tensor in signature.inputs[2..].iter_mut().chain(&mut signature.outputs[1..]) {
            tensor.shape[1] = Err("heads".to_owned());
            tensor.shape[3] = Err("dim".to_owned());
        }
        let reading = Reading { shape: Some(ModelShape { cache: vec![(2, 64)] }), ..Reading::default() };
        assert_eq!(Interface::read(signature, &reading).unwrap().cache[1].shape(1, 0), [1, 2, 0, 64]);
    }

    #[test]
    fn shapes_tell_where_names_do_not() {
        let mut signature = one_layer();
        let shape = |dims: &[&str]| dims.iter().map(|dim| Err((*dim).to_owned())).collect::<Vec<_>>();
        signature.inputs[0] = TensorSignature { name: "onnx::Gather_0".to_owned(), dtype: DType::I64, shape: shape(&["b", "s"]) };
        signature.inputs[1] = TensorSignature { name: "onnx::Cast_1".to_owned(), dtype: DType::I64, shape: shape(&["b", "t"]) };
        signature.inputs.insert(1, TensorSignature { name: "other".to_owned(), dtype: DType::I32, shape: shape(&["b", "s"]) });
        signature.outputs[0] = TensorSignature { name: "1204".to_owned(), dtype: DType::F16, shape: shape(&["b", "s", "v"]) };
        // Two inputs of the ids' shape: it is a guess which is which.
        assert_eq!(read(signature.clone()).unwrap_err(), "input `onnx::Gather_0` is none that we know");
        // What else has the ids' shape is no position for that: it may be a token's type.
        signature.inputs[0].name = "ids".to_owned();
        assert_eq!(read(signature.clone()).unwrap_err(), "input `other` is none that we know");
        signature.inputs[0].name = "onnx::Gather_0".to_owned();
        signature.inputs.remove(1);
        let roles: Vec<Role> = read(signature).unwrap().inputs.iter().map(|input| input.role).collect();
        assert_eq!(roles, [Role::InputIds, Role::AttentionMask, Role::Cache(0), Role::Cache(1)]);
    }

    #[test]
    fn fixed_dimensions_are_held_against_the_batch() {
        let mut signature = one_layer();
        signature.inputs[0].shape = vec![Ok(1), Ok(4)];
        let interface = read(signature).unwrap();
        interface.check_rows(1).unwrap();
        assert!(interface.check_rows(2).unwrap_err().to_string().contains("2 rows were asked for; `input_ids` has 1"));
        interface.fit(&Batch::unpadded(1, vec![1, 2, 3, 4], 0).unwrap(), 1, 0).unwrap();
        let error = interface.fit(&Batch::unpadded(1, vec![1, 2], 0).unwrap(), 1, 0).unwrap_err().to_string();
        assert!(error.contains("`input_ids` would be [1, 2]; the graph takes [1, 4]"), "{error}");
        let error = interface.fit(&Batch::unpadded(2, vec![1, 2], 0).unwrap(), 1, 0).unwrap_err().to_string();
        assert!(error.contains("it has 2 rows; the session was reset for 1"), "{error}");
    }
}
