//! Flags of `plansmith fetch`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith fetch HuggingFaceTB/SmolLM2-135M-Instruct@12fd25f77366fa6b3b4b768ec3050bf629380bac
  plansmith fetch org/name@COMMIT -o ./model && plansmith export ./model -o ./model
  plansmith fetch org/name@COMMIT --offline
  HF_ENDPOINT=https://mirror.example plansmith fetch org/name@main --allow-moving

Without -o files go into the hub's cache ($HF_HOME, else ~/.cache/huggingface), where other programs find them. A private or gated repository
needs HF_TOKEN, or the token that `hf auth login` keeps. HTTPS_PROXY and NO_PROXY are heeded; SSL_CERT_FILE names certificates to trust instead of
the system's. With --offline, or HF_HUB_OFFLINE=1, nothing is asked for: what is there already is hashed again, or said to be missing.")]
pub(crate) struct Fetch {
    /// ORG/NAME@COMMIT, a commit of 40 hex digits
    #[arg(value_name = "ORG/NAME@COMMIT")]
    pub(crate) address: String,
    /// Write plain files into this folder instead of the hub's cache
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Take a branch or tag as it is now
    #[arg(long)]
    pub(crate) allow_moving: bool,
    /// Replace files of -o that differ from the hub's
    #[arg(long)]
    pub(crate) force: bool,
    /// Files that are fetched at the same time
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) jobs: usize,
    /// How long an answer may take, in seconds, before it is asked for again
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
