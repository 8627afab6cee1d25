//! Pages of the cache beside the device: room for them, and how they are moved ([`Pages`](crate::pages::Pages)).
//!
//! A card reads and writes memory of the host at its full speed only if the system holds it in place, which takes time to ask
//! for. So room comes in slabs, each made by a thread of its own while there is some left, and nobody waits for one.

use super::Engine;
use crate::batch::Room;
use crate::error::EngineError;
use crate::pages::Move;
use device::Beside;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a slab.
const SLAB: usize = 256 << 20;

/// Slabs that should be free: one long prompt takes the place of as many pages as fill one, before the next has come.
const FREE: usize = 2;

/// What there is beside the device.
#[derive(Default)]
pub(super) struct Slabs {
    made: Vec<Beside>,
    /// Pages of each.
    each: usize,
    coming: Option<JoinHandle<device::Result<Beside>>>,
    /// The system had no more.
    all: bool,
    /// To move a page out and back.
    time: Duration,
}

impl Engine {
    /// Room beside the device for pages of the cache, of which so many are taken there; more is on its way, until it has so
    /// many bytes, if little is left.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn room_beside(&mut self, most: u64, taken: usize) -> Result<Room, EngineError> {
        let page_bytes = self.page_bytes()?;
        let Some(most) = most.checked_div(page_bytes as u64).filter(|&pages| pages > 0) else {
            return Ok(Room::default());
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.slabs.each = (SLAB / page_bytes).clamp(1, most);
        let slabs = &mut self.slabs;
        if let Some(made) = slabs.coming.take_if(|coming| coming.is_finished()) {
            match made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok(slab) => slabs.made.push(slab),
                Err(_) => slabs.all = true,
            }
            self.measure_moves()?;
        }
        let slabs = &mut self.slabs;
        let there = (slabs.made.len() * slabs.each).min(most);
        if there < most && taken + FREE * slabs.each > there && slabs.coming.is_none() && !slabs.all {
            let (heap, bytes) = (self.memory.heap().clone(), slabs.each * page_bytes);
            let make = move || Beside::new(&*heap, bytes, "pages of the cache (--cache-ram)");
            self.slabs.coming = thread::Builder::new().name("pages".into()).spawn(make).ok();
        }
        Ok(Room { pages: there, time: self.slabs.time })
    }

    /// Measures once how long it takes to move a page out and back, which leaves it as it is.
    fn measure_moves(&mut self) -> Result<(), EngineError> {
        if self.slabs.made.len() != 1 {
            return Ok(());
        }
        self.slabs.time = Duration::MAX;
        // The first time waits for what was sent to the device before, and any may be disturbed.
        for _ in 0..4 {
            let began = Instant::now();
            self.carry(&[Move::Out { page: 0, to: 0 }, Move::In { from: 0, page: 0 }])?;
            self.memory.copy_state(&self.caches[0].name, 0..1, &mut vec![])?;
            self.slabs.time = self.slabs.time.min(began.elapsed());
        }
        Ok(())
    }

    /// Bytes of a page in all states of the cache; 0 as long as no program is loaded.
    fn page_bytes(&self) -> Result<usize, EngineError> {
        self.caches.iter().map(|state| self.page_bytes_of(state)).sum()
    }

    /// Moves pages, one after the other, before the next step. Where the device works beside the host, this waits for
    /// nothing.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn carry(&mut self, moves: &[Move]) -> Result<(), EngineError> {
        let page_bytes = self.page_bytes()?;
        for step in moves {
            // What lies beside is the page in all states; layers with a window may have nothing of it.
            let (page, beside, in_window) = match *step {
                Move::Out { page, to } => (page, to, self.windows.as_mut().and_then(|w| w.move_out(page, to))),
                Move::In { from, page } => {
                    (page, from, self.windows.as_mut().map_or(Ok(None), |w| w.move_in(from, page))?)
                }
                Move::Join { page, into } => {
                    self.windows.iter_mut().for_each(|windows| windows.join(page, into));
                    continue;
                }
            };
            let (page, beside) = (page as usize, beside as usize);
            let mut at = beside % self.slabs.each * page_bytes;
            for state in &self.caches {
                let (name, bytes) = (&state.name, self.page_bytes_of(state)?);
                let slab = &mut self.slabs.made[beside / self.slabs.each];
                if let Some(page) = if state.in_pool { in_window } else { Some(page) } {
                    let range = page * bytes..(page + 1) * bytes;
                    match step {
                        Move::Out { .. } => self.memory.move_out(name, range, slab, at)?,
                        _ => self.memory.move_in(name, range, slab, at)?,
                    }
                }
                at += bytes;
            }
        }
        Ok(())
    }
}
