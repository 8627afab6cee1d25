//! From a name to a file: what is in the cache is taken from there, the rest is downloaded.

use crate::cache::{self, Cache, Entry, Linked, Partial, Repo};
use crate::client::{Client, unquoted};
use crate::download::{self, Item, download};
use crate::error::Error;
use crate::listing::{self, Hash, Listing, Remote};
use crate::name::{self, Source, Wanted};
use crate::quant::{self, Candidate};
use crate::settings::Settings;
use crate::table;
use crate::watch::{Event, Watch};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Models by name.
pub struct Hub {
    settings: Settings,
    cache: Cache,
    watch: Box<dyn Watch>,
}

/// A model that is here now.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// Its file; of a split model, the first.
    pub path: PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Files that were downloaded for it just now.
    pub downloaded: usize,
}

/// What to bring in: items with their paths, and the snapshot that they belong to.
struct PullPlan {
    from: String,
    repo: Repo,
    revision: String,
    commit: String,
    items: Vec<(String, Item)>,
    unchecked: bool,
}

impl Hub {
    /// Models as these settings say; `watch` hears of downloads.
    pub fn new(settings: Settings, watch: Box<dyn Watch>) -> Hub {
        let cache = Cache::new(settings.cache.clone());
        Hub { settings, cache, watch }
    }

    /// What the settings are.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The models in the cache.
    pub fn entries(&self) -> Vec<Entry> {
        self.cache.entries()
    }

    /// Downloads that are not finished.
    pub fn partials(&self) -> Vec<Partial> {
        self.cache.partials()
    }

    /// The file of a model: that in the cache, or else the one that is downloaded now. Does not look whether the cache
    /// has the newest version.
    pub fn resolve(&self, text: &str) -> Result<PathBuf, Error> {
        match self.locate(text)? {
            Some(path) => Ok(path),
            None if self.settings.offline => {
                Err(Error::Offline { name: text.to_owned(), cache: self.cache.root().to_owned() })
            }
            None => Ok(self.pull(text)?.path),
        }
    }

    /// The file of a model in the cache, without the network; `None` if it would have to be downloaded.
    pub fn locate(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        let source = name::parse(text, &self.settings.endpoint)?;
        let found = source.as_ref().and_then(|source| self.cache.find(source));
        if let Some(Linked { link, blob, .. }) = found {
            cache::touch(&blob);
            return Ok(Some(link));
        }
        match (source, &*self.cache.named(text)) {
            (Some(_), []) => Ok(None),
            (None, []) => Err(self.unknown(text)),
            (_, [entry]) => {
                cache::touch(&entry.path);
                Ok(Some(entry.path.clone()))
            }
            // A repository of which several quantisations are here: the hub says which is the usual one.
            (Some(_), _) => Ok(None),
            (None, several) => {
                Err(Error::Ambiguous { text: text.to_owned(), models: several.iter().map(Entry::name).collect() })
            }
        }
    }

    /// Brings the newest version of a model into the cache. Offline, the version that is there is the newest.
    pub fn pull(&self, text: &str) -> Result<Pulled, Error> {
        let source = match name::parse(text, &self.settings.endpoint)? {
            Some(source) => source,
            None => self.source_of_cached(text)?,
        };
        if self.settings.offline {
            let path = self.resolve(text)?;
            let bytes = path.metadata().map_err(Error::io("read", &path))?.len();
            return Ok(Pulled { path, bytes, downloaded: 0 });
        }
        let client = Client::new(&self.settings)?;
        let plan = match &source {
            Source::Repo { repo, revision, wanted } => {
                self.plan_of_repo(&client, repo, revision, wanted).map_err(|error| of_table(error, wanted))?
            }
            Source::Url(url) => self.plan_of_url(&client, url)?,
        };
        self.carry_out(&client, &plan)
    }

    /// The error for a name that means nothing.
    fn unknown(&self, text: &str) -> Error {
        let cached = self.entries().into_iter().map(|entry| entry.name());
        Error::Unknown { text: text.to_owned(), alike: table::alike(text, cached) }
    }

    /// Where a model came from that is named as it is in the cache.
    fn source_of_cached(&self, text: &str) -> Result<Source, Error> {
        match &*self.cache.named(text) {
            [] => Err(self.unknown(text)),
            [entry] => {
                let wanted = Wanted::File(entry.files[0].clone());
                Ok(Source::Repo { repo: entry.repo.clone(), revision: "main".into(), wanted })
            }
            several => {
                Err(Error::Ambiguous { text: text.to_owned(), models: several.iter().map(Entry::name).collect() })
            }
        }
    }

    fn plan_of_repo(&self, client: &Client, repo: &str, revision: &str, wanted: &Wanted) -> Result<PullPlan, Error> {
        let watch = &*self.watch;
        let Listing { commit, files } = listing::list(client, repo, revision, watch)?;
        let candidates = quant::candidates(files.iter().map(|file| file.path.as_str()));
        let chosen = self.choose(repo, &candidates, wanted)?;
        let mut items = vec![];
        for path in &chosen.files {
            let Some(remote) = files.iter().find(|file| file.path == *path) else { continue };
            items.push((path.clone(), self.item(client, repo, &commit, remote)?));
        }
        let unchecked = matches!(wanted, Wanted::Listed { checked: false, .. });
        Ok(PullPlan {
            from: repo.to_owned(),
            repo: self.cache.repo(repo),
            revision: revision.to_owned(),
            commit,
            items,
            unchecked,
        })
    }

    /// The files that are wanted among those of a repository.
    fn choose<'a>(&self, repo: &str, candidates: &'a [Candidate], wanted: &Wanted) -> Result<&'a Candidate, Error> {
        if candidates.is_empty() {
            return Err(Error::NoModels { repo: repo.to_owned() });
        }
        let chosen = cache::chosen(candidates, wanted).ok_or_else(|| Error::NoFile {
            repo: repo.to_owned(),
            wanted: match wanted {
                Wanted::File(file) => format!("file {file}"),
                other => format!("file of quantisation {}", other.quant().unwrap_or_default()),
            },
            has: quant::names(candidates),
        })?;
        if !chosen.is_complete() {
            return Err(Error::Parts {
                place: repo.to_owned(),
                name: chosen.stem().to_owned(),
                found: chosen.files.len(),
                parts: chosen.parts,
            });
        }
        Ok(chosen)
    }

    /// A file of a repository. Where the listing does not know its hash, the answer to a request for it does.
    fn item(&self, client: &Client, repo: &str, commit: &str, remote: &Remote) -> Result<Item, Error> {
        let url = listing::address(client, repo, commit, &remote.path);
        let (mut hash, mut bytes, mut tag) = (remote.hash.clone(), remote.bytes, None);
        if hash.is_none() || bytes.is_none() {
            let reply = client.patiently(&url, &*self.watch)?;
            if reply.status != 200 {
                return Err(listing::refusal(client, reply, Some(repo), commit));
            }
            let promised = reply.linked.etag.clone().or(reply.header("etag").map(unquoted));
            hash = hash.or(promised.as_deref().and_then(Hash::of_tag));
            bytes = bytes.or(reply.total());
            tag = strong(reply.header("etag"));
        }
        let blob = hash.as_ref().map_or_else(|| blob_name(&url, tag.as_deref()), |hash| hash.text().to_owned());
        let name = remote.path.clone();
        Ok(Item { url, repo: Some(repo.to_owned()), name, blob, bytes, hash, tag })
    }

    fn plan_of_url(&self, client: &Client, url: &str) -> Result<PullPlan, Error> {
        let reply = client.patiently(url, &*self.watch)?;
        if reply.status != 200 {
            return Err(listing::refusal(client, reply, None, ""));
        }
        let hash = reply.linked.etag.as_deref().and_then(Hash::of_tag);
        let tag = strong(reply.header("etag"));
        let path = url.split(['?', '#']).next().unwrap_or(url).rsplit('/').next().unwrap_or_default();
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        if !name::is_safe_path(&path) || path.contains('/') {
            return Err(Error::Address { text: url.to_owned() });
        }
        let blob = hash.as_ref().map_or_else(|| blob_name(url, tag.as_deref()), |hash| hash.text().to_owned());
        let commit = cache::hex(&Sha256::digest(blob.as_bytes()))[..40].to_owned();
        let bytes = reply.total();
        let item = Item { url: url.to_owned(), repo: None, name: path.clone(), blob, bytes, hash, tag };
        Ok(PullPlan {
            from: crate::client::host(url),
            repo: self.cache.repo(&cache::repo_of_url(url)),
            revision: "main".into(),
            commit,
            items: vec![(path, item)],
            unchecked: false,
        })
    }

    fn carry_out(&self, client: &Client, plan: &PullPlan) -> Result<Pulled, Error> {
        let missing: Vec<&Item> = plan
            .items
            .iter()
            .map(|(_, item)| item)
            .filter(|item| !download::is_there(&plan.repo.blob(&item.blob), item))
            .collect();
        if !missing.is_empty() {
            let bytes = missing.iter().filter_map(|item| item.bytes).sum();
            let partial = |item: &&Item| plan.repo.incomplete(&item.blob).metadata().ok().map(|meta| meta.len());
            let have = missing.iter().filter_map(partial).sum();
            let files: Vec<String> = missing.iter().map(|item| item.name.clone()).collect();
            let unchecked = plan.unchecked;
            self.watch.hear(&Event::Plan { from: &plan.from, files: &files, bytes, have, unchecked });
            let needed = bytes.saturating_sub(have);
            match download::free(self.cache.root()) {
                Some(free) if free < needed => {
                    return Err(Error::Disk { needed, free, folder: self.cache.root().to_owned() });
                }
                _ => {}
            }
        }
        let mut paths = vec![];
        let mut bytes = 0;
        for (path, item) in &plan.items {
            let blob = download(client, &plan.repo, item, &*self.watch)?;
            bytes += blob.metadata().map_err(Error::io("read", &blob))?.len();
            paths.push(plan.repo.link(&plan.commit, path, &blob)?);
        }
        plan.repo.set_reference(&plan.revision, &plan.commit)?;
        let path = paths.into_iter().next().ok_or_else(|| Error::NoModels { repo: plan.from.clone() })?;
        cache::touch(&path);
        Ok(Pulled { path, bytes, downloaded: missing.len() })
    }
}

/// Says where the name of a repository came from, if that is what is wrong.
fn of_table(error: Error, wanted: &Wanted) -> Error {
    match (&error, wanted) {
        (
            Error::NoRepository { .. } | Error::NoFile { .. } | Error::NoModels { .. },
            Wanted::Listed { checked: false, .. },
        ) => Error::Table { source: Box::new(error) },
        _ => error,
    }
}

/// A tag that promises the same bytes.
fn strong(tag: Option<String>) -> Option<String> {
    tag.filter(|tag| !tag.starts_with("W/") && tag.len() > 2)
}

/// The name of a blob whose hash nobody promises.
fn blob_name(url: &str, tag: Option<&str>) -> String {
    cache::hex(&Sha256::digest(format!("{url}\n{}", tag.unwrap_or_default())))
}
