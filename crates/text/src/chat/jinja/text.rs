//! Operations on strings that filters and methods share.

use std::ops::Range;

use super::budget::{Budget, Builder};
use super::error::Fault;
use super::marks::Text;
use super::value::Value;

/// What Python's `str.isspace` holds for.
pub(super) fn is_space(ch: char) -> bool {
    ch.is_whitespace() || matches!(ch, '\u{1c}'..='\u{1f}')
}

/// Which ends of a string to strip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Both,
    Left,
    Right,
}

/// What `strip`, `lstrip` and `rstrip` leave, of whitespace or of the characters in `chars`.
pub(super) fn strip(text: &str, chars: Option<&str>, ends: Ends) -> Range<usize> {
    let strips = |ch: char| chars.map_or_else(|| is_space(ch), |chars| chars.contains(ch));
    let from = if ends == Ends::Right { 0 } else { text.len() - text.trim_start_matches(strips).len() };
    let rest = &text[from..];
    from..from + if ends == Ends::Left { rest.len() } else { rest.trim_end_matches(strips).len() }
}

/// `replace`, at most `count` times.
pub(super) fn replace(
    text: &Text,
    old: &str,
    new: &Text,
    count: Option<i64>,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    budget.read(text.len())?;
    let count = count.and_then(|count| usize::try_from(count).ok());
    let mut out = Builder::new(budget);
    let mut from = 0;
    for (at, found) in text.match_indices(old).take(count.unwrap_or(usize::MAX)) {
        out.push_part(text, from..at)?;
        out.push_text(new)?;
        from = at + found.len();
    }
    out.push_part(text, from..text.len())?;
    Ok(Value::Str(out.finish()))
}

/// First letter upper, the rest lower.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    let rest = chars.as_str().to_lowercase();
    first.into_iter().flatten().chain(rest.chars()).collect()
}

/// First letter of every word upper, the rest lower. `in_word` tells which characters a word goes
/// on after: the method and the filter disagree about apostrophes.
pub(super) fn title(text: &str, in_word: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for ch in text.chars() {
        if inside {
            out.extend(ch.to_lowercase());
        } else {
            out.extend(ch.to_uppercase());
        }
        inside = in_word(ch);
    }
    out
}

/// Fills `text` up to `width` characters, on the left, the right, or both.
pub(super) fn pad(text: &Text, width: i64, fill: &Text, ends: Ends, budget: &mut Budget) -> Result<Value, Fault> {
    budget.read(text.len())?;
    let width = usize::try_from(width).unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    let left = match ends {
        Ends::Left => missing,
        Ends::Right => 0,
        // Python puts the odd one to the left in a field of odd width.
        Ends::Both => missing / 2 + (missing & width & 1),
    };
    let mut out = Builder::new(budget);
    out.repeat(fill, left)?;
    out.push_text(text)?;
    out.repeat(fill, missing - left)?;
    Ok(Value::Str(out.finish()))
}

/// `split`: at a separator, or at runs of whitespace; at most `count` times.
pub(super) fn split(
    text: &Text,
    separator: Option<&str>,
    count: Option<i64>,
    budget: &mut Budget,
) -> Result<Vec<Value>, Fault> {
    let pieces = count.and_then(|count| usize::try_from(count).ok());
    let pieces = pieces.map_or(usize::MAX, |count| count.saturating_add(1));
    let mut out = vec![];
    match separator {
        Some("") => return Fault::new("a string cannot be split at nothing"),
        Some(separator) => {
            let mut from = 0;
            for piece in text.splitn(pieces, separator) {
                push_piece(&mut out, text, from..from + piece.len(), budget)?;
                from += piece.len() + separator.len();
            }
        }
        None => {
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() {
                let end = if out.len() + 1 < pieces { rest.find(is_space).unwrap_or(rest.len()) } else { rest.len() };
                let from = text.len() - rest.len();
                push_piece(&mut out, text, from..from + end, budget)?;
                rest = rest[end..].trim_start_matches(is_space);
            }
        }
    }
    Ok(out)
}

/// `rsplit` at a separator, at most `count` times from the right.
pub(super) fn rsplit(
    text: &Text,
    separator: &str,
    count: Option<i64>,
    budget: &mut Budget,
) -> Result<Vec<Value>, Fault> {
    if separator.is_empty() {
        return Fault::new("a string cannot be split at nothing");
    }
    let pieces = count.and_then(|count| usize::try_from(count).ok());
    let pieces = pieces.map_or(usize::MAX, |count| count.saturating_add(1));
    let mut out = vec![];
    let mut to = text.len();
    for piece in text.rsplitn(pieces, separator) {
        push_piece(&mut out, text, to - piece.len()..to, budget)?;
        to = (to - piece.len()).saturating_sub(separator.len());
    }
    out.reverse();
    Ok(out)
}

/// The lines that Python's `splitlines` cuts at the ends of lines people write: where each is, and with its end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = &text[from..];
        let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let after = &rest[end..];
        let ending = if after.starts_with("\r\n") { 2 } else { usize::from(!after.is_empty()) };
        let line = (!rest.is_empty()).then_some((from..from + end, from..from + end + ending));
        from += end + ending;
        line
    })
}

/// `splitlines`
pub(super) fn split_lines(text: &Text, keep_ends: bool, budget: &mut Budget) -> Result<Vec<Value>, Fault> {
    let mut out = vec![];
    for (line, whole) in lines(text) {
        push_piece(&mut out, text, if keep_ends { whole } else { line }, budget)?;
    }
    Ok(out)
}

fn push_piece(out: &mut Vec<Value>, text: &Text, piece: Range<usize>, budget: &mut Budget) -> Result<(), Fault> {
    budget.make(std::mem::size_of::<Value>())?;
    out.push(Value::part(text, piece, budget)?);
    Ok(())
}
