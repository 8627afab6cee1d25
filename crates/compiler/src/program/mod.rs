//! What the compiler hands to a device: kernels, stages of task groups, and
//! the buffers that they touch.
//!
//! A program is one step of a model. Buffers are parameters of a kernel, so
//! that equal layers share kernels. Everything that a replay needs lives in
//! buffers and in the values of the variables: nothing is patched.

pub(crate) mod assemble;
pub(crate) mod memory;
mod multiplied;
pub mod products;
mod reads;
pub(crate) mod report;
pub mod retile;

use gguf::format::Planes;
use ir::{BinOp, Graph, Id, Op};
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Mul};
use std::sync::Arc;

/// A symbolic integer of a program, for example the number of tokens of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name in the tensor program.
    pub name: String,
    /// Smallest legal value.
    pub min: i64,
    /// Largest legal value; buffers are sized for it.
    pub max: i64,
}

/// A number that is known at launch: a constant, or a function of variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Count {
    /// A constant.
    Const(i64),
    /// The value of a variable, by its position in [`Program::vars`].
    Var(usize),
    /// A sum.
    Add(Box<Count>, Box<Count>),
    /// A product.
    Mul(Box<Count>, Box<Count>),
    /// The smaller of two.
    Min(Box<Count>, Box<Count>),
    /// A quotient rounded up; the divisor is positive.
    CeilDiv(Box<Count>, i64),
}

impl Default for Count {
    fn default() -> Count {
        Count::Const(0)
    }
}

impl Count {
    /// What a program can compute when it runs, if it is made of its variables by these operations.
    pub(crate) fn of(g: &Graph, id: Id, vars: &[Variable]) -> Option<Count> {
        let bin = |i: usize| Count::of(g, g.src(id)[i], vars);
        Some(match g.op(id) {
            Op::Const(c) => Count::Const(c.as_int()),
            Op::Var { name, .. } => Count::Var(vars.iter().position(|v| v.name == *name)?),
            Op::Binary(BinOp::Add) => Count::Add(Box::new(bin(0)?), Box::new(bin(1)?)),
            Op::Binary(BinOp::Mul) => Count::Mul(Box::new(bin(0)?), Box::new(bin(1)?)),
            Op::Binary(BinOp::Min) => Count::Min(Box::new(bin(0)?), Box::new(bin(1)?)),
            Op::Binary(BinOp::Div) => {
                let d = g.as_int(g.src(id)[1])?;
                Count::CeilDiv(Box::new(Count::Add(Box::new(bin(0)?), Box::new(Count::Const(1 - d)))), d)
            }
            _ => return None,
        })
    }

    /// The value for these values of the variables, `None` where it would overflow or a variable has none. Allocates nothing.
    pub fn eval(&self, vars: &[i64]) -> Option<i64> {
        match self {
            Count::Const(value) => Some(*value),
            Count::Var(index) => vars.get(*index).copied(),
            Count::Add(a, b) => a.eval(vars)?.checked_add(b.eval(vars)?),
            Count::Mul(a, b) => a.eval(vars)?.checked_mul(b.eval(vars)?),
            Count::Min(a, b) => Some(a.eval(vars)?.min(b.eval(vars)?)),
            Count::CeilDiv(a, divisor) => Some(a.eval(vars)?.checked_add(divisor - 1)?.div_euclid(*divisor)),
        }
    }

    /// Whether it is the same whatever the variables are.
    pub fn is_fixed(&self) -> bool {
        match self {
            Count::Const(_) => true,
            Count::Var(_) => false,
            Count::Add(a, b) | Count::Mul(a, b) | Count::Min(a, b) => a.is_fixed() && b.is_fixed(),
            Count::CeilDiv(a, _) => a.is_fixed(),
        }
    }
}

impl Add for Count {
    type Output = Count;

    fn add(self, other: Count) -> Count {
        match (self, other) {
            (Count::Const(a), Count::Const(b)) => Count::Const(a + b),
            (a, b) => Count::Add(Box::new(a), Box::new(b)),
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        *self = std::mem::take(self) + other;
    }
}

impl Mul for Count {
    type Output = Count;

    fn mul(self, other: Count) -> Count {
        match (self, other) {
            (Count::Const(a), Count::Const(b)) => Count::Const(a.saturating_mul(b)),
            (a, b) => Count::Mul(Box::new(a), Box::new(b)),
        }
    }
}

/// Where the bytes of a buffer come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferKind {
    /// A tensor of the model file, by name. Read only; every load is proved to
    /// lie within the size plus the slack that a device must guarantee
    /// ([`Program::WEIGHT_SLACK`] readable bytes after the end).
    Weight(String),
    /// Written by the host before a step, by name.
    Input(String),
    /// Read by the host after a step, by name.
    Output(String),
    /// Lives from step to step, and may be shared by several programs, by name.
    State(String),
    /// A table computed at compile time.
    Const(Vec<u8>),
    /// Scratch between kernels of one step, at this offset of the arena.
    Arena(usize),
    /// A tensor of the model file, by name, whose rows are repacked when they
    /// are copied to the device.
    Planes {
        /// Its name.
        name: String,
        /// How its rows are packed.
        #[serde(with = "packing")]
        planes: Arc<Planes>,
    },
}

/// Planes are written as the name of their format and the length of rows. Formats that are not in the table, as tests make
/// them, cannot be read again.
mod packing {
    use super::{Arc, Planes};
    use gguf::format::rows;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(planes: &Planes, to: S) -> Result<S::Ok, S::Error> {
        (planes.from().name.to_string(), planes.to().block_len()).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Arc<Planes>, D::Error> {
        let (name, length) = <(String, u32)>::deserialize(from)?;
        let format = rows().iter().find(|format| format.name == name);
        let planes = format.and_then(|format| Planes::of(format, length.into()));
        planes.map(Arc::new).ok_or_else(|| D::Error::custom(format!("no planes of {name}")))
    }
}

/// A buffer of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Where its bytes live.
    pub kind: BufferKind,
    /// Size in bytes at the largest values of the variables.
    pub bytes: usize,
    /// What a reader of a report calls it.
    pub name: String,
}

/// What a launch of a kernel has to provide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Threads that run a task together: 1 on a CPU, those of a block on a GPU.
    pub threads: usize,
    /// Most bytes that a thread of a block loads or stores at once; vectors of a CPU have no such limit.
    pub widest: Option<usize>,
    /// Bytes of memory that the threads of a task share, near to them; dynamic shared memory of a GPU.
    pub shared_bytes: usize,
    /// Bytes of memory for each task that runs, 64-byte aligned on a CPU: each worker has them, or each block.
    pub scratch_bytes: usize,
    /// Whether it waits itself for the launches before it, so that it may begin before they are over.
    pub waits: bool,
}

/// A kernel: one function, shared by every launch of the same structure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// A name that encodes what it does; also the symbol of the function.
    pub symbol: String,
    /// The definition of the function. See [`Program`] for its signature.
    pub source: String,
    /// What a launch of it has to provide.
    pub geometry: Geometry,
    /// What the source was written from: nodes of this kernel alone, and the
    /// block of its statements. Nothing if the source is all that there is, or all that was kept.
    #[serde(skip)]
    pub ir: Option<Arc<(Graph, Id)>>,
}

impl Kernel {
    /// A kernel of single threads that is nothing but its source.
    pub fn of_source(symbol: impl Into<String>, source: impl Into<String>, scratch_bytes: usize) -> Kernel {
        let geometry = Geometry { threads: 1, widest: None, shared_bytes: 0, scratch_bytes, waits: false };
        Kernel { symbol: symbol.into(), source: source.into(), geometry, ir: None }
    }
}

/// Products in sums over weights, by what is multiplied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multiplied {
    /// Codes of 8 bits.
    pub codes: Count,
    /// Numbers of 16 bits.
    pub halves: Count,
}

impl AddAssign for Multiplied {
    fn add_assign(&mut self, other: Multiplied) {
        self.codes += other.codes;
        self.halves += other.halves;
    }
}

/// One use of a kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Launch {
    /// Index into [`Program::kernels`].
    pub kernel: usize,
    /// The buffers bound to its parameters, as indices into [`Program::buffers`].
    pub args: Vec<usize>,
    /// How many tasks it has. Tasks are independent and may run in any order.
    pub tasks: Count,
    /// The part of the tensor program that it belongs to ([`crate::Builder::scope`]); empty for none. What is fused
    /// into a kernel may come from other parts.
    pub scope: String,
    /// The tensors that it reads.
    pub origin: String,
    /// Bytes of weights that it reads, for reports.
    pub bytes: Count,
    /// Bytes of each row of states that it reads, for reports. How many rows are in use is data, and known to whoever
    /// fills them.
    pub row_bytes: i64,
    /// What it multiplies with weights, for reports.
    pub multiplied: Multiplied,
}

/// Launches with no barrier between them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stage {
    /// They may run at the same time.
    pub launches: Vec<Launch>,
}

/// One compiled step.
///
/// Every kernel has the C signature
/// `void symbol(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch)`
/// and runs the tasks `begin..end`; `bufs` holds one pointer for each argument
/// of the launch and `vars` the values of [`Program::vars`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// What it is for, in reports.
    pub name: String,
    /// C text that precedes every kernel of the program.
    pub prelude: String,
    /// Whether a step of it has many tokens, so that arithmetic bounds it rather than memory: more threads may help it.
    pub many_tokens: bool,
    /// Symbolic integers, in the order of the `vars` argument.
    pub vars: Vec<Variable>,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// Bytes of arena that a step needs, 64-byte aligned.
    pub arena_bytes: usize,
    /// Distinct kernels.
    pub kernels: Vec<Kernel>,
    /// The step, in order.
    pub stages: Vec<Stage>,
}

impl Program {
    /// Bytes after the end of a weight that a kernel may read (never use).
    pub const WEIGHT_SLACK: usize = 64;

    /// The launches of a step, in the order of their stages.
    pub fn each_launch(&self) -> impl Iterator<Item = &Launch> {
        self.stages.iter().flat_map(|stage| &stage.launches)
    }

    /// The number of launches of a step.
    pub fn launches(&self) -> usize {
        self.stages.iter().map(|s| s.launches.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_do_not_overflow() {
        let double = Count::Mul(Box::new(Count::Var(0)), Box::new(Count::Const(2)));
        assert_eq!(double.eval(&[21]), Some(42));
        assert_eq!(double.eval(&[i64::MAX]), None);
        let least = Count::Min(Box::new(double), Box::new(Count::Const(10)));
        assert_eq!([3, 21].map(|value| least.eval(&[value])), [Some(6), Some(10)]);
        assert_eq!(least.eval(&[i64::MAX]), None);
        let eighth = Count::CeilDiv(Box::new(Count::Var(0)), 8);
        assert_eq!(eighth.eval(&[17]), Some(3));
        assert_eq!(eighth.eval(&[i64::MAX]), None);
    }
}
