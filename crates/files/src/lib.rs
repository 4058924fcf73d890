//! File access that names the path in every error, atomic writes, folder exchange and hashing.
//!
//! The other crates reach the file system through this one only.

mod access;
mod atomic;
mod cache;
mod copy;
mod digest;
mod error;
mod identity;
mod partial;
mod remote;
mod shown;

pub use access::{
    append, canonicalize, create, create_dir_all, folder_of, free_space, is_dir, is_file, list, metadata, open, open_regular, read,
    read_at, read_limited, read_stream, read_to_string, remove_dir_all, remove_file, rename, symlink, text,
};
pub use atomic::{
    AtomicFile, FolderLock, NewFolders, TempFolder, exchange_folder, remove_marked, replace_folder, write_atomic,
    write_atomic_from_outside, write_secret,
};
pub use cache::cache_folder;
pub use copy::{CopyMethod, can_reflink, copy_file};
pub use digest::{Digest, Hasher, ParseDigestError, for_each_piece, sha256_file};
pub use error::Error;
pub use identity::Identity;
pub use partial::{is_partial, lock_partial, remove_leftovers};
pub use remote::{ParseRemoteHashError, RemoteHash, RemoteHasher, is_hex};
pub use shown::shown;
