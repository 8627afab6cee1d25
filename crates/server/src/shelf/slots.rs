//! The places of models, and who comes next: plain data under the lock of the shelf.

use super::{Bounds, Loaded, Status, Stay};
use crate::error::ApiError;
use crate::served::Model;
use model::scheduler::Stats;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;
use tokio::time::Instant;

/// How a load ended, once it has.
pub(super) type End = Option<Result<(), ApiError>>;

/// The places.
pub(super) struct Slots {
    bounds: Bounds,
    slots: Vec<Slot>,
    /// Loads that have not begun, in the order in which they were asked for.
    line: VecDeque<Asked>,
    /// Bytes that there were for models when none was loaded, if the device says.
    room: Option<u64>,
    /// Bytes that models took when they were loaded.
    learnt: HashMap<String, u64>,
    numbers: u64,
    /// Whether requests are taken.
    pub is_open: bool,
    /// Whether nobody may wait any more.
    pub is_closed: bool,
    /// What engines did that are gone.
    pub past: Stats,
}

struct Slot {
    number: u64,
    name: String,
    phase: Phase,
    /// Bytes by its plan.
    bytes: u64,
    /// Requests that have it, or wait for it while it loads.
    users: usize,
    stay: Stay,
    used: Instant,
}

enum Phase {
    Loading(watch::Receiver<End>),
    Ready(Arc<Model>),
    Leaving,
}

struct Asked {
    number: u64,
    bytes: u64,
    /// The model that takes no more requests because of it.
    victim: Option<u64>,
}

/// What who wants a model does next.
pub(super) enum Next {
    /// There is nothing to wait for.
    Closed,
    /// The engine of the only model is gone.
    Stopped,
    /// The model is there, and held.
    Take(u64, Arc<Model>),
    /// It is being loaded, and held.
    Join(u64, watch::Receiver<End>),
    /// It has to be loaded: get in line.
    Ask,
    /// It is to be loaded now, and held.
    Load(u64, watch::Sender<End>),
    /// Another has to go first.
    Unload(u64, Arc<Model>),
    /// Wait for a change.
    Wait,
}

impl Slots {
    pub(super) fn new(bounds: Bounds) -> Slots {
        Slots {
            bounds,
            slots: vec![],
            line: VecDeque::new(),
            room: None,
            learnt: HashMap::new(),
            numbers: 0,
            is_open: false,
            is_closed: false,
            past: Stats::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Adds a model that is there.
    pub(super) fn put(&mut self, name: &str, model: Arc<Model>) {
        let (number, now) = (self.number(), Instant::now());
        let (name, phase) = (name.to_owned(), Phase::Ready(model));
        self.slots.push(Slot { number, name, phase, bytes: 0, users: 0, stay: Stay::Long, used: now });
    }

    /// What comes next for who wants this model and has this turn in line.
    pub(super) fn next(&mut self, name: &str, turn: Option<u64>, reloads: bool) -> Next {
        if self.is_closed {
            return Next::Closed;
        }
        let victim = self.line.front().and_then(|asked| asked.victim);
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.name == name) {
            return match &slot.phase {
                Phase::Ready(model) if model.worker.is_ended() => match (reloads, slot.users) {
                    (false, _) => Next::Stopped,
                    // Its requests have failed and are about to hear of it.
                    (true, 1..) => Next::Wait,
                    (true, 0) => slot.leave().map_or(Next::Wait, |model| Next::Unload(slot.number, model)),
                },
                Phase::Ready(_) if victim == Some(slot.number) => Next::Wait,
                Phase::Ready(model) => {
                    slot.users += 1;
                    Next::Take(slot.number, model.clone())
                }
                Phase::Loading(end) => {
                    slot.users += 1;
                    Next::Join(slot.number, end.clone())
                }
                Phase::Leaving => Next::Wait,
            };
        }
        let Some(turn) = turn else { return Next::Ask };
        match self.line.front() {
            Some(first) if first.number == turn => self.make_room(name),
            _ => Next::Wait,
        }
    }

    /// Loads the first in line, or lets another model go for it.
    fn make_room(&mut self, name: &str) -> Next {
        let Some(bytes) = self.line.front().map(|asked| asked.bytes) else { return Next::Wait };
        if self.has_room(bytes) {
            let (sender, receiver) = watch::channel(None);
            let (number, stay, used) = (self.number(), self.bounds.stay, Instant::now());
            let (name, phase) = (name.to_owned(), Phase::Loading(receiver));
            self.slots.push(Slot { number, name, phase, bytes, users: 1, stay, used });
            return Next::Load(number, sender);
        }
        let ready = |slot: &&mut Slot| matches!(slot.phase, Phase::Ready(_));
        let leaving = self.slots.iter().any(|slot| matches!(slot.phase, Phase::Leaving));
        let idle = self.slots.iter_mut().filter(ready).filter(|slot| slot.users == 0).min_by_key(|slot| slot.used);
        if let Some(slot) = idle.filter(|_| !leaving) {
            return slot.leave().map_or(Next::Wait, |model| Next::Unload(slot.number, model));
        }
        let eldest = self.slots.iter_mut().filter(ready).min_by_key(|slot| slot.used).map(|slot| slot.number);
        let is_ready =
            |number| self.slots.iter().any(|slot| slot.number == number && matches!(slot.phase, Phase::Ready(_)));
        let goes = self.line.front().and_then(|first| first.victim).is_some_and(is_ready);
        if let Some(first) = self.line.front_mut()
            && !leaving
            && !goes
        {
            first.victim = eldest;
        }
        Next::Wait
    }

    /// Whether so many bytes fit beside what is there. A model that is alone may try: it is refused if it cannot be.
    fn has_room(&self, bytes: u64) -> bool {
        let taken: u64 = self.slots.iter().map(|slot| slot.bytes).sum();
        let fits = self.room.is_none_or(|room| taken.saturating_add(bytes) <= room);
        self.slots.is_empty() || self.slots.len() < self.bounds.models && fits
    }

    /// How many wait for loads that have not begun.
    pub(super) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Gets in line with a model of so many bytes, of which so many are available now.
    pub(super) fn ask(&mut self, name: &str, bytes: u64, available: Option<u64>) -> u64 {
        if self.slots.is_empty() {
            self.room = available;
        }
        let bytes = bytes.max(self.learnt.get(name).copied().unwrap_or(0));
        let number = self.number();
        self.line.push_back(Asked { number, bytes, victim: None });
        number
    }

    /// Leaves the line.
    pub(super) fn leave(&mut self, turn: u64) {
        self.line.retain(|asked| asked.number != turn);
    }

    /// A model is loaded, and takes so many bytes. Whether it fits: otherwise it has to go again.
    pub(super) fn loaded(&mut self, number: u64, model: &Arc<Model>, bytes: Option<u64>) -> bool {
        let taken: u64 = self.slots.iter().filter(|slot| slot.number != number).map(|slot| slot.bytes).sum();
        let alone = self.slots.len() == 1;
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == number) else { return false };
        if let Some(bytes) = bytes {
            slot.bytes = bytes;
            self.learnt.insert(slot.name.clone(), bytes);
        }
        let fits = alone || self.room.is_none_or(|room| taken.saturating_add(slot.bytes) <= room);
        slot.phase = if fits { Phase::Ready(model.clone()) } else { Phase::Leaving };
        slot.used = Instant::now();
        fits
    }

    /// A place is free.
    pub(super) fn remove(&mut self, number: u64) {
        self.slots.retain(|slot| slot.number != number);
    }

    /// A request is done with a model.
    pub(super) fn let_go(&mut self, number: u64, stay: Option<Stay>) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.number == number) {
            slot.users -= 1;
            slot.used = Instant::now();
            slot.stay = stay.unwrap_or(slot.stay);
        }
    }

    /// Takes a model away, if it is there.
    ///
    /// # Errors
    /// If it is in use.
    pub(super) fn release(&mut self, name: &str) -> Result<Option<(u64, Arc<Model>)>, ()> {
        match self.slots.iter_mut().find(|slot| slot.name == name) {
            None => Ok(None),
            Some(slot) if slot.users > 0 => Err(()),
            Some(slot) => Ok(slot.leave().map(|model| (slot.number, model))),
        }
    }

    /// Takes those away whose time is over, and says when the next comes.
    pub(super) fn over(&mut self, now: Instant) -> (Vec<(u64, Arc<Model>)>, Option<Instant>) {
        let (mut over, mut next) = (vec![], None::<Instant>);
        for slot in self.slots.iter_mut().filter(|slot| slot.users == 0) {
            let Some(until) = slot.until() else { continue };
            if until <= now {
                over.extend(slot.leave().map(|model| (slot.number, model)));
            } else if matches!(slot.phase, Phase::Ready(_)) {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
        (over, next)
    }

    /// Models that take requests.
    pub(super) fn all(&self) -> Vec<Loaded> {
        let now = (Instant::now(), SystemTime::now());
        let mut all: Vec<(&str, Loaded)> = vec![];
        for slot in &self.slots {
            let Phase::Ready(model) = &slot.phase else { continue };
            let until = match slot.stay {
                // Its time begins when the last request is over.
                Stay::For(time) if slot.users > 0 => Some(now.1 + time),
                _ => slot.until().map(|until| now.1 + until.saturating_duration_since(now.0)),
            };
            all.push((&slot.name, Loaded { model: model.clone(), until }));
        }
        all.sort_by_key(|(name, _)| *name);
        all.into_iter().map(|(_, loaded)| loaded).collect()
    }

    /// The name of the only model.
    pub(super) fn only(&self) -> Option<String> {
        self.slots.first().map(|slot| slot.name.clone())
    }

    /// The name of the model that is there under this one.
    pub(super) fn is_called(&self, name: &str) -> Option<String> {
        let called = |slot: &&Slot| match &slot.phase {
            Phase::Ready(model) => slot.name == name || model.facts.names.iter().any(|other| other == name),
            Phase::Loading(_) | Phase::Leaving => slot.name == name,
        };
        self.slots.iter().find(called).map(|slot| slot.name.clone())
    }

    /// A model that is there.
    pub(super) fn of(&self, number: u64) -> Option<Arc<Model>> {
        let slot = self.slots.iter().find(|slot| slot.number == number)?;
        if let Phase::Ready(model) = &slot.phase { Some(model.clone()) } else { None }
    }

    /// A model that is there, by its name.
    pub(super) fn at(&self, name: &str) -> Option<Arc<Model>> {
        self.slots.iter().find(|slot| slot.name == name).and_then(|slot| self.of(slot.number))
    }

    pub(super) fn status(&self, name: &str) -> Status {
        match self.slots.iter().find(|slot| slot.name == name).map(|slot| &slot.phase) {
            Some(Phase::Ready(_)) => Status::Loaded,
            Some(Phase::Loading(_)) => Status::Loading,
            Some(Phase::Leaving) | None => Status::Unloaded,
        }
    }
}

impl Slot {
    /// Takes no more requests; its model, if it was there.
    fn leave(&mut self) -> Option<Arc<Model>> {
        if !matches!(self.phase, Phase::Ready(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Leaving) {
            Phase::Ready(model) => Some(model),
            Phase::Loading(_) | Phase::Leaving => None,
        }
    }

    /// When it goes, if nobody asks for it.
    fn until(&self) -> Option<Instant> {
        match self.stay {
            Stay::Long => None,
            Stay::For(time) => Some(self.used + time),
        }
    }
}
