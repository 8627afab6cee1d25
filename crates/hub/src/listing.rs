//! What a repository of the hub holds.

use crate::client::{Client, Reply};
use crate::error::Error;
use crate::name::is_safe_path;
use crate::watch::Watch;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// What need not be escaped in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A commit of a repository.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The commit.
    pub commit: String,
    /// Its files.
    pub files: Vec<Remote>,
}

/// A file in it.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Path.
    pub path: String,
    /// Size, if the hub says.
    pub bytes: Option<u64>,
    /// What the bytes are known by, if the hub says.
    pub hash: Option<Hash>,
}

/// What bytes are known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256 of the bytes, for large files.
    Sha256(String),
    /// SHA-1 as git computes it, for small ones.
    Git(String),
}

impl Hash {
    /// Reads a tag; `None` if it is neither.
    pub fn of_tag(tag: &str) -> Option<Hash> {
        let is_hex = tag.bytes().all(|b| b.is_ascii_hexdigit());
        match tag.len() {
            64 if is_hex => Some(Hash::Sha256(tag.to_ascii_lowercase())),
            40 if is_hex => Some(Hash::Git(tag.to_ascii_lowercase())),
            _ => None,
        }
    }

    /// In hexadecimal.
    pub fn text(&self) -> &str {
        let (Hash::Sha256(text) | Hash::Git(text)) = self;
        text
    }
}

/// Asks the hub what is in a repository.
pub fn list(client: &Client, repo: &str, revision: &str, watch: &dyn Watch) -> Result<Listing, Error> {
    let url = format!("{}/api/models/{repo}/revision/{}?blobs=true", client.endpoint(), escaped(revision, false));
    let reply = client.patiently(&url, watch)?;
    if reply.status != 200 {
        return Err(refusal(client, reply, Some(repo), revision));
    }
    let shown = reply.url.clone();
    let broken = |what: String| Error::Answer { url: shown.clone(), what };
    let text = reply.text().map_err(|error| broken(format!("a listing that breaks off ({error})")))?;
    let value: Value = serde_json::from_str(&text).map_err(|_| broken("something that is no listing".into()))?;
    let commit = value["sha"].as_str().unwrap_or_default().to_owned();
    let sensible = !commit.is_empty() && commit.len() <= 64 && commit.bytes().all(|b| b.is_ascii_alphanumeric());
    if !sensible {
        return Err(broken("a listing without a commit".into()));
    }
    let files = value["siblings"].as_array().into_iter().flatten().filter_map(remote).collect();
    Ok(Listing { commit, files })
}

/// Where the bytes of a file are.
pub fn address(client: &Client, repo: &str, commit: &str, path: &str) -> String {
    format!("{}/{repo}/resolve/{commit}/{}", client.endpoint(), escaped(path, true))
}

fn remote(value: &Value) -> Option<Remote> {
    let path = value["rfilename"].as_str().filter(|path| is_safe_path(path))?.to_owned();
    let lfs = &value["lfs"];
    let sha256 = lfs["sha256"].as_str().or(lfs["oid"].as_str());
    let hash = sha256.or(value["blobId"].as_str().filter(|_| !lfs.is_object())).and_then(Hash::of_tag);
    Some(Remote { path, bytes: lfs["size"].as_u64().or(value["size"].as_u64()), hash })
}

/// What a status other than success means for a repository, or for a file of another server.
pub fn refusal(client: &Client, reply: Reply, repo: Option<&str>, revision: &str) -> Error {
    let Some(repo) = repo else {
        return Error::Status { url: reply.url, status: reply.status, message: String::new() };
    };
    let code = reply.header("x-error-code").unwrap_or_default();
    let token = client.token();
    let host = client.host();
    let none = || Error::NoRepository { host: host.clone(), repo: repo.to_owned(), token: token.is_some() };
    match (reply.status, &*code) {
        (_, "GatedRepo") | (403, _) => Error::Gated {
            repo: repo.to_owned(),
            page: format!("{}/{repo}", client.endpoint()),
            token: token.is_some(),
        },
        (_, "RevisionNotFound") => Error::NoRevision { repo: repo.to_owned(), revision: revision.to_owned() },
        (404, "EntryNotFound") => {
            Error::NoFile { repo: repo.to_owned(), wanted: "such file".into(), has: "other files".into() }
        }
        // The hub hides from strangers whether a repository exists.
        (401, "RepoNotFound") | (404, _) => none(),
        (401, _) => match token {
            None => none(),
            Some(token) => Error::Token { host, origin: token.origin().to_owned() },
        },
        (status, _) => {
            let url = reply.url.clone();
            let message = reply.header("x-error-message").unwrap_or_default();
            Error::Status { url, status, message }
        }
    }
}

/// A text as part of an address.
fn escaped(text: &str, is_path: bool) -> String {
    let escape = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
    match is_path {
        true => text.split('/').map(escape).collect::<Vec<_>>().join("/"),
        false => escape(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_of_a_listing() {
        let sha = "ab".repeat(32);
        let large = json!({ "rfilename": "m.gguf", "size": 1, "blobId": "cd".repeat(20),
                            "lfs": { "sha256": sha, "size": 9, "pointerSize": 130 } });
        let large = remote(&large).expect("a file");
        assert_eq!((large.bytes, large.hash), (Some(9), Some(Hash::Sha256(sha))));
        let small = json!({ "rfilename": "a/README.md", "size": 5, "blobId": "CD".repeat(20) });
        assert_eq!(remote(&small).expect("a file").hash, Some(Hash::Git("cd".repeat(20))));
        assert_eq!(remote(&json!({ "rfilename": "m.gguf" })).expect("a file").hash, None);
        for path in ["../m.gguf", "/m.gguf", "a//m.gguf", "a\\m.gguf", "a/./m.gguf", "c:m.gguf", "m\n.gguf", ""] {
            assert!(remote(&json!({ "rfilename": path })).is_none(), "{path}");
        }
        assert_eq!(escaped("a b/c#d.gguf", true), "a%20b/c%23d.gguf");
        assert_eq!(escaped("refs/pr/1", false), "refs%2Fpr%2F1");
    }
}
