//! Memory from the system: zeroed, aligned, with slack, in huge pages if big.

use std::ptr::NonNull;

use compiler::program::Program;

use crate::error::{Error, Result};

/// The size and alignment of a huge page.
const HUGE: usize = 2 << 20;

/// An anonymous mapping; readable for the slack of a weight beyond its size.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    mapped: usize,
}

// SAFETY: a region is plain memory that it owns alone; who may touch its bytes
// when is up to the borrow of the value that holds it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Zeroed memory at a multiple of 64 bytes, of 2 MiB if it is that large.
    pub fn new(bytes: usize, purpose: &str) -> Result<Region> {
        let exhausted =
            || Error::OutOfMemory { purpose: purpose.into(), bytes: bytes.saturating_add(Program::WEIGHT_SLACK) };
        let needed = bytes.checked_add(Program::WEIGHT_SLACK).ok_or_else(exhausted)?;
        let align = if bytes >= HUGE { HUGE } else { system::PAGE };
        let mapped = needed.checked_next_multiple_of(align).ok_or_else(exhausted)?;
        let start = system::map(mapped, align).ok_or_else(exhausted)?;
        Ok(Region { start, bytes, mapped })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its size, without slack.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is initialised (zeroed) and lives as long as
        // `self`; kernels write it only under a unique borrow of its holder.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl AsRef<[u8]> for Region {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let align = if self.bytes >= HUGE { HUGE } else { system::PAGE };
        // SAFETY: `map` gave exactly this, and nobody can borrow it any more.
        unsafe { system::unmap(self.start, self.mapped, align) }
    }
}

#[cfg(unix)]
mod system {
    use std::ptr::{self, NonNull};

    /// A lower bound of the page size; mappings are at least this aligned.
    pub(super) const PAGE: usize = 4096;

    /// Zeroed pages; `bytes` and `align` are multiples of the page size.
    pub(super) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let extra = if align > PAGE { align } else { 0 };
        let reserved = bytes.checked_add(extra)?;
        // SAFETY: a new anonymous mapping touches no existing memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                reserved,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start.cast::<u8>();
        let before = start.align_offset(align);
        let after = extra - before.min(extra);
        // SAFETY: both cuts lie within the mapping just made, outside of the
        // part that is returned; the advice concerns that part alone.
        unsafe {
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            let aligned = start.add(before);
            if after > 0 {
                libc::munmap(aligned.add(bytes).cast(), after);
            }
            #[cfg(target_os = "linux")]
            if extra > 0 {
                libc::madvise(aligned.cast(), bytes, libc::MADV_HUGEPAGE);
            }
            NonNull::new(aligned)
        }
    }

    /// # Safety
    /// `start` and the sizes come from one call of `map`.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize, _align: usize) {
        // SAFETY: see above.
        unsafe {
            libc::munmap(start.as_ptr().cast(), bytes);
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    pub(super) const PAGE: usize = 4096;

    pub(super) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, align).ok()?;
        // SAFETY: the slack makes every size positive.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// `start` and the sizes come from one call of `map`.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize, align: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, align) {
            // SAFETY: see above.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zeroed_aligned_and_have_slack() {
        for bytes in [0, 1, 4096, HUGE - 1, HUGE, 3 * HUGE + 5] {
            let mut region = Region::new(bytes, "a test").unwrap();
            assert!(region.start().cast::<[u64; 8]>().is_aligned());
            assert_eq!(region.start() as usize % 64, 0);
            if bytes >= HUGE {
                assert_eq!(region.start() as usize % HUGE, 0);
            }
            assert!(region.as_slice().iter().all(|byte| *byte == 0));
            region.as_mut_slice().fill(1);
            // SAFETY: the slack after the end is part of the mapping.
            let slack = unsafe { *region.start().add(bytes + Program::WEIGHT_SLACK - 1) };
            assert_eq!(slack, 0);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let error = Region::new(bytes, "the cache").unwrap_err().to_string();
            assert!(error.starts_with("out of memory") && error.ends_with("for the cache"));
        }
    }
}
