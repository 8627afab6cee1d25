//! A hub on this machine, with a second server for the bytes of large files, which can be told to misbehave.

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Files above this size are kept apart, and known by their SHA-256.
const LARGE: usize = 1000;

/// The servers. They live as long as the process.
#[derive(Clone)]
pub struct LocalHub {
    /// The hub.
    pub endpoint: String,
    /// The server of large files, by another name.
    pub store: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    repos: BTreeMap<String, Repo>,
    seen: Vec<Seen>,
    faults: Faults,
}

#[derive(Default)]
struct Repo {
    commit: String,
    files: BTreeMap<String, Vec<u8>>,
    /// Without it, the repository is hidden.
    token: Option<String>,
    gated: bool,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `hub` or `store`.
    pub server: &'static str,
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub range: Option<String>,
}

/// How to misbehave.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Bodies of the store break off after so many bytes, so many times.
    pub cut: Option<(usize, usize)>,
    /// Bodies that are cut do not end, but fall silent for so long.
    pub silence: std::time::Duration,
    /// The listing says that files are as large as this.
    pub size: Option<u64>,
    /// Ranges are not known.
    pub no_ranges: bool,
    /// So many bodies of the store have a wrong byte.
    pub wrong: usize,
    /// So many requests are answered with this status.
    pub status: Option<(u16, usize)>,
    /// The listing says nothing of hashes and sizes.
    pub no_hashes: bool,
    /// Files of other servers have no tag.
    pub no_tags: bool,
}

impl LocalHub {
    /// Starts both servers.
    pub fn start() -> LocalHub {
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (front, store) = (bind(), bind());
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let hub = LocalHub {
            endpoint: format!("http://127.0.0.1:{}", port(&front)),
            store: format!("http://localhost:{}", port(&store)),
            state: Arc::default(),
        };
        for (listener, server) in [(front, "hub"), (store, "store")] {
            let hub = hub.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let hub = hub.clone();
                    // A client that goes away is no failure.
                    std::thread::spawn(move || hub.answer(stream, server).ok());
                }
            });
        }
        hub
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a file to a repository, which gets a new commit.
    pub fn add(&self, repo: &str, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let repo = state.repos.entry(repo.to_owned()).or_default();
        repo.files.insert(path.to_owned(), bytes.to_owned());
        let all: Vec<u8> =
            repo.files.iter().flat_map(|(path, bytes)| [path.as_bytes(), &sha256(bytes)].concat()).collect();
        repo.commit = hex(&Sha1::digest(all));
    }

    /// Hides a repository from whoever has no such token.
    pub fn hide(&self, repo: &str, token: &str) {
        self.state().repos.get_mut(repo).expect("a repository").token = Some(token.to_owned());
    }

    /// Gates a repository.
    pub fn gate(&self, repo: &str) {
        self.state().repos.get_mut(repo).expect("a repository").gated = true;
    }

    /// Misbehaves from now on.
    pub fn fault(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Requests so far, which are forgotten.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }

    /// The commit of a repository.
    pub fn commit(&self, repo: &str) -> String {
        self.state().repos[repo].commit.clone()
    }

    fn answer(&self, mut stream: TcpStream, server: &'static str) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let first = lines.next().unwrap_or(Ok(String::new()))?;
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let seen = Seen {
            server,
            method: method.to_owned(),
            path: target.to_owned(),
            authorization: headers.get("authorization").cloned(),
            range: headers.get("range").cloned(),
        };
        self.state().seen.push(seen.clone());
        let response = self.response(&seen, headers.get("if-range").map(String::as_str));
        self.send(&mut stream, &seen, response)
    }

    fn response(&self, seen: &Seen, if_range: Option<&str>) -> Response {
        let mut state = self.state();
        if let Some((status, times)) = &mut state.faults.status
            && *times > 0
        {
            *times -= 1;
            return Response::status(*status);
        }
        let path = seen.path.split('?').next().unwrap_or_default();
        let path = path.replace("%20", " ");
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (seen.server, &*parts) {
            ("hub", ["api", "models", user, name]) => state.listing(&format!("{user}/{name}"), "main", seen),
            ("hub", ["api", "models", user, name, "tree", revision]) => {
                state.tree(&format!("{user}/{name}"), revision, seen)
            }
            ("hub", ["api", "models", user, name, "revision", revision]) => {
                state.listing(&format!("{user}/{name}"), revision, seen)
            }
            ("hub", [user, name, "resolve", revision, path @ ..]) => {
                let store = &self.store;
                state.file(&format!("{user}/{name}"), revision, &path.join("/"), seen, store)
            }
            ("store", ["blobs", hash]) => state.blob(hash, seen, if_range),
            ("store", ["plain", name]) => state.plain(name, seen, if_range),
            _ => Response::status(404),
        }
    }

    fn send(&self, stream: &mut TcpStream, seen: &Seen, response: Response) -> std::io::Result<()> {
        let Response { status, mut headers, mut body, is_stored } = response;
        headers.push(("Content-Length".into(), body.len().to_string()));
        headers.push(("Connection".into(), "close".into()));
        let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        stream.write_all(format!("HTTP/1.1 {status} X\r\n{head}\r\n").as_bytes())?;
        if seen.method == "HEAD" {
            return Ok(());
        }
        let mut silence = std::time::Duration::ZERO;
        if is_stored {
            let mut state = self.state();
            if state.faults.wrong > 0 && !body.is_empty() {
                state.faults.wrong -= 1;
                let middle = body.len() / 2;
                body[middle] ^= 1;
            }
            if let Some((bytes, times)) = &mut state.faults.cut
                && *times > 0
            {
                *times -= 1;
                body.truncate(*bytes);
                silence = state.faults.silence;
            }
        }
        stream.write_all(&body)?;
        std::thread::sleep(silence);
        Ok(())
    }
}

struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether it is a body that faults apply to.
    is_stored: bool,
}

impl Response {
    fn status(status: u16) -> Response {
        Response { status, headers: vec![], body: b"no".to_vec(), is_stored: false }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn json(value: &Value) -> Response {
        let body = value.to_string().into_bytes();
        Response { status: 200, headers: vec![], body, is_stored: false }.with("Content-Type", "application/json")
    }
}

impl State {
    /// The repository, if whoever asks may see it.
    fn repo(&self, id: &str, revision: &str, seen: &Seen) -> Result<&Repo, Response> {
        let known = ["hf_good".to_owned(), "hf_other".to_owned()];
        let token = seen.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        if token.is_some_and(|token| !known.iter().any(|known| known == token)) {
            return Err(Response::status(401).with("X-Error-Message", "Invalid credentials in Authorization header"));
        }
        let hidden = || Response::status(if token.is_some() { 404 } else { 401 }).with("X-Error-Code", "RepoNotFound");
        let repo = self.repos.get(id).ok_or_else(hidden)?;
        if repo.token.is_some() && repo.token.as_deref() != token {
            return Err(hidden());
        }
        if repo.gated && token != Some("hf_good") {
            let status = if token.is_some() { 403 } else { 401 };
            return Err(Response::status(status).with("X-Error-Code", "GatedRepo"));
        }
        if revision != "main" && revision != repo.commit {
            return Err(Response::status(404).with("X-Error-Code", "RevisionNotFound"));
        }
        Ok(repo)
    }

    fn listing(&self, id: &str, revision: &str, seen: &Seen) -> Response {
        let repo = match self.repo(id, revision, seen) {
            Ok(repo) => repo,
            Err(response) => return response,
        };
        let blobs = seen.path.contains("blobs=true") && !self.faults.no_hashes;
        let file = |(path, bytes): (&String, &Vec<u8>)| {
            let mut file = json!({ "rfilename": path });
            if blobs {
                file["size"] = bytes.len().into();
                file["blobId"] = git(bytes).into();
                if bytes.len() > LARGE {
                    file["lfs"] = json!({ "sha256": hex(&sha256(bytes)), "size": bytes.len(), "pointerSize": 130 });
                    file["lfs"]["size"] = self.faults.size.unwrap_or(bytes.len() as u64).into();
                }
            }
            file
        };
        let siblings: Vec<Value> = repo.files.iter().map(file).collect();
        Response::json(&json!({ "_id": "1", "id": id, "modelId": id, "sha": repo.commit, "private": false,
            "gated": false, "disabled": false, "tags": [], "downloads": 0, "likes": 0, "siblings": siblings }))
    }

    /// The same as `huggingface_hub` asks for it.
    fn tree(&self, id: &str, revision: &str, seen: &Seen) -> Response {
        let repo = match self.repo(id, revision, seen) {
            Ok(repo) => repo,
            Err(response) => return response,
        };
        let file = |(path, bytes): (&String, &Vec<u8>)| {
            let mut file = json!({ "type": "file", "path": path, "size": bytes.len(), "oid": git(bytes) });
            if bytes.len() > LARGE {
                file["lfs"] = json!({ "oid": hex(&sha256(bytes)), "size": bytes.len(), "pointerSize": 130 });
            }
            file
        };
        Response::json(&repo.files.iter().map(file).collect())
    }

    fn file(&self, id: &str, revision: &str, path: &str, seen: &Seen, store: &str) -> Response {
        let repo = match self.repo(id, revision, seen) {
            Ok(repo) => repo,
            Err(response) => return response,
        };
        let Some(bytes) = repo.files.get(path) else {
            return Response::status(404).with("X-Error-Code", "EntryNotFound").with("X-Repo-Commit", &*repo.commit);
        };
        if bytes.len() <= LARGE {
            let whole = Response { status: 200, headers: vec![], body: bytes.clone(), is_stored: false };
            return whole.with("ETag", format!("\"{}\"", git(bytes))).with("X-Repo-Commit", &*repo.commit);
        }
        let hash = hex(&sha256(bytes));
        Response { status: 302, headers: vec![], body: vec![], is_stored: false }
            .with("Location", format!("{store}/blobs/{hash}?signature=secret"))
            .with("X-Linked-Etag", format!("\"{hash}\""))
            .with("X-Linked-Size", bytes.len().to_string())
            .with("X-Repo-Commit", &*repo.commit)
    }

    fn blob(&self, hash: &str, seen: &Seen, if_range: Option<&str>) -> Response {
        let all = self.repos.values().flat_map(|repo| repo.files.values());
        match all.into_iter().find(|bytes| hex(&sha256(bytes)) == hash) {
            Some(bytes) => self.bytes(bytes, seen, if_range),
            None => Response::status(404),
        }
    }

    /// A file as any server has it; those of the repository `plain/plain`.
    fn plain(&self, name: &str, seen: &Seen, if_range: Option<&str>) -> Response {
        match self.repos.get("plain/plain").and_then(|repo| repo.files.get(name)) {
            Some(bytes) => self.bytes(bytes, seen, if_range),
            None => Response::status(404),
        }
    }

    /// All bytes, or those of the range.
    fn bytes(&self, bytes: &[u8], seen: &Seen, if_range: Option<&str>) -> Response {
        let tag = format!("\"{}\"", &hex(&sha256(bytes))[..16]);
        let current = if_range.is_none_or(|wanted| wanted == tag);
        let start = seen
            .range
            .as_deref()
            .filter(|_| !self.faults.no_ranges && current)
            .and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse::<usize>().ok());
        let mut response = Response { status: 200, headers: vec![], body: bytes.to_vec(), is_stored: true };
        match start {
            Some(start) if start >= bytes.len() => response = Response::status(416),
            Some(start) => {
                response.status = 206;
                response.body.drain(..start);
                let range = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
                response = response.with("Content-Range", range);
            }
            None => {}
        }
        match self.faults.no_tags {
            true => response,
            false => response.with("ETag", tag).with("Accept-Ranges", "bytes"),
        }
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// The hash that git has for a file.
pub fn git(bytes: &[u8]) -> String {
    hex(&Sha1::new().chain_update(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

/// In hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
