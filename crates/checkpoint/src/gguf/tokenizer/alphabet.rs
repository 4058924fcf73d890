//! The byte alphabet of byte-level BPE: one printable character for each byte. Source: GPT-2's `bytes_to_unicode`.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The character of each byte: itself where Latin-1 prints it, else the next one from U+0100 on.
static CHARACTERS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut next = 0x100..;
    std::array::from_fn(|byte| match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from(byte as u8),
        _ => next.next().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER),
    })
});

static SET: LazyLock<HashSet<char>> = LazyLock::new(|| CHARACTERS.iter().copied().collect());

/// Whether `token` has no other characters.
pub(super) fn covers(token: &str) -> bool {
    token.chars().all(|character| SET.contains(&character))
}

/// The UTF-8 bytes of `token`, each as its character.
pub(super) fn spell(token: &str) -> String {
    token.bytes().map(|byte| CHARACTERS[usize::from(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_that_of_gpt2() {
        // From `bytes_to_unicode()` of transformers.
        assert_eq!(spell(" \n\t\0\u{7f}"), "ĠĊĉĀġ");
        assert_eq!(spell("é\u{ad}ÿ"), "Ã©ÂŃÃ¿");
        assert!(covers("ĠtheŃ") && !covers("a b") && !covers("日"));
    }
}
