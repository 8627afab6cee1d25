//! Where the bytes of a memory lie.
//!
//! [`Memory`](crate::Memory) says which regions there are and what they are for; a heap makes them, on the host or on a
//! device that has memory of its own. Of such a device the host reaches only *ports*, inputs and outputs, by a copy of
//! each: what is written into the copy of an input is on the device when the next step runs, and the copy of an output is
//! brought up to date by [`Block::fetch`].

use std::ops::Range;

use gguf::dequant::DequantError;
use gguf::format::Planes;

use crate::error::{Error, Result};
pub use crate::host::region::Region;

/// Which way a port goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The host writes.
    Input,
    /// The host reads.
    Output,
}

/// Makes the blocks of a memory.
pub trait Heap: Send + Sync {
    /// The place that its blocks lie in: `host`, `cuda:0`. Kernels of a device reach blocks of its own place only.
    fn place(&self) -> &str;

    /// A block of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::OutOfDeviceMemory`].
    fn allocate(&self, bytes: usize, purpose: &str) -> Result<Box<dyn Block>>;

    /// A block of zeros that the host reaches, too.
    ///
    /// # Errors
    /// As [`Heap::allocate`].
    fn port(&self, way: Port, bytes: usize, purpose: &str) -> Result<Box<dyn Block>>;

    /// Bytes of the host, for what blocks do not hold any more ([`Block::begin_read`]).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn beside(&self, bytes: usize, purpose: &str) -> Result<Box<dyn HostBytes>> {
        Ok(Box::new(Region::new(bytes, purpose)?))
    }

    /// A block with these bytes of a model file, or with their rows in planes. `None` if kernels read the bytes where they
    /// are, which they do on the host.
    ///
    /// # Errors
    /// As [`Heap::allocate`], and [`Error::Repack`].
    fn weight(&self, name: &str, source: &[u8], planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>>;
}

/// Bytes that kernels reach. Behind them lie [`Program::WEIGHT_SLACK`](compiler::program::Program::WEIGHT_SLACK) readable
/// bytes. Ranges beyond the end are a mistake of the caller, and panic.
pub trait Block: Send + Sync {
    /// Where kernels find them; it does not move.
    fn address(&self) -> *mut u8;

    /// How many.
    fn bytes(&self) -> usize;

    /// Where the host finds them, or the copy of a port; nothing for other blocks of a device.
    fn host(&self) -> Option<*mut u8>;

    /// Brings the first bytes of the host's copy up to date, where it is a copy.
    ///
    /// # Errors
    /// Of the device.
    fn fetch(&mut self, bytes: usize) -> Result<()>;

    /// Asks for the first bytes as they are when all that was sent to the device so far is over. Where the device works
    /// beside the host, this does not wait.
    ///
    /// # Errors
    /// Of the device.
    fn request(&mut self, bytes: usize) -> Result<Box<dyn Requested>> {
        let mut copy = vec![0; bytes];
        self.read(0, &mut copy)?;
        Ok(Box::new(copy))
    }

    /// Replaces bytes from `at` on.
    ///
    /// # Errors
    /// Of the device.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()>;

    /// Reads bytes from `at` on.
    ///
    /// # Errors
    /// Of the device.
    fn read(&self, at: usize, to: &mut [u8]) -> Result<()>;

    /// As [`Block::read`], but where the device works beside the host this does not wait for what was sent to it so far.
    ///
    /// # Safety
    /// `to` is part of what [`Heap::beside`] made. Until it is dropped, nothing touches it but these two functions, whose
    /// order is kept.
    ///
    /// # Errors
    /// Of the device.
    unsafe fn begin_read(&self, at: usize, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller has promised that it is so much memory, which nobody else touches.
        self.read(at, unsafe { std::slice::from_raw_parts_mut(to, bytes) })
    }

    /// As [`Block::write`], likewise.
    ///
    /// # Safety
    /// As [`Block::begin_read`].
    ///
    /// # Errors
    /// Of the device.
    unsafe fn begin_write(&mut self, at: usize, from: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: as in `begin_read`.
        self.write(at, unsafe { std::slice::from_raw_parts(from, bytes) })
    }

    /// Makes bytes zero, before whatever runs on the device afterwards.
    ///
    /// # Errors
    /// Of the device.
    fn clear(&mut self, range: Range<usize>) -> Result<()>;
}

/// Bytes of the host that a device copies from and to.
pub trait HostBytes: Send + Sync {
    /// Where they lie; they do not move.
    fn start(&self) -> *mut u8;

    /// All of them.
    fn as_mut_slice(&mut self) -> &mut [u8];
}

/// A port of a device: a block that the host does not reach, and a copy of it that it does.
pub struct Copied<B, C> {
    /// The block.
    pub far: B,
    /// Room for all of it.
    pub copy: C,
}

impl<B: Block, C: HostBytes> Block for Copied<B, C> {
    fn address(&self) -> *mut u8 {
        self.far.address()
    }

    fn bytes(&self) -> usize {
        self.far.bytes()
    }

    fn host(&self) -> Option<*mut u8> {
        Some(self.copy.start())
    }

    fn fetch(&mut self, bytes: usize) -> Result<()> {
        self.far.read(0, &mut self.copy.as_mut_slice()[..bytes])
    }

    fn request(&mut self, bytes: usize) -> Result<Box<dyn Requested>> {
        self.far.request(bytes)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.far.write(at, bytes)
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.far.read(at, to)
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        self.far.clear(range)
    }
}

impl HostBytes for Region {
    fn start(&self) -> *mut u8 {
        Region::start(self)
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        Region::as_mut_slice(self)
    }
}

/// Bytes that are on their way to the host.
pub trait Requested: Send {
    /// Waits for them.
    ///
    /// # Errors
    /// Of the device, whose steps may have failed meanwhile.
    fn wait(self: Box<Self>) -> Result<Vec<u8>>;
}

impl Requested for Vec<u8> {
    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        Ok(*self)
    }
}

/// Rows in planes are not whole.
pub fn not_packed(weight: &str, problem: DequantError) -> Error {
    Error::Repack { weight: weight.into(), problem }
}

/// The memory of the machine, which the processor's kernels and the host share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Host {
    /// What [`Heap::place`] says of it.
    pub const PLACE: &'static str = "host";
}

impl Heap for Host {
    fn place(&self) -> &str {
        Host::PLACE
    }

    fn allocate(&self, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        Ok(Box::new(Region::new(bytes, purpose)?))
    }

    fn port(&self, _: Port, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        self.allocate(bytes, purpose)
    }

    fn weight(&self, name: &str, source: &[u8], planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>> {
        let Some(planes) = planes else { return Ok(None) };
        let bytes = planes.packed_bytes(source.len()).unwrap_or(0);
        let mut region = Region::new(bytes, &format!("weight {name}"))?;
        planes.pack(source, region.as_mut_slice()).map_err(|problem| not_packed(name, problem))?;
        Ok(Some(Box::new(region)))
    }
}

impl Block for Region {
    fn address(&self) -> *mut u8 {
        self.start()
    }

    fn bytes(&self) -> usize {
        Region::bytes(self)
    }

    fn host(&self) -> Option<*mut u8> {
        Some(self.start())
    }

    fn fetch(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.as_mut_slice()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&self.as_slice()[at..at + to.len()]);
        Ok(())
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        self.as_mut_slice()[range].fill(0);
        Ok(())
    }
}

/// Memory of the host that behaves as that of a device: the interpreter runs programs in it, so that whoever uses devices
/// can be tested where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Apart;

impl Apart {
    /// What [`Heap::place`] says of it.
    pub const PLACE: &'static str = "apart";
}

impl Heap for Apart {
    fn place(&self) -> &str {
        Apart::PLACE
    }

    fn allocate(&self, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        Ok(Box::new(Unreached(Region::new(bytes, purpose)?)))
    }

    fn port(&self, _: Port, bytes: usize, purpose: &str) -> Result<Box<dyn Block>> {
        Ok(Box::new(Copied { far: Unreached(Region::new(bytes, purpose)?), copy: Region::new(bytes, purpose)? }))
    }

    fn weight(&self, name: &str, source: &[u8], planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>> {
        if planes.is_some() {
            return Host.weight(name, source, planes);
        }
        let mut far = Region::new(source.len(), &format!("weight {name}"))?;
        far.as_mut_slice().copy_from_slice(source);
        Ok(Some(Box::new(Unreached(far))))
    }
}

/// Bytes that the host does not reach.
struct Unreached(Region);

impl Block for Unreached {
    fn address(&self) -> *mut u8 {
        self.0.start()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn host(&self) -> Option<*mut u8> {
        None
    }

    fn fetch(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.0.write(at, bytes)
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Result<()> {
        self.0.read(at, to)
    }

    fn clear(&mut self, range: Range<usize>) -> Result<()> {
        self.0.clear(range)
    }
}
