//! CUDA C++ of a kernel of blocks.
//!
//! One rule for each operation. A function takes a pointer for each buffer slot, then the variables of the program, then
//! scratch for what does not fit into shared memory; a block of the grid is a task. Index arithmetic is in 32 bits where
//! its bounds allow. Vectors are small structs of the prelude, which needs no header of the toolkit.

use crate::gpu::align::alignment;
use crate::gpu::plan::Plan;
use crate::kernel::body::{Body, shared};
use crate::program::Geometry;
use crate::render::family::{Language, Renderer, Unwritable, buffer, is_promoted, sign};
use ir::{Axis, BinOp, Const, DType, Graph, Id, Op, ReduceOp, Space, Type, UnOp, index};
use rustc_hash::FxHashSet;
use std::fmt::Write;

/// Text before every kernel.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// Bytes at whose multiples scratch arrays begin.
const ALIGN: usize = 16;

/// What a launch of a kernel has to provide.
pub(crate) fn geometry(g: &Graph, body: &Body, plan: &Plan) -> Geometry {
    let warps = g.toposort(&[body.root]).into_iter().find(|&id| matches!(g.op(id), Op::Range(_, Axis::Warp)));
    let warps = warps.and_then(|id| g.as_int(g.src(id)[0])).unwrap_or(1);
    Geometry {
        threads: (warps * plan.lanes) as usize,
        widest: Some(plan.widest),
        waits: waits(g, body),
        shared_bytes: body.bytes_in(g, Space::Shared, ALIGN),
        scratch_bytes: body.bytes_in(g, Space::Task, ALIGN),
    }
}

/// Whether a kernel waits for the launches before it.
fn waits(g: &Graph, body: &Body) -> bool {
    body.parts(g).iter().all(|(part, _)| g.src(*part).iter().any(|&s| *g.op(s) == Op::Wait))
}

/// The function of a kernel with `slots` buffers, for a GPU that is used by this plan. `vars` names the variables in
/// the order of the parameters.
///
/// # Errors
/// What CUDA has no words for.
pub fn kernel(
    g: &mut Graph,
    symbol: &str,
    body: &Body,
    plan: &Plan,
    slots: usize,
    vars: &[String],
) -> Result<String, Unwritable> {
    let size = geometry(g, body, plan);
    let blocks = index::bounds(g, body.tasks).0;
    let beside = plan.blocks_beside(blocks, size.threads);
    let mut head = format!("extern \"C\" __global__ void __launch_bounds__({}, {beside}) {symbol}(", size.threads);
    // What is known of a pointer is known to nobody else, a wait included: it would move loads across.
    let alone = if size.waits { "" } else { "__restrict__ " };
    let buffers = (0..slots).map(|s| format!("void *{alone}p{s}"));
    let numbers = (0..vars.len()).map(|v| format!("i64 n{v}"));
    let all: Vec<String> = buffers.chain(numbers).chain(["u8 *scratch".to_string()]).collect();
    let _ = writeln!(head, "{}) {{", all.join(", "));
    if size.shared_bytes > 0 {
        head.push_str("  extern __shared__ __align__(16) u8 shared[];\n");
    }
    let mut r = Renderer::new(Cuda, vars, 0);
    let lanes = plan.lanes;
    r.line(&format!("const int block = blockIdx.x, warp = threadIdx.x / {lanes}, lane = threadIdx.x % {lanes};"));
    let parts = body.parts(g);
    let Some(((last, of_last), before)) = parts.split_last() else { return r.finish() };
    for (i, (part, stashes)) in before.iter().enumerate() {
        let tasks = task_range(g, *part).map(|range| g.src(range)[0]);
        let n = tasks.map_or("1".into(), |n| r.value(g, n));
        r.line(&format!("const int end{i} = {}{n};", if i > 0 { format!("end{} + ", i - 1) } else { String::new() }));
        r.scope(&format!("if (block < end{i}) "), |r| {
            r.part(g, *part, stashes, size.scratch_bytes, alone, i);
            r.line("return;");
        });
    }
    r.part(g, *last, of_last, size.scratch_bytes, alone, before.len());
    Ok(format!("{head}{}}}\n", r.finish()?))
}

fn task_range(g: &Graph, root: Id) -> Option<Id> {
    g.toposort(&[root]).into_iter().find(|&id| matches!(g.op(id), Op::Range(_, Axis::Task)))
}

/// The C type of an element in memory.
fn scalar(ty: DType) -> &'static str {
    match ty {
        DType::Bool | DType::U8 => "u8",
        DType::I8 => "i8",
        DType::U16 => "u16",
        DType::I16 => "i16",
        DType::U32 => "u32",
        DType::I32 => "int",
        DType::Index => "i64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "float",
    }
}

fn ctype(ty: Type) -> String {
    if ty.lanes == 1 { scalar(ty.base).into() } else { format!("vec<{}, {}>", scalar(ty.base), ty.lanes) }
}

/// Whether a vector is kept in words of four bytes.
fn in_words(ty: Type) -> bool {
    ty.base.bytes() == 1 && ty.lanes.is_multiple_of(4)
}

/// Four bytes as a word.
fn words(values: &[Const]) -> Vec<String> {
    let word = |four: &[Const]| four.iter().rev().fold(0u32, |w, c| w << 8 | (c.as_int() as u32 & 255));
    values.chunks(4).map(|four| format!("{:#010x}u", word(four))).collect()
}

struct Cuda;

impl Language for Cuda {
    const NAME: &'static str = "CUDA";
    const EXTENT: &'static str = "e";

    fn type_name(ty: Type) -> String {
        ctype(ty)
    }

    /// An index is narrow if its bounds are.
    fn type_of(g: &mut Graph, id: Id) -> String {
        match g.ty(id) {
            Type { base: DType::Index, lanes: 1 } => if narrow(g, id) { "int" } else { "i64" }.into(),
            Type { base: DType::Bool, lanes: 1 } => "bool".into(),
            ty => ctype(ty),
        }
    }

    fn tag(ty: DType) -> String {
        scalar(ty).into()
    }

    fn constant(c: Const, ty: DType) -> String {
        constant(c, ty)
    }

    fn variable(g: &mut Graph, id: Id, number: usize) -> String {
        if narrow(g, id) { format!("(int)n{number}") } else { format!("n{number}") }
    }

    fn define(r: &mut Renderer<'_, Cuda>, g: &mut Graph, id: Id) -> String {
        let n = g.node(id).clone();
        if let Op::Fragment { transposed } = n.op {
            return r.fragment(g, id, transposed);
        }
        let from = if n.op == Op::Load { 1 } else { 0 };
        let src: Vec<String> = n.src.iter().skip(from).map(|&s| r.value(g, s)).collect();
        let ty = Cuda::type_of(g, id);
        if n.ty.lanes == 1 || matches!(n.op, Op::Load) {
            let text = r.scalar_text(g, id, &src);
            return r.hold(&ty, &text);
        }
        let name = r.temp();
        r.vector(g, id, &src, &name, &ty);
        name
    }

    fn store(r: &mut Renderer<'_, Cuda>, g: &mut Graph, id: Id) -> String {
        let src = g.src(id).to_vec();
        let at = r.value(g, src[1]);
        let v = r.value(g, src[2]);
        let only = src.get(3).map(|&c| r.value(g, c));
        let only = only.map_or(String::new(), |c| format!("if ({c}) "));
        let (b, ty) = (buffer::<Cuda>(g, src[0]), g.ty(src[2]));
        if ty.lanes == 1 && g.dtype(src[0]) == ty.base {
            format!("{only}{b}[{at}] = {v};")
        } else {
            format!("{only}kl_store<{}>({b} + {at}, {v});", ctype(ty))
        }
    }

    fn statement(r: &mut Renderer<'_, Cuda>, g: &mut Graph, id: Id) {
        match g.op(id) {
            Op::Barrier => r.line("__syncthreads();"),
            Op::Wait => r.line("kl_wait();"),
            Op::Trigger => r.line("kl_trigger();"),
            _ => drop(r.unknown(g, id)),
        }
    }
}

impl Renderer<'_, Cuda> {
    /// The kernel of this number among those side by side: its scratch, accumulators and buffers, then its statements.
    fn part(&mut self, g: &mut Graph, root: Id, stashes: &[Id], scratch: usize, alone: &str, number: usize) {
        let first = if number > 0 { format!(" - end{}", number - 1) } else { String::new() };
        self.line(&format!("const int task = block{first};"));
        let (near, mut far) = (shared(g, root, stashes, ALIGN).0, 0);
        for &s in stashes {
            let Op::Buffer { slot, space, len } = *g.op(s) else { continue };
            let (ty, bytes) = (scalar(g.dtype(s)), (len * g.dtype(s).bytes()).next_multiple_of(ALIGN));
            self.line(&match space {
                Space::Shared => format!("{ty} *s{slot} = ({ty} *)(shared + {});", near[&s]),
                _ => format!("{ty} *s{slot} = ({ty} *)(scratch + (i64)block * {scratch} + {far});"),
            });
            far += if space == Space::Shared { 0 } else { bytes };
        }
        let mut declared = FxHashSet::default();
        for id in g.toposort(&[root]) {
            let line = match *g.op(id) {
                Op::Acc(n) => format!("{} a{n};", ctype(g.ty(id))),
                Op::Buffer { slot, space, .. } if !space.is_scratch() => {
                    let ty = scalar(g.dtype(id));
                    let (c, name) = if space.is_read_only() { ("const ", "i") } else { ("", "o") };
                    format!("{c}{ty} *{alone}{name}{slot}_{ty} = ({c}{ty} *)p{slot};")
                }
                Op::Range(_, axis) => {
                    let name = match axis {
                        Axis::Task => "task",
                        Axis::Warp => "warp",
                        Axis::Lane => "lane",
                        Axis::Loop => continue,
                    };
                    self.name(id, name);
                    continue;
                }
                _ => continue,
            };
            if declared.insert(line.clone()) {
                self.line(&line);
            }
        }
        self.statements(g, &[root]);
    }

    /// The load and the exchange are one instruction.
    fn fragment(&mut self, g: &mut Graph, id: Id, transposed: bool) -> String {
        let (load, ty) = (g.src(g.src(id)[0]).to_vec(), g.ty(id));
        let at = self.value(g, load[1]);
        let text = format!("kl_fragment<{}, {transposed}>({} + {at})", ty.bytes() / 4, buffer::<Cuda>(g, load[0]));
        self.hold(&ctype(ty), &text)
    }

    fn scalar_text(&mut self, g: &mut Graph, id: Id, src: &[String]) -> String {
        let n = g.node(id).clone();
        match &n.op {
            Op::Load => {
                let (b, at, ty) = (buffer::<Cuda>(g, n.src[0]), &src[0], n.ty);
                let raw = g.dtype(n.src[0]) != ty.base;
                if ty.lanes == 1 && !raw {
                    format!("{b}[{at}]")
                } else if alignment(g, n.src[0], n.src[1]) >= ty.bytes() {
                    format!("kl_load<{}>({b} + {at})", ctype(ty))
                } else {
                    format!("kl_load_{}({b} + {at})", ty.base)
                }
            }
            Op::Extract(lane) => format!("{}.get({lane})", src[0]),
            Op::Across(op) => {
                let name = if *op == ReduceOp::Sum { "sum" } else { "max" };
                format!("kl_across_{name}({})", src[0])
            }
            Op::LaneXor(mask) => format!("__shfl_xor_sync(0xffffffffu, {}, {mask})", src[0]),
            Op::Dot4 => format!("kl_dot4({}, {}.w[0], {}.w[0])", src[0], src[1], src[2]),
            Op::Lookup => {
                let Op::Lanes(table) = g.op(n.src[0]) else { panic!("a constant table") };
                format!("kl_lookup({}, {})", words(table).join(", "), src[1])
            }
            _ => {
                // Of two ends one may be wide where the result is not.
                let ends = matches!(n.op, Op::Binary(BinOp::Min | BinOp::Max));
                let fits = narrow(g, id) && (!ends || n.src.iter().all(|&s| narrow(g, s)));
                let wide = n.ty.base == DType::Index && !fits;
                let types: Vec<DType> = n.src.iter().map(|&s| g.dtype(s)).collect();
                let natural = match n.src.first() {
                    Some(&a) if n.ty.base.is_int() => index::bounds(g, a).0 >= 0,
                    _ => false,
                };
                each(&n.op, n.ty.base, &types, src, wide, natural).unwrap_or_else(|| self.unknown(g, id))
            }
        }
    }

    /// Statements that make a vector of this name.
    fn vector(&mut self, g: &mut Graph, id: Id, src: &[String], name: &str, ty: &str) {
        let n = g.node(id).clone();
        let lanes = n.ty.lanes as usize;
        if let Op::Lanes(values) = &n.op {
            let list = match in_words(n.ty) {
                true => words(values),
                false => values.iter().map(|c| constant(*c, n.ty.base)).collect(),
            };
            return self.line(&format!("const {ty} {name} = {{{{{}}}}};", list.join(", ")));
        }
        self.line(&format!("{ty} {name};"));
        let words_of = |i: usize| in_words(g.ty(n.src[i]));
        let shifts = |i: usize| match g.op(n.src[i]) {
            Op::Lanes(v) => v.chunks(4).all(|q| q.iter().all(|c| c == &q[0])).then(|| v.clone()),
            _ => None,
        };
        let text = match &n.op {
            Op::Binary(op @ (BinOp::And | BinOp::Or | BinOp::Xor)) if in_words(n.ty) => {
                let sign = match op {
                    BinOp::And => "&",
                    BinOp::Or => "|",
                    _ => "^",
                };
                format!("KL_EACH(i, {}) {name}.w[i] = {}.w[i] {sign} {}.w[i];", lanes / 4, src[0], src[1])
            }
            Op::Binary(op @ (BinOp::Shl | BinOp::Shr))
                if n.ty.base == DType::U8 && words_of(0) && shifts(1).is_some() =>
            {
                let by = shifts(1).unwrap_or_default();
                let word = |(i, q): (usize, &[Const])| {
                    let s = q[0].as_int().clamp(0, 7) as u32;
                    let (sign, mask) = match op {
                        BinOp::Shl => ("<<", (0xffu32 << s & 0xff) * 0x0101_0101),
                        _ => (">>", (0xff >> s) * 0x0101_0101u32),
                    };
                    format!("{name}.w[{i}] = {}.w[{i}] {sign} {s} & {mask:#010x}u;", src[0])
                };
                by.chunks(4).enumerate().map(word).collect::<Vec<_>>().join(" ")
            }
            Op::Dot4 => {
                let (s, c, x) = (&src[0], &src[1], &src[2]);
                format!("KL_EACH(i, {lanes}) {name}.set(i, kl_dot4({s}.get(i), {c}.w[i], {x}.w[i]));")
            }
            Op::Lookup => {
                let Op::Lanes(table) = g.op(n.src[0]).clone() else { panic!("a constant table") };
                let table = words(&table).join(", ");
                match in_words(n.ty) && words_of(1) {
                    true => format!("KL_EACH(i, {}) {name}.w[i] = kl_lookup4({table}, {}.w[i]);", lanes / 4, src[1]),
                    false => format!("KL_EACH(i, {lanes}) {name}.set(i, kl_lookup({table}, {}.get(i)));", src[1]),
                }
            }
            Op::WarpProduct => format!("kl_product({name}, {}, {}, {});", src[0], src[1], src[2]),
            Op::Splat => format!("KL_EACH(i, {lanes}) {name}.set(i, {});", src[0]),
            Op::LaneXor(mask) => {
                format!("KL_EACH(i, {lanes}) {name}.set(i, __shfl_xor_sync(0xffffffffu, {}.get(i), {mask}));", src[0])
            }
            Op::Shuffle(map) => {
                let whole = |q: &[u16]| q[0].is_multiple_of(4) && q.windows(2).all(|w| w[1] == w[0] + 1);
                match in_words(n.ty) && words_of(0) && map.chunks(4).all(whole) {
                    true => {
                        let word = |(i, q): (usize, &[u16])| format!("{name}.w[{i}] = {}.w[{}];", src[0], q[0] / 4);
                        map.chunks(4).enumerate().map(word).collect::<Vec<_>>().join(" ")
                    }
                    false => {
                        let lane = |(i, m): (usize, &u16)| format!("{name}.set({i}, {}.get({m}));", src[0]);
                        map.iter().enumerate().map(lane).collect::<Vec<_>>().join(" ")
                    }
                }
            }
            Op::Join => {
                let mut at = 0;
                let mut parts = vec![];
                for (i, s) in src.iter().enumerate() {
                    let part = g.ty(n.src[i]);
                    let k = part.lanes as usize;
                    parts.push(match (in_words(n.ty) && in_words(part) && at % 4 == 0, k) {
                        (true, _) => format!("KL_EACH(i, {}) {name}.w[i + {}] = {s}.w[i];", k / 4, at / 4),
                        (_, 1) => format!("{name}.set({at}, {s});"),
                        _ => format!("KL_EACH(i, {k}) {name}.set(i + {at}, {s}.get(i));"),
                    });
                    at += k;
                }
                parts.join(" ")
            }
            op => {
                let types: Vec<DType> = n.src.iter().map(|&s| g.dtype(s)).collect();
                let one: Vec<String> = src
                    .iter()
                    .zip(&n.src)
                    .map(|(s, &id)| if g.ty(id).lanes == 1 { s.clone() } else { format!("{s}.get(i)") })
                    .collect();
                let text = each(op, n.ty.base, &types, &one, false, false).unwrap_or_else(|| self.unknown(g, id));
                format!("KL_EACH(i, {lanes}) {name}.set(i, {text});")
            }
        };
        self.line(&text);
    }
}

/// Whether an index fits 32 bits.
fn narrow(g: &mut Graph, id: Id) -> bool {
    let (lo, hi) = index::bounds(g, id);
    lo >= i64::from(i32::MIN) && hi <= i64::from(i32::MAX)
}

fn constant(c: Const, ty: DType) -> String {
    let text = match (c, ty) {
        (c, ty) if ty.is_float() => {
            let v = c.as_f32();
            if v.is_finite() { format!("{v:?}f") } else { format!("__uint_as_float({:#x}u)", v.to_bits()) }
        }
        (c, DType::Bool) => if c.as_int() != 0 { "true" } else { "false" }.into(),
        (c, _) if i32::try_from(c.as_int()).is_err() => format!("{}ll", c.as_int()),
        (c, _) if c.as_int() == i64::from(i32::MIN) => "-2147483647 - 1".into(),
        (c, _) => c.as_int().to_string(),
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

/// An elementwise operation on scalars. `wide` is for indices that need 64 bits, `natural` says that the first operand
/// is not negative.
fn each(op: &Op, ty: DType, from: &[DType], src: &[String], wide: bool, natural: bool) -> Option<String> {
    let narrowed = |s: String| if is_promoted(ty.into()) { format!("({})({s})", scalar(ty)) } else { s };
    Some(match op {
        Op::Unary(op) => {
            let a = &src[0];
            let f = |name: &str| format!("{name}({a})");
            narrowed(match op {
                UnOp::Neg => format!("-{a}"),
                UnOp::Not => format!("!{a}"),
                UnOp::Exp => f("expf"),
                UnOp::Exp2 => f("kl_exp2"),
                UnOp::Sqrt => f("sqrtf"),
                UnOp::Rsqrt => format!("1.0f / sqrtf({a})"),
                UnOp::Recip => format!("1.0f / {a}"),
                UnOp::Sin => f("sinf"),
                UnOp::Cos => f("cosf"),
                UnOp::Round => f("roundf"),
                UnOp::Abs if ty.is_float() => f("fabsf"),
                UnOp::Abs => format!("({a} < 0 ? -{a} : {a})"),
            })
        }
        Op::Binary(op) => {
            let (a, b) = (&src[0], &src[1]);
            let c = scalar(ty);
            let a = if wide { format!("(i64){a}") } else { a.clone() };
            let common = if ty == DType::Index { if wide { "i64" } else { "int" } } else { c };
            narrowed(match op {
                BinOp::Div if ty.is_float() || natural => format!("{a} / {b}"),
                BinOp::Mod if natural => format!("{a} % {b}"),
                BinOp::Div => format!("kl_floor_div<{common}>({a}, {b})"),
                BinOp::Mod => format!("kl_floor_mod<{common}>({a}, {b})"),
                BinOp::Min => format!("kl_min<{common}>({a}, {b})"),
                BinOp::Max => format!("kl_max<{common}>({a}, {b})"),
                _ => format!("{a} {} {b}", sign(*op)?),
            })
        }
        Op::Where => format!("{} ? {} : {}", src[0], src[1], src[2]),
        Op::Cast => {
            let a = &src[0];
            match (from[0].is_float(), ty) {
                (_, DType::Bool) => format!("{a} != 0"),
                (true, t) if t.is_int() => format!("({})kl_int({a})", scalar(t)),
                (_, t) if t.is_float() => format!("({})(float){a}", scalar(t)),
                (_, t) => format!("({}){a}", scalar(t)),
            }
        }
        _ => return None,
    })
}
