//! Where values of different lives lie in one piece of memory: one after another, each at the lowest offset where nothing
//! that lives at the same time lies.

/// First and last moment of a life.
pub(crate) type Life = (usize, usize);

/// A life without an end, for what nothing is known about.
pub(crate) const ALWAYS: Life = (0, usize::MAX);

/// The offset of each value by its bytes and its life, placed in this order, and the bytes of all.
pub(crate) fn place(values: impl IntoIterator<Item = (usize, Life)>) -> (Vec<usize>, usize) {
    let mut placed: Vec<(usize, usize, Life)> = vec![];
    for (bytes, life) in values {
        let together = |other: &Life| other.0 <= life.1 && life.0 <= other.1;
        let mut busy: Vec<(usize, usize)> =
            placed.iter().filter(|p| together(&p.2)).map(|&(start, end, _)| (start, end)).collect();
        busy.sort_unstable();
        let mut at = 0;
        for (start, end) in busy {
            if at + bytes <= start {
                break;
            }
            at = at.max(end);
        }
        placed.push((at, at + bytes, life));
    }
    let total = placed.iter().map(|p| p.1).max().unwrap_or(0);
    (placed.into_iter().map(|p| p.0).collect(), total)
}

#[cfg(test)]
mod tests {
    use super::{ALWAYS, place};

    #[test]
    fn who_lives_together_lies_apart() {
        let values = [(64, (0, 1)), (32, (1, 2)), (32, (2, 3)), (16, ALWAYS), (8, (3, 3))];
        // The third takes the place of the first, and the last one the room behind it.
        assert_eq!(place(values), (vec![0, 64, 0, 96, 32], 112));
        assert_eq!(place([]), (vec![], 0));
    }
}
