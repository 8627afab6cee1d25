//! Named memory that programs share.
//!
//! The decode and the mixed program of a model bind the same weights, state,
//! inputs, outputs and arena. A region is made when the first program that
//! names it is loaded, and grows when a later one needs more; programs look
//! their addresses up again when that has happened.
//!
//! A step borrows the whole memory alone, so the host never reads what a
//! kernel is writing. The bytes lie where the heap makes them ([`crate::heap`]): inputs and outputs are slices for the host
//! on every device, states are read and written by copies.

mod beside;
mod key;
mod plan;

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compiler::program::{Buffer, BufferKind, Program};
use gguf::format::Planes;

use crate::error::{Error, Result};
use crate::heap::{Block, Heap, Host, Port, Requested};
use crate::host::region::Region;
use crate::store::digest;

use key::{Key, Keys};

pub use beside::Beside;
pub use plan::MemoryPlan;

/// Bytes that somebody else owns, for example a mapped file.
pub type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Elements of an output that are on their way to the host.
pub struct Pending<T> {
    bytes: Box<dyn Requested>,
    element: PhantomData<T>,
}

impl<T: Element> Pending<T> {
    /// Waits for them.
    ///
    /// # Errors
    /// Of the device.
    pub fn wait(self) -> Result<Vec<T>> {
        let bytes = self.bytes.wait()?;
        // SAFETY: every bit pattern is an `Element`.
        let read = |part: &[u8]| unsafe { part.as_ptr().cast::<T>().read_unaligned() };
        Ok(bytes.chunks_exact(size_of::<T>()).map(read).collect())
    }
}

/// Writes the bytes of a weight.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// Where the host has the bytes of a weight.
enum Source {
    /// Part of what its owner holds.
    Held { start: *const u8, _owner: Owner },
    /// Nowhere: this writes them when they are needed.
    Late(Box<Fill>),
}

/// A weight.
struct Weight {
    source: Source,
    bytes: usize,
    /// Its bytes on the device, once a program reads them there.
    placed: Option<Box<dyn Block>>,
}

// SAFETY: the bytes are only read, and the owner may be shared by threads.
unsafe impl Send for Weight {}
// SAFETY: as above.
unsafe impl Sync for Weight {}

impl Weight {
    /// Those of this region.
    fn of_region(region: Region) -> Weight {
        // The region is given away and does not move its bytes.
        let (start, bytes) = (region.start().cast_const(), region.bytes());
        Weight { source: Source::Held { start, _owner: Arc::new(region) }, bytes, placed: None }
    }

    /// Its bytes, if the host has them.
    fn as_slice(&self) -> Option<&[u8]> {
        match &self.source {
            // SAFETY: the bytes are in place and unchanged as long as their owner lives: the caller of `add_weight` has
            // promised it.
            Source::Held { start, .. } => Some(unsafe { std::slice::from_raw_parts(*start, self.bytes) }),
            Source::Late(_) => None,
        }
    }

    /// Where kernels read it.
    fn address(&self) -> *mut u8 {
        match (&self.placed, &self.source) {
            (Some(block), _) => block.address(),
            (None, Source::Held { start, .. }) => start.cast_mut(),
            (None, Source::Late(_)) => std::ptr::null_mut(),
        }
    }

    /// A block of the heap with its bytes, as [`Heap::weight`] makes it. What was written for that is kept if kernels read it
    /// where it is.
    fn block(&mut self, heap: &dyn Heap, name: &str, planes: Option<&Planes>) -> Result<Option<Box<dyn Block>>> {
        let fill = match &self.source {
            Source::Held { .. } => return heap.weight(name, self.as_slice().unwrap_or_default(), planes),
            Source::Late(fill) => fill,
        };
        let mut region = Region::new(self.bytes, &format!("weight {name}"))?;
        fill(region.as_mut_slice());
        let block = heap.weight(name, region.as_slice(), planes)?;
        if block.is_none() {
            *self = Weight::of_region(region);
        }
        Ok(block)
    }
}

/// Where a buffer of a program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A weight as its file has it.
    Weight(usize),
    /// A weight with its rows in planes.
    Packed(usize),
    /// Bytes of a region from an offset on.
    Region {
        /// Which region.
        region: usize,
        /// Its first byte.
        offset: usize,
    },
}

/// Bytes of a buffer during a launch.
pub(crate) enum Lent<'a> {
    /// What the host, a file or the compiler wrote.
    Read(&'a [u8]),
    /// What kernels write.
    Write(&'a mut [u8]),
}

/// The memory of a model.
pub struct Memory {
    id: u64,
    heap: Arc<dyn Heap>,
    /// Counts the times that a region has moved.
    moves: u64,
    weights: Vec<Weight>,
    weight_names: HashMap<String, usize>,
    /// Weights with their rows in planes.
    packed: Vec<Box<dyn Block>>,
    /// The same by the weight that they were made of.
    packed_of: HashMap<(usize, Arc<Planes>), usize>,
    /// What each is for, and its bytes.
    regions: Vec<(Key, Box<dyn Block>)>,
    keys: Keys,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// Memory of the host that holds nothing.
    pub fn new() -> Memory {
        Memory::on(Arc::new(Host))
    }

    /// Memory that holds nothing, of this heap.
    pub fn on(heap: Arc<dyn Heap>) -> Memory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Memory {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            heap,
            moves: 0,
            weights: Vec::new(),
            weight_names: HashMap::new(),
            packed: Vec::new(),
            packed_of: HashMap::new(),
            regions: Vec::new(),
            keys: Keys::default(),
        }
    }

    /// Makes bytes `range` of what `owner` holds the weight `name`, without a
    /// copy. A weight of the same name is replaced for programs loaded later.
    ///
    /// # Safety
    /// As long as this memory or anything loaded for it lives, `owner` must
    /// keep its bytes in place and unchanged, and
    /// [`Program::WEIGHT_SLACK`] bytes after the end of `range` must be
    /// readable, be it by the owner or by the mapping that it lies in.
    ///
    /// # Errors
    /// [`Error::WeightRange`] if the range is not within the bytes of `owner`.
    pub unsafe fn add_weight(&mut self, name: impl Into<String>, owner: Owner, range: Range<usize>) -> Result<()> {
        let name = name.into();
        let source = (*owner).as_ref();
        let Some(bytes) = source.get(range.clone()) else {
            return Err(Error::WeightRange { weight: name, start: range.start, end: range.end, length: source.len() });
        };
        let (start, bytes) = (bytes.as_ptr(), bytes.len());
        self.name_weight(name, Weight { source: Source::Held { start, _owner: owner }, bytes, placed: None });
        Ok(())
    }

    /// Makes what `fill` writes the weight `name`, of so many bytes, when a program first reads it. It is written again for
    /// each block that a heap with memory of its own makes of it.
    pub(crate) fn add_late_weight(
        &mut self,
        name: String,
        bytes: usize,
        fill: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) {
        self.name_weight(name, Weight { source: Source::Late(Box::new(fill)), bytes, placed: None });
    }

    fn name_weight(&mut self, name: String, weight: Weight) {
        self.weight_names.insert(name, self.weights.len());
        self.weights.push(weight);
    }

    /// Makes a copy of `bytes` the weight `name`, with the slack it needs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn copy_weight(&mut self, name: impl Into<String>, bytes: &[u8]) -> Result<()> {
        let name = name.into();
        let mut region = Region::new(bytes.len(), &format!("weight {name}"))?;
        region.as_mut_slice().copy_from_slice(bytes);
        self.name_weight(name, Weight::of_region(region));
        Ok(())
    }

    /// The bytes of a weight.
    ///
    /// # Errors
    /// [`Error::UnknownRegion`], also of one that the host does not have (yet).
    pub fn weight(&self, name: &str) -> Result<&[u8]> {
        let index = self.weight_names.get(name).ok_or_else(|| unknown("weight", name))?;
        self.weights[*index].as_slice().ok_or_else(|| unknown("weight", name))
    }

    /// Whether a program that was loaded has an input of this name.
    pub fn has_input(&self, name: &str) -> bool {
        self.keys.inputs.contains_key(name)
    }

    /// An input, to be written before a step.
    ///
    /// # Errors
    /// [`Error::UnknownRegion`] if no loaded program has it,
    /// [`Error::ViewSize`] if its bytes are no whole number of elements.
    pub fn input_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let index = self.keys.inputs.get(name).copied();
        let (index, length) = self.view::<T>(index, "input", name)?;
        let start = self.regions[index].1.host().ok_or_else(|| unknown("input", name))?;
        // SAFETY: the host's bytes of a port are aligned for any element and initialised, every bit pattern is an
        // `Element`, and the memory is borrowed alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) })
    }

    /// An output, as the last step left it.
    ///
    /// # Errors
    /// As [`Memory::input_mut`], and of the device.
    pub fn output<T: Element>(&mut self, name: &str) -> Result<&[T]> {
        self.output_start(name, usize::MAX)
    }

    /// The first elements of an output, as the last step left them: so many, or all if there are fewer.
    ///
    /// # Errors
    /// As [`Memory::output`].
    pub fn output_start<T: Element>(&mut self, name: &str, elements: usize) -> Result<&[T]> {
        let (index, length) = self.view::<T>(self.keys.outputs.get(name).copied(), "output", name)?;
        let length = length.min(elements);
        let block = &mut self.regions[index].1;
        block.fetch(length * size_of::<T>())?;
        let start = block.host().ok_or_else(|| unknown("output", name))?;
        // SAFETY: as in `input_mut`; steps borrow the memory alone.
        Ok(unsafe { std::slice::from_raw_parts(start.cast(), length) })
    }

    /// Asks for the first elements of an output as the steps that were sent so far leave them, without waiting for these.
    ///
    /// # Errors
    /// As [`Memory::output`].
    pub fn request<T: Element>(&mut self, name: &str, elements: usize) -> Result<Pending<T>> {
        let (index, length) = self.view::<T>(self.keys.outputs.get(name).copied(), "output", name)?;
        let bytes = self.regions[index].1.request(length.min(elements) * size_of::<T>())?;
        Ok(Pending { bytes, element: PhantomData })
    }

    /// A state where it lies, as the last step left it.
    ///
    /// # Errors
    /// As [`Memory::input_mut`]; and [`Error::OutOfReach`] on a device with memory of its own.
    pub fn state<T: Element>(&self, name: &str) -> Result<&[T]> {
        let (start, length) = self.state_here::<T>(name)?;
        // SAFETY: as in `input_mut`; steps borrow the memory alone.
        Ok(unsafe { std::slice::from_raw_parts(start, length) })
    }

    /// A state where it lies, to be changed between steps. States start as zeros.
    ///
    /// # Errors
    /// As [`Memory::state`].
    pub fn state_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let (start, length) = self.state_here::<T>(name)?;
        // SAFETY: as in `input_mut`.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, length) })
    }

    fn state_here<T: Element>(&self, name: &str) -> Result<(*mut T, usize)> {
        let (index, length) = self.view::<T>(self.keys.states.get(name).copied(), "state", name)?;
        let out_of_reach = || Error::OutOfReach { name: name.into(), place: self.place().into() };
        let start = self.regions[index].1.host().ok_or_else(out_of_reach)?;
        Ok((start.cast(), length))
    }

    /// A copy of a state, as the last step left it.
    ///
    /// # Errors
    /// As [`Memory::output`].
    pub fn read_state<T: Element>(&self, name: &str) -> Result<Vec<T>> {
        let (index, length) = self.view::<T>(self.keys.states.get(name).copied(), "state", name)?;
        let mut elements = Vec::<T>::with_capacity(length);
        // SAFETY: the bytes are those of the elements, all of which `read` writes; every bit pattern is an `Element`.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast::<u8>(), length * size_of::<T>());
            bytes.fill(0);
            self.regions[index].1.read(0, bytes)?;
            elements.set_len(length);
        }
        Ok(elements)
    }

    /// Appends bytes of a state to others, as the last step left them.
    ///
    /// # Errors
    /// As [`Memory::output`]; and [`Error::OutOfReach`] of bytes that it does not have.
    pub fn copy_state(&self, name: &str, range: Range<usize>, to: &mut Vec<u8>) -> Result<()> {
        let (index, length) = self.view::<u8>(self.keys.states.get(name).copied(), "state", name)?;
        if range.end > length {
            return Err(Error::OutOfReach { name: name.into(), place: self.place().into() });
        }
        let start = to.len();
        to.resize(start + range.len(), 0);
        self.regions[index].1.read(range.start, &mut to[start..])
    }

    /// Replaces elements of a state from an index on, between steps.
    ///
    /// # Errors
    /// As [`Memory::output`].
    pub fn write_state<T: Element>(&mut self, name: &str, from: usize, elements: &[T]) -> Result<()> {
        let (index, _) = self.view::<T>(self.keys.states.get(name).copied(), "state", name)?;
        // SAFETY: plain numbers are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
        self.regions[index].1.write(from * size_of::<T>(), bytes)
    }

    /// Makes bytes of a state zero, between steps.
    ///
    /// # Errors
    /// As [`Memory::output`].
    pub fn clear_state(&mut self, name: &str, range: Range<usize>) -> Result<()> {
        let (index, _) = self.view::<u8>(self.keys.states.get(name).copied(), "state", name)?;
        self.regions[index].1.clear(range)
    }

    /// Bytes of a state.
    ///
    /// # Errors
    /// [`Error::UnknownRegion`].
    pub fn state_bytes(&self, name: &str) -> Result<usize> {
        Ok(self.view::<u8>(self.keys.states.get(name).copied(), "state", name)?.1)
    }

    /// Bytes of a weight that are where kernels read them.
    fn held(&self, weight: &Weight) -> usize {
        match &weight.placed {
            Some(block) => block.bytes(),
            None if self.place() == Host::PLACE => weight.as_slice().map_or(0, <[u8]>::len),
            None => 0,
        }
    }

    /// What is held now.
    pub fn usage(&self) -> MemoryPlan {
        let mut plan = MemoryPlan { weights: self.weights.iter().map(|w| self.held(w)).sum(), ..MemoryPlan::default() };
        plan.weights += self.packed.iter().map(|block| block.bytes()).sum::<usize>();
        for (key, block) in &self.regions {
            plan.add(key, block.bytes());
        }
        plan
    }

    /// A region and the number of its elements.
    fn view<T: Element>(&self, index: Option<usize>, kind: &'static str, name: &str) -> Result<(usize, usize)> {
        let index = index.ok_or_else(|| unknown(kind, name))?;
        Ok((index, elements::<T>(name, self.regions[index].1.bytes())?))
    }

    /// Where its bytes come from.
    pub fn heap(&self) -> &Arc<dyn Heap> {
        &self.heap
    }

    /// The place that its bytes lie in.
    pub fn place(&self) -> &str {
        self.heap.place()
    }

    /// Checks that kernels of a place reach it.
    ///
    /// # Errors
    /// [`Error::OtherMemory`].
    pub fn check_place(&self, place: &str, program: &Program) -> Result<()> {
        let reached = self.place() == place;
        reached.then_some(()).ok_or_else(|| Error::OtherMemory { program: program.name.clone() })
    }

    /// Makes the regions of a program, and says where its buffers live; for devices.
    ///
    /// # Errors
    /// [`Error::Weight`], [`Error::Repack`], and those of the heap.
    pub fn bind(&mut self, program: &Program) -> Result<Vec<Place>> {
        let arena = self.reserve(Key::Arena, program.arena_bytes)?;
        let place = |buffer: &Buffer| {
            let key = match &buffer.kind {
                BufferKind::Weight(name) => return self.bind_weight(program, buffer, name, None),
                BufferKind::Planes { name, planes } => return self.bind_weight(program, buffer, name, Some(planes)),
                BufferKind::Arena(offset) => return Ok(Place::Region { region: arena, offset: *offset }),
                BufferKind::Input(name) => Key::Input(name.clone()),
                BufferKind::Output(name) => Key::Output(name.clone()),
                BufferKind::State(name) => Key::State(name.clone()),
                BufferKind::Const(bytes) => {
                    let key = Key::Const(digest::of_bytes(bytes));
                    let new = self.keys.get(&key).is_none();
                    let region = self.reserve(key, bytes.len())?;
                    if new {
                        self.regions[region].1.write(0, bytes)?;
                    }
                    return Ok(Place::Region { region, offset: 0 });
                }
            };
            let region = self.reserve(key, buffer.bytes)?;
            Ok(Place::Region { region, offset: 0 })
        };
        program.buffers.iter().map(place).collect()
    }

    fn bind_weight(
        &mut self,
        of: &Program,
        buffer: &Buffer,
        name: &str,
        planes: Option<&Arc<Planes>>,
    ) -> Result<Place> {
        let missing =
            |held| Error::Weight { program: of.name.clone(), weight: name.into(), needed: buffer.bytes, held };
        let index = *self.weight_names.get(name).ok_or_else(|| missing(0))?;
        let (place, held) = match planes {
            Some(planes) => {
                let packed = self.pack(index, name, planes)?;
                (Place::Packed(packed), self.packed[packed].bytes())
            }
            None => (Place::Weight(index), self.weights[index].bytes),
        };
        if held < buffer.bytes {
            return Err(missing(held));
        }
        let weight = &mut self.weights[index];
        if planes.is_none() && weight.placed.is_none() {
            weight.placed = weight.block(&*self.heap, name, None)?;
        }
        Ok(place)
    }

    /// The weight with its rows in planes; made when it is first asked for.
    fn pack(&mut self, weight: usize, name: &str, planes: &Arc<Planes>) -> Result<usize> {
        let key = (weight, planes.clone());
        if let Some(&index) = self.packed_of.get(&key) {
            return Ok(index);
        }
        let packed = self.weights[weight].block(&*self.heap, name, Some(planes))?;
        self.packed_of.insert(key, self.packed.len());
        self.packed.extend(packed);
        Ok(self.packed.len() - 1)
    }

    /// Makes sure that each of `workers` has `bytes` of scratch; for devices.
    ///
    /// # Errors
    /// Those of the heap.
    pub fn bind_scratch(&mut self, workers: usize, bytes: usize) -> Result<Vec<Place>> {
        let scratch = |worker| {
            let region = self.reserve(Key::Scratch(worker), bytes)?;
            Ok(Place::Region { region, offset: 0 })
        };
        (0..workers).map(scratch).collect()
    }

    /// The region of a key, of at least this size; what it holds is kept.
    fn reserve(&mut self, key: Key, bytes: usize) -> Result<usize> {
        let Some(index) = self.keys.get(&key) else {
            let block = self.block(&key, bytes)?;
            let index = self.regions.len();
            self.regions.push((key.clone(), block));
            self.keys.insert(key, index);
            return Ok(index);
        };
        let held = self.regions[index].1.bytes();
        if held < bytes {
            let mut grown = self.block(&key, bytes)?;
            if !matches!(key, Key::Arena | Key::Scratch(_)) {
                let mut kept = vec![0; held];
                self.regions[index].1.read(0, &mut kept)?;
                grown.write(0, &kept)?;
            }
            self.regions[index].1 = grown;
            self.moves += 1;
        }
        Ok(index)
    }

    fn block(&self, key: &Key, bytes: usize) -> Result<Box<dyn Block>> {
        match key {
            Key::Input(_) => self.heap.port(Port::Input, bytes, &key.purpose()),
            Key::Output(_) => self.heap.port(Port::Output, bytes, &key.purpose()),
            key => self.heap.allocate(bytes, &key.purpose()),
        }
    }

    /// Brings what the host has written to inputs to where kernels read it, for a heap of addresses that the host reaches.
    pub(crate) fn send_inputs(&mut self) {
        for (key, block) in &mut self.regions {
            let Some(near) = block.host().filter(|near| matches!(key, Key::Input(_)) && *near != block.address())
            else {
                continue;
            };
            // SAFETY: both are of this size, apart, and the memory is borrowed alone.
            unsafe { std::ptr::copy_nonoverlapping(near, block.address(), block.bytes()) };
        }
    }

    /// Lends bytes from these places on, which ascend; `None` if some overlap or lie outside. For heaps of addresses that
    /// the host reaches.
    pub(crate) fn lend(&mut self, wanted: impl IntoIterator<Item = (Place, usize)>) -> Option<Vec<Lent<'_>>> {
        // Of each region what lies behind the bytes that were lent.
        let mut rest: Vec<(&Key, usize, &mut [u8])> = Vec::with_capacity(self.regions.len());
        for (key, block) in &mut self.regions {
            // SAFETY: the block is borrowed alone as long as what is lent, and initialised.
            rest.push((key, 0, unsafe { std::slice::from_raw_parts_mut(block.address(), block.bytes()) }));
        }
        let lend = |(place, bytes)| {
            let (region, offset) = match place {
                Place::Weight(index) => {
                    let weight = &self.weights[index];
                    // SAFETY: weights are only read.
                    let all = unsafe { std::slice::from_raw_parts(weight.address(), weight.bytes) };
                    return all.get(..bytes).map(Lent::Read);
                }
                Place::Packed(index) => {
                    let block = &self.packed[index];
                    // SAFETY: as above.
                    let all = unsafe { std::slice::from_raw_parts(block.address(), block.bytes()) };
                    return all.get(..bytes).map(Lent::Read);
                }
                Place::Region { region, offset } => (region, offset),
            };
            let (key, start, free) = &mut rest[region];
            let (_, free_here) = std::mem::take(free).split_at_mut_checked(offset.checked_sub(*start)?)?;
            let (lent, left) = free_here.split_at_mut_checked(bytes)?;
            (*start, *free) = (offset + bytes, left);
            Some(match key {
                Key::Input(_) | Key::Const(_) => Lent::Read(lent),
                _ => Lent::Write(lent),
            })
        };
        wanted.into_iter().map(lend).collect()
    }

    /// The address of a place for kernels; it holds until [`Memory::moves`] changes.
    pub fn address(&self, place: Place) -> *mut u8 {
        match place {
            Place::Weight(index) => self.weights[index].address(),
            Place::Packed(index) => self.packed[index].address(),
            Place::Region { region, offset } => self.regions[region].1.address().wrapping_add(offset),
        }
    }

    /// The block of an input, by its place.
    pub fn input_block(&self, place: Place) -> Option<&dyn Block> {
        match place {
            Place::Region { region, .. } => match &self.regions[region] {
                (Key::Input(_), block) => Some(&**block),
                _ => None,
            },
            _ => None,
        }
    }

    /// What tells it from all others.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How often a region has moved.
    pub fn moves(&self) -> u64 {
        self.moves
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.usage())
    }
}

fn unknown(kind: &'static str, name: &str) -> Error {
    Error::UnknownRegion { kind, name: name.into() }
}

fn elements<T>(name: &str, bytes: usize) -> Result<usize> {
    let element_bytes = size_of::<T>();
    if !bytes.is_multiple_of(element_bytes) {
        return Err(Error::ViewSize { name: name.into(), bytes, element_bytes });
    }
    Ok(bytes / element_bytes)
}

mod sealed {
    pub trait Sealed {}
}

/// Element types of host views: plain numbers, any bit pattern allowed, at
/// most 8 bytes.
pub trait Element: sealed::Sealed + Copy + 'static {}

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {}
    )*};
}

elements!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;
    use compiler::program::Kernel;

    fn program(kinds: Vec<(BufferKind, usize)>, arena_bytes: usize) -> Program {
        let buffers = kinds.into_iter().map(|(kind, bytes)| Buffer { kind, bytes, name: "buffer".into() });
        Program {
            name: "test".into(),
            buffers: buffers.collect(),
            arena_bytes,
            kernels: vec![Kernel::of_source("k", "", 100)],
            ..Program::default()
        }
    }

    #[test]
    fn programs_share_regions_by_name_and_content() {
        let table = BufferKind::Const(vec![7; 40]);
        let one =
            program(vec![(BufferKind::State("kv".into()), 64), (table.clone(), 40), (BufferKind::Arena(128), 64)], 256);
        let two =
            program(vec![(table, 40), (BufferKind::State("kv".into()), 64), (BufferKind::Input("kv".into()), 8)], 512);
        let mut memory = Memory::new();
        let first = memory.bind(&one).unwrap();
        memory.write_state::<u8>("kv", 3, &[9]).unwrap();
        let arena = memory.address(first[2]);
        let moves = memory.moves();
        let second = memory.bind(&two).unwrap();
        assert_eq!(memory.moves(), moves + 1, "only the arena grew");
        assert_ne!(memory.address(first[2]), arena);
        assert_eq!(memory.address(first[0]), memory.address(second[1]));
        assert_eq!(memory.address(first[1]), memory.address(second[0]));
        assert_ne!(memory.address(second[1]), memory.address(second[2]));
        memory.bind_scratch(2, 100).unwrap();
        assert_eq!(memory.usage(), MemoryPlan::of(&[&one, &two], |_| 2));
        assert_eq!(memory.usage().allocated(), 64 + 40 + 8 + 512 + 200);
        let many = Program { many_tokens: true, ..two };
        let workers = |many_tokens| if many_tokens { 5 } else { 2 };
        assert_eq!(MemoryPlan::of(&[&one, &many], workers).scratch, 500);
        assert_eq!(MemoryPlan::of(&[&one], workers).scratch, 200);
    }

    #[test]
    fn a_state_that_grows_keeps_its_values() {
        let kv = |bytes| program(vec![(BufferKind::State("kv".into()), bytes)], 0);
        let mut memory = Memory::new();
        memory.bind(&kv(8)).unwrap();
        memory.write_state::<u32>("kv", 1, &[5]).unwrap();
        memory.bind(&kv(3 << 20)).unwrap();
        let state = memory.read_state::<u32>("kv").unwrap();
        assert_eq!((state[1], state.len()), (5, 3 << 18));
        assert!(state[2..].iter().all(|word| *word == 0));
    }

    #[test]
    fn weights_are_borrowed_and_checked() {
        let mut memory = Memory::new();
        let file: Arc<Vec<u8>> = Arc::new((0..=255).collect());
        let inside = file.as_ptr().wrapping_add(16);
        // SAFETY: the vector is never changed, and 64 bytes follow byte 48.
        unsafe { memory.add_weight("w", file.clone(), 16..48) }.unwrap();
        assert_eq!(memory.weight("w").unwrap().as_ptr(), inside);
        memory.copy_weight("v", &[1, 2, 3]).unwrap();
        assert_eq!(memory.weight("v").unwrap(), &[1, 2, 3]);
        // SAFETY: refused.
        let beyond = unsafe { memory.add_weight("x", file, 250..257) };
        assert!(matches!(beyond, Err(Error::WeightRange { .. })));

        let w = |name: &str, bytes| program(vec![(BufferKind::Weight(name.into()), bytes)], 0);
        assert!(memory.bind(&w("w", 32)).is_ok());
        let error = memory.bind(&w("w", 33)).unwrap_err().to_string();
        assert!(error.contains("33 bytes of weight w, memory holds 32"));
        assert!(memory.bind(&w("nothing", 1)).is_err());
        assert_eq!(memory.usage().weights, 35);
    }

    #[test]
    fn weights_that_are_made_late_are_kept_where_kernels_read_them() {
        use crate::heap::Apart;
        use std::sync::atomic::AtomicUsize;
        let w = program(vec![(BufferKind::Weight("w".into()), 40)], 0);
        let heaps: [Arc<dyn Heap>; 2] = [Arc::new(Host), Arc::new(Apart)];
        for (heap, on_host) in heaps.into_iter().zip([true, false]) {
            let made = Arc::new(AtomicUsize::new(0));
            let mut memory = Memory::on(heap);
            let count = made.clone();
            memory.add_late_weight("w".into(), 40, move |out| {
                count.fetch_add(1, Ordering::Relaxed);
                out.fill(7);
            });
            assert!(memory.weight("w").is_err() && memory.usage().weights == 0);
            let places = memory.bind(&w).unwrap();
            assert_eq!(memory.bind(&w).unwrap(), places);
            assert_eq!((made.load(Ordering::Relaxed), memory.usage().weights), (1, 40));
            assert_eq!(memory.weight("w").ok(), on_host.then_some(&[7; 40][..]));
            // SAFETY: blocks of both heaps are bytes of this process.
            let read = unsafe { std::slice::from_raw_parts(memory.address(places[0]), 40) };
            assert_eq!(read, [7; 40]);
        }
    }

    #[test]
    fn views_are_typed() {
        let mut memory = Memory::new();
        let io = program(vec![(BufferKind::Input("token".into()), 10), (BufferKind::Output("logits".into()), 16)], 0);
        memory.bind(&io).unwrap();
        assert_eq!(memory.input_mut::<i16>("token").unwrap().len(), 5);
        assert!(matches!(memory.input_mut::<i32>("token"), Err(Error::ViewSize { .. })));
        assert_eq!(memory.output::<f32>("logits").unwrap(), &[0.0; 4]);
        let error = memory.output::<f32>("token").unwrap_err().to_string();
        assert_eq!(error, "no output named token in memory");
    }

    #[test]
    fn too_large_a_state_is_an_error() {
        let huge = program(vec![(BufferKind::State("kv".into()), 1 << 60)], 0);
        let error = Memory::new().bind(&huge).unwrap_err().to_string();
        assert!(error.contains("state kv"), "{error}");
    }
}
