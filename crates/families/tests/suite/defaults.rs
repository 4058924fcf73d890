//! Class defaults against those of transformers (testdata/config_defaults.json).

use crate::support::{List, read, testdata};
use plansmith_families::{Activation, DecoderSpec, families};
use serde_json::{Value, json};

struct Class {
    model_type: String,
    architecture: String,
    defaults: Value,
    scaling: f64,
    parameters: List,
}

fn classes() -> Vec<Class> {
    let file = testdata("config_defaults.json");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shape = |value: &Value| value.as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
    let class = |class: &Value| Class {
        model_type: text(&class["model_type"]),
        architecture: text(&class["architecture"]),
        defaults: class["defaults"].clone(),
        scaling: class["scaling"].as_f64().unwrap(),
        parameters: class["parameters"].as_array().unwrap().iter().map(|pair| (text(&pair[0]), shape(&pair[1]))).collect(),
    };
    file["classes"].as_array().unwrap().iter().map(class).collect()
}

fn spec_from_nothing(class: &Class) -> DecoderSpec {
    read(&json!({ "model_type": class.model_type }), &class.parameters).unwrap()
}

#[test]
fn every_family_is_compared() {
    let compared: Vec<_> = classes().into_iter().map(|class| (class.model_type, class.architecture)).collect();
    let ours: Vec<_> = families().iter().map(|family| (family.model_type.to_owned(), family.architecture.to_owned())).collect();
    assert_eq!(compared, ours);
}

#[test]
fn an_empty_config_means_the_class_defaults() {
    for class in classes() {
        let spec = spec_from_nothing(&class);
        let number = |key: &str| class.defaults[key].as_u64().unwrap();
        assert_eq!(spec.vocab_size, number("vocab_size"));
        assert_eq!(spec.hidden_size, number("hidden_size"));
        assert_eq!(spec.max_positions, number("max_position_embeddings"));
        assert_eq!(spec.layers.len() as u64, number("num_hidden_layers"));
        assert_eq!(spec.is_tied(), class.defaults["tie_word_embeddings"] == true);
        assert_eq!(spec.final_norm.eps, class.defaults["rms_norm_eps"].as_f64().unwrap());
        for layer in &spec.layers {
            let attention = &layer.attention;
            assert_eq!(attention.heads, number("num_attention_heads"));
            assert_eq!(attention.kv_heads, number("num_key_value_heads"));
            assert_eq!(attention.scale, class.scaling);
            assert_eq!(attention.window, class.defaults.get("sliding_window").and_then(Value::as_u64));
            assert_eq!((layer.input_norm.eps, layer.post_attention_norm.eps), (spec.final_norm.eps, spec.final_norm.eps));
            assert_eq!(layer.mlp.activation, Activation::Silu);
            assert_eq!(class.defaults["hidden_act"], "silu");
            assert_eq!(layer.mlp.gate.out_features(), number("intermediate_size"));
        }
        assert_eq!(spec.ropes.len(), 1);
        let first = spec.ropes[0].inverse_frequencies[1];
        let theta = class.defaults["rope_parameters"]["rope_theta"].as_f64().unwrap();
        let head_dim = spec.layers[0].attention.head_dim as f64;
        assert!((f64::from(first) - theta.powf(-2.0 / head_dim)).abs() < 1e-7);
    }
}

#[test]
fn the_defaults_written_out_mean_the_same_as_nothing() {
    for class in classes() {
        assert_eq!(read(&class.defaults, &class.parameters).unwrap(), spec_from_nothing(&class), "{}", class.model_type);
    }
}

#[test]
fn the_tensors_are_the_parameters_of_the_class() {
    for class in classes() {
        let spec = spec_from_nothing(&class);
        let mut ours: List = spec.weights().iter().map(|weight| (weight.name.clone(), weight.shape.clone())).collect();
        let mut theirs = class.parameters;
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", class.model_type);
    }
}

/// Windows by layer as `Qwen2Config` derives them: from `max_window_layers` on, or where `layer_types` says so.
#[test]
fn windows_follow_the_class() {
    let class = &classes()[1];
    let windows = |more: Value| {
        let mut config = class.defaults.clone();
        let map = config.as_object_mut().unwrap();
        map.remove("layer_types");
        map.remove("sliding_window");
        map.extend(more.as_object().unwrap().clone());
        let spec = read(&config, &class.parameters).unwrap();
        spec.layers.iter().map(|layer| layer.attention.window).collect::<Vec<_>>()
    };
    let from = |first: usize, window| (0..32).map(|layer| (layer >= first).then_some(window)).collect::<Vec<_>>();
    assert_eq!(windows(json!({ "use_sliding_window": true })), from(28, 4096));
    assert_eq!(windows(json!({ "use_sliding_window": true, "max_window_layers": 0, "sliding_window": 7 })), from(0, 7));
    assert_eq!(windows(json!({ "use_sliding_window": true, "sliding_window": null })), from(32, 0));
    assert_eq!(windows(json!({ "sliding_window": 7, "max_window_layers": 0 })), from(32, 0));
    let types: Vec<_> = (0..32).map(|layer| if layer == 3 { "sliding_attention" } else { "full_attention" }).collect();
    let by_type: Vec<_> = (0..32).map(|layer| (layer == 3).then_some(9)).collect();
    assert_eq!(windows(json!({ "use_sliding_window": true, "sliding_window": 9, "layer_types": types })), by_type);
}
