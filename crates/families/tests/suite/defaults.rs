//! Each family against its class as the class's own defaults build it (testdata/config_defaults.json, whose maker says what it holds).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::support::{List, read, short, testdata, ulps};
use plansmith_families::{Activation, Attention, DecoderSpec, Gain, Layer, Norm, Pairing, families};
use serde_json::{Map, Value, json};

struct Class {
    model_type: String,
    /// What the class was built from: fewer layers, and what it cannot do without; or a variant.
    given: Value,
    /// Its config, written out.
    config: Value,
    facts: Value,
    tensors: List,
}

/// Every class as its defaults build it, each before its variants.
fn classes() -> Vec<Class> {
    let mut all: Vec<Class> = Vec::new();
    for class in testdata("config_defaults.json")["classes"].as_array().unwrap() {
        let mut config = class["config"].clone();
        if class["variant"] == true {
            // It holds only what differs.
            let default = all.iter().find(|default| class["model_type"] == default.model_type).unwrap();
            let changed = std::mem::replace(&mut config, default.config.clone());
            config.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        }
        let tensors = class["tensors"].as_array().unwrap().iter().flat_map(expand).collect();
        all.push(Class {
            model_type: text(&class["model_type"]),
            given: class["given"].clone(),
            config,
            facts: class["facts"].clone(),
            tensors,
        });
    }
    all
}

/// One tensor, or one for each layer.
fn expand(tensor: &Value) -> List {
    let (name, shape) = (text(&tensor[0]), tensor[1].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect::<Vec<_>>());
    match tensor[2].as_array() {
        None => vec![(name, shape)],
        Some(layers) => layers.iter().map(|layer| (name.replacen(".N.", &format!(".{layer}."), 1), shape.clone())).collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

impl Class {
    /// Reads nothing but what the class was built from.
    fn spec(&self) -> DecoderSpec {
        let mut config = self.given.clone();
        config["model_type"] = json!(self.model_type);
        read(&config, &self.tensors).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    /// The object that holds the keys of the language model.
    fn keys(&self) -> &Map<String, Value> {
        self.config.get("text_config").unwrap_or(&self.config).as_object().unwrap()
    }

    fn name(&self) -> String {
        format!("{} {}", self.model_type, self.given)
    }
}

/// Runs a check for every class and reports all that fail.
fn for_every_class(check: impl Fn(&Class, &mut Vec<String>)) {
    let mut wrong = Vec::new();
    for class in classes() {
        let mut found = Vec::new();
        check(&class, &mut found);
        wrong.extend(found.into_iter().map(|text| format!("{}: {text}", class.name())));
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_family_is_compared() {
    let file = testdata("config_defaults.json");
    let defaults = file["classes"].as_array().unwrap().iter().filter(|class| class["variant"] == false);
    let compared: Vec<_> = defaults.map(|class| (text(&class["model_type"]), text(&class["architecture"]))).collect();
    let ours: Vec<_> = families().iter().map(|family| (family.model_type.to_owned(), family.architecture.to_owned())).collect();
    assert_eq!(compared, ours, "run tools/make_class_defaults.py for families that are new");
}

#[test]
fn the_tensors_are_the_parameters_of_the_class() {
    for_every_class(|class, wrong| {
        let spec = class.spec();
        let ours: BTreeSet<_> = spec.weights().iter().map(|weight| (weight.name.clone(), weight.shape.clone())).collect();
        let theirs: BTreeSet<_> = class.tensors.iter().cloned().collect();
        wrong.extend(ours.symmetric_difference(&theirs).map(|tensor| format!("{tensor:?} is on one side only")));
    });
}

#[test]
fn the_defaults_written_out_mean_the_same_as_nothing() {
    for_every_class(|class, wrong| match read(&class.config, &class.tensors) {
        Ok(spec) if spec == class.spec() => {}
        Ok(spec) => wrong.push(difference(&spec, &class.spec())),
        Err(error) => wrong.push(error.to_string()),
    });
}

/// The first line in which two specs differ.
fn difference(written: &DecoderSpec, nothing: &DecoderSpec) -> String {
    let (written, nothing) = (format!("{written:#?}"), format!("{nothing:#?}"));
    let pair = written.lines().zip(nothing.lines()).find(|(left, right)| left != right);
    format!("written out and left out differ: {pair:?}")
}

/// Classes whose defaults build no model in transformers: what the family says where the config leaves out what is needed.
#[test]
fn classes_without_usable_defaults() {
    let file = testdata("config_defaults.json");
    let fails = |class: &&Value| !class["fails_without"].is_null();
    let failing: Vec<_> = file["classes"].as_array().unwrap().iter().filter(fails).map(|class| text(&class["model_type"])).collect();
    let texts = [
        ("cohere_compass_text", "config.json: `rope_parameters` is missing: the class has no default"),
        ("hunyuan_v1_dense", "config.json: `head_dim` is missing: the class computes none"),
        ("ministral", "config.json: `head_dim` is missing, and this class does not compute it"),
        ("nemotron", "config.json: `num_key_value_heads` is missing, and this class does not compute it"),
    ];
    assert_eq!(failing, texts.map(|(model_type, _)| model_type));
    for (model_type, text) in texts {
        let error = read(&json!({ "model_type": model_type, "num_hidden_layers": 2 }), &List::new()).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_length_is_the_one_of_the_class() {
    for_every_class(|class, wrong| {
        let keys = ["max_position_embeddings", "n_positions", "max_seq_len"];
        let wanted = keys.iter().find_map(|key| class.keys().get(*key)).and_then(Value::as_u64);
        // BLOOM's class has none.
        let wanted = wanted.or((class.model_type == "bloom").then_some(2048));
        if Some(class.spec().max_positions) != wanted {
            wrong.push(format!("{} positions, {wanted:?} in transformers", class.spec().max_positions));
        }
    });
}

/// What reaches the attention function of the class, layer by layer.
#[test]
fn attention_is_the_one_of_the_class() {
    let layers = std::cell::Cell::new(0);
    for_every_class(|class, wrong| {
        let spec = class.spec();
        let facts = class.facts["attention"].as_array();
        // Two classes compute attention inline and expose nothing.
        assert_eq!(facts.is_none(), matches!(class.model_type.as_str(), "gpt_neox_japanese" | "openai-gpt"), "{}", class.model_type);
        for (index, (layer, facts)) in spec.layers.iter().zip(facts.into_iter().flatten()).enumerate() {
            layers.set(layers.get() + 1);
            wrong.extend(apart(&layer.attention, facts).map(|text| format!("layer {index}: {text}")));
        }
        assert!(facts.is_none_or(|facts| facts.len() == spec.layers.len()));
    });
    assert!(layers.get() > 150, "{}", layers.get());
}

/// The first fact that differs.
fn apart(attention: &Attention, facts: &Value) -> Option<String> {
    let integer = |value: Option<u64>| value.map_or(Value::Null, Value::from);
    let exact = [
        ("heads", json!(attention.heads)),
        ("kv_heads", json!(attention.kv_heads)),
        ("head_dim", json!(attention.head_dim)),
        ("window", integer(attention.window)),
        ("softcap", json!(attention.softcap)),
        ("sinks", json!(attention.sinks.is_some())),
    ];
    for (fact, ours) in exact {
        if facts.get(fact).is_some_and(|theirs| *theirs != ours) {
            return Some(format!("{fact} is {ours}, {} in transformers", facts[fact]));
        }
    }
    let scale = facts.get("scale").and_then(Value::as_f64).filter(|scale| (scale / attention.scale - 1.0).abs() > 1e-15);
    if let Some(scale) = scale {
        return Some(format!("scale is {}, {scale} in transformers", attention.scale));
    }
    let rotates = facts.get("rope").is_none_or(|rope| rope.is_null() != attention.rope.is_some());
    (!rotates).then(|| format!("rope is {:?}, {} in transformers", attention.rope, facts["rope"]))
}

/// Which rotation turns a layer, and the first three frequencies and the last of it.
#[test]
fn rotations_are_those_of_the_class() {
    let compared = std::cell::Cell::new(0);
    for_every_class(|class, wrong| {
        let (spec, ropes) = (class.spec(), &class.facts["ropes"]);
        let turned = class.facts["turned"].as_array().map(|all| all.iter().map(|value| value.as_f64().unwrap() as i64).collect::<Vec<_>>());
        let (pairing, sign) = match turned.as_deref() {
            Some([-3, -4, 1, 2]) => (Pairing::Halves, 1.0),
            Some([3, 4, -1, -2]) => (Pairing::Halves, -1.0),
            Some([-2, 1, -4, 3]) => (Pairing::Interleaved, 1.0),
            other => {
                assert!(other.is_none() && ropes.as_object().unwrap().is_empty(), "{}: {other:?}", class.model_type);
                return assert!(spec.ropes.is_empty(), "{}", class.model_type);
            }
        };
        wrong.extend(spec.ropes.iter().filter(|rope| rope.pairing != pairing).map(|rope| format!("pairs are {:?}", rope.pairing)));
        let only = ropes.as_object().unwrap().keys().next().filter(|_| ropes.as_object().unwrap().len() == 1);
        for (index, layer) in spec.layers.iter().enumerate() {
            let Some(rope) = layer.attention.rope else { continue };
            let key = class.facts["attention"].get(index).and_then(|facts| facts.get("rope")).and_then(Value::as_str);
            let Some(wanted) = key.or(only.map(String::as_str)).and_then(|key| ropes.get(key)) else { continue };
            compared.set(compared.get() + 1);
            let (rope, found) = (&spec.ropes[rope], short(&spec.ropes[rope].frequencies));
            let number = |value: &Value| sign * value.as_f64().unwrap() as f32;
            let first = found.iter().zip(wanted["first"].as_array().unwrap());
            let near = first.chain([(&found[found.len() - 1], &wanted["last"])]).all(|(&found, value)| ulps(found, number(value)) <= 2);
            if !near || wanted["pairs"] != found.len() || wanted["amplitude"] != rope.amplitude {
                wrong.push(format!("layer {index} is turned by {:?} … ({}) × {}, not {wanted}", &found[..3], found.len(), rope.amplitude));
            }
        }
    });
    assert!(compared.get() > 100, "{}", compared.get());
}

fn norms(spec: &DecoderSpec) -> Vec<&Norm> {
    let mut all: Vec<&Norm> = [&spec.embedding.norm, &spec.final_norm].into_iter().flatten().collect();
    all.extend(spec.head.transform.iter().flat_map(|transform| &transform.norm));
    for Layer { attention, attention_join, mlp, mlp_join, .. } in &spec.layers {
        for join in [attention_join, mlp_join] {
            all.extend([&join.input_norm, &join.output_norm, &join.stream_norm].into_iter().flatten());
        }
        all.extend(attention.merged_norm.iter().chain(&mlp.inner_norm));
        all.extend(attention.head_norms.iter().flat_map(|norms| [&norms.query, &norms.key]));
    }
    all
}

/// Epsilon of every norm with a weight, by its name.
#[test]
fn norms_are_those_of_the_class() {
    for_every_class(|class, wrong| {
        let spec = class.spec();
        let mut left: BTreeSet<_> = class.facts["norms"].as_object().unwrap().keys().cloned().collect();
        for norm in norms(&spec) {
            let weights = match &norm.gain {
                Gain::One => &[][..],
                Gain::Weight { weight, .. } => std::slice::from_ref(weight),
                Gain::PerHead(weights) => weights,
            };
            for weight in weights {
                let parts = weight.name.split('.').map(|part| if part.bytes().all(|byte| byte.is_ascii_digit()) { "N" } else { part });
                let key = parts.collect::<Vec<_>>().join(".");
                left.remove(&key);
                if class.facts["norms"][&key] != norm.eps {
                    wrong.push(format!("{key} has eps {}, {} in transformers", norm.eps, class.facts["norms"][&key]));
                }
            }
        }
        wrong.extend(left.iter().map(|key| format!("{key} is not among the norms")));
    });
}

#[test]
fn activations_are_those_of_the_class() {
    for_every_class(|class, wrong| {
        let spec = class.spec();
        let names: Vec<_> = class.facts["activations"].as_array().unwrap().iter().map(text).collect();
        let wanted = |activation: &Activation| match names.first().map(String::as_str) {
            Some("SiLUActivation") => *activation == Activation::Silu,
            Some("GELUActivation" | "GELU") => *activation == Activation::Gelu,
            Some("GELUTanh" | "NewGELUActivation" | "BloomGelu") => *activation == Activation::GeluTanh,
            Some("ReLUSquaredActivation") => *activation == Activation::Relu2,
            Some("XIELUActivation") => matches!(activation, Activation::Xielu(_)),
            // CTRL's are modules of a sequence without a name.
            Some("ReLU") => *activation == Activation::Relu,
            None => class.model_type == "ctrl" && *activation == Activation::Relu,
            Some(other) => panic!("{}: {other}", class.model_type),
        };
        assert!(names.len() < 2, "{}: {names:?}", class.model_type);
        let found = spec.layers.iter().map(|layer| &layer.mlp.activation);
        let transform =
            spec.head.transform.iter().map(|transform| &transform.activation).filter(|activation| **activation != Activation::Identity);
        let found = found.chain(transform);
        wrong.extend(found.filter(|activation| !wanted(activation)).map(|activation| format!("{activation:?}, {names:?} in transformers")));
    });
}

#[test]
fn scalars_are_those_of_the_class() {
    for_every_class(|class, wrong| {
        let (spec, scalars) = (class.spec(), &class.facts["scalars"]);
        let of = |keys: &[&str]| keys.iter().find_map(|key| scalars.get(*key)).and_then(Value::as_f64);
        let embedding = of(&["embed_scale", "scalar_embed_scale", "embedding_multiplier"]);
        // CTRL's class multiplies by √1280 in its forward pass.
        let embedding = embedding.unwrap_or(if class.model_type == "ctrl" { 1280f64.sqrt() } else { 1.0 });
        let residual = of(&["residual_multiplier"]).unwrap_or(1.0);
        // Granite's class divides by it.
        let divided = class.model_type.starts_with("granite").then(|| of(&["logits_scaling"])).flatten().map(|scale| 1.0 / scale);
        let logits = divided.or(of(&["logit_scale", "logits_scaling"])).unwrap_or(1.0);
        let softcap = of(&["final_logit_softcapping"]);
        let mut check = |what: &str, ours: f64, theirs: f64| {
            if ours != theirs {
                wrong.push(format!("{what} is {ours}, {theirs} in transformers"));
            }
        };
        check("factor on embeddings", spec.embedding.scale, embedding);
        check("factor on logits", spec.head.scale, logits);
        check("cap of logits", spec.head.softcap.unwrap_or(0.0), softcap.unwrap_or(0.0));
        for layer in &spec.layers {
            check("factor on attention's term", layer.attention_join.scale, residual);
            check("factor on the feed-forward term", layer.mlp_join.scale, residual);
        }
    });
}

/// Windows by layer as `Qwen2Config` derives them: from `max_window_layers` on, or where `layer_types` says so.
#[test]
fn windows_follow_the_class() {
    let class = classes().into_iter().find(|class| class.model_type == "qwen2").unwrap();
    let windows = |more: Value| {
        let mut config = class.config.clone();
        let map = config.as_object_mut().unwrap();
        map.remove("layer_types");
        map.remove("sliding_window");
        map.extend(more.as_object().unwrap().clone());
        let spec = read(&config, &class.tensors).unwrap();
        spec.layers.iter().map(|layer| layer.attention.window).collect::<Vec<_>>()
    };
    assert_eq!(windows(json!({ "use_sliding_window": true, "max_window_layers": 1 })), [None, Some(4096)]);
    assert_eq!(windows(json!({ "use_sliding_window": true, "max_window_layers": 0, "sliding_window": 7 })), [Some(7), Some(7)]);
    assert_eq!(windows(json!({ "use_sliding_window": true })), [None, None]);
    assert_eq!(windows(json!({ "use_sliding_window": true, "max_window_layers": 0, "sliding_window": null })), [None, None]);
    assert_eq!(windows(json!({ "sliding_window": 7, "max_window_layers": 0 })), [None, None]);
    let types = json!(["sliding_attention", "full_attention"]);
    let by_type = json!({ "use_sliding_window": true, "sliding_window": 9, "layer_types": types });
    assert_eq!(windows(by_type), [Some(9), None]);
}

/// Every place of a number, and every list, within.
fn places(value: &Value, path: &str, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Number(_) => found.push((path.to_owned(), false)),
        Value::Array(_) => found.push((path.to_owned(), true)),
        Value::Object(map) => map.iter().for_each(|(key, value)| places(value, &format!("{path}/{key}"), found)),
        _ => {}
    }
}

/// What a stranger may write costs neither memory nor time, whichever key of whichever class it is in.
#[test]
fn numbers_and_lists_without_end() {
    for class in classes() {
        let mut found = Vec::new();
        places(&class.config, "", &mut found);
        for (place, is_list) in found {
            let values = match is_list {
                true => vec![json!(vec!["x"; 20_000]), json!(vec![1.5; 20_000]), json!(vec![json!([["global"], 4096]); 20_000])],
                false => vec![json!(1_u64 << 31), json!(1e18), json!(u64::MAX)],
            };
            for value in values {
                let mut config = class.config.clone();
                *config.pointer_mut(&place).unwrap() = value.clone();
                let start = Instant::now();
                let read = read(&config, &class.tensors);
                let short: String = value.to_string().chars().take(40).collect();
                let (what, took) = (format!("{}: {place} of {short}", class.model_type), start.elapsed());
                assert!(took < Duration::from_secs(60), "{what} took {took:?}");
                if let Err(error) = read {
                    assert!(error.to_string().len() < 1000, "{what}: {} bytes of message", error.to_string().len());
                }
            }
        }
    }
}
