//! `plansmith fetch` over TLS: a hub behind a certificate of its own authority, behind a proxy, and none at all.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;
#[path = "common/hub.rs"]
mod hub;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use common::{Run, case, text};
use hub::{COMMIT, Fault, Server, hub};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority nobody knows, and the server certificate that it gave.
struct Authority {
    pem: String,
    config: Arc<ServerConfig>,
}

impl Authority {
    fn new() -> Self {
        Self::of(&["localhost"])
    }

    fn of(names: &[&str]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let (key, server_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let server = CertificateParams::new(names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).unwrap();
        let server = server.signed_by(&server_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_no_client_auth();
        let secret = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
        Self { pem: authority.pem(), config: Arc::new(config.with_single_cert(vec![server.der().clone()], secret).unwrap()) }
    }

    /// `hub` over TLS; its address.
    fn front(&self, hub: &Server) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, behind) = (listener.local_addr().unwrap().port(), hub.address.replace("http://", ""));
        let config = Arc::clone(&self.config);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, behind) = (Arc::clone(&config), behind.clone());
                std::thread::spawn(move || drop(pass(stream.unwrap(), config, &behind)));
            }
        });
        format!("https://localhost:{port}")
    }
}

/// One request and its answer.
fn pass(stream: TcpStream, config: Arc<ServerConfig>, behind: &str) -> std::io::Result<()> {
    let mut outside = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let request = head(&mut outside)?;
    let mut inside = TcpStream::connect(behind)?;
    inside.write_all(&request)?;
    let copied = std::io::copy(&mut inside, &mut outside);
    outside.conn.send_close_notify();
    outside.flush()?;
    copied.map(drop)
}

/// Up to the empty line.
fn head(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    Ok(text)
}

/// A proxy that passes connections on, and remembers to where.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(Mutex::new(Vec::new())));
    let remembers = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut here, remembers) = (stream.unwrap(), Arc::clone(&remembers));
            std::thread::spawn(move || -> std::io::Result<()> {
                let request = String::from_utf8(head(&mut here)?).unwrap();
                let to = request.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
                remembers.lock().unwrap().push(to.clone());
                let mut there = TcpStream::connect(&to)?;
                here.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                let (mut from, mut into) = (here.try_clone()?, there.try_clone()?);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    into.shutdown(Shutdown::Write)
                });
                std::io::copy(&mut there, &mut here)?;
                here.shutdown(Shutdown::Write)
            });
        }
    });
    (address, asked)
}

const NONE: [(&str, &str); 0] = [];

/// Fetches from `endpoint` into a folder of its own below `home`; nothing of this machine's set-up counts.
fn fetch(endpoint: &str, home: &Path, more: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plansmith"));
    command.args(["fetch", &format!("org/tiny@{COMMIT}")]).args(more).env("HF_ENDPOINT", endpoint).env("HF_HOME", home);
    command.env("HF_TOKEN", "secret");
    let ours = ["SSL_CERT_FILE", "SSL_CERT_DIR", "HF_HUB_OFFLINE", "HF_HUB_CACHE"];
    let proxies = ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"];
    for name in ours.iter().chain(&proxies) {
        command.env_remove(name);
    }
    common::run(command.envs(variables.iter().copied()))
}

fn written(home: &Path, pem: &str) -> PathBuf {
    let path = home.join("authority.pem");
    std::fs::write(&path, pem).unwrap();
    path
}

#[test]
fn an_authority_of_one_s_own_is_trusted_where_it_is_named() {
    let (hub, home, authority) = (hub(), tempfile::tempdir().unwrap(), Authority::new());
    let (endpoint, pem) = (authority.front(&hub), written(home.path(), &authority.pem));
    // It breaks off once, and goes on over a new connection.
    hub.fault("model.safetensors", Fault::Cut(1000));
    let run = fetch(&endpoint, home.path(), &[], &[("SSL_CERT_FILE", text(&pem))]).exits(0);
    let bytes = std::fs::read(Path::new(run.stdout.trim_end()).join("model.safetensors")).unwrap();
    assert_eq!(bytes, std::fs::read(case("untied_distinct").join("model.safetensors")).unwrap());
    assert_eq!(hub.asked("model.safetensors").len(), 2);
}

#[test]
fn an_authority_that_nobody_named_is_refused_at_once() {
    let (hub, home, authority) = (hub(), tempfile::tempdir().unwrap(), Authority::new());
    let endpoint = authority.front(&hub);
    let other = written(home.path(), &Authority::new().pem);
    let empty = home.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let by_address = endpoint.replace("localhost", "127.0.0.1");
    let pem = home.path().join("right.pem");
    std::fs::write(&pem, &authority.pem).unwrap();
    let cases = [
        (&endpoint, text(&other), "invalid peer certificate"),
        (&endpoint, text(&empty), "No CA certificates were loaded"),
        // The right authority, and a name that it did not vouch for.
        (&by_address, text(&pem), "invalid peer certificate"),
    ];
    for (endpoint, file, words) in cases {
        let start = std::time::Instant::now();
        let run = fetch(endpoint, home.path(), &[], &[("SSL_CERT_FILE", file)]).exits(2);
        assert!(run.stderr.contains(words) && run.stderr.contains(endpoint.as_str()), "{}", run.stderr);
        assert!(run.stderr.contains("SSL_CERT_FILE=FILE names the certificates"), "{}", run.stderr);
        assert!(start.elapsed().as_secs() < 10, "it was tried again and again");
    }
    // Nobody was told the token.
    assert_eq!(hub.requests.lock().unwrap().len(), 0);
    assert!(!home.path().join("hub").join("models--org--tiny/snapshots").exists());
}

#[test]
fn an_https_hub_does_not_lead_to_http() {
    let (plain, home, authority) = (hub(), tempfile::tempdir().unwrap(), Authority::new());
    let (hub, pem) = (hub(), written(home.path(), &authority.pem));
    hub.fault("model.safetensors", Fault::Elsewhere(plain.address.clone()));
    let run = fetch(&authority.front(&hub), home.path(), &[], &[("SSL_CERT_FILE", text(&pem))]).exits(2);
    assert!(run.stderr.contains("leads nowhere"), "{}", run.stderr);
    assert_eq!(plain.requests.lock().unwrap().len(), 0);
}

#[test]
fn a_token_does_not_leave_with_a_redirection() {
    let (hub, cdn, home, authority) = (hub(), hub(), tempfile::tempdir().unwrap(), Authority::of(&["localhost", "127.0.0.1"]));
    hub.fault("model.safetensors", Fault::Elsewhere(authority.front(&cdn).replace("localhost", "127.0.0.1")));
    let pem = written(home.path(), &authority.pem);
    fetch(&authority.front(&hub), home.path(), &[], &[("SSL_CERT_FILE", text(&pem))]).exits(0);
    let token = "authorization: bearer secret".to_owned();
    assert!(hub.asked("model.safetensors").iter().all(|lines| lines.contains(&token)));
    let there = cdn.asked("model.safetensors");
    assert!(there.len() == 1 && !there[0].contains(&token), "{there:?}");
}

#[test]
fn a_proxy_is_gone_through_unless_excepted() {
    let (hub, home, authority) = (hub(), tempfile::tempdir().unwrap(), Authority::new());
    let (endpoint, pem) = (authority.front(&hub), written(home.path(), &authority.pem));
    let (proxy, asked) = proxy();
    let trusted = ("SSL_CERT_FILE", text(&pem));
    fetch(&endpoint, home.path(), &[], &[trusted, ("HTTPS_PROXY", &proxy)]).exits(0);
    let through = asked.lock().unwrap().clone();
    assert!(!through.is_empty() && through.iter().all(|to| format!("https://{to}") == endpoint), "{through:?}");
    let out = home.path().join("out");
    fetch(&endpoint, home.path(), &["-o", text(&out)], &[trusted, ("HTTPS_PROXY", &proxy), ("NO_PROXY", "localhost")]).exits(0);
    assert_eq!(asked.lock().unwrap().len(), through.len(), "nothing more went through it");
}

#[test]
fn offline_takes_what_is_there_whole_and_names_what_is_not() {
    let (hub, home) = (hub(), tempfile::tempdir().unwrap());
    let out = home.path().join("out");
    let address = format!("org/tiny@{COMMIT}");
    // Nothing is there: the command that gets it, for both places.
    let run = fetch(&hub.address, home.path(), &["--offline"], &NONE).exits(2);
    assert!(
        run.stderr.contains("the network is not to be used") && run.stderr.contains(&format!("plansmith fetch {address}")),
        "{}",
        run.stderr
    );
    let run = fetch(&hub.address, home.path(), &["-o", text(&out)], &[("HF_HUB_OFFLINE", "1")]).exits(2);
    assert!(run.stderr.contains(&format!("plansmith fetch {address} -o {}", text(&out))), "{}", run.stderr);
    assert_eq!(hub.requests.lock().unwrap().len(), 0, "nobody was asked");

    let online = fetch(&hub.address, home.path(), &[], &NONE).exits(0);
    fetch(&hub.address, home.path(), &["-o", text(&out)], &NONE).exits(0);
    let asked = hub.requests.lock().unwrap().len();
    for (place, folder) in [(vec![], online.stdout.trim_end()), (vec!["-o", text(&out)], text(&out))] {
        let offline = [&place[..], &["--offline", "--json"]].concat();
        let run = fetch(&hub.address, home.path(), &offline, &NONE).exits(0);
        let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&found["folder"], &found["commit"], &found["files"][1]["taken_over"]), (&folder.into(), &COMMIT.into(), &true.into()));
        let plain = fetch(&hub.address, home.path(), &offline[..offline.len() - 1], &NONE).exits(0);
        assert_eq!(plain.stdout.trim_end(), folder);

        let weights = Path::new(folder).join("model.safetensors");
        let original = std::fs::read(&weights).unwrap();
        let mut damaged = original.clone();
        damaged[1000] ^= 1;
        std::fs::write(&weights, damaged).unwrap();
        let run = fetch(&hub.address, home.path(), &offline, &NONE).exits(2);
        assert!(run.stderr.contains("`model.safetensors` does not have the SHA-256"), "{}", run.stderr);
        std::fs::write(&weights, original).unwrap();
        std::fs::remove_file(&weights).unwrap();
        let run = fetch(&hub.address, home.path(), &offline, &NONE).exits(2);
        assert!(run.stderr.contains("`model.safetensors` is missing"), "{}", run.stderr);
    }
    assert_eq!(hub.requests.lock().unwrap().len(), asked, "nobody was asked");
}
