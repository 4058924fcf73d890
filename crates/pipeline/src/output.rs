//! Where a build writes: three folders, none of which may hold anything but what a build put there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use plansmith_files::is_partial;

use crate::Error;
use crate::manifest::{MANIFEST_NAME, Manifest, files_below};
use crate::store::RECORD_NAME;

/// The folder that is filled.
const FILLED: &str = ".partial";
/// The folder that a bundle is left in which disagrees.
const FAILED: &str = ".failed";
/// What says of a folder that a build made it: these are removed last.
pub(crate) const MARKS: [&str; 2] = [RECORD_NAME, MANIFEST_NAME];

/// The folders of one pipeline's bundle.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The bundle.
    pub(crate) bundle: PathBuf,
    /// What becomes the bundle.
    pub(crate) filled: PathBuf,
    /// What would have become the bundle.
    pub(crate) failed: PathBuf,
}

impl Output {
    /// The folders of the bundle at `bundle`, the value of `output` in the pipeline file `path`.
    ///
    /// A build replaces whole folders, so one is refused that holds anything else, or that a file of `read` lies in.
    ///
    /// # Errors
    /// [`Error::Invalid`], with what would be lost.
    pub(crate) fn at(path: &Path, bundle: &Path, read: &[(&str, &Path)]) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Invalid { path: path.to_owned(), key: "output".into(), problem, hint: None };
        let Some(name) = bundle.file_name() else {
            return Err(refuse(format!("is `{}`: it needs the name of a folder", bundle.display())));
        };
        // A link stays; what it leads to is replaced.
        let bundle = if bundle.is_symlink() { plansmith_files::canonicalize(bundle)? } else { bundle.to_owned() };
        let beside = |suffix: &str| with_suffix(&bundle, bundle.file_name().unwrap_or(name), suffix);
        let (filled, failed) = (beside(FILLED), beside(FAILED));
        for folder in [&bundle, &filled, &failed] {
            if let Some(lost) = not_ours(folder)? {
                let (folder, lost) = (folder.display(), lost.display());
                return Err(refuse(format!(
                    "would replace `{folder}`, which no build made: it holds `{lost}`; name another folder, or move that one"
                )));
            }
            let Ok(folder) = plansmith_files::canonicalize(folder) else { continue };
            for (what, input) in read {
                if plansmith_files::canonicalize(input).is_ok_and(|input| input.starts_with(&folder)) {
                    return Err(refuse(format!("would replace `{}`, which {what} lies in: name another folder", folder.display())));
                }
            }
        }
        Ok(Self { bundle, filled, failed })
    }
}

fn with_suffix(folder: &Path, name: &OsStr, suffix: &str) -> PathBuf {
    let mut name = name.to_owned();
    name.push(suffix);
    folder.with_file_name(name)
}

/// The three folders that a build would replace as wholes, were `folder` one of them; none where it has no name.
pub(crate) fn family(folder: &Path) -> Vec<PathBuf> {
    let of = |name: &OsStr| ["", FILLED, FAILED].map(|suffix| with_suffix(folder, name, suffix)).to_vec();
    let Some(name) = folder.file_name() else { return Vec::new() };
    let bytes = name.as_bytes();
    let bundle = [FILLED, FAILED].iter().find_map(|suffix| bytes.strip_suffix(suffix.as_bytes()));
    of(bundle.filter(|bundle| !bundle.is_empty()).map_or(name, OsStr::from_bytes))
}

/// The first thing in a folder that is there and is none of a build's.
fn not_ours(folder: &Path) -> Result<Option<PathBuf>, Error> {
    if !plansmith_files::is_dir(folder) {
        return Ok(folder.symlink_metadata().is_ok().then(|| folder.to_owned()));
    }
    let held = plansmith_files::list(folder)?;
    let is = |path: &Path, name: &str| path.file_name().is_some_and(|found| found == name);
    let sealed = |path: &PathBuf| is(path, MANIFEST_NAME) && plansmith_files::read(path).is_ok_and(|text| says_whose(&text));
    if held.iter().any(|path| is(path, RECORD_NAME)) {
        return Ok(None);
    }
    if held.iter().any(sealed) {
        return stranger(folder);
    }
    Ok(held.into_iter().find(|path| !is_partial(path)))
}

/// The first file in a bundle that its manifest does not name; none where the manifest cannot tell.
fn stranger(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let Ok((manifest, _)) = Manifest::read(folder) else { return Ok(None) };
    let files = match files_below(folder) {
        Err(Error::Manifest { path, .. }) => return Ok(Some(path)),
        files => files?,
    };
    let known = |name: &str| is_partial(Path::new(name)) || manifest.files.contains_key(name);
    Ok(files.into_iter().find(|(name, _)| !known(name)).map(|(_, path)| path))
}

/// Whether a manifest is a bundle's, be it changed or of another version.
pub(crate) fn says_whose(text: &[u8]) -> bool {
    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    has(b"\"self_sha256\"") && has(b"\"plansmith\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bundle: &Path, read: &[(&str, &Path)]) -> String {
        Output::at(Path::new("p.yaml"), bundle, read).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn nothing_is_replaced_that_no_build_made() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("dist");
        assert_eq!(refusal(&bundle, &[]), "");
        std::fs::create_dir(&bundle).unwrap();
        std::fs::write(bundle.join(".plansmith-x.partial"), "").unwrap();
        assert_eq!(refusal(&bundle, &[]), "", "empty but for what a killed run left");
        std::fs::write(bundle.join("mine.txt"), "").unwrap();
        assert!(refusal(&bundle, &[]).contains("mine.txt"), "{}", refusal(&bundle, &[]));
        std::fs::write(bundle.join("manifest.json"), "{}").unwrap();
        assert!(refusal(&bundle, &[]).contains("no build made"));
        std::fs::write(bundle.join("manifest.json"), r#"{"self_sha256": 1, "plansmith": 2}"#).unwrap();
        assert_eq!(refusal(&bundle, &[]), "");
        for beside in ["dist.partial", "dist.failed"] {
            let beside = folder.path().join(beside);
            std::fs::create_dir(&beside).unwrap();
            std::fs::write(beside.join("mine.txt"), "").unwrap();
            assert!(refusal(&bundle, &[]).contains("mine.txt"));
            std::fs::write(beside.join(".stages.json"), "{}").unwrap();
            assert_eq!(refusal(&bundle, &[]), "");
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(refusal(&folder.path().join("file"), &[]).contains("no build made"));
        assert!(refusal(Path::new("/"), &[]).contains("needs the name of a folder"));
    }

    #[test]
    fn what_is_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("dist");
        let model = bundle.join("model");
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(bundle.join("manifest.json"), r#"{"self_sha256": 1, "plansmith": 2}"#).unwrap();
        let roundabout = model.join("../model");
        for read in [&bundle, &model, &roundabout] {
            assert!(refusal(&bundle, &[("the checkpoint", read)]).contains("which the checkpoint lies in"));
        }
        assert_eq!(refusal(&bundle, &[("the checkpoint", folder.path())]), "");
    }
}
