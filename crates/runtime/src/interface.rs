//! Which input and output of a graph is what.

use plansmith_tensor::{Batch, DType, Logits, SessionError, Signature, TensorSignature};

/// What an input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    InputIds,
    AttentionMask,
    PositionIds,
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

/// One tensor of the cache, `[batch, heads, past, head_dim]`: the input and the output that carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachePort {
    pub(crate) past: String,
    pub(crate) present: String,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
}

/// A decoder graph's interface.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) signature: Signature,
    pub(crate) inputs: Vec<Input>,
    /// Key of layer 0, value of layer 0, key of layer 1, …
    pub(crate) cache: Vec<CachePort>,
    /// Of every cache tensor.
    pub(crate) cache_dtype: DType,
}

pub(crate) const LOGITS: &str = "logits";

impl Interface {
    /// Recognises inputs and outputs by name.
    ///
    /// Errors name the input or output that is missing, unknown, or of a dtype or shape that cannot be served.
    pub(crate) fn read(signature: Signature) -> Result<Self, String> {
        let layers = layers(&signature)?;
        let mut cache = Vec::with_capacity(2 * layers);
        let mut cache_dtype = None;
        for layer in 0..layers {
            for part in ["key", "value"] {
                let past = format!("past_key_values.{layer}.{part}");
                let present = format!("present.{layer}.{part}");
                let input = find(&signature.inputs, "input", &past)?;
                let output = find(&signature.outputs, "output", &present)?;
                if output.dtype != input.dtype {
                    return Err(format!("output `{present}` is {}, input `{past}` is {}", output.dtype, input.dtype));
                }
                if *cache_dtype.get_or_insert(input.dtype) != input.dtype {
                    return Err(format!("input `{past}` is {}, the cache before it is another dtype", input.dtype));
                }
                let (heads, head_dim) = cache_shape(input)?;
                cache.push(CachePort { past, present, heads, head_dim });
            }
        }
        let cache_dtype = cache_dtype.ok_or("it has no cache: no input `past_key_values.0.key`")?;
        if !cache_dtype.is_compute_float() {
            return Err(format!("the cache is {cache_dtype}; F32, F16 and BF16 can be served"));
        }
        let inputs = signature.inputs.iter().map(|input| role(input, &cache)).collect::<Result<Vec<_>, _>>()?;
        for needed in ["input_ids", "attention_mask"] {
            find(&signature.inputs, "input", needed)?;
        }
        let logits = find(&signature.outputs, "output", LOGITS)?;
        if logits.shape.len() != 3 || !logits.dtype.is_compute_float() {
            let (dtype, rank) = (logits.dtype, logits.shape.len());
            return Err(format!("output `logits` is {dtype} of rank {rank}; a float of shape [batch, sequence, vocab] is needed"));
        }
        let known = |name: &str| name == LOGITS || cache.iter().any(|port| port.present == name);
        if let Some(output) = signature.outputs.iter().find(|output| !known(&output.name)) {
            return Err(format!("output `{}` is none that we know", output.name));
        }
        Ok(Self { signature, inputs, cache, cache_dtype })
    }

    /// Whether `batch` fits a session of `rows` rows that holds `past` tokens a row, and the graph's fixed dimensions.
    pub(crate) fn check(&self, batch: &Batch, rows: usize, past: usize) -> Result<(), SessionError> {
        if batch.batch != rows {
            return Err(SessionError::Batch(format!("it has {} rows; the session was reset for {rows}", batch.batch)));
        }
        batch.check(past)?;
        for (input, tensor) in self.inputs.iter().zip(&self.signature.inputs) {
            let shape = match input.role {
                Role::InputIds | Role::PositionIds => vec![batch.batch, batch.sequence],
                Role::AttentionMask => vec![batch.batch, batch.total()],
                Role::Cache(port) => vec![batch.batch, self.cache[port].heads, past, self.cache[port].head_dim],
            };
            let fits = |(fixed, given): (&Result<u64, String>, &usize)| fixed.as_ref().map_or(true, |&fixed| fixed == *given as u64);
            if tensor.shape.len() != shape.len() || !tensor.shape.iter().zip(&shape).all(fits) {
                let (name, fixed) = (&input.name, show(&tensor.shape));
                return Err(SessionError::Batch(format!("`{name}` would be {shape:?}; the graph takes {fixed}")));
            }
        }
        Ok(())
    }

    /// Whether the graph can run with `rows` rows.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), SessionError> {
        let fixed = self.signature.inputs.iter().find_map(|input| match input.shape.first() {
            Some(&Ok(fixed)) if fixed != rows as u64 => Some((&input.name, fixed)),
            _ => None,
        });
        match fixed {
            Some((name, fixed)) => {
                Err(SessionError::Batch(format!("{rows} rows were asked for; `{name}` has {fixed}, fixed in the graph")))
            }
            None if rows == 0 => Err(SessionError::Batch("a session needs at least one row".to_owned())),
            None => Ok(()),
        }
    }
}

/// The elements of `role` in `batch` and their shape. `Cache` has none here.
pub(crate) fn integers(batch: &Batch, role: Role) -> Option<([usize; 2], &[i64])> {
    match role {
        Role::InputIds => Some(([batch.batch, batch.sequence], &batch.input_ids)),
        Role::AttentionMask => Some(([batch.batch, batch.total()], &batch.attention_mask)),
        Role::PositionIds => Some(([batch.batch, batch.sequence], &batch.position_ids)),
        Role::Cache(_) => None,
    }
}

/// Logits of one step from what the runtime gave: every position of the step, or one a row.
pub(crate) fn logits(shape: &[usize], data: Vec<f32>, batch: &Batch) -> Result<Logits, String> {
    match *shape {
        [rows, sequence, vocab]
            if rows == batch.batch && (sequence == batch.sequence || sequence == 1) && data.len() == rows * sequence * vocab =>
        {
            Ok(Logits { batch: rows, sequence, vocab, data })
        }
        _ => {
            let (rows, sequence) = (batch.batch, batch.sequence);
            Err(format!("`logits` is {shape:?}; [{rows}, {sequence} or 1, vocab] was expected"))
        }
    }
}

/// Number of layers with a cache: one more than the highest number in the inputs' names.
fn layers(signature: &Signature) -> Result<usize, String> {
    let mut layers = 0;
    for input in &signature.inputs {
        let Some(rest) = input.name.strip_prefix("past_key_values.") else { continue };
        let number = rest.split_once('.').and_then(|(number, _)| number.parse::<usize>().ok());
        let number = number.filter(|&number| number < signature.inputs.len()).ok_or_else(|| unknown_input(&input.name))?;
        layers = layers.max(number + 1);
    }
    Ok(layers)
}

fn role(input: &TensorSignature, cache: &[CachePort]) -> Result<Input, String> {
    let role = match input.name.as_str() {
        "input_ids" => Role::InputIds,
        "attention_mask" => Role::AttentionMask,
        "position_ids" => Role::PositionIds,
        name => {
            let port = cache.iter().position(|port| port.past == name);
            return port
                .map(|port| Input { name: name.to_owned(), role: Role::Cache(port), dtype: input.dtype })
                .ok_or_else(|| unknown_input(name));
        }
    };
    if !matches!(input.dtype, DType::I64 | DType::I32) {
        return Err(format!("input `{}` is {}; I64 and I32 can be served", input.name, input.dtype));
    }
    Ok(Input { name: input.name.clone(), role, dtype: input.dtype })
}

fn unknown_input(name: &str) -> String {
    let reason = if name == "cache_position" { " (a static cache is not supported here; export with `--kv concat`)" } else { "" };
    format!("input `{name}` is none that we know{reason}")
}

fn find<'a>(tensors: &'a [TensorSignature], kind: &str, name: &str) -> Result<&'a TensorSignature, String> {
    tensors.iter().find(|tensor| tensor.name == name).ok_or_else(|| format!("it has no {kind} `{name}`"))
}

fn cache_shape(input: &TensorSignature) -> Result<(usize, usize), String> {
    match input.shape.as_slice() {
        [_, Ok(heads), _, Ok(head_dim)] => Ok((*heads as usize, *head_dim as usize)),
        shape => {
            let (name, shape) = (&input.name, show(shape));
            Err(format!("input `{name}` is {shape}; [batch, heads, past, head_dim] with numbers for heads and head_dim is needed"))
        }
    }
}

fn show(shape: &[Result<u64, String>]) -> String {
    let dims: Vec<String> = shape.iter().map(|dim| dim.as_ref().map_or_else(Clone::clone, u64::to_string)).collect();
    format!("[{}]", dims.join(", "))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn position_ids_may_be_absent_and_the_cache_is_in_layer_order() {
        let interface = Interface::read(one_layer()).unwrap();
        assert_eq!(interface.cache_dtype, DType::F16);
        assert_eq!(interface.cache.len(), 2);
        assert_eq!(interface.cache[1].present, "present.0.value");
        assert_eq!((interface.cache[0].heads, interface.cache[0].head_dim), (2, 16));
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_name() {
        let refused = |change: fn(&mut Signature)| {
            let mut signature = one_layer();
            change(&mut signature);
            Interface::read(signature).unwrap_err()
        };
        assert_eq!(refused(|s| s.inputs[0].name = "inputs_embeds".to_owned()), "input `inputs_embeds` is none that we know");
        assert!(refused(|s| s.inputs.push(tensor("cache_position", DType::I64, &[None]))).contains("--kv concat"));
        assert_eq!(
            refused(|s| s.outputs.push(tensor("hidden_states", DType::F32, &[None]))),
            "output `hidden_states` is none that we know"
        );
        assert_eq!(refused(|s| s.outputs[1].name = "present.1.key".to_owned()), "it has no output `present.0.key`");
        assert_eq!(refused(|s| s.outputs[2].dtype = DType::F32), "output `present.0.value` is F32, input `past_key_values.0.value` is F16");
        assert_eq!(refused(|s| s.inputs.truncate(2)), "it has no cache: no input `past_key_values.0.key`");
        assert!(refused(|s| s.inputs[2].shape[3] = Err("d".to_owned())).contains("is [n, 2, n, d]; [batch, heads, past, head_dim]"));
        assert_eq!(refused(|s| s.inputs[0].dtype = DType::F32), "input `input_ids` is F32; I64 and I32 can be served");
        assert!(refused(|s| s.inputs[2].name = "past_key_values.9999999.key".to_owned()).contains("past_key_values.9999999.key"));
        assert!(refused(|s| drop(s.inputs.remove(1))).contains("no input `attention_mask`"));
    }

    #[test]
    fn fixed_dimensions_are_held_against_the_batch() {
        let mut signature = one_layer();
        signature.inputs[0].shape = vec![Ok(1), Ok(4)];
        let interface = Interface::read(signature).unwrap();
        interface.check_rows(1).unwrap();
        assert!(interface.check_rows(2).unwrap_err().to_string().contains("2 rows were asked for; `input_ids` has 1"));
        interface.check(&Batch::unpadded(1, vec![1, 2, 3, 4], 0).unwrap(), 1, 0).unwrap();
        let error = interface.check(&Batch::unpadded(1, vec![1, 2], 0).unwrap(), 1, 0).unwrap_err().to_string();
        assert!(error.contains("`input_ids` would be [1, 2]; the graph takes [1, 4]"), "{error}");
        let error = interface.check(&Batch::unpadded(2, vec![1, 2], 0).unwrap(), 1, 0).unwrap_err().to_string();
        assert!(error.contains("it has 2 rows; the session was reset for 1"), "{error}");
    }
}
