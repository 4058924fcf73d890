//! What docs/ says is true of the code: commands are understood, messages exist, links lead somewhere.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{names, plansmith};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README and guides: path and text.
fn pages() -> Vec<(PathBuf, String)> {
    let guides = names(&root().join("docs")).into_iter().map(|name| root().join("docs").join(name));
    let pages = guides.chain([root().join("README.md")]).filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// A command line of a page, less its comment and where its output goes, as a shell would split it; `None` where it is not one to be typed as it is.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().strip_prefix("$ ").unwrap_or(line.trim_start());
    let line = line.split(" #").next()?.split(" >").next()?.split(" 2>").next()?.trim();
    if !line.starts_with("plansmith ") || line.contains(['…', '|', '\\']) || line.contains("$(") || line.contains(" && ") {
        return None;
    }
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in line.chars() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    Some(words)
}

#[test]
fn every_command_in_the_guides_is_understood() {
    assert_eq!(plansmith(&["build", "--no-such-flag", "--help"]).code, Some(2));
    let mut seen = 0;
    for (path, text) in pages() {
        let commands = text.lines().filter(|line| line.starts_with("    ")).filter_map(words);
        for command in commands {
            // `--help` stops before anything runs, and after a flag before it that is not known.
            let arguments: Vec<&str> = command[1..].iter().map(String::as_str).chain(["--help"]).collect();
            let run = plansmith(&arguments);
            assert_eq!(run.code, Some(0), "{}: {}\n{}", path.display(), command.join(" "), run.stderr);
            seen += 1;
        }
    }
    assert!(seen >= 40, "{seen}");
}

/// The sources that users' messages come from, a line for each string, `\` at its end taken as a shell would.
fn sources() -> String {
    let mut folders = vec![root().join("src"), root().join("crates")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "tests" && name != "target" {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                let mut joins = false;
                for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                    all.push_str(if joins { line.trim_start() } else { line });
                    joins = line.ends_with('\\');
                    if joins {
                        all.pop();
                    } else {
                        all.push('\n');
                    }
                }
            }
        }
    }
    all
}

/// Whether a line holds all parts of `message`, in order: `…` stands for anything.
fn is_said(message: &str, sources: &str) -> bool {
    let parts: Vec<&str> =
        message.split('…').map(|part| part.trim().trim_matches([',', ':', ';'])).filter(|part| !part.is_empty()).collect();
    sources.lines().any(|line| {
        let mut rest = line;
        parts.iter().all(|part| {
            let found = rest.find(part);
            rest = found.map_or("", |at| &rest[at + part.len()..]);
            found.is_some()
        })
    })
}

#[test]
fn every_message_of_troubleshooting_is_still_said() {
    let page = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let sources = sources();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let messages: Vec<&str> = rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect();
    assert!(messages.len() >= 25, "{messages:?}");
    // What these are put together of.
    let elsewhere = [
        ("sm75 has no BF16", "first at … is the first that does"),
        ("activations reach …, beyond fp16's 65504", "activations reach … beyond fp16's"),
        ("rope_scaling stands beside rope_parameters and says something else", "stands beside `rope_parameters` and says something else"),
        ("does not fit the graph: past … before sequence …", "does not fit the graph:"),
        ("was built with TensorRT-RTX …; version … is loaded", "; version … is loaded"),
    ];
    // The words of rustls, and of ONNX Runtime in a browser.
    let not_ours = ["invalid peer certificate", "Failed to load external data file … Module.MountedFiles is not available"];
    for message in messages.into_iter().filter(|message| !not_ours.contains(message)) {
        let words = elsewhere.iter().find(|(shown, _)| *shown == message).map_or(message, |(_, said)| said);
        assert!(is_said(words, &sources), "no code says: {message}");
    }
    assert!(!is_said("tensor … is made of cheese", &sources));
}

#[test]
fn every_link_between_the_guides_leads_somewhere() {
    for (path, text) in pages() {
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            let heading = |line: &str| {
                let plain = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                line.starts_with('#') && plain.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect::<String>() == place
            };
            assert!(place.is_empty() || std::fs::read_to_string(&target).unwrap().lines().any(heading), "{}: {link}", path.display());
        }
    }
}
