//! What each input and output is for: by hand, by name, and where names do not tell, by dtype, shape and the nodes between.

use std::collections::{BTreeMap, BTreeSet};

use plansmith_onnx::ModelProto;
use plansmith_tensor::{DType, Signature, TensorSignature};

use super::links::Links;
use super::slot::{self, Part, Slot};
use crate::NameMap;

/// Indices of inputs and outputs by what they are for.
pub(super) type Slots = BTreeMap<Slot, usize>;

/// Finds the slot of every input, and of those outputs that have one.
///
/// Errors name the input or output that is missing, unknown or twofold.
pub(super) fn recognise(signature: &Signature, map: &NameMap, model: Option<&ModelProto>) -> Result<Slots, String> {
    let Signature { inputs, outputs } = signature;
    let mut slots = map.resolve(&names(inputs), &names(outputs))?;
    for (index, input) in unclaimed(inputs, &slots, true) {
        let fits = |slot: &Slot| match input.dtype {
            DType::Bool => matches!(slot, Slot::UseCache | Slot::AttentionMask),
            dtype => !is_float(dtype) && *slot != Slot::UseCache,
        };
        if let Some(slot) = slot::of_tokens(&input.name).filter(fits) {
            claim(&mut slots, slot, index, inputs)?;
        }
    }
    if let Some(&index) = slots.get(&Slot::CachePosition) {
        by_row(&inputs[index], model)?;
    }
    logits(outputs, &mut slots);
    tokens_by_shape(signature, &mut slots);

    let pasts: Vec<_> = unclaimed(inputs, &slots, true).into_iter().filter(|(_, input)| is_cache(input)).collect();
    for (layer, part, index) in by_names(&pasts) {
        claim(&mut slots, Slot::Past(layer, part), index, inputs)?;
    }
    if let Some((_, input)) = unclaimed(inputs, &slots, true).first() {
        return Err(unknown_input(&input.name));
    }
    let presents: Vec<_> = unclaimed(outputs, &slots, false).into_iter().filter(|(_, output)| is_cache(output)).collect();
    for (layer, part, index) in by_names(&presents) {
        claim(&mut slots, Slot::Present(layer, part), index, outputs)?;
    }
    follow(signature, model, &mut slots);
    Ok(slots)
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64) || dtype.is_compute_float()
}

fn names(tensors: &[TensorSignature]) -> Vec<&str> {
    tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

/// `[batch, heads, past, head_dim]`, or two of them stacked.
fn is_cache(tensor: &TensorSignature) -> bool {
    is_float(tensor.dtype) && matches!(tensor.shape.len(), 4 | 5)
}

fn claim(slots: &mut Slots, slot: Slot, index: usize, tensors: &[TensorSignature]) -> Result<(), String> {
    match slots.insert(slot, index) {
        None => Ok(()),
        Some(before) => Err(format!("`{}` and `{}` both look like `{slot}`", tensors[before].name, tensors[index].name)),
    }
}

/// Inputs, or outputs, that have no slot yet.
fn unclaimed<'a>(tensors: &'a [TensorSignature], slots: &Slots, inputs: bool) -> Vec<(usize, &'a TensorSignature)> {
    let claimed: BTreeSet<usize> = slots.iter().filter(|(slot, _)| slot.is_input() == inputs).map(|(_, &index)| index).collect();
    tensors.iter().enumerate().filter(|(index, _)| !claimed.contains(index)).collect()
}

/// The output whose name says so, else the only float output of the shape of logits.
fn logits(outputs: &[TensorSignature], slots: &mut Slots) {
    if slots.contains_key(&Slot::Logits) {
        return;
    }
    let free = unclaimed(outputs, slots, false);
    let float: Vec<_> = free.into_iter().filter(|(_, output)| is_float(output.dtype)).collect();
    let exact: Vec<_> = float.iter().filter(|(_, output)| output.name.eq_ignore_ascii_case("logits")).collect();
    let named: Vec<_> = float.iter().filter(|(_, output)| slot::is_logits(&output.name)).collect();
    let rank = |rank: usize| float.iter().filter(move |(_, output)| output.shape.len() == rank).collect::<Vec<_>>();
    // Where there are several of one kind, the next kind would be a guess.
    let found = [exact, named, rank(3), rank(2)].into_iter().find(|found| !found.is_empty());
    if let Some(&[(index, _)]) = found.as_deref() {
        slots.insert(Slot::Logits, *index);
    }
}

/// Integer inputs whose names do not tell: `input_ids` has the logits' first two dimensions, `attention_mask` another second one.
fn tokens_by_shape(signature: &Signature, slots: &mut Slots) {
    let integers = |slots: &Slots| -> Vec<(usize, Vec<Result<u64, String>>)> {
        let free = unclaimed(&signature.inputs, slots, true).into_iter();
        let integers = free.filter(|(_, input)| matches!(input.dtype, DType::I64 | DType::I32) && input.shape.len() == 2);
        integers.map(|(index, input)| (index, input.shape.clone())).collect()
    };
    let of = |slots: &Slots, slot: Slot| slots.get(&slot).copied();
    if of(slots, Slot::InputIds).is_none() {
        let logits = of(slots, Slot::Logits).map(|index| &signature.outputs[index].shape).filter(|shape| shape.len() == 3);
        let free = integers(slots);
        let alike: Vec<_> = free.iter().filter(|(_, shape)| logits.is_none_or(|logits| logits[..2] == shape[..])).collect();
        if let &[(index, _)] = alike.as_slice() {
            slots.insert(Slot::InputIds, *index);
        }
    }
    let Some(ids) = of(slots, Slot::InputIds).map(|index| signature.inputs[index].shape.clone()) else { return };
    if of(slots, Slot::AttentionMask).is_none() {
        let free = integers(slots);
        let longer: Vec<_> = free.iter().filter(|(_, shape)| ids.len() == 2 && shape[1] != ids[1]).collect();
        if let &[(index, _)] = longer.as_slice() {
            slots.insert(Slot::AttentionMask, *index);
        }
    }
}

/// Layer, part and index of the cache tensors whose names say both. Layers are counted in the order of the names' numbers; no number comes
/// before any.
fn by_names(tensors: &[(usize, &TensorSignature)]) -> Vec<(usize, Part, usize)> {
    let read = |&(index, tensor): &(usize, &TensorSignature)| {
        let name = slot::of_cache(&tensor.name);
        let stacked = tensor.shape.len() == 5;
        match (name.part, stacked) {
            (Some(part), false) => Some((name.number, part, index)),
            (None, true) => Some((name.number, Part::Both, index)),
            _ => None,
        }
    };
    let named: Vec<_> = tensors.iter().filter_map(read).collect();
    let numbers: BTreeSet<Option<usize>> = named.iter().map(|(number, ..)| *number).collect();
    let layer = |number| numbers.iter().position(|&known| known == number).unwrap_or(0);
    named.into_iter().map(|(number, part, index)| (layer(number), part, index)).collect()
}

/// Presents whose names do not tell: those that the pasts become.
fn follow(signature: &Signature, model: Option<&ModelProto>, slots: &mut Slots) {
    let Some(model) = model else { return };
    let pasts: Vec<(usize, Part, usize)> = slots
        .iter()
        .filter_map(|(slot, &index)| match *slot {
            Slot::Past(layer, part) if !slots.contains_key(&Slot::Present(layer, part)) => Some((layer, part, index)),
            _ => None,
        })
        .collect();
    if pasts.is_empty() {
        return;
    }
    let links = Links::of(model);
    for (layer, part, past) in pasts {
        let present = links.present(&signature.inputs[past].name);
        let index = present.and_then(|name| signature.outputs.iter().position(|output| output.name == name));
        if let Some(index) = index.filter(|index| unclaimed(&signature.outputs, slots, false).iter().any(|(free, _)| free == index)) {
            slots.insert(Slot::Present(layer, part), index);
        }
    }
}

fn unknown_input(name: &str) -> String {
    format!("input `{name}` is none that we know")
}

/// Refuses a `cache_position` that does not say, one number a row, where TensorScatter writes: transformers gives its caches one number a token.
fn by_row(input: &TensorSignature, model: Option<&ModelProto>) -> Result<(), String> {
    let mut nodes = model.iter().flat_map(|model| &model.graph).flat_map(|graph| &graph.node);
    let scatters = model.is_none() || nodes.any(|node| node.op_type() == "TensorScatter" && node.input.get(2) == Some(&input.name));
    if input.shape.len() == 1 && input.dtype == DType::I64 && scatters {
        return Ok(());
    }
    Err(format!("input `{}` is none that we know: I64 [batch] is, where a TensorScatter writes by it", input.name))
}
