//! Programs that a task starts: what is printed before they run, and what is kept of them.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::error::Error;

/// A command line under construction.
#[derive(Debug)]
pub(crate) struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    folder: Option<std::path::PathBuf>,
}

/// What a finished program left.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// Starts a command line.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().to_owned(), arguments: Vec::new(), variables: Vec::new(), folder: None }
    }

    /// The cargo that started this task, so that its toolchain is kept.
    pub(crate) fn cargo() -> Self {
        Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets environment variables.
    pub(crate) fn envs(mut self, variables: &[(OsString, OsString)]) -> Self {
        self.variables.extend_from_slice(variables);
        self
    }

    /// Runs it in `folder`.
    pub(crate) fn current_dir(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// The same program, started by `runner` as its last arguments, with this one's variables and folder.
    pub(crate) fn under(&self, runner: Self) -> Self {
        let mut whole = runner.arg(&self.program).args(&self.arguments).envs(&self.variables);
        whole.folder.clone_from(&self.folder);
        whole
    }

    /// As a user would type it.
    pub(crate) fn line(&self) -> String {
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        let mut line = program.to_string_lossy().into_owned();
        for argument in &self.arguments {
            let argument = argument.to_string_lossy();
            line.push(' ');
            if argument.is_empty() || argument.contains(|c: char| c.is_whitespace() || "'\"$;&|<>()*?".contains(c)) {
                line.push_str(&format!("'{}'", argument.replace('\'', r"'\''")));
            } else {
                line.push_str(&argument);
            }
        }
        line
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    fn not_started(&self, error: &std::io::Error) -> Error {
        Error::Command { command: self.line(), outcome: format!("cannot be started: {error}") }
    }

    /// Prints the line, runs it with this terminal, and says whether it succeeded.
    pub(crate) fn show(&self) -> Result<ExitStatus, Error> {
        println!("$ {}", self.line());
        self.command().status().map_err(|error| self.not_started(&error))
    }

    /// Like [`Program::show`]; anything but success is an error.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let status = self.show()?;
        if status.success() { Ok(()) } else { Err(self.failed(status)) }
    }

    /// Runs it silently and keeps what it prints.
    pub(crate) fn capture(&self) -> Result<Output, Error> {
        let output = self.command().stdin(Stdio::null()).output().map_err(|error| self.not_started(&error))?;
        Ok(Output {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Like [`Program::capture`]; anything but success is an error that carries the end of what it said.
    pub(crate) fn read(&self) -> Result<Output, Error> {
        let output = self.capture()?;
        if output.status.success() {
            return Ok(output);
        }
        Err(Error::Command { command: self.line(), outcome: format!("{}: {}", ending(output.status), tail(&output.stderr, 6)) })
    }

    /// Prints the line, runs it, passes every line of its stdout on, and gives each to `each`.
    pub(crate) fn stream(&self, mut each: impl FnMut(&str)) -> Result<ExitStatus, Error> {
        println!("$ {}", self.line());
        let mut child = self.command().stdout(Stdio::piped()).spawn().map_err(|error| self.not_started(&error))?;
        if let Some(stdout) = child.stdout.take() {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.by_ref().read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line);
                print!("{text}");
                each(text.trim_end());
                line.clear();
            }
        }
        child.wait().map_err(|error| self.not_started(&error))
    }

    /// The error for a status that is not success.
    pub(crate) fn failed(&self, status: ExitStatus) -> Error {
        Error::Command { command: self.line(), outcome: ending(status) }
    }
}

/// `exited with 2`, `was ended by signal 9`.
pub(crate) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last `count` lines that are not empty, on one line.
pub(crate) fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("; ")
}
