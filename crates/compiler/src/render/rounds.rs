//! Rounds of a loop that are written together.
//!
//! Compilers of C and CUDA unroll loops, so that the loads of several rounds are on their way at once. Those of shading languages
//! leave a loop as it is, and a sum whose rounds load little then waits for memory in each of them.

use ir::{Graph, Id, Op};

/// Bytes of loads that a thread has on their way, as rounds are put together.
const BYTES: usize = 128;

/// Rounds at most.
const MOST: i64 = 8;

/// How many rounds of a loop over `range` are written one after another: a divisor of their number, 1 unless all that they
/// do is to load and compute.
pub(super) fn together(g: &Graph, range: Id, body: &[Id]) -> i64 {
    let Some(rounds) = g.as_int(g.src(range)[0]) else { return 1 };
    let Some(values) = sets(g, body) else { return 1 };
    let moves = |&id: &Id| *g.op(id) == Op::Load && g.toposort(&[id]).contains(&range);
    let bytes: usize = g.toposort(&values).iter().filter(|id| moves(id)).map(|&id| g.ty(id).bytes()).sum();
    if bytes == 0 {
        return 1;
    }
    (1..=MOST).rev().find(|n| rounds % n == 0 && *n as usize * bytes <= BYTES).unwrap_or(1)
}

/// The values of a body that only sets registers.
fn sets(g: &Graph, body: &[Id]) -> Option<Vec<Id>> {
    let mut values = vec![];
    for &statement in body {
        match g.op(statement) {
            Op::Set => values.extend(g.src(statement).chunks_exact(2).map(|pair| pair[1])),
            Op::Block => values.extend(sets(g, g.src(statement))?),
            _ => return None,
        }
    }
    Some(values)
}
