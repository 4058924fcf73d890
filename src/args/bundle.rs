//! Flags of pipelines, and of the verbs that take bundles or parts of one: `merge`, `check` and `sign`.

use std::path::PathBuf;

use clap::Args;

use super::Tools;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith check dist/smollm2-135m
  plansmith check dist/smollm2-135m --digest SHA256 --key release.pem.pub
  plansmith check dist/smollm2-135m --against ./SmolLM2-135M-Instruct")]
pub(crate) struct Check {
    /// The bundle
    pub(crate) bundle: PathBuf,
    /// The manifest's digest as it must be
    #[arg(long, value_name = "HEX")]
    pub(crate) digest: Option<String>,
    /// The public key that must have signed it (ed25519, PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The checkpoint that it must have been made of
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What every verb that runs a pipeline takes.
#[derive(Debug, Args)]
pub(crate) struct PipelineFlags {
    /// The pipeline file
    pub(crate) pipeline: PathBuf,
    /// Override a value: PATH=VALUE, with dots and indices
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Fail where an artifact could not be executed on this host
    #[arg(long)]
    pub(crate) require_executed: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what happens into FILE as it happens, one JSON object a line; - for stderr, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith build pipeline.yaml --only export:fp16 --set output=$PWD/parts/a                 # on one machine
  plansmith build pipeline.yaml --only engine:fp16:sm89:decode --set output=$PWD/parts/b     # on another
  plansmith merge pipeline.yaml parts/a parts/b

Every file of a part is hashed. A part of another source, pipeline or version has other keys and counts for nothing. What the merged bundle
holds is verified as `plansmith build` does.")]
pub(crate) struct Merge {
    #[command(flatten)]
    pub(crate) pipeline: PipelineFlags,
    /// Outputs of `plansmith build --only`
    #[arg(required = true, value_name = "PART")]
    pub(crate) parts: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith sign --new-key release.pem     # makes release.pem and release.pem.pub
  plansmith sign dist/smollm2-135m --key release.pem
  plansmith check dist/smollm2-135m --key release.pem.pub

Signed is provenance.json: an in-toto statement whose subjects are the manifest and every file. The signature is a DSSE envelope in
provenance.dsse.json. Keys are what `openssl genpkey -algorithm ed25519` makes, too.")]
pub(crate) struct Sign {
    /// The bundle
    #[arg(required_unless_present = "new_key", conflicts_with = "new_key")]
    pub(crate) bundle: Option<PathBuf>,
    /// The secret key (ed25519, PKCS #8 PEM)
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    pub(crate) key: Option<PathBuf>,
    /// Make a key instead: FILE, and FILE.pub for those who check
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) new_key: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
