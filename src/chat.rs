//! Chat templates: programs that strangers wrote, each run in a process of its own.
//!
//! A template can double a string, or count to 10⁹, in one step: what bounds that is the system, and it bounds processes. The process is this
//! executable again, under the name [`RENDERER`]. It takes a [`Request`] from stdin and puts the text, or what was wrong, to stdout.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::exit::Failure;

/// The name under which this executable renders: its first argument, as the system counts them.
const RENDERER: &str = "plansmith-chat-template";
/// Address space of the process, in bytes.
const MEMORY: u64 = 256 << 20;
/// Processor time of the process, in seconds.
const SECONDS: u64 = 2;
/// The longest text, in bytes: a million tokens or so.
const TEXT: u64 = 4 << 20;
/// The longest file that a template is read from, in bytes.
const FILE: u64 = 16 << 20;
/// The longest message of what is wrong, in characters.
const MESSAGE: usize = 2000;
/// What transformers hands to a template, where the tokenizer has it.
const SPECIAL: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// What the process is told.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    template: String,
    message: String,
    special: BTreeMap<String, String>,
}

/// The chat template of a folder.
#[derive(Debug)]
pub(crate) struct Template {
    /// The file that it is of.
    path: PathBuf,
    template: String,
    special: BTreeMap<String, String>,
}

impl Template {
    /// That of `chat_template.jinja`, else of `tokenizer_config.json`.
    pub(crate) fn of(folder: &Path) -> Result<Self, Failure> {
        let (own, tokenizer) = (folder.join("chat_template.jinja"), folder.join("tokenizer_config.json"));
        let mut config = match read(&tokenizer)? {
            Some(text) => {
                serde_json::from_str(&text).map_err(|error| Failure::new(format!("{} is no JSON: {error}", tokenizer.display())))?
            }
            None => Value::Null,
        };
        let token = |key: &str| {
            let token = config.get(key)?;
            token.as_str().or_else(|| token.get("content")?.as_str()).map(str::to_owned)
        };
        let special = SPECIAL.iter().filter_map(|&key| Some((key.to_owned(), token(key)?))).collect();
        if let Some(template) = read(&own)? {
            return Ok(Self { path: own, template, special });
        }
        match config.get_mut("chat_template").map(Value::take) {
            Some(Value::String(template)) => Ok(Self { path: tokenizer, template, special }),
            _ => {
                Err(Failure::new(format!("no chat template in {}", folder.display()))
                    .hint("leave out --chat to continue the text as it is"))
            }
        }
    }

    /// The text for one message of the user, asking for an answer.
    pub(crate) fn render(self, message: &str) -> Result<String, Failure> {
        let Self { path, template, special } = self;
        let failure = |problem: &str| {
            Failure::new(format!("cannot render the chat template of {}: {problem}", path.display()))
                .hint("mend the template, or leave out --chat and write the whole text into --prompt")
        };
        let system = |error: &dyn std::fmt::Display| failure(&format!("the process for it: {error}"));
        let request = serde_json::to_vec(&Request { template, message: message.to_owned(), special }).map_err(|error| system(&error))?;
        let mut child = Command::new("/proc/self/exe")
            .arg0(RENDERER)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| system(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ended before it had read everything says below how.
            let _ = stdin.write_all(&request);
        }
        let mut text = Vec::new();
        let read = match child.stdout.take() {
            Some(stdout) => stdout.take(TEXT + 1).read_to_end(&mut text).map(|_| ()),
            None => Ok(()),
        };
        // The pipe is closed: one that still writes ends.
        let status = child.wait().map_err(|error| system(&error))?;
        read.map_err(|error| system(&error))?;
        if text.len() as u64 > TEXT {
            return Err(failure(&format!("its text is longer than {} MiB", TEXT >> 20)));
        }
        let text = String::from_utf8_lossy(&text);
        match status.code() {
            Some(0) => Ok(text.into_owned()),
            Some(1) => Err(failure(&text.chars().take(MESSAGE).collect::<String>())),
            _ => {
                let (memory, signal) = (MEMORY >> 20, status.signal().unwrap_or_default());
                Err(failure(&format!("it takes more than {memory} MiB of memory or {SECONDS} s (its process ended by signal {signal})")))
            }
        }
    }
}

/// The text of a regular file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    if !plansmith_files::is_file(path) {
        return Ok(None);
    }
    Ok(Some(plansmith_files::text(plansmith_files::read_limited(path, FILE)?, path)?))
}

/// Whether this process is there to render.
pub(crate) fn is_renderer(name: Option<OsString>) -> bool {
    name.is_some_and(|name| name == RENDERER)
}

/// The process that renders.
pub(crate) fn renderer() -> ExitCode {
    let (code, text) = match answer() {
        Ok(text) => (0, text),
        Err(problem) => (1, problem),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(2),
    }
}

fn answer() -> Result<String, String> {
    for (resource, most) in [(Resource::As, MEMORY), (Resource::Cpu, SECONDS), (Resource::Core, 0)] {
        // What is less already may not be raised.
        let most = rustix::process::getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(|error| format!("setrlimit: {error}"))?;
    }
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request).map_err(|error| error.to_string())?;
    let request = serde_json::from_slice(&request).map_err(|error| error.to_string())?;
    render(request).map_err(|error| error.to_string())
}

/// Templates are written for Jinja2 as transformers sets it up.
fn render(request: Request) -> Result<String, minijinja::Error> {
    let Request { template, message, special } = request;
    let mut environment = minijinja::Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
        Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message))
    });
    environment.add_filter("tojson", to_json);
    environment.template_from_str(&template)?.render(minijinja::context! {
        messages => [minijinja::context! { role => "user", content => message }],
        tools => (),
        documents => (),
        add_generation_prompt => true,
        ..minijinja::Value::from_serialize(special)
    })
}

/// Python's `json.dumps` without escapes of what is not ASCII; Jinja2's own filter, and minijinja's, are made for HTML.
fn to_json(value: &minijinja::Value, options: minijinja::value::Kwargs) -> Result<String, minijinja::Error> {
    let indent = options.get::<Option<usize>>("indent")?;
    options.assert_all_used()?;
    let mut text = Vec::new();
    let written = match indent {
        Some(indent) => {
            let indent = vec![b' '; indent];
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(&indent)))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, OnOneLine)),
    };
    let wrong = |error: &dyn std::fmt::Display| minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string());
    written.map_err(|error| wrong(&error))?;
    String::from_utf8(text).map_err(|error| wrong(&error))
}

/// JSON with a space behind each comma and colon.
struct OnOneLine;

impl Formatter for OnOneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
