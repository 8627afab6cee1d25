//! Models that clients of the server may bring in and remove: those of the hub, in the cache, and no other files.

use crate::arguments::FetchFlags;
use crate::{failure, models, terminal};
use gguf::plain;
use hub::error::bytes;
use hub::name::{self, Source};
use hub::remove::Removal;
use hub::{Entry, Error, Event, Hub, Watch};
use server::error::ApiError;
use server::library::{Kept, Library, PullStep, Told};
use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What Ollama's clients complete names by.
pub const LATEST: &str = ":latest";

/// Bytes of a file from whose beginning its id is made.
const BEGINNING: u64 = 1 << 20;

/// The cache of models, with the file of it that is served.
#[derive(Debug)]
pub struct Cached {
    /// Whether downloads are allowed.
    pub fetch: FetchFlags,
    /// The model that was named when the server began.
    pub served: Option<PathBuf>,
}

impl Cached {
    fn hub(&self, watch: Box<dyn Watch>) -> Result<Hub, ApiError> {
        let settings = models::settings(&self.fetch).map_err(|error| ApiError::server(failure::message(&error)))?;
        Ok(Hub::new(settings, watch))
    }

    fn here(&self) -> Result<Hub, ApiError> {
        self.hub(Box::new(hub::Silent))
    }

    fn is_served(&self, entry: &Entry) -> bool {
        let served = self.served.as_ref().and_then(|served| served.canonicalize().ok());
        served.is_some_and(|served| entry.path.canonicalize().ok() == Some(served))
    }
}

impl Library for Cached {
    fn list(&self) -> Vec<Kept> {
        let kept = |entry: Entry| Kept {
            digest: digest(&entry.path),
            modified: entry.path.metadata().and_then(|meta| meta.modified()).ok(),
            name: entry.name(),
            bytes: entry.bytes,
            quantization: entry.quant,
        };
        self.here().map_or_else(|_| vec![], |hub| hub.entries().into_iter().map(kept).collect())
    }

    fn key(&self, text: &str) -> Result<String, ApiError> {
        let hub = self.here()?;
        let text = without_latest(text);
        match name::parse(text, &hub.settings().endpoint).map_err(told)? {
            Some(Source::Url(_)) => Err(ApiError::field(
                "model",
                "models are pulled from the hub only: give user/repo[:QUANT] or a short name",
            )),
            Some(source) => Ok(format!("{source:?}")),
            // A model that is here may be named as it is listed.
            None => match &*hub.cache().named(text) {
                [entry] => Ok(entry.name()),
                _ => Err(ApiError::not_found(format!("there is no model '{}'", plain::name(text)))),
            },
        }
    }

    fn pull(&self, name: &str, told_of: Box<dyn Told>) -> Result<(), ApiError> {
        let hub = self.hub(Box::new(Ear { told: told_of, file: RefCell::default() }))?;
        let pulled = hub.pull(without_latest(name)).map_err(told)?;
        if pulled.downloaded > 0 {
            terminal::line(&format!("pulled {} for a client: {}", plain::name(name), bytes(pulled.bytes)));
        }
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), ApiError> {
        let hub = self.here()?;
        let text = without_latest(name);
        let mut named = hub.cache().named(text);
        if named.is_empty() {
            // A short name is that of a repository.
            let path = hub.locate(text).ok().flatten();
            named = hub.entries().into_iter().filter(|entry| path.as_ref() == Some(&entry.path)).collect();
        }
        let [entry] = &named[..] else {
            return Err(match &named[..] {
                [] => ApiError::not_found(format!("model '{}' not found in the cache", plain::name(name))),
                several => {
                    let models = several.iter().map(Entry::name).collect();
                    told(Error::Ambiguous { text: name.to_owned(), models })
                }
            });
        };
        if self.is_served(entry) {
            return Err(ApiError::in_use(format!("{} is the model that this server runs", entry.name())));
        }
        let removal = Removal::plan(hub.cache(), &entry.repo, &named, false);
        removal.carry_out().map_err(told)?;
        terminal::line(&format!("removed {} for a client; {} are free now", entry.name(), bytes(removal.bytes)));
        Ok(())
    }
}

/// A name as the hub knows it.
fn without_latest(name: &str) -> &str {
    name.strip_suffix(LATEST).unwrap_or(name)
}

/// An error for a client: what it may change about it decides the status.
fn told(error: Error) -> ApiError {
    let text = error.to_string();
    match error {
        Error::Unknown { .. }
        | Error::NotHere { .. }
        | Error::NoRepository { .. }
        | Error::NoRevision { .. }
        | Error::NoFile { .. }
        | Error::NoModels { .. }
        | Error::Table { .. } => ApiError::not_found(text),
        Error::Address { .. } | Error::Ambiguous { .. } => ApiError::field("model", text),
        Error::Disk { .. } => ApiError::no_room(text),
        Error::Io { .. } | Error::NoHome | Error::Setting { .. } => ApiError::server(text),
        Error::Offline { .. } => ApiError::unsupported(text),
        Error::Gated { .. }
        | Error::Token { .. }
        | Error::Parts { .. }
        | Error::Unreachable { .. }
        | Error::BrokenOff { .. }
        | Error::Stopped { .. }
        | Error::Status { .. }
        | Error::Answer { .. }
        | Error::Hash { .. } => ApiError::unavailable(text),
    }
}

/// What tells the file of a model from others: the name of its bytes in the cache, which is their hash as far as the hub
/// promises one, or an id made of its size and its beginning.
pub fn digest(path: &Path) -> String {
    let blob = path.canonicalize().ok();
    let name = blob.as_ref().and_then(|blob| blob.file_name()?.to_str()).unwrap_or_default();
    if name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return name.to_owned();
    }
    let mut beginning = vec![];
    let read = File::open(path).and_then(|file| {
        beginning.extend(file.metadata()?.len().to_le_bytes());
        file.take(BEGINNING).read_to_end(&mut beginning)
    });
    if read.is_err() {
        // What cannot be read is told apart by its name.
        beginning.extend(path.as_os_str().as_encoded_bytes());
    }
    hub::cache::sha256(&beginning)
}

/// Hears of a download for those who wait.
struct Ear {
    told: Box<dyn Told>,
    /// The file that is coming: its name, hash and size.
    file: RefCell<(String, Option<String>, Option<u64>)>,
}

impl Ear {
    fn at(&self, completed: u64) {
        let (name, sha256, total) = self.file.borrow().clone();
        self.told.hear(PullStep::File { name, sha256, total, completed });
    }
}

impl Watch for Ear {
    fn hear(&self, event: &Event) {
        match event {
            // What cannot begin is no stream yet.
            Event::Plan { .. } => {}
            Event::Waiting(file) => {
                let file = plain::name(file);
                self.told.hear(PullStep::Remark(format!("waiting for another process that downloads {file}")));
            }
            Event::Begin { file, bytes, sha256 } => {
                *self.file.borrow_mut() = (plain::name(file).into_owned(), sha256.map(str::to_owned), *bytes);
                self.at(0);
            }
            Event::At(position) => self.at(*position),
            Event::Retry { reason, .. } => {
                self.told.hear(PullStep::Remark(plain::line(reason, plain::QUOTE).into_owned()));
            }
            Event::Done { .. } => {
                if let Some(total) = self.file.borrow().2 {
                    self.at(total);
                }
            }
        }
    }

    fn waits(&self) -> bool {
        self.told.waits()
    }
}
