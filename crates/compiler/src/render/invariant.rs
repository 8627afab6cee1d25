//! Loads that no round of a loop changes (loop-invariant code motion).
//!
//! Compilers of C and CUDA take such loads out of loops, as parameters of kernels are told not to lie over each other. In
//! shading languages whatever is bound may be written by anybody, so a page number would be loaded in each round, and what lies
//! in that page only then.

use crate::gpu::early;
use crate::kernel::expression::collect_loads;
use ir::{Axis, Graph, Id, Op};
use rustc_hash::FxHashSet;

/// Numbers that loops among these statements load from where nobody writes (`written` are the slots of which that is not so), at
/// addresses that are known before the first statement.
pub(super) fn loads(g: &Graph, statements: &[Id], written: &FxHashSet<u32>) -> Vec<Id> {
    let all = g.toposort(statements);
    let loops: Vec<Id> = all.iter().copied().filter(|&id| *g.op(id) == Op::Loop).collect();
    let counters: FxHashSet<Id> = loops.iter().map(|&l| g.src(l)[0]).collect();
    let mut known = FxHashSet::default();
    // Sources come before what is made of them.
    for &id in &all {
        let is = match *g.op(id) {
            Op::Const(_) | Op::Var { .. } | Op::Buffer { .. } => true,
            Op::Range(_, axis) => axis != Axis::Loop || !counters.contains(&id),
            Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast => g.src(id).iter().all(|s| known.contains(s)),
            Op::Load => known.contains(&g.src(id)[1]) && early::stays(g, id, written),
            _ => false,
        };
        if is {
            known.insert(id);
        }
    }
    let mut found = vec![];
    loops.iter().flat_map(|&l| &g.src(l)[1..]).for_each(|&s| collect_loads(g, s, &mut found));
    found.retain(|&l| known.contains(&l) && g.ty(l).lanes == 1);
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::loads;
    use crate::kernel::emitter::make_loop;
    use ir::{Axis, DType, Graph, Id, Op, Space};
    use rustc_hash::FxHashSet;

    fn range(g: &mut Graph, number: u32, rounds: i64) -> Id {
        let extent = g.int(rounds);
        g.make(Op::Range(number, Axis::Loop), DType::Index, vec![], vec![extent])
    }

    /// The element of a table that another table has for a place, in scalars.
    fn looked_up(g: &mut Graph, tables: [Id; 2], at: Id) -> [Id; 2] {
        let number = g.load(tables[0], at, 1);
        let index = g.cast(number, DType::Index);
        [number, g.load(tables[1], index, 1)]
    }

    #[test]
    fn what_is_known_before_a_loop_or_a_round_is_loaded_there() {
        let g = &mut Graph::new();
        let [numbers, values, out] = [(0, DType::I32), (1, DType::F32), (2, DType::F32)].map(|(slot, ty)| {
            let space = if slot == 2 { Space::Output } else { Space::Input };
            g.make(Op::Buffer { slot, space, len: 64 }, ty, vec![], vec![])
        });
        let (pages, rows, zero) = (range(g, 0, 4), range(g, 1, 8), g.int(0));
        let [once, value] = looked_up(g, [numbers, values], zero);
        let [page, of_page] = looked_up(g, [numbers, values], pages);
        let of_row = g.load(values, rows, 1);
        let sum = [of_page, of_row].into_iter().fold(value, |a, b| g.add(a, b));
        let store = g.make(Op::Store, DType::Index, vec![], vec![out, rows, sum]);
        let inner = make_loop(g, rows, vec![store]);
        let outer = make_loop(g, pages, vec![inner]);
        let found = |g: &Graph, statements: &[Id], written: &[u32]| {
            let written: FxHashSet<u32> = written.iter().copied().collect();
            loads(g, statements, &written)
        };
        assert_eq!(found(g, &[outer], &[2]), [once, value]);
        assert_eq!(found(g, &[inner], &[2]), [once, value, page, of_page], "in a round of the outer loop");
        assert_eq!(found(g, &[outer], &[1, 2]), [once], "what is written changes");
        assert_eq!(found(g, &[store], &[2]), [], "nothing is loaded again without a loop");
    }
}
