//! The machine that runs bytecode.

use super::code::{Access, Buffer, Code, Inst, Reg, Site, Stmt};
use super::races::Races;
use super::{Buffers, KernelError, SLACK, Slot, memory, warp};
use crate::interp::Vars;
use crate::interp::lanes::{self, Class, Fault};
use crate::{DType, FRAGMENT_LANES, PRODUCT, ReduceOp, Space};
use std::ops::Range;

/// The number of tasks of a kernel.
pub(super) fn task_count(code: &Code, vars: &Vars) -> Result<i64, KernelError> {
    let Some(extent) = code.extent else { return Ok(1) };
    let mut buffers = Buffers::new();
    let machine = Machine::<false>::start(code, &mut buffers, vars)?;
    Ok(machine.indices[extent as usize * code.threads])
}

/// The state of a run.
///
/// A register holds its value for every thread of a block, so its lanes are `width` apart: all threads of a block do
/// the same instruction at once, and statements in branches are for those that are active. On a CPU a block is one
/// thread; `ONE` says so to the compiler of this machine.
pub(super) struct Machine<'k, 'b, 'a, const ONE: bool> {
    code: &'k Code,
    floats: Vec<f32>,
    ints: Vec<i32>,
    indices: Vec<i64>,
    /// Which accumulators each thread has set in the present task.
    set: Vec<bool>,
    /// Threads that run the present statement.
    active: Vec<bool>,
    /// Whether the launches before this one are known to be over.
    waited: bool,
    scratch: Vec<Vec<u8>>,
    /// Who touched the scratch since the last barrier, if a block has several threads.
    races: Vec<Races>,
    buffers: &'b mut Buffers<'a>,
    task: i64,
}

/// Splits a file before `dst` and yields the lanes of the result.
fn split<T>(file: &mut [T], w: usize, dst: Reg, n: u32) -> (&[T], &mut [T]) {
    let (before, rest) = file.split_at_mut(dst as usize * w);
    (before, &mut rest[..n as usize * w])
}

/// Adds the products of an [`Op::Product`](crate::Op::Product) to its sums; `at` finds a lane.
fn add_product(sums: &mut [f32], rows: &[f32], tokens: &[f32], steps: usize, at: impl Fn(usize) -> usize) {
    const HALF: usize = PRODUCT / 2;
    for (row, token) in (0..PRODUCT).flat_map(|row| (0..PRODUCT).map(move |token| (row, token))) {
        let tile = row / HALF * 2 + token / HALF;
        let sum = &mut sums[at((tile * HALF + row % HALF) * HALF + token % HALF)];
        for (step, k) in (0..steps).flat_map(|step| (0..PRODUCT).map(move |k| (step, k))) {
            let first = step * PRODUCT * PRODUCT;
            let pair = (token / HALF * HALF + k / 2) * HALF + token % HALF;
            *sum += rows[at(first + row * PRODUCT + k)] * tokens[at(first + pair * 2 + k % 2)];
        }
    }
}

fn lanes_of<T>(file: &[T], w: usize, r: Reg, n: u32) -> &[T] {
    &file[r as usize * w..][..n as usize * w]
}

fn lanes_mut<T>(file: &mut [T], w: usize, r: Reg, n: u32) -> &mut [T] {
    &mut file[r as usize * w..][..n as usize * w]
}

/// The lanes of one thread.
fn thread_lanes<T: Copy>(file: &[T], w: usize, r: Reg, n: u32, thread: usize) -> impl Iterator<Item = T> {
    lanes_of(file, w, r, n).iter().skip(thread).step_by(w).copied()
}

fn repeated<T: Copy>(values: &[T], w: usize) -> Vec<T> {
    values.iter().flat_map(|&v| std::iter::repeat_n(v, w)).collect()
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

impl<'k, 'b, 'a, const ONE: bool> Machine<'k, 'b, 'a, ONE> {
    /// Threads of a block.
    #[inline(always)]
    fn width(&self) -> usize {
        if ONE { 1 } else { self.code.threads }
    }

    /// A machine with all parameters bound.
    pub fn new(code: &'k Code, buffers: &'b mut Buffers<'a>, vars: &Vars) -> Result<Self, KernelError> {
        for b in code.buffers.iter().filter(|b| !b.space.is_scratch()) {
            match (buffers.slots.get(b.slot as usize), b.space) {
                (None | Some(Slot::Empty), _) => return Err(KernelError::Unbound(b.slot)),
                (Some(Slot::Read(_)), Space::Output) => return Err(KernelError::ReadOnly(b.slot)),
                _ => {}
            }
        }
        Machine::start(code, buffers, vars)
    }

    fn start(code: &'k Code, buffers: &'b mut Buffers<'a>, vars: &Vars) -> Result<Self, KernelError> {
        let width = if ONE { 1 } else { code.threads };
        let mut m = Machine {
            code,
            floats: repeated(&code.floats, width),
            ints: repeated(&code.ints, width),
            indices: repeated(&code.indices, width),
            set: vec![false; code.accs * width],
            active: vec![true; width],
            waited: true,
            scratch: code.scratch.iter().map(|&n| vec![0; n]).collect(),
            races: code.scratch.iter().map(|&n| Races::new(if width > 1 { n } else { 0 })).collect(),
            buffers,
            task: 0,
        };
        for v in &code.vars {
            let value = vars.get(&v.name, v.min, v.max)?;
            lanes_mut(&mut m.indices, width, v.dst, 1).fill(value);
        }
        for thread in 0..width {
            let mut put = |r: Option<Reg>, v: usize| {
                if let Some(r) = r {
                    m.indices[r as usize * width + thread] = v as i64;
                }
            };
            put(code.warp, thread / code.lanes);
            put(code.lane, thread % code.lanes);
        }
        m.instructions(&code.once)?;
        Ok(m)
    }

    pub fn run(&mut self, tasks: Range<i64>) -> Result<(), KernelError> {
        for task in tasks {
            self.task = task;
            self.set.fill(false);
            self.waited = !self.code.waits;
            self.scratch.iter_mut().for_each(|s| memory::poison(s));
            self.races.iter_mut().for_each(Races::barrier);
            if let Some(r) = self.code.task {
                let w = self.width();
                lanes_mut(&mut self.indices, w, r, 1).fill(task);
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
                    self.rounds(*extent, *counter, head, body)?;
                }
                Stmt::If { code, condition, body } => {
                    self.instructions(code)?;
                    let truth = lanes_of(&self.ints, self.width(), *condition, 1);
                    if self.active.iter().zip(truth).all(|(&a, &c)| !a || c != 0) {
                        self.statements(body)?;
                    } else if self.width() > 1 {
                        let taken = self.active.iter().zip(truth).map(|(&a, &c)| a && c != 0).collect();
                        self.among(taken, |m| m.statements(body))?;
                    }
                }
                Stmt::Store { code, access, value, condition } => {
                    self.instructions(code)?;
                    for thread in 0..self.width() {
                        if self.active[thread] {
                            let index = self.indices[access.index as usize * self.width() + thread];
                            self.store(access, index, *value, *condition, thread)?;
                        }
                    }
                }
                Stmt::StoreFragment { code, access, value, sums, pitch } => {
                    self.instructions(code)?;
                    self.whole_warps(access.site)?;
                    for (thread, sum) in (0..self.width()).flat_map(|thread| (0..*sums).map(move |sum| (thread, sum))) {
                        if self.active[thread] {
                            let (row, column) = warp::sum(thread % FRAGMENT_LANES, sum as usize);
                            let index = self.indices[access.index as usize * self.width() + thread];
                            let index = index + (column * *pitch as usize + row) as i64;
                            self.store(access, index, value + sum, None, thread)?;
                        }
                    }
                }
                Stmt::Set { code, moves } => {
                    self.instructions(code)?;
                    let w = self.width();
                    for m in moves {
                        let (from, to, n) = (m.from as usize * w, m.to as usize * w, m.lanes as usize * w);
                        let set = &mut self.set[m.acc as usize * w..][..w];
                        if self.active.iter().all(|&a| a) {
                            on_file!(self, m.class, |file| file.copy_within(from..from + n, to));
                            set.fill(true);
                            continue;
                        }
                        let active = &self.active;
                        for i in (0..n).filter(|i| active[i % w]) {
                            on_file!(self, m.class, |file| file[to + i] = file[from + i]);
                        }
                        set.iter_mut().zip(active).for_each(|(s, &a)| *s |= a);
                    }
                }
                Stmt::Barrier { site, memory } => {
                    if self.active.contains(&false) {
                        return Err(KernelError::Divergent { task: self.task, node: self.text(*site) });
                    }
                    for buffer in self.code.buffers.iter().filter(|b| b.space.is_scratch()) {
                        if *memory || buffer.space == Space::Shared {
                            self.races[buffer.slot as usize].barrier();
                        }
                    }
                }
                Stmt::Wait => self.waited = true,
            }
        }
        Ok(())
    }

    fn rounds(&mut self, extent: Reg, counter: Reg, head: &[Inst], body: &[Stmt]) -> Result<(), KernelError> {
        let w = self.width();
        if w == 1 {
            for i in 0..self.indices[extent as usize] {
                self.indices[counter as usize] = i;
                self.instructions(head)?;
                self.statements(body)?;
            }
            return Ok(());
        }
        let extents = lanes_of(&self.indices, w, extent, 1).to_vec();
        let each = || extents.iter().zip(&self.active).filter(|e| *e.1).map(|e| *e.0);
        let (least, most) = (each().min().unwrap_or(0), each().max().unwrap_or(0));
        for i in 0..most {
            lanes_mut(&mut self.indices, w, counter, 1).fill(i);
            self.instructions(head)?;
            if i < least {
                self.statements(body)?;
            } else {
                let left = self.active.iter().zip(&extents).map(|(&a, &n)| a && i < n).collect();
                self.among(left, |m| m.statements(body))?;
            }
        }
        Ok(())
    }

    /// Runs something for some of the active threads, unless there are none.
    fn among(
        &mut self,
        some: Vec<bool>,
        f: impl FnOnce(&mut Self) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        if !some.contains(&true) {
            return Ok(());
        }
        let all = std::mem::replace(&mut self.active, some);
        let done = f(self);
        self.active = all;
        done
    }

    fn instructions(&mut self, code: &[Inst]) -> Result<(), KernelError> {
        code.iter().try_for_each(|i| self.instruction(i))
    }

    fn instruction(&mut self, inst: &Inst) -> Result<(), KernelError> {
        let w = self.width();
        match *inst {
            Inst::AddIndex { dst, a, b } if w == 1 => {
                self.indices[dst as usize] = self.indices[a as usize].wrapping_add(self.indices[b as usize]);
            }
            Inst::MulIndex { dst, a, b } if w == 1 => {
                self.indices[dst as usize] = self.indices[a as usize].wrapping_mul(self.indices[b as usize]);
            }
            Inst::AddIndex { dst, a, b } => {
                let (file, out) = split(&mut self.indices, w, dst, 1);
                let pairs = lanes_of(file, w, a, 1).iter().zip(lanes_of(file, w, b, 1));
                out.iter_mut().zip(pairs).for_each(|(o, (a, b))| *o = a.wrapping_add(*b));
            }
            Inst::MulIndex { dst, a, b } => {
                let (file, out) = split(&mut self.indices, w, dst, 1);
                let pairs = lanes_of(file, w, a, 1).iter().zip(lanes_of(file, w, b, 1));
                out.iter_mut().zip(pairs).for_each(|(o, (a, b))| *o = a.wrapping_mul(*b));
            }
            Inst::Binary { op, ty, dst, a, b, n, site } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (file, out) = split(&mut self.floats, w, dst, n);
                        lanes::binary_float(op, ty, lanes_of(file, w, a, n), lanes_of(file, w, b, n), out)
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, w, dst, n);
                        let (a, b) = (lanes_of(file, w, a, n), lanes_of(file, w, b, n));
                        only(&self.active, n, |i| lanes::binary_int(op, ty, &a[i.clone()], &b[i.clone()], &mut out[i]))
                    }
                    Class::Index => {
                        let (file, out) = split(&mut self.indices, w, dst, n);
                        let (a, b) = (lanes_of(file, w, a, n), lanes_of(file, w, b, n));
                        only(&self.active, n, |i| lanes::binary_index(op, &a[i.clone()], &b[i.clone()], &mut out[i]))
                    }
                };
                done.map_err(|fault| self.fault(site, fault))?;
            }
            Inst::Unary { op, ty, dst, a, n } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (file, out) = split(&mut self.floats, w, dst, n);
                        lanes::unary_float(op, ty, lanes_of(file, w, a, n), out)
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, w, dst, n);
                        lanes::unary_int(op, ty, lanes_of(file, w, a, n), out)
                    }
                    Class::Index => {
                        let (file, out) = split(&mut self.indices, w, dst, n);
                        lanes::unary_index(op, lanes_of(file, w, a, n), out)
                    }
                };
                done.map_err(|fault| self.fault(Site::MAX, fault))?;
            }
            Inst::Compare { op, ty, dst, a, b, n } => {
                let done = match Class::of(ty) {
                    Class::Float => {
                        let (a, b) = (lanes_of(&self.floats, w, a, n), lanes_of(&self.floats, w, b, n));
                        lanes::compare(op, a, b, lanes_mut(&mut self.ints, w, dst, n))
                    }
                    Class::Int => {
                        let (file, out) = split(&mut self.ints, w, dst, n);
                        lanes::compare_int(op, ty, lanes_of(file, w, a, n), lanes_of(file, w, b, n), out)
                    }
                    Class::Index => {
                        let (a, b) = (lanes_of(&self.indices, w, a, n), lanes_of(&self.indices, w, b, n));
                        lanes::compare(op, a, b, lanes_mut(&mut self.ints, w, dst, n))
                    }
                };
                done.map_err(|fault| self.fault(Site::MAX, fault))?;
            }
            Inst::Select { class, dst, c, conditions, a, b, n } => match class {
                Class::Float => {
                    let (file, out) = split(&mut self.floats, w, dst, n);
                    let c = lanes_of(&self.ints, w, c, conditions);
                    select(w, c, lanes_of(file, w, a, n), lanes_of(file, w, b, n), out);
                }
                Class::Int => {
                    let (file, out) = split(&mut self.ints, w, dst, n);
                    let c = lanes_of(file, w, c, conditions);
                    select(w, c, lanes_of(file, w, a, n), lanes_of(file, w, b, n), out);
                }
                Class::Index => {
                    let (file, out) = split(&mut self.indices, w, dst, n);
                    let c = lanes_of(&self.ints, w, c, conditions);
                    select(w, c, lanes_of(file, w, a, n), lanes_of(file, w, b, n), out);
                }
            },
            Inst::Cast { from, to, dst, a, n } => self.cast(from, to, dst, a, n),
            Inst::Load { ref access, dst } => {
                for thread in 0..w {
                    if self.active[thread] {
                        self.load(access, dst, thread)?;
                    }
                }
            }
            Inst::Copy { class, dst, a, n } => {
                let (from, n, to) = (a as usize * w, n as usize * w, dst as usize * w);
                on_file!(self, class, |file| file.copy_within(from..from + n, to));
            }
            Inst::Splat { class, dst, a, n } => {
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, n);
                    let v = lanes_of(file, w, a, 1);
                    out.chunks_exact_mut(w).for_each(|lane| lane.copy_from_slice(v));
                });
            }
            Inst::Shuffle { class, dst, a, ref map } => {
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, map.len() as u32);
                    for (o, &lane) in out.chunks_exact_mut(w).zip(map) {
                        o.copy_from_slice(lanes_of(file, w, a + Reg::from(lane), 1));
                    }
                });
            }
            Inst::Join { class, dst, ref parts } => {
                on_file!(self, class, |file| {
                    let mut at = dst as usize * w;
                    for &(r, n) in parts {
                        let (from, n) = (r as usize * w, n as usize * w);
                        file.copy_within(from..from + n, at);
                        at += n;
                    }
                });
            }
            Inst::Dot4 { dst, sums, codes, values, n } => {
                let (file, out) = split(&mut self.ints, w, dst, n);
                let codes = lanes_of(file, w, codes, 4 * n);
                let values = lanes_of(file, w, values, 4 * n);
                let sums = lanes_of(file, w, sums, n);
                if w == 1 {
                    let (codes, values) = (codes.as_chunks::<4>().0, values.as_chunks::<4>().0);
                    for (((o, &sum), c), v) in out.iter_mut().zip(sums).zip(codes).zip(values) {
                        *o = sum.wrapping_add(c[0] * v[0] + c[1] * v[1] + c[2] * v[2] + c[3] * v[3]);
                    }
                    return Ok(());
                }
                for (i, (o, &sum)) in out.iter_mut().zip(sums).enumerate() {
                    let first = i / w * 4 * w + i % w;
                    // A product of a u8 and an i8 needs 16 bits.
                    let products = (0..4).map(|k| codes[first + k * w] * values[first + k * w]);
                    *o = sum.wrapping_add(products.sum());
                }
            }
            Inst::Dot2 { ty, dst, sums, a, b, n, site } => {
                let (file, out) = split(&mut self.ints, w, dst, n);
                let [a, b] = [a, b].map(|r| lanes_of(file, w, r, 2 * n));
                let sums = lanes_of(file, w, sums, n);
                let mut fits = true;
                for (i, (o, &sum)) in out.iter_mut().zip(sums).enumerate() {
                    let first = i / w * 2 * w + i % w;
                    *o = [first, first + w].iter().fold(sum, |sum, &k| sum.wrapping_add(a[k].wrapping_mul(b[k])));
                    fits &= ty != DType::I16 || i16::try_from(*o).is_ok() || !self.active[i % w];
                }
                if !fits {
                    return Err(self.fault(site, Fault::Overflow));
                }
            }
            Inst::Product { dst, sums, rows, tokens, steps } => {
                let block = (PRODUCT * PRODUCT) as u32;
                let (file, out) = split(&mut self.floats, w, dst, block);
                let (rows, tokens) = (lanes_of(file, w, rows, steps * block), lanes_of(file, w, tokens, steps * block));
                out.copy_from_slice(lanes_of(file, w, sums, block));
                for thread in 0..w {
                    add_product(out, rows, tokens, steps as usize, |lane| lane * w + thread);
                }
            }
            Inst::Across { op, ty, dst, a, n } => {
                for thread in 0..w {
                    let to = dst as usize * w + thread;
                    match Class::of(ty) {
                        Class::Float => {
                            let each = thread_lanes(&self.floats, w, a, n, thread).collect();
                            self.floats[to] = across_floats(op, ty, each);
                        }
                        Class::Int => {
                            let each = thread_lanes(&self.ints, w, a, n, thread).map(|v| lanes::int_value(ty, v));
                            self.ints[to] = lanes::int_bits(ty, across_integers(op, each));
                        }
                        Class::Index => {
                            self.indices[to] = across_integers(op, thread_lanes(&self.indices, w, a, n, thread));
                        }
                    }
                }
            }
            Inst::Lookup { class, dst, table, entries, index: at, n, site } => {
                let index: Vec<i32> = lanes_of(&self.ints, w, at, n).to_vec();
                let wrong = |i: usize| index[i] < 0 || index[i] as u32 >= entries;
                if (0..index.len()).any(|i| self.active[i % w] && wrong(i)) {
                    return Err(self.fault(site, Fault::Lookup));
                }
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, n);
                    for (i, o) in out.iter_mut().enumerate().filter(|(i, _)| !wrong(*i)) {
                        *o = file[(table as usize + index[i] as usize) * w + i % w];
                    }
                });
            }
            Inst::LaneXor { class, dst, a, mask, n, site } => {
                self.whole_warps(site)?;
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, n);
                    let from = lanes_of(file, w, a, n);
                    out.iter_mut().enumerate().for_each(|(i, o)| *o = from[i ^ usize::from(mask)]);
                });
            }
            Inst::Fragment { class, dst, a, matrices, each, transposed, site } => {
                self.whole_warps(site)?;
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, each * matrices);
                    let (rows, each) = (lanes_of(file, w, a, 4 * each), each as usize);
                    for (i, o) in out.iter_mut().enumerate() {
                        let (lane, thread) = (i / w, i % w);
                        let (row, column) = warp::fragment(thread % FRAGMENT_LANES, lane % each, each, transposed);
                        *o = rows[column * w + thread / FRAGMENT_LANES * FRAGMENT_LANES + lane / each * 8 + row];
                    }
                });
            }
            Inst::WarpProduct { class, length, beside, dst, sums, rows, columns, site } => {
                self.whole_warps(site)?;
                let each = if class == Class::Float { 2 } else { 4 };
                on_file!(self, class, |file| {
                    let (file, out) = split(file, w, dst, 4 * beside);
                    out.copy_from_slice(lanes_of(file, w, sums, 4 * beside));
                    let of_columns = length / 4;
                    let (rows, columns) =
                        (lanes_of(file, w, rows, length / 2), lanes_of(file, w, columns, of_columns * beside));
                    let parts = out.chunks_mut(4 * w).zip(columns.chunks(of_columns as usize * w));
                    for (out, columns) in parts {
                        for first in (0..w).step_by(FRAGMENT_LANES) {
                            let at = |lane: usize, i: usize| i * w + first + lane;
                            warp::products(length as usize, each, at, |sum, a, b| out[sum] += rows[a] * columns[b]);
                        }
                    }
                });
            }
            Inst::Check { acc, site } => {
                let set = &self.set[acc as usize * w..][..w];
                if set.iter().zip(&self.active).any(|(&s, &a)| a && !s) {
                    return Err(KernelError::Unset { task: self.task, node: self.text(site) });
                }
            }
        }
        Ok(())
    }

    /// All lanes of a warp run the present statement, or none.
    fn whole_warps(&self, site: Site) -> Result<(), KernelError> {
        let whole = self.active.chunks(self.code.lanes).all(|warp| warp.iter().all(|&lane| lane == warp[0]));
        if whole { Ok(()) } else { Err(KernelError::Divergent { task: self.task, node: self.text(site) }) }
    }

    fn cast(&mut self, from: DType, to: DType, dst: Reg, a: Reg, n: u32) {
        use Class::{Float, Index, Int};
        let w = self.width();
        match (Class::of(from), Class::of(to)) {
            (Float, Float) => {
                let (file, out) = split(&mut self.floats, w, dst, n);
                lanes::float_to_float(to, lanes_of(file, w, a, n), out);
            }
            (Float, Int) => {
                lanes::float_to_int(to, lanes_of(&self.floats, w, a, n), lanes_mut(&mut self.ints, w, dst, n));
            }
            (Float, Index) => {
                lanes::float_to_index(lanes_of(&self.floats, w, a, n), lanes_mut(&mut self.indices, w, dst, n));
            }
            (Int, Float) => {
                lanes::int_to_float(from, to, lanes_of(&self.ints, w, a, n), lanes_mut(&mut self.floats, w, dst, n));
            }
            (Int, Int) => {
                let (file, out) = split(&mut self.ints, w, dst, n);
                lanes::int_to_int(to, lanes_of(file, w, a, n), out);
            }
            (Int, Index) => {
                lanes::int_to_index(from, lanes_of(&self.ints, w, a, n), lanes_mut(&mut self.indices, w, dst, n));
            }
            (Index, Float) => {
                lanes::index_to_float(to, lanes_of(&self.indices, w, a, n), lanes_mut(&mut self.floats, w, dst, n));
            }
            (Index, Int) => {
                lanes::index_to_int(to, lanes_of(&self.indices, w, a, n), lanes_mut(&mut self.ints, w, dst, n));
            }
            (Index, Index) => {
                let (file, out) = split(&mut self.indices, w, dst, n);
                out.copy_from_slice(lanes_of(file, w, a, n));
            }
        }
    }

    fn load(&mut self, access: &Access, dst: Reg, thread: usize) -> Result<(), KernelError> {
        let (w, n) = (self.width(), access.lanes);
        let index = self.indices[access.index as usize * w + thread];
        let buffer = &self.code.buffers[access.buffer as usize];
        self.check_waited(access)?;
        let bytes: &[u8] = match (buffer.space, &self.buffers.slots.get(buffer.slot as usize)) {
            (Space::Task | Space::Shared, _) => &self.scratch[buffer.slot as usize],
            (_, Some(Slot::Read(bytes))) => bytes,
            (_, Some(Slot::Write(bytes))) => bytes,
            _ => &[],
        };
        let size = n as usize * access.ty.bytes();
        let spare = if buffer.space.is_read_only() { SLACK } else { 0 };
        let range = byte_range(buffer, index, size).filter(|r| r.end <= bytes.len() + spare);
        let Some(range) = range else { return Err(self.out_of_bounds(access, index, bytes.len())) };
        self.check_alignment(access, index, &range)?;
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
        if w == 1 {
            match Class::of(access.ty) {
                Class::Float => memory::read_floats(access.ty, found, lanes_mut(&mut self.floats, w, dst, n)),
                Class::Int => memory::read_ints(access.ty, found, lanes_mut(&mut self.ints, w, dst, n)),
                Class::Index => memory::read_indices(found, lanes_mut(&mut self.indices, w, dst, n)),
            }
            return Ok(());
        }
        let each = found.chunks_exact(access.ty.bytes()).enumerate();
        let at = |lane: usize| (dst as usize + lane) * w + thread;
        match Class::of(access.ty) {
            Class::Float => each.for_each(|(i, b)| memory::read_floats(access.ty, b, &mut self.floats[at(i)..][..1])),
            Class::Int => each.for_each(|(i, b)| memory::read_ints(access.ty, b, &mut self.ints[at(i)..][..1])),
            Class::Index => each.for_each(|(i, b)| memory::read_indices(b, &mut self.indices[at(i)..][..1])),
        }
        if buffer.space.is_scratch() && !self.races[buffer.slot as usize].read(range, thread) {
            return Err(self.race(access, index, thread));
        }
        Ok(())
    }

    fn store(
        &mut self,
        access: &Access,
        index: i64,
        value: Reg,
        condition: Option<(Reg, u32)>,
        thread: usize,
    ) -> Result<(), KernelError> {
        let (w, ty, lanes) = (self.width(), access.ty, access.lanes);
        // Without a condition there are no masks, and nothing is allocated.
        let masks: Vec<i32> = condition.map_or(vec![], |(c, n)| thread_lanes(&self.ints, w, c, n, thread).collect());
        if !masks.is_empty() && masks.iter().all(|&m| m == 0) {
            return Ok(());
        }
        let code = self.code;
        let buffer = &code.buffers[access.buffer as usize];
        self.check_waited(access)?;
        let each = ty.bytes();
        let masked = masks.contains(&0);
        // Lanes that are switched off may lie outside.
        let live = |lane: usize| !masked || masks[lane] != 0;
        for lane in 0..if masked { lanes as usize } else { 1 } {
            if !live(lane) {
                continue;
            }
            let bytes: &mut [u8] = match (buffer.space, self.buffers.slots.get_mut(buffer.slot as usize)) {
                (Space::Task | Space::Shared, _) => &mut self.scratch[buffer.slot as usize],
                (_, Some(Slot::Write(bytes))) => bytes,
                _ => return Err(KernelError::ReadOnly(buffer.slot)),
            };
            let len = bytes.len();
            let (first, n) = if masked { (lane, 1) } else { (0, lanes as usize) };
            let range = byte_range(buffer, index, (first + n) * each)
                .map(|r| r.start + first * each..r.end)
                .filter(|r| r.end <= len);
            let Some(range) = range else { return Err(self.out_of_bounds(access, index, len)) };
            let out = &mut bytes[range.clone()];
            let (from, n) = (value + first as Reg, n as u32);
            match Class::of(ty) {
                Class::Float if w == 1 => memory::write_floats(ty, lanes_of(&self.floats, w, from, n), out),
                Class::Int if w == 1 => memory::write_ints(ty, lanes_of(&self.ints, w, from, n), out),
                Class::Index if w == 1 => memory::write_indices(lanes_of(&self.indices, w, from, n), out),
                Class::Float => {
                    let v: Vec<f32> = thread_lanes(&self.floats, w, from, n, thread).collect();
                    memory::write_floats(ty, &v, out);
                }
                Class::Int => {
                    let v: Vec<i32> = thread_lanes(&self.ints, w, from, n, thread).collect();
                    memory::write_ints(ty, &v, out);
                }
                Class::Index => {
                    let v: Vec<i64> = thread_lanes(&self.indices, w, from, n, thread).collect();
                    memory::write_indices(&v, out);
                }
            }
            self.check_alignment(access, index, &range)?;
            if w > 1 && buffer.space.is_scratch() && !self.races[buffer.slot as usize].write(range, thread) {
                return Err(self.race(access, index, thread));
            }
        }
        Ok(())
    }

    /// Nothing but weights and scratch is touched before the launches before this one are waited for.
    fn check_waited(&self, access: &Access) -> Result<(), KernelError> {
        let buffer = &self.code.buffers[access.buffer as usize];
        if self.waited || buffer.space.is_early() {
            return Ok(());
        }
        let (node, buffer) = (self.text(access.site), buffer.name.clone());
        Err(KernelError::Early { task: self.task, node, buffer })
    }

    /// Threads of a block load and store whole words at multiples of their size.
    fn check_alignment(&self, access: &Access, index: i64, range: &Range<usize>) -> Result<(), KernelError> {
        if self.width() == 1
            || range.start.is_multiple_of(range.len()) && self.code.widest.is_none_or(|most| range.len() <= most)
        {
            return Ok(());
        }
        let (node, bytes) = (self.text(access.site), range.len());
        Err(KernelError::Misaligned { task: self.task, node, bytes, index })
    }

    fn race(&self, access: &Access, index: i64, thread: usize) -> KernelError {
        let buffer = self.code.buffers[access.buffer as usize].name.clone();
        KernelError::Race { task: self.task, node: self.text(access.site), buffer, index, thread }
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

/// Runs `f` on all `n` lanes of all threads, or one by one on those of active threads if not all are: what the others
/// hold may have no result.
fn only(active: &[bool], n: u32, mut f: impl FnMut(Range<usize>) -> Result<(), Fault>) -> Result<(), Fault> {
    let w = active.len();
    if f(0..n as usize * w).is_ok() {
        return Ok(());
    }
    (0..n as usize * w).filter(|i| active[i % w]).try_for_each(|i| f(i..i + 1))
}

/// `if c then a else b`, with one condition for each lane or one for all.
fn select<T: Copy>(w: usize, c: &[i32], a: &[T], b: &[T], out: &mut [T]) {
    if w == 1 || c.len() == out.len() {
        return lanes::select(c, a, b, out);
    }
    for (i, o) in out.iter_mut().enumerate() {
        *o = if c[i % w] != 0 { a[i] } else { b[i] };
    }
}

/// The upper half of the lanes is folded onto the lower until one is left, as
/// vector machines do; with an odd number the middle lane waits.
fn across_floats(op: ReduceOp, ty: DType, mut v: Vec<f32>) -> f32 {
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
