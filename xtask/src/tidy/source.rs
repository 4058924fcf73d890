//! The Rust files of the repository.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::process::Program;

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Every Rust file that git tracks or would track.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, Error> {
        let mut sources = Vec::new();
        for path in tracked(root)? {
            let full = root.join(&path);
            if path.extension().is_some_and(|extension| extension == "rs") && plansmith_files::is_file(&full) {
                sources.push(Self { text: plansmith_files::read_to_string(&full)?, path });
            }
        }
        Ok(sources)
    }

    /// Whether it lies below `folder`.
    pub(crate) fn below(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// The library crate whose `src` holds it.
    pub(crate) fn library(&self) -> Option<&str> {
        let mut parts = self.path.iter().map(|part| part.to_str().unwrap_or_default());
        match (parts.next(), parts.next(), parts.next()) {
            (Some("crates"), Some(name), Some("src")) => Some(name),
            _ => None,
        }
    }

    /// Whether the whole file is test code.
    fn is_test(&self) -> bool {
        let test_name = |part: &std::ffi::OsStr| part == "tests" || part == "tests.rs" || part == "benches";
        self.path.iter().any(test_name)
    }

    /// Its lines outside of test code, with their numbers. A test module is taken to be the last thing of its file, as it is here everywhere.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let test = self.is_test();
        self.text.lines().take_while(move |line| !test && line.trim() != "#[cfg(test)]").enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Like [`Source::lines`], without comments and without what string literals on one line hold.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, String)> {
        self.lines().map(|(number, line)| (number, code_of(line)))
    }
}

/// The files that git tracks or would track, relative to `root`.
pub(crate) fn tracked(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let output = Program::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root).read()?;
    Ok(output.stdout.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

/// A line without its comment and without the inside of its string literals.
fn code_of(line: &str) -> String {
    let mut code = String::new();
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' if quoted => _ = characters.next(),
            '\'' if !quoted && characters.peek() == Some(&'"') => _ = characters.next(),
            '"' => quoted = !quoted,
            '/' if !quoted && characters.peek() == Some(&'/') => break,
            _ if quoted => {}
            _ => code.push(character),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code_of(r#"let a = "unsafe // \" {"; // unsafe"#), "let a = ; ");
        assert_eq!(code_of("let quote = '\"'; call()"), "let quote = '; call()");
    }

    #[test]
    fn test_code_is_left_out() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(source("crates/x/src/a.rs", text).lines().collect::<Vec<_>>(), [(1, "fn a() {}")]);
        assert_eq!(source("crates/x/tests/a.rs", text).lines().count(), 0);
        assert_eq!(source("crates/x/src/a.rs", text).library(), Some("x"));
        assert_eq!(source("xtask/src/a.rs", text).library(), None);
    }
}
