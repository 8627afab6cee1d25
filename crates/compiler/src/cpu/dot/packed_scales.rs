//! Bits of bytes, taken apart in vectors of bytes.
//!
//! Scales and minima of K formats are made of bits of a few bytes, which they share. As words, each has a lane of 32 bits
//! from its load on. Here they stay bytes until they are whole, those of all expressions of a pass in one vector. Vectors
//! of bytes have no shifts by lane, but vectors of words have: so four bytes that lie side by side move by the same.

use crate::kernel::lane_order::signature;
use crate::kernel::superword::Packer;
use ir::index::bounds;
use ir::{BinOp, Const, DType, Graph, Id, Op, Type};

/// Bytes that one load brings.
const WINDOW: i64 = 16;

/// The words in these lists of lanes that are made of bits of bytes, each list of them with its vector: found together,
/// so that vectors of at most `most` bytes hold them all. Empty where there are no such words, or not in fours.
pub(crate) fn words(g: &mut Graph, lists: &[&[Id]], most: usize) -> Vec<(Vec<Id>, Id)> {
    let mut found = vec![];
    lists.iter().for_each(|lanes| find(g, lanes, &mut found));
    packed(g, &found, most).unwrap_or_default()
}

/// Lists of lanes below these that are words of bits.
fn find(g: &Graph, lanes: &[Id], found: &mut Vec<Vec<Id>>) {
    let (op, n) = (g.op(lanes[0]), g.src(lanes[0]).len());
    let bits =
        |&e: &Id| matches!(g.op(e), Op::Binary(BinOp::And | BinOp::Or | BinOp::Xor)) && g.ty(e) == DType::I32.into();
    if lanes.iter().all(bits) {
        if !found.iter().any(|known| known == lanes) {
            found.push(lanes.to_vec());
        }
        return;
    }
    let alike = |&e: &Id| g.op(e) == op && g.src(e).len() == n;
    if matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Cast) && lanes.iter().all(alike) {
        for k in 0..n {
            let inner: Vec<Id> = lanes.iter().map(|&e| g.src(e)[k]).collect();
            find(g, &inner, found);
        }
    }
}

fn packed(g: &mut Graph, found: &[Vec<Id>], most: usize) -> Option<Vec<(Vec<Id>, Id)>> {
    let all = found.concat();
    if all.len() < 16 || all.len() > most || !all.len().is_power_of_two() || found.iter().any(|f| f.len() % 8 != 0) {
        return None;
    }
    let mut bytes = vec![];
    for &e in &all {
        let (least, greatest) = bounds(g, e);
        bytes.push(low_byte(g, e).filter(|_| least >= 0 && greatest <= 255)?);
    }
    // Those whose bytes one load brings are side by side.
    let mut fours = vec![];
    for (at, four) in bytes.chunks(4).enumerate() {
        let signatures: Vec<_> = four.iter().map(|&e| signature(g, e)).collect();
        let (shifts, first) = &signatures[0];
        let alike = |(i, s): (usize, &(Vec<i64>, i64))| s.0 == *shifts && s.1 == first + i as i64;
        if !signatures.iter().enumerate().all(alike) {
            return None;
        }
        fours.push((*first, at));
    }
    let mut starts: Vec<i64> = fours.iter().map(|four| four.0).collect();
    starts.sort_unstable();
    starts.dedup_by(|next, start| *next < *start + WINDOW);
    fours.sort_by_key(|&(first, at)| (starts.partition_point(|&start| start <= first), at));
    let lanes: Vec<Id> = fours.iter().flat_map(|&(_, at)| bytes[4 * at..][..4].to_vec()).collect();
    let mut packer = Packer::shifting();
    let whole = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0)?;
    let mut place = vec![0; bytes.len()];
    fours.iter().enumerate().for_each(|(to, &(_, at))| (0..4).for_each(|i| place[4 * at + i] = (4 * to + i) as u16));
    let mut place = place.into_iter();
    let mut out = vec![];
    for words in found {
        let map: Vec<u16> = place.by_ref().take(words.len()).collect();
        let ty = Type::vector(DType::U8, words.len());
        let own = if g.ty(whole) == ty { whole } else { g.make(Op::Shuffle(map), ty, vec![], vec![whole]) };
        out.push((words.clone(), g.cast(own, DType::I32)));
    }
    Some(out)
}

/// The low eight bits of a word of bits, as an expression of bytes.
fn low_byte(g: &mut Graph, e: Id) -> Option<Id> {
    if let Some(c) = g.as_int(e) {
        return Some(g.constant(Const::Int(c & 255), DType::U8));
    }
    let src = g.src(e).to_vec();
    match g.op(e).clone() {
        Op::Cast if g.dtype(src[0]) == DType::U8 => Some(src[0]),
        Op::Binary(op @ (BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl)) => {
            let (a, b) = (low_byte(g, src[0])?, low_byte(g, src[1])?);
            Some(g.binary(op, a, b))
        }
        // What comes down has to be in the byte.
        Op::Binary(BinOp::Shr) if bounds(g, src[0]).1 <= 255 && bounds(g, src[0]).0 >= 0 => {
            let (a, b) = (low_byte(g, src[0])?, low_byte(g, src[1])?);
            Some(g.binary(BinOp::Shr, a, b))
        }
        _ => None,
    }
}
