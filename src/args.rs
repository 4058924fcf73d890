//! The command line: flags only. What they do is in `commands/`.

mod bundle;
mod fetch;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use plansmith_engine::{ArchitecturesAs, ProfilesAs};
use plansmith_pipeline::System;
use plansmith_verify::CheckName;

pub(crate) use self::bundle::{Check, Merge, PipelineFlags, Sign};
pub(crate) use self::fetch::Fetch;

/// From a checkpoint to verified ONNX graphs and TensorRT plans, without Python.
#[derive(Debug, Parser)]
#[command(name = "plansmith", version = crate::stamp::LONG, max_term_width = 110)]
#[command(after_help = "Examples:
  plansmith inspect ./SmolLM2-135M
  plansmith export ./SmolLM2-135M -o ./SmolLM2-135M
  plansmith verify ./SmolLM2-135M --golden golden.safetensors
  plansmith build pipelines/smollm2.yaml")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,

    #[command(flatten)]
    pub(crate) global: Global,
}

/// What the help of each verb puts its general flags under.
const GENERAL: &str = "General options";

/// Flags that every verb takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct Global {
    /// Say more (repeat for more still)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Say nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Colour of messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: clap::ColorChoice,

    /// Never use the network. Only `fetch` ever does: it then takes what is there already, or says what is missing
    #[arg(long, global = true)]
    pub(crate) offline: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run every stage of a pipeline file, into a bundle
    Build(Build),
    /// Join what `build --only` made on several machines into a bundle
    Merge(Merge),
    /// Say what a checkpoint, GGUF, ONNX graph or plan is, from its header
    Inspect(Inspect),
    /// Get a checkpoint from a Hugging Face hub, pinned by commit
    Fetch(Fetch),
    /// Make a safetensors checkpoint from a GGUF
    Import(Import),
    /// Write an ONNX graph of a checkpoint
    Export(Export),
    /// Build TensorRT plans from an ONNX graph
    Engine(Engine),
    /// Check that graphs or plans compute what their source computes
    Verify(Verify),
    /// Write the built-in reference's logits as a golden file
    Golden(Golden),
    /// Compare two golden-shaped files
    Compare(Compare),
    /// Generate text greedily
    Run(Run),
    /// Time load, prefill and decode
    Bench(Bench),
    /// Check every file of a bundle against its manifest
    Check(Check),
    /// Sign a bundle, or make a key to sign with
    Sign(Sign),
    /// Say which runtimes, libraries and GPUs are usable here, and why others are not
    Doctor(Doctor),
    /// Say which model families are supported
    Families(Families),
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  plansmith completions bash > ~/.local/share/bash-completion/completions/plansmith")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write man pages into a folder
    #[command(after_help = "Example:
  plansmith man -o ~/.local/share/man/man1")]
    Man {
        /// The folder
        #[arg(short, long)]
        output: PathBuf,
    },
}

impl Verb {
    /// Where the event stream is to go.
    pub(crate) fn events(&self) -> Option<&Path> {
        match self {
            Self::Build(Build { pipeline, .. }) | Self::Merge(Merge { pipeline, .. }) => pipeline.events.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith build pipelines/smollm2.yaml
  plansmith build pipelines/smollm2.yaml --plan-only
  plansmith build pipelines/smollm2.yaml --set export.0.dtype=bf16 --stage export
  plansmith build pipelines/smollm2.yaml --emit github-actions > .github/workflows/bundle.yaml")]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) pipeline: PipelineFlags,
    /// Print the stages, what is cached and what would run; run nothing
    #[arg(long, conflicts_with = "events")]
    pub(crate) plan_only: bool,
    /// Run stages up to and including this one
    #[arg(long, value_name = "NAME")]
    pub(crate) stage: Option<String>,
    /// Run this stage alone, with the exports it needs, for `plansmith merge`; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "stage")]
    pub(crate) only: Vec<String>,
    /// Print the jobs for github-actions, gitlab, argo or make: one a stage, and one that merges
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["events", "json", "plan_only", "stage", "only", "force"])]
    #[arg(conflicts_with_all = ["cache", "no_cache", "jobs", "max_memory", "timeout"])]
    pub(crate) emit: Option<System>,
    /// Run every stage anew, cached or not
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) farm: FarmFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith inspect ./SmolLM2-135M
  plansmith inspect model.onnx --json
  plansmith inspect decode.plan")]
pub(crate) struct Inspect {
    /// A checkpoint folder, a bundle, or a .safetensors, .gguf, .onnx or .plan file
    pub(crate) path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith import SmolLM2-135M-Instruct-Q8_0.gguf -o ./SmolLM2-135M --dtype bf16")]
pub(crate) struct Import {
    /// The GGUF
    pub(crate) file: PathBuf,
    /// The checkpoint folder to write
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Dtype of the dequantised weights
    #[arg(long, default_value = "fp32")]
    pub(crate) dtype: ImportDType,
    /// Replace a folder that holds something else
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportDType {
    Fp32,
    Bf16,
}

/// How weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StorageFlag {
    Source,
    Fp32,
    Fp16,
    Bf16,
    #[value(hide = true)]
    Int8,
    #[value(hide = true)]
    Int4,
}

/// What the graph computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComputeFlag {
    Fp32,
    Fp16,
    Bf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsFlag {
    Auto,
    InPlace,
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectFlag {
    Portable,
    Onnxruntime,
    Tensorrt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvFlag {
    Concat,
    Static,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogitsFlag {
    All,
    Last,
}

/// What an export writes besides the graph and its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutFlag {
    Plain,
    Clients,
    Triton,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith export ./SmolLM2-135M -o ./SmolLM2-135M       # in place: writes model.onnx and nothing else
  plansmith export ./SmolLM2-135M -o out --dtype fp16     # converts the weights, streamed
  plansmith export ./bf16-model -o out --compute fp32     # keeps bf16 weights, computes in fp32
  plansmith export ./SmolLM2-135M -o out --dtype fp16 --dialect tensorrt     # for `plansmith engine`
  plansmith export ./SmolLM2-135M -o out --kv static --max-length 2048       # a cache of 2048 slots, written in place")]
pub(crate) struct Export {
    /// The checkpoint folder
    pub(crate) checkpoint: PathBuf,
    /// The folder to write into; the checkpoint's own for an export in place
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// How weights are stored
    #[arg(long, default_value = "source")]
    pub(crate) dtype: StorageFlag,
    /// What the graph computes in [default: the stored dtype]
    #[arg(long)]
    pub(crate) compute: Option<ComputeFlag>,
    /// Whether weight files are used where they are or copied
    #[arg(long, default_value = "auto")]
    pub(crate) weights: WeightsFlag,
    /// Which operators the graph is made of
    #[arg(long, default_value = "portable")]
    pub(crate) dialect: DialectFlag,
    /// Whether the KV cache grows by concatenation, or is written in place in a buffer of --max-length tokens a row
    #[arg(long, default_value = "concat")]
    pub(crate) kv: KvFlag,
    /// plain: the graph and its weights; clients: a folder for onnxruntime-genai, Optimum and transformers.js, graph under onnx/;
    /// triton: a model repository for Triton Inference Server
    #[arg(long, default_value = "plain")]
    pub(crate) layout: LayoutFlag,
    /// With --layout clients: weights as model.onnx_data, which transformers.js fetches from a hub
    #[arg(long)]
    pub(crate) hub_layout: bool,
    /// With --layout triton: a plan of the enterprise flavour to serve too, chosen by GPU among those of its profile (repeatable)
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Vec<PathBuf>,
    /// Which positions get logits
    #[arg(long, default_value = "all")]
    pub(crate) logits: LogitsFlag,
    /// ONNX operator set: 21 (primitive form) or 23; 24 for --kv static [default: 23, or 21 where the dialect needs the primitive form]
    #[arg(long)]
    pub(crate) opset: Option<u32>,
    /// Scan the payload for NaN and infinity, and hash it
    #[arg(long)]
    pub(crate) audit: bool,
    /// Print the graph as text too
    #[arg(long, conflicts_with = "json")]
    pub(crate) text: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

/// Flags on reading config.json.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFlags {
    /// Ignore this key of config.json, whatever it means; recorded in the manifest
    #[arg(long, value_name = "KEY")]
    pub(crate) allow_unknown_config: Vec<String>,
    /// Longest sequence that will be run: the slots of a static cache; where rotations change with the length (longrope, dynamic), only
    /// its side is written [default: the model's positions, and both sides, as the source does]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_length: Option<u64>,
}

/// Where native libraries are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Tools {
    /// The ONNX Runtime library [default: searched for; see `plansmith doctor`]
    #[arg(long, value_name = "FILE")]
    pub(crate) ort_library: Option<PathBuf>,
    /// The folder of the TensorRT-RTX libraries
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorrt_dir: Option<PathBuf>,
    /// The GPU that plans run on, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) gpu: u32,
    /// The TensorRT worker's executable
    #[arg(long, value_name = "FILE")]
    pub(crate) worker: Option<PathBuf>,
}

/// How many plans are built at a time, how, and where they are kept.
#[derive(Debug, Default, Clone, Args)]
pub(crate) struct FarmFlags {
    /// The folder that plans are kept in by content; several machines may share it [default: $PLANSMITH_PLAN_CACHE, else in the cache folder]
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    pub(crate) cache: Option<PathBuf>,
    /// Keep plans nowhere but where they are written
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Workers at a time [default: half of the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Memory for all workers together, as 8G or 800M [default: half of this machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,
    /// Seconds that one plan may take
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  plansmith engine model_fp16.onnx -o plans --arch sm86,sm89 \\
      --profile prefill:batch=1,sequence=1..128..1024,past=0 \\
      --profile decode:batch=1,sequence=1,past=0..512..2048
  plansmith engine model_fp16.onnx -o plans --arch sm86,sm89 --arch-as one-plan --profile chat
  plansmith engine model_fp16.onnx --arch sm75,sm120 --profile chat --profile batch --dry-run")]
pub(crate) struct Engine {
    /// The ONNX graph
    pub(crate) onnx: PathBuf,
    /// The folder to write plans into
    #[arg(short, long, value_name = "DIR", required_unless_present = "dry_run")]
    pub(crate) output: Option<PathBuf>,
    /// rtx or enterprise
    #[arg(long, default_value = "rtx")]
    pub(crate) flavor: String,
    /// GPU architectures; `native` for the enterprise flavour, which builds for the machine's own GPU
    #[arg(long, value_delimiter = ',', required = true, value_name = "SM,...")]
    pub(crate) arch: Vec<String>,
    /// plan-each (a plan for each architecture) or one-plan
    #[arg(long, default_value = "plan-each", value_name = "HOW")]
    pub(crate) arch_as: ArchitecturesAs,
    /// NAME:batch=B,sequence=S,past=P, each a number or min..opt..max; or a preset: chat, batch, long-prompt; repeatable
    #[arg(long, required = true)]
    pub(crate) profile: Vec<String>,
    /// Where the weights go: embedded in the plan; streaming, in the plan and partly in host memory at run time; stripped, left in the
    /// graph's data files, which the plan then needs
    #[arg(long, default_value = "embedded", value_name = "WHERE")]
    pub(crate) weights: String,
    /// What else a plan of the enterprise flavour is to be used with: ampere-plus or same-compute-capability, and version
    #[arg(long, value_delimiter = ',', value_name = "WITH,...")]
    pub(crate) compatible: Vec<String>,
    /// Where what the enterprise flavour measures is kept for the next build: a file, or off [default: one for each GPU and library in the
    /// cache folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) timing_cache: Option<PathBuf>,
    /// How several profiles become plans: plan-each, one-plan (with all profiles) or one-dynamic (one profile that covers all)
    #[arg(long, default_value = "plan-each", value_name = "HOW")]
    pub(crate) profiles_as: ProfilesAs,
    /// Say what would be built and how large it would be; build nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Build each plan anew, cached or not
    #[arg(long)]
    pub(crate) force: bool,
    /// Build each plan twice and compare the bytes
    #[arg(long)]
    pub(crate) prove_reproducible: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) farm: FarmFlags,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith verify ./SmolLM2-135M     # exports to memory, checks on rten
  plansmith verify ./SmolLM2-135M --onnx out/model.onnx --runtime rten,ort
  plansmith verify ./SmolLM2-135M --golden golden.safetensors --json verdict.json
  plansmith verify ./SmolLM2-135M --onnx theirs.onnx --map input_ids=tokens \\
      --map 'past_key_values.*.key=past.*.k' --map 'past_key_values.*.value=past.*.v'
  plansmith verify --bundle dist/smollm2-135m     # on another host, without the source")]
pub(crate) struct Verify {
    /// The source checkpoint
    #[arg(required_unless_present = "bundle")]
    pub(crate) source: Option<PathBuf>,
    /// A graph to check; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) onnx: Vec<PathBuf>,
    /// A plan to check; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Vec<PathBuf>,
    /// Take prompts, oracle and tolerances from a bundle, without the source
    #[arg(long, value_name = "DIR")]
    pub(crate) bundle: Option<PathBuf>,
    /// What executes graphs: rten, ort or tensorrt; several as rten,ort [default: the first of rten and ort that can; ort first for its own operators]
    #[arg(long, value_delimiter = ',')]
    pub(crate) runtime: Vec<String>,
    /// Which input or output is which, where its name does not tell: OURS=THEIRS, * stands for the layer; repeatable
    #[arg(long, value_name = "OURS=THEIRS")]
    pub(crate) map: Vec<String>,
    /// Feed rows without padding only, for graphs that are never fed others
    #[arg(long)]
    pub(crate) unpadded: bool,
    /// Leave a check out, for graphs that are never used so: chunked, batch…; repeatable. The verdict names it as skipped
    #[arg(long, value_name = "CHECK")]
    pub(crate) without: Vec<CheckName>,
    /// Logits computed elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) golden: Option<PathBuf>,
    /// JSONL of {"text": …} or {"ids": […]} [default: a built-in set]
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,
    /// Hold logits, keys and values to this absolute difference instead of the noise floor
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_abs: Option<f64>,
    /// Hold every position to this KL divergence, in nats, instead of the noise floor
    #[arg(long, value_name = "X", value_parser = limit)]
    pub(crate) max_kl: Option<f64>,
    /// Demand this share of positions whose largest logit is the source's, instead of the noise floor
    #[arg(long, value_name = "X", value_parser = share)]
    pub(crate) min_top1: Option<f64>,
    /// Write verdict.json, report.html and junit.xml into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Write verdict.json to this file (- for stdout)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Where a graph disagrees, find the first layer and block that differ, and likely causes
    #[arg(long)]
    pub(crate) bisect: bool,
    /// Fail where an artifact could not be executed on this host
    #[arg(long)]
    pub(crate) require_executed: bool,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith golden ./SmolLM2-135M -o golden.safetensors --prompts prompts.jsonl")]
pub(crate) struct Golden {
    /// The checkpoint
    pub(crate) source: PathBuf,
    /// The golden file to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// JSONL of {"text": …} or {"ids": […]} [default: a built-in set]
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith compare transformers.safetensors mine.safetensors")]
pub(crate) struct Compare {
    /// The file that is taken as right
    pub(crate) source: PathBuf,
    /// The file to judge
    pub(crate) candidate: PathBuf,
    /// Compute dtype whose tolerances apply
    #[arg(long, default_value = "fp32")]
    pub(crate) compute: ComputeFlag,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith run dist/smollm2-135m --prompt 'The capital of France is'
  plansmith run model.onnx --prompt 'Once upon a time' --max-tokens 50 --runtime ort")]
pub(crate) struct Run {
    /// A bundle, an ONNX graph, a plan, a folder of plans or a checkpoint
    pub(crate) path: PathBuf,
    /// The text to continue
    #[arg(long)]
    pub(crate) prompt: String,
    /// Wrap the prompt as a user's message in the chat template
    #[arg(long)]
    pub(crate) chat: bool,
    /// At most this many new tokens
    #[arg(long, default_value_t = 64)]
    pub(crate) max_tokens: usize,
    /// rten, ort or tensorrt [default: tensorrt for plans; else rten, or ort where rten lacks an operator]
    #[arg(long)]
    pub(crate) runtime: Option<String>,
    /// Print token ids instead of text
    #[arg(long)]
    pub(crate) token_ids: bool,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith bench out/model.onnx --runtime ort --json")]
pub(crate) struct Bench {
    /// A bundle, an ONNX graph, a plan, a folder of plans or a checkpoint (for `--runtime reference` a checkpoint)
    pub(crate) path: PathBuf,
    /// rten, ort, tensorrt or reference [default: tensorrt for plans; else rten, or ort where rten lacks an operator]
    #[arg(long)]
    pub(crate) runtime: Option<String>,
    /// Tokens of the prefill
    #[arg(long, default_value_t = 128, value_parser = at_least_one)]
    pub(crate) prefill: usize,
    /// Tokens decoded one by one
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub(crate) decode: usize,
    /// Repetitions after one warm-up; medians are printed
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(crate) repeat: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  plansmith doctor --json")]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tools: Tools,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plansmith families
  plansmith families --json")]
pub(crate) struct Families {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the page docs/families.md
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
}

/// A number from 0 on.
fn limit(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number >= 0.0 && number.is_finite() { Ok(number) } else { Err("needs a number from 0 on".to_owned()) }
}

/// A count.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| "needs a number from 1 on".to_owned())
}

/// A number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let number = limit(text)?;
    if number <= 1.0 { Ok(number) } else { Err("needs a share from 0 to 1".to_owned()) }
}

/// Bytes, as `8G`, `800M` or a plain number; units are powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['G', 'M', 'K']) {
        Some(digits) => (
            digits,
            if text.ends_with('G') {
                30
            } else if text.ends_with('M') {
                20
            } else {
                10
            },
        ),
        None => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| "needs a number of bytes, or one with K, M or G".to_owned())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(|| "is no size".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, size};

    /// The commands of an example as a shell would run them: less comments, redirections and variables, wrapped lines joined.
    fn commands(help: &str) -> Vec<Vec<String>> {
        let lines = help.replace("\\\n", " ");
        let examples = lines.lines().filter_map(|line| line.strip_prefix("  "));
        let commands = examples.flat_map(|line| line.split(" #").next().unwrap_or_default().split(" && ")).map(|command| {
            let command = command.split(" > ").next().unwrap_or_default();
            // Every second piece was in quotes.
            let pieces = command.split('\'').enumerate();
            let words = pieces.flat_map(|(index, piece)| if index % 2 == 1 { vec![piece] } else { piece.split_whitespace().collect() });
            words.skip_while(|word| word.contains('=')).map(str::to_owned).collect()
        });
        commands.collect()
    }

    #[test]
    fn every_example_of_the_help_can_be_typed_as_it_is() {
        let cli = Cli::command();
        let mut seen = 0;
        for verb in std::iter::once(&cli).chain(cli.get_subcommands()) {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            for command in commands(&help) {
                assert_eq!(command.first().map(String::as_str), Some("plansmith"), "{}: {command:?}", verb.get_name());
                assert!(Cli::try_parse_from(&command).is_ok(), "{}: {command:?}", verb.get_name());
                seen += 1;
            }
        }
        assert!(seen >= 40, "{seen}");
        let wrong = commands("  plansmith inspect model     says what it is").remove(0);
        assert!(Cli::try_parse_from(&wrong).is_err(), "{wrong:?}");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([size("8G"), size("800M"), size("12K"), size("7")], [Ok(8 << 30), Ok(800 << 20), Ok(12 << 10), Ok(7)]);
        assert!(size("8GB").is_err() && size("0").is_err() && size("").is_err() && size("99999999999G").is_err());
    }
}
