//! Which lane of a warp holds what of the matrices that it multiplies together. Four bytes of a row have `e` elements.

/// Row and column of element `i` of those that a lane holds of a matrix of 8 rows.
pub(super) fn fragment(lane: usize, i: usize, e: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, lane % 4 * e + i);
    if transposed { (column, row) } else { (row, column) }
}

/// Row and column of element `i` of the sums that a lane holds of an [`Op::WarpProduct`](crate::Op::WarpProduct).
pub(super) fn sum(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + i % 4 / 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8)
}

/// For each sum of an [`Op::WarpProduct`](crate::Op::WarpProduct) of `length` elements, where it is among the elements
/// of a warp, and where the factors of its products are; `at` finds an element of a lane.
pub(super) fn products(
    length: usize,
    e: usize,
    at: impl Fn(usize, usize) -> usize,
    mut add: impl FnMut(usize, usize, usize),
) {
    for (row, column) in (0..16).flat_map(|row| (0..8).map(move |column| (row, column))) {
        let sum = at(row % 8 * 4 + column / 2, row / 8 * 2 + column % 2);
        for k in 0..length {
            let (lane, word, i) = (k / e % 4, k / (4 * e), k % e);
            let a = at(row % 8 * 4 + lane, (word * 2 + row / 8) * e + i);
            let b = at(column * 4 + lane, word * e + i);
            add(sum, a, b);
        }
    }
}
