//! A model larger than the memory that this process may have.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plansmith_checkpoint::Checkpoint;
use plansmith_families::{Options, Tensors, load};
use plansmith_reference::Reference;
use plansmith_tensor::{Batch, Session};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value, json};

/// Neurons that a fixture's feed-forward parts get: 1.4 GB of zeros, more than what stays in memory of small models.
const NEURONS: usize = 900_000;
/// What the process may allocate. faer reserves twice the processor's last-level cache a thread, and touches little of it.
const ALLOCATED: u64 = 1 << 30;
/// How much of that, and of the files, may be in memory at a time.
const RESIDENT: u64 = 256 << 20;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases/made_llama_tied")
}

/// Writes the fixture with neurons added whose weights are zero, as holes of the file: its logits stay what they are.
fn grow(folder: &Path) {
    let mut config: Value = serde_json::from_slice(&std::fs::read(fixture().join("config.json")).unwrap()).unwrap();
    let neurons = config["intermediate_size"].as_u64().unwrap() as usize;
    config["intermediate_size"] = json!(NEURONS);
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();

    let bytes = std::fs::read(fixture().join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let (mut header, mut rows, mut end) = (Map::new(), Vec::new(), 0);
    for (name, tensor) in stored.tensors() {
        let shape: Vec<usize> = tensor.shape().iter().map(|&axis| if axis == neurons { NEURONS } else { axis }).collect();
        let (old, new) = (tensor.shape()[tensor.shape().len() - 1] * 4, shape[shape.len() - 1] * 4);
        rows.extend(tensor.data().chunks_exact(old).enumerate().map(|(index, row)| (end + index * new, row.to_vec())));
        let length = shape.iter().product::<usize>() * 4;
        header.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": [end, end + length] }));
        end += length;
    }
    let header = Value::Object(header).to_string();
    let payload = 8 + header.len() as u64;
    let mut file = File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    for (offset, row) in rows {
        file.seek(SeekFrom::Start(payload + offset as u64)).unwrap();
        file.write_all(&row).unwrap();
    }
    file.set_len(payload + end as u64).unwrap();
}

/// The largest resident size of this process, mapped files included.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_model_larger_than_memory_gives_the_logits_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    grow(folder.path());
    // Else what every thread reserves would be what is measured.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    // Counts what is allocated. Maps of files do not count: the system may drop their pages, and `peak` shows that they go before that.
    setrlimit(Resource::Data, Rlimit { current: Some(ALLOCATED), ..getrlimit(Resource::Data) }).unwrap();

    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    assert!(std::fs::metadata(folder.path().join("model.safetensors")).unwrap().len() > ALLOCATED + RESIDENT);
    let config: Value = checkpoint.read_json("config.json").unwrap();
    let tensors: Tensors<'_> = checkpoint.tensors().values().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
    let spec = load(&config, &tensors, &Options::default()).unwrap().spec;
    let mut reference = Reference::open(spec, &checkpoint).unwrap();

    let golden = std::fs::read(fixture().join("golden.safetensors")).unwrap();
    let golden = SafeTensors::deserialize(&golden).unwrap();
    let [ids, logits] = ["plain.input_ids", "plain.logits"].map(|name| golden.tensor(name).unwrap());
    let ids: Vec<i64> = ids.data().as_chunks::<8>().0.iter().map(|&id| i64::from_le_bytes(id)).collect();
    let wanted: Vec<f32> = logits.data().as_chunks::<4>().0.iter().map(|&logit| f32::from_le_bytes(logit)).collect();
    let mut found = Vec::new();
    // Matrix products for six tokens at once, then dot products for one.
    for step in [0..6, 6..7] {
        let batch = Batch::unpadded(1, ids[step.clone()].to_vec(), step.start).unwrap();
        found.extend(reference.step(&batch).unwrap().data);
    }
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 5e-5, "{found} {wanted}");
    }
    assert!(peak() < RESIDENT, "{} MB were resident", peak() / 1_000_000);
}
