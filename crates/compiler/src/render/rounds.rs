//! Rounds of a loop that are written together.
//!
//! Compilers of C and CUDA unroll loops, so that the loads of several rounds are on their way at once. Those of shading languages
//! leave a loop as it is, and a sum whose rounds load little then waits for memory in each of them.

use crate::kernel::expression::depends;
use ir::{Graph, Id, Op};

/// Bytes of loads that a thread has on their way, as rounds are put together.
const BYTES: usize = 256;

/// Rounds at most.
const MOST: i64 = 8;

/// How many rounds of a loop over `range` are written one after another: a divisor of their number, 1 unless all that they
/// do is to load and compute.
pub(super) fn together(g: &Graph, range: Id, body: &[Id]) -> i64 {
    let Some(rounds) = g.as_int(g.src(range)[0]) else { return 1 };
    let Some(values) = sets(g, body) else { return 1 };
    let moves = |&id: &Id| *g.op(id) == Op::Load && depends(g, id, range);
    let bytes: usize = g.toposort(&values).iter().filter(|id| moves(id)).map(|&id| g.ty(id).bytes()).sum();
    if bytes == 0 {
        return 1;
    }
    (1..=MOST).rev().find(|n| rounds % n == 0 && *n as usize * bytes <= BYTES).unwrap_or(1)
}

/// Whether all rounds of a loop should be one after another, as they are few and multiply matrices under conditions:
/// compilers leave such loops as they are, and know best about others. Not where rounds are loops that some threads leave
/// out: all of them take registers that the blocks of the next kernel could begin with.
pub(super) fn multiplies(g: &Graph, range: Id, body: &[Id]) -> bool {
    let few = g.as_int(g.src(range)[0]).is_some_and(|n| n <= MOST);
    let all = if few { g.toposort(body) } else { vec![] };
    let has = |op: &Op| all.iter().any(|&id| g.op(id) == op);
    let last = |&id: &Id| *g.op(id) == Op::If && depends(g, g.src(id)[0], range);
    has(&Op::WarpProduct) && has(&Op::If) && !(has(&Op::Loop) && all.iter().any(last))
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

#[cfg(test)]
mod tests {
    use super::{multiplies, together};
    use crate::kernel::emitter::{make_if, make_loop};
    use ir::{Axis, DType, Graph, Id, Op, Space, Type};

    /// A loop of so many rounds that each add `lanes` floats from memory to a register, and its body.
    fn sum(g: &mut Graph, rounds: i64, lanes: u16) -> (Id, Vec<Id>) {
        let extent = g.int(rounds);
        let range = g.make(Op::Range(0, Axis::Loop), DType::Index, vec![], vec![extent]);
        let buffer = Op::Buffer { slot: 0, space: Space::Input, len: 4096 };
        let buffer = g.make(buffer, DType::F32, vec![], vec![]);
        let load = g.load(buffer, range, lanes as usize);
        let acc = g.make(Op::Acc(0), Type::vector(DType::F32, lanes as usize), vec![], vec![]);
        let added = g.add(acc, load);
        (range, vec![g.make(Op::Set, DType::Index, vec![], vec![acc, added])])
    }

    #[test]
    fn a_divisor_of_the_rounds_that_keeps_few_bytes_on_the_way() {
        let g = &mut Graph::new();
        let cases = [(64, 1, 8), (6, 1, 6), (7, 1, 7), (13, 1, 1), (64, 16, 4), (64, 32, 2), (64, 64, 1)];
        for (rounds, lanes, expected) in cases {
            let (range, body) = sum(g, rounds, lanes);
            assert_eq!(together(g, range, &body), expected, "{rounds} rounds of {lanes} floats");
        }
    }

    #[test]
    fn what_stores_or_loads_nothing_new_stays_a_loop() {
        let g = &mut Graph::new();
        let (range, body) = sum(g, 64, 1);
        let zero = g.int(0);
        let out = g.make(Op::Buffer { slot: 1, space: Space::Output, len: 64 }, DType::F32, vec![], vec![]);
        let acc = g.src(body[0])[0];
        let store = g.make(Op::Store, DType::Index, vec![], vec![out, range, acc]);
        assert_eq!(together(g, range, &[body[0], store]), 1);
        let same = g.src(store)[0];
        let load = g.load(same, zero, 1);
        let set = g.make(Op::Set, DType::Index, vec![], vec![acc, load]);
        assert_eq!(together(g, range, &[set]), 1);
    }

    #[test]
    fn rounds_of_loops_that_some_threads_leave_out_stay_a_loop() {
        let g = &mut Graph::new();
        let (range, _) = sum(g, 2, 4);
        let (inner, _) = sum(g, 36, 4);
        let ty = Type::vector(DType::F32, 4);
        let acc = g.make(Op::Acc(1), ty, vec![], vec![]);
        let [rows, columns] =
            [8, 4].map(|lanes| g.make(Op::Acc(lanes), Type::vector(DType::F16, lanes as usize), vec![], vec![]));
        let product = g.make(Op::WarpProduct, ty, vec![], vec![acc, rows, columns]);
        let set = g.make(Op::Set, DType::Index, vec![], vec![acc, product]);
        let products = make_loop(g, inner, vec![set]);
        let (one, data) = (g.int(1), g.make(Op::Acc(2), DType::Index, vec![], vec![]));
        let [some, known] = [range, data].map(|of| g.binary(ir::BinOp::Lt, of, one));
        for (condition, body, expected) in
            [(some, set, true), (some, products, false), (known, set, true), (known, products, true)]
        {
            let round = make_if(g, condition, vec![body]);
            assert_eq!(multiplies(g, range, &[round]), expected);
        }
        assert!(!multiplies(g, range, &[set]), "no conditions");
    }
}
