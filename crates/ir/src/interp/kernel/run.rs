//! The machine that runs bytecode.

use super::code::{Access, Buffer, Code, Inst, Reg, Site, Stmt};
use super::{Buffers, KernelError, SLACK, Slot, memory};
use crate::interp::Vars;
use crate::interp::lanes::{self, Class, Fault};
use crate::{DType, ReduceOp, Space};
use std::ops::Range;

/// The number of tasks of a kernel.
pub(super) fn task_count(code: &Code, vars: &Vars) -> Result<i64, KernelError> {
    let Some(extent) = code.extent else { return Ok(1) };
    let mut buffers = Buffers::new();
    let machine = Machine::start(code, &mut buffers, vars)?;
    Ok(machine.indices[extent as usize])
}

/// The state of a run.
pub(super) struct Machine<'k, 'b, 'a> {
    code: &'k Code,
    floats: Vec<f32>,
    ints: Vec<i32>,
    indices: Vec<i64>,
    /// Which accumulators the present task has set.
    set: Vec<bool>,
    scratch: Vec<Vec<u8>>,
    buffers: &'b mut Buffers<'a>,
    task: i64,
}

/// Splits a file before `dst` and yields the lanes of the result.
fn split<T>(file: &mut [T], dst: Reg, n: u32) -> (&[T], &mut [T]) {
    let (before, rest) = file.split_at_mut(dst as usize);
    (before, &mut rest[..n as usize])
}

fn lanes_of<T>(file: &[T], r: Reg, n: u32) -> &[T] {
    &file[r as usize..][..n as usize]
}

fn lanes_mut<T>(file: &mut [T], r: Reg, n: u32) -> &mut [T] {
    &mut file[r as usize..][..n as usize]
}

/// Runs the same code on the file of a class.
macro_rules! on_file {
    ($self:ident, $class:expr, |$file:ident| $do:expr) => {
        match $class {
            Class::Float => {
                let $file = &mut $self.floats[..];
                $do
            }
            Class::Int => {
                let $file = &mut $self.ints[..];
                $do
            }
            Class::Index => {
                let $file = &mut $self.indices[..];
                $do
            }
        }
    };
}

impl<'k, 'b, 'a> Machine<'k, 'b, 'a> {
    /// A machine with all parameters bound.
    pub fn new(code: &'k Code, buffers: &'b mut Buffers<'a>, vars: &Vars) -> Result<Self, KernelError> {
        for b in code.buffers.iter().filter(|b| b.space != Space::Task) {
            match (buffers.slots.get(b.slot as usize), b.space) {
                (None | Some(Slot::Empty), _) => return Err(KernelError::Unbound(b.slot)),
                (Some(Slot::Read(_)), Space::Output) => return Err(KernelError::ReadOnly(b.slot)),
                _ => {}
            }
        }
        Machine::start(code, buffers, vars)
    }

    fn start(code: &'k Code, buffers: &'b mut Buffers<'a>, vars: &Vars) -> Result<Self, KernelError> {
        let mut m = Machine {
            code,
            floats: code.floats.clone(),
            ints: code.ints.clone(),
            indices: code.indices.clone(),
            set: vec![false; code.accs],
            scratch: code.scratch.iter().map(|&n| vec![0; n]).collect(),
            buffers,
            task: 0,
        };
        for v in &code.vars {
            m.indices[v.dst as usize] = vars.get(&v.name, v.min, v.max)?;
        }
        m.instructions(&code.once)?;
        Ok(m)
    }

    pub fn run(&mut self, tasks: Range<i64>) -> Result<(), KernelError> {
        for task in tasks {
            self.task = task;
            self.set.fill(false);
            self.scratch.iter_mut().for_each(|s| memory::poison(s));
            if let Some(r) = self.code.task {
                self.indices[r as usize] = task;
            }
            self.instructions(&self.code.head)?;
            self.statements(&self.code.body)?;
        }
        Ok(())
    }

    fn statements(&mut self, statements: &[Stmt]) -> Result<(), KernelError> {
        for s in statements {
            match s {
                Stmt::Loop { code, extent, counter, head, body } => {
                    self.instructions(code)?;
                    for i in 0..self.indices[*extent as usize] {
                        self.indices[*counter as usize] = i;
                        self.instructions(head)?;
                        self.statements(body)?;
                    }
                }
                Stmt::If { code, condition, body } => {
                    self.instructions(code)?;
                    if self.ints[*condition as usize] != 0 {
                        self.statements(body)?;
                    }
                }
                Stmt::Store { code, access, value, condition } => {
                    self.instructions(code)?;
                    self.store(access, *value, *condition)?;
                }
                Stmt::Set { code, moves } => {
                    self.instructions(code)?;
                    for m in moves {
                        let from = m.from as usize;
                        on_file!(self, m.class, |file| file.copy_within(from..from + m.lanes as usize, m.to as usize));
                        self.set[m.acc as usize] = true;
                    }
                }
            }
        }
        Ok(())
    }

    fn instructions(&mut self, code: &[Inst]) -> Result<(), KernelError> {
        code.iter().try_for_each(|i| self.instruction(i))
    }

    fn instruction(&mut self, inst: &Inst) -> Result<(), KernelError> {
        match *inst {
            Inst::AddIndex { dst, a, b } => {
                self.indices[dst as usize] = self.indices[a as usize].wrapping_add(self.indices[b as usize]);
            }
            Inst::MulIndex { dst, a, b } => {
                self.indices[dst as usize] = self.indices[a as usize].wrapping_mul(self.indices[b as usize]);
            }
            Inst::Binary { op, ty, dst, a, b, n, site } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (file, out) = split(&mut self.floats, dst, n);
                        lanes::binary_float(op, ty, lanes_of(file, a, n), lanes_of(file, b, n), out)
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, dst, n);
                        lanes::binary_int(op, ty, lanes_of(file, a, n), lanes_of(file, b, n), out)
                    }
                    Class::Index => {
                        let (file, out) = split(&mut self.indices, dst, n);
                        lanes::binary_index(op, lanes_of(file, a, n), lanes_of(file, b, n), out)
                    }
                };
                done.map_err(|fault| self.fault(site, fault))?;
            }
            Inst::Unary { op, ty, dst, a, n } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (file, out) = split(&mut self.floats, dst, n);
                        lanes::unary_float(op, ty, lanes_of(file, a, n), out)
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, dst, n);
                        lanes::unary_int(op, ty, lanes_of(file, a, n), out)
                    }
                    Class::Index => {
                        let (file, out) = split(&mut self.indices, dst, n);
                        lanes::unary_index(op, lanes_of(file, a, n), out)
                    }
                };
                done.map_err(|fault| self.fault(Site::MAX, fault))?;
            }
            Inst::Compare { op, ty, dst, a, b, n } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (a, b) = (lanes_of(&self.floats, a, n), lanes_of(&self.floats, b, n));
                        lanes::compare(op, a, b, lanes_mut(&mut self.ints, dst, n))
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, dst, n);
                        lanes::compare_int(op, ty, lanes_of(file, a, n), lanes_of(file, b, n), out)
                    }
                    Class::Index => {
                        let (a, b) = (lanes_of(&self.indices, a, n), lanes_of(&self.indices, b, n));
                        lanes::compare(op, a, b, lanes_mut(&mut self.ints, dst, n))
                    }
                };
                done.map_err(|fault| self.fault(Site::MAX, fault))?;
            }
            Inst::Select { class, dst, c, conditions, a, b, n } => match class {
                Class::Float => {
                    let (file, out) = split(&mut self.floats, dst, n);
                    let c = lanes_of(&self.ints, c, conditions);
                    lanes::select(c, lanes_of(file, a, n), lanes_of(file, b, n), out);
                }
                Class::Int => {
                    let (file, out) = split(&mut self.ints, dst, n);
                    lanes::select(lanes_of(file, c, conditions), lanes_of(file, a, n), lanes_of(file, b, n), out);
                }
                Class::Index => {
                    let (file, out) = split(&mut self.indices, dst, n);
                    let c = lanes_of(&self.ints, c, conditions);
                    lanes::select(c, lanes_of(file, a, n), lanes_of(file, b, n), out);
                }
            },
            Inst::Cast { from, to, dst, a, n } => self.cast(from, to, dst, a, n),
            Inst::Load { ref access, dst } => self.load(access, dst)?,
            Inst::Copy { class, dst, a, n } => {
                on_file!(self, class, |file| file.copy_within(a as usize..(a + n) as usize, dst as usize));
            }
            Inst::Splat { class, dst, a, n } => {
                on_file!(self, class, |file| {
                    let v = file[a as usize];
                    lanes_mut(file, dst, n).fill(v);
                });
            }
            Inst::Shuffle { class, dst, a, ref map } => {
                on_file!(self, class, |file| {
                    let (file, out) = split(file, dst, map.len() as u32);
                    for (o, &lane) in out.iter_mut().zip(map) {
                        *o = file[a as usize + lane as usize];
                    }
                });
            }
            Inst::Join { class, dst, ref parts } => {
                on_file!(self, class, |file| {
                    let mut at = dst as usize;
                    for &(r, n) in parts {
                        file.copy_within(r as usize..(r + n) as usize, at);
                        at += n as usize;
                    }
                });
            }
            Inst::Dot4 { dst, sums, codes, values, n } => {
                let (file, out) = split(&mut self.ints, dst, n);
                let codes = lanes_of(file, codes, 4 * n).as_chunks::<4>().0;
                let values = lanes_of(file, values, 4 * n).as_chunks::<4>().0;
                let sums = lanes_of(file, sums, n);
                for (((o, &sum), c), v) in out.iter_mut().zip(sums).zip(codes).zip(values) {
                    // A product of a u8 and an i8 needs 16 bits.
                    *o = sum.wrapping_add(c[0] * v[0] + c[1] * v[1] + c[2] * v[2] + c[3] * v[3]);
                }
            }
            Inst::Across { op, ty, dst, a, n } => match Class::of(ty) {
                Class::Float => self.floats[dst as usize] = across_floats(op, ty, lanes_of(&self.floats, a, n)),
                Class::Int => {
                    let each = lanes_of(&self.ints, a, n).iter().map(|&v| lanes::int_value(ty, v));
                    self.ints[dst as usize] = lanes::int_bits(ty, across_integers(op, each));
                }
                Class::Index => {
                    let each = lanes_of(&self.indices, a, n).iter().copied();
                    self.indices[dst as usize] = across_integers(op, each);
                }
            },
            Inst::Lookup { class, dst, table, entries, index: at, n, site } => {
                let index = lanes_of(&self.ints, at, n);
                if index.iter().any(|&i| i < 0 || i as u32 >= entries) {
                    return Err(self.fault(site, Fault::Lookup));
                }
                match class {
                    Class::Float => look_up(&mut self.floats, dst, table, index),
                    Class::Index => look_up(&mut self.indices, dst, table, index),
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, dst, n);
                        // The indices live in this file too.
                        for (o, &i) in out.iter_mut().zip(lanes_of(file, at, n)) {
                            *o = file[table as usize + i as usize];
                        }
                    }
                }
            }
            Inst::Check { acc, site } => {
                if !self.set[acc as usize] {
                    return Err(KernelError::Unset { task: self.task, node: self.text(site) });
                }
            }
        }
        Ok(())
    }

    fn cast(&mut self, from: DType, to: DType, dst: Reg, a: Reg, n: u32) {
        use Class::{Float, Index, Int};
        match (Class::of(from), Class::of(to)) {
            (Float, Float) => {
                let (file, out) = split(&mut self.floats, dst, n);
                lanes::float_to_float(to, lanes_of(file, a, n), out);
            }
            (Float, Int) => {
                lanes::float_to_int(to, lanes_of(&self.floats, a, n), lanes_mut(&mut self.ints, dst, n));
            }
            (Float, Index) => {
                lanes::float_to_index(lanes_of(&self.floats, a, n), lanes_mut(&mut self.indices, dst, n));
            }
            (Int, Float) => {
                lanes::int_to_float(from, to, lanes_of(&self.ints, a, n), lanes_mut(&mut self.floats, dst, n));
            }
            (Int, Int) => {
                let (file, out) = split(&mut self.ints, dst, n);
                lanes::int_to_int(to, lanes_of(file, a, n), out);
            }
            (Int, Index) => {
                lanes::int_to_index(from, lanes_of(&self.ints, a, n), lanes_mut(&mut self.indices, dst, n));
            }
            (Index, Float) => {
                lanes::index_to_float(to, lanes_of(&self.indices, a, n), lanes_mut(&mut self.floats, dst, n));
            }
            (Index, Int) => {
                lanes::index_to_int(to, lanes_of(&self.indices, a, n), lanes_mut(&mut self.ints, dst, n));
            }
            (Index, Index) => {
                let (file, out) = split(&mut self.indices, dst, n);
                out.copy_from_slice(lanes_of(file, a, n));
            }
        }
    }

    fn load(&mut self, access: &Access, dst: Reg) -> Result<(), KernelError> {
        let index = self.indices[access.index as usize];
        let buffer = &self.code.buffers[access.buffer as usize];
        let bytes: &[u8] = match (buffer.space, &self.buffers.slots.get(buffer.slot as usize)) {
            (Space::Task, _) => &self.scratch[buffer.slot as usize],
            (_, Some(Slot::Read(bytes))) => bytes,
            (_, Some(Slot::Write(bytes))) => bytes,
            _ => &[],
        };
        let size = access.lanes as usize * access.ty.bytes();
        let spare = if buffer.space == Space::Input { SLACK } else { 0 };
        let range = byte_range(buffer, index, size).filter(|r| r.end <= bytes.len() + spare);
        let Some(range) = range else { return Err(self.out_of_bounds(access, index, bytes.len())) };
        let mut behind = vec![];
        let found = match bytes.get(range.clone()) {
            Some(found) => found,
            None => {
                let tail = bytes.get(range.start..).unwrap_or_default();
                behind.resize(size, 0);
                memory::poison(&mut behind);
                behind[..tail.len()].copy_from_slice(tail);
                &behind
            }
        };
        match Class::of(access.ty) {
            Class::Float => {
                memory::read_floats(access.ty, found, lanes_mut(&mut self.floats, dst, access.lanes));
            }
            Class::Int => memory::read_ints(access.ty, found, lanes_mut(&mut self.ints, dst, access.lanes)),
            Class::Index => memory::read_indices(found, lanes_mut(&mut self.indices, dst, access.lanes)),
        }
        Ok(())
    }

    fn store(&mut self, access: &Access, value: Reg, condition: Option<(Reg, u32)>) -> Result<(), KernelError> {
        let (ty, lanes) = (access.ty, access.lanes);
        let masks = match condition {
            None => &[][..],
            Some((c, n)) => lanes_of(&self.ints, c, n),
        };
        if !masks.is_empty() && masks.iter().all(|&m| m == 0) {
            return Ok(());
        }
        let index = self.indices[access.index as usize];
        let buffer = &self.code.buffers[access.buffer as usize];
        let bytes: &mut [u8] = match (buffer.space, self.buffers.slots.get_mut(buffer.slot as usize)) {
            (Space::Task, _) => &mut self.scratch[buffer.slot as usize],
            (_, Some(Slot::Write(bytes))) => bytes,
            _ => return Err(KernelError::ReadOnly(buffer.slot)),
        };
        let len = bytes.len();
        let each = ty.bytes();
        let masked = masks.contains(&0);
        // Lanes that are switched off may lie outside.
        let live = |lane: usize| !masked || masks[lane] != 0;
        for lane in 0..if masked { lanes as usize } else { 1 } {
            if !live(lane) {
                continue;
            }
            let (first, n) = if masked { (lane, 1) } else { (0, lanes as usize) };
            let range = byte_range(buffer, index, (first + n) * each)
                .map(|r| r.start + first * each..r.end)
                .filter(|r| r.end <= len);
            let Some(range) = range else { return Err(self.out_of_bounds(access, index, len)) };
            let (out, from, n) = (&mut bytes[range], value + first as Reg, n as u32);
            match Class::of(ty) {
                Class::Float => memory::write_floats(ty, lanes_of(&self.floats, from, n), out),
                Class::Int => memory::write_ints(ty, lanes_of(&self.ints, from, n), out),
                Class::Index => memory::write_indices(lanes_of(&self.indices, from, n), out),
            }
        }
        Ok(())
    }

    fn text(&self, site: Site) -> String {
        self.code.sites.get(site as usize).cloned().unwrap_or_default()
    }

    fn fault(&self, site: Site, fault: Fault) -> KernelError {
        KernelError::Fault { task: self.task, node: self.text(site), fault }
    }

    fn out_of_bounds(&self, access: &Access, index: i64, bytes: usize) -> KernelError {
        let buffer = &self.code.buffers[access.buffer as usize];
        KernelError::OutOfBounds {
            task: self.task,
            node: self.text(access.site),
            buffer: buffer.name.clone(),
            index,
            lanes: access.lanes,
            len: bytes / buffer.element,
        }
    }
}

fn byte_range(buffer: &Buffer, index: i64, size: usize) -> Option<Range<usize>> {
    let start = usize::try_from(index).ok()?.checked_mul(buffer.element)?;
    Some(start..start.checked_add(size)?)
}

fn look_up<T: Copy>(file: &mut [T], dst: Reg, table: Reg, index: &[i32]) {
    let (file, out) = split(file, dst, index.len() as u32);
    for (o, &i) in out.iter_mut().zip(index) {
        *o = file[table as usize + i as usize];
    }
}

/// The upper half of the lanes is folded onto the lower until one is left, as
/// vector machines do; with an odd number the middle lane waits.
fn across_floats(op: ReduceOp, ty: DType, v: &[f32]) -> f32 {
    let mut v = v.to_vec();
    while v.len() > 1 {
        let kept = v.len().div_ceil(2);
        let (low, high) = v.split_at_mut(kept);
        for (a, &b) in low.iter_mut().zip(&*high) {
            *a = match op {
                ReduceOp::Sum => *a + b,
                ReduceOp::Max => lanes::max_f32(*a, b),
            };
        }
        lanes::round(ty, low);
        v.truncate(kept);
    }
    v[0]
}

fn across_integers(op: ReduceOp, each: impl Iterator<Item = i64>) -> i64 {
    match op {
        ReduceOp::Sum => each.fold(0, i64::wrapping_add),
        ReduceOp::Max => each.max().unwrap_or(i64::MIN),
    }
}
