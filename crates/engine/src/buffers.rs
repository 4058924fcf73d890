//! Memory on the device for whatever steps the profiles of plans allow: known before the first one, so that none allocates.

use crate::{Error, PlanManifest, Profile, TensorRecord};

/// One allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceBuffer {
    /// The inputs and outputs that lie in it; a cache that is updated in place has one of each.
    pub names: Vec<String>,
    /// Its size.
    pub bytes: u64,
}

/// The buffers of plans that share one cache: a token input or the logits each its own; a cache pair one where the plan updates it in place,
/// else two of one size, which change places after each step.
///
/// # Errors
/// [`Error::Protocol`]: a manifest leaves the size of a tensor open.
pub fn device_buffers(manifests: &[PlanManifest]) -> Result<Vec<DeviceBuffer>, Error> {
    let mut buffers: Vec<DeviceBuffer> = Vec::new();
    for manifest in manifests {
        let pair = |name: &str| manifest.cache.iter().find(|pair| pair.past == name || pair.present == name);
        for (tensor, bytes) in sizes(manifest)? {
            let names = match pair(&tensor.name) {
                Some(pair) if pair.aliased => vec![pair.past.clone(), pair.present.clone()],
                _ => vec![tensor.name.clone()],
            };
            match buffers.iter_mut().find(|buffer| buffer.names == names) {
                Some(buffer) => buffer.bytes = buffer.bytes.max(bytes),
                None => buffers.push(DeviceBuffer { names, bytes }),
            }
        }
    }
    // What was written is read next: both of a pair have to hold the longer.
    for pair in manifests.iter().flat_map(|manifest| &manifest.cache).filter(|pair| !pair.aliased) {
        let of = |buffer: &DeviceBuffer| buffer.names.contains(&pair.past) || buffer.names.contains(&pair.present);
        let most = buffers.iter().filter(|buffer| of(buffer)).map(|buffer| buffer.bytes).max().unwrap_or(0);
        buffers.iter_mut().filter(|buffer| of(buffer)).for_each(|buffer| buffer.bytes = most);
    }
    Ok(buffers)
}

/// Every input and output with the bytes of its largest shape in any profile.
fn sizes(manifest: &PlanManifest) -> Result<Vec<(&TensorRecord, u64)>, Error> {
    let mut sizes = Vec::new();
    for tensor in manifest.inputs.iter().chain(&manifest.outputs) {
        let mut most = 0;
        for record in &manifest.profiles {
            let shape = match record.inputs.iter().find(|shapes| shapes.name == tensor.name) {
                Some(shapes) => Some(shapes.max.clone()),
                None => largest(tensor, &record.profile),
            };
            let bytes = shape.and_then(|shape| tensor.dtype.tensor_bytes(&shape));
            let open =
                || Error::Protocol(format!("the largest size of `{}` {:?} does not follow from the manifest", tensor.name, tensor.shape));
            most = most.max(bytes.ok_or_else(open)?);
        }
        sizes.push((tensor, most));
    }
    Ok(sizes)
}

/// The largest shape of an output: `logits` `[batch, sequence or 1, vocab]`, or a cache `[batch, kv_heads, past + sequence or fixed, head_dim]`.
fn largest(output: &TensorRecord, profile: &Profile) -> Option<Vec<u64>> {
    let open = match output.shape.len() {
        3 => [Some(profile.batch().max()), Some(profile.sequence().max()), None, None],
        4 => [Some(profile.batch().max()), None, Some(profile.total().max()), None],
        _ => return None,
    };
    output.shape.iter().zip(open).map(|(&axis, open)| u64::try_from(axis).ok().or(open)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str) -> PlanManifest {
        let text = match name {
            "static" => include_str!("../tests/data/static.json"),
            _ => include_str!("../tests/data/concat.json"),
        };
        serde_json::from_str(text).unwrap()
    }

    fn bytes(buffers: &[DeviceBuffer], name: &str) -> Vec<u64> {
        buffers.iter().filter(|buffer| buffer.names.iter().any(|known| known == name)).map(|buffer| buffer.bytes).collect()
    }

    #[test]
    fn a_growing_cache_has_two_buffers_of_the_longer_size() {
        // batch 1..2, sequence 1..16, past 0..32; one key head of 16 elements in fp16.
        let buffers = device_buffers(&[manifest("concat")]).unwrap();
        let present = 2 * (32 + 16) * 16 * 2;
        assert_eq!(bytes(&buffers, "past_key_values.0.key"), [present]);
        assert_eq!(bytes(&buffers, "present.0.key"), [present]);
        assert_eq!(bytes(&buffers, "input_ids"), [2 * 16 * 8]);
        assert_eq!(bytes(&buffers, "attention_mask"), [2 * (32 + 16) * 8]);
        assert_eq!(bytes(&buffers, "logits"), [2 * 16 * 32 * 4]);
    }

    #[test]
    fn a_cache_in_place_has_one() {
        // batch 1..2, sequence 1..16, 64 slots; two key heads of 16 elements in fp16, two layers.
        let buffers = device_buffers(&[manifest("static")]).unwrap();
        let slots = 2 * 2 * 64 * 16 * 2;
        assert_eq!(bytes(&buffers, "past_key_values.1.value"), [slots]);
        assert_eq!(bytes(&buffers, "present.1.value"), [slots], "the same buffer");
        let cache: u64 = buffers.iter().filter(|buffer| buffer.names.len() == 2).map(|buffer| buffer.bytes).sum();
        assert_eq!(cache, 4 * slots);
        assert_eq!(bytes(&buffers, "attention_mask"), [2 * 64 * 8]);
        assert_eq!(bytes(&buffers, "cache_position"), [2 * 8]);
    }

    #[test]
    fn plans_that_share_a_cache_share_the_largest_buffers() {
        let (short, mut long) = (manifest("concat"), manifest("concat"));
        let record = &mut long.profiles[0];
        record.profile = "long:batch=1,sequence=1,past=1..8..100".parse().unwrap();
        for shapes in &mut record.inputs {
            let name = shapes.name.as_str();
            shapes.max = match name {
                "attention_mask" => vec![1, 101],
                "input_ids" | "position_ids" => vec![1, 1],
                _ => vec![1, 1, 100, 16],
            };
        }
        let buffers = device_buffers(&[short, long]).unwrap();
        assert_eq!(bytes(&buffers, "past_key_values.0.key"), [101 * 16 * 2]);
        assert_eq!(bytes(&buffers, "attention_mask"), [101 * 8]);
        assert_eq!(bytes(&buffers, "input_ids"), [2 * 16 * 8]);
    }
}
