//! Runs of digits cut into groups of three, counted from their end.

use super::sets;
use super::text::{Class, Text, Unit};

/// What is cut how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// Every run of `\p{N}`; what is left at its beginning is a group of its own.
    Runs,
    /// `\d{1,3}(?=(?:\d{3})*\b)`: a run of `\d` in the same way, if a word ends behind it.
    BeforeWordEnd,
    /// `(?=(\d{3})+(?!\d))`: cuts before each group of three of a run of `\d`, and nowhere else.
    Cuts,
}

/// Hands the pieces of `text` to `sink`, in order.
pub(super) fn thousands<'t>(groups: Groups, text: &'t [u8], sink: &mut impl FnMut(&'t [u8])) {
    let whole = Text(text);
    let is_digit = |unit: &Unit| if groups == Groups::Runs { unit.is(Class::NUMBER) } else { sets::digit(*unit) };
    let mut from = 0;
    let mut cut = |at: usize| {
        if from < at {
            sink(&text[from..at]);
            from = at;
        }
    };
    let mut at = 0;
    while let Some(unit) = whole.at(at) {
        if !is_digit(&unit) {
            at = unit.end;
            continue;
        }
        let (start, mut count) = (at, 0);
        while let Some(digit) = whole.at(at).filter(is_digit) {
            (at, count) = (digit.end, count + 1);
        }
        if groups == Groups::BeforeWordEnd && whole.at(at).is_some_and(sets::word) {
            continue;
        }
        let mut place = start;
        for left in (1..=count).rev() {
            if left % 3 == 0 || groups != Groups::Cuts && left == count {
                cut(place);
            }
            place = whole.at(place).map_or(place, |digit| digit.end);
        }
        if groups != Groups::Cuts {
            cut(at);
        }
    }
    cut(text.len());
}
