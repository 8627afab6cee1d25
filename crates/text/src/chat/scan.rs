//! Reading a text of which more may come.

use serde_json::Deserializer;

/// How much of the beginning of a tag a text ends with.
pub(super) fn beginning_of(tag: &str, text: &str) -> usize {
    let bytes = tag.as_bytes();
    (1..tag.len()).rev().find(|&n| text.as_bytes().ends_with(&bytes[..n])).unwrap_or(0)
}

/// Reads `{"name": "NAME", "arguments": {` (or `parameters`) and returns the name and the place of the last brace.
/// `None` for something else, `Some(None)` for a part of it.
pub(super) fn object_beginning(text: &str) -> Option<Option<(String, usize)>> {
    let mut rest = text;
    for token in ["{", "\"name\"", ":"] {
        match after(rest, token)? {
            Some(after) => rest = after,
            None => return Some(None),
        }
    }
    rest = rest.trim_start();
    if rest.is_empty() {
        return Some(None);
    }
    let mut names = Deserializer::from_str(rest).into_iter::<String>();
    let name = match names.next()? {
        Ok(name) => name,
        Err(error) if error.is_eof() => return Some(None),
        Err(_) => return None,
    };
    rest = &rest[names.byte_offset()..];
    match after(rest, ",")? {
        Some(after) => rest = after,
        None => return Some(None),
    }
    let keys = ["\"arguments\"", "\"parameters\""].map(|key| after(rest, key));
    rest = match keys {
        [Some(Some(rest)), _] | [_, Some(Some(rest))] => rest,
        [None, None] => return None,
        _ => return Some(None),
    };
    match after(rest, ":")? {
        Some(after) => rest = after,
        None => return Some(None),
    }
    let rest = rest.trim_start();
    match rest.chars().next() {
        None => Some(None),
        Some('{') => Some(Some((name, text.len() - rest.len()))),
        Some(_) => None,
    }
}

/// What follows a token after white space: `None` for another one, `Some(None)` if it is cut.
fn after<'a>(text: &'a str, token: &str) -> Option<Option<&'a str>> {
    let text = text.trim_start();
    match text.strip_prefix(token) {
        Some(rest) => Some(Some(rest)),
        None => token.starts_with(text).then_some(None),
    }
}

/// Where in a JSON text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Nesting {
    depth: usize,
    pub(super) in_string: bool,
    escape: bool,
    /// Whether the value has ended.
    pub(super) over: bool,
}

impl Nesting {
    /// The end of the value in a text that goes on from the one before.
    pub(super) fn end(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if self.escape => self.escape = false,
                b'\\' if self.in_string => self.escape = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.over = true;
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}
