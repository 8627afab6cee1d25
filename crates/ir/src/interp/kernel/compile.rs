//! From the statements of a kernel to bytecode.

use super::KernelError;
use super::code::{Access, Bases, Buffer, Code, Inst, LOCAL, Move, Reg, Site, Stmt, Variable};
use crate::interp::lanes::{self, Class};
use crate::print::{buffer_name, describe};
use crate::spec::ranges_of;
use crate::{Axis, BinOp, DType, Graph, Id, Op, PRODUCT};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Compiles a kernel that passed its check.
pub(super) fn compile(g: &Graph, root: Id) -> Result<Code, KernelError> {
    let mut c = Compiler {
        g,
        code: Code { threads: 1, lanes: 1, ..Code::default() },
        ranges: FxHashMap::default(),
        pinned: FxHashSet::default(),
        buffers: FxHashMap::default(),
        accs: FxHashMap::default(),
        set: FxHashSet::default(),
        scopes: vec![Scope::default(), Scope::default()],
        local: Statement::default(),
        kept: Tops::default(),
        most: Tops::default(),
        constants: vec![],
    };
    c.prepare(root);
    let body = g.src(root).iter().filter_map(|&s| c.statement(s)).collect();
    Ok(c.finish(body))
}

/// Lanes in use of each file.
#[derive(Clone, Copy, Debug, Default)]
struct Tops {
    floats: Reg,
    ints: Reg,
    indices: Reg,
}

impl Tops {
    fn of(&mut self, class: Class) -> &mut Reg {
        match class {
            Class::Float => &mut self.floats,
            Class::Int => &mut self.ints,
            Class::Index => &mut self.indices,
        }
    }

    fn grow(&mut self, other: Tops) {
        self.floats = self.floats.max(other.floats);
        self.ints = self.ints.max(other.ints);
        self.indices = self.indices.max(other.indices);
    }
}

/// The head of a loop while its statements are compiled. The first scope is the
/// whole run, the second a task.
#[derive(Default)]
struct Scope {
    range: Option<Id>,
    head: Vec<Inst>,
    values: FxHashMap<Id, Reg>,
}

/// The statement that is being compiled.
#[derive(Default)]
struct Statement {
    code: Vec<Inst>,
    values: FxHashMap<Id, Reg>,
    tops: Tops,
    checked: FxHashSet<Id>,
}

#[derive(Clone, Copy, Debug)]
struct Acc {
    number: u32,
    class: Class,
    reg: Reg,
    lanes: u32,
}

/// A constant with one element for each lane.
enum Constant {
    Floats(Reg, Vec<f32>),
    Ints(Reg, Vec<i32>),
    Indices(Reg, Vec<i64>),
}

struct Compiler<'g> {
    g: &'g Graph,
    code: Code,
    /// The ranges that each node depends on.
    ranges: FxHashMap<Id, Rc<[Id]>>,
    /// Nodes that must be computed where they are used: they read memory or an
    /// accumulator, or may fail.
    pinned: FxHashSet<Id>,
    buffers: FxHashMap<Id, u32>,
    accs: FxHashMap<Id, Acc>,
    /// Accumulators that are surely set here.
    set: FxHashSet<Id>,
    scopes: Vec<Scope>,
    local: Statement,
    /// Lanes of values that outlive a statement.
    kept: Tops,
    /// The most lanes that a statement needs.
    most: Tops,
    constants: Vec<Constant>,
}

impl Compiler<'_> {
    /// Numbers buffers, accumulators and variables.
    fn prepare(&mut self, root: Id) {
        let g = self.g;
        let order = g.toposort(&[root]);
        self.ranges = ranges_of(g, &order);
        for id in order {
            match g.op(id) {
                Op::Buffer { slot, space, len } => {
                    let element = g.dtype(id).bytes();
                    if space.is_scratch() {
                        let at = *slot as usize;
                        let scratch = &mut self.code.scratch;
                        scratch.resize(scratch.len().max(at + 1), 0);
                        scratch[at] = scratch[at].max(len * element);
                    }
                    let name = buffer_name(g, id);
                    self.buffers.insert(id, self.code.buffers.len() as u32);
                    self.code.buffers.push(Buffer { space: *space, slot: *slot, element, name });
                }
                Op::Acc(_) => {
                    let (class, lanes) = (Class::of(g.dtype(id)), g.ty(id).lanes.into());
                    let acc = Acc { number: self.accs.len() as u32, class, reg: self.keep(class, lanes), lanes };
                    self.accs.insert(id, acc);
                }
                Op::Range(_, Axis::Task) => {
                    let reg = self.keep(Class::Index, 1);
                    self.code.task = Some(reg);
                    self.scopes[1].range = Some(id);
                    self.scopes[1].values.insert(id, reg);
                }
                Op::Range(_, axis @ (Axis::Warp | Axis::Lane)) => {
                    let reg = self.keep(Class::Index, 1);
                    let count = g.as_int(g.src(id)[0]).unwrap_or(1) as usize;
                    self.code.threads *= count;
                    match axis {
                        Axis::Warp => self.code.warp = Some(reg),
                        _ => (self.code.lane, self.code.lanes) = (Some(reg), count),
                    }
                    self.scopes[0].values.insert(id, reg);
                }
                Op::Wait => self.code.waits = true,
                Op::Var { name, min, max, .. } => {
                    let dst = self.keep(Class::Index, 1);
                    self.code.vars.push(Variable { name: name.clone(), min: *min, max: *max, dst });
                    self.scopes[0].values.insert(id, dst);
                }
                _ => {}
            }
            if self.is_pinned(id) {
                self.pinned.insert(id);
            }
        }
        self.code.accs = self.accs.len();
        if let Some(task) = self.scopes[1].range {
            self.code.extent = Some(self.value(g.src(task)[0]));
        }
    }

    fn is_pinned(&self, id: Id) -> bool {
        let g = self.g;
        let src = g.src(id);
        match g.op(id) {
            Op::Range(..) => false,
            Op::Load | Op::Acc(_) | Op::Lookup | Op::LaneXor(_) | Op::Fragment { .. } | Op::WarpProduct => true,
            Op::Binary(BinOp::Div | BinOp::Mod)
                if !g.dtype(id).is_float() && g.as_int(src[1]).is_none_or(|d| d == 0) =>
            {
                true
            }
            _ => src.iter().any(|s| self.pinned.contains(s)),
        }
    }

    /// The innermost scope that a value depends on.
    fn scope_of(&self, id: Id) -> usize {
        let ranges = &self.ranges[&id];
        self.scopes.iter().rposition(|s| s.range.is_some_and(|r| ranges.contains(&r))).unwrap_or(0)
    }

    /// A register that lives as long as the run.
    fn keep(&mut self, class: Class, lanes: u32) -> Reg {
        let top = self.kept.of(class);
        *top += lanes;
        *top - lanes
    }

    fn site(&mut self, id: Id) -> Site {
        self.code.sites.push(describe(self.g, id));
        self.code.sites.len() as Site - 1
    }

    /// The register that holds a value where the present statement needs it.
    fn value(&mut self, id: Id) -> Reg {
        if let Some(&r) = self.local.values.get(&id) {
            return r;
        }
        if let Some(&r) = self.scopes.iter().rev().find_map(|s| s.values.get(&id)) {
            return r;
        }
        let g = self.g;
        let (ty, lanes) = (g.dtype(id), u32::from(g.ty(id).lanes));
        let class = Class::of(ty);
        match g.op(id) {
            Op::Acc(_) => {
                let acc = self.accs[&id];
                if !self.set.contains(&id) && self.local.checked.insert(id) {
                    let site = self.site(id);
                    self.local.code.push(Inst::Check { acc: acc.number, site });
                }
                return acc.reg;
            }
            // One lane of a register is a register.
            Op::Extract(lane) => return self.value(g.src(id)[0]) + Reg::from(*lane),
            Op::Const(c) => {
                let reg = self.constant(ty, std::slice::from_ref(c));
                self.scopes[0].values.insert(id, reg);
                return reg;
            }
            Op::Lanes(values) => {
                let reg = self.constant(ty, values);
                self.scopes[0].values.insert(id, reg);
                return reg;
            }
            _ => {}
        }
        let src: Vec<Reg> = match g.op(id) {
            Op::Load => vec![self.value(g.src(id)[1])],
            _ => g.src(id).iter().map(|&s| self.value(s)).collect(),
        };
        let pinned = self.pinned.contains(&id);
        let dst = if pinned {
            let top = self.local.tops.of(class);
            *top += lanes;
            (*top - lanes) | LOCAL
        } else {
            self.keep(class, lanes)
        };
        let inst = self.instruction(id, dst, &src);
        if pinned {
            self.local.code.push(inst);
            self.local.values.insert(id, dst);
        } else {
            let scope = self.scope_of(id);
            self.scopes[scope].head.push(inst);
            self.scopes[scope].values.insert(id, dst);
        }
        dst
    }

    fn constant(&mut self, ty: DType, values: &[crate::Const]) -> Reg {
        let class = Class::of(ty);
        let reg = self.keep(class, values.len() as u32);
        self.constants.push(match class {
            Class::Float => Constant::Floats(reg, values.iter().map(|&c| lanes::const_float(ty, c)).collect()),
            Class::Int => Constant::Ints(reg, values.iter().map(|&c| lanes::const_int(ty, c)).collect()),
            Class::Index => Constant::Indices(reg, values.iter().map(|c| c.as_int()).collect()),
        });
        reg
    }

    fn instruction(&mut self, id: Id, dst: Reg, src: &[Reg]) -> Inst {
        let g = self.g;
        let (ty, n) = (g.dtype(id), u32::from(g.ty(id).lanes));
        let class = Class::of(ty);
        let source_lanes = |i: usize| u32::from(g.ty(g.src(id)[i]).lanes);
        match g.op(id) {
            Op::Unary(op) => Inst::Unary { op: *op, ty, dst, a: src[0], n },
            Op::Binary(op @ (BinOp::Lt | BinOp::Eq)) => {
                let ty = g.dtype(g.src(id)[0]);
                Inst::Compare { op: *op, ty, dst, a: src[0], b: src[1], n }
            }
            Op::Binary(BinOp::Add) if class == Class::Index && n == 1 => Inst::AddIndex { dst, a: src[0], b: src[1] },
            Op::Binary(BinOp::Mul) if class == Class::Index && n == 1 => Inst::MulIndex { dst, a: src[0], b: src[1] },
            Op::Binary(op) => {
                // Only divisions fail; the others need no text for errors.
                let may_fail = matches!(op, BinOp::Div | BinOp::Mod) && class != Class::Float;
                let site = if may_fail { self.site(id) } else { Site::MAX };
                Inst::Binary { op: *op, ty, dst, a: src[0], b: src[1], n, site }
            }
            Op::Where => {
                let conditions = source_lanes(0);
                Inst::Select { class, dst, c: src[0], conditions, a: src[1], b: src[2], n }
            }
            Op::Cast => Inst::Cast { from: g.dtype(g.src(id)[0]), to: ty, dst, a: src[0], n },
            Op::Load => Inst::Load { access: self.access(id, g.src(id)[0], src[0], id), dst },
            Op::Splat => Inst::Splat { class, dst, a: src[0], n },
            Op::Shuffle(map) => Inst::Shuffle { class, dst, a: src[0], map: map.as_slice().into() },
            Op::Join => {
                let parts = src.iter().enumerate().map(|(i, &r)| (r, source_lanes(i))).collect();
                Inst::Join { class, dst, parts }
            }
            Op::Dot4 => Inst::Dot4 { dst, sums: src[0], codes: src[1], values: src[2], n },
            Op::Dot2 => Inst::Dot2 { ty, dst, sums: src[0], a: src[1], b: src[2], n, site: self.site(id) },
            Op::Product => {
                let steps = source_lanes(1) / (PRODUCT * PRODUCT) as u32;
                Inst::Product { dst, sums: src[0], rows: src[1], tokens: src[2], steps }
            }
            Op::Across(op) => Inst::Across { op: *op, ty, dst, a: src[0], n: source_lanes(0) },
            Op::LaneXor(mask) => Inst::LaneXor { class, dst, a: src[0], mask: *mask, n, site: self.site(id) },
            Op::Fragment { transposed } => {
                // Rows are of 16 bytes.
                let (each, transposed) = (source_lanes(0) / 4, *transposed);
                Inst::Fragment { class, dst, a: src[0], matrices: n / each, each, transposed, site: self.site(id) }
            }
            Op::WarpProduct => {
                let length = 2 * source_lanes(1);
                Inst::WarpProduct {
                    class,
                    length,
                    beside: n / 4,
                    dst,
                    sums: src[0],
                    rows: src[1],
                    columns: src[2],
                    site: self.site(id),
                }
            }
            Op::Lookup => {
                let entries = source_lanes(0);
                Inst::Lookup { class, dst, table: src[0], entries, index: src[1], n, site: self.site(id) }
            }
            op => unreachable!("{op:?} passed the check of kernels"),
        }
    }

    /// The elements that a load or store of the type of `value` touches.
    fn access(&mut self, id: Id, buffer: Id, index: Reg, value: Id) -> Access {
        let ty = self.g.ty(value);
        let site = self.site(id);
        Access { buffer: self.buffers[&buffer], ty: ty.base, lanes: ty.lanes.into(), index, site }
    }

    /// Ends the code of a statement.
    fn take_code(&mut self) -> Vec<Inst> {
        let done = std::mem::take(&mut self.local);
        self.most.grow(done.tops);
        done.code
    }

    fn statement(&mut self, id: Id) -> Option<Stmt> {
        let g = self.g;
        let src = g.src(id);
        match g.op(id) {
            Op::Store => {
                let index = self.value(src[1]);
                let value = self.value(src[2]);
                let condition = src.get(3).map(|&c| (self.value(c), g.ty(c).lanes.into()));
                let access = self.access(id, src[0], index, src[2]);
                Some(Stmt::Store { code: self.take_code(), access, value, condition })
            }
            Op::StoreFragment { pitch } => {
                let index = self.value(src[1]);
                let value = self.value(src[2]);
                let site = self.site(id);
                let access = Access { buffer: self.buffers[&src[0]], ty: g.dtype(src[2]), lanes: 1, index, site };
                let sums = g.ty(src[2]).lanes.into();
                Some(Stmt::StoreFragment { code: self.take_code(), access, value, sums, pitch: *pitch })
            }
            Op::Set => Some(self.set(src)),
            &Op::Barrier { memory } => Some(Stmt::Barrier { site: self.site(id), memory }),
            Op::Wait => Some(Stmt::Wait),
            Op::Loop => Some(self.enter_loop(src)),
            Op::If => {
                let condition = self.value(src[0]);
                let code = self.take_code();
                let before = self.set.clone();
                let body = src[1..].iter().filter_map(|&s| self.statement(s)).collect();
                self.set = before;
                Some(Stmt::If { code, condition, body })
            }
            Op::Block => {
                // A block within a block runs in place: as a branch always taken.
                let mut body: Vec<Stmt> = src.iter().filter_map(|&s| self.statement(s)).collect();
                if body.len() == 1 {
                    return body.pop();
                }
                let always = self.constant(DType::Bool, &[crate::Const::Int(1)]);
                Some(Stmt::If { code: vec![], condition: always, body })
            }
            _ => None,
        }
    }

    fn set(&mut self, src: &[Id]) -> Stmt {
        let mut moves = vec![];
        for pair in src.chunks_exact(2) {
            let Acc { number, class, reg: to, lanes } = self.accs[&pair[0]];
            let mut from = self.value(pair[1]);
            let of_acc = |a: &Acc| a.class == class && (a.reg..a.reg + a.lanes).contains(&from);
            if self.accs.values().any(of_acc) {
                // The accumulator that it is, or a lane of, may be written first.
                let top = self.local.tops.of(class);
                *top += lanes;
                let dst = (*top - lanes) | LOCAL;
                self.local.code.push(Inst::Copy { class, dst, a: from, n: lanes });
                from = dst;
            }
            moves.push(Move { class, from, to, lanes, acc: number });
        }
        self.set.extend(src.iter().step_by(2));
        Stmt::Set { code: self.take_code(), moves }
    }

    fn enter_loop(&mut self, src: &[Id]) -> Stmt {
        let g = self.g;
        let extent = self.value(g.src(src[0])[0]);
        let code = self.take_code();
        let counter = self.keep(Class::Index, 1);
        let values = FxHashMap::from_iter([(src[0], counter)]);
        self.scopes.push(Scope { range: Some(src[0]), head: vec![], values });
        let before = self.set.clone();
        let body = src[1..].iter().filter_map(|&s| self.statement(s)).collect();
        // The loop may not run at all.
        self.set = before;
        let head = self.scopes.pop().map_or(vec![], |s| s.head);
        Stmt::Loop { code, extent, counter, head, body }
    }

    fn finish(mut self, body: Vec<Stmt>) -> Code {
        let bases = Bases { floats: self.kept.floats, ints: self.kept.ints, indices: self.kept.indices };
        let mut code = self.code;
        code.floats = vec![0.0; (self.kept.floats + self.most.floats) as usize];
        code.ints = vec![0; (self.kept.ints + self.most.ints) as usize];
        code.indices = vec![0; (self.kept.indices + self.most.indices) as usize];
        for constant in self.constants {
            match constant {
                Constant::Floats(r, v) => code.floats[r as usize..][..v.len()].copy_from_slice(&v),
                Constant::Ints(r, v) => code.ints[r as usize..][..v.len()].copy_from_slice(&v),
                Constant::Indices(r, v) => code.indices[r as usize..][..v.len()].copy_from_slice(&v),
            }
        }
        let mut heads = self.scopes.drain(..);
        code.once = heads.next().map_or(vec![], |s| s.head);
        code.head = heads.next().map_or(vec![], |s| s.head);
        code.body = body;
        code.once.iter_mut().chain(&mut code.head).for_each(|i| i.place(bases));
        code.body.iter_mut().for_each(|s| s.place(bases));
        code
    }
}
