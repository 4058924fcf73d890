//! Checkpoints from a Hugging Face hub: pinned by commit, resumed where a transfer broke off, and checked against the hub's hashes.
//!
//! Files go into the hub's own cache folder (`$HF_HOME`), where Python finds them too, or into a folder of the user's.
//!
//! ```no_run
//! use plansmith_hub::{Hub, Options, Place};
//!
//! # fn main() -> Result<(), plansmith_hub::Error> {
//! let address = "HuggingFaceTB/SmolLM2-135M-Instruct@12fd25f77366fa6b3b4b768ec3050bf629380bac".parse()?;
//! let fetched = Hub::from_env()?.fetch(&address, &Place::cache(&address)?, &Options::default(), &|_| ())?;
//! println!("{}", fetched.folder.display());
//! # Ok(())
//! # }
//! ```

mod address;
mod client;
mod download;
mod error;
mod fetch;
mod home;
mod listing;
mod offline;
mod place;

pub use address::{Address, Revision};
pub use client::{Hub, Options};
pub use error::Error;
pub use fetch::{Fetched, FetchedFile, Progress};
pub use offline::{find as find_offline, is_offline};
pub use place::Place;
