//! Values of symbolic integers, and of expressions of them.

use super::lanes::{self, Fault};
use crate::{BinOp, Const, DType, Graph, Id, Op, UnOp};
use std::collections::BTreeMap;

/// Why an index expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarError {
    /// A variable was not given.
    #[error("the variable {0} has no value")]
    Missing(String),
    /// A variable is outside its bounds.
    #[error("the variable {name} is {value}, outside {min}..={max}")]
    Range {
        /// Its name.
        name: String,
        /// The value given.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// The expression holds something that is not index arithmetic.
    #[error("{0} is not index arithmetic")]
    NotIndex(String),
    /// The arithmetic failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Values of symbolic integers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vars(BTreeMap<String, i64>);

impl Vars {
    /// No values.
    pub fn new() -> Vars {
        Vars::default()
    }

    /// The same with one value more.
    pub fn with(mut self, name: &str, value: i64) -> Vars {
        self.set(name, value);
        self
    }

    /// Gives a variable its value.
    pub fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.into(), value);
    }

    /// The value of a variable that must lie in `min..=max`.
    ///
    /// # Errors
    /// [`VarError::Missing`] or [`VarError::Range`].
    pub fn get(&self, name: &str, min: i64, max: i64) -> Result<i64, VarError> {
        match self.0.get(name) {
            None => Err(VarError::Missing(name.into())),
            Some(&value) if value < min || value > max => Err(VarError::Range { name: name.into(), value, min, max }),
            Some(&value) => Ok(value),
        }
    }

    /// The value of an index expression of constants and variables.
    ///
    /// # Errors
    /// If a variable is missing or out of its bounds, or the expression is not
    /// index arithmetic.
    pub fn eval(&self, g: &Graph, id: Id) -> Result<i64, VarError> {
        let n = g.node(id);
        let src = |i: usize| self.eval(g, n.src[i]);
        match &n.op {
            Op::Const(c) => Ok(c.as_int()),
            Op::Var { name, min, max, .. } => self.get(name, *min, *max),
            Op::Binary(op) => {
                let (a, b) = (src(0)?, src(1)?);
                if matches!(op, BinOp::Div | BinOp::Mod) && b == 0 {
                    return Err(Fault::DivisionByZero.into());
                }
                Ok(lanes::const_binary(*op, DType::Index, Const::Int(a), Const::Int(b)).as_int())
            }
            Op::Unary(UnOp::Neg) => Ok(src(0)?.wrapping_neg()),
            Op::Unary(UnOp::Not) => Ok(i64::from(src(0)? == 0)),
            Op::Where => {
                if src(0)? != 0 {
                    src(1)
                } else {
                    src(2)
                }
            }
            Op::Cast if !n.ty.base.is_float() && !g.dtype(n.src[0]).is_float() => src(0),
            op => Err(VarError::NotIndex(format!("{op:?}"))),
        }
    }
}
