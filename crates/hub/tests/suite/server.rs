//! A hub on this machine that misbehaves on demand.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What one answer for a file does instead of what it should.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Closes the connection after so many bytes of the body.
    Cut(usize),
    /// Announces so many bytes, and sends what there is.
    Announce(usize),
    /// Says nothing of the length and ends after so many bytes, as a proxy does.
    Unannounced(usize),
    /// Sends other bytes of the right length.
    Garble,
    /// Sends the whole file though a part was asked for.
    Whole,
    /// Sends another part than was asked for.
    OtherPart,
    /// Leads to the other server.
    Elsewhere(String),
    /// Leads to itself for ever.
    Round,
    /// Leads to nothing that is an address.
    Nowhere,
    /// Answers with this status, and asks for no pause.
    Status(u16),
    /// Sends half of the file, then nothing, and keeps the connection.
    Stall,
}

/// One request as it came: first line and headers, lower case.
pub(crate) type Request = Vec<String>;

/// Names and bytes.
type Files = Vec<(String, Vec<u8>)>;

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: String,
    /// For answers about this file, in order.
    faults: Arc<Mutex<VecDeque<(String, Fault)>>>,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
    files: Arc<Files>,
    listing: Arc<Mutex<String>>,
}

impl Server {
    /// Serves `files` and, as the API's answer, `listing`.
    pub(crate) fn start(listing: String, files: Files) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            faults: Arc::default(),
            requests: Arc::default(),
            files: Arc::new(files),
            listing: Arc::new(Mutex::new(listing)),
        };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = serving.clone();
                std::thread::spawn(move || drop(server.answer(stream.unwrap())));
            }
        });
        server
    }

    pub(crate) fn fault(&self, file: &str, fault: Fault) {
        self.faults.lock().unwrap().push_back((file.to_owned(), fault));
    }

    pub(crate) fn list(&self, listing: String) {
        *self.listing.lock().unwrap() = listing;
    }

    /// Requests whose first line holds `part`.
    pub(crate) fn asked(&self, part: &str) -> Vec<Request> {
        self.requests.lock().unwrap().iter().filter(|request| request[0].contains(part)).cloned().collect()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let mut request = Vec::new();
        for line in &mut lines {
            match line? {
                line if line.is_empty() => break,
                line => request.push(line.to_lowercase()),
            }
        }
        let path = request[0].split(' ').nth(1).unwrap().to_owned();
        self.requests.lock().unwrap().push(request.clone());
        let name = path.rsplit('/').next().unwrap();
        if path.starts_with("/api/") {
            let fault = self.next_fault("listing");
            let listing = self.listing.lock().unwrap().clone();
            return match fault {
                Some(Fault::Status(status)) => head(&mut stream, status, &[("Content-Length", "0".to_owned())]),
                _ => whole(&mut stream, listing.as_bytes()),
            };
        }
        let file = self.files.iter().find(|(known, _)| known.to_lowercase() == name).map(|(_, bytes)| bytes.clone());
        let Some(bytes) = file else { return head(&mut stream, 404, &[("Content-Length", "0".to_owned())]) };
        let from = request.iter().find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        match self.next_fault(name) {
            None => part(&mut stream, &bytes, from),
            Some(Fault::Cut(count)) => {
                let (from, length) = (from.unwrap_or(0), bytes.len().to_string());
                let range = format!("bytes {from}-{}/{length}", bytes.len() - 1);
                head(&mut stream, 206, &[("Content-Range", range), ("Content-Length", (bytes.len() - from).to_string())])?;
                stream.write_all(&bytes[from..][..count])
            }
            Some(Fault::Announce(length)) => {
                head(&mut stream, 200, &[("Content-Length", length.to_string())])?;
                stream.write_all(&bytes)
            }
            Some(Fault::Unannounced(count)) => {
                head(&mut stream, 200, &[])?;
                stream.write_all(&bytes.repeat(2)[..count])
            }
            Some(Fault::Garble) => whole(&mut stream, &bytes.iter().map(|byte| byte ^ 1).collect::<Vec<_>>()),
            Some(Fault::Whole) => whole(&mut stream, &bytes),
            Some(Fault::OtherPart) => part(&mut stream, &bytes, Some(from.unwrap_or(0) / 2 + 1)),
            Some(Fault::Elsewhere(to)) => redirect(&mut stream, &format!("{to}{path}")),
            Some(Fault::Round) => {
                self.fault(name, Fault::Round);
                redirect(&mut stream, &path)
            }
            Some(Fault::Nowhere) => redirect(&mut stream, "ht!tp://[::"),
            Some(Fault::Status(status)) => {
                head(&mut stream, status, &[("Retry-After", "0".to_owned()), ("Content-Length", "0".to_owned())])
            }
            Some(Fault::Stall) => {
                head(&mut stream, 200, &[("Content-Length", bytes.len().to_string())])?;
                stream.write_all(&bytes[..bytes.len() / 2])?;
                std::thread::sleep(Duration::from_secs(60));
                Ok(())
            }
        }
    }

    fn next_fault(&self, name: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let index = faults.iter().position(|(file, _)| file.to_lowercase() == name)?;
        faults.remove(index).map(|(_, fault)| fault)
    }
}

fn head(stream: &mut TcpStream, status: u16, headers: &[(&str, String)]) -> std::io::Result<()> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    stream.write_all(format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{headers}\r\n").as_bytes())
}

fn redirect(stream: &mut TcpStream, to: &str) -> std::io::Result<()> {
    head(stream, 302, &[("Location", to.to_owned()), ("Content-Length", "0".to_owned())])
}

fn whole(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    head(stream, 200, &[("Content-Length", bytes.len().to_string())])?;
    stream.write_all(bytes)
}

fn part(stream: &mut TcpStream, bytes: &[u8], from: Option<usize>) -> std::io::Result<()> {
    let Some(from) = from else { return whole(stream, bytes) };
    let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
    head(stream, 206, &[("Content-Range", range), ("Content-Length", (bytes.len() - from).to_string())])?;
    stream.write_all(&bytes[from..])
}
