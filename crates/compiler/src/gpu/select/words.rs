//! Bytes, four in a word.

use super::inst::Inst;
use ir::{BinOp, Const, DType, Graph, Id, Op, Type};

/// Whether a vector is kept in words of four bytes.
pub(crate) fn in_words(ty: Type) -> bool {
    ty.base.bytes() == 1 && ty.lanes.is_multiple_of(4)
}

/// Whether the source of this number is kept in words, and the value as well.
fn both_in_words(g: &Graph, id: Id, source: usize) -> bool {
    in_words(g.ty(id)) && in_words(g.ty(g.src(id)[source]))
}

/// Bytes as words, the first lowest.
pub(super) fn packed(values: &[Const]) -> Vec<u32> {
    let word = |four: &[Const]| four.iter().rev().fold(0u32, |w, c| w << 8 | (c.as_int() as u32 & 255));
    values.chunks(4).map(word).collect()
}

/// Bytes that are known.
pub(super) fn constants(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Lanes(values) = g.op(id) else { return None };
    in_words(g.ty(id)).then(|| Inst::Words(packed(values)))
}

/// Operations that do not know where a byte ends.
pub(super) fn bitwise(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Binary(op @ (BinOp::And | BinOp::Or | BinOp::Xor)) = *g.op(id) else { return None };
    in_words(g.ty(id)).then_some(Inst::Bitwise(op))
}

/// Two operations of bits with bytes that are known; of what was shifted, compilers see what is one.
pub(super) fn masked(g: &mut Graph, id: Id) -> Option<Inst> {
    let (ops, of) = two_masks(g, id)?;
    shift_before(g, of[0], of[1]).is_none().then_some(Inst::Masked { ops, of, shift: None })
}

/// The same of bytes that were shifted, whose bits from other bytes the first mask takes away.
pub(super) fn shifted_and_masked(g: &mut Graph, id: Id) -> Option<Inst> {
    let (ops, [words, before, after]) = two_masks(g, id)?;
    let shift = shift_before(g, words, before).filter(|_| ops[0] == BinOp::And)?;
    Some(Inst::Masked { ops, of: [g.src(words)[0], before, after], shift: Some(shift) })
}

/// Two operations of bits, and what they are of: words and two that are known.
fn two_masks(g: &mut Graph, id: Id) -> Option<([BinOp; 2], [Id; 3])> {
    let (second, inner, after) = mask(g, id)?;
    let (first, words, before) = mask(g, inner)?;
    Some(([first, second], [words, before, after]))
}

/// An operation of bits, the words that it is of, and those that are known.
fn mask(g: &mut Graph, id: Id) -> Option<(BinOp, Id, Id)> {
    let Some(Inst::Bitwise(op)) = bitwise(g, id) else { return None };
    let &[a, b] = g.src(id) else { return None };
    let is_known = |id: Id| matches!(g.op(id), Op::Lanes(_));
    [(a, b), (b, a)].into_iter().find(|&(_, known)| is_known(known)).map(|(words, known)| (op, words, known))
}

/// How far words were shifted, if all by as much, and a mask leaves nothing of what came from another byte.
fn shift_before(g: &mut Graph, words: Id, mask: Id) -> Option<(BinOp, u32)> {
    let Some(Inst::ShiftedWords(op, by)) = shifted(g, words) else { return None };
    let Op::Lanes(mask) = g.op(mask) else { return None };
    let &(distance, left) = by.first()?;
    let same = by.iter().all(|&other| other == (distance, left));
    (same && packed(mask).iter().all(|mask| mask & !left == 0)).then_some((op, distance))
}

/// Bytes are the same bits, signed or not.
pub(super) fn same_bits(g: &mut Graph, id: Id) -> Option<Inst> {
    (*g.op(id) == Op::Cast && both_in_words(g, id, 0) && g.dtype(id) != DType::Bool).then_some(Inst::SameBits)
}

/// Bytes shifted by known amounts that are equal in each word.
pub(super) fn shifted(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Binary(op @ (BinOp::Shl | BinOp::Shr)), &[_, amounts]) = (g.op(id), g.src(id)) else { return None };
    let Op::Lanes(amounts) = g.op(amounts) else { return None };
    let equal = amounts.chunks(4).all(|four| four.iter().all(|by| by == &four[0]));
    if !equal || g.dtype(id) != DType::U8 || !both_in_words(g, id, 0) {
        return None;
    }
    let word = |four: &[Const]| {
        let by = four[0].as_int().clamp(0, 7) as u32;
        let left = if *op == BinOp::Shl { 0xff << by & 0xff } else { 0xff >> by };
        (by, left * 0x0101_0101u32)
    };
    Some(Inst::ShiftedWords(*op, amounts.chunks(4).map(word).collect()))
}

/// Entries of a table of 16 bytes, four at a time where they are kept so.
pub(super) fn lookup(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Lookup, Op::Lanes(table)) = (g.op(id), g.op(*g.src(id).first()?)) else { return None };
    let table = packed(table).try_into().ok()?;
    Some(if both_in_words(g, id, 1) { Inst::LookupFours(table) } else { Inst::Lookup(table) })
}

/// Words in another order.
pub(super) fn shuffled(g: &mut Graph, id: Id) -> Option<Inst> {
    let Op::Shuffle(map) = g.op(id) else { return None };
    let whole = |four: &[u16]| four[0].is_multiple_of(4) && four.windows(2).all(|w| w[1] == w[0] + 1);
    let words = both_in_words(g, id, 0) && map.chunks(4).all(whole);
    words.then(|| Inst::WordsOf(map.chunks(4).map(|four| four[0] / 4).collect()))
}
