//! Where the hub's own clients keep things. Source: huggingface_hub, `constants.py`.

use std::path::PathBuf;

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `$HF_HOME`, else `huggingface` in the user's cache folder; `None` where neither is known.
fn home() -> Option<PathBuf> {
    let cache = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    set("HF_HOME").or_else(|| Some(cache()?.join("huggingface")))
}

/// The cache of repositories: `$HF_HUB_CACHE`, else `hub` in the home.
pub(crate) fn cache() -> Option<PathBuf> {
    set("HF_HUB_CACHE").or_else(|| Some(home()?.join("hub")))
}

/// What `hf auth login` kept: in `$HF_TOKEN_PATH`, else `token` in the home.
pub(crate) fn token() -> Option<String> {
    let path = set("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")))?;
    let text = plansmith_files::read_to_string(&path).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}
