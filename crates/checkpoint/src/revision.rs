//! The commit that a folder's files are of.

use std::path::{Path, PathBuf};

use plansmith_files::{RemoteHash, is_hex};

/// Where clients of a hub keep a record of each file that they put into a folder: commit, hash and time, a line each.
const RECORDS: &str = ".cache/huggingface/download";

/// The commit that a folder's files were fetched of: by the name of a snapshot in the hub's cache, or by the records of a folder that the hub's
/// client or `plansmith fetch` filled. `None` where nothing says, two files say different things, or a file is not what was fetched. Weights
/// are not hashed for this.
pub fn commit_of_folder(folder: &Path) -> Option<String> {
    let Fetched { commits, files } = fetched(folder)?;
    let (first, others) = commits.split_first()?;
    (others.iter().all(|other| other == first) && files.iter().all(|(_, kept)| *kept)).then(|| first.clone())
}

/// A file of the folder that is not what was fetched into it, where that is known. Weights are not looked at.
pub fn edited_since_fetched(folder: &Path) -> Option<PathBuf> {
    fetched(folder)?.files.into_iter().find(|(_, kept)| !kept).map(|(path, _)| path)
}

/// What a folder says of how it was filled.
struct Fetched {
    /// One a record.
    commits: Vec<String>,
    /// Whether each file is what was fetched.
    files: Vec<(PathBuf, bool)>,
}

fn fetched(folder: &Path) -> Option<Fetched> {
    let resolved = plansmith_files::canonicalize(folder).ok()?;
    let name = resolved.file_name()?.to_str()?;
    if is_hex(name, 40) && resolved.parent()?.file_name()? == "snapshots" {
        // A file of the snapshot links to a blob that its hash names; one that is no link is somebody's own.
        let is_kept = |path: &PathBuf| match plansmith_files::canonicalize(path) {
            Ok(blob) if path.is_symlink() => {
                is_weights(path) || blob.file_name().and_then(|name| name.to_str()).is_some_and(|hash| has_hash(&blob, hash))
            }
            _ => !path.is_symlink(),
        };
        let files = plansmith_files::list(&resolved).ok()?.into_iter().filter(|path| !plansmith_files::is_dir(path));
        return Some(Fetched { commits: vec![name.to_owned()], files: files.map(|path| (path.clone(), is_kept(&path))).collect() });
    }
    let records = plansmith_files::list(&resolved.join(RECORDS)).ok()?;
    let records = records.iter().filter(|path| path.extension().is_some_and(|extension| extension == "metadata"));
    let mut found = Fetched { commits: Vec::new(), files: Vec::new() };
    // Those of files that are no longer there say nothing.
    for (record, file) in records.filter_map(|record| Some((record, resolved.join(record.file_stem()?)))).filter(|(_, file)| file.exists())
    {
        let text = plansmith_files::read_to_string(record).ok()?;
        let mut lines = text.lines();
        let (commit, hash) = (lines.next().filter(|line| is_hex(line, 40))?, lines.next()?);
        let kept = is_weights(&file) || has_hash(&file, hash);
        found.commits.push(commit.to_owned());
        found.files.push((file, kept));
    }
    Some(found)
}

fn is_weights(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "safetensors")
}

/// Whether a file hashes as the hub says.
fn has_hash(file: &Path, hash: &str) -> bool {
    hash.parse::<RemoteHash>().is_ok_and(|hash| hash.is_of(file).is_ok_and(|(is_kept, _)| is_kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    /// printf '{}' | git hash-object --stdin
    const BRACES: &str = "9e26dfeeb6e641a33dae4961196235bdb965b21b";

    #[test]
    fn a_snapshot_is_named_by_its_commit_and_a_folder_has_records() {
        let parent = tempfile::tempdir().unwrap();
        let snapshot = parent.path().join("snapshots").join(COMMIT);
        std::fs::create_dir_all(&snapshot).unwrap();
        assert_eq!(commit_of_folder(&snapshot).as_deref(), Some(COMMIT));
        let blob = parent.path().join(BRACES);
        std::fs::write(&blob, "{}").unwrap();
        std::os::unix::fs::symlink(&blob, snapshot.join("config.json")).unwrap();
        assert_eq!(commit_of_folder(&snapshot).as_deref(), Some(COMMIT));
        std::fs::write(&blob, "{ }").unwrap();
        assert_eq!(commit_of_folder(&snapshot), None, "the blob was edited");
        assert!(edited_since_fetched(&snapshot).is_some_and(|path| path.ends_with("config.json")));
        let folder = parent.path().join(COMMIT);
        let records = folder.join(RECORDS);
        std::fs::create_dir_all(&records).unwrap();
        assert_eq!(commit_of_folder(&folder), None, "a name of 40 digits is no snapshot elsewhere");
        let record = |name: &str, commit: &str| {
            std::fs::write(records.join(format!("{name}.metadata")), format!("{commit}\n{BRACES}\n1732900000.5\n")).unwrap();
        };
        record("config.json", COMMIT);
        assert_eq!(commit_of_folder(&folder), None, "the file is gone");
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        assert_eq!(commit_of_folder(&folder).as_deref(), Some(COMMIT));
        std::fs::write(folder.join("config.json"), "{ }").unwrap();
        assert_eq!(commit_of_folder(&folder), None, "the file was edited");
        assert!(edited_since_fetched(&folder).is_some_and(|path| path.ends_with("config.json")));
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        std::fs::write(folder.join("model.safetensors"), "").unwrap();
        record("model.safetensors", &"f".repeat(40));
        assert_eq!(commit_of_folder(&folder), None, "files of two commits are of none");
    }
}
