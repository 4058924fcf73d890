//! What onnxruntime-genai's builder says beside its graphs.

use std::path::Path;

use serde_json::Value;

use crate::ModelShape;

/// The cache's shape by the `genai_config.json` beside `graph`; `None` where there is none, or it says nothing of the kind.
pub(crate) fn shape_beside(graph: &Path) -> Option<ModelShape> {
    let text = plansmith_files::read_to_string(&graph.with_file_name("genai_config.json")).ok()?;
    shape(&text)
}

fn shape(config: &str) -> Option<ModelShape> {
    let config: Value = serde_json::from_str(config).ok()?;
    let number = |key: &str| config["model"]["decoder"][key].as_u64().and_then(|number| usize::try_from(number).ok());
    let (heads, head_dim) = (number("num_key_value_heads")?, number("head_size")?);
    // Far more layers than any model has would only be memory.
    let layers = number("num_hidden_layers").filter(|&layers| layers <= 4096)?;
    Some(ModelShape { cache: vec![(heads, head_dim); layers] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builder_s_config() {
        let config =
            r#"{"model": {"decoder": {"head_size": 64, "num_attention_heads": 9, "num_hidden_layers": 2, "num_key_value_heads": 3}}}"#;
        assert_eq!(shape(config), Some(ModelShape { cache: vec![(3, 64); 2] }));
        assert_eq!(shape("{}"), None);
        assert_eq!(shape("[1]"), None);
        assert_eq!(shape("{"), None);
    }
}
