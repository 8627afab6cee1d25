//! The models of a server: the one that was named, GGUF files of a folder, and those of the cache.
//!
//! All of them run on one device, whose threads they share.

use super::{Arguments, load};
use crate::arguments::FetchFlags;
use crate::library::{self, LATEST};
use crate::{failure, models, open, terminal};
use anyhow::bail;
use devices::Machine;
use gguf::plain;
use hub::table;
use hub::{Entry, Hub, Silent};
use model::memory_plan::{ModelMemory, Room, TooLarge};
use server::error::ApiError;
use server::library::Kept;
use server::{Loader, Model};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The ending of a model's file.
const GGUF: &str = ".gguf";

/// What stands before it in the name of the first part of a split model.
const FIRST_PART: &str = "-00001-of-";

/// The models of a server.
pub(super) struct Stock {
    args: Arguments,
    /// The model that was named, or the only one there is.
    usual: Option<Item>,
    /// What all models run on, once there is one.
    machine: Mutex<Option<Machine>>,
}

/// A model by its file.
#[derive(Clone)]
struct Item {
    /// The first is what it is loaded by.
    names: Vec<String>,
    path: PathBuf,
    bytes: u64,
    quantization: String,
}

impl Stock {
    /// The models that these flags name.
    ///
    /// # Errors
    /// A named model that is none, and a folder that is none.
    pub(super) fn new(args: Arguments) -> anyhow::Result<Stock> {
        if let Some(folder) = args.models.as_ref().filter(|folder| !folder.is_dir()) {
            bail!("--models: there is no folder {}", folder.display());
        }
        let usual = match args.model.given() {
            None if args.is_of_several() => None,
            _ => {
                let path = models::resolve(args.model.name(), &args.model.fetch)?;
                let file = open::file(&path)?;
                open::config(&file, &path)?;
                let names = args.names(&path).iter().map(|name| plain::name(name).into_owned()).collect();
                Some(Item { names, path, bytes: file.bytes(), quantization: open::main_type(&file).to_owned() })
            }
        };
        Ok(Stock { args, usual, machine: Mutex::default() })
    }

    /// Whether downloads are allowed.
    pub(super) fn fetch(&self) -> &FetchFlags {
        &self.args.model.fetch
    }

    /// The file of the model that was named.
    pub(super) fn served(&self) -> Option<PathBuf> {
        self.usual.as_ref().map(|item| item.path.clone())
    }

    /// The cache, which is only looked at.
    fn hub(&self) -> Option<Hub> {
        Some(Hub::new(models::settings(self.fetch()).ok()?, Box::new(Silent)))
    }

    /// All of them, a file once.
    fn all(&self) -> Vec<Item> {
        let mut all: Vec<Item> = self.usual.iter().cloned().collect();
        if self.args.is_of_several() {
            all.extend(self.args.models.iter().flat_map(|folder| in_folder(folder)));
            all.extend(self.hub().iter().flat_map(Hub::entries).map(in_cache));
        }
        let mut seen = (HashSet::new(), HashSet::new());
        all.retain(|item| {
            let file = item.path.canonicalize().unwrap_or_else(|_| item.path.clone());
            seen.0.insert(file) && seen.1.insert(item.names[0].clone())
        });
        all
    }

    fn item(&self, name: &str) -> Result<Item, ApiError> {
        let found = self.all().into_iter().find(|item| item.names[0] == name);
        found.ok_or_else(|| ApiError::not_found(format!("the file of model '{}' is gone", plain::name(name))))
    }

    /// An error of a model for its clients.
    fn refused(&self, name: &str, error: &anyhow::Error) -> ApiError {
        let mut message = failure::message(error);
        if self.args.is_of_several() {
            message = format!("model '{}' cannot be loaded: {message}", plain::name(name));
        }
        let is_too_large = error.chain().any(|cause| cause.is::<TooLarge>());
        if is_too_large { ApiError::no_room(message) } else { ApiError::server(message) }
    }

    /// What models run on, which is opened for the first.
    fn machine(&self, plan: &ModelMemory) -> anyhow::Result<Machine> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = &*machine {
            return Ok(machine.clone());
        }
        Ok(machine.insert(open::shared_machine(&self.args.engine, plan)?).clone())
    }
}

impl Loader for Stock {
    fn list(&self) -> Vec<Kept> {
        let mut kept: Vec<Kept> = self.all().into_iter().map(kept).collect();
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        kept
    }

    fn usual(&self) -> Option<String> {
        self.usual.as_ref().map(|item| item.names[0].clone())
    }

    fn takes_any_name(&self) -> bool {
        !self.args.is_of_several()
    }

    fn find(&self, name: &str) -> Option<String> {
        let all = self.all();
        let name = name.strip_suffix(LATEST).unwrap_or(name);
        let is = |item: &&Item| item.names.iter().any(|other| other == name);
        if let Some(item) = all.iter().find(is) {
            return Some(item.names[0].clone());
        }
        // A model of the cache has more names than one, of which it has the exact ones here: a quantisation may be left out
        // where there is one, and a short name is that of a repository.
        let hub = self.hub()?;
        let path = match &*hub.cache().named(name) {
            [entry] => entry.path.clone(),
            _ => table::find(name).and_then(|_| hub.locate(name).ok().flatten())?,
        };
        let file = path.canonicalize().ok()?;
        let item = all.iter().find(|item| item.path.canonicalize().is_ok_and(|other| other == file))?;
        Some(item.names[0].clone())
    }

    fn plan(&self, name: &str) -> Result<ModelMemory, ApiError> {
        let item = self.item(name)?;
        let plan = || {
            let least = load::plan(&self.args, &item.path, Room::default())?;
            let device = self.machine(&least)?.device();
            Ok(load::plan(&self.args, &item.path, Room::of(&*device))?.on(&*device))
        };
        plan().map_err(|error| self.refused(name, &error))
    }

    fn load(&self, name: &str) -> Result<Model, ApiError> {
        let Item { names, path, .. } = self.item(name)?;
        let load = || {
            let machine = self.machine(&load::plan(&self.args, &path, Room::default())?)?;
            load::model(&self.args, &path, names, machine)
        };
        load().map_err(|error| self.refused(name, &error))
    }

    fn failed(&self, error: &ApiError) {
        terminal::line(&error.message);
    }

    fn ready(&self, model: &Model) {
        let limits = model.worker.limits();
        terminal::line(&format!(
            "ready: {} with {} places of {} positions, {} in all",
            model.name(),
            limits.segments,
            limits.context,
            limits.pages * model::cache::PAGE as usize
        ));
    }

    fn gone(&self, name: &str) {
        terminal::line(&format!("unloaded: {name}"));
    }
}

/// The models of a folder: its GGUF files, and of split ones the first part.
fn in_folder(folder: &Path) -> Vec<Item> {
    let mut items = vec![];
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        // Links are followed; what is no file in the end is nothing to be opened.
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(stem) = file.strip_suffix(GGUF) else { continue };
        let Some(meta) = path.metadata().ok().filter(|meta| meta.is_file()) else { continue };
        let is_other_part = stem.rsplit_once("-of-").is_some_and(|(rest, count)| {
            let number = rest.rsplit_once('-').map_or("", |(_, number)| number);
            [number, count].iter().all(|n| n.len() == 5 && n.bytes().all(|b| b.is_ascii_digit())) && number != "00001"
        });
        if is_other_part {
            continue;
        }
        let name = stem.rsplit_once(FIRST_PART).map_or(stem, |(name, _)| name);
        let names = vec![plain::name(name).into_owned(), plain::name(file).into_owned()];
        items.push(Item { names, bytes: meta.len(), quantization: String::new(), path });
    }
    items.sort_by(|a, b| a.names.cmp(&b.names));
    items
}

fn in_cache(entry: Entry) -> Item {
    Item { names: vec![entry.name()], path: entry.path, bytes: entry.bytes, quantization: entry.quant }
}

fn kept(item: Item) -> Kept {
    Kept {
        digest: library::digest(&item.path),
        modified: item.path.metadata().and_then(|meta| meta.modified()).ok(),
        name: item.names.into_iter().next().unwrap_or_default(),
        bytes: item.bytes,
        quantization: item.quantization,
    }
}
