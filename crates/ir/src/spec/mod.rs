//! The executable grammar of each vocabulary.
//!
//! A check derives type and shape of every node again from its sources and
//! compares; it trusts no constructor. It proves the form of a program, not
//! that it computes what was meant: that is what the interpreter is for.

mod block;
mod kernel;
mod tensor;
#[cfg(test)]
mod tests;

pub(crate) use crate::print::describe;
pub(crate) use kernel::ranges_of;
pub use kernel::{check_kernel, check_scalars};
pub use tensor::check_tensor;

use crate::{Axis, BinOp, DType, Graph, Id, Op, Type, UnOp};

/// A node that breaks a rule of its vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {rule}")]
pub struct SpecError {
    /// The node in print form.
    pub node: String,
    /// The rule that it breaks.
    pub rule: String,
}

/// Whether a rule holds, or what it says.
type Rule = Result<(), String>;

fn require(holds: bool, rule: impl FnOnce() -> String) -> Rule {
    if holds { Ok(()) } else { Err(rule()) }
}

fn require_sources(g: &Graph, id: Id, n: usize) -> Rule {
    let found = g.src(id).len();
    require(found == n, || format!("it must have {n} sources, not {found}"))
}

/// The known extent of the only range of an axis among these nodes.
pub(crate) fn extent_of(g: &Graph, nodes: &[Id], axis: Axis) -> Option<i64> {
    let range = nodes.iter().find(|&&id| matches!(g.op(id), Op::Range(_, a) if *a == axis))?;
    g.as_int(g.src(*range)[0])
}

/// Rules of the operations that tensors and kernels share: types only.
fn check_shared(g: &Graph, id: Id) -> Rule {
    let ty = g.ty(id);
    let src = |i: usize| g.ty(g.src(id)[i]);
    match g.op(id) {
        Op::Const(_) => {
            require_sources(g, id, 0)?;
            require(ty.lanes == 1, || "a constant is a scalar".into())
        }
        Op::Var { min, max, .. } => {
            require_sources(g, id, 0)?;
            require(ty == Type::from(DType::Index), || "a variable is an index".into())?;
            require(min <= max, || format!("no value lies in {min}..={max}"))
        }
        Op::Unary(op) => {
            require_sources(g, id, 1)?;
            require(src(0) == ty, || format!("{op:?} of {} cannot be {ty}", src(0)))?;
            let exists = match op {
                UnOp::Not => ty.base == DType::Bool,
                UnOp::Neg | UnOp::Abs => ty.base != DType::Bool,
                _ => ty.base.is_float(),
            };
            require(exists, || format!("there is no {op:?} of {}", ty.base))
        }
        Op::Binary(op) => {
            require_sources(g, id, 2)?;
            require(src(0) == src(1), || format!("{op:?} of {} and {}", src(0), src(1)))?;
            let base = src(0).base;
            let exists = match op {
                BinOp::And | BinOp::Or | BinOp::Xor => !base.is_float(),
                BinOp::Mod | BinOp::Shl | BinOp::Shr => base.is_int(),
                BinOp::Eq | BinOp::Lt | BinOp::Min | BinOp::Max => true,
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div => base != DType::Bool,
            };
            require(exists, || format!("there is no {op:?} of {base}"))?;
            let expected = Type { base: crate::op::binary_type(*op, base), lanes: src(0).lanes };
            require(ty == expected, || format!("{op:?} of {} is {expected}, not {ty}", src(0)))
        }
        Op::Where => {
            require_sources(g, id, 3)?;
            require(src(0).base == DType::Bool, || format!("the condition is {}", src(0)))?;
            let lanes = src(0).lanes;
            require(lanes == 1 || lanes == ty.lanes, || format!("{lanes} conditions for {ty}"))?;
            require(src(1) == ty && src(2) == ty, || format!("{ty} cannot be {} or {}", src(1), src(2)))
        }
        Op::Cast => {
            require_sources(g, id, 1)?;
            require(src(0).lanes == ty.lanes, || format!("a cast of {} cannot be {ty}", src(0)))
        }
        op => Err(format!("{op:?} is not elementwise")),
    }
}
