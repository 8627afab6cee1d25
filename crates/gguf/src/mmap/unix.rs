//! A file mapped by a Unix: over an anonymous reservation that is at least one page longer, so that the tail of the file's last
//! page reads as zeros, and so does the page after it. Crates that map files map the file and no more, and what lies behind
//! its last page cannot be touched then.

use super::SLACK;
use crate::error::Error;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The mapping.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<u8>,
    len: usize,
    reserved: usize,
}

// SAFETY: the mapping is read-only and owned by this value alone; nothing in it is tied to a thread.
unsafe impl Send for Pages {}
// SAFETY: as above, and shared access only ever reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps a file of this length.
    pub(super) fn of(file: &File, len: usize) -> Result<Pages, Error> {
        let too_large = || Error::Io { doing: "map the file", source: io::ErrorKind::FileTooLarge.into() };
        let page = page_size();
        let reserved =
            len.checked_next_multiple_of(page).and_then(|end| end.checked_add(page)).ok_or_else(too_large)?;

        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), reserved, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON, -1, 0)
        };
        let start = mapped(start, "reserve address space for the file")?;
        // From here on dropping `pages` releases the reservation, also on errors.
        let pages = Pages { start, len, reserved };

        // SAFETY: [start, start + len) lies in the reservation made above, which this value owns and nobody has seen
        // yet, so replacing those pages invalidates no reference.
        let over = unsafe {
            libc::mmap(
                start.as_ptr().cast(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            )
        };
        mapped(over, "map the file")?;
        Ok(pages)
    }

    /// The bytes of the file and [`SLACK`] more.
    pub(super) fn with_slack(&self) -> &[u8] {
        // SAFETY: len bytes of the file and at least a page of the reservation after them are mapped readable as long
        // as `self` lives. Pages are never written through this map. (That another process may change the file is the
        // accepted risk of mapping, as the head of the module says.)
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len + SLACK) }
    }

    /// Asks the system to start reading a range of bytes of the file, which is not empty.
    pub(super) fn will_need(&self, range: Range<usize>) {
        let start = range.start / page_size() * page_size();
        // SAFETY: the range lies inside the mapping and its start is a multiple of the page size; this advice changes no
        // contents.
        unsafe { libc::madvise(self.start.as_ptr().add(start).cast(), range.end - start, libc::MADV_WILLNEED) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the reservation made in `of`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

fn mapped(address: *mut libc::c_void, doing: &'static str) -> Result<NonNull<u8>, Error> {
    match NonNull::new(address.cast::<u8>()) {
        Some(start) if address != libc::MAP_FAILED => Ok(start),
        _ => Err(Error::Io { doing, source: io::Error::last_os_error() }),
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf only reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096).max(4096)
}
