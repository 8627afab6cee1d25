//! Operations on strings that filters and methods share.

use super::budget::{Budget, Builder};
use super::error::Fault;
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

/// `strip`, `lstrip` and `rstrip`, of whitespace or of the characters in `chars`.
pub(super) fn strip<'t>(text: &'t str, chars: Option<&str>, ends: Ends) -> &'t str {
    let strips = |ch: char| chars.map_or_else(|| is_space(ch), |chars| chars.contains(ch));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(strips) };
    if ends == Ends::Left { text } else { text.trim_end_matches(strips) }
}

/// `replace`, at most `count` times.
pub(super) fn replace(
    text: &str,
    old: &str,
    new: &str,
    count: Option<i64>,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    budget.read(text.len())?;
    let count = count.and_then(|count| usize::try_from(count).ok());
    let mut out = Builder::new(budget);
    let mut from = 0;
    for (at, found) in text.match_indices(old).take(count.unwrap_or(usize::MAX)) {
        out.push(&text[from..at])?;
        out.push(new)?;
        from = at + found.len();
    }
    out.push(&text[from..])?;
    Ok(Value::paid(out.finish()))
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
pub(super) fn pad(text: &str, width: i64, fill: &str, ends: Ends, budget: &mut Budget) -> Result<Value, Fault> {
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
    out.push(text)?;
    out.repeat(fill, missing - left)?;
    Ok(Value::paid(out.finish()))
}

/// `split`: at a separator, or at runs of whitespace; at most `count` times.
pub(super) fn split(
    text: &str,
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
            for piece in text.splitn(pieces, separator) {
                push_piece(&mut out, piece, budget)?;
            }
        }
        None => {
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() {
                let end = if out.len() + 1 < pieces { rest.find(is_space).unwrap_or(rest.len()) } else { rest.len() };
                push_piece(&mut out, &rest[..end], budget)?;
                rest = rest[end..].trim_start_matches(is_space);
            }
        }
    }
    Ok(out)
}

/// `rsplit` at a separator, at most `count` times from the right.
pub(super) fn rsplit(
    text: &str,
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
    for piece in text.rsplitn(pieces, separator) {
        push_piece(&mut out, piece, budget)?;
    }
    out.reverse();
    Ok(out)
}

/// The lines that Python's `splitlines` cuts at the ends of lines people write.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let after = &rest[end..];
        let ending = if after.starts_with("\r\n") { 2 } else { usize::from(!after.is_empty()) };
        let line = (!rest.is_empty()).then_some((rest, end));
        rest = &rest[end + ending..];
        line.map(|(whole, end)| (&whole[..end + ending], end))
    })
}

/// `splitlines`
pub(super) fn split_lines(text: &str, keep_ends: bool, budget: &mut Budget) -> Result<Vec<Value>, Fault> {
    let mut out = vec![];
    for (line, end) in lines(text) {
        push_piece(&mut out, if keep_ends { line } else { &line[..end] }, budget)?;
    }
    Ok(out)
}

fn push_piece(out: &mut Vec<Value>, piece: &str, budget: &mut Budget) -> Result<(), Fault> {
    budget.make(std::mem::size_of::<Value>())?;
    out.push(Value::substring(piece, budget)?);
    Ok(())
}
