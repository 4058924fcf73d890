//! Without the network: what is there already, hashed anew.

use std::path::Path;

use plansmith_files::{RemoteHash, is_hex};

use crate::client::Options;
use crate::fetch::{Fetched, fetched};
use crate::listing::{Listing, RemoteFile};
use crate::place::Place;
use crate::{Address, Error, Revision};

/// Whether `$HF_HUB_OFFLINE` forbids the network, as the hub's own client reads it.
pub fn is_offline() -> bool {
    let value = std::env::var("HF_HUB_OFFLINE").unwrap_or_default();
    ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())
}

/// The checkpoint `address` as an earlier fetch, ours or the hub's own client's, left it in `place`: nothing is written and nobody is asked. Every
/// file is hashed and compared with the hash that it was fetched with. In the cache a branch or tag is the commit that it was then; a plain
/// folder is known by the commit alone.
///
/// # Errors
/// [`Error::Offline`] says what is missing or damaged, and the command that gets it; a branch where a commit is wanted.
pub fn find(address: &Address, place: &Place, options: &Options) -> Result<Fetched, Error> {
    let commit = match &address.revision {
        Revision::Commit(commit) => Some(commit.clone()),
        Revision::Moving(name) => last_commit(place, name),
    };
    if matches!(address.revision, Revision::Moving(_)) && !options.allow_moving {
        return Err(Error::Moving { address: address.to_string(), commit });
    }
    let refuse = |problems: Vec<String>| Error::Offline { address: address.to_string(), place: place.clone(), problems };
    if let (Place::Folder(_), Revision::Moving(name)) = (place, &address.revision) {
        return Err(refuse(vec![format!("a plain folder does not say what `{name}` was: name the commit")]));
    }
    if let Some(other) = place.named().filter(|named| *named != address.repository) {
        return Err(refuse(vec![format!("what is there was fetched from `{other}`")]));
    }
    let Some(commit) = commit else { return Err(refuse(vec!["nothing of it was fetched".to_owned()])) };
    let folder = place.checkpoint(&commit);
    if !plansmith_files::is_dir(&folder) {
        return Err(refuse(vec![format!("`{}` is not there", folder.display())]));
    }
    let (listing, unknown) = listing(place, &folder, &commit)?;
    let index = listing.index().map(|file| plansmith_files::read(&folder.join(&file.name))).transpose()?;
    let mut problems = listing.lacks(index.as_deref()).map_err(|problem| refuse(vec![problem]))?;
    problems.extend(unknown);
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let mut files = Vec::new();
    for file in listing.companions().into_iter().chain(listing.weights(address, index.as_deref())?) {
        let (is_right, sha256) = file.hash.is_of(&folder.join(&file.name))?;
        if is_right {
            files.push(fetched(file, sha256, true));
        } else {
            problems.push(format!("`{}` does not have {} that it was fetched with", file.name, file.hash));
        }
    }
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Fetched { repository: address.repository.clone(), commit, folder, files })
}

/// The commit that a branch or tag was when it was last fetched.
fn last_commit(place: &Place, name: &str) -> Option<String> {
    let text = match place {
        Place::Cache(folder) => plansmith_files::read_to_string(&folder.join("refs").join(name)),
        Place::Folder(_) => return None,
    };
    text.ok()?.lines().next().map(str::trim).filter(|commit| is_hex(commit, 40)).map(str::to_owned)
}

/// What `folder` holds of a checkpoint, with the hashes that were kept; and what is wrong with the rest.
fn listing(place: &Place, folder: &Path, commit: &str) -> Result<(Listing, Vec<String>), Error> {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in plansmith_files::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !Listing::wants(&name) || !plansmith_files::is_file(&path) {
            continue;
        }
        match kept_hash(place, &path, &name, commit)? {
            Ok(hash) => files.push(RemoteFile { size: plansmith_files::metadata(&path)?.len(), hash, name }),
            // Beside the checkpoint: what of its shards is then missing, the index says.
            Err(_) if !Listing::is_read(&name) => {}
            Err(why) => problems.push(format!("`{name}` {why}")),
        }
    }
    Ok((Listing::of(commit, files), problems))
}

/// The hash that a file was fetched with: in the cache the name of the blob that it leads to, in a folder its record.
fn kept_hash(place: &Place, path: &Path, name: &str, commit: &str) -> Result<Result<RemoteHash, &'static str>, Error> {
    let text = match place {
        Place::Cache(_) => plansmith_files::canonicalize(path)?.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        Place::Folder(_) => {
            let Ok(record) = plansmith_files::read_to_string(&place.record(name)) else {
                return Ok(Err("was not fetched: it has no record"));
            };
            let mut lines = record.lines();
            if lines.next() != Some(commit) {
                return Ok(Err("is of another commit"));
            }
            lines.next().unwrap_or_default().to_owned()
        }
    };
    Ok(text.parse().map_err(|_| "has no hash to be held to"))
}
