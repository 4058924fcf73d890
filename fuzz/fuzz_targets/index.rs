//! Any bytes as an index: no panic, and accepted file names stay in their folder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plansmith_checkpoint::Index;

fuzz_target!(|text: &[u8]| {
    let Ok(index) = Index::parse(text) else { return };
    for (file, _) in index.files() {
        assert!(file.ends_with(".safetensors") && !file.contains(['/', '\\']));
    }
});
