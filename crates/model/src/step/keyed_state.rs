//! Matrices of heads of which each value of a key is forgotten at its own pace, as the token says.
//!
//! A head keeps a matrix S from keys to values. Token t leaves `diag(w)` of it and takes the product of its value v and key k:
//! `S' = S diag(w) + v k`. Its query finds `S' q`, or, with a bonus for the token itself (RWKV-6, arXiv 2404.05892, section 4.2),
//! `S q + (q . bonus k) v`. With a generalised delta rule (RWKV-7, arXiv 2503.14456, section 4.1) it also takes what it has found by
//! one key, e, and puts it to another, a: `S' = S diag(w) + v k + (S e) a`.

use super::segments::Segments;
use compiler::Tensor;

/// What a head reads of a token.
pub(super) struct Taken {
    /// Queries and keys `[T, heads, key]`.
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    /// Values `[T, heads, value]`.
    pub(super) v: Tensor,
    /// What is left of each value of a key, `[T, heads, key]`.
    pub(super) left: Tensor,
    /// When a query is answered, and what else happens then.
    pub(super) rule: Rule,
}

/// When a query is answered, and what else happens then.
pub(super) enum Rule {
    /// After the token was taken.
    After,
    /// Before, and the key of the token itself counts times these, `[heads, key]`.
    Before { bonus: Tensor },
    /// After, and what was found by one key before is put to another, `[T, heads, key]` each.
    Delta { found: Tensor, put: Tensor },
}

/// What the queries find in the state of this name, `[T, heads, value]`.
pub(super) fn read(taken: &Taken, name: &str, segments: &Segments, states: &mut Vec<Tensor>) -> Tensor {
    let Taken { q, k, v, left, rule } = taken;
    let state = (name, &[k.len(1), v.len(2), k.len(2)][..]);
    let find = |state: &Tensor, x: &Tensor| (state * &x.unsqueeze(1)).sum(2);
    let keep = |state: &Tensor, left: &Tensor, v: &Tensor, k: &Tensor| {
        &(state * &left.unsqueeze(1)) + &(&v.unsqueeze(2) * &k.unsqueeze(1))
    };
    match rule {
        Rule::After | Rule::Before { .. } => segments.carried(
            state,
            [q, k, v, left],
            |state, [_, k, v, left]| keep(state, &left, &v, &k),
            |[before, after], [q, k, v, _]| match rule {
                Rule::Before { bonus } => &find(before, &q) + &(&(&(&q * &k) * bonus).sum(1).unsqueeze(1) * &v),
                _ => find(after, &q),
            },
            states,
        ),
        Rule::Delta { found, put } => segments.carried(
            state,
            [q, k, v, left, found, put],
            |state, [_, k, v, left, found, put]| {
                let moved = find(state, &found);
                &keep(state, &left, &v, &k) + &(&moved.unsqueeze(2) * &put.unsqueeze(1))
            },
            |[_, after], [q, ..]| find(after, &q),
            states,
        ),
    }
}
