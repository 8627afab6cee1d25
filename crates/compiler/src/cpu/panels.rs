//! Long sums are cut into panels, so that what several rows or tokens read stays in a near cache.

/// Elements of the longest block of any format; a panel holds whole blocks.
pub(super) const BLOCK: i64 = 256;

/// Into how many panels of whole blocks, of `most` elements at most, a sum over groups is cut.
pub(super) fn panels(groups: i64, width: i64, most: i64) -> i64 {
    let fits = |n: &i64| groups % n == 0 && groups / n * width <= most && groups / n * width % BLOCK == 0;
    (1..=groups).find(fits).unwrap_or(1)
}
