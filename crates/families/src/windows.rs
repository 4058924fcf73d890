//! Sliding windows by layer.

use serde_json::Value;

use crate::Error;
use crate::config::{Config, Stored};

/// Which layers slide, from `layer_types`, else by `default` (of the layer's index).
pub(crate) fn sliding_layers(config: &Config<'_>, layers: u64, default: impl Fn(u64) -> bool) -> Result<Vec<bool>, Error> {
    let Some(types) = config.list("layer_types")?.optional() else {
        return Ok((0..layers).map(default).collect());
    };
    if types.len() as u64 != layers {
        return Err(config.error("layer_types", format!("has {} entries; num_hidden_layers is {layers}", types.len())));
    }
    let slides = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => Err(config.error("layer_types", format!("names {kind}; supported: full_attention, sliding_attention"))),
    };
    types.iter().map(slides).collect()
}

/// `sliding_window`: `null` means none, absence the class default.
pub(crate) fn width(config: &Config<'_>, default: Option<u64>) -> Result<Option<u64>, Error> {
    Ok(match config.size("sliding_window")? {
        Stored::Value(window) => Some(window),
        Stored::Null => None,
        Stored::Absent => default,
    })
}

/// The window of each layer; a layer that slides needs one.
pub(crate) fn windows(config: &Config<'_>, slides: &[bool], window: Option<u64>) -> Result<Vec<Option<u64>>, Error> {
    if slides.contains(&true) && window.is_none() {
        return Err(config.error("layer_types", "names `sliding_attention`, but there is no sliding_window"));
    }
    Ok(slides.iter().map(|&slides| window.filter(|_| slides)).collect())
}
