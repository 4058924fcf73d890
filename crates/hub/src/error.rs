//! Why a checkpoint could not be fetched.

use std::path::PathBuf;

use crate::Place;

/// What went wrong, with the address or file, and what both sides say.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address of a repository.
    #[error("`{text}` is no address: {why}")]
    Address {
        /// As given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A branch or tag was named.
    #[error("`{address}` is a branch or tag, which may be other bytes tomorrow; it is {} now", commit.as_deref().unwrap_or("unknown"))]
    Moving {
        /// As given.
        address: String,
        /// The commit that it is now.
        commit: Option<String>,
    },
    /// The endpoint is no address.
    #[error("HF_ENDPOINT `{endpoint}` is no http or https address")]
    Endpoint {
        /// As given.
        endpoint: String,
    },
    /// The hub answered with a refusal.
    #[error("{url} answers {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// Status code.
        status: u16,
    },
    /// The certificate of the server, or of a proxy in between, is not trusted.
    #[error("{url}: no connection: {problem}")]
    Certificate {
        /// What was asked for.
        url: String,
        /// What TLS says.
        problem: String,
    },
    /// The network is not to be used, and what is here is not all.
    #[error("`{address}` is not all here, and the network is not to be used: {}", problems.join("; "))]
    Offline {
        /// As given.
        address: String,
        /// Where it was looked for.
        place: Place,
        /// What is missing or damaged.
        problems: Vec<String>,
    },
    /// The hub's answer is not what it should be.
    #[error("{url}: {problem}")]
    Answer {
        /// What was asked for.
        url: String,
        /// Both sides.
        problem: String,
    },
    /// Tried several times in vain.
    #[error("{url} could not be fetched in {tries} tries: {why}")]
    GaveUp {
        /// What was asked for.
        url: String,
        /// How often, since the last byte that came.
        tries: u32,
        /// What went wrong last.
        why: String,
    },
    /// What came is not what the hub's listing says.
    #[error("`{name}` came with {found}; the hub's listing says {wanted}")]
    Mismatch {
        /// File of the repository.
        name: String,
        /// Size or hash of what came.
        found: String,
        /// Size or hash in the listing.
        wanted: String,
    },
    /// The repository has no checkpoint that can be used.
    #[error("`{address}` {problem}")]
    Repository {
        /// As given.
        address: String,
        /// What is missing.
        problem: String,
    },
    /// A file of the same name is in the way.
    #[error("`{}` is there already and differs from the hub's", path.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// A file that would be taken for the checkpoint's.
    #[error("`{}` is there already and is no file of the checkpoint, but would be taken for one", path.display())]
    Leftover {
        /// The file.
        path: PathBuf,
    },
    /// Another process fetches into the same place.
    #[error("another process fetches into `{}`", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The files would not fit.
    #[error("{needed} bytes are to be fetched into `{}`, which has {free} free", path.display())]
    Space {
        /// The folder.
        path: PathBuf,
        /// Bytes still to come.
        needed: u64,
        /// Bytes that may be written.
        free: u64,
    },
    /// A local file.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
}

impl Error {
    /// The next step.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Address { .. } => "write ORG/NAME@COMMIT".to_owned(),
            Self::Moving { address, commit } => {
                let name = address.split('@').next().unwrap_or(address);
                let pinned = commit.as_ref().map_or_else(|| "ORG/NAME@COMMIT".to_owned(), |commit| format!("{name}@{commit}"));
                format!("pin it: plansmith fetch {pinned}; or take it as it is now with --allow-moving")
            }
            Self::Endpoint { .. } => "set HF_ENDPOINT to the address of the hub or a mirror, https://… for example".to_owned(),
            Self::Status { status: 401 | 403, .. } => {
                "the repository may be private or gated: accept its licence on the hub, and set HF_TOKEN or log in with `hf auth login`"
                    .to_owned()
            }
            Self::Status { status: 404, .. } => "check the name and the commit".to_owned(),
            Self::Status { .. } | Self::GaveUp { .. } => "try again later: what came already is kept and goes on from there".to_owned(),
            Self::Certificate { .. } => {
                "a proxy or mirror with an authority of its own? SSL_CERT_FILE=FILE names the certificates (PEM) to trust instead \
                                         of the system's; if it is the hub itself, look at this machine's clock and its list of authorities"
                    .to_owned()
            }
            Self::Offline { address, place, .. } => match place {
                Place::Cache(_) => format!("where there is a network: plansmith fetch {address}; HF_HOME says where it is kept"),
                Place::Folder(folder) => format!("where there is a network: plansmith fetch {address} -o {}", folder.display()),
            },
            Self::Answer { .. } => "HF_ENDPOINT may name something that is no hub".to_owned(),
            Self::Mismatch { .. } => {
                "nothing of it was kept; try again, and if it stays so, distrust the mirror or proxy in between".to_owned()
            }
            Self::Repository { .. } => "plansmith reads config.json and *.safetensors; other formats have to be converted first".to_owned(),
            Self::InTheWay { .. } => "move it away, or replace it with --force".to_owned(),
            Self::Leftover { .. } => "move it away, name another folder, or remove it with --force".to_owned(),
            Self::Locked { .. } => "wait for it to end".to_owned(),
            Self::Space { .. } => "make room, or choose another folder with -o or HF_HOME".to_owned(),
            Self::File(_) => return None,
        })
    }
}
