//! Device memory that a profile implies at its largest, before anything is built.

use std::fmt;

use plansmith_tensor::{Signature, TensorSignature};
use serde::{Deserialize, Serialize};

use crate::{Error, Flavor, Profile, TensorShapes, static_slots};

/// Bytes on the device at a profile's maximum. What kernels need for themselves comes on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMemory {
    /// The weights, once.
    pub weights: u64,
    /// Keys and values that a step reads.
    pub past: u64,
    /// Keys and values that it writes.
    pub present: u64,
    /// `logits`.
    pub logits: u64,
    /// The masks that attention is given, one for each row that it is divided into.
    pub masks: u64,
    /// Token ids, the mask that is given from outside, and positions.
    pub tokens: u64,
}

impl DeviceMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        [self.weights, self.past, self.present, self.logits, self.masks, self.tokens].into_iter().fold(0, u64::saturating_add)
    }

    /// Of a step of the largest size that `inputs`, shaped by `profile`, allow; `mask` is what the graph's masks take for one row of the batch,
    /// one new token and one token that it may see.
    pub(crate) fn at_most(profile: &Profile, signature: &Signature, inputs: &[TensorShapes], weights: u64, mask: u64) -> Self {
        let seen = static_slots(&signature.inputs).unwrap_or(profile.total().max());
        let masks = [profile.batch().max(), profile.sequence().max(), seen].into_iter().fold(mask, u64::saturating_mul);
        let mut memory = Self { weights, past: 0, present: 0, logits: 0, masks, tokens: 0 };
        let add = |sum: &mut u64, bytes: Option<u64>| *sum = sum.saturating_add(bytes.unwrap_or(u64::MAX));
        for (input, shapes) in signature.inputs.iter().zip(inputs) {
            let cache = input.name.starts_with("past_key_values.");
            add(if cache { &mut memory.past } else { &mut memory.tokens }, input.dtype.tensor_bytes(&shapes.max));
        }
        for output in &signature.outputs {
            let present = output.name.starts_with("present.");
            // A static cache is updated where it is.
            if present && static_slots(&signature.inputs).is_some() {
                continue;
            }
            let shape = output_shape(output, profile, present);
            if let Some(shape) = shape {
                add(if present { &mut memory.present } else { &mut memory.logits }, output.dtype.tensor_bytes(&shape));
            }
        }
        memory
    }

    /// Refuses what no GPU of the flavour has.
    pub(crate) fn check(&self, profile: &Profile, flavor: Flavor) -> Result<(), Error> {
        if self.total() <= flavor.most_memory() {
            return Ok(());
        }
        let limit = flavor.most_memory() >> 30;
        let reason = format!(
            "its maximum (batch {}, sequence {}, past {}) needs {self}; no GPU of this flavour has more than {limit} GiB",
            profile.batch().max(),
            profile.sequence().max(),
            profile.past().max()
        );
        Err(Error::Shapes { profile: profile.name().to_owned(), reason })
    }
}

/// Largest shape of an output; `None` where it is none of a decoder's.
fn output_shape(output: &TensorSignature, profile: &Profile, present: bool) -> Option<Vec<u64>> {
    let fixed = |index: usize| output.shape.get(index)?.as_ref().ok().copied();
    let batch = profile.batch().max();
    if present {
        return Some(vec![batch, fixed(1)?, fixed(2).unwrap_or(profile.total().max()), fixed(3)?]);
    }
    (output.name == "logits").then_some(())?;
    Some(vec![batch, fixed(1).unwrap_or(profile.sequence().max()), fixed(2)?])
}

impl fmt::Display for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        write!(
            f,
            "{:.2} GiB: weights {:.2}, cache read {:.2} and written {:.2}, logits {:.2}, masks {:.2}",
            gib(self.total()),
            gib(self.weights),
            gib(self.past),
            gib(self.present),
            gib(self.logits),
            gib(self.masks)
        )
    }
}

#[cfg(test)]
mod tests {
    use plansmith_tensor::DType;

    use super::*;
    use crate::input_shapes;

    fn tensor(name: &str, dtype: DType, shape: &[i64]) -> TensorSignature {
        let shape = shape.iter().map(|&axis| u64::try_from(axis).map_err(|_| "open".to_owned())).collect();
        TensorSignature { name: name.to_owned(), dtype, shape }
    }

    fn decoder(logits: i64) -> Signature {
        Signature {
            inputs: vec![tensor("input_ids", DType::I64, &[-1, -1]), tensor("past_key_values.0.key", DType::F16, &[-1, 3, -1, 64])],
            outputs: vec![tensor("logits", DType::F32, &[-1, logits, 49152]), tensor("present.0.key", DType::F16, &[-1, 3, -1, 64])],
        }
    }

    #[test]
    fn every_part_is_counted_at_the_maximum() {
        let profile: Profile = "p:batch=1..2..4,sequence=1..128..1024,past=0..512..2048".parse().unwrap();
        let measure = |signature: &Signature| {
            let shapes = input_shapes(&profile, &signature.inputs, Flavor::Rtx).unwrap();
            DeviceMemory::at_most(&profile, signature, &shapes, 1000, 6)
        };
        // 4·3·2048·64·2; 4·3·3072·64·2; 4·1024·49152·4; 4·1024·8; 6·4·1024·3072.
        let all = measure(&decoder(-1));
        assert_eq!([all.past, all.present, all.logits, all.tokens, all.weights], [3_145_728, 4_718_592, 805_306_368, 32_768, 1000]);
        assert_eq!((all.masks, all.total()), (75_497_472, 888_701_928));
        // Logits of the last position only.
        assert_eq!(measure(&decoder(1)).logits, 786_432);
    }

    #[test]
    fn what_no_gpu_has_is_refused_with_the_parts() {
        let profile: Profile = "p:batch=1..1..64,sequence=1..128..16384,past=0".parse().unwrap();
        let signature = decoder(-1);
        let shapes = input_shapes(&profile, &signature.inputs, Flavor::Rtx).unwrap();
        let error = DeviceMemory::at_most(&profile, &signature, &shapes, 1 << 30, 0).check(&profile, Flavor::Rtx).unwrap_err().to_string();
        // 64·16384·49152·4 bytes are 192 GiB.
        assert!(error.contains("(batch 64, sequence 16384, past 0) needs 193.") && error.contains("logits 192.00"), "{error}");
        assert!(error.contains("more than 128 GiB"), "{error}");
        let memory = DeviceMemory::at_most(&profile, &signature, &shapes, 1 << 30, 0);
        assert!(memory.check(&profile, Flavor::Enterprise).is_ok(), "a B300 has that");
    }
}
