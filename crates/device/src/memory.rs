//! Named memory that programs share.
//!
//! The decode and the mixed program of a model bind the same weights, state,
//! inputs, outputs and arena. A region is made when the first program that
//! names it is loaded, and grows when a later one needs more; programs look
//! their addresses up again when that has happened.
//!
//! A step borrows the whole memory alone, so the host never reads what a
//! kernel is writing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compiler::program::{Buffer, BufferKind, Program};
use gguf::format::Planes;

use crate::digest::{self, Digest};
use crate::error::{Error, Result};
use crate::region::Region;

/// Bytes that somebody else owns, for example a mapped file.
pub type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What identifies a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Input(String),
    Output(String),
    State(String),
    Const(Digest),
    Arena,
    Scratch(usize),
}

impl Key {
    fn purpose(&self) -> String {
        match self {
            Key::Input(name) => format!("input {name}"),
            Key::Output(name) => format!("output {name}"),
            Key::State(name) => format!("state {name}"),
            Key::Const(_) => "a table".into(),
            Key::Arena => "the arena".into(),
            Key::Scratch(worker) => format!("the scratch of worker {worker}"),
        }
    }
}

/// A weight: part of what its owner holds.
struct Weight {
    start: *const u8,
    bytes: usize,
    _owner: Owner,
}

// SAFETY: the bytes are only read, and the owner may be shared by threads.
unsafe impl Send for Weight {}
// SAFETY: as above.
unsafe impl Sync for Weight {}

impl Weight {
    /// What a region holds that nobody else can reach.
    fn owned(region: Region) -> Weight {
        Weight { start: region.start(), bytes: region.bytes(), _owner: Arc::new(region) }
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes are in place and unchanged as long as their owner lives: a region that was given away does
        // not move its own, and the caller of `add_weight` has promised it.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// Where a buffer of a program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Weight(usize),
    Region { region: usize, offset: usize },
}

/// Bytes of a buffer during a launch.
pub(crate) enum Lent<'a> {
    /// What the host, a file or the compiler wrote.
    Read(&'a [u8]),
    /// What kernels write.
    Write(&'a mut [u8]),
}

/// The memory of a model on the host.
pub struct Memory {
    id: u64,
    /// Counts the times that a region has moved.
    moves: u64,
    weights: Vec<Weight>,
    weight_names: HashMap<String, usize>,
    /// Weights with their rows in planes, by the weight that these were made of.
    repacked: HashMap<(usize, Arc<Planes>), usize>,
    /// What each is for, and its bytes.
    regions: Vec<(Key, Region)>,
    keys: Keys,
}

/// Finds regions. The host looks inputs and outputs up in every step, so that must not take a key that owns its name.
#[derive(Default)]
struct Keys {
    inputs: HashMap<String, usize>,
    outputs: HashMap<String, usize>,
    states: HashMap<String, usize>,
    unnamed: HashMap<Key, usize>,
}

impl Keys {
    fn get(&self, key: &Key) -> Option<usize> {
        let found = match key {
            Key::Input(name) => self.inputs.get(name),
            Key::Output(name) => self.outputs.get(name),
            Key::State(name) => self.states.get(name),
            key => self.unnamed.get(key),
        };
        found.copied()
    }

    fn insert(&mut self, key: Key, region: usize) {
        match key {
            Key::Input(name) => self.inputs.insert(name, region),
            Key::Output(name) => self.outputs.insert(name, region),
            Key::State(name) => self.states.insert(name, region),
            key => self.unnamed.insert(key, region),
        };
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// Memory that holds nothing.
    pub fn new() -> Memory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Memory {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            moves: 0,
            weights: Vec::new(),
            weight_names: HashMap::new(),
            repacked: HashMap::new(),
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
        self.name_weight(name, Weight { start, bytes, _owner: owner });
        Ok(())
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
        self.name_weight(name, Weight::owned(region));
        Ok(())
    }

    /// The bytes of a weight.
    ///
    /// # Errors
    /// [`Error::UnknownRegion`].
    pub fn weight(&self, name: &str) -> Result<&[u8]> {
        let index = self.weight_names.get(name).ok_or_else(|| unknown("weight", name))?;
        Ok(self.weights[*index].as_slice())
    }

    /// An input, to be written before a step.
    ///
    /// # Errors
    /// [`Error::UnknownRegion`] if no loaded program has it,
    /// [`Error::ViewSize`] if its bytes are no whole number of elements.
    pub fn input_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let index = self.keys.inputs.get(name).copied();
        self.view_mut(index, "input", name)
    }

    /// An output, as the last step left it.
    ///
    /// # Errors
    /// As [`Memory::input_mut`].
    pub fn output<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.view(self.keys.outputs.get(name), "output", name)
    }

    /// A state, as the last step left it.
    ///
    /// # Errors
    /// As [`Memory::input_mut`].
    pub fn state<T: Element>(&self, name: &str) -> Result<&[T]> {
        self.view(self.keys.states.get(name), "state", name)
    }

    /// A state, to be changed between steps. States start as zeros.
    ///
    /// # Errors
    /// As [`Memory::input_mut`].
    pub fn state_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T]> {
        let index = self.keys.states.get(name).copied();
        self.view_mut(index, "state", name)
    }

    /// What is held now.
    pub fn usage(&self) -> MemoryPlan {
        let mut plan =
            MemoryPlan { weights: self.weights.iter().map(|weight| weight.bytes).sum(), ..MemoryPlan::default() };
        for (key, region) in &self.regions {
            plan.add(key, region.bytes());
        }
        plan
    }

    fn view<T: Element>(&self, index: Option<&usize>, kind: &'static str, name: &str) -> Result<&[T]> {
        let (_, region) = index.map(|index| &self.regions[*index]).ok_or_else(|| unknown(kind, name))?;
        let length = elements::<T>(name, region.bytes())?;
        // SAFETY: the region is aligned for any element and initialised, every
        // bit pattern is an `Element`, and steps borrow the memory alone.
        Ok(unsafe { std::slice::from_raw_parts(region.start().cast(), length) })
    }

    fn view_mut<T: Element>(&mut self, index: Option<usize>, kind: &'static str, name: &str) -> Result<&mut [T]> {
        let (_, region) = index.map(|index| &mut self.regions[index]).ok_or_else(|| unknown(kind, name))?;
        let length = elements::<T>(name, region.bytes())?;
        // SAFETY: as in `view`, and the memory is borrowed alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(region.start().cast(), length) })
    }

    /// Makes the regions of a program, and says where its buffers live.
    pub(crate) fn bind(&mut self, program: &Program) -> Result<Vec<Place>> {
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
                        self.regions[region].1.as_mut_slice().copy_from_slice(bytes);
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
        let mut index = self.weight_names.get(name).copied();
        if let (Some(index), Some(planes)) = (&mut index, planes) {
            *index = self.repack(*index, name, planes)?;
        }
        let (needed, held) = (buffer.bytes, index.map_or(0, |i| self.weights[i].bytes));
        match index {
            Some(index) if held >= needed => Ok(Place::Weight(index)),
            _ => Err(Error::Weight { program: of.name.clone(), weight: name.into(), needed, held }),
        }
    }

    /// The weight with its rows in planes; made when it is first asked for.
    fn repack(&mut self, weight: usize, name: &str, planes: &Arc<Planes>) -> Result<usize> {
        let key = (weight, planes.clone());
        if let Some(&index) = self.repacked.get(&key) {
            return Ok(index);
        }
        let data = self.weights[weight].as_slice();
        let mut region = Region::new(planes.packed_bytes(data.len()).unwrap_or(0), &format!("weight {name}"))?;
        let packed = planes.pack(data, region.as_mut_slice());
        packed.map_err(|problem| Error::Repack { weight: name.into(), problem })?;
        self.repacked.insert(key, self.weights.len());
        self.weights.push(Weight::owned(region));
        Ok(self.weights.len() - 1)
    }

    /// Makes sure that each of `workers` has `bytes` of scratch.
    pub(crate) fn bind_scratch(&mut self, workers: usize, bytes: usize) -> Result<Vec<Place>> {
        let scratch = |worker| {
            let region = self.reserve(Key::Scratch(worker), bytes)?;
            Ok(Place::Region { region, offset: 0 })
        };
        (0..workers).map(scratch).collect()
    }

    /// The region of a key, of at least this size; what it holds is kept.
    fn reserve(&mut self, key: Key, bytes: usize) -> Result<usize> {
        let Some(index) = self.keys.get(&key) else {
            let region = Region::new(bytes, &key.purpose())?;
            let index = self.regions.len();
            self.regions.push((key.clone(), region));
            self.keys.insert(key, index);
            return Ok(index);
        };
        let region = &mut self.regions[index].1;
        let held = region.bytes();
        if held < bytes {
            let mut grown = Region::new(bytes, &key.purpose())?;
            if !matches!(key, Key::Arena | Key::Scratch(_)) {
                grown.as_mut_slice()[..held].copy_from_slice(region.as_slice());
            }
            *region = grown;
            self.moves += 1;
        }
        Ok(index)
    }

    /// Lends bytes from these places on, which ascend; `None` if some overlap or lie outside.
    pub(crate) fn lend(&mut self, wanted: impl IntoIterator<Item = (Place, usize)>) -> Option<Vec<Lent<'_>>> {
        // Of each region what lies behind the bytes that were lent.
        let mut rest: Vec<(&Key, usize, &mut [u8])> =
            self.regions.iter_mut().map(|(key, region)| (&*key, 0, region.as_mut_slice())).collect();
        let lend = |(place, bytes)| {
            let (region, offset) = match place {
                Place::Weight(index) => return self.weights[index].as_slice().get(..bytes).map(Lent::Read),
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

    /// The address of a place; it holds until [`Memory::moves`] changes.
    pub(crate) fn address(&self, place: Place) -> *mut u8 {
        match place {
            Place::Weight(index) => self.weights[index].start.cast_mut(),
            Place::Region { region, offset } => self.regions[region].1.start().wrapping_add(offset),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn moves(&self) -> u64 {
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

/// Bytes by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Tensors of the model file; mapped, not allocated, unless they were copied or repacked.
    pub weights: usize,
    /// What lives from step to step, the cache above all.
    pub states: usize,
    /// Written by the host.
    pub inputs: usize,
    /// Read by the host.
    pub outputs: usize,
    /// Tables computed at compile time.
    pub consts: usize,
    /// Scratch between kernels.
    pub arena: usize,
    /// Scratch of the workers.
    pub scratch: usize,
}

impl MemoryPlan {
    /// What these programs will take together before anything is loaded, on so many workers in steps of few tokens, or of
    /// many ([`Program::many_tokens`]). Slack and rounding to pages are left out.
    pub fn of(programs: &[&Program], workers: impl Fn(bool) -> usize) -> MemoryPlan {
        let mut weights: BTreeMap<&str, usize> = BTreeMap::new();
        let mut regions: BTreeMap<Key, usize> = BTreeMap::new();
        let mut need = |key: Key, bytes: usize| {
            let held = regions.entry(key).or_default();
            *held = bytes.max(*held);
        };
        for program in programs {
            need(Key::Arena, program.arena_bytes);
            let scratch = program.kernels.iter().map(|k| k.geometry.scratch_bytes).max();
            for worker in 0..workers(program.many_tokens) {
                need(Key::Scratch(worker), scratch.unwrap_or(0));
            }
            for buffer in &program.buffers {
                match &buffer.kind {
                    BufferKind::Weight(name) | BufferKind::Planes { name, .. } => {
                        let held = weights.entry(name).or_default();
                        *held = buffer.bytes.max(*held);
                    }
                    BufferKind::Input(name) => need(Key::Input(name.clone()), buffer.bytes),
                    BufferKind::Output(name) => need(Key::Output(name.clone()), buffer.bytes),
                    BufferKind::State(name) => need(Key::State(name.clone()), buffer.bytes),
                    BufferKind::Const(bytes) => {
                        need(Key::Const(digest::of_bytes(bytes)), bytes.len());
                    }
                    BufferKind::Arena(_) => {}
                }
            }
        }
        let mut plan = MemoryPlan { weights: weights.values().sum(), ..MemoryPlan::default() };
        for (key, bytes) in &regions {
            plan.add(key, *bytes);
        }
        plan
    }

    /// What is allocated: everything but the weights.
    pub fn allocated(&self) -> usize {
        self.states + self.inputs + self.outputs + self.consts + self.arena + self.scratch
    }

    fn add(&mut self, key: &Key, bytes: usize) {
        let part = match key {
            Key::Input(_) => &mut self.inputs,
            Key::Output(_) => &mut self.outputs,
            Key::State(_) => &mut self.states,
            Key::Const(_) => &mut self.consts,
            Key::Arena => &mut self.arena,
            Key::Scratch(_) => &mut self.scratch,
        };
        *part += bytes;
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "weights {:.1} MiB, state {:.1}, arena {:.1}, inputs {:.1}, outputs {:.1}, tables {:.1}, scratch {:.1}",
            mib(self.weights),
            mib(self.states),
            mib(self.arena),
            mib(self.inputs),
            mib(self.outputs),
            mib(self.consts),
            mib(self.scratch),
        )
    }
}

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
        memory.state_mut::<u8>("kv").unwrap()[3] = 9;
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
        memory.state_mut::<u32>("kv").unwrap()[1] = 5;
        memory.bind(&kv(3 << 20)).unwrap();
        let state = memory.state::<u32>("kv").unwrap();
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
