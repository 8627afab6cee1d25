//! A parsed template.

use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Expr {
    pub(super) line: u32,
    /// Longest chain of expressions below, itself included.
    pub(super) depth: usize,
    pub(super) kind: ExprKind,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Literal(Literal),
    Name(Arc<str>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attribute(Box<Expr>, Arc<str>),
    Item(Box<Expr>, Box<Expr>),
    /// Object, start, stop, step.
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Args),
    Filter(Box<Expr>, Applied),
    Test {
        value: Box<Expr>,
        test: Applied,
        negated: bool,
    },
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Not(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: each pair of neighbours is compared.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// `then if condition else otherwise`
    Conditional {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Option<Box<Expr>>,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Literal {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Concat,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// A filter or test with its arguments.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) name: Arc<str>,
    pub(super) args: Args,
}

#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Arc<str>, Expr)>,
}

/// What a value is assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(Arc<str>),
    Tuple(Vec<Target>),
    /// An attribute of a namespace.
    Attribute(Arc<str>, Arc<str>),
}

#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) line: u32,
    pub(super) kind: StmtKind,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    Text(Arc<str>),
    Emit(Expr),
    If {
        branches: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    For(For),
    Set(Target, Expr),
    SetBlock {
        target: Target,
        filters: Vec<Applied>,
        body: Vec<Stmt>,
    },
    Macro(Arc<Macro>),
    /// A macro call that gets the body as `caller`.
    CallBlock {
        call: Expr,
        caller: Arc<Macro>,
    },
    FilterBlock {
        filters: Vec<Applied>,
        body: Vec<Stmt>,
    },
    With {
        assignments: Vec<(Target, Expr)>,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) condition: Option<Expr>,
    pub(super) body: Vec<Stmt>,
    pub(super) otherwise: Vec<Stmt>,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: Arc<str>,
    pub(super) params: Vec<(Arc<str>, Option<Expr>)>,
    pub(super) body: Vec<Stmt>,
}
