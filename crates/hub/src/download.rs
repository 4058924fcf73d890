//! One file, in as many requests as it takes.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use plansmith_files::{Digest, RemoteHasher};
use ureq::Body;
use ureq::http::Response;

use crate::Error;
use crate::client::{Client, Options, hopeless};
use crate::listing::RemoteFile;

/// The longest pause that is made or that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a request did not end a file.
enum Broken {
    /// Another may.
    Again {
        why: String,
        /// What the server asks for.
        after: Option<Duration>,
    },
    /// None will.
    For(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

/// A file that is being written, with the hash of what it holds.
struct Sink<'a> {
    remote: &'a RemoteFile,
    file: File,
    path: &'a Path,
    written: u64,
    running: RemoteHasher,
}

impl<'a> Sink<'a> {
    /// Takes over what an earlier run left at `path`.
    fn open(remote: &'a RemoteFile, path: &'a Path) -> Result<Self, Error> {
        let mut file = plansmith_files::append(path)?;
        let (mut written, mut running) = (0, RemoteHasher::new(&remote.hash, remote.size));
        plansmith_files::for_each_piece(&mut file, path, |piece| {
            running.update(piece);
            written += piece.len() as u64;
        })?;
        let mut sink = Self { remote, file, path, written, running };
        if sink.written > remote.size {
            sink.restart()?;
        }
        Ok(sink)
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.file.set_len(0).map_err(|error| plansmith_files::Error::new("empty", self.path, error))?;
        (self.written, self.running) = (0, RemoteHasher::new(&self.remote.hash, self.remote.size));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|error| plansmith_files::Error::new("write", self.path, error))?;
        self.running.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn size_differs(&self, found: u64) -> Error {
        Error::Mismatch { name: self.remote.name.clone(), found: format!("{found} bytes"), wanted: format!("{} bytes", self.remote.size) }
    }
}

/// Fetches `remote` into `partial`, going on behind what that holds. Its bytes are on disk and hash as the listing says when it returns.
pub(crate) fn download(
    client: &Client,
    url: &str,
    remote: &RemoteFile,
    partial: &Path,
    options: &Options,
    report: &(dyn Fn(u64) + Sync),
) -> Result<Digest, Error> {
    let mut sink = Sink::open(remote, partial)?;
    report(sink.written);
    let (mut tries, mut pause) = (0, options.pause);
    while sink.written < remote.size {
        let before = sink.written;
        match request(client, url, &mut sink, report) {
            Ok(()) => {}
            Err(Broken::For(error)) => {
                if matches!(error, Error::Mismatch { .. }) {
                    plansmith_files::remove_file(partial)?;
                }
                return Err(error);
            }
            Err(Broken::Again { why, after }) => {
                if sink.written > before {
                    (tries, pause) = (0, options.pause);
                }
                tries += 1;
                if tries > options.retries {
                    return Err(Error::GaveUp { url: url.to_owned(), tries, why });
                }
                sleep(after.unwrap_or(pause).min(LONGEST_PAUSE));
                pause *= 2;
            }
        }
    }
    sink.file.sync_all().map_err(|error| plansmith_files::Error::new("write", partial, error))?;
    let (found, sha256) = sink.running.finish();
    if found != remote.hash {
        plansmith_files::remove_file(partial)?;
        return Err(Error::Mismatch { name: remote.name.clone(), found: found.to_string(), wanted: remote.hash.to_string() });
    }
    Ok(sha256)
}

/// One request for what is missing.
fn request(client: &Client, url: &str, sink: &mut Sink<'_>, report: &(dyn Fn(u64) + Sync)) -> Result<(), Broken> {
    let again = |why: String| Broken::Again { why, after: None };
    let response = client.get(url, sink.written).map_err(|error| transport(url, &error))?;
    let total = match response.status().as_u16() {
        200 => {
            // The server sends all of it, whatever was asked for.
            sink.restart()?;
            report(0);
            header(&response, "content-length").and_then(|text| text.parse().ok())
        }
        206 => {
            let (start, total) = range(&response).ok_or_else(|| again("it does not say which part it sends".to_owned()))?;
            if start != sink.written {
                return Err(again(format!("it sends from byte {start}; {} was asked for", sink.written)));
            }
            total
        }
        416 => {
            sink.restart()?;
            return Err(again("it has no such part".to_owned()));
        }
        status @ (408 | 429 | 500..=599) => {
            let after = header(&response, "retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
            return Err(Broken::Again { why: format!("it answers {status}"), after });
        }
        status => return Err(Error::Status { url: url.to_owned(), status }.into()),
    };
    if let Some(total) = total.filter(|&total| total != sink.remote.size) {
        return Err(sink.size_differs(total).into());
    }
    let mut reader = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = reader.read(&mut buffer).map_err(|error| again(format!("the connection broke: {error}")))?;
        if count == 0 {
            let (written, size) = (sink.written, sink.remote.size);
            return if written == size { Ok(()) } else { Err(again(format!("it ended after {written} of {size} bytes"))) };
        }
        if sink.written + count as u64 > sink.remote.size {
            return Err(sink.size_differs(sink.written + count as u64).into());
        }
        sink.write(&buffer[..count])?;
        report(sink.written);
    }
}

/// Whether a request that brought no answer is worth another.
fn transport(url: &str, error: &ureq::Error) -> Broken {
    hopeless(url, error).map_or_else(|| Broken::Again { why: error.to_string(), after: None }, Broken::For)
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// First byte and whole size of `Content-Range: bytes 5-9/10`.
fn range(response: &Response<Body>) -> Option<(u64, Option<u64>)> {
    let (part, total) = header(response, "content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((part.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}
