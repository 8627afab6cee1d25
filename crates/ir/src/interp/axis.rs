//! Operations along one dimension that are neither a map nor a reduction.

use super::array::{Array, Values, View};
use super::lanes::{self, Class};
use crate::DType;
use std::cmp::Ordering;

/// Descending, NaN last, ties to the lower index: a total order.
fn rank(a: f32, b: f32) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// The indices of the `k` largest of each row of a contiguous array.
pub(crate) fn top_k(ty: DType, view: &View<'_>, k: usize) -> View<'static> {
    let n = view.dims.last().copied().unwrap_or(1);
    let rows = view.len().checked_div(n).unwrap_or(0);
    let mut out = Vec::with_capacity(rows * k);
    let mut order: Vec<usize> = Vec::with_capacity(n);
    let mut rank_row = |compare: &dyn Fn(usize, usize) -> Ordering| {
        order.clear();
        order.extend(0..n);
        let by = |a: &usize, b: &usize| compare(*a, *b).then(a.cmp(b));
        if k < n {
            order.select_nth_unstable_by(k, by);
        }
        order[..k].sort_unstable_by(by);
        out.extend(order[..k].iter().map(|&i| i as i32));
    };
    match &*view.data {
        Array::Float(v) => {
            for row in v[view.offset..].chunks_exact(n.max(1)).take(rows) {
                rank_row(&|a, b| rank(row[a], row[b]));
            }
        }
        _ => {
            let v = view.integers(ty).unwrap_or_default();
            for row in v.chunks_exact(n.max(1)) {
                rank_row(&|a, b| row[b].cmp(&row[a]));
            }
        }
    }
    let mut dims = view.dims.clone();
    *dims.last_mut().expect("a dimension") = k;
    View::new(Array::Int(out), dims)
}

/// Inclusive prefix sums of a contiguous array along `axis`. Floats are summed
/// in double precision and every prefix is rounded once.
pub(crate) fn scan(ty: DType, view: &View<'_>, axis: usize) -> View<'static> {
    let len = view.len();
    let n = view.dims[axis];
    let inner: usize = view.dims[axis + 1..].iter().product();
    let outer = len.checked_div(n * inner).unwrap_or(0);
    let places = (0..outer).flat_map(|o| (0..inner).map(move |i| o * n * inner + i));
    let mut out = Array::zeros(ty, len);
    match (&*view.data, Class::of(ty)) {
        (Array::Float(v), _) => {
            let v = &v[view.offset..view.offset + len];
            let mut sums = vec![0.0; len];
            for first in places {
                let mut sum = 0.0f64;
                for at in (0..n).map(|j| first + j * inner) {
                    sum += f64::from(v[at]);
                    sums[at] = sum as f32;
                }
            }
            lanes::round(ty, &mut sums);
            out.write(0, Values::Float(&sums));
        }
        (_, class) => {
            let mut sums = view.integers(ty).unwrap_or_default();
            for first in places {
                let mut sum = 0i64;
                for at in (0..n).map(|j| first + j * inner) {
                    sum = sum.wrapping_add(sums[at]);
                    sums[at] = sum;
                }
            }
            if class == Class::Index {
                out.write(0, Values::Index(&sums));
            } else {
                let wrapped: Vec<i32> = sums.iter().map(|&v| lanes::int_bits(ty, v)).collect();
                out.write(0, Values::Int(&wrapped));
            }
        }
    }
    View::new(out, view.dims.clone())
}
