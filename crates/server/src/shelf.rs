//! Which models are loaded: one that is always there, or several that come when somebody asks for them and go when nobody
//! does.
//!
//! A request [takes](Shelf::take) a model by name and has it as long as the [`Lease`] lives: a model in use stays. One that is
//! not loaded waits until it is. Loads wait for each other in the order in which they were asked for; the first of them
//! makes room, if there are as many models as may be or their plans leave too little memory: the model that was used longest
//! ago goes, and if all are in use, it takes no more requests until it has done those that it has. Whoever is refused so
//! waits like everybody else for a model that is not loaded. A load fails for those who wait for it, and for nobody else.

mod slots;

use crate::budget::WAITING;
use crate::error::ApiError;
use crate::library::Kept;
use crate::loader::Loader;
use crate::served::Model;
use gguf::plain;
use model::memory_plan::ModelMemory;
use model::scheduler::Stats;
use slots::{End, Next, Slots};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::Instant;

/// Names that an error lists.
const LISTED: usize = 20;

/// How long a model stays when nobody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until there is need for its place.
    Long,
    /// So long after the last request.
    For(Duration),
}

/// What may be loaded at a time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Models.
    pub models: usize,
    /// How long they stay when no request says.
    pub stay: Stay,
}

/// What is known of a model that may be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is loaded when somebody asks for it.
    Unloaded,
    /// It will take requests.
    Loading,
    /// It takes requests.
    Loaded,
}

impl Status {
    /// In llama-server's words.
    pub fn word(self) -> &'static str {
        match self {
            Status::Unloaded => "unloaded",
            Status::Loading => "loading",
            Status::Loaded => "loaded",
        }
    }
}

/// A model that is loaded.
#[derive(Clone)]
pub struct Loaded {
    /// It.
    pub model: Arc<Model>,
    /// When it goes, if nobody asks for it until then.
    pub until: Option<SystemTime>,
}

/// The models of a server.
pub struct Shelf {
    loader: Option<Arc<dyn Loader>>,
    bounds: Bounds,
    slots: Mutex<Slots>,
    /// Something is other than it was.
    changed: watch::Sender<()>,
}

impl Shelf {
    /// A shelf that is filled by this loader; without one, by [`Shelf::put`].
    pub fn new(loader: Option<Arc<dyn Loader>>, bounds: Bounds) -> Arc<Shelf> {
        let slots = Mutex::new(Slots::new(bounds));
        Arc::new(Shelf { loader, bounds, slots, changed: watch::Sender::new(()) })
    }

    /// What loads models, if they come and go.
    pub fn loader(&self) -> Option<&Arc<dyn Loader>> {
        self.loader.as_ref()
    }

    /// Whether requests choose among several models.
    pub fn is_of_several(&self) -> bool {
        self.loader.as_ref().is_some_and(|loader| !loader.takes_any_name())
    }

    /// Whether a model goes when a request says so.
    pub fn lets_go(&self) -> bool {
        self.is_of_several() || self.loader.is_some() && self.bounds.stay != Stay::Long
    }

    /// Puts a model there that stays, and takes requests from now on.
    pub fn put(&self, model: Model) {
        let name = model.name().to_owned();
        self.change(|slots| {
            slots.put(&name, Arc::new(model));
            slots.is_open = true;
        });
    }

    /// Loads the model that requests without a name get, if there is one, and takes requests from then on.
    ///
    /// # Errors
    /// A model that cannot be loaded.
    pub async fn open(self: &Arc<Shelf>) -> Result<(), ApiError> {
        if let Some(name) = self.loader.as_ref().and_then(|loader| loader.usual()) {
            drop(self.wait(&name).await?);
        }
        self.change(|slots| slots.is_open = true);
        let loader = self.loader.iter();
        loader.for_each(|loader| self.loaded().iter().for_each(|loaded| loader.ready(&loaded.model)));
        Ok(())
    }

    /// Whether requests are taken.
    pub fn is_open(&self) -> bool {
        self.lock().is_open
    }

    /// Lets nobody wait any more.
    pub fn close(&self) {
        self.change(|slots| slots.is_closed = true);
    }

    /// A model for a request that calls it so, which waits until it is loaded.
    ///
    /// # Errors
    /// A name that is none, a model that cannot be loaded, or too many who wait.
    pub async fn take(self: &Arc<Shelf>, name: Option<&str>) -> Result<Lease, ApiError> {
        let name = self.named(name).await?;
        self.wait(&name).await
    }

    /// The name of the model that a request means.
    ///
    /// # Errors
    /// A name that is none.
    pub async fn named(&self, name: Option<&str>) -> Result<String, ApiError> {
        let name = name.map(str::to_owned).filter(|name| !name.is_empty());
        let Some(loader) = self.loader.clone() else {
            return self.lock().only().ok_or_else(|| ApiError::unavailable("Loading model"));
        };
        if let Some(known) = name.as_ref().and_then(|name| self.lock().is_called(name)) {
            return Ok(known);
        }
        let find = move || match &name {
            _ if loader.takes_any_name() => Ok(loader.usual().unwrap_or_default()),
            None => loader.usual().or_else(|| Some(loader.list().into_iter().next()?.name)).ok_or_else(no_models),
            Some(name) => loader.find(name).ok_or_else(|| unknown(name, &loader.list())),
        };
        blocking(find).await?
    }

    async fn wait(self: &Arc<Shelf>, name: &str) -> Result<Lease, ApiError> {
        let mut changed = self.changed.subscribe();
        let mut turn: Option<Turn> = None;
        loop {
            changed.borrow_and_update();
            // In a step of its own, as the lock is not held while anything is waited for.
            let next = self.lock().next(name, turn.as_ref().map(|turn| turn.number), self.loader.is_some());
            match next {
                Next::Closed => return Err(ApiError::unavailable("the server is shutting down")),
                Next::Stopped => {
                    return Err(ApiError::unavailable("the engine has stopped; restart the server"));
                }
                Next::Take(number, model) => return Ok(Lease { model, hold: self.hold(number) }),
                Next::Join(number, end) => {
                    drop(turn.take());
                    if let Some(lease) = self.join(number, end).await? {
                        return Ok(lease);
                    }
                }
                Next::Load(number, end) => {
                    let ended = end.subscribe();
                    drop(turn.take());
                    self.load(name, number, end);
                    if let Some(lease) = self.join(number, ended).await? {
                        return Ok(lease);
                    }
                }
                Next::Ask => turn = Some(self.ask(name).await?),
                Next::Unload(number, model) => self.unload(number, model),
                Next::Wait => {
                    let _ = changed.changed().await;
                }
            }
        }
    }

    /// Waits for a model that is being loaded; nothing if it needs more room than its plan said, and has gone again.
    async fn join(self: &Arc<Shelf>, number: u64, mut end: watch::Receiver<End>) -> Result<Option<Lease>, ApiError> {
        let hold = self.hold(number);
        let ended = end.wait_for(Option::is_some).await.map(|end| end.clone());
        ended.ok().flatten().unwrap_or_else(|| Err(ApiError::server("the model was given up (internal error)")))?;
        let model = self.lock().of(number);
        Ok(model.map(|model| Lease { model, hold }))
    }

    /// Gets in line with a model that is to be loaded.
    async fn ask(self: &Arc<Shelf>, name: &str) -> Result<Turn, ApiError> {
        let Some(loader) = self.loader.clone() else { return Err(ApiError::unavailable("Loading model")) };
        let of = name.to_owned();
        let plan = blocking(move || loader.plan(&of)).await?.inspect_err(|error| self.tell(error))?;
        let mut slots = self.lock();
        if slots.waiting() >= WAITING {
            return Err(ApiError::busy(format!("{WAITING} requests wait for models to be loaded, as many as may")));
        }
        let number = slots.ask(name, total(&plan), plan.available);
        Ok(Turn { shelf: self.clone(), number })
    }

    /// Loads a model for those who wait.
    fn load(self: &Arc<Shelf>, name: &str, number: u64, end: watch::Sender<End>) {
        let Some(loader) = self.loader.clone() else { return };
        let (shelf, name) = (self.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || {
            let loaded = catch_unwind(AssertUnwindSafe(|| loader.load(&name)));
            let loaded =
                loaded.unwrap_or_else(|_| Err(ApiError::server("the model could not be loaded (internal error)")));
            let result = match loaded {
                Ok(model) => {
                    let bytes = model.facts.memory.as_ref().map(total);
                    let model = Arc::new(model);
                    let fits = shelf.change(|slots| slots.loaded(number, &model, bytes));
                    if fits {
                        let tell = shelf.is_open();
                        tell.then(|| loader.ready(&model));
                    } else {
                        model.worker.close();
                        shelf.change(|slots| slots.remove(number));
                    }
                    Ok(())
                }
                Err(error) => {
                    shelf.change(|slots| slots.remove(number));
                    shelf.tell(&error);
                    Err(error)
                }
            };
            end.send_replace(Some(result));
        });
    }

    /// Unloads a model that takes no more requests.
    fn unload(self: &Arc<Shelf>, number: u64, model: Arc<Model>) {
        let shelf = self.clone();
        tokio::task::spawn_blocking(move || {
            model.worker.close();
            let (name, stats) = (model.name().to_owned(), model.worker.stats());
            drop(model);
            shelf.change(|slots| {
                add(&mut slots.past, &stats);
                slots.remove(number);
            });
            shelf.loader.iter().for_each(|loader| loader.gone(&name));
        });
    }

    /// Unloads a model that nobody uses, if it is loaded.
    ///
    /// # Errors
    /// 409 if somebody does.
    pub fn release(self: &Arc<Shelf>, name: &str) -> Result<(), ApiError> {
        let freed = self.lock().release(name).map_err(|()| {
            ApiError::in_use(format!("{} is in use; try again when nobody waits for it", plain::name(name)))
        })?;
        if let Some((number, model)) = freed {
            self.unload(number, model);
        }
        Ok(())
    }

    /// Unloads models whose time is over, as long as the server lives.
    pub async fn tend(self: Arc<Shelf>) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let (over, next) = self.lock().over(Instant::now());
            over.into_iter().for_each(|(number, model)| self.unload(number, model));
            let until = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// Models that take requests, those with names first in the alphabet first.
    pub fn loaded(&self) -> Vec<Loaded> {
        self.lock().all()
    }

    /// The model of this name, if it takes requests.
    pub fn at(&self, name: &str) -> Option<Arc<Model>> {
        self.lock().at(name)
    }

    /// Models that are there or can be.
    ///
    /// # Errors
    /// None but our own.
    pub async fn list(&self) -> Result<Vec<Kept>, ApiError> {
        match self.loader.clone() {
            Some(loader) => blocking(move || loader.list()).await,
            None => Ok(vec![]),
        }
    }

    /// What is known of a model by its name in the list.
    pub fn status(&self, name: &str) -> Status {
        self.lock().status(name)
    }

    /// What all engines did, also those that are gone, and what the others are doing.
    pub fn stats(&self) -> Stats {
        let (mut all, models) = {
            let slots = self.lock();
            (slots.past.clone(), slots.all())
        };
        for Loaded { model, .. } in models {
            let stats = model.worker.stats();
            add(&mut all, &stats);
            all.waiting += stats.waiting;
            all.pages += stats.pages;
            all.pages_in_use += stats.pages_in_use;
            all.pages_beside += stats.pages_beside;
            all.places.extend(stats.places);
        }
        all
    }

    /// Whoever starts the server hears of what fails before it is open.
    fn tell(&self, error: &ApiError) {
        let loader = self.loader.iter().filter(|_| self.is_open());
        loader.for_each(|loader| loader.failed(error));
    }

    fn hold(self: &Arc<Shelf>, number: u64) -> Hold {
        Hold { shelf: self.clone(), number, stay: None }
    }

    fn change<T>(&self, what: impl FnOnce(&mut Slots) -> T) -> T {
        let result = what(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Nothing is half done under this lock, so one that a panic left is as good as any.
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a model takes, its file too: one that is read from disk again and again is no use beside others.
fn total(plan: &ModelMemory) -> u64 {
    plan.allocated().saturating_add(plan.mapped())
}

/// Adds what an engine counted.
fn add(all: &mut Stats, stats: &Stats) {
    all.steps += stats.steps;
    all.sequences += stats.sequences;
    all.prompt_tokens += stats.prompt_tokens;
    all.cached_tokens += stats.cached_tokens;
    all.prompt_time += stats.prompt_time;
    all.decode_time += stats.decode_time;
    all.lost = all.lost.take().or_else(|| stats.lost.clone());
    all.preemptions += stats.preemptions;
    all.moved_out += stats.moved_out;
    all.moved_in += stats.moved_in;
    all.longest = all.longest.max(stats.longest);
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(job).await.map_err(|_| ApiError::server("models cannot be listed (internal error)"))
}

fn no_models() -> ApiError {
    ApiError { code: Some("model_not_found"), ..ApiError::not_found("this server has no models") }
}

fn unknown(name: &str, list: &[Kept]) -> ApiError {
    let names: Vec<&str> = list.iter().take(LISTED).map(|kept| kept.name.as_str()).collect();
    let more =
        if list.len() > LISTED { format!(" and {} more (/v1/models)", list.len() - LISTED) } else { String::new() };
    let has = if names.is_empty() { "no models".to_owned() } else { format!("{}{more}", names.join(", ")) };
    let message = format!("there is no model '{}'; this server has {has}", plain::name(name));
    ApiError { code: Some("model_not_found"), param: Some("model".into()), ..ApiError::not_found(message) }
}

/// A place in line with a model that is to be loaded; given up with the value.
struct Turn {
    shelf: Arc<Shelf>,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shelf.change(|slots| slots.leave(self.number));
    }
}

/// Keeps a model where it is.
struct Hold {
    shelf: Arc<Shelf>,
    number: u64,
    /// How long it stays afterwards, if the request says.
    stay: Option<Stay>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shelf.change(|slots| slots.let_go(self.number, self.stay));
    }
}

/// A model in use.
pub struct Lease {
    model: Arc<Model>,
    hold: Hold,
}

impl Lease {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Says how long the model stays after this request.
    pub fn stay(&mut self, stay: Stay) {
        if self.hold.shelf.lets_go() {
            self.hold.stay = Some(stay);
        }
    }
}

impl Deref for Lease {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}
