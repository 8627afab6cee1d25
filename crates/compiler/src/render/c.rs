//! C source of a kernel.
//!
//! One rule for each operation and for each instruction. Vectors are GCC/clang
//! vector extensions; what those cannot say (integer dots, half floats, table
//! look-ups) is a small inline function of the prelude with one body for each
//! instruction set.

use crate::kernel::body::Body;
use crate::render::family::{Language, Renderer, Unwritable, buffer, is_promoted, sign};
use ir::{BinOp, Const, DType, Graph, Id, Node, Op, PRODUCT, ReduceOp, Space, Type, UnOp};
use std::fmt::Write;

/// C text before every kernel.
pub const PRELUDE: &str = include_str!("prelude.h");

/// Bytes at whose multiples scratch arrays begin: a line of the cache, and a vector.
pub(crate) const ALIGN: usize = 64;

/// The function of a kernel. `vars` names the variables in the order of the
/// `vars` argument.
///
/// # Errors
/// What C has no words for.
pub fn kernel(g: &mut Graph, symbol: &str, body: &Body, vars: &[String]) -> Result<String, Unwritable> {
    let mut r = Renderer::new(C, vars, 1);
    let mut head = String::new();
    let _ = writeln!(
        head,
        "void {symbol}(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {{"
    );
    let mut offset = 0usize;
    for s in &body.stashes {
        let Op::Buffer { slot, len, .. } = *g.op(*s) else { unreachable!() };
        let ty = g.dtype(*s);
        let _ = writeln!(head, "  {0} *restrict s{slot} = ({0} *)((char *)scratch + {offset});", ctype(ty.into()));
        offset += (len * ty.bytes()).next_multiple_of(ALIGN);
    }
    let order = g.toposort(&[body.root]);
    let mut accs = String::new();
    for &id in &order {
        match *g.op(id) {
            Op::Acc(n) => {
                let _ = writeln!(accs, "    {} a{n};", ctype(g.ty(id)));
            }
            Op::Buffer { slot, space, .. } if !space.is_scratch() => {
                let (c, star) = if space.is_read_only() { ("const ", "i") } else { ("", "o") };
                let ty = g.dtype(id);
                let _ =
                    writeln!(head, "  {c}{0} *restrict {star}{slot}_{ty} = ({c}{0} *)bufs[{slot}];", ctype(ty.into()));
            }
            _ => {}
        }
    }
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
    head.push_str("  (void)vars; (void)scratch;\n}\n");
    Ok(head)
}

fn ctype(t: Type) -> String {
    let base = match t.base {
        DType::Bool => "uint8_t",
        DType::U8 => "uint8_t",
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
    match (t.lanes, t.base) {
        (1, _) => base.into(),
        (n, DType::Bool) => format!("i8x{n}"),
        (n, _) => format!("{}x{n}", t.base),
    }
}

struct C;

impl Language for C {
    const NAME: &'static str = "C";
    const EXTENT: &'static str = "n";
    const STORES_TOGETHER: bool = true;
    const HOLDS_EACH: bool = false;

    fn type_name(ty: Type) -> String {
        ctype(ty)
    }

    /// Masks are vectors of signed integers.
    fn type_of(g: &mut Graph, id: Id) -> String {
        match g.ty(id) {
            Type { base: DType::Bool, lanes } if lanes > 1 => format!("i{}x{lanes}", mask_bits(g, id)),
            ty => ctype(ty),
        }
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

    fn define(r: &mut Renderer<'_, C>, g: &mut Graph, id: Id) -> String {
        let text = r.expression(g, id);
        r.hold(&C::type_of(g, id), &text)
    }

    fn store(r: &mut Renderer<'_, C>, g: &mut Graph, id: Id) -> String {
        let [to, index, value] = g.src(id)[..3] else { panic!("a store without a value") };
        if *g.op(value) == Op::Product {
            return r.product(g, value);
        }
        let at = r.value(g, index);
        let v = r.value(g, value);
        let b = buffer::<C>(g, to);
        let ty = g.ty(value);
        match (ty.lanes, ty.base) {
            (1, _) => format!("{b}[{at}] = {v};"),
            (n, DType::Bool) => {
                format!("kl_store_i8x{n}({b} + {at}, -{});", widen_mask(&v, mask_bits(g, value), 8, n))
            }
            _ => format!("kl_store_{}({b} + {at}, {v});", ctype(ty)),
        }
    }

    fn statement(r: &mut Renderer<'_, C>, g: &mut Graph, id: Id) {
        match *g.op(id) {
            Op::Prefetch(level) => r.scope("", |r| {
                let at = r.value(g, g.src(id)[1]);
                let b = buffer::<C>(g, g.src(id)[0]);
                // To read, with a locality of 3 for the nearest cache.
                r.line(&format!("__builtin_prefetch({b} + {at}, 0, {});", 4 - level));
            }),
            _ => drop(r.unknown(g, id)),
        }
    }
}

impl Renderer<'_, C> {
    /// The call of a matrix unit.
    fn product(&mut self, g: &mut Graph, id: Id) -> String {
        let sources = g.src(id).to_vec();
        let places: Vec<String> = sources
            .iter()
            .map(|&load| {
                let at = self.value(g, g.src(load)[1]);
                format!("{} + {at}", buffer::<C>(g, g.src(load)[0]))
            })
            .collect();
        let steps = usize::from(g.ty(sources[1]).lanes) / (PRODUCT * PRODUCT);
        format!("kl_product({}, {steps});", places.join(", "))
    }

    /// The C expression of a value that is no leaf.
    fn expression(&mut self, g: &mut Graph, id: Id) -> String {
        let ty = g.ty(id);
        let n = g.node(id).clone();
        match &n.op {
            Op::Lanes(all) => {
                let lane = |c: &Const| if ty.base == DType::Bool { Const::Int(-c.as_int()) } else { *c };
                let v: Vec<String> = all.iter().map(|c| constant(lane(c), ty.base)).collect();
                format!("({}){{{}}}", ctype(ty), v.join(", "))
            }
            Op::Load => {
                let at = self.value(g, n.src[1]);
                let b = buffer::<C>(g, n.src[0]);
                if ty.base == DType::Bool && ty.lanes > 1 {
                    return format!("-kl_load_i8x{}({b} + {at})", ty.lanes);
                }
                let raw = g.dtype(n.src[0]) != ty.base;
                if ty.lanes == 1 && !raw { format!("{b}[{at}]") } else { format!("kl_load_{}({b} + {at})", loader(ty)) }
            }
            Op::Unary(op) => {
                let a = self.value(g, n.src[0]);
                unary(*op, ty, &a, mask_bits(g, id))
            }
            Op::Binary(op) => {
                let a = self.value(g, n.src[0]);
                if let Some(text) = shifted_bytes(g, *op, &n, &a) {
                    return text;
                }
                let b = self.value(g, n.src[1]);
                let (ma, mb) = (mask_bits(g, n.src[0]), mask_bits(g, n.src[1]));
                let b = if ma != mb { widen_mask(&b, mb, ma, ty.lanes) } else { b };
                let natural =
                    matches!(op, BinOp::Div | BinOp::Mod) && ty.base.is_int() && ir::index::bounds(g, n.src[0]).0 >= 0;
                if natural {
                    format!("({a} {} {b})", if *op == BinOp::Div { "/" } else { "%" })
                } else {
                    binary(*op, g.ty(n.src[0]), &a, &b)
                }
            }
            Op::Where => {
                let c = self.value(g, n.src[0]);
                if ty.lanes == 1 {
                    let a = self.value(g, n.src[1]);
                    let b = self.value(g, n.src[2]);
                    format!("({c} ? {a} : {b})")
                } else {
                    let a = self.lane_value(g, n.src[1]);
                    let b = self.lane_value(g, n.src[2]);
                    let bits = mask_bits(g, n.src[0]);
                    let c = widen_mask(&c, bits, ty.base.bytes() * 8, ty.lanes);
                    format!("kl_select_{}({c}, {a}, {b})", ctype(ty))
                }
            }
            Op::Cast => {
                let from = g.ty(n.src[0]);
                if ty.base == DType::I32
                    && let Some(wide) = self.low_half(g, n.src[0])
                {
                    format!("kl_words_low_{}({wide})", ctype(low_half_of(from)))
                } else {
                    let a = self.value(g, n.src[0]);
                    cast(from, ty, &a, mask_bits(g, n.src[0]))
                }
            }
            Op::Splat => {
                let of_half = |g: &Graph, id: Id| *g.op(id) == Op::Cast && g.ty(g.src(id)[0]) == DType::F16.into();
                if ty == Type::vector(DType::F32, 8) && of_half(g, n.src[0]) {
                    let half = self.value(g, g.src(n.src[0])[0]);
                    format!("kl_splat_from_f16_8({half})")
                } else {
                    let a = self.value(g, n.src[0]);
                    match ty.base {
                        DType::Bool => format!("kl_splat_i8x{}(-{a})", ty.lanes),
                        _ => format!("kl_splat_{}({a})", ctype(ty)),
                    }
                }
            }
            Op::Shuffle(map) => self.shuffle(g, ty, n.src[0], map),
            Op::Join => self.join(g, ty, &n.src),
            Op::Dot4 => {
                let s = self.value(g, n.src[0]);
                let a = self.value(g, n.src[1]);
                let b = self.value(g, n.src[2]);
                format!("kl_dot_{}({s}, {a}, {b})", ty.lanes)
            }
            Op::Dot2 => {
                let [s, a, b] = [0, 1, 2].map(|i| self.value(g, n.src[i]));
                format!("kl_dot2_{}({s}, {a}, {b})", ctype(ty))
            }
            Op::Across(op) => {
                let a = self.value(g, n.src[0]);
                let name = if *op == ReduceOp::Sum { "sum" } else { "max" };
                format!("kl_{name}_{}({a})", ctype(g.ty(n.src[0])))
            }
            Op::Lookup => {
                let Op::Lanes(table) = g.op(n.src[0]).clone() else { panic!("a constant table") };
                let i = self.value(g, n.src[1]);
                let t: Vec<String> = table.iter().map(|c| constant(*c, ty.base)).collect();
                if ty.lanes == 1 {
                    format!("((const uint8_t[16]){{{}}})[{i}]", t.join(", "))
                } else {
                    format!("kl_lookup_{}((u8x16){{{}}}, {i})", ty.lanes, t.join(", "))
                }
            }
            _ => self.unknown(g, id),
        }
    }

    /// As `value`, for lanes of a vector: truth values are 0 or -1, in bytes.
    fn lane_value(&mut self, g: &mut Graph, id: Id) -> String {
        let v = self.value(g, id);
        match g.ty(id) {
            Type { base: DType::Bool, lanes: 1 } => format!("-{v}"),
            Type { base: DType::Bool, lanes } => widen_mask(&v, mask_bits(g, id), 8, lanes),
            _ => v,
        }
    }

    fn shuffle(&mut self, g: &mut Graph, ty: Type, src: Id, map: &[u16]) -> String {
        // One instruction takes lanes of two vectors.
        let halves = match g.op(src) {
            Op::Join if g.src(src).len() == 2 && g.ty(g.src(src)[0]) == ty && g.ty(g.src(src)[1]) == ty => {
                g.src(src).to_vec()
            }
            _ => vec![src; 2],
        };
        let (a, b) = (self.value(g, halves[0]), self.value(g, halves[1]));
        let lanes = g.ty(halves[0]).lanes;
        // Bytes that stay together by fours are words, and so are halves that do by twos.
        let per = 4 / ty.base.bytes().min(4) as u16;
        let together =
            |c: &[u16]| c.len() == per.into() && c[0].is_multiple_of(per) && c.windows(2).all(|w| w[1] == w[0] + 1);
        if per == 1 || !map.chunks(per.into()).all(together) {
            return self.permute(ty, [a, b], lanes, map);
        }
        let words = Type::vector(DType::U32, usize::from(ty.lanes / per));
        if lanes == per {
            return format!("(({})kl_splat_{}(kl_load_u32(&{a})))", ctype(ty), ctype(words));
        }
        let map: Vec<u16> = map.iter().step_by(per.into()).map(|m| m / per).collect();
        // Two words of one vector and two of the other are one instruction, which gcc knows of floats only.
        let two_of_each =
            |(i, m): (usize, &u16)| (m / (lanes / per), m % (lanes / per) / 4) == (i as u16 % 4 / 2, i as u16 / 4);
        let word = if map.iter().enumerate().all(two_of_each) { "f32" } else { "u32" };
        let sources = [a, b].map(|v| format!("({word}x{}){v}", lanes / per));
        format!("(({}){})", ctype(ty), self.permute(words, sources, lanes / per, &map))
    }

    /// Eight bytes that are shuffled, as the lower half of sixteen: a compiler clears what lies above eight.
    fn low_half(&mut self, g: &mut Graph, id: Id) -> Option<String> {
        let ty = g.ty(id);
        match g.op(id).clone() {
            Op::Shuffle(map) if ty.base.bytes() == 1 && ty.lanes == 8 => {
                let src = g.src(id)[0];
                if g.ty(src) == low_half_of(ty) && map.iter().enumerate().all(|(i, m)| i == usize::from(*m)) {
                    return Some(self.value(g, src));
                }
                Some(self.shuffle(g, low_half_of(ty), src, &[&map[..], &map[..]].concat()))
            }
            _ => None,
        }
    }

    /// Lanes of two vectors of `lanes` each. A compiler goes through memory where the result is wider than they are, so
    /// the source is widened first.
    fn permute(&mut self, ty: Type, [a, b]: [String; 2], lanes: u16, map: &[u16]) -> String {
        if lanes >= ty.lanes {
            return shuffle(&a, &b, map);
        }
        // Bytes find a copy of a source of 16 in their own part of a register.
        let copies = ty.base.bytes() == 1 && lanes == 16;
        let mut wide = a;
        let mut n = lanes;
        while n < ty.lanes {
            n *= 2;
            let to = ctype(Type::vector(ty.base, n.into()));
            let text = if copies { format!("kl_join_{to}({wide}, {wide})") } else { format!("kl_twice_{to}({wide})") };
            wide = self.hold(&to, &text);
        }
        let own = |(i, m): (usize, &u16)| if copies { i as u16 / 16 * 16 + m } else { *m };
        let map: Vec<u16> = map.iter().enumerate().map(own).collect();
        shuffle(&wide, &wide, &map)
    }

    fn join(&mut self, g: &mut Graph, ty: Type, src: &[Id]) -> String {
        if let [a, b] = *src
            && ty == Type::vector(DType::BF16, 32)
            && [a, b].iter().all(|&s| *g.op(s) == Op::Cast && g.ty(g.src(s)[0]) == Type::vector(DType::F32, 16))
        {
            // One instruction rounds both halves.
            let (low, high) = (self.value(g, g.src(a)[0]), self.value(g, g.src(b)[0]));
            return format!("kl_round_bf16x32({low}, {high})");
        }
        if let [a, b] = *src
            && g.ty(a) == g.ty(b)
        {
            if let (Some(low), Some(high)) = (self.low_half(g, a), self.low_half(g, b)) {
                return format!("kl_join_low_{}({low}, {high})", ctype(ty));
            }
            if *g.op(a) == Op::Splat && *g.op(b) == Op::Splat && ty == Type::vector(DType::F16, 16) {
                let (low, high) = (self.value(g, g.src(a)[0]), self.value(g, g.src(b)[0]));
                return format!("kl_splats_{}({low}, {high})", ctype(ty));
            }
        }
        let parts: Vec<(Type, String)> = src.iter().map(|&s| (g.ty(s), self.lane_value(g, s))).collect();
        if parts.iter().all(|p| p.0.lanes == 1) {
            let v: Vec<String> = parts.into_iter().map(|p| p.1).collect();
            return format!("({}){{{}}}", ctype(ty), v.join(", "));
        }
        // Pairs of equal width, then pairs of those.
        let mut level = parts;
        while level.len() > 1 {
            let mut next = vec![];
            let mut it = level.into_iter().peekable();
            while let Some(a) = it.next() {
                match it.peek() {
                    Some(b) if b.0 == a.0 => {
                        let b = it.next().unwrap();
                        let wide = Type::vector(ty.base, 2 * a.0.lanes as usize);
                        let text = if a.0.lanes == 1 {
                            format!("({}){{{}, {}}}", ctype(wide), a.1, b.1)
                        } else {
                            format!("kl_join_{}({}, {})", ctype(wide), a.1, b.1)
                        };
                        next.push((wide, text));
                    }
                    _ => next.push(a),
                }
            }
            if next.len() > 1 && next.windows(2).all(|w| w[0].0 != w[1].0) {
                // Unequal widths: through memory.
                let mut s = format!("({{ {} v; ", ctype(ty));
                let mut off = 0;
                for (t, text) in &next {
                    let _ = write!(s, "{{ {} p = {text}; memcpy((char *)&v + {off}, &p, sizeof p); }} ", ctype(*t));
                    off += t.bytes();
                }
                s.push_str("v; })");
                return s;
            }
            level = next;
        }
        level.pop().unwrap().1
    }
}

/// Of whose lower half vectors of eight bytes are made.
fn low_half_of(ty: Type) -> Type {
    Type::vector(ty.base, 16)
}

/// Width of the lanes of a vector of truth values.
fn mask_bits(g: &Graph, id: Id) -> usize {
    if g.dtype(id) != DType::Bool || g.ty(id).lanes == 1 {
        return 8;
    }
    match g.op(id) {
        Op::Binary(BinOp::Lt | BinOp::Eq) => g.dtype(g.src(id)[0]).bytes() * 8,
        Op::Binary(_) | Op::Unary(_) => mask_bits(g, g.src(id)[0]),
        _ => 8,
    }
}

fn widen_mask(text: &str, from: usize, to: usize, lanes: u16) -> String {
    match (from, to) {
        _ if from == to => text.into(),
        (8, 32) => format!("kl_words_i8x{lanes}({text})"),
        (32, 8) => format!("kl_bytes_i8x{lanes}({text})"),
        _ => format!("__builtin_convertvector({text}, i{to}x{lanes})"),
    }
}

fn loader(t: Type) -> String {
    if t.lanes == 1 { format!("{}", t.base) } else { ctype(t) }
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

fn unary(op: UnOp, ty: Type, a: &str, mask: usize) -> String {
    let suffix = if ty.lanes == 1 { String::new() } else { format!("_{}", ty.lanes) };
    match op {
        UnOp::Neg => format!("(-{a})"),
        UnOp::Not if ty.lanes == 1 => format!("(!{a})"),
        UnOp::Not => {
            let _ = mask;
            format!("(~{a})")
        }
        UnOp::Recip => format!("(1.0f / {a})"),
        UnOp::Exp => format!("kl_exp{suffix}({a})"),
        UnOp::Exp2 => format!("kl_exp2{suffix}({a})"),
        UnOp::Sqrt => format!("kl_sqrt{suffix}({a})"),
        UnOp::Rsqrt => format!("(1.0f / kl_sqrt{suffix}({a}))"),
        UnOp::Sin => format!("kl_sin{suffix}({a})"),
        UnOp::Cos => format!("kl_cos{suffix}({a})"),
        UnOp::Abs => format!("kl_abs{suffix}({a})"),
        UnOp::Round => format!("kl_round{suffix}({a})"),
    }
}

/// A vector of bytes `a` with each of them shifted by the same known amount.
fn shifted_bytes(g: &Graph, op: BinOp, n: &Node, a: &str) -> Option<String> {
    let name = match op {
        BinOp::Shl => "shl",
        BinOp::Shr => "shr",
        _ => return None,
    };
    if n.ty.base != DType::U8 || n.ty.lanes < 4 {
        return None;
    }
    if let Some(by) = g.every_lane(n.src[1]) {
        return (1..8).contains(&by).then(|| format!("kl_{name}_{}({a}, {by})", ctype(n.ty)));
    }
    // Other amounts in each four: words are shifted, and what comes from the next byte is cut off.
    let Op::Lanes(amounts) = g.op(n.src[1]) else { return None };
    let amounts: Vec<i64> = amounts.iter().map(|c| c.as_int()).collect();
    let fours = amounts.chunks(4).all(|four| four.len() == 4 && four.iter().all(|by| *by == four[0]));
    if !fours || !amounts.iter().all(|by| (0..8).contains(by)) {
        return None;
    }
    let list = |values: &mut dyn Iterator<Item = i64>| values.map(|v| v.to_string()).collect::<Vec<_>>().join(", ");
    let words = ctype(Type::vector(DType::U32, usize::from(n.ty.lanes / 4)));
    let (sign, cut): (_, fn(&i64) -> i64) =
        if op == BinOp::Shl { ("<<", |by| 255 << by & 255) } else { (">>", |by| 255 >> by) };
    let by = list(&mut amounts.iter().step_by(4).copied());
    let mask = list(&mut amounts.iter().map(cut));
    let ty = ctype(n.ty);
    Some(format!("(({ty})(({words}){a} {sign} ({words}){{{by}}}) & ({ty}){{{mask}}})"))
}

fn binary(op: BinOp, ty: Type, a: &str, b: &str) -> String {
    let float = ty.base.is_float();
    if let Some(sign) = sign(op) {
        let narrow = is_promoted(ty) && !matches!(op, BinOp::Lt | BinOp::Eq);
        return if narrow { format!("({})({a} {sign} {b})", ctype(ty)) } else { format!("({a} {sign} {b})") };
    }
    match op {
        BinOp::Div if float => format!("({a} / {b})"),
        BinOp::Div | BinOp::Mod => {
            let name = if op == BinOp::Div { "div" } else { "mod" };
            let suffix = if ty.lanes == 1 { String::new() } else { format!("_{}", ctype(ty)) };
            format!("kl_{name}{suffix}({a}, {b})")
        }
        BinOp::Min | BinOp::Max => {
            let name = if op == BinOp::Min { "min" } else { "max" };
            match (float, ty.lanes) {
                (true, 1) => format!("kl_{name}({a}, {b})"),
                (true, n) => format!("kl_{name}_f32_{n}({a}, {b})"),
                (false, 1) => format!("({a} {} {b} ? {a} : {b})", if op == BinOp::Min { "<" } else { ">" }),
                (false, n) => format!("kl_{name}_{}x{n}({a}, {b})", ty.base),
            }
        }
        _ => unreachable!("{op:?} has a sign"),
    }
}

fn cast(from: Type, to: Type, a: &str, mask: usize) -> String {
    let half = |d: DType| matches!(d, DType::F16 | DType::BF16);
    let byte = |d: DType| matches!(d, DType::U8 | DType::I8);
    if to.lanes == 1 {
        return match (from.base, to.base) {
            (f, DType::F32) if half(f) => format!("kl_from_{f}({a})"),
            (DType::F32, t) if half(t) => format!("kl_to_{t}({a})"),
            (DType::F32, t) if t.is_int() => format!("({})kl_to_int({a})", ctype(to)),
            _ => format!("({}){a}", ctype(to)),
        };
    }
    let n = to.lanes;
    match (from.base, to.base) {
        (DType::Bool, t) => {
            let bits = t.bytes() * 8;
            let m = widen_mask(a, mask, bits, n);
            if t.is_float() {
                format!("__builtin_convertvector(-{m}, f32x{n})")
            } else {
                format!("(({})(-{m}))", ctype(to))
            }
        }
        (f, DType::F32) if half(f) => format!("kl_from_{f}_{n}({a})"),
        (DType::F32, t) if half(t) => format!("kl_to_{t}_{n}({a})"),
        (DType::F32, t) if byte(t) => format!("kl_bytes_{}(kl_to_int_{n}({a}))", ctype(to)),
        (DType::F32, t) if t.bytes() < 4 => format!("__builtin_convertvector(kl_to_int_{n}({a}), {})", ctype(to)),
        (f, DType::F32) if byte(f) => format!("__builtin_convertvector(kl_words_{f}x{n}({a}), f32x{n})"),
        (f, DType::I32) if byte(f) => format!("kl_words_{f}x{n}({a})"),
        (DType::I32, t) if byte(t) => format!("kl_bytes_{}({a})", ctype(to)),
        (DType::F32, DType::I32) => format!("kl_to_int_{n}({a})"),
        // In one step, gcc converts lane by lane.
        (t, DType::F32) if t.is_int() && t.bytes() < 4 => {
            format!("__builtin_convertvector(__builtin_convertvector({a}, i32x{n}), f32x{n})")
        }
        _ => format!("__builtin_convertvector({a}, {})", ctype(to)),
    }
}

fn shuffle(a: &str, b: &str, map: &[u16]) -> String {
    let list: Vec<String> = map.iter().map(|m| m.to_string()).collect();
    format!("__builtin_shufflevector({a}, {b}, {})", list.join(", "))
}
