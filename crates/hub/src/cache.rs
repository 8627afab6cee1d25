//! The cache: folders in the layout that Hugging Face's tools share, read and written.
//!
//! ```text
//! models--user--repo/blobs/HASH              the bytes, under a final name only when they are complete and right
//! models--user--repo/blobs/HASH.incomplete   what a download has so far
//! models--user--repo/snapshots/COMMIT/PATH   links to blobs
//! models--user--repo/refs/main               the commit that a branch was at when it was last looked at
//! .locks/models--user--repo/HASH.lock        held while a blob is downloaded
//! ```

use crate::error::Error;
use crate::name::{Source, Wanted};
use crate::quant::{self, Candidate};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the folder of a model's repository begins with.
const PREFIX: &str = "models--";

/// What a download has so far ends in this.
const INCOMPLETE: &str = ".incomplete";

/// The folder of all repositories.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// The folder of one repository.
#[derive(Clone, Debug)]
pub struct Repo {
    id: String,
    folder: PathBuf,
    locks: PathBuf,
}

/// A file in a snapshot.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The snapshot.
    pub commit: String,
    /// Path in the repository.
    pub path: String,
    /// The link.
    pub link: PathBuf,
    /// What it leads to.
    pub blob: PathBuf,
    /// Size.
    pub bytes: u64,
    /// When the bytes were last read, as far as the file system says.
    pub used: Option<SystemTime>,
}

/// A model in the cache.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The repository, `user/name`.
    pub repo: String,
    /// The quantisation, or the name of the file where that tells none.
    pub quant: String,
    /// Its files in the repository.
    pub files: Vec<String>,
    /// Where the first of them is.
    pub path: PathBuf,
    /// Size of all files.
    pub bytes: u64,
    /// When it was last used.
    pub used: Option<SystemTime>,
}

/// A download that is not finished.
#[derive(Clone, Debug)]
pub struct Partial {
    /// The repository.
    pub repo: String,
    /// Bytes so far.
    pub bytes: u64,
}

impl Cache {
    /// The cache in a folder, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Cache {
        Cache { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a repository, which need not exist.
    pub fn repo(&self, id: &str) -> Repo {
        let name = format!("{PREFIX}{}", id.replace('/', "--"));
        Repo { id: id.to_owned(), folder: self.root.join(&name), locks: self.root.join(".locks").join(name) }
    }

    /// The repositories that are there, by name.
    pub fn repos(&self) -> Vec<Repo> {
        let mut names = names_in(&self.root);
        names.sort();
        let id = |name: &String| Some(name.strip_prefix(PREFIX)?.replace("--", "/"));
        names.iter().filter_map(id).map(|id| self.repo(&id)).collect()
    }

    /// Where a model is, if all of it is here.
    pub fn find(&self, source: &Source) -> Option<Linked> {
        let (repo, revision, wanted) = match source {
            Source::Repo { repo, revision, wanted } => (self.repo(repo), revision.clone(), wanted.clone()),
            Source::Url(url) => (self.repo(&repo_of_url(url)), "main".into(), Wanted::Any),
        };
        let files = repo.files();
        repo.commits(&revision).into_iter().find_map(|commit| {
            let in_commit: Vec<&Linked> = files.iter().filter(|file| file.commit == commit).collect();
            let candidates = quant::candidates(in_commit.iter().map(|file| file.path.as_str()));
            let complete: Vec<Candidate> = candidates.into_iter().filter(Candidate::is_complete).collect();
            let chosen = chosen(&complete, &wanted)?;
            in_commit.into_iter().find(|file| file.path == chosen.first()).cloned()
        })
    }

    /// The models that are here, by repository and quantisation.
    pub fn entries(&self) -> Vec<Entry> {
        self.repos().iter().flat_map(Repo::entries).collect()
    }

    /// Downloads that are not finished.
    pub fn partials(&self) -> Vec<Partial> {
        let of = |repo: &Repo| {
            let bytes = repo.partials().iter().filter_map(|path| path.metadata().ok()).map(|m| m.len()).sum();
            (!repo.partials().is_empty()).then(|| Partial { repo: repo.id.clone(), bytes })
        };
        self.repos().iter().filter_map(of).collect()
    }

    /// Models in the cache that have this name: the repository with or without its user, with or without a
    /// quantisation, or the name of the file.
    pub fn named(&self, text: &str) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.is_named(text));
        entries
    }
}

/// The candidate that is wanted.
pub fn chosen<'a>(candidates: &'a [Candidate], wanted: &Wanted) -> Option<&'a Candidate> {
    let by_file = |file: &str| candidates.iter().find(|candidate| candidate.files.iter().any(|f| f == file));
    match wanted {
        Wanted::Any => quant::choose(candidates, None),
        Wanted::Quant(quant) => quant::choose(candidates, Some(quant)),
        Wanted::File(file) => by_file(file),
        Wanted::Listed { file, quant, .. } => by_file(file).or_else(|| quant::choose(candidates, Some(quant))),
    }
}

/// The repository under whose name a file of another server is kept: its host, and what tells its address from others.
pub fn repo_of_url(url: &str) -> String {
    let word = |text: &str| -> String {
        let text: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        let text: String = text.chars().take(60).collect();
        text.replace("..", "_").trim_start_matches('.').to_owned()
    };
    let digest = hex(&Sha256::digest(url.as_bytes()));
    let name = url.split(['?', '#']).next().unwrap_or(url).rsplit('/').next().unwrap_or_default();
    format!("{}/{}-{}", word(&crate::client::host(url)), word(name.trim_end_matches(".gguf")), &digest[..8])
}

/// The SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Entry {
    /// The name that means this model and no other.
    pub fn name(&self) -> String {
        format!("{}:{}", self.repo, self.quant)
    }

    /// Whether a text is a name of it.
    fn is_named(&self, text: &str) -> bool {
        let short = self.repo.split('/').next_back().unwrap_or(&self.repo);
        let (name, quant) = match text.split_once(':') {
            Some((name, quant)) => (name, Some(quant)),
            None => (text, None),
        };
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let by_repo = (same(name, &self.repo) || same(name, short)) && quant.is_none_or(|q| same(q, &self.quant));
        let file = self.files[0].rsplit('/').next().unwrap_or_default();
        by_repo || same(text, file) || same(text, file.strip_suffix(".gguf").unwrap_or(file))
    }
}

impl Repo {
    /// `user/name`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of its locks.
    pub fn locks(&self) -> &Path {
        &self.locks
    }

    /// The folder of its snapshots.
    pub fn snapshots(&self) -> PathBuf {
        self.folder.join("snapshots")
    }

    /// Where the bytes with this hash are or will be.
    pub fn blob(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(name)
    }

    /// Where they are until they are complete.
    pub fn incomplete(&self, name: &str) -> PathBuf {
        self.folder.join("blobs").join(format!("{name}{INCOMPLETE}"))
    }

    /// The lock of whoever downloads them.
    pub fn lock(&self, name: &str) -> PathBuf {
        self.locks.join(format!("{name}.lock"))
    }

    /// What downloads have left.
    pub fn partials(&self) -> Vec<PathBuf> {
        let blobs = self.folder.join("blobs");
        names_in(&blobs).into_iter().filter(|name| name.ends_with(INCOMPLETE)).map(|name| blobs.join(name)).collect()
    }

    /// The commit that a branch was at.
    pub fn reference(&self, revision: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Notes the commit of a branch.
    pub fn set_reference(&self, revision: &str, commit: &str) -> Result<(), Error> {
        if revision == commit || self.reference(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let path = self.folder.join("refs").join(revision);
        make_parent(&path)?;
        let beside = beside(&path);
        fs::write(&beside, commit).map_err(Error::io("write", &beside))?;
        fs::rename(&beside, &path).map_err(Error::io("write", path))
    }

    /// Snapshots that may serve a revision: its own, then the others, for a branch the newest first.
    pub fn commits(&self, revision: &str) -> Vec<String> {
        if let Some(commit) = names_in(&self.snapshots()).into_iter().find(|name| name == revision) {
            return vec![commit];
        }
        let mut commits: Vec<String> = self.reference(revision).into_iter().collect();
        if revision == "main" {
            let made = |name: &String| self.snapshots().join(name).metadata().and_then(|m| m.modified()).ok();
            let mut others: Vec<_> = names_in(&self.snapshots()).into_iter().map(|name| (made(&name), name)).collect();
            others.sort();
            commits.extend(others.into_iter().rev().map(|(_, name)| name));
        }
        let mut seen = HashSet::new();
        commits.retain(|commit| seen.insert(commit.clone()));
        commits
    }

    /// All files of all snapshots whose bytes are here.
    pub fn files(&self) -> Vec<Linked> {
        let mut found = vec![];
        for commit in names_in(&self.snapshots()) {
            let folder = self.snapshots().join(&commit);
            walk(&folder, &mut |link| {
                let Ok(path) = link.strip_prefix(&folder) else { return };
                let (Ok(blob), Ok(meta)) = (link.canonicalize(), link.metadata()) else { return };
                let Some(path) = path.to_str() else { return };
                found.push(Linked {
                    commit: commit.clone(),
                    path: path.replace(std::path::MAIN_SEPARATOR, "/"),
                    link: link.to_owned(),
                    blob,
                    bytes: meta.len(),
                    used: meta.accessed().ok(),
                });
            });
        }
        found.sort_by(|a, b| (&a.commit, &a.path).cmp(&(&b.commit, &b.path)));
        found
    }

    /// The models in it. One that several snapshots have is counted once if its bytes are the same.
    pub fn entries(&self) -> Vec<Entry> {
        let files = self.files();
        let mut seen = HashSet::new();
        let mut entries = vec![];
        for commit in self.commits("main") {
            let in_commit: Vec<&Linked> = files.iter().filter(|file| file.commit == commit).collect();
            for candidate in quant::candidates(in_commit.iter().map(|file| file.path.as_str())) {
                let parts: Vec<&Linked> = candidate
                    .files
                    .iter()
                    .filter_map(|path| in_commit.iter().find(|f| f.path == *path))
                    .copied()
                    .collect();
                if !candidate.is_complete() || !seen.insert(parts[0].blob.clone()) {
                    continue;
                }
                entries.push(Entry {
                    repo: self.id.clone(),
                    quant: candidate.quant.clone().unwrap_or_else(|| candidate.stem().to_owned()),
                    path: parts[0].link.clone(),
                    bytes: parts.iter().map(|part| part.bytes).sum(),
                    used: parts.iter().filter_map(|part| part.used).max(),
                    files: candidate.files,
                });
            }
        }
        entries.sort_by(|a, b| a.quant.cmp(&b.quant));
        entries
    }

    /// Puts a blob into a snapshot under its path. Returns where.
    pub fn link(&self, commit: &str, path: &str, blob: &Path) -> Result<PathBuf, Error> {
        let link = self.snapshots().join(commit).join(path);
        if link.canonicalize().ok().zip(blob.canonicalize().ok()).is_some_and(|(a, b)| a == b) {
            return Ok(link);
        }
        make_parent(&link)?;
        let name = blob.file_name().unwrap_or_default();
        let up: PathBuf = std::iter::repeat_n("..", 2 + path.matches('/').count()).collect();
        let beside = beside(&link);
        point(&up.join("blobs").join(name), blob, &beside).map_err(Error::io("link", &link))?;
        fs::rename(&beside, &link).map_err(Error::io("link", &link))?;
        Ok(link)
    }
}

/// Notes that a model is used now, for the list. File systems that note it themselves do so only once a day.
pub fn touch(path: &Path) {
    let times = fs::FileTimes::new().set_accessed(SystemTime::now());
    // Whoever may not write to the cache has no times there.
    let _ = fs::File::options().append(true).open(path).and_then(|file| file.set_times(times));
}

#[cfg(unix)]
fn point(target: &Path, _blob: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn point(_target: &Path, blob: &Path, link: &Path) -> std::io::Result<()> {
    fs::hard_link(blob, link)
}

/// Makes the folder of a path.
pub fn make_parent(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))
}

/// A name in the same folder that nobody else takes, to be renamed from.
fn beside(path: &Path) -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    path.with_file_name(format!(".tmp-{}-{number}", std::process::id()))
}

/// Names in a folder; none if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let Ok(items) = fs::read_dir(folder) else { return vec![] };
    items.filter_map(|item| item.ok()?.file_name().into_string().ok()).collect()
}

/// Calls `each` with all files below a folder.
fn walk(folder: &Path, each: &mut impl FnMut(&Path)) {
    for name in names_in(folder) {
        let path = folder.join(name);
        let Ok(meta) = path.symlink_metadata() else { continue };
        match meta.is_dir() {
            true => walk(&path, each),
            false => each(&path),
        }
    }
}
