//! A hub on this machine that has a real, tiny checkpoint.

#[path = "../../crates/hub/tests/suite/server.rs"]
#[allow(dead_code, reason = "the hub's own tests use all of it")]
mod server;

use plansmith_files::Digest;

pub(crate) use self::server::{COMMIT, Fault, Server};
use crate::common::case;

/// A hub that has a real, tiny checkpoint.
pub(crate) fn hub() -> Server {
    let files: Vec<(String, Vec<u8>)> = ["config.json", "model.safetensors"]
        .map(|name| (name.to_owned(), std::fs::read(case("untied_distinct").join(name)).unwrap()))
        .into();
    let sibling = |(name, bytes): &(String, Vec<u8>)| {
        let (size, sha256) = (bytes.len(), Digest::of(bytes));
        format!(r#"{{"rfilename": "{name}", "size": {size}, "lfs": {{"sha256": "{sha256}", "size": {size}}}}}"#)
    };
    let siblings: Vec<String> = files.iter().map(sibling).collect();
    Server::start(format!(r#"{{"sha": "{COMMIT}", "siblings": [{}]}}"#, siblings.join(", ")), files)
}
