//! Parts of states that wait beside the device until they are wanted again.

use super::Memory;
use crate::error::{Error, Result};
use crate::heap::{Heap, HostBytes};
use std::ops::Range;

/// Bytes of the host that parts of states are moved to. Nobody but the device reads them.
pub struct Beside(Box<dyn HostBytes>, usize);

impl Memory {
    /// Copies bytes of a state to `beside` from `at` on, as the steps that were sent so far leave them. Where the device
    /// works beside the host, this waits for nothing.
    ///
    /// # Errors
    /// As [`Memory::output`]; and [`Error::OutOfReach`] of bytes that it does not have.
    pub fn move_out(&self, name: &str, range: Range<usize>, beside: &mut Beside, at: usize) -> Result<()> {
        let (index, to) = self.sides(name, &range, beside, at)?;
        // SAFETY: `Beside` gives its bytes to nobody else.
        unsafe { self.regions[index].1.begin_read(range.start, to, range.len()) }
    }

    /// Copies such bytes back, before whatever is sent to the device afterwards.
    ///
    /// # Errors
    /// As [`Memory::move_out`].
    pub fn move_in(&mut self, name: &str, range: Range<usize>, beside: &Beside, at: usize) -> Result<()> {
        let (index, from) = self.sides(name, &range, beside, at)?;
        // SAFETY: as in `move_out`.
        unsafe { self.regions[index].1.begin_write(range.start, from, range.len()) }
    }

    /// The region of a state, and where its bytes lie beside the device, if both are as long as they must be.
    fn sides(&self, name: &str, range: &Range<usize>, beside: &Beside, at: usize) -> Result<(usize, *mut u8)> {
        let (index, length) = self.view::<u8>(self.keys.states.get(name).copied(), "state", name)?;
        let start = beside.part(at, range.len()).filter(|_| range.end <= length);
        let start = start.ok_or_else(|| Error::OutOfReach { name: name.into(), place: self.place().into() })?;
        Ok((index, start))
    }
}

impl Beside {
    /// Room for so many bytes of states that lie in this heap.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(heap: &dyn Heap, bytes: usize, purpose: &str) -> Result<Beside> {
        Ok(Beside(heap.beside(bytes, purpose)?, bytes))
    }

    /// So many bytes from `at` on, if they are there.
    fn part(&self, at: usize, bytes: usize) -> Option<*mut u8> {
        let end = at.checked_add(bytes)?;
        (end <= self.1).then(|| self.0.start().wrapping_add(at))
    }
}
