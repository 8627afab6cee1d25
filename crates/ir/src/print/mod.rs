//! Text of programs, for snapshots, dumps and errors.
//!
//! The text depends on the program alone: values are numbered in the order in
//! which they are printed, never by their place in the arena. Extents, indices
//! and constants are written in place. It is not meant to be read back.

mod kernel;
#[cfg(test)]
mod tests;

pub use kernel::kernel;

use crate::walk::post_order;
use crate::{Axis, BinOp, Const, DType, Graph, Id, Op, Part, ReduceOp, Space, UnOp};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// What a function of one value is called.
fn unary_name(op: UnOp) -> &'static str {
    match op {
        UnOp::Neg => "neg",
        UnOp::Exp => "exp",
        UnOp::Sqrt => "sqrt",
        UnOp::Rsqrt => "rsqrt",
        UnOp::Recip => "recip",
        UnOp::Sin => "sin",
        UnOp::Cos => "cos",
        UnOp::Abs => "abs",
        UnOp::Round => "round",
        UnOp::Not => "not",
        UnOp::Exp2 => "exp2",
    }
}

/// What a function of two values is called, and its sign and how tightly it
/// binds, if it has one.
fn binary_name(op: BinOp) -> (&'static str, Option<(&'static str, u8)>) {
    match op {
        BinOp::Add => ("add", Some(("+", 5))),
        BinOp::Sub => ("sub", Some(("-", 5))),
        BinOp::Mul => ("mul", Some(("*", 6))),
        BinOp::Div => ("div", Some(("/", 6))),
        BinOp::Mod => ("mod", Some(("%", 6))),
        BinOp::Min => ("min", None),
        BinOp::Max => ("max", None),
        BinOp::And => ("and", Some(("&", 2))),
        BinOp::Or => ("or", Some(("|", 1))),
        BinOp::Xor => ("xor", Some(("^", 1))),
        BinOp::Shl => ("shl", Some(("<<", 4))),
        BinOp::Shr => ("shr", Some((">>", 4))),
        BinOp::Lt => ("lt", Some(("<", 3))),
        BinOp::Eq => ("eq", Some(("==", 3))),
    }
}

fn reduce_name(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "sum",
        ReduceOp::Max => "max",
    }
}

/// A constant of some type.
fn constant(c: Const, ty: DType) -> String {
    match (ty, ty.is_float()) {
        (_, true) => format!("{:?}", c.as_f32()),
        (DType::Bool, _) => if c.as_int() != 0 { "true" } else { "false" }.into(),
        _ => c.as_int().to_string(),
    }
}

/// The operation of a node with what is not a source: `slice 1 @ 3`.
fn operation(g: &Graph, id: Id) -> String {
    match g.op(id) {
        Op::Const(c) => constant(*c, g.dtype(id)),
        Op::Unary(op) => unary_name(*op).into(),
        Op::Binary(op) => binary_name(*op).0.into(),
        Op::Where => "where".into(),
        Op::Cast => "cast".into(),
        Op::Var { name, .. } => name.clone(),
        Op::Param { name } => format!("param {name}"),
        Op::State { name } => format!("state {name}"),
        Op::Reshape => "reshape".into(),
        Op::Permute(perm) => format!("permute {perm:?}"),
        Op::Expand => "expand".into(),
        Op::Slice { axis, start } => format!("slice {axis} from {start}"),
        Op::Concat(axis) => format!("concat {axis}"),
        Op::Reduce(op, axes) => format!("reduce {} {axes:?}", reduce_name(*op)),
        Op::Gather => "gather".into(),
        Op::Scatter => "scatter".into(),
        Op::Scan(axis) => format!("scan {axis}"),
        Op::Dequant(format, part) => {
            let part = match part {
                Part::Value => "value",
                Part::Code => "code",
                Part::Level => "level",
                Part::Scale => "scale",
                Part::Offset => "offset",
            };
            format!("dequant {} {part}", g.format(*format).name)
        }
        Op::TopK(k) => format!("topk {k}"),
        Op::Fold { axis, part, parts } => format!("fold {axis} part {part} of {parts}"),
        Op::Recur { inputs, part } => format!("recur part {part} of {inputs} inputs"),
        Op::Arg(n) => format!("arg {n}"),
        Op::Iota => "iota".into(),
        Op::Choice { name, of } => format!("choice {name} of {}", of.join(", ")),
        Op::Prefix(axis) => format!("prefix {axis}"),
        Op::Fence => "fence".into(),
        Op::Call { symbol, tasks, .. } => format!("call {symbol} tasks {tasks}"),
        Op::Range(number, axis) => format!("{} range {number}", axis_name(*axis)),
        Op::Buffer { slot, space, len } => match space {
            space if space.is_scratch() => format!("{}{slot} of {len}", space_name(*space)),
            _ => format!("{}{slot}", space_name(*space)),
        },
        Op::Load => "load".into(),
        Op::Store => "store".into(),
        Op::Acc(n) => format!("acc {n}"),
        Op::Set => "set".into(),
        Op::Loop => "loop".into(),
        Op::If => "if".into(),
        Op::Block => "block".into(),
        Op::Prefetch(level) => format!("prefetch {level}"),
        Op::Barrier { memory: true } => "barrier".into(),
        Op::Barrier { memory: false } => "barrier of shared memory".into(),
        Op::Wait => "wait".into(),
        Op::Trigger => "trigger".into(),
        Op::Parts => "parts".into(),
        Op::LaneXor(mask) => format!("lane xor {mask}"),
        Op::Fragment { transposed: false } => "fragment".into(),
        Op::Fragment { transposed: true } => "transposed fragment".into(),
        Op::WarpProduct => "warp product".into(),
        Op::StoreFragment { pitch } => format!("store fragment, {pitch} apart"),
        Op::Splat => "splat".into(),
        Op::Shuffle(map) => format!("shuffle {map:?}"),
        Op::Join => "join".into(),
        Op::Dot4 => "dot4".into(),
        Op::Dot2 => "dot2".into(),
        Op::Product => "product".into(),
        Op::Across(op) => format!("across {}", reduce_name(*op)),
        Op::Lanes(values) => {
            let each = |c: &Const| constant(*c, g.dtype(id));
            match values.split_first() {
                Some((first, rest)) if !rest.is_empty() && rest.iter().all(|c| c == first) => {
                    format!("lanes [{}; {}]", each(first), values.len())
                }
                _ => format!("lanes [{}]", values.iter().map(each).collect::<Vec<_>>().join(", ")),
            }
        }
        Op::Lookup => "lookup".into(),
        Op::Extract(lane) => format!("extract {lane}"),
    }
}

fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Task => "task",
        Axis::Loop => "loop",
        Axis::Warp => "warp",
        Axis::Lane => "lane",
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Input => "in",
        Space::Weight => "weight",
        Space::Output => "out",
        Space::Task => "scratch",
        Space::Shared => "shared",
    }
}

/// An expression in one line. `leaf` gives the text of the nodes that have a
/// name or need another form.
fn infix(g: &Graph, id: Id, tightness: u8, leaf: &mut dyn FnMut(Id) -> Option<String>) -> String {
    if let Some(text) = leaf(id) {
        return text;
    }
    let src = g.src(id);
    match g.op(id) {
        Op::Const(_) | Op::Var { .. } => operation(g, id),
        Op::Binary(op) => match binary_name(*op) {
            (_, Some((sign, level))) => {
                let a = infix(g, src[0], level, leaf);
                let b = infix(g, src[1], level + 1, leaf);
                if level < tightness { format!("({a} {sign} {b})") } else { format!("{a} {sign} {b}") }
            }
            (name, None) => {
                let a = infix(g, src[0], 0, leaf);
                let b = infix(g, src[1], 0, leaf);
                format!("{name}({a}, {b})")
            }
        },
        op => {
            let name = match op {
                Op::Cast | Op::Splat => g.ty(id).to_string(),
                _ => operation(g, id),
            };
            if src.is_empty() {
                return name;
            }
            let src: Vec<String> = src.iter().map(|&s| infix(g, s, 0, leaf)).collect();
            format!("{name}({})", src.join(", "))
        }
    }
}

fn type_and_shape(g: &Graph, id: Id) -> String {
    let ty = g.ty(id).to_string();
    if g.shape(id).is_empty() {
        return ty;
    }
    let dims: Vec<String> = g.shape(id).iter().map(|&d| extent(g, d)).collect();
    format!("{ty}[{}]", dims.join(", "))
}

/// A buffer of a kernel.
pub(crate) fn buffer_name(g: &Graph, id: Id) -> String {
    match g.op(id) {
        Op::Buffer { slot, space, len } => {
            let len = if space.is_scratch() { format!("[{len}]") } else { String::new() };
            format!("{}{slot}: {}{len}", space_name(*space), g.dtype(id))
        }
        _ => describe(g, id),
    }
}

/// An index expression.
pub(crate) fn extent(g: &Graph, d: Id) -> String {
    infix(g, d, 0, &mut |_| None)
}

/// One node for an error message, with the ids of its arena.
pub fn describe(g: &Graph, id: Id) -> String {
    let src: Vec<String> = g.src(id).iter().map(|s| format!("{s:?}")).collect();
    format!("{id:?} = {}({}): {}", operation(g, id), src.join(", "), type_and_shape(g, id))
}

/// A tensor graph, one line for each value, and the values of the roots.
pub fn tensor(g: &Graph, roots: &[Id]) -> String {
    let mut out = String::new();
    let mut names: FxHashMap<Id, String> = FxHashMap::default();
    for id in depth_first(g, roots) {
        let is_index = g.dtype(id) == DType::Index && g.shape(id).is_empty();
        let in_place = is_index && (g.op(id).is_elementwise() || matches!(g.op(id), Op::Var { .. }));
        if in_place || matches!(g.op(id), Op::Const(_)) && g.shape(id).is_empty() {
            names.insert(id, infix(g, id, u8::MAX, &mut |s| names.get(&s).cloned()));
            continue;
        }
        let name = format!("%{}", names.values().filter(|n| n.starts_with('%')).count());
        let src = |range: std::ops::Range<usize>| {
            let src: Vec<&str> = g.src(id)[range].iter().map(|s| names[s].as_str()).collect();
            src.join(", ")
        };
        let n = g.src(id).len();
        let args = match g.op(id) {
            Op::Fold { parts: p, .. } if n == 3 * p + 1 => format!(
                "({}) merge ({}) from ({}) count {}",
                src(0..*p),
                src(*p..2 * p),
                src(2 * p..3 * p),
                src(3 * p..n)
            ),
            _ if n == 0 => String::new(),
            _ => format!(" {}", src(0..n)),
        };
        let _ = writeln!(out, "{name} = {}{args}: {}", operation(g, id), type_and_shape(g, id));
        names.insert(id, name);
    }
    let roots: Vec<&str> = roots.iter().map(|r| names[r].as_str()).collect();
    let _ = writeln!(out, "return {}", roots.join(", "));
    out
}

/// Nodes before their users, in the order in which the roots reach them.
fn depth_first(g: &Graph, roots: &[Id]) -> Vec<Id> {
    post_order(roots, |id| Some(g.src(id)))
}
