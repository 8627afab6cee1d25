//! Which lane of a warp holds what of the matrices that it multiplies together.

/// Row and column of element `i` of two that a lane holds of a matrix of 8 by 8.
pub(super) fn fragment(lane: usize, i: usize, transposed: bool) -> (usize, usize) {
    let (row, column) = (lane / 4, lane % 4 * 2 + i);
    if transposed { (column, row) } else { (row, column) }
}

/// Adds the products of an [`Op::WarpProduct`](crate::Op::WarpProduct) to the sums of a warp; `at` finds an element of a
/// lane.
pub(super) fn add_product(sums: &mut [f32], rows: &[f32], columns: &[f32], at: impl Fn(usize, usize) -> usize) {
    for (row, column) in (0..16).flat_map(|row| (0..8).map(move |column| (row, column))) {
        let sum = &mut sums[at(row % 8 * 4 + column / 2, row / 8 * 2 + column % 2)];
        for k in 0..16 {
            let (lane, i) = (k % 8 / 2, k % 2);
            let a = rows[at(row % 8 * 4 + lane, k / 8 * 4 + row / 8 * 2 + i)];
            let b = columns[at(column * 4 + lane, k / 8 * 2 + i)];
            *sum += a * b;
        }
    }
}
