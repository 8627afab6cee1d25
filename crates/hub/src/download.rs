//! One file into the cache: locked, resumed, checked, and only then under its final name.

use crate::cache::{self, Repo, hex};
use crate::client::{Client, Failure, Reply};
use crate::error::Error;
use crate::listing::{self, Hash};
use crate::watch::{Event, Watch};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes read at a time.
const CHUNK: usize = 1 << 18;

/// Between two looks whether another process still downloads a file.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A file to get.
#[derive(Clone, Debug)]
pub struct Item {
    /// The address of its bytes.
    pub url: String,
    /// The repository of the hub that it is from; none for other servers.
    pub repo: Option<String>,
    /// Its name in messages.
    pub name: String,
    /// The name of its blob.
    pub blob: String,
    /// Its size, if known.
    pub bytes: Option<u64>,
    /// What its bytes are known by, if anything.
    pub hash: Option<Hash>,
    /// A tag that changes when the bytes do, for servers that promise no hash.
    pub tag: Option<String>,
}

/// A blob under way.
struct Transfer<'a> {
    client: &'a Client,
    item: &'a Item,
    path: PathBuf,
    file: File,
    have: u64,
    hasher: Hasher,
    watch: &'a dyn Watch,
}

/// How a try ended.
enum Try {
    Complete,
    BrokeOff(String, Option<Duration>),
}

/// Gets a file into the blobs of a repository, unless it is there. Returns its path.
pub fn download(client: &Client, repo: &Repo, item: &Item, watch: &dyn Watch) -> Result<PathBuf, Error> {
    let blob = repo.blob(&item.blob);
    cache::make_parent(&blob)?;
    let _lock = lock(&repo.lock(&item.blob), item, watch)?;
    if is_there(&blob, item) {
        return Ok(blob);
    }
    let mut transfer = Transfer::open(client, repo.incomplete(&item.blob), item, watch)?;
    let sha256 = match &item.hash {
        Some(Hash::Sha256(hash)) => Some(hash.as_str()),
        _ => None,
    };
    watch.hear(&Event::Begin { file: &item.name, bytes: item.bytes, sha256 });
    let mut resumed = transfer.have > 0;
    loop {
        transfer.run()?;
        match transfer.check() {
            Ok(()) => break,
            // What an earlier download left may have been of another version, or written by another program.
            Err(_) if resumed => resumed = false,
            Err(error) => {
                let _ = fs::remove_file(&transfer.path);
                return Err(error);
            }
        }
        transfer.restart()?;
    }
    let saved = transfer.file.sync_all().and_then(|()| fs::rename(&transfer.path, &blob));
    saved.map_err(Error::io("write", &blob))?;
    watch.hear(&Event::Done { file: &item.name, verified: item.hash.is_some() });
    Ok(blob)
}

/// Whether the blob is complete.
pub fn is_there(blob: &Path, item: &Item) -> bool {
    blob.metadata().is_ok_and(|meta| item.bytes.is_none_or(|bytes| meta.len() == bytes))
}

/// Bytes that are free for a file in a folder, which need not exist.
pub fn free(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|folder| folder.is_dir()).and_then(|folder| fs4::available_space(folder).ok())
}

/// Waits until nobody else downloads the file. The lock ends with the returned file.
fn lock(path: &Path, item: &Item, watch: &dyn Watch) -> Result<File, Error> {
    cache::make_parent(path)?;
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(Error::io("open", path))?;
    let mut waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if !watch.waits() => return Err(Error::Stopped { file: item.name.clone() }),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut waiting, true) {
                    watch.hear(&Event::Waiting(&item.name));
                }
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Io { action: "lock", path: path.to_owned(), source });
            }
        }
    }
}

impl<'a> Transfer<'a> {
    /// Takes up what an earlier download left.
    fn open(client: &'a Client, path: PathBuf, item: &'a Item, watch: &'a dyn Watch) -> Result<Transfer<'a>, Error> {
        let options = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = options.map_err(Error::io("write", &path))?;
        let have = file.metadata().map_err(Error::io("read", &path))?.len();
        let mut transfer = Transfer { client, item, path, file, have, hasher: Hasher::of(item), watch };
        match have == 0 || item.bytes.is_some_and(|bytes| have > bytes) || !item.is_resumable() {
            true => transfer.restart()?,
            false => transfer.hash_what_is_there()?,
        }
        Ok(transfer)
    }

    fn hash_what_is_there(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK];
        self.file.seek(SeekFrom::Start(0)).map_err(Error::io("read", &self.path))?;
        loop {
            match self.file.read(&mut buffer).map_err(Error::io("read", &self.path))? {
                0 => return Ok(()),
                n => self.hasher.update(&buffer[..n]),
            }
        }
    }

    /// Forgets all bytes.
    fn restart(&mut self) -> Result<(), Error> {
        self.have = 0;
        self.hasher = Hasher::of(self.item);
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map(|_| ()).map_err(Error::io("write", &self.path))
    }

    /// Gets all bytes, in as many tries as it takes while there is progress.
    fn run(&mut self) -> Result<(), Error> {
        let mut tries = self.client.tries();
        loop {
            if self.item.bytes == Some(self.have) {
                return Ok(());
            }
            let before = self.have;
            let (reason, pause) = match self.attempt()? {
                Try::Complete => return Ok(()),
                Try::BrokeOff(reason, pause) => (reason, pause),
            };
            match self.item.is_resumable() {
                true if self.have > before => tries.reset(),
                true => {}
                false => self.restart()?,
            }
            self.stop_if_alone()?;
            if !tries.wait(&reason, pause, self.watch) {
                let host = crate::client::host(&self.item.url);
                return Err(Error::BrokenOff { file: self.item.name.clone(), host, reason });
            }
        }
    }

    /// One request.
    fn attempt(&mut self) -> Result<Try, Error> {
        let tag = self.item.tag.as_deref().filter(|_| self.item.hash.is_none());
        let from = (self.have > 0).then_some((self.have, tag));
        let reply = match self.client.get(&self.item.url, from) {
            Ok(reply) => reply,
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing(reason, pause)) => return Ok(Try::BrokeOff(reason, pause)),
        };
        match reply.status {
            206 if from.is_some() && reply.range().is_some_and(|(start, _)| start == self.have) => {}
            // A server that knows no ranges, or has another version now, sends everything.
            200 => self.restart()?,
            206 | 416 if from.is_some() => {
                let reason = format!("{} does not continue at byte {}", reply.url, self.have);
                self.restart()?;
                return Ok(Try::BrokeOff(reason, None));
            }
            _ => return Err(listing::refusal(self.client, reply, self.item.repo.as_deref(), "")),
        }
        self.receive(reply)
    }

    /// Writes what comes.
    fn receive(&mut self, reply: Reply) -> Result<Try, Error> {
        let total = self.item.bytes.or(reply.total());
        self.refuse_if_too_large(total)?;
        let mut body = reply.body.into_reader();
        let mut buffer = vec![0; CHUNK];
        loop {
            self.watch.hear(&Event::At(self.have));
            self.stop_if_alone()?;
            let n = match body.read(&mut buffer) {
                Ok(n) => n,
                Err(error) => return Ok(Try::BrokeOff(said(&error), None)),
            };
            match total {
                _ if n > 0 => {}
                Some(total) if self.have < total => return Ok(Try::BrokeOff("the connection was closed".into(), None)),
                _ => return Ok(Try::Complete),
            }
            self.file.write_all(&buffer[..n]).map_err(|error| self.not_written(error, total))?;
            self.hasher.update(&buffer[..n]);
            self.have += n as u64;
            if total.is_some_and(|total| self.have > total) {
                // More than there is: the check will say what came.
                return Ok(Try::Complete);
            }
        }
    }

    /// An error if nobody waits any more.
    fn stop_if_alone(&self) -> Result<(), Error> {
        if self.watch.waits() { Ok(()) } else { Err(Error::Stopped { file: self.item.name.clone() }) }
    }

    /// An error if what is to come does not fit on the disk.
    fn refuse_if_too_large(&self, total: Option<u64>) -> Result<(), Error> {
        let needed = total.unwrap_or(0).saturating_sub(self.have);
        match free(&self.path) {
            Some(free) if free < needed => Err(self.full(needed, free)),
            _ => Ok(()),
        }
    }

    fn not_written(&self, source: std::io::Error, total: Option<u64>) -> Error {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.full(total.unwrap_or(0).saturating_sub(self.have), free(&self.path).unwrap_or(0))
            }
            _ => Error::Io { action: "write", path: self.path.clone(), source },
        }
    }

    fn full(&self, needed: u64, free: u64) -> Error {
        Error::Disk { needed, free, folder: self.path.parent().unwrap_or(&self.path).to_owned() }
    }

    /// Whether the bytes are those that were promised.
    fn check(&mut self) -> Result<(), Error> {
        let wrong = |expected: String, found: String| Error::Hash { file: self.item.name.clone(), expected, found };
        if let Some(bytes) = self.item.bytes.filter(|&bytes| bytes != self.have) {
            return Err(wrong(format!("{bytes} bytes"), format!("of {} bytes", self.have)));
        }
        match (&self.item.hash, self.hasher.clone().finish()) {
            (Some(expected), Some(found)) if found != expected.text() => Err(wrong(expected.text().to_owned(), found)),
            _ => Ok(()),
        }
    }
}

impl Item {
    /// Whether bytes of an earlier try can be told from those of another version.
    fn is_resumable(&self) -> bool {
        self.hash.is_some() || self.tag.is_some()
    }
}

/// Computes the hash that was promised.
#[derive(Clone)]
enum Hasher {
    Sha256(Sha256),
    Git(Sha1),
    None,
}

impl Hasher {
    fn of(item: &Item) -> Hasher {
        match (&item.hash, item.bytes) {
            (Some(Hash::Sha256(_)), _) => Hasher::Sha256(Sha256::new()),
            (Some(Hash::Git(_)), Some(bytes)) => Hasher::Git(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
            _ => Hasher::None,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Git(hasher) => hasher.update(bytes),
            Hasher::None => {}
        }
    }

    fn finish(self) -> Option<String> {
        match self {
            Hasher::Sha256(hasher) => Some(hex(&hasher.finalize())),
            Hasher::Git(hasher) => Some(hex(&hasher.finalize())),
            Hasher::None => None,
        }
    }
}

/// What a failed read says.
fn said(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => "nothing was heard for too long".into(),
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => "the connection was closed".into(),
        _ => error.to_string(),
    }
}
