//! Instructions, as C with vector extensions says them.

use ir::{Const, DType, Id, Type};

/// How something is computed. What it is computed from comes with it, so a value is a tree whose leaves are other values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inst {
    /// Another value of the kernel.
    Value(Id),
    /// A number of this type.
    Number(Const, DType),
    /// A function of the prelude or of the compiler.
    Call(String, Vec<Inst>),
    /// An operation of the language before its operand.
    Prefix(&'static str, Box<Inst>),
    /// An operation of the language between two operands.
    Infix(Box<Inst>, &'static str, Box<Inst>),
    /// In parentheses.
    Grouped(Box<Inst>),
    /// `(condition, if true, if false)` of scalars.
    Pick(Box<[Inst; 3]>),
    /// A scalar converted, or the bits of a vector taken as another.
    Cast(Type, Box<Inst>),
    /// A vector converted lane by lane.
    Convert(Type, Box<Inst>),
    /// Lanes of two vectors, counted through both.
    Shuffle(Box<[Inst; 2]>, Vec<u16>),
    /// A vector of scalars.
    Lanes(Type, Vec<Inst>),
    /// Vectors of unequal lanes one after another, through memory.
    Parts(Type, Vec<(Type, Inst)>),
    /// An entry of a table of bytes.
    Entry(Vec<Const>, Box<Inst>),
    /// An element of a buffer: `(buffer, index)`.
    Element(Id, Id),
    /// Its address.
    Address(Id, Id),
    /// Something with a name of its own.
    Held(Type, Box<Inst>),
}

pub(super) fn value(id: Id) -> Inst {
    Inst::Value(id)
}

pub(super) fn integer(v: i64) -> Inst {
    Inst::Number(Const::Int(v), DType::I32)
}

pub(super) fn numbers(ty: Type, values: impl IntoIterator<Item = Const>) -> Inst {
    Inst::Lanes(ty, values.into_iter().map(|c| Inst::Number(c, ty.base)).collect())
}

pub(super) fn call(name: impl Into<String>, operands: impl Into<Vec<Inst>>) -> Inst {
    Inst::Call(name.into(), operands.into())
}

pub(super) fn prefix(sign: &'static str, of: Inst) -> Inst {
    Inst::Prefix(sign, Box::new(of))
}

pub(super) fn grouped(of: Inst) -> Inst {
    Inst::Grouped(Box::new(of))
}

pub(super) fn infix(a: Inst, sign: &'static str, b: Inst) -> Inst {
    Inst::Infix(Box::new(a), sign, Box::new(b))
}

pub(super) fn pick(condition: Inst, a: Inst, b: Inst) -> Inst {
    Inst::Pick(Box::new([condition, a, b]))
}

pub(super) fn cast(ty: Type, of: Inst) -> Inst {
    Inst::Cast(ty, Box::new(of))
}

pub(super) fn convert(ty: Type, of: Inst) -> Inst {
    Inst::Convert(ty, Box::new(of))
}

/// The name of a type in C and in the names of functions of the prelude. Vectors of truth values are bytes.
pub(crate) fn type_name(ty: Type) -> String {
    let scalar = match ty.base {
        DType::Bool | DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::U16 => "uint16_t",
        DType::I16 => "int16_t",
        DType::U32 => "uint32_t",
        DType::I32 => "int32_t",
        DType::Index => "int64_t",
        DType::F16 => "kl_f16",
        DType::BF16 => "kl_bf16",
        DType::F32 => "float",
    };
    match (ty.lanes, ty.base) {
        (1, _) => scalar.into(),
        (n, DType::Bool) => format!("i8x{n}"),
        (n, base) => format!("{base}x{n}"),
    }
}
