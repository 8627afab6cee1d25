//! Movement algebra against direct indexing, on random shapes and chains.

use super::tensor::{Bindings, evaluate};
use crate::{DType, Graph, Id, ReduceOp};
use proptest::prelude::*;

/// A tensor computed by direct indexing.
#[derive(Clone, Debug)]
struct Plain {
    dims: Vec<usize>,
    values: Vec<i64>,
}

impl Plain {
    /// A tensor of these extents whose elements are `f(index)`.
    fn new(dims: Vec<usize>, f: impl Fn(&[usize]) -> i64) -> Plain {
        let mut index = vec![0; dims.len()];
        let mut values = vec![];
        for _ in 0..dims.iter().product() {
            values.push(f(&index));
            for d in (0..dims.len()).rev() {
                index[d] += 1;
                if index[d] < dims[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        Plain { dims, values }
    }

    fn at(&self, index: &[usize]) -> i64 {
        self.values[index.iter().zip(&self.dims).fold(0, |at, (&i, &n)| at * n + i)]
    }
}

/// One step of a chain; numbers are reduced to what the shape allows.
#[derive(Clone, Debug)]
enum Movement {
    Merge(usize),
    Split(usize, usize),
    Permute(usize, usize),
    Expand(usize),
    Slice(usize, usize, usize),
    Concat(usize),
    Double,
    Sum(usize),
}

fn step() -> impl Strategy<Value = Movement> {
    let n = 0usize..12;
    prop_oneof![
        n.clone().prop_map(Movement::Merge),
        (n.clone(), n.clone()).prop_map(|(a, b)| Movement::Split(a, b)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Movement::Permute(a, b)),
        n.clone().prop_map(Movement::Expand),
        (n.clone(), n.clone(), n.clone()).prop_map(|(a, b, c)| Movement::Slice(a, b, c)),
        n.clone().prop_map(Movement::Concat),
        Just(Movement::Double),
        n.prop_map(Movement::Sum),
    ]
}

fn shape(g: &mut Graph, dims: &[usize]) -> Vec<Id> {
    dims.iter().map(|&d| g.int(d as i64)).collect()
}

fn reshape(g: &mut Graph, id: Id, p: &Plain, dims: Vec<usize>) -> (Id, Plain) {
    let s = shape(g, &dims);
    (g.reshape(id, s), Plain { dims, values: p.values.clone() })
}

fn apply(g: &mut Graph, id: Id, p: &Plain, step: &Movement) -> (Id, Plain) {
    let rank = p.dims.len();
    let mut dims = p.dims.clone();
    match *step {
        Movement::Merge(a) if rank > 1 => {
            let n = dims.remove(a % (rank - 1));
            dims[a % (rank - 1)] *= n;
            reshape(g, id, p, dims)
        }
        Movement::Split(a, b) if rank < 5 => {
            let d = a % rank;
            let divisors: Vec<usize> = (1..=dims[d]).filter(|k| dims[d].is_multiple_of(*k)).collect();
            let inner = divisors[b % divisors.len()];
            dims[d] /= inner;
            dims.insert(d + 1, inner);
            reshape(g, id, p, dims)
        }
        Movement::Permute(a, b) => {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(a % rank, b % rank);
            let dims = perm.iter().map(|&d| p.dims[d]).collect();
            let plain = Plain::new(dims, |i| {
                let mut from = vec![0; rank];
                perm.iter().zip(i).for_each(|(&d, &i)| from[d] = i);
                p.at(&from)
            });
            (g.permute(id, perm), plain)
        }
        Movement::Expand(a) if rank < 5 && p.values.len() < 10_000 => {
            let d = a % (rank + 1);
            dims.insert(d, 1);
            let (id, one) = reshape(g, id, p, dims.clone());
            dims[d] = 3;
            let s = shape(g, &dims);
            let plain = Plain::new(dims, |i| {
                let mut from = i.to_vec();
                from[d] = 0;
                one.at(&from)
            });
            (g.expand(id, s), plain)
        }
        Movement::Slice(a, b, c) => {
            let d = a % rank;
            let start = b % dims[d];
            dims[d] = 1 + c % (dims[d] - start);
            let id = g.slice(id, d, start as i64, dims[d] as i64);
            let plain = Plain::new(dims, |i| {
                let mut from = i.to_vec();
                from[d] += start;
                p.at(&from)
            });
            (id, plain)
        }
        Movement::Concat(a) if p.values.len() < 10_000 => {
            let d = a % rank;
            let n = dims[d];
            dims[d] *= 2;
            let plain = Plain::new(dims, |i| {
                let mut from = i.to_vec();
                from[d] %= n;
                p.at(&from)
            });
            (g.concat(vec![id, id], d), plain)
        }
        Movement::Double => {
            let values = p.values.iter().map(|v| i64::from((v * 2) as i32)).collect();
            (g.add(id, id), Plain { dims, values })
        }
        Movement::Sum(a) if rank > 1 => {
            let d = a % rank;
            let n = dims.remove(d);
            let plain = Plain::new(dims, |i| {
                let mut from = i.to_vec();
                from.insert(d, 0);
                let each = (0..n).map(|j| {
                    from[d] = j;
                    p.at(&from)
                });
                i64::from(each.sum::<i64>() as i32)
            });
            (g.reduce(ReduceOp::Sum, id, vec![d]), plain)
        }
        _ => (id, p.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn chains_of_movements(
        dims in prop_oneof![prop::collection::vec(1usize..6, 1..4), prop::collection::vec(1usize..24, 3)],
        steps in prop::collection::vec(step(), 1..10),
    ) {
        let mut g = Graph::new();
        let s = shape(&mut g, &dims);
        let mut id = g.param("x", DType::I32, s);
        let n: usize = dims.iter().product();
        let mut plain = Plain { dims, values: (0..n as i64).map(|i| i * i + 1).collect() };
        let bytes: Vec<u8> = plain.values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect();
        let mut roots = vec![];
        let mut wanted = vec![];
        for (i, step) in steps.iter().enumerate() {
            (id, plain) = apply(&mut g, id, &plain, step);
            if i % 4 == 3 || i + 1 == steps.len() {
                roots.push(id);
                wanted.push(plain.clone());
            }
        }
        let bindings = Bindings::new().tensor("x", &bytes);
        let alone = evaluate(&g, &roots[roots.len() - 1..], &bindings).unwrap();
        let got = evaluate(&g, &roots, &bindings).unwrap();
        prop_assert_eq!(&alone[0], got.last().unwrap());
        for (got, want) in got.iter().zip(&wanted) {
            prop_assert_eq!(&got.dims, &want.dims);
            prop_assert_eq!(got.integers(), want.values.clone());
        }
    }
}
