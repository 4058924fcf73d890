//! Files that must be refused, each with the message that names what is wrong.

use std::fs;

use plansmith_checkpoint::gguf::{Array, GgmlType, Gguf, ImportOptions, Value, import};
use plansmith_tensor::DType;

use crate::rewrite::{Part, Parts};
use crate::{chain, testdata};

/// Imports `bytes`; the causes of the refusal, or `None` where it went well.
fn refusal(bytes: &[u8]) -> Option<String> {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("case.gguf");
    fs::write(&file, bytes).unwrap();
    let folder = parent.path().join("model");
    let error = import(&file, &folder, &ImportOptions { dtype: DType::F32, force: false }, &|_, _| {}).err()?;
    assert!(!folder.exists());
    let text = chain(&error);
    let prefix = format!("cannot import `{}`: ", file.display());
    Some(text.strip_prefix(&prefix).unwrap_or_else(|| panic!("{text}")).to_owned())
}

fn changed(name: &str, change: impl FnOnce(&mut Parts)) -> Option<String> {
    let mut parts = Parts::of(&fs::read(testdata(name)).unwrap());
    change(&mut parts);
    refusal(&parts.bytes())
}

#[track_caller]
fn refuses(expected: &str, change: impl FnOnce(&mut Parts)) {
    let found = changed("tiny.gguf", change).unwrap_or_else(|| panic!("imported, but should say: {expected}"));
    assert_eq!(found, expected);
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn an_unchanged_rewrite_is_imported() {
    assert_eq!(changed("tiny.gguf", |_| {}), None);
    assert_eq!(changed("tiny_spm.gguf", |_| {}), None);
}

#[test]
fn other_architectures_and_parts() {
    refuses("its architecture is `qwen2`; only `llama` is imported", |p| p.set("general.architecture", text("qwen2")));
    refuses("metadata key `general.architecture` is missing", |p| drop(p.metadata.shift_remove("general.architecture")));
    refuses("metadata key `split.count` is 3: only 0 or 1 is imported", |p| p.set("split.count", Value::Unsigned(3)));
    refuses("metadata key `general.type` is \"adapter\": only files of type `model` hold one", |p| p.set("general.type", text("adapter")));
}

#[test]
fn keys_that_change_the_mathematics() {
    refuses("metadata key `llama.expert_count` is 8: only 0 is imported", |p| p.set("llama.expert_count", Value::Unsigned(8)));
    refuses("metadata key `llama.attention.sliding_window` (4096) is not known, and it may change what the model computes", |p| {
        p.set("llama.attention.sliding_window", Value::Unsigned(4096));
    });
    refuses("metadata key `llama.rope.scaling.type` is \"yarn\": only `none` and `linear` scaling are imported", |p| {
        p.set("llama.rope.scaling.type", text("yarn"));
    });
    refuses("tensor `rope_freqs.weight` comes together with linear scaling; no config can say both", |p| {
        p.set("llama.rope.scaling.factor", Value::Float(4.0));
    });
    refuses(
        "metadata key `llama.rope.dimension_count` is 16: `llama.attention.key_length` is 32; heads of several widths or a partial \
         rotation are not imported",
        |p| p.set("llama.attention.key_length", Value::Unsigned(32)),
    );
    refuses("metadata key `llama.attention.head_count_kv` is 3: the 4 query heads cannot be shared out among them", |p| {
        p.set("llama.attention.head_count_kv", Value::Unsigned(3));
    });
    refuses(
        "metadata key `llama.attention.head_count` is an array of 2 unsigned integers; a whole number that is not negative is needed",
        |p| {
            p.set("llama.attention.head_count", Value::Array(Array::Unsigned(vec![4, 2])));
        },
    );
    refuses("metadata key `llama.block_count` is 0: it must be from 1 to 2^31 − 1", |p| p.set("llama.block_count", Value::Unsigned(0)));
    refuses("metadata key `llama.vocab_size` is 279: `token_embd.weight` has 278 rows", |p| {
        p.set("llama.vocab_size", Value::Unsigned(279))
    });
}

#[test]
fn rope_divisors_of_other_constants() {
    let found = changed("tiny.gguf", |p| {
        let divisors = &mut p.tensors["rope_freqs.weight"].payload;
        let last = divisors.len() - 4;
        divisors[last..].copy_from_slice(&16f32.to_le_bytes());
    });
    let found = found.unwrap();
    assert!(found.starts_with("tensor `rope_freqs.weight` is not the one of llama3 scaling with factor 16,"), "{found}");
}

#[test]
fn tensors_that_do_not_fit() {
    refuses("tensor `blk.1.ffn_up.weight` is missing: it holds `model.layers.1.mlp.up_proj.weight`", |p| {
        p.tensors.shift_remove("blk.1.ffn_up.weight");
    });
    refuses("tensor `blk.0.attn_q_norm.weight` has no place in a llama model of this many layers", |p| {
        let norm = p.tensors["output_norm.weight"].clone();
        p.tensors.insert("blk.0.attn_q_norm.weight".to_owned(), norm);
    });
    refuses("tensor `blk.1.attn_norm.weight` has no place in a llama model of this many layers", |p| {
        p.set("llama.block_count", Value::Unsigned(1));
    });
    refuses("tensor `output_norm.weight`: shape is [16]; the metadata implies [64] (it holds `model.norm.weight`)", |p| {
        let part = Part { ggml_type: GgmlType::F32, shape: vec![16], payload: vec![0; 64] };
        p.tensors.insert("output_norm.weight".to_owned(), part);
    });
    refuses("tensor `output_norm.weight` is stored as I32, which holds no weights that could be read back", |p| {
        p.tensors["output_norm.weight"].ggml_type = GgmlType::I32;
    });
    let found = changed("tiny_spm.gguf", |p| drop(p.tensors.shift_remove("blk.0.attn_output.bias")));
    let expected = "tensor `blk.0.attn_output.bias` is missing: others of its kind have biases, and a config can only say all or none";
    assert_eq!(found.as_deref(), Some(expected));
    // Four heads of eight elements: a block of 32 is all of them.
    let found = changed("tiny_spm.gguf", |p| {
        let part = Part { ggml_type: GgmlType::Q8_0, shape: vec![32], payload: vec![0; 34] };
        p.tensors.insert("blk.0.attn_q.bias".to_owned(), part);
    });
    let expected = "tensor `blk.0.attn_q.bias`: rows of 8 elements are no multiple of the 32 in a block of Q8_0";
    assert_eq!(found.as_deref(), Some(expected));
}

#[test]
fn tokenizers_that_cannot_be_rebuilt() {
    let refuses = |expected: &str, change: &dyn Fn(&mut Parts)| {
        let found = changed("tiny.gguf", change).unwrap_or_else(|| panic!("imported, but should say: {expected}"));
        assert_eq!(found.strip_prefix("its tokenizer cannot be rebuilt: ").unwrap_or(&found), expected);
    };
    refuses("its model is `bert`; `gpt2` and `llama` are rebuilt", &|p| p.set("tokenizer.ggml.model", text("bert")));
    refuses("how the pre-tokenizer `deepseek-coder` (tokenizer.ggml.pre) cuts text is not known", &|p| {
        p.set("tokenizer.ggml.pre", text("deepseek-coder"));
    });
    refuses("merge 0, `q z`, needs the token `qz`, which is not in the vocabulary", &|p| {
        p.set("tokenizer.ggml.merges", Value::Array(Array::Text(vec!["q z".to_owned()])));
    });
    refuses("metadata key `tokenizer.ggml.bos_token_id` is 278: there are 278 tokens", &|p| {
        p.set("tokenizer.ggml.bos_token_id", Value::Unsigned(278));
    });
    refuses("`tokenizer.ggml.add_bos_token` is true, but `tokenizer.ggml.bos_token_id` is missing", &|p| {
        p.metadata.shift_remove("tokenizer.ggml.bos_token_id");
    });
    refuses("1 token types for 278 tokens", &|p| p.set("tokenizer.ggml.token_type", Value::Array(Array::Signed(vec![1]))));
    let found = changed("tiny_spm.gguf", |p| p.set("tokenizer.ggml.add_space_prefix", Value::Bool(false)));
    assert!(found.is_some_and(|found| found.contains("`tokenizer.ggml.add_space_prefix` is false")));
}

/// The refusal of a header in memory.
fn header(bytes: &[u8]) -> String {
    let error = Gguf::from_bytes("case.gguf".as_ref(), bytes).unwrap_err();
    chain(&error).strip_prefix("cannot import `case.gguf`: ").unwrap().to_owned()
}

#[test]
fn damaged_headers() {
    let good = fs::read(testdata("tiny.gguf")).unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        header(&file)
    };
    assert_eq!(header(b""), "it does not begin with `GGUF`");
    assert_eq!(header(b"PK\x03\x04rest"), "it does not begin with `GGUF`; it is a zip archive (PyTorch's own format)");
    assert_eq!(patched(4, &[1]), "it has GGUF version 1; versions 2 and 3 are read");
    assert_eq!(patched(4, &[4]), "it has GGUF version 4; versions 2 and 3 are read");
    assert_eq!(patched(4, &[0, 0, 0, 3]), "it is big-endian");
    assert_eq!(header(&good[..20]), "the number of metadata keys takes 8 bytes; the file has 4 more");
    let last = good.len() - 1;
    assert!(header(&good[..last]).ends_with(&format!("ends at byte {}; the file has {last}", good.len())), "{}", header(&good[..last]));
    // Counts and lengths of 2^64 − 1: refused before anything is reserved.
    let most = [0xff; 8];
    assert!(patched(8, &most).starts_with(&format!("a table of {} tensors takes {} bytes", u64::MAX, u64::MAX)));
    assert!(patched(16, &most).starts_with(&format!("a table of {} metadata keys takes", u64::MAX)));
    assert_eq!(patched(24, &most), format!("the length of the name of metadata key 0 is {}; at most 65535 is allowed", u64::MAX));
}

#[test]
fn tables_that_contradict_themselves() {
    let file = fs::read(testdata("tiny.gguf")).unwrap();
    let mut parts = Parts::of(&file);
    parts.tensors["output_norm.weight"].shape = vec![1 << 40, 1 << 40];
    assert_eq!(header(&parts.bytes()), "tensor `output_norm.weight`: shape [1099511627776, 1099511627776] has more bytes than 2^63");
    let mut parts = Parts::of(&file);
    parts.tensors["token_embd.weight"].shape = vec![64, 278];
    assert_eq!(header(&parts.bytes()), "tensor `token_embd.weight`: rows of 278 elements are no multiple of the 32 in a block of Q8_0");
    let mut parts = Parts::of(&file);
    parts.set("general.alignment", Value::Unsigned(48));
    assert_eq!(header(&parts.bytes()), "`general.alignment` is 48; a power of two from 1 to 2^20 is needed");
    let mut parts = Parts::of(&file);
    parts.set("general.alignment", Value::Unsigned(256));
    assert!(header(&parts.bytes()).ends_with("which is no multiple of the alignment 256"), "{}", header(&parts.bytes()));
    let mut parts = Parts::of(&file);
    // Said to be larger than what is stored: it runs into its neighbour.
    parts.tensors["blk.0.attn_norm.weight"].shape = vec![128];
    assert!(header(&parts.bytes()).starts_with("tensors `blk.0.attn_norm.weight` and `blk.0."), "{}", header(&parts.bytes()));

    let twice = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let mut bytes = bytes.to_vec();
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        header(&bytes)
    };
    assert_eq!(twice(&file, b"blk.1.attn_q.weight", b"blk.0.attn_q.weight"), "tensor `blk.0.attn_q.weight` is there twice");
    let found = twice(&file, b"tokenizer.ggml.eot_token_id", b"tokenizer.ggml.eos_token_id");
    assert_eq!(found, "metadata key `tokenizer.ggml.eos_token_id` is there twice");
    assert_eq!(twice(&file, b"general.name", b"general.\xffame"), "the name of metadata key 1 is not UTF-8");
}
