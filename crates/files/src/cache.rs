//! Where downloads and results are kept between runs.

use std::path::PathBuf;

/// `$PLANSMITH_CACHE`, else `plansmith` in the user's cache folder (`$XDG_CACHE_HOME`, else `~/.cache`); `None` where neither is known.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PLANSMITH_CACHE")
        // A relative one is to be ignored, says the XDG base directory specification.
        .or_else(|| Some(variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute())?.join("plansmith")))
        .or_else(|| Some(variable("HOME")?.join(".cache/plansmith")))
}
