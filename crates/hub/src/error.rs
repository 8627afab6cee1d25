//! Why a model could not be had: each is one line that says what, where, and what to do.

use gguf::plain::{self, QUOTE, line, name};
use std::path::PathBuf;

/// Why a model could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name means nothing.
    #[error("there is no file and no model '{}'{}", name(text), suggestions(alike))]
    Unknown {
        /// As it was given.
        text: String,
        /// Names like it.
        alike: Vec<String>,
    },
    /// Several models in the cache have the name.
    #[error("'{}' is the name of several models in the cache: {}; name one of these", name(text), line(&models.join(", "), QUOTE))]
    Ambiguous {
        /// As it was given.
        text: String,
        /// Their full names.
        models: Vec<String>,
    },
    /// An address that cannot be that of a model.
    #[error(
        "'{}' is not the address of a model; give user/repo[:QUANT] or the address of a .gguf file",
        line(text, QUOTE)
    )]
    Address {
        /// As it was given.
        text: String,
    },
    /// It would have to be downloaded, and must not be.
    #[error(
        "{name} is not in the cache ({cache}), and --offline (or HF_HUB_OFFLINE) forbids a download; `kernloom pull {name}` without it gets it"
    )]
    Offline {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
    },
    /// It is not in the cache.
    #[error("{} is not in the cache ({cache}); {gets}`kernloom ls` shows what is there", plain::name(name))]
    NotHere {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
        /// What gets it, for whoever wants it.
        gets: &'static str,
    },
    /// The hub knows no such repository, or hides it.
    #[error("{host} has no repository {repo}, or it is private: check the name{}", match token {
        true => "; the token that is set may not read it",
        false => ", or set HF_TOKEN to a token that may read it",
    })]
    NoRepository {
        /// The hub.
        host: String,
        /// The repository.
        repo: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The repository wants its conditions accepted.
    #[error("{repo} is gated: accept its conditions on {page}, then {}", match token {
        true => "try again; the token that is set does not belong to an account that has done so",
        false => "set HF_TOKEN to a token of that account",
    })]
    Gated {
        /// The repository.
        repo: String,
        /// Its page.
        page: String,
        /// Whether a token was sent.
        token: bool,
    },
    /// The token is not valid.
    #[error("{host} refuses the token from {origin}; make another, or unset it")]
    Token {
        /// The hub.
        host: String,
        /// Where the token was found.
        origin: String,
    },
    /// The repository has no such branch.
    #[error("{repo} has no branch, tag or commit '{}'", name(revision))]
    NoRevision {
        /// The repository.
        repo: String,
        /// What was asked for.
        revision: String,
    },
    /// The repository has no such file.
    #[error("{repo} has no {}; it has: {}; name one as {repo}:QUANT", name(wanted), line(has, QUOTE))]
    NoFile {
        /// The repository.
        repo: String,
        /// What was asked for.
        wanted: String,
        /// What there is.
        has: String,
    },
    /// No model at all.
    #[error("{repo} has no GGUF files; look for a repository whose name ends in -GGUF")]
    NoModels {
        /// The repository.
        repo: String,
    },
    /// A row of the table that is wrong.
    #[error(
        "the table of short names was never checked here, and is wrong: {source}; name a repository yourself, as user/repo:QUANT"
    )]
    Table {
        /// How it shows.
        source: Box<Error>,
    },
    /// A split model of which a part is missing.
    #[error(
        "{place}: of {name} only {found} of {parts} parts are there; ask its publisher, or name another quantisation"
    )]
    Parts {
        /// The repository.
        place: String,
        /// The model.
        name: String,
        /// Parts there are.
        found: usize,
        /// Parts there should be.
        parts: usize,
    },
    /// The server could not be reached.
    #[error(
        "cannot reach {host}: {reason}; check the network (HTTPS_PROXY, HF_ENDPOINT), or use a model that `kernloom ls` shows"
    )]
    Unreachable {
        /// The server.
        host: String,
        /// What the network says.
        reason: String,
    },
    /// A transfer broke off too often.
    #[error(
        "the download of {file} from {host} broke off: {reason}; what is there is kept: the same command resumes it"
    )]
    BrokenOff {
        /// The file.
        file: String,
        /// The server.
        host: String,
        /// What happened last.
        reason: String,
    },
    /// Whoever waited for it has left.
    #[error("the download of {file} was stopped; what is there is kept: the same command resumes it")]
    Stopped {
        /// The file.
        file: String,
    },
    /// The server answered with a failure.
    #[error("{} answers {status}{}", line(url, QUOTE), advice(*status, &line(message, QUOTE)))]
    Status {
        /// Address, without what may be secret in it.
        url: String,
        /// Status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The server answered with something that makes no sense.
    #[error("{} answers with {what}; is it a hub? (HF_ENDPOINT sets another)", line(url, QUOTE))]
    Answer {
        /// Address.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// The bytes are not those that were promised.
    #[error(
        "{file}: the bytes that came are wrong (hash {found}, expected {expected}) and were thrown away; try again, and if it stays so, do not trust the server"
    )]
    Hash {
        /// The file.
        file: String,
        /// As it should be.
        expected: String,
        /// As it is.
        found: String,
    },
    /// The disk is too small.
    #[error("{} are needed and {} are free in {folder}; make room (`kernloom rm`), or set HF_HOME to a larger disk", bytes(*needed), bytes(*free))]
    Disk {
        /// Bytes to come.
        needed: u64,
        /// Bytes there are.
        free: u64,
        /// The cache.
        folder: PathBuf,
    },
    /// The file system says no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The environment does not say where the cache is.
    #[error("there is no home folder for the cache of models; set HF_HOME")]
    NoHome,
    /// A setting makes no sense.
    #[error("{name} is '{}', which is not {expected}", line(value, QUOTE))]
    Setting {
        /// The environment variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl Error {
    /// For failures of the file system.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}

fn suggestions(alike: &[String]) -> String {
    match alike {
        [] => "; give a .gguf file, user/repo[:QUANT], or a name that `kernloom ls --all` shows".into(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

fn advice(status: u16, message: &str) -> String {
    match status {
        _ if !message.is_empty() => format!(": {message}"),
        401 | 403 => {
            "; it wants a login, and the token is sent to the hub only: download the file by other means".into()
        }
        404 | 410 => "; check the address".into(),
        _ => "; try again later".into(),
    }
}

/// Bytes in decimal units, as disks and hubs count them.
pub fn bytes(n: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.iter().find(|(_, size)| n as f64 >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", n as f64 / size),
        None => format!("{n} B"),
    }
}
