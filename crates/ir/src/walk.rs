//! Walks from some nodes to what they need: one loop for all the questions that are asked about what lies below.
//!
//! A walk comes to everything once, the latest found first. What is visited says itself where the walk goes on, so a
//! question may stop at what it knows, follow some sources only, or carry something along. [`Graph::toposort`] is the
//! walk over all sources, in order of numbers.

use crate::{BinOp, Graph, Id, Op};
use rustc_hash::FxHashSet;
use std::hash::Hash;

/// Visits what is reached from `first`; `key` tells what is the same. `visit` adds what comes next.
///
/// # Errors
/// That of the first visit that fails, which ends the walk.
pub fn try_reach_by<T, K: Eq + Hash, E>(
    first: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
    mut visit: impl FnMut(T, &mut Vec<T>) -> Result<(), E>,
) -> Result<(), E> {
    let mut stack: Vec<T> = first.into_iter().collect();
    let mut seen = FxHashSet::default();
    while let Some(next) = stack.pop() {
        if seen.insert(key(&next)) {
            visit(next, &mut stack)?;
        }
    }
    Ok(())
}

/// As [`try_reach_by`], with visits that cannot fail.
pub fn reach_by<T, K: Eq + Hash>(
    first: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
    mut visit: impl FnMut(T, &mut Vec<T>),
) {
    let all = |next, more: &mut Vec<T>| {
        visit(next, more);
        Ok::<(), ()>(())
    };
    let _ = try_reach_by(first, key, all);
}

/// Visits what is reached from `first`; `visit` adds what comes next.
pub fn reach<T: Copy + Eq + Hash>(first: impl IntoIterator<Item = T>, visit: impl FnMut(T, &mut Vec<T>)) {
    reach_by(first, |&t| t, visit);
}

/// As [`reach`], with visits that may fail, which ends the walk.
///
/// # Errors
/// That of the first visit that fails.
pub fn try_reach<T: Copy + Eq + Hash, E>(
    first: impl IntoIterator<Item = T>,
    visit: impl FnMut(T, &mut Vec<T>) -> Result<(), E>,
) -> Result<(), E> {
    try_reach_by(first, |&t| t, visit)
}

/// Whether something that is reached from `first` is what is looked for; `found` says so, or adds what comes next.
pub fn any<T: Copy + Eq + Hash>(
    first: impl IntoIterator<Item = T>,
    mut found: impl FnMut(T, &mut Vec<T>) -> bool,
) -> bool {
    try_reach(first, |next, more| if found(next, more) { Err(()) } else { Ok(()) }).is_err()
}

/// Nodes before their users, in the order in which `roots` reach them; `enter` gives the sources of a node to look at,
/// or nothing for one that is left out.
pub fn post_order<'g>(roots: &[Id], mut enter: impl FnMut(Id) -> Option<&'g [Id]>) -> Vec<Id> {
    let mut order = vec![];
    let mut seen = FxHashSet::default();
    let mut stack: Vec<(Id, bool)> = roots.iter().rev().map(|&r| (r, false)).collect();
    while let Some((id, done)) = stack.pop() {
        if done {
            order.push(id);
        } else if !seen.contains(&id)
            && let Some(sources) = enter(id)
        {
            seen.insert(id);
            stack.push((id, true));
            stack.extend(sources.iter().rev().map(|&s| (s, false)));
        }
    }
    order
}

/// What `op` combines to make a value, from left to right: the terms of a sum, the factors of a product.
pub fn terms(g: &Graph, op: BinOp, id: Id, out: &mut Vec<Id>) {
    if *g.op(id) == Op::Binary(op) {
        terms(g, op, g.src(id)[0], out);
        terms(g, op, g.src(id)[1], out);
    } else {
        out.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::{any, post_order, reach, reach_by, terms};
    use crate::{BinOp, Graph, Id};

    /// `(1 + x) * (x + 2)` and its parts.
    fn product(g: &mut Graph) -> [Id; 6] {
        let x = g.var("x", 0, 9);
        let (one, two) = (g.int(1), g.int(2));
        let make = |g: &mut Graph, op, a, b| g.make(crate::Op::Binary(op), crate::DType::Index, vec![], vec![a, b]);
        let (a, b) = (make(g, BinOp::Add, one, x), make(g, BinOp::Add, x, two));
        [x, one, two, a, b, make(g, BinOp::Mul, a, b)]
    }

    #[test]
    fn everything_is_visited_once() {
        let mut g = Graph::new();
        let [x, one, two, a, b, root] = product(&mut g);
        let mut all = vec![];
        reach([root], |id, more| {
            all.push(id);
            more.extend(g.src(id));
        });
        assert_eq!(all, [root, b, two, x, a, one]);
        let mut depths = vec![];
        reach_by(
            [(root, 0)],
            |d| d.0,
            |(id, depth), more| {
                depths.push(depth);
                more.extend(g.src(id).iter().map(|&s| (s, depth + 1)));
            },
        );
        assert_eq!(depths, [0, 1, 2, 2, 1, 2]);
    }

    #[test]
    fn a_search_ends_where_it_finds_and_goes_where_it_is_led() {
        let mut g = Graph::new();
        let [x, one, _, a, b, root] = product(&mut g);
        let mut visited = 0;
        let to = |id: Id, more: &mut Vec<Id>| {
            visited += 1;
            more.extend(g.src(id));
            id == b
        };
        assert!(any([root], to));
        assert_eq!(visited, 2);
        let only_b = |id: Id, more: &mut Vec<Id>| {
            more.extend(g.src(id).iter().filter(|&&s| s != a));
            id == one
        };
        assert!(!any([root], only_b));
        assert!(any([x], |id, _| id == x));
    }

    #[test]
    fn sources_come_before_their_users() {
        let mut g = Graph::new();
        let [x, one, two, a, b, root] = product(&mut g);
        assert_eq!(post_order(&[root], |id| Some(g.src(id))), [one, x, a, two, b, root]);
        assert_eq!(post_order(&[root, a], |id| (id != b).then(|| g.src(id))), [one, x, a, root]);
    }

    #[test]
    fn terms_come_from_left_to_right() {
        let mut g = Graph::new();
        let [.., a, b, root] = product(&mut g);
        let mut factors = vec![];
        terms(&g, BinOp::Mul, root, &mut factors);
        assert_eq!(factors, [a, b]);
    }
}
