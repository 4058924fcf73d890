//! Fetching from a server that misbehaves: a clear error or the right file, never a wrong one.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use plansmith_checkpoint::commit_of_folder;
use plansmith_files::Digest;
use plansmith_hub::{Address, Error, Fetched, Hub, Options, Place, find_offline};
use server::{COMMIT, Fault, Server};
use tempfile::TempDir;

const CONFIG: &[u8] = b"{\"model_type\": \"tiny\"}\n";
/// printf '{"model_type": "tiny"}\n' | git hash-object --stdin
const CONFIG_BLOB: &str = "b6ded5f340daa14ef0b286ae424ea6eef34544b1";
/// sha256sum of the weights below.
const WEIGHTS_SHA256: &str = "cd2df694e424bc7968cc37f47751019e5ca0cd1bdf2e479ea537c3a1c32ee1aa";

/// 100,000 bytes that repeat after 251.
fn weights() -> Vec<u8> {
    (0..100_000_u32).map(|index| (index % 251) as u8).collect()
}

fn listing(config_blob: &str, weights_sha256: &str, size: usize) -> String {
    format!(
        r#"{{"sha": "{COMMIT}", "siblings": [
            {{"rfilename": "config.json", "size": {}, "blobId": "{config_blob}"}},
            {{"rfilename": "model.safetensors", "size": {size}, "blobId": "{COMMIT}", "lfs": {{"sha256": "{weights_sha256}", "size": {size}}}}},
            {{"rfilename": "pytorch_model.bin", "size": 9, "blobId": "{COMMIT}"}},
            {{"rfilename": "onnx/../../escape.json", "size": 9, "blobId": "{COMMIT}"}}]}}"#,
        CONFIG.len()
    )
}

struct Bench {
    server: Server,
    folder: TempDir,
    options: Options,
}

impl Bench {
    fn new() -> Self {
        let files = vec![("config.json".to_owned(), CONFIG.to_vec()), ("model.safetensors".to_owned(), weights())];
        let server = Server::start(listing(CONFIG_BLOB, WEIGHTS_SHA256, 100_000), files);
        let options = Options { jobs: 1, retries: 3, pause: Duration::from_millis(1), ..Options::default() };
        Self { server, folder: tempfile::tempdir().unwrap(), options }
    }

    fn with(fault: Fault) -> Self {
        let mut bench = Self::new();
        if matches!(fault, Fault::Stall) {
            bench.options.timeout = Duration::from_millis(400);
        }
        bench.server.fault("model.safetensors", fault);
        bench
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn fetch_at(&self, revision: &str) -> Result<Fetched, Error> {
        let hub = Hub::new(&self.server.address, Some("secret".to_owned())).unwrap();
        let address: Address = format!("org/tiny@{revision}").parse().unwrap();
        hub.fetch(&address, &Place::Folder(self.out()), &self.options, &|_| ())
    }

    fn fetch(&self) -> Result<Fetched, Error> {
        self.fetch_at(COMMIT)
    }

    /// The right file is there, and nothing is left beside it.
    fn is_right(&self) {
        let fetched = self.fetch_and_show();
        assert_eq!(fetched.commit, COMMIT);
        assert_eq!(std::fs::read(self.out().join("model.safetensors")).unwrap(), weights());
        assert_eq!(std::fs::read(self.out().join("config.json")).unwrap(), CONFIG);
        assert_eq!(incomplete(&self.out()), 0);
        assert_eq!(commit_of_folder(&self.out()).as_deref(), Some(COMMIT));
    }

    fn fetch_and_show(&self) -> Fetched {
        self.fetch().unwrap_or_else(|error| panic!("{error}"))
    }

    /// It fails with these words, and no file has the name of the weights; a second run has the right one.
    fn fails(&self, words: &str) {
        let error = self.fetch().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint().is_some(), "{error}");
        assert!(!self.out().join("model.safetensors").exists());
        self.is_right();
    }
}

fn incomplete(folder: &Path) -> usize {
    let work = folder.join(".cache/huggingface/download");
    std::fs::read_dir(work).unwrap().filter(|entry| entry.as_ref().unwrap().path().extension().unwrap() == "incomplete").count()
}

#[test]
fn a_checkpoint_comes_with_its_hashes_and_nothing_else() {
    let bench = Bench::new();
    let fetched = bench.fetch().unwrap();
    let names: Vec<&str> = fetched.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config.json", "model.safetensors"]);
    assert_eq!(fetched.files[1].sha256, WEIGHTS_SHA256.parse::<Digest>().unwrap());
    assert!(!bench.folder.path().join("escape.json").exists());
    assert!(bench.server.asked(".bin").is_empty());
    bench.is_right();
    // All of it was taken over.
    assert_eq!(bench.server.asked("model.safetensors").len(), 1);
    assert!(bench.fetch().unwrap().files.iter().all(|file| file.taken_over));
}

#[test]
fn a_cut_connection_goes_on_where_it_broke() {
    let bench = Bench::with(Fault::Cut(40_000));
    bench.server.fault("model.safetensors", Fault::Cut(10_000));
    bench.is_right();
    let asked = bench.server.asked("model.safetensors");
    let ranges: Vec<Option<&str>> = asked.iter().map(|lines| lines.iter().find_map(|line| line.strip_prefix("range: "))).collect();
    assert_eq!(ranges, [None, Some("bytes=40000-"), Some("bytes=50000-")]);
}

#[test]
fn what_came_before_a_run_was_ended_is_kept_for_the_next() {
    let mut bench = Bench::with(Fault::Cut(40_000));
    bench.options.retries = 0;
    let error = bench.fetch().unwrap_err();
    assert!(matches!(error, Error::GaveUp { tries: 1, .. }), "{error}");
    assert_eq!(incomplete(&bench.out()), 1);
    bench.is_right();
    let asked = bench.server.asked("model.safetensors");
    assert!(asked[1].contains(&"range: bytes=40000-".to_owned()), "{asked:?}");
}

#[test]
fn a_part_that_is_wrong_is_found_by_the_hash_of_the_whole() {
    let mut bench = Bench::with(Fault::Cut(40_000));
    bench.options.retries = 0;
    bench.fetch().unwrap_err();
    let work = bench.out().join(".cache/huggingface/download");
    let path = std::fs::read_dir(work).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().unwrap() == "incomplete");
    let path = path.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[7] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    bench.fails("the hub's listing says the SHA-256");
}

#[test]
fn wrong_bytes_and_wrong_lengths_never_become_files() {
    Bench::with(Fault::Garble).fails(WEIGHTS_SHA256);
    Bench::with(Fault::Announce(99_999)).fails("`model.safetensors` came with 99999 bytes; the hub's listing says 100000 bytes");
    Bench::with(Fault::Announce(100_001)).fails("`model.safetensors` came with 100001 bytes");
    Bench::with(Fault::Unannounced(100_001)).fails("the hub's listing says 100000 bytes");
}

#[test]
fn what_can_be_mended_is() {
    for fault in [
        Fault::Unannounced(99_999),
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(408),
        Fault::OtherPart,
        Fault::Stall,
        Fault::Cut(0),
        Fault::Status(416),
    ] {
        Bench::with(fault).is_right();
    }
    // A server that knows no parts begins anew.
    let bench = Bench::with(Fault::Cut(60_000));
    bench.server.fault("model.safetensors", Fault::Whole);
    bench.is_right();
}

#[test]
fn refusals_and_dead_ends_are_said_at_once() {
    Bench::with(Fault::Status(403)).fails("answers 403");
    Bench::with(Fault::Status(404)).fails("answers 404");
    Bench::with(Fault::Nowhere).fails("model.safetensors");
    let bench = Bench::with(Fault::Round);
    let error = bench.fetch().unwrap_err().to_string();
    assert!(error.contains("leads nowhere"), "{error}");
    assert!(bench.server.asked("model.safetensors").len() < 20);
    let bench = Bench::new();
    (0..4).for_each(|_| bench.server.fault("model.safetensors", Fault::Status(500)));
    bench.fails("could not be fetched in 4 tries: it answers 500");
}

#[test]
fn a_redirection_is_followed_and_the_token_stays_at_home() {
    let other = Bench::new();
    // Another host by name.
    let elsewhere = other.server.address.replace("127.0.0.1", "localhost");
    let bench = Bench::with(Fault::Elsewhere(elsewhere));
    bench.is_right();
    let token = "authorization: bearer secret".to_owned();
    assert!(bench.server.asked("model.safetensors").iter().all(|lines| lines.contains(&token)));
    let there = other.server.asked("model.safetensors");
    assert_eq!(there.len(), 1);
    assert!(!there[0].contains(&token), "{there:?}");
}

#[test]
fn a_branch_is_refused_with_its_commit_unless_allowed() {
    let mut bench = Bench::new();
    let error = bench.fetch_at("main").unwrap_err();
    assert!(error.hint().unwrap().contains(&format!("plansmith fetch org/tiny@{COMMIT}")), "{:?}", error.hint());
    assert!(!bench.out().exists());
    bench.options.allow_moving = true;
    assert_eq!(bench.fetch_at("main").unwrap().commit, COMMIT);
}

#[test]
fn a_listing_of_something_else_is_refused() {
    let bench = Bench::new();
    let other = "f".repeat(40);
    bench
        .server
        .list(listing(CONFIG_BLOB, WEIGHTS_SHA256, 100_000).replace(&format!("\"sha\": \"{COMMIT}\""), &format!("\"sha\": \"{other}\"")));
    assert!(bench.fetch().unwrap_err().to_string().contains(&format!("is the listing of commit {other}; {COMMIT} was asked for")));
    for broken in ["", "[]", "{\"sha\": \"main\", \"siblings\": []}", "<html>"] {
        bench.server.list(broken.to_owned());
        assert!(matches!(bench.fetch().unwrap_err(), Error::Answer { .. }), "{broken}");
    }
    bench.server.list(format!("{{\"sha\": \"{COMMIT}\", \"siblings\": []}}"));
    assert!(bench.fetch().unwrap_err().to_string().contains("has no config.json"));
    bench.server.list(listing(CONFIG_BLOB, "12", 100_000));
    assert!(bench.fetch().unwrap_err().to_string().contains("`model.safetensors`"));
    bench.server.list(listing(&"0".repeat(40), WEIGHTS_SHA256, 100_000));
    assert!(bench.fetch().unwrap_err().to_string().contains("the git blob hash"), "a wrong small file is found by git's hash");
    (0..4).for_each(|_| bench.server.fault("listing", Fault::Status(503)));
    assert!(matches!(bench.fetch().unwrap_err(), Error::GaveUp { .. }));
    bench.server.list(listing(CONFIG_BLOB, WEIGHTS_SHA256, 1 << 60));
    assert!(matches!(bench.fetch().unwrap_err(), Error::Space { .. }), "what does not fit is not begun");
}

#[test]
fn an_index_names_the_weights() {
    let bench = Bench::new();
    let index = br#"{"weight_map": {"a": "one.safetensors"}}"#;
    let digest = Digest::of(index);
    let sibling = |name: &str, size: usize, digest: &dyn std::fmt::Display| {
        format!(r#"{{"rfilename": "{name}", "size": {size}, "lfs": {{"sha256": "{digest}", "size": {size}}}}}"#)
    };
    let listing = |weights: &str| {
        let config = format!(r#"{{"rfilename": "config.json", "size": {}, "blobId": "{CONFIG_BLOB}"}}"#, CONFIG.len());
        let index = sibling("model.safetensors.index.json", index.len(), &digest);
        format!(r#"{{"sha": "{COMMIT}", "siblings": [{config}, {index}, {}]}}"#, sibling(weights, 100_000, &WEIGHTS_SHA256))
    };
    let files = vec![
        ("config.json".to_owned(), CONFIG.to_vec()),
        ("model.safetensors.index.json".to_owned(), index.to_vec()),
        ("one.safetensors".to_owned(), weights()),
    ];
    let bench = Bench { server: Server::start(listing("one.safetensors"), files), ..bench };
    assert_eq!(bench.fetch().unwrap().files.len(), 3);
    bench.server.list(listing("two.safetensors"));
    let error = bench.fetch().unwrap_err().to_string();
    assert!(error.contains("lacks `one.safetensors`, which its model.safetensors.index.json names"), "{error}");
}

#[test]
fn a_file_in_the_way_is_kept_unless_forced() {
    let mut bench = Bench::new();
    std::fs::create_dir_all(bench.out()).unwrap();
    std::fs::write(bench.out().join("config.json"), "mine").unwrap();
    let error = bench.fetch().unwrap_err();
    assert!(matches!(error, Error::InTheWay { .. }), "{error}");
    assert_eq!(std::fs::read(bench.out().join("config.json")).unwrap(), b"mine");
    bench.options.force = true;
    bench.is_right();
}

#[test]
fn the_hub_s_cache_is_laid_out_as_its_client_does() {
    let bench = Bench::new();
    let hub = Hub::new(&bench.server.address, None).unwrap();
    let address: Address = format!("org/tiny@{COMMIT}").parse().unwrap();
    let folder = bench.folder.path().join("hub/models--org--tiny");
    let place = Place::Cache(folder.clone());
    let fetched = hub.fetch(&address, &place, &bench.options, &|_| ()).unwrap();
    assert_eq!(fetched.folder, folder.join("snapshots").join(COMMIT));
    let link = std::fs::read_link(fetched.folder.join("model.safetensors")).unwrap();
    assert_eq!(link, Path::new("../../blobs").join(WEIGHTS_SHA256));
    assert_eq!(std::fs::read_link(fetched.folder.join("config.json")).unwrap(), Path::new("../../blobs").join(CONFIG_BLOB));
    assert_eq!(std::fs::read(fetched.folder.join("model.safetensors")).unwrap(), weights());
    assert_eq!(commit_of_folder(&fetched.folder).as_deref(), Some(COMMIT));
    // A blob that somebody damaged is fetched anew.
    std::fs::write(folder.join("blobs").join(WEIGHTS_SHA256), b"damaged").unwrap();
    hub.fetch(&address, &place, &bench.options, &|_| ()).unwrap();
    assert_eq!(std::fs::read(fetched.folder.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn offline_a_branch_is_what_it_was() {
    let mut bench = Bench::new();
    bench.options.allow_moving = true;
    let hub = Hub::new(&bench.server.address, None).unwrap();
    let place = Place::Cache(bench.folder.path().join("hub/models--org--tiny"));
    let branch: Address = "org/tiny@refs/pr/1".parse().unwrap();
    assert!(matches!(find_offline(&branch, &place, &bench.options), Err(Error::Offline { .. })));
    let fetched = hub.fetch(&branch, &place, &bench.options, &|_| ()).unwrap();
    let found = find_offline(&branch, &place, &bench.options).unwrap();
    assert_eq!((&found.commit, &found.folder, found.files.len()), (&fetched.commit, &fetched.folder, fetched.files.len()));
    bench.options.allow_moving = false;
    let refused = find_offline(&branch, &place, &bench.options);
    assert!(matches!(refused, Err(Error::Moving { commit: Some(commit), .. }) if commit == COMMIT));
}

#[test]
fn folders_say_their_commit_only_where_all_files_agree() {
    let bench = Bench::new();
    bench.fetch().unwrap();
    let record = bench.out().join(".cache/huggingface/download/config.json.metadata");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace(COMMIT, &"a".repeat(40))).unwrap();
    assert_eq!(commit_of_folder(&bench.out()), None);
    assert_eq!(commit_of_folder(bench.folder.path()), None);
}

#[test]
fn only_http_addresses_are_endpoints() {
    for endpoint in ["", "huggingface.co", "file:///etc", "https://", "https://user@host", "http://a b"] {
        assert!(matches!(Hub::new(endpoint, None), Err(Error::Endpoint { .. })), "{endpoint}");
    }
}

#[test]
fn leftovers_of_another_model_are_in_the_way_unless_forced() {
    let mut bench = Bench::new();
    std::fs::create_dir_all(bench.out()).unwrap();
    let stale = bench.out().join("tokenizer.json");
    std::fs::write(&stale, "{}").unwrap();
    assert!(matches!(bench.fetch(), Err(Error::Leftover { path }) if path == stale));
    bench.options.force = true;
    bench.is_right();
    assert!(!stale.exists());
}

#[test]
fn offline_a_plain_folder_is_of_the_repository_it_was_fetched_from() {
    let mut bench = Bench::new();
    bench.fetch().unwrap();
    let find = |bench: &Bench, address: &str| find_offline(&address.parse().unwrap(), &Place::Folder(bench.out()), &bench.options);
    // What an export wrote beside it is nobody's leftover.
    std::fs::write(bench.out().join("model_fp16.safetensors"), "").unwrap();
    bench.fetch().unwrap();
    assert!(find(&bench, &format!("org/tiny@{COMMIT}")).is_ok());
    assert!(matches!(find(&bench, &format!("someone/else@{COMMIT}")), Err(Error::Offline { .. })));
    bench.options.allow_moving = true;
    assert!(matches!(find(&bench, "org/tiny@main"), Err(Error::Offline { .. })));
}
