//! Values in registers: numbers, and vectors as a name for each lane or word.

use super::{Wgsl, register};
use crate::gpu::select::{Inst, Piece, in_words};
use crate::render::family::{Language, Renderer, sign};
use ir::{BinOp, Const, DType, Graph, Id, Op, ReduceOp, Type, UnOp};

/// A constant.
pub(super) fn constant(c: Const, ty: DType) -> String {
    let text = match ty {
        ty if ty.is_float() => {
            let v = c.as_f32();
            return match v.is_finite() {
                true if v.is_sign_negative() => format!("({v:?}f)"),
                true => format!("{v:?}f"),
                false => format!("kl_bits({:#x}u)", v.to_bits()),
            };
        }
        DType::Bool => return (c.as_int() != 0).to_string(),
        DType::U8 | DType::U16 | DType::U32 => return format!("{}u", c.as_int() as u32),
        _ if c.as_int() == i64::from(i32::MIN) => "-2147483647 - 1".into(),
        // What an index may not reach is no bound of it.
        DType::Index => c.as_int().clamp(i64::from(-i32::MAX), i64::from(i32::MAX)).to_string(),
        _ => (c.as_int() as i32).to_string(),
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

/// A number from its bits in memory, the others being zero.
pub(super) fn from_bits(ty: DType, bits: &str) -> String {
    match ty {
        DType::Bool => format!("({bits} != 0u)"),
        DType::U8 | DType::U16 | DType::U32 => bits.into(),
        DType::I8 => format!("(bitcast<i32>({bits} << 24u) >> 24u)"),
        DType::I16 => format!("(bitcast<i32>({bits} << 16u) >> 16u)"),
        DType::I32 | DType::Index => format!("bitcast<i32>({bits})"),
        DType::F16 => format!("unpack2x16float({bits}).x"),
        DType::BF16 => format!("bitcast<f32>({bits} << 16u)"),
        DType::F32 => format!("bitcast<f32>({bits})"),
    }
}

/// The bits of a number in memory, the others being zero.
pub(super) fn to_bits(ty: DType, value: &str) -> String {
    match ty {
        DType::Bool => format!("select(0u, 1u, {value})"),
        DType::U8 | DType::U16 | DType::U32 => value.into(),
        DType::I8 => format!("(bitcast<u32>({value}) & 0xffu)"),
        DType::I16 => format!("(bitcast<u32>({value}) & 0xffffu)"),
        DType::F16 => format!("kl_to_f16({value})"),
        DType::BF16 => format!("kl_to_bf16({value})"),
        DType::I32 | DType::Index | DType::F32 => format!("bitcast<u32>({value})"),
    }
}

/// One or two halves as a word.
pub(super) fn packed_halves(pair: &[String]) -> String {
    let second = pair.get(1).map_or("0.0", String::as_str);
    format!("pack2x16float(vec2<f32>({}, {second}))", pair[0])
}

/// What arithmetic gives, as a number of its type.
fn narrowed(ty: DType, text: &str) -> String {
    match ty {
        DType::U8 => format!("({text}) & 0xffu"),
        DType::U16 => format!("({text}) & 0xffffu"),
        DType::I8 => format!("(({text}) << 24u) >> 24u"),
        DType::I16 => format!("(({text}) << 16u) >> 16u"),
        DType::F16 => format!("kl_f16({text})"),
        DType::BF16 => format!("kl_bf16({text})"),
        _ => text.into(),
    }
}

impl Renderer<'_, Wgsl<'_>> {
    /// The name of a value of these parts.
    pub(super) fn parts(&mut self, ty: Type, parts: Vec<String>) -> String {
        let name = self.temp();
        for (part, text) in parts.iter().enumerate() {
            let line = Wgsl::definition(&Wgsl::type_name(ty), &Wgsl::part(&name, ty, part), text);
            self.line(&line);
        }
        name
    }

    /// The name of a vector of these lanes, or of a number.
    fn of_lanes(&mut self, ty: Type, lanes: Vec<String>) -> String {
        if ty.lanes == 1 || !in_words(ty) {
            return self.parts(ty, lanes);
        }
        let word = |four: &[String]| {
            let byte =
                |(n, lane): (usize, &String)| format!("({} << {}u)", to_bits(ty.base, &format!("({lane})")), 8 * n);
            four.iter().enumerate().map(byte).collect::<Vec<_>>().join(" | ")
        };
        let words = lanes.chunks(4).map(word).collect();
        self.parts(ty, words)
    }

    /// How a value is computed; nothing if there are no words for it.
    pub(super) fn computed(&mut self, g: &mut Graph, id: Id, inst: &Inst) -> Option<String> {
        if let Inst::Load(access) = inst {
            return self.loaded(g, id, *access);
        }
        let ty = g.ty(id);
        let ids = if let Inst::Masked { of, .. } = inst { of.to_vec() } else { g.src(id).to_vec() };
        let src: Vec<String> = ids.iter().map(|&s| self.value(g, s)).collect();
        let types: Vec<Type> = ids.iter().map(|&s| g.ty(s)).collect();
        let lanes = usize::from(ty.lanes);
        // A lane of a source; of a scalar, itself.
        let lane = |source: usize, lane: usize| lane_of(types[source], &src[source], lane);
        let word = |source: usize, word: usize| Wgsl::part(&src[source], types[source], word);
        let words = 0..Wgsl::parts(ty);
        let parts = match inst {
            Inst::Words(known) => known.iter().map(|word| format!("{word:#010x}u")).collect(),
            Inst::Bitwise(op) => {
                let sign = sign(*op)?;
                words.map(|w| format!("{} {sign} {}", word(0, w), word(1, w))).collect()
            }
            Inst::Masked { ops: [first, second], shift, .. } => {
                let (first, second) = (sign(*first)?, sign(*second)?);
                let shift = shift.and_then(|(op, by)| Some(format!(" {} {by}u", sign(op)?))).unwrap_or_default();
                let text = |w| format!("(({}{shift}) {first} {}) {second} {}", word(0, w), word(1, w), word(2, w));
                words.map(text).collect()
            }
            Inst::SameBits => words.map(|w| word(0, w)).collect(),
            Inst::ShiftedWords(op, by) => {
                let sign = sign(*op)?;
                let shifted =
                    |(w, (by, left)): (usize, &(u32, u32))| format!("({} {sign} {by}u) & {left:#010x}u", word(0, w));
                by.iter().enumerate().map(shifted).collect()
            }
            Inst::LookupFours(table) => {
                let entries = match signed(table) {
                    Some(more) => format!("kl_signed4({}", four_words(&more)),
                    None => format!("kl_lookup4({}", four_words(table)),
                };
                words.map(|w| format!("{entries}, {})", word(1, w))).collect()
            }
            Inst::WordsOf(map) => map.iter().map(|&w| word(0, usize::from(w))).collect(),
            Inst::Exchanged(bits) => {
                let bool = ty.base == DType::Bool && !(ty.lanes > 1 && in_words(ty));
                let one = |w: usize| match bool {
                    true => format!("(subgroupShuffleXor(select(0u, 1u, {}), {bits}u) != 0u)", word(0, w)),
                    false => format!("subgroupShuffleXor({}, {bits}u)", word(0, w)),
                };
                words.map(one).collect()
            }
            Inst::Joined(pieces) if in_words(ty) && pieces.iter().all(|p| matches!(p, Piece::Words(..))) => {
                let of = |(source, piece): (usize, &Piece)| {
                    let Piece::Words(_, n) = *piece else { unreachable!("only words") };
                    (0..n).map(|w| word(source, w)).collect::<Vec<_>>()
                };
                pieces.iter().enumerate().flat_map(of).collect()
            }
            _ => {
                let all = self.lanes_of(g, id, inst, &types, &lane, &word)?;
                return (all.len() == lanes).then(|| self.of_lanes(ty, all));
            }
        };
        Some(self.parts(ty, parts))
    }

    /// Expressions of the lanes of a value that is computed lane by lane.
    fn lanes_of(
        &mut self,
        g: &mut Graph,
        id: Id,
        inst: &Inst,
        types: &[Type],
        lane: &dyn Fn(usize, usize) -> String,
        word: &dyn Fn(usize, usize) -> String,
    ) -> Option<Vec<String>> {
        let ty = g.ty(id);
        let all = 0..usize::from(ty.lanes);
        Some(match inst {
            Inst::Lanes(values) => values.iter().map(|c| constant(*c, ty.base)).collect(),
            Inst::Splat => all.map(|_| lane(0, 0)).collect(),
            Inst::Lane(n) => vec![lane(0, usize::from(*n))],
            Inst::LanesOf(map) => map.iter().map(|&n| lane(0, usize::from(n))).collect(),
            Inst::Joined(_) => {
                let of = |(source, ty): (usize, &Type)| (0..usize::from(ty.lanes)).map(move |n| (source, n));
                types.iter().enumerate().flat_map(of).map(|(source, n)| lane(source, n)).collect()
            }
            Inst::Lookup(table) => {
                let entry = |n| {
                    let at = to_bits(types[1].base, &lane(1, n));
                    from_bits(ty.base, &format!("kl_lookup({}, {at})", four_words(table)))
                };
                all.map(entry).collect()
            }
            Inst::Dot4 => {
                let codes = types[1].base;
                let one = |n| format!("kl_dot4_{codes}({}, {}, {})", lane(0, n), word(1, n), word(2, n));
                all.map(one).collect()
            }
            Inst::Across(op) => vec![self.across(types[0], *op, lane)],
            Inst::Elementwise { natural, .. } => {
                let divisor = g.src(id).get(1).and_then(|&s| g.as_int(s));
                let bases: Vec<DType> = types.iter().map(|ty| ty.base).collect();
                let op = g.op(id).clone();
                let one = |n: usize| {
                    let src: Vec<String> = (0..types.len()).map(|s| lane(s, n)).collect();
                    each(&op, ty.base, &bases, &src, *natural, divisor)
                };
                all.map(one).collect::<Option<_>>()?
            }
            _ => return None,
        })
    }

    /// A reduction of lanes: sums add the upper half of the lanes onto the lower until one is left.
    fn across(&mut self, ty: Type, op: ReduceOp, lane: &dyn Fn(usize, usize) -> String) -> String {
        let mut lanes: Vec<String> = (0..usize::from(ty.lanes)).map(|n| lane(0, n)).collect();
        let register = register(ty.base);
        if op == ReduceOp::Max {
            let larger = |a: String, b: String| binary_text(BinOp::Max, ty.base, &a, &b).unwrap_or_default();
            return lanes.into_iter().reduce(larger).unwrap_or_default();
        }
        while lanes.len() > 1 {
            let half = lanes.len().div_ceil(2);
            let upper = lanes.split_off(half);
            for (to, more) in lanes.iter_mut().zip(upper) {
                *to = self.hold(register, &narrowed(ty.base, &format!("{to} + {more}")));
            }
        }
        lanes.remove(0)
    }
}

/// A lane of a value; a number is the same in all.
fn lane_of(ty: Type, name: &str, lane: usize) -> String {
    if ty.lanes == 1 {
        name.into()
    } else if in_words(ty) {
        from_bits(ty.base, &format!("(({name}_{} >> {}u) & 0xffu)", lane / 4, lane % 4 * 8))
    } else {
        format!("{name}_{lane}")
    }
}

/// What `kl_signed4` of the prelude needs to know of a table of signs and sizes, if it is one: x, y, z and w of
/// `size = place + x b0 b1 + y b0 b2 + z b1 b2 + w b0 b1 b2`, with the lower bits of a place.
fn signed(table: &[u32; 4]) -> Option<[u32; 4]> {
    let entry = |place: usize| table[place / 4].to_le_bytes()[place % 4] as i8;
    let is_signed = |place: usize| entry(place + 8) == -entry(place) && (entry(place) == 0) == (place == 0);
    let plain = [0, 1, 2, 4].iter().all(|&place| i64::from(entry(place as usize)) == place);
    // Sizes below 128 keep their sum within a byte.
    let more = |place: usize| u32::try_from(i64::from(entry(place)) - place as i64).ok();
    let pairs = [3, 5, 6].map(more);
    let [a, b, c] = [pairs[0]?, pairs[1]?, pairs[2]?];
    let all = more(7)?.checked_sub(a + b + c)?;
    (plain && (0..8).all(is_signed)).then_some([a, b, c, all])
}

/// A table of sixteen bytes.
fn four_words(table: &[u32; 4]) -> String {
    let [a, b, c, d] = table.map(|word| format!("{word:#010x}u"));
    format!("vec4<u32>({a}, {b}, {c}, {d})")
}

/// The greater or smaller of two numbers.
fn binary_text(op: BinOp, ty: DType, a: &str, b: &str) -> Option<String> {
    let name = match op {
        BinOp::Min => "min",
        BinOp::Max => "max",
        _ => return None,
    };
    Some(if ty.is_float() { format!("kl_{name}_f({a}, {b})") } else { format!("{name}({a}, {b})") })
}

/// An elementwise operation on numbers. `natural` says that the first operand is not negative, `divisor` what a constant
/// second one is.
fn each(op: &Op, ty: DType, from: &[DType], src: &[String], natural: bool, divisor: Option<i64>) -> Option<String> {
    Some(match op {
        Op::Unary(op) => narrowed(ty, &unary(*op, ty, &src[0])),
        Op::Binary(op) => narrowed(ty, &binary(*op, from, src, natural, divisor)?),
        Op::Where => format!("select({}, {}, {})", src[2], src[1], src[0]),
        Op::Cast => cast(from[0], ty, &src[0]),
        _ => return None,
    })
}

fn unary(op: UnOp, ty: DType, a: &str) -> String {
    let f = |name: &str| format!("{name}({a})");
    match op {
        UnOp::Neg => format!("-{a}"),
        UnOp::Not if ty == DType::Bool => format!("!{a}"),
        UnOp::Not => format!("select({0}(0), {0}(1), {a} == {0}(0))", register(ty)),
        UnOp::Exp => f("exp"),
        UnOp::Exp2 => f("kl_exp2"),
        UnOp::Sqrt => f("sqrt"),
        UnOp::Rsqrt => format!("1.0f / sqrt({a})"),
        UnOp::Recip => format!("1.0f / {a}"),
        UnOp::Sin => f("kl_sin"),
        UnOp::Cos => f("kl_cos"),
        UnOp::Round => f("kl_round"),
        UnOp::Abs => f("abs"),
    }
}

fn binary(op: BinOp, from: &[DType], src: &[String], natural: bool, divisor: Option<i64>) -> Option<String> {
    let (a, b, ty) = (&src[0], &src[1], from[0]);
    let power = divisor.filter(|d| natural && *d > 0 && (*d as u64).is_power_of_two());
    Some(match (op, power) {
        (BinOp::Div, Some(d)) if ty.is_int() => format!("{a} >> {}u", d.trailing_zeros()),
        (BinOp::Mod, Some(d)) if ty.is_int() => format!("{a} & {}", constant(Const::Int(d - 1), ty)),
        (BinOp::Div, _) if ty.is_float() || natural || register(ty) == "u32" => format!("{a} / {b}"),
        (BinOp::Mod, _) if natural || register(ty) == "u32" => format!("{a} % {b}"),
        (BinOp::Div, _) => format!("kl_floor_div({a}, {b})"),
        (BinOp::Mod, _) => format!("kl_floor_mod({a}, {b})"),
        (BinOp::Min | BinOp::Max, _) => binary_text(op, ty, a, b)?,
        (BinOp::Shl | BinOp::Shr, _) => {
            let by = divisor.map_or_else(|| format!("u32({b})"), |n| format!("{n}u"));
            format!("{a} {} {by}", sign(op)?)
        }
        (BinOp::Xor, _) if ty == DType::Bool => format!("{a} != {b}"),
        _ => format!("{a} {} {b}", sign(op)?),
    })
}

/// A conversion; floats to integers truncate.
fn cast(from: DType, to: DType, a: &str) -> String {
    let same = register(from) == register(to);
    match (from, to) {
        (DType::Bool, DType::Bool) => a.into(),
        (from, DType::Bool) => format!("{a} != {}(0)", register(from)),
        (from, to) if from.is_float() && to.is_int() => {
            let whole = format!("kl_int({a})");
            narrowed(to, &if register(to) == "u32" { format!("bitcast<u32>({whole})") } else { whole })
        }
        // What fits into fewer bits fits into more.
        (from, to) if same && (from.bytes() < to.bytes() || from == to) => a.into(),
        (_, to) => narrowed(to, &if same { a.into() } else { format!("{}({a})", register(to)) }),
    }
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn signs_and_sizes_are_told_from_other_tables() {
        let table = |entries: [i8; 16]| {
            let word = |four: &[i8]| u32::from_le_bytes([0, 1, 2, 3].map(|i| four[i] as u8));
            [0, 4, 8, 12].map(|at| word(&entries[at..at + 4]))
        };
        let e2m1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
        assert_eq!(signed(&table(e2m1)), Some([0, 1, 2, 2]));
        let mut other = e2m1;
        other[15] = 12;
        assert_eq!(signed(&table(other)), None, "a sign is missing");
        let falling = [0, 1, 2, 3, 4, 6, 8, 9, 0, -1, -2, -3, -4, -6, -8, -9];
        assert_eq!(signed(&table(falling)), None, "less than the products of two bits");
        let uneven = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
        assert_eq!(signed(&table(uneven)), None);
    }
}
