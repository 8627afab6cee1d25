//! CUDA C++ of a kernel of blocks.
//!
//! Prints the instructions that were selected for each value. A function takes a pointer for each buffer slot, then the
//! variables of the program, then scratch for what does not fit into shared memory; a block of the grid is a task. Index
//! arithmetic is in 32 bits where its bounds allow. Vectors are small structs of the prelude, which needs no header of the
//! toolkit.

use crate::gpu::launch::{ALIGN, beside, geometry};
use crate::gpu::plan::GpuPlan;
use crate::gpu::select::{Access, Inst, Piece, Selection, is_narrow};
use crate::kernel::body::{Body, shared, tasks_of};
use crate::render::family::{Language, Renderer, Unwritable, buffer, is_promoted, sign};
use ir::{Axis, BinOp, Const, DType, Graph, Id, Op, ReduceOp, Space, Type, UnOp};
use rustc_hash::FxHashSet;
use std::fmt::Write;

/// Text before every kernel.
pub const PRELUDE: &str = include_str!("prelude.cuh");

/// The function of a kernel with `slots` buffers, for a GPU that is used by this plan. `vars` names the variables in
/// the order of the parameters.
///
/// # Errors
/// What CUDA has no words for.
pub(crate) fn kernel(
    g: &mut Graph,
    symbol: &str,
    body: &Body,
    selection: &Selection,
    plan: &GpuPlan,
    slots: usize,
    vars: &[String],
) -> Result<String, Unwritable> {
    let size = geometry(g, body, plan);
    let beside = beside(g, body, plan, &size);
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
    let copies = selection.values().any(|inst| matches!(inst, Inst::Copy { .. }));
    let groups = selection.values().any(|inst| matches!(inst, Inst::GroupProduct { .. }));
    let mut r = Renderer::new(Cuda { selection, copies, groups }, vars, 0);
    let lanes = plan.lanes;
    r.line(&format!("const int block = blockIdx.x, warp = threadIdx.x / {lanes}, lane = threadIdx.x % {lanes};"));
    let parts = body.parts(g);
    let Some(((last, of_last), before)) = parts.split_last() else { return r.finish() };
    for (i, (part, stashes)) in before.iter().enumerate() {
        let n = tasks_of(g, *part).map_or("1".into(), |n| r.value(g, n));
        r.line(&format!("const int end{i} = {}{n};", if i > 0 { format!("end{} + ", i - 1) } else { String::new() }));
        r.scope(&format!("if (block < end{i}) "), |r| {
            r.part(g, *part, stashes, size.scratch_bytes, alone, i);
            r.line("return;");
        });
    }
    r.part(g, *last, of_last, size.scratch_bytes, alone, before.len());
    Ok(format!("{head}{}}}\n", r.finish()?))
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

/// CUDA, and how the values of a kernel are computed in it.
struct Cuda<'s> {
    selection: &'s Selection,
    /// Whether copies may be on their way where threads wait for each other.
    copies: bool,
    /// Whether warps multiply together what lies in shared memory.
    groups: bool,
}

impl Language for Cuda<'_> {
    const NAME: &'static str = "CUDA";

    const UNROLL_LINE: Option<&'static str> = Some("#pragma unroll");

    fn type_name(ty: Type) -> String {
        ctype(ty)
    }

    /// An index is narrow if its bounds are.
    fn type_of(g: &mut Graph, id: Id) -> String {
        match g.ty(id) {
            Type { base: DType::Index, lanes: 1 } => if is_narrow(g, id) { "int" } else { "i64" }.into(),
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
        if is_narrow(g, id) { format!("(int)n{number}") } else { format!("n{number}") }
    }

    fn define(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        let selection = r.language.selection;
        let Some(inst) = selection.get(&id) else { return r.unknown(g, id) };
        match *inst {
            Inst::Fragment { buffer, at, transposed } => r.fragment(g, id, [buffer, at], transposed),
            Inst::ProductAsFloat { rows, columns } => r.set_by("kl_product_of", g, id, [rows, columns]),
            Inst::ScaledCodes { codes, scale } => r.set_by("kl_scaled_codes", g, id, [codes, scale]),
            Inst::HalvesOfCodes { codes, less } => {
                let codes = r.value(g, codes);
                let name = r.declared(&ctype(g.ty(id)));
                r.line(&format!("kl_halves_of_codes({name}, {codes}, {:#x}u);", (0x4300 + less) * 0x10001));
                name
            }
            Inst::HalfProduct { factors, rest } => r.set_by("kl_half_product", g, id, factors.into_iter().chain(rest)),
            Inst::GroupProduct { buffer: from, at, apart } => {
                let (sums, rows) = (g.src(id)[0], g.src(id)[1]);
                let [at, sums, rows] = [at, sums, rows].map(|id| r.value(g, id));
                let (name, from) = (r.declared(&ctype(g.ty(id))), buffer::<Self>(g, from));
                r.line(&format!("kl_group_product({name}, {sums}, {rows}, {from} + {at}, {});", 2 * apart));
                name
            }
            Inst::Masked { ops, of, shift } => {
                let [a, b, c] = of.map(|id| r.value(g, id));
                let (name, words) = (r.declared(&ctype(g.ty(id))), g.ty(id).lanes / 4);
                let shift = shift.and_then(|(op, by)| Some(format!(" {} {by}", sign(op)?))).unwrap_or_default();
                let of = format!("{a}.w[i]{shift}, {b}.w[i], {c}.w[i]");
                r.line(&format!("KL_EACH(i, {words}) {name}.w[i] = kl_bits<{}>({of});", truth_table(ops)));
                name
            }
            _ => {
                let from = if *g.op(id) == Op::Load { 1 } else { 0 };
                let src: Vec<String> = g.src(id).to_vec().into_iter().skip(from).map(|s| r.value(g, s)).collect();
                let ty = Self::type_of(g, id);
                if g.ty(id).lanes == 1 || matches!(inst, Inst::Load(_)) {
                    let text = scalar_text(g, id, inst, &src).unwrap_or_else(|| r.unknown(g, id));
                    r.hold(&ty, &text)
                } else {
                    r.vector(g, id, inst, &src, &ty)
                }
            }
        }
    }

    fn store(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String {
        let src = g.src(id).to_vec();
        let at = r.value(g, src[1]);
        if let Some(&Inst::Copy { from, at: first }) = r.language.selection.get(&id) {
            let first = r.value(g, first);
            let (to, from) = (buffer::<Self>(g, src[0]), buffer::<Self>(g, from));
            return format!("kl_copy({to} + {at}, {from} + {first});");
        }
        let v = r.value(g, src[2]);
        let only = src.get(3).map(|&c| r.value(g, c));
        let only = only.map_or(String::new(), |c| format!("if ({c}) "));
        let (b, ty) = (buffer::<Self>(g, src[0]), g.ty(src[2]));
        match r.language.selection.get(&id) {
            Some(Inst::Store(Access::Element)) => format!("{only}{b}[{at}] = {v};"),
            Some(Inst::Store(Access::Whole)) => format!("{only}kl_store<{}>({b} + {at}, {v});", ctype(ty)),
            _ => r.unknown(g, id),
        }
    }

    fn statement(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) {
        match g.op(id) {
            Op::Barrier { .. } => {
                if r.language.copies {
                    r.line("kl_copied();");
                }
                if r.language.groups {
                    r.line("kl_for_groups();");
                }
                r.line("__syncthreads();");
            }
            Op::Wait => r.line("kl_wait();"),
            Op::Trigger => r.line("kl_trigger();"),
            _ => drop(r.unknown(g, id)),
        }
    }
}

impl Renderer<'_, Cuda<'_>> {
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
    fn fragment(&mut self, g: &mut Graph, id: Id, [from, at]: [Id; 2], transposed: bool) -> String {
        let (at, ty) = (self.value(g, at), g.ty(id));
        let text = format!("kl_fragment<{}, {transposed}>({} + {at})", ty.bytes() / 4, buffer::<Cuda<'_>>(g, from));
        self.hold(&ctype(ty), &text)
    }

    /// The name of something that the next line sets.
    fn declared(&mut self, ty: &str) -> String {
        let name = self.temp();
        self.line(&format!("{ty} {name};"));
        name
    }

    /// The name of a vector that a function sets, of these values.
    fn set_by(&mut self, function: &str, g: &mut Graph, id: Id, of: impl IntoIterator<Item = Id>) -> String {
        let of: Vec<String> = of.into_iter().map(|id| self.value(g, id)).collect();
        let name = self.declared(&ctype(g.ty(id)));
        self.line(&format!("{function}({name}, {});", of.join(", ")));
        name
    }

    /// The name of a vector that is computed in this way from these sources.
    fn vector(&mut self, g: &mut Graph, id: Id, inst: &Inst, src: &[String], ty: &str) -> String {
        let of = g.ty(id);
        let known = match inst {
            Inst::Words(words) => Some(hexadecimal(words)),
            Inst::Lanes(values) => Some(values.iter().map(|c| constant(*c, of.base)).collect::<Vec<_>>().join(", ")),
            _ => None,
        };
        if let Some(list) = known {
            let name = self.temp();
            self.line(&format!("const {ty} {name} = {{{{{list}}}}};"));
            return name;
        }
        let name = self.declared(ty);
        match vector_text(g, id, inst, src, &name) {
            Some(text) => self.line(&text),
            None => drop(self.unknown(g, id)),
        }
        name
    }
}

/// What two operations of bits, `(a, b)` and then `c`, make of each three bits, as an instruction of three operands has it:
/// the bits of `a` are those of 0xf0, of `b` 0xcc, of `c` 0xaa.
fn truth_table([first, second]: [BinOp; 2]) -> u8 {
    let apply = |op: BinOp, a: u8, b: u8| match op {
        BinOp::And => a & b,
        BinOp::Or => a | b,
        _ => a ^ b,
    };
    apply(second, apply(first, 0xf0, 0xcc), 0xaa)
}

/// Words as the elements of a list.
fn hexadecimal(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:#010x}u")).collect::<Vec<_>>().join(", ")
}

/// An expression of a value that has one lane, or is loaded.
fn scalar_text(g: &mut Graph, id: Id, inst: &Inst, src: &[String]) -> Option<String> {
    let ty = g.ty(id);
    Some(match inst {
        Inst::Load(access) => {
            let (b, at) = (buffer::<Cuda<'_>>(g, g.src(id)[0]), &src[0]);
            match access {
                Access::Element => format!("{b}[{at}]"),
                Access::Whole => format!("kl_load<{}>({b} + {at})", ctype(ty)),
                Access::Bytes => format!("kl_load_{}({b} + {at})", ty.base),
            }
        }
        Inst::Lane(lane) => format!("{}.get({lane})", src[0]),
        Inst::Across(op) => {
            let name = if *op == ReduceOp::Sum { "sum" } else { "max" };
            format!("kl_across_{name}({})", src[0])
        }
        Inst::Exchanged(bits) => format!("__shfl_xor_sync(0xffffffffu, {}, {bits})", src[0]),
        Inst::Dot4 => format!("kl_dot4({}, {}.w[0], {}.w[0], {}())", src[0], src[1], src[2], codes_type(g, id)),
        Inst::Lookup(table) => format!("kl_lookup({}, {})", hexadecimal(table), src[1]),
        Inst::Elementwise { wide, natural } => {
            let types: Vec<DType> = g.src(id).iter().map(|&s| g.dtype(s)).collect();
            return each(g.op(id), ty.base, &types, src, *wide, *natural);
        }
        _ => return None,
    })
}

/// Statements that set the vector of this name.
fn vector_text(g: &Graph, id: Id, inst: &Inst, src: &[String], name: &str) -> Option<String> {
    let lanes = usize::from(g.ty(id).lanes);
    let words = lanes / 4;
    let all = |statements: Vec<String>| statements.join(" ");
    Some(match inst {
        Inst::Bitwise(op) => {
            format!("KL_EACH(i, {words}) {name}.w[i] = {}.w[i] {} {}.w[i];", src[0], sign(*op)?, src[1])
        }
        Inst::SameBits => format!("KL_EACH(i, {words}) {name}.w[i] = {}.w[i];", src[0]),
        Inst::ShiftedWords(op, by) => {
            let sign = sign(*op)?;
            let word = |(i, (by, left)): (usize, &(u32, u32))| {
                format!("{name}.w[{i}] = {}.w[{i}] {sign} {by} & {left:#010x}u;", src[0])
            };
            all(by.iter().enumerate().map(word).collect())
        }
        Inst::Dot4 => {
            let (s, c, x, ty) = (&src[0], &src[1], &src[2], codes_type(g, id));
            format!("KL_EACH(i, {lanes}) {name}.set(i, kl_dot4({s}.get(i), {c}.w[i], {x}.w[i], {ty}()));")
        }
        Inst::LookupFours(table) => {
            format!("KL_EACH(i, {words}) {name}.w[i] = kl_lookup4({}, {}.w[i]);", hexadecimal(table), src[1])
        }
        Inst::Lookup(table) => {
            format!("KL_EACH(i, {lanes}) {name}.set(i, kl_lookup({}, {}.get(i)));", hexadecimal(table), src[1])
        }
        Inst::Pairs => {
            let s = &src[0];
            format!("KL_EACH(i, {}) {name}.w[i] = kl_to_bf16({s}.get(2 * i), {s}.get(2 * i + 1));", lanes / 2)
        }
        Inst::Product => format!("kl_product({name}, {}, {}, {});", src[0], src[1], src[2]),
        Inst::Splat => format!("KL_EACH(i, {lanes}) {name}.set(i, {});", src[0]),
        Inst::Exchanged(bits) => {
            format!("KL_EACH(i, {lanes}) {name}.set(i, __shfl_xor_sync(0xffffffffu, {}.get(i), {bits}));", src[0])
        }
        Inst::WordsOf(map) => {
            let word = |(i, w): (usize, &u16)| format!("{name}.w[{i}] = {}.w[{w}];", src[0]);
            all(map.iter().enumerate().map(word).collect())
        }
        Inst::LanesOf(map) => {
            let lane = |(i, m): (usize, &u16)| format!("{name}.set({i}, {}.get({m}));", src[0]);
            all(map.iter().enumerate().map(lane).collect())
        }
        Inst::Joined(pieces) => {
            let piece = |(piece, s): (&Piece, &String)| match piece {
                Piece::Words(at, n) => format!("KL_EACH(i, {n}) {name}.w[i + {at}] = {s}.w[i];"),
                Piece::Scalar(at) => format!("{name}.set({at}, {s});"),
                Piece::Lanes(at, n) => format!("KL_EACH(i, {n}) {name}.set(i + {at}, {s}.get(i));"),
            };
            all(pieces.iter().zip(src).map(piece).collect())
        }
        Inst::Elementwise { wide, natural } => {
            let types: Vec<DType> = g.src(id).iter().map(|&s| g.dtype(s)).collect();
            let one = |(s, &id): (&String, &Id)| if g.ty(id).lanes == 1 { s.clone() } else { format!("{s}.get(i)") };
            let one: Vec<String> = src.iter().zip(g.src(id)).map(one).collect();
            let text = each(g.op(id), g.dtype(id), &types, &one, *wide, *natural)?;
            format!("KL_EACH(i, {lanes}) {name}.set(i, {text});")
        }
        _ => return None,
    })
}

/// The type of the codes of a dot.
fn codes_type(g: &Graph, id: Id) -> &'static str {
    scalar(g.dtype(g.src(id)[1]))
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

/// Arithmetic modulo 2^32: of signed numbers the language leaves undefined what does not fit.
fn wrapped(a: &str, sign: &str, b: &str) -> String {
    format!("(int)((u32){a} {sign} (u32){b})")
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
                UnOp::Neg if ty == DType::I32 => wrapped("0", "-", a),
                UnOp::Neg => format!("-{a}"),
                UnOp::Not => format!("!{a}"),
                UnOp::Exp => f("expf"),
                UnOp::Exp2 => f("kl_exp2"),
                UnOp::Sqrt => f("sqrtf"),
                UnOp::Rsqrt => format!("1.0f / sqrtf({a})"),
                UnOp::Recip => format!("1.0f / {a}"),
                UnOp::Sin => f("kl_sin"),
                UnOp::Cos => f("kl_cos"),
                UnOp::Round => f("roundf"),
                UnOp::Abs if ty.is_float() => f("fabsf"),
                UnOp::Abs if ty == DType::I32 => format!("({a} < 0 ? {} : {a})", wrapped("0", "-", a)),
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
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl if ty == DType::I32 => wrapped(&a, sign(*op)?, b),
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

#[cfg(test)]
mod tests {
    use super::truth_table;
    use ir::BinOp;

    #[test]
    fn three_bits_at_once() {
        assert_eq!(truth_table([BinOp::And, BinOp::Xor]), 0x6a);
        assert_eq!(truth_table([BinOp::Or, BinOp::And]), 0xa8);
    }
}
