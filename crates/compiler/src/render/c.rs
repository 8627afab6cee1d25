//! C source of a kernel.
//!
//! Prints the instructions that were selected for each value. Vectors are
//! GCC/clang vector extensions; what those cannot say (integer dots, half
//! floats, table look-ups) is a small inline function of the prelude with one
//! body for each instruction set.

use crate::cpu::select::{Inst, Selection, register, type_name};
use crate::kernel::body::Body;
use crate::render::family::{Language, Renderer, Unwritable, buffer};
use ir::{Const, DType, Graph, Id, Op, Type};
use std::fmt::Write;

/// C text before every kernel.
pub const PRELUDE: &str = include_str!("prelude.h");

/// Bytes at whose multiples scratch arrays begin: a line of the cache, and a vector.
pub(crate) const ALIGN: usize = 64;

/// The function of a kernel, and before it one of its tasks. `vars` names the variables in the order of the `vars` argument.
///
/// Buffers are parameters of the latter, as compilers believe `restrict` of parameters only: that of a local variable keeps no
/// load out of a loop that stores. A buffer in which a kernel replaces what it reads has two names, and is not restricted.
///
/// # Errors
/// What C has no words for.
pub(crate) fn kernel(
    g: &mut Graph,
    symbol: &str,
    body: &Body,
    selection: &Selection,
    vars: &[String],
) -> Result<String, Unwritable> {
    let mut r = Renderer::new(C { selection }, vars, 1);
    let (mut parameters, mut arguments) = (String::new(), String::new());
    let mut offset = 0usize;
    for s in &body.stashes {
        let Op::Buffer { slot, len, .. } = *g.op(*s) else { unreachable!() };
        let ty = g.dtype(*s);
        let _ = write!(parameters, "{} *restrict s{slot}, ", type_name(ty.into()));
        let _ = write!(arguments, "({} *)((char *)scratch + {offset}), ", type_name(ty.into()));
        offset += (len * ty.bytes()).next_multiple_of(ALIGN);
    }
    let order = g.toposort(&[body.root]);
    let slots = |read: bool| -> Vec<u32> { order.iter().filter_map(|&id| slot(g, id, read)).collect() };
    let (read, written) = (slots(true), slots(false));
    let mut accs = String::new();
    for &id in &order {
        match *g.op(id) {
            Op::Acc(n) => {
                let _ = writeln!(accs, "    {} a{n};", type_name(g.ty(id)));
            }
            Op::Buffer { slot, space, .. } if !space.is_scratch() => {
                let (c, star) = if space.is_read_only() { ("const ", "i") } else { ("", "o") };
                let restrict = if read.contains(&slot) && written.contains(&slot) { "" } else { "restrict " };
                let ty = g.dtype(id);
                let _ = write!(parameters, "{c}{} *{restrict}{star}{slot}_{ty}, ", type_name(ty.into()));
                let _ = write!(arguments, "bufs[{slot}], ");
            }
            _ => {}
        }
    }
    let tasks = "const int64_t *restrict vars, int64_t begin, int64_t end";
    let mut head = format!("static void KL_TASKS({symbol})({parameters}{tasks}) {{\n");
    let unit = order.iter().any(|&id| *g.op(id) == Op::Product);
    if unit {
        head.push_str("  kl_product_begin();\n");
    }
    let task = order.iter().copied().find(|&id| matches!(g.op(id), Op::Range(_, ir::Axis::Task)));
    if let Some(t) = task {
        r.name(t, "task");
    }
    r.statements(g, &[body.root]);
    let _ = writeln!(head, "  for (int64_t task = begin; task < end; task++) {{");
    head.push_str(&accs);
    head.push_str(&r.finish()?);
    head.push_str("  }\n");
    if unit {
        head.push_str("  kl_product_end();\n");
    }
    let _ = writeln!(
        head,
        "  (void)vars;\n}}\nvoid {symbol}(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {{\n  \
         KL_TASKS({symbol})({arguments}vars, begin, end);\n  (void)scratch;\n}}"
    );
    Ok(head)
}

/// The slot of a buffer that a kernel shares with others, if it reads it alone, or if it does not.
fn slot(g: &Graph, id: Id, read: bool) -> Option<u32> {
    match *g.op(id) {
        Op::Buffer { slot, space, .. } if !space.is_scratch() && space.is_read_only() == read => Some(slot),
        _ => None,
    }
}

/// C, and how the values of a kernel are computed in it.
struct C<'s> {
    selection: &'s Selection,
}

impl Language for C<'_> {
    const NAME: &'static str = "C";

    fn type_name(ty: Type) -> String {
        type_name(ty)
    }

    fn type_of(g: &mut Graph, id: Id) -> String {
        type_name(register(g, id))
    }

    fn tag(ty: DType) -> String {
        ty.to_string()
    }

    fn constant(c: Const, ty: DType) -> String {
        constant(c, ty)
    }

    fn variable(_: &mut Graph, _: Id, number: usize) -> String {
        format!("vars[{number}]")
    }

    fn define(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        let text = r.selected(g, id);
        r.hold(&Self::type_of(g, id), &text)
    }

    fn store(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        format!("{};", r.selected(g, id))
    }

    fn statement(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) {
        r.scope("", |r| {
            let text = r.selected(g, id);
            r.line(&format!("{text};"));
        });
    }
}

impl Renderer<'_, C<'_>> {
    fn selected(&mut self, g: &mut Graph, id: Id) -> String {
        match self.language.selection.get(&id) {
            Some(inst) => self.inst(g, inst),
            None => self.unknown(g, id),
        }
    }

    fn inst(&mut self, g: &mut Graph, inst: &Inst) -> String {
        match inst {
            Inst::Value(id) => self.value(g, *id),
            Inst::Number(c, ty) => constant(*c, *ty),
            Inst::Call(name, operands) => format!("{name}({})", self.list(g, operands)),
            Inst::Prefix(sign, a) => format!("{sign}{}", self.inst(g, a)),
            Inst::Infix(a, sign, b) => {
                let a = self.inst(g, a);
                format!("{a} {sign} {}", self.inst(g, b))
            }
            Inst::Grouped(a) => format!("({})", self.inst(g, a)),
            Inst::Pick(operands) => {
                let [c, a, b] = operands.each_ref().map(|inst| self.inst(g, inst));
                format!("({c} ? {a} : {b})")
            }
            Inst::Cast(ty, a) => format!("({}){}", type_name(*ty), self.inst(g, a)),
            Inst::Convert(ty, a) => format!("__builtin_convertvector({}, {})", self.inst(g, a), type_name(*ty)),
            Inst::Shuffle(sources, map) => {
                let map: Vec<String> = map.iter().map(u16::to_string).collect();
                format!("__builtin_shufflevector({}, {})", self.list(g, &**sources), map.join(", "))
            }
            Inst::Lanes(ty, lanes) => format!("({}){{{}}}", type_name(*ty), self.list(g, lanes)),
            Inst::Parts(ty, parts) => {
                let mut text = format!("({{ {} v; ", type_name(*ty));
                let mut at = 0;
                for (ty, part) in parts {
                    let (name, part) = (type_name(*ty), self.inst(g, part));
                    let _ = write!(text, "{{ {name} p = {part}; memcpy((char *)&v + {at}, &p, sizeof p); }} ");
                    at += ty.bytes();
                }
                text + "v; })"
            }
            Inst::Entry(table, at) => {
                let table: Vec<String> = table.iter().map(|c| constant(*c, DType::U8)).collect();
                format!("((const uint8_t[16]){{{}}})[{}]", table.join(", "), self.inst(g, at))
            }
            Inst::Element(of, at) => {
                let at = self.value(g, *at);
                format!("{}[{at}]", buffer::<C>(g, *of))
            }
            Inst::Address(of, at) => {
                let at = self.value(g, *at);
                format!("{} + {at}", buffer::<C>(g, *of))
            }
            Inst::Held(ty, a) => {
                let text = self.inst(g, a);
                self.hold(&type_name(*ty), &text)
            }
        }
    }

    /// Operands one after another; one that is there twice is computed once.
    fn list(&mut self, g: &mut Graph, operands: &[Inst]) -> String {
        let mut texts: Vec<String> = vec![];
        for (i, operand) in operands.iter().enumerate() {
            let before = operands[..i].iter().position(|other| matches!(other, Inst::Held(..)) && other == operand);
            let text = before.map_or_else(|| self.inst(g, operand), |at| texts[at].clone());
            texts.push(text);
        }
        texts.join(", ")
    }
}

fn constant(c: Const, ty: DType) -> String {
    match (c, ty.is_float()) {
        (Const::Int(v), false) if ty == DType::Index => format!("INT64_C({v})"),
        (Const::Int(v), false) if v == i32::MIN as i64 => "INT32_MIN".into(),
        (Const::Int(v), false) => format!("{v}"),
        (c, true) => {
            let v = c.as_f32();
            if v.is_nan() {
                "NAN".into()
            } else if v.is_infinite() {
                if v > 0.0 { "INFINITY".into() } else { "-INFINITY".into() }
            } else {
                let s = format!("{v:?}");
                let s = if s.contains(['.', 'e']) { s } else { format!("{s}.0") };
                format!("{s}f")
            }
        }
        (c, false) => format!("{}", c.as_int()),
    }
}
