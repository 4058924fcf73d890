//! What a step has inside, against what hooks on transformers see (`tools/make_mutant_fixtures.py`).

use std::collections::BTreeMap;

use crate::support::{goldens, open, testdata};
use plansmith_tensor::Session;
use safetensors::tensor::SafeTensors;

#[test]
fn every_tap_is_what_transformers_has_there() {
    for family in ["cohere", "gemma2", "gpt2", "gpt_neox", "granite", "llama", "qwen3"] {
        let dir = testdata().join("mutants").join(family);
        let bytes = std::fs::read(dir.join("taps.safetensors")).unwrap();
        let mut wanted: BTreeMap<String, Vec<f32>> = BTreeMap::new();
        for (name, view) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
            wanted.insert(name, view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect());
        }
        let golden = goldens(&dir.join("golden.safetensors")).into_iter().find(|set| set.name == "plain").unwrap();
        wanted.insert("logits".to_owned(), golden.logits.data.clone());
        let mut reference = open(&dir);
        let (logits, taps) = reference.step_tapped(&golden.batch).unwrap();
        assert_eq!(logits.data.len(), golden.logits.data.len());
        assert_eq!(taps.len(), 12, "embedding, three of each layer, final norm and logits");
        for (tap, found) in taps {
            let wanted = wanted.remove(&tap.to_string()).unwrap_or_else(|| panic!("{family} {tap}"));
            assert_eq!((found.shape[0], found.data.len()), (golden.batch.sequence, wanted.len()), "{family} {tap}");
            let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let off = found.data.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
            assert!(off <= 1e-5 * largest, "{family} {tap}: {off:e} of {largest}");
        }
        assert!(wanted.is_empty(), "{family}: {:?}", wanted.keys());
        reference.reset(1).unwrap();
        assert_eq!(reference.step(&golden.batch).unwrap(), logits, "looking changes nothing");
    }
}
