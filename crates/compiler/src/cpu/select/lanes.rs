//! Vectors made of others: splats, joins, shuffles.

use super::inst::{Inst, call, cast, grouped, numbers, prefix, type_name, value};
use super::masks;
use ir::{Const, DType, Graph, Id, Op, Type};

// ---- constants and splats ----

/// A constant vector.
pub(super) fn constants(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Lanes(all) = g.op(id) else { return None };
    let ty = g.ty(id);
    let lane = |c: &Const| if ty.base == DType::Bool { Const::Int(-c.as_int()) } else { *c };
    Some(numbers(ty, all.iter().map(lane)))
}

/// One half in all lanes, converted there.
pub(super) fn splat_of_half(g: &mut Graph, id: Id) -> Option<Inst> {
    let from = *g.op(id) == Op::Splat && g.ty(id) == Type::vector(DType::F32, 8);
    let scalar = g.src(id).first().copied().filter(|_| from)?;
    let half = g.src(scalar).first().copied().filter(|&half| g.ty(half) == DType::F16.into())?;
    (*g.op(scalar) == Op::Cast).then(|| call("kl_splat_from_f16_8", [value(half)]))
}

/// One scalar in all lanes.
pub(super) fn splat(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Splat).then(|| call(format!("kl_splat_{}", type_name(g.ty(id))), [masks::lanes(g, g.src(id)[0])]))
}

// ---- eight bytes that are shuffled: the lower half of sixteen, as a compiler clears what lies above eight ----

/// The type of whose lower half vectors of eight bytes are made.
fn sixteen(base: DType) -> Type {
    Type { base, lanes: 16 }
}

fn low_half(g: &Graph, id: Id) -> Option<Inst> {
    let (Op::Shuffle(map), ty, src) = (g.op(id), g.ty(id), *g.src(id).first()?) else { return None };
    if ty.base.bytes() != 1 || ty.lanes != 8 {
        return None;
    }
    let wide = sixteen(ty.base);
    if g.ty(src) == wide && map.iter().enumerate().all(|(i, m)| i == usize::from(*m)) {
        return Some(value(src));
    }
    Some(Shuffle::of(g, wide, src, [&map[..], &map[..]].concat()).selected())
}

/// Words of the lower half of sixteen bytes.
pub(super) fn words_of_low_half(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Cast, DType::I32) = (g.op(id), g.dtype(id)) else { return None };
    let bytes = g.src(id)[0];
    let wide = low_half(g, bytes)?;
    Some(call(format!("kl_words_low_{}", type_name(sixteen(g.dtype(bytes)))), [wide]))
}

/// Two lower halves one after the other.
pub(super) fn low_halves_joined(g: &mut Graph, id: Id) -> Option<Inst> {
    let [a, b] = joined_pair(g, id)?;
    Some(call(format!("kl_join_low_{}", type_name(g.ty(id))), [low_half(g, a)?, low_half(g, b)?]))
}

// ---- joins ----

/// The two sources of a join, if they are of one type.
fn joined_pair(g: &Graph, id: Id) -> Option<[Id; 2]> {
    match (g.op(id), g.src(id)) {
        (Op::Join, &[a, b]) if g.ty(a) == g.ty(b) => Some([a, b]),
        _ => None,
    }
}

/// Two vectors rounded to halves by one instruction.
pub(super) fn rounded_together(g: &mut Graph, id: Id) -> Option<Inst> {
    let halves = joined_pair(g, id).filter(|_| g.ty(id) == Type::vector(DType::BF16, 32))?;
    let of_floats = |s: Id| *g.op(s) == Op::Cast && g.ty(g.src(s)[0]) == Type::vector(DType::F32, 16);
    halves.into_iter().all(of_floats).then(|| call("kl_round_bf16x32", halves.map(|s| value(g.src(s)[0]))))
}

/// Two scalars in a half of the lanes each.
pub(super) fn splats_joined(g: &mut Graph, id: Id) -> Option<Inst> {
    let ty = g.ty(id);
    let halves = joined_pair(g, id).filter(|_| ty == Type::vector(DType::F16, 16))?;
    let splats = halves.into_iter().all(|s| *g.op(s) == Op::Splat);
    splats.then(|| call(format!("kl_splats_{}", type_name(ty)), halves.map(|s| value(g.src(s)[0]))))
}

/// Scalars one after another.
pub(super) fn scalars_joined(g: &mut Graph, id: Id) -> Option<Inst> {
    let scalars = *g.op(id) == Op::Join && g.src(id).iter().all(|&s| g.ty(s).lanes == 1);
    scalars.then(|| Inst::Lanes(g.ty(id), g.src(id).iter().map(|&s| masks::lanes(g, s)).collect()))
}

/// Vectors one after another: pairs of equal width, then pairs of those; through memory where widths are unequal.
pub(super) fn joined(g: &mut Graph, id: Id) -> Option<Inst> {
    if *g.op(id) != Op::Join {
        return None;
    }
    let mut level: Vec<(Type, Inst)> = g.src(id).iter().map(|&s| (g.ty(s), masks::lanes(g, s))).collect();
    while level.len() > 1 {
        level = pairs_joined(level);
        if level.len() > 1 && level.windows(2).all(|w| w[0].0 != w[1].0) {
            return Some(Inst::Parts(g.ty(id), level));
        }
    }
    level.pop().map(|(_, whole)| whole)
}

fn pairs_joined(parts: Vec<(Type, Inst)>) -> Vec<(Type, Inst)> {
    let mut rest = parts.into_iter().peekable();
    let mut next = vec![];
    while let Some((ty, a)) = rest.next() {
        next.push(match rest.next_if(|(other, _)| *other == ty) {
            None => (ty, a),
            Some((_, b)) => {
                let wide = Type::vector(ty.base, 2 * usize::from(ty.lanes));
                match ty.lanes {
                    1 => (wide, Inst::Lanes(wide, vec![a, b])),
                    _ => (wide, call(format!("kl_join_{}", type_name(wide)), [a, b])),
                }
            }
        });
    }
    next
}

// ---- shuffles ----

/// Lanes of one vector or of two, which have `lanes` each.
struct Shuffle {
    ty: Type,
    sources: [Inst; 2],
    lanes: u16,
    map: Vec<u16>,
}

/// The ways to shuffle, of which the first that fits is taken.
const SHUFFLES: [fn(&Shuffle) -> Option<Inst>; 3] = [Shuffle::one_word, Shuffle::of_words, Shuffle::widened];

/// Lanes of a vector in another order.
pub(super) fn shuffled(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Shuffle(map) = g.op(id) else { return None };
    Some(Shuffle::of(g, g.ty(id), g.src(id)[0], map.clone()).selected())
}

impl Shuffle {
    /// One instruction takes lanes of two vectors, so the parts of a join are sources of their own.
    fn of(g: &Graph, ty: Type, src: Id, map: Vec<u16>) -> Shuffle {
        let halves = match (g.op(src), g.src(src)) {
            (Op::Join, &[a, b]) if g.ty(a) == ty && g.ty(b) == ty => [a, b],
            _ => [src; 2],
        };
        Shuffle { ty, sources: halves.map(value), lanes: g.ty(halves[0]).lanes, map }
    }

    fn selected(&self) -> Inst {
        SHUFFLES.iter().find_map(|way| way(self)).unwrap_or_else(|| self.plain())
    }

    fn plain(&self) -> Inst {
        Inst::Shuffle(Box::new(self.sources.clone()), self.map.clone())
    }

    /// Lanes that make a word, and the vector of words, if they stay together: bytes by fours, halves by twos.
    fn words(&self) -> Option<(u16, Type)> {
        let per = 4 / self.ty.base.bytes().min(4) as u16;
        let together =
            |c: &[u16]| c.len() == per.into() && c[0].is_multiple_of(per) && c.windows(2).all(|w| w[1] == w[0] + 1);
        (per > 1 && self.map.chunks(per.into()).all(together))
            .then(|| (per, Type::vector(DType::U32, usize::from(self.ty.lanes / per))))
    }

    /// A vector of one word in all words of another.
    fn one_word(&self) -> Option<Inst> {
        let (_, words) = self.words().filter(|(per, _)| self.lanes == *per && self.sources[0] == self.sources[1])?;
        let word = call("kl_load_u32", [prefix("&", self.sources[0].clone())]);
        Some(grouped(cast(self.ty, call(format!("kl_splat_{}", type_name(words)), [word]))))
    }

    /// Words in place of what makes them up.
    fn of_words(&self) -> Option<Inst> {
        let (per, words) = self.words().filter(|(per, _)| self.lanes > *per)?;
        let lanes = self.lanes / per;
        let map: Vec<u16> = self.map.iter().step_by(per.into()).map(|m| m / per).collect();
        // Two words of one vector and two of the other are one instruction, which gcc knows of floats only.
        let two_of_each = |(i, m): (usize, &u16)| (m / lanes, m % lanes / 4) == (i as u16 % 4 / 2, i as u16 / 4);
        let base = if map.iter().enumerate().all(two_of_each) { DType::F32 } else { DType::U32 };
        let sources = self.sources.clone().map(|v| cast(Type { base, lanes }, v));
        let shuffle = Shuffle { ty: words, sources, lanes, map };
        Some(grouped(cast(self.ty, shuffle.widened().unwrap_or_else(|| shuffle.plain()))))
    }

    /// A compiler goes through memory where the result is wider than its source, which is widened first.
    fn widened(&self) -> Option<Inst> {
        if self.lanes >= self.ty.lanes {
            return None;
        }
        // Bytes find a copy of a source of 16 in their own part of a register.
        let copies = self.ty.base.bytes() == 1 && self.lanes == 16;
        let mut wide = self.sources[0].clone();
        let mut lanes = self.lanes;
        while lanes < self.ty.lanes {
            lanes *= 2;
            let to = Type { base: self.ty.base, lanes };
            let twice = match copies {
                true => call(format!("kl_join_{}", type_name(to)), [wide.clone(), wide]),
                false => call(format!("kl_twice_{}", type_name(to)), [wide]),
            };
            wide = Inst::Held(to, Box::new(twice));
        }
        let own = |(i, m): (usize, &u16)| if copies { i as u16 / 16 * 16 + m } else { *m };
        let map = self.map.iter().enumerate().map(own).collect();
        Some(Inst::Shuffle(Box::new([wide.clone(), wide]), map))
    }
}
