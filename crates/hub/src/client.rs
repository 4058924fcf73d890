//! The connection to a hub.

use std::sync::Arc;
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::{Address, Error, home};

/// The hub that everybody uses.
const ENDPOINT: &str = "https://huggingface.co";
/// The largest listing that is read.
const MOST_LISTING: u64 = 64 << 20;

/// A hub, and who asks.
#[derive(Debug)]
pub struct Hub {
    endpoint: String,
    token: Option<String>,
}

/// How to fetch.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether a branch or tag may be named instead of a commit.
    pub allow_moving: bool,
    /// Whether files in the way are replaced.
    pub force: bool,
    /// Files that are fetched at the same time.
    pub jobs: usize,
    /// How often a transfer that brings nothing is tried again.
    pub retries: u32,
    /// What is waited before the first of these; twice as long each time.
    pub pause: Duration,
    /// How long an answer, or a connection, may take to begin, and a body to come; a body goes on in a new request.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_moving: false,
            force: false,
            jobs: 4,
            retries: 5,
            pause: Duration::from_millis(500),
            timeout: Duration::from_secs(120),
        }
    }
}

impl Hub {
    /// The hub of `$HF_ENDPOINT`, else huggingface.co; with the token of `$HF_TOKEN`, else the one of `hf auth login` below `$HF_HOME`.
    ///
    /// # Errors
    /// The endpoint is no address.
    pub fn from_env() -> Result<Self, Error> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let token = set("HF_TOKEN").or_else(home::token);
        Self::new(&set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()), token)
    }

    /// The hub at `endpoint`.
    ///
    /// # Errors
    /// The endpoint is no address.
    pub fn new(endpoint: &str, token: Option<String>) -> Result<Self, Error> {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://")).unwrap_or_default();
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@') {
            return Err(Error::Endpoint { endpoint });
        }
        Ok(Self { endpoint, token })
    }

    pub(crate) fn client(&self, options: &Options) -> Client {
        // An error says that another one was installed before, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(self.endpoint.starts_with("https://"))
            .http_status_as_error(false)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .max_redirects(5)
            .user_agent(concat!("plansmith/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(options.timeout))
            .timeout_recv_response(Some(options.timeout))
            .timeout_recv_body(Some(options.timeout))
            .build();
        Client { agent: config.into(), token: self.token.clone().map(Arc::from) }
    }

    pub(crate) fn listing_url(&self, address: &Address) -> String {
        // A branch may hold slashes, which would end the name here.
        let revision = address.revision.name().replace('/', "%2F");
        format!("{}/api/models/{}/revision/{revision}?blobs=true", self.endpoint, address.repository)
    }

    pub(crate) fn file_url(&self, address: &Address, commit: &str, name: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.endpoint, address.repository, encode(name))
    }
}

/// What no further try will mend of a request that brought no answer: a certificate that is not trusted, a redirection that leads nowhere.
pub(crate) fn hopeless(url: &str, error: &ureq::Error) -> Option<Error> {
    let tls = match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        _ => None,
    };
    match (error, tls) {
        // The second is what comes where there is no list of authorities at all.
        (_, Some(problem @ (rustls::Error::InvalidCertificate(_) | rustls::Error::General(_)))) => {
            Some(Error::Certificate { url: url.to_owned(), problem: problem.to_string() })
        }
        (ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed | ureq::Error::BadUri(_) | ureq::Error::RequireHttpsOnly(_), _) => {
            Some(Error::Answer { url: url.to_owned(), problem: format!("leads nowhere: {error}") })
        }
        _ => None,
    }
}

/// Escapes all but letters, digits and `-_.~`, which is all that names of files have as a rule.
fn encode(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Asks; several threads may share it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    token: Option<Arc<str>>,
}

impl Client {
    /// An answer of whatever status, its body not yet read.
    pub(crate) fn get(&self, url: &str, from: u64) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(url).header("Accept-Encoding", "identity");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request.call()
    }

    /// The whole body of a small answer.
    pub(crate) fn read(&self, url: &str) -> Result<Vec<u8>, ureq::Error> {
        let mut response = self.get(url, 0)?;
        if !response.status().is_success() {
            return Err(ureq::Error::StatusCode(response.status().as_u16()));
        }
        response.body_mut().with_config().limit(MOST_LISTING).read_to_vec()
    }
}
