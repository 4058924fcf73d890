//! A bundle on ONNX Runtime from Rust, with nothing of plansmith in it:
//!
//!     ORT_DYLIB_PATH=libonnxruntime.so cargo run --example consumer -- BUNDLE "The capital of France is"
#![allow(clippy::print_stdout, reason = "a program prints")]

use std::error::Error;
use std::path::PathBuf;

use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use serde_json::Value;
use tokenizers::Tokenizer;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(bundle), Some(prompt)) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        return Err("usage: consumer BUNDLE PROMPT".into());
    };
    let environment = ort::init_from(std::env::var("ORT_DYLIB_PATH")?)?.with_name("consumer").build()?;
    let mut session = Session::builder(&environment)?.commit_from_file(bundle.join("onnx/model.onnx"))?;
    let tokenizer = Tokenizer::from_file(bundle.join("tokenizer.json"))?;

    // The same file that onnxruntime-genai reads says what the cache is like.
    let config: Value = serde_json::from_reader(std::fs::File::open(bundle.join("genai_config.json"))?)?;
    let decoder = &config["model"]["decoder"];
    let number = |key: &str| decoder[key].as_u64().unwrap_or_default() as usize;
    let empty =
        || Tensor::<f32>::new(session.allocator(), [1, number("num_key_value_heads"), 0, number("head_size")]).map(Tensor::into_dyn);
    let mut cache = Vec::new();
    for layer in 0..number("num_hidden_layers") {
        for part in ["key", "value"] {
            cache.push((format!("{layer}.{part}"), empty()?));
        }
    }

    let mut ids: Vec<i64> = tokenizer.encode(prompt, true)?.get_ids().iter().map(|&id| i64::from(id)).collect();
    let mut past = 0;
    for _ in 0..16 {
        let (step, total) = (ids[past..].to_vec(), ids.len());
        let row = |values: Vec<i64>| Tensor::from_array(([1, values.len()], values)).map(Tensor::into_dyn);
        let mut feed: Vec<(String, SessionInputValue<'_>)> = vec![
            ("input_ids".into(), row(step)?.into()),
            ("attention_mask".into(), row(vec![1; total])?.into()),
            ("position_ids".into(), row((past as i64..total as i64).collect())?.into()),
        ];
        feed.extend(cache.drain(..).map(|(name, value): (String, DynValue)| (format!("past_key_values.{name}"), value.into())));
        let mut outputs = session.run(feed)?;

        let (shape, logits) = outputs["logits"].try_extract_tensor::<f32>()?;
        let last = &logits[logits.len() - shape[2] as usize..];
        let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap_or_default() as i64;
        for layer in 0..number("num_hidden_layers") {
            for part in ["key", "value"] {
                let name = format!("{layer}.{part}");
                let present = outputs.remove(format!("present.{name}")).ok_or("the graph returned no cache")?;
                cache.push((name, present));
            }
        }
        (past, ids) = (total, [ids, vec![best]].concat());
        let eos = &config["model"]["eos_token_id"];
        if *eos == best || eos.as_array().is_some_and(|list| list.iter().any(|id| *id == best)) {
            break;
        }
    }
    println!("{}", tokenizer.decode(&ids.iter().map(|&id| id as u32).collect::<Vec<_>>(), true)?);
    Ok(())
}
