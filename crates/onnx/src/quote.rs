//! Foreign names in messages.

/// Characters of a name that a message shows.
const SHOWN: usize = 120;

/// `name` between backticks, with control characters escaped; a long one cut.
pub(crate) fn quoted(name: &str) -> String {
    let mut rest = name.chars();
    let shown: String = rest.by_ref().take(SHOWN).flat_map(char::escape_debug).collect();
    let cut = if rest.next().is_some() { "…" } else { "" };
    format!("`{shown}{cut}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_lines_or_fill_the_screen() {
        assert_eq!(quoted("/layers.0/MatMul"), "`/layers.0/MatMul`");
        assert_eq!(quoted("a\nerror: b\x1b[2J"), "`a\\nerror: b\\u{1b}[2J`");
        assert_eq!(quoted(&"x".repeat(1_000_000)), format!("`{}…`", "x".repeat(120)));
    }
}
