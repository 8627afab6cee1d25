//! Bytecode of a kernel.
//!
//! Registers live in three files, one for each class of values; a register is
//! the number of its first lane. The result of an instruction always lies behind
//! its sources in its file, which is what lets a file be split between them.

use crate::interp::lanes::Class;
use crate::{BinOp, DType, ReduceOp, Space, UnOp};

/// First lane of a value in the file of its class.
pub(super) type Reg = u32;

/// Where the text of a node that can fail is kept.
pub(super) type Site = u32;

/// A compiled kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    /// The files as a run begins: constants in place, the rest zero.
    pub floats: Vec<f32>,
    pub ints: Vec<i32>,
    pub indices: Vec<i64>,
    pub vars: Vec<Variable>,
    pub buffers: Vec<Buffer>,
    /// Bytes of each scratch slot.
    pub scratch: Vec<usize>,
    /// Number of accumulators.
    pub accs: usize,
    /// Register of the task number.
    pub task: Option<Reg>,
    /// Registers of the warp and the lane of a thread.
    pub warp: Option<Reg>,
    pub lane: Option<Reg>,
    /// Threads that run a task together; 1 if there are neither warps nor lanes.
    pub threads: usize,
    /// Lanes of a warp; 1 if there are none.
    pub lanes: usize,
    /// Most bytes that a thread of a block loads or stores at once, if there is such a limit.
    pub widest: Option<usize>,
    /// Whether the launches before it are waited for.
    pub waits: bool,
    /// Computes the number of tasks.
    pub extent: Option<Reg>,
    /// What depends on variables only: run once.
    pub once: Vec<Inst>,
    /// What depends on the task: run before the statements.
    pub head: Vec<Inst>,
    pub body: Vec<Stmt>,
    /// Nodes for error messages.
    pub sites: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub name: String,
    pub min: i64,
    pub max: i64,
    pub dst: Reg,
}

/// A way to look at the bytes of a parameter or of scratch.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub space: Space,
    pub slot: u32,
    /// Bytes of an element.
    pub element: usize,
    pub name: String,
}

#[derive(Clone, Debug)]
pub(super) enum Stmt {
    Loop {
        code: Vec<Inst>,
        extent: Reg,
        counter: Reg,
        head: Vec<Inst>,
        body: Vec<Stmt>,
    },
    If {
        code: Vec<Inst>,
        condition: Reg,
        body: Vec<Stmt>,
    },
    Store {
        code: Vec<Inst>,
        access: Access,
        value: Reg,
        condition: Option<(Reg, u32)>,
    },
    /// So many sums of each lane, one of which `access` is; columns lie `pitch` elements apart.
    StoreFragment {
        code: Vec<Inst>,
        access: Access,
        value: Reg,
        sums: u32,
        pitch: u32,
    },
    Set {
        code: Vec<Inst>,
        moves: Vec<Move>,
    },
    Barrier {
        site: Site,
        memory: bool,
    },
    Wait,
}

/// Consecutive elements of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub buffer: u32,
    pub ty: DType,
    pub lanes: u32,
    pub index: Reg,
    pub site: Site,
}

/// A value written to an accumulator.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub class: Class,
    pub from: Reg,
    pub to: Reg,
    pub lanes: u32,
    pub acc: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Inst {
    Unary {
        op: UnOp,
        ty: DType,
        dst: Reg,
        a: Reg,
        n: u32,
    },
    Binary {
        op: BinOp,
        ty: DType,
        dst: Reg,
        a: Reg,
        b: Reg,
        n: u32,
        site: Site,
    },
    /// Scalar indices, which most instructions are.
    AddIndex {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    MulIndex {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    Compare {
        op: BinOp,
        ty: DType,
        dst: Reg,
        a: Reg,
        b: Reg,
        n: u32,
    },
    Select {
        class: Class,
        dst: Reg,
        c: Reg,
        conditions: u32,
        a: Reg,
        b: Reg,
        n: u32,
    },
    Cast {
        from: DType,
        to: DType,
        dst: Reg,
        a: Reg,
        n: u32,
    },
    Load {
        access: Access,
        dst: Reg,
    },
    Copy {
        class: Class,
        dst: Reg,
        a: Reg,
        n: u32,
    },
    Splat {
        class: Class,
        dst: Reg,
        a: Reg,
        n: u32,
    },
    Shuffle {
        class: Class,
        dst: Reg,
        a: Reg,
        map: Box<[u16]>,
    },
    Join {
        class: Class,
        dst: Reg,
        parts: Box<[(Reg, u32)]>,
    },
    Dot4 {
        dst: Reg,
        sums: Reg,
        codes: Reg,
        values: Reg,
        n: u32,
    },
    Dot2 {
        ty: DType,
        dst: Reg,
        sums: Reg,
        a: Reg,
        b: Reg,
        n: u32,
        site: Site,
    },
    Product {
        dst: Reg,
        sums: Reg,
        rows: Reg,
        tokens: Reg,
        steps: u32,
    },
    Across {
        op: ReduceOp,
        ty: DType,
        dst: Reg,
        a: Reg,
        n: u32,
    },
    Lookup {
        class: Class,
        dst: Reg,
        table: Reg,
        entries: u32,
        index: Reg,
        n: u32,
        site: Site,
    },
    /// The value of another lane of the warp.
    LaneXor {
        class: Class,
        dst: Reg,
        a: Reg,
        mask: u16,
        n: u32,
        site: Site,
    },
    /// Fragments of matrices from their rows.
    Fragment {
        class: Class,
        dst: Reg,
        a: Reg,
        matrices: u32,
        /// Elements that four bytes have.
        each: u32,
        transposed: bool,
        site: Site,
    },
    /// Fragments of sums, plus those of a product of so many elements, for so many times 8 columns.
    WarpProduct {
        class: Class,
        length: u32,
        beside: u32,
        dst: Reg,
        sums: Reg,
        rows: Reg,
        columns: Reg,
        site: Site,
    },
    /// An accumulator is about to be read.
    Check {
        acc: u32,
        site: Site,
    },
}

/// Marks the registers of one statement while a kernel is compiled.
pub(super) const LOCAL: Reg = 1 << 31;

/// Where the registers of statements begin in each file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bases {
    pub floats: Reg,
    pub ints: Reg,
    pub indices: Reg,
}

impl Bases {
    fn place(self, class: Class, r: &mut Reg) {
        if *r & LOCAL != 0 {
            let base = match class {
                Class::Float => self.floats,
                Class::Int => self.ints,
                Class::Index => self.indices,
            };
            *r = (*r & !LOCAL) + base;
        }
    }
}

impl Access {
    fn place(&mut self, bases: Bases) {
        bases.place(Class::Index, &mut self.index);
    }
}

impl Inst {
    /// Gives the registers of statements their final numbers.
    pub fn place(&mut self, bases: Bases) {
        match self {
            Inst::Unary { ty, dst, a, .. } => {
                for r in [dst, a] {
                    bases.place(Class::of(*ty), r);
                }
            }
            Inst::Binary { ty, dst, a, b, .. } => {
                for r in [dst, a, b] {
                    bases.place(Class::of(*ty), r);
                }
            }
            Inst::AddIndex { dst, a, b } | Inst::MulIndex { dst, a, b } => {
                for r in [dst, a, b] {
                    bases.place(Class::Index, r);
                }
            }
            Inst::Compare { ty, dst, a, b, .. } => {
                bases.place(Class::Int, dst);
                for r in [a, b] {
                    bases.place(Class::of(*ty), r);
                }
            }
            Inst::Select { class, dst, c, a, b, .. } => {
                bases.place(Class::Int, c);
                for r in [dst, a, b] {
                    bases.place(*class, r);
                }
            }
            Inst::Cast { from, to, dst, a, .. } => {
                bases.place(Class::of(*to), dst);
                bases.place(Class::of(*from), a);
            }
            Inst::Load { access, dst } => {
                access.place(bases);
                bases.place(Class::of(access.ty), dst);
            }
            Inst::Copy { class, dst, a, .. }
            | Inst::Splat { class, dst, a, .. }
            | Inst::LaneXor { class, dst, a, .. }
            | Inst::Shuffle { class, dst, a, .. } => {
                for r in [dst, a] {
                    bases.place(*class, r);
                }
            }
            Inst::Join { class, dst, parts } => {
                bases.place(*class, dst);
                parts.iter_mut().for_each(|p| bases.place(*class, &mut p.0));
            }
            Inst::Dot4 { dst, sums, codes, values, .. } => {
                for r in [dst, sums, codes, values] {
                    bases.place(Class::Int, r);
                }
            }
            Inst::Dot2 { dst, sums, a, b, .. } => {
                for r in [dst, sums, a, b] {
                    bases.place(Class::Int, r);
                }
            }
            Inst::Product { dst, sums, rows, tokens, .. } => {
                for r in [dst, sums, rows, tokens] {
                    bases.place(Class::Float, r);
                }
            }
            Inst::Across { ty, dst, a, .. } => {
                for r in [dst, a] {
                    bases.place(Class::of(*ty), r);
                }
            }
            Inst::Lookup { class, dst, table, index, .. } => {
                for r in [dst, table] {
                    bases.place(*class, r);
                }
                bases.place(Class::Int, index);
            }
            Inst::Fragment { class, dst, a, .. } => {
                for r in [dst, a] {
                    bases.place(*class, r);
                }
            }
            Inst::WarpProduct { class, dst, sums, rows, columns, .. } => {
                for r in [dst, sums, rows, columns] {
                    bases.place(*class, r);
                }
            }
            Inst::Check { .. } => {}
        }
    }
}

impl Stmt {
    /// Gives the registers of statements their final numbers.
    pub fn place(&mut self, bases: Bases) {
        let all = |code: &mut Vec<Inst>| code.iter_mut().for_each(|i| i.place(bases));
        match self {
            Stmt::Barrier { .. } | Stmt::Wait => {}
            Stmt::Loop { code, extent, head, body, .. } => {
                all(code);
                all(head);
                bases.place(Class::Index, extent);
                body.iter_mut().for_each(|s| s.place(bases));
            }
            Stmt::If { code, condition, body } => {
                all(code);
                bases.place(Class::Int, condition);
                body.iter_mut().for_each(|s| s.place(bases));
            }
            Stmt::Store { code, access, value, condition } => {
                all(code);
                access.place(bases);
                bases.place(Class::of(access.ty), value);
                if let Some((c, _)) = condition {
                    bases.place(Class::Int, c);
                }
            }
            Stmt::StoreFragment { code, access, value, .. } => {
                all(code);
                access.place(bases);
                bases.place(Class::of(access.ty), value);
            }
            Stmt::Set { code, moves } => {
                all(code);
                moves.iter_mut().for_each(|m| bases.place(m.class, &mut m.from));
            }
        }
    }
}
