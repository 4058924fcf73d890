//! A whole checkpoint.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plansmith_files::{Digest, FolderLock};
use serde::Serialize;

use crate::client::{Client, Hub, Options, hopeless};
use crate::download::download;
use crate::listing::{Listing, RemoteFile};
use crate::place::Place;
use crate::{Address, Error, Revision};

/// A checkpoint that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fetched {
    /// `ORG/NAME`.
    pub repository: String,
    /// 40 hex digits.
    pub commit: String,
    /// The folder to give to the other commands.
    #[serde(serialize_with = "plansmith_files::shown")]
    pub folder: PathBuf,
    /// Its files, sorted by name.
    pub files: Vec<FetchedFile>,
}

/// One of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FetchedFile {
    /// Within the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Of its bytes, as they were read here.
    pub sha256: Digest,
    /// Whether it was there already.
    pub taken_over: bool,
}

/// How far a fetch is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file that something came of.
    pub name: &'a str,
    /// Bytes that are there, of the files that are fetched now.
    pub done: u64,
    /// Bytes of these files.
    pub total: u64,
}

impl Hub {
    /// Fetches the checkpoint `address` into `place`: config, tokenizer and safetensors files, nothing else. Files that are there are taken over
    /// when their bytes hash as the hub says.
    ///
    /// # Errors
    /// A branch where a commit is wanted; a hub that refuses, breaks off too often, or sends other bytes than its listing says; no room. What came
    /// of a file and is not known to be wrong stays for the next run; no file has its name before it is complete and its hash is right.
    pub fn fetch(
        &self,
        address: &Address,
        place: &Place,
        options: &Options,
        report: &(dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Fetched, Error> {
        let client = self.client(options);
        let listing = self.listing(&client, address, options)?;
        if let (Revision::Moving(_), false) = (&address.revision, options.allow_moving) {
            return Err(Error::Moving { address: address.to_string(), commit: Some(listing.commit) });
        }
        if listing.file("config.json").is_none() {
            return Err(Error::Repository { address: address.to_string(), problem: "has no config.json".to_owned() });
        }
        let work = place.work();
        plansmith_files::create_dir_all(&work)?;
        let Some(_lock) = FolderLock::take(&work)? else { return Err(Error::Locked { path: work }) };
        let job = Job { hub: self, client, address, place, options, commit: &listing.commit };
        let mut files = job.all(&listing.companions(), report)?;
        let index = listing.index().map(|file| plansmith_files::read(&place.bytes(file))).transpose()?;
        let weights = listing.weights(address, index.as_deref())?;
        job.clear(&[listing.companions(), weights.clone()].concat())?;
        files.extend(job.all(&weights, report)?);
        files.sort_by(|a, b| a.name.cmp(&b.name));
        place.name(&address.repository)?;
        if let Revision::Moving(name) = &address.revision {
            place.remember(name, &listing.commit)?;
        }
        let folder = place.checkpoint(&listing.commit);
        Ok(Fetched { repository: address.repository.clone(), commit: listing.commit, folder, files })
    }

    fn listing(&self, client: &Client, address: &Address, options: &Options) -> Result<Listing, Error> {
        let url = self.listing_url(address);
        let mut tries = 0;
        let answer = loop {
            match client.read(&url) {
                Ok(answer) => break answer,
                Err(ureq::Error::StatusCode(status)) if status != 429 && status < 500 => return Err(Error::Status { url, status }),
                Err(error) => {
                    if let Some(error) = hopeless(&url, &error) {
                        return Err(error);
                    }
                    tries += 1;
                    if tries > options.retries {
                        return Err(Error::GaveUp { url, tries, why: error.to_string() });
                    }
                    std::thread::sleep(options.pause * tries);
                }
            }
        };
        Listing::read(address, &url, &answer)
    }
}

struct Job<'a> {
    hub: &'a Hub,
    client: Client,
    address: &'a Address,
    place: &'a Place,
    options: &'a Options,
    commit: &'a str,
}

impl Job<'_> {
    /// Refuses files of a plain folder that readers would take for the checkpoint's and that are not among `wanted`; `force` removes them.
    fn clear(&self, wanted: &[&RemoteFile]) -> Result<(), Error> {
        let Place::Folder(folder) = self.place else { return Ok(()) };
        for path in plansmith_files::list(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !Listing::is_read(&name) || wanted.iter().any(|file| file.name == name) {
                continue;
            }
            if !self.options.force {
                return Err(Error::Leftover { path });
            }
            plansmith_files::remove_file(&path)?;
        }
        Ok(())
    }

    /// Fetches `files`, several at a time.
    fn all(&self, files: &[&RemoteFile], report: &(dyn Fn(Progress<'_>) + Sync)) -> Result<Vec<FetchedFile>, Error> {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for &file in files {
            match self.there(file)? {
                Some(sha256) => there.push(fetched(file, sha256, true)),
                None => missing.push(file),
            }
        }
        let total = missing.iter().map(|file| file.size).sum();
        let partly: u64 =
            missing.iter().filter_map(|file| plansmith_files::metadata(&self.place.partial(file)).ok()).map(|m| m.len()).sum();
        let (path, free) = (self.place.work(), plansmith_files::free_space(&self.place.work())?);
        if let Some(needed) = Some(total - partly.min(total)).filter(|&needed| needed > free) {
            return Err(Error::Space { path, needed, free });
        }
        let counts: Vec<AtomicU64> = missing.iter().map(|_| AtomicU64::new(0)).collect();
        let queue = Mutex::new(missing.iter().enumerate());
        let worker = || {
            let mut fetched = Vec::new();
            loop {
                let next = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
                let Some((index, file)) = next else { return Ok(fetched) };
                let heard = |written: u64| {
                    counts[index].store(written, Ordering::Relaxed);
                    let done = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
                    report(Progress { name: &file.name, done, total });
                };
                match self.one(file, &heard) {
                    Ok(file) => fetched.push(file),
                    Err(error) => {
                        // The others end what they have begun.
                        queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).by_ref().for_each(drop);
                        return Err(error);
                    }
                }
            }
        };
        let results: Vec<Result<Vec<FetchedFile>, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.options.jobs.clamp(1, 16)).map(|_| scope.spawn(worker)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for result in results {
            there.extend(result?);
        }
        Ok(there)
    }

    /// The SHA-256 of a file that is there already with the right bytes.
    fn there(&self, file: &RemoteFile) -> Result<Option<Digest>, Error> {
        let path = self.place.bytes(file);
        if !plansmith_files::is_file(&path) {
            return Ok(None);
        }
        if plansmith_files::metadata(&path)?.len() == file.size {
            let (found, sha256) = file.hash.is_of(&path)?;
            if found {
                self.place.settle(file, self.commit)?;
                return Ok(Some(sha256));
            }
        }
        // Bytes of the cache that do not hash to their name are of no use to anybody.
        if self.options.force || matches!(self.place, Place::Cache(_)) { Ok(None) } else { Err(Error::InTheWay { path }) }
    }

    fn one(&self, file: &RemoteFile, report: &(dyn Fn(u64) + Sync)) -> Result<FetchedFile, Error> {
        let url = self.hub.file_url(self.address, self.commit, &file.name);
        let partial = self.place.partial(file);
        let sha256 = download(&self.client, &url, file, &partial, self.options, report)?;
        plansmith_files::rename(&partial, &self.place.bytes(file))?;
        self.place.settle(file, self.commit)?;
        Ok(fetched(file, sha256, false))
    }
}

pub(crate) fn fetched(file: &RemoteFile, sha256: Digest, taken_over: bool) -> FetchedFile {
    FetchedFile { name: file.name.clone(), bytes: file.size, sha256, taken_over }
}
