//! The commit that a folder's files are of.

use std::path::{Path, PathBuf};

/// Where clients of a hub keep a record of each file that they put into a folder: commit, hash and time, a line each.
const RECORDS: &str = ".cache/huggingface/download";

/// The commit that a folder's files were fetched of: by the name of a snapshot in the hub's cache, or by the records of a folder that the hub's
/// client or `plansmith fetch` filled. `None` where nothing says, or two files say different things.
pub fn commit_of_folder(folder: &Path) -> Option<String> {
    let is_commit = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let resolved = plansmith_files::canonicalize(folder).ok()?;
    let name = resolved.file_name()?.to_str()?;
    if is_commit(name) && resolved.parent()?.file_name()? == "snapshots" {
        return Some(name.to_owned());
    }
    let records = plansmith_files::list(&resolved.join(RECORDS)).ok()?;
    // Those of files that are no longer there say nothing.
    let of_file = |path: &PathBuf| path.file_stem().is_some_and(|stem| resolved.join(stem).exists());
    let records = records.iter().filter(|path| path.extension().is_some_and(|extension| extension == "metadata"));
    let mut commits = records.filter(|path| of_file(path)).map(|path| {
        let text = plansmith_files::read_to_string(path).ok()?;
        text.lines().next().filter(|line| is_commit(line)).map(str::to_owned)
    });
    let first = commits.next()??;
    commits.all(|commit| commit.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_snapshot_is_named_by_its_commit_and_a_folder_has_records() {
        let parent = tempfile::tempdir().unwrap();
        let snapshot = parent.path().join("snapshots").join(COMMIT);
        std::fs::create_dir_all(&snapshot).unwrap();
        assert_eq!(commit_of_folder(&snapshot).as_deref(), Some(COMMIT));
        let folder = parent.path().join(COMMIT);
        let records = folder.join(RECORDS);
        std::fs::create_dir_all(&records).unwrap();
        assert_eq!(commit_of_folder(&folder), None, "a name of 40 digits is no snapshot elsewhere");
        let record = |name: &str, commit: &str| {
            std::fs::write(records.join(format!("{name}.metadata")), format!("{commit}\nabc\n1732900000.5\n")).unwrap();
        };
        record("config.json", COMMIT);
        assert_eq!(commit_of_folder(&folder), None, "the file is gone");
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        assert_eq!(commit_of_folder(&folder).as_deref(), Some(COMMIT));
        std::fs::write(folder.join("model.safetensors"), "").unwrap();
        record("model.safetensors", &"f".repeat(40));
        assert_eq!(commit_of_folder(&folder), None, "files of two commits are of none");
    }
}
