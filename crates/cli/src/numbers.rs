//! Lists of numbers as arguments: `512`, `0,4096`, `1-8*2`, `1-9+4`; and lists of token ids.

use std::str::FromStr;

/// A list of counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<usize>);

/// A range or list may not have more entries.
const MOST: usize = 1000;

/// No count is larger: positions are 32-bit in a step.
const LARGEST: usize = i32::MAX as usize;

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Counts, String> {
        let mut out = vec![];
        for part in text.split(',') {
            match part.trim().split_once('-') {
                None => out.push(number(part)?),
                Some((first, rest)) => out.extend(range(first, rest)?),
            }
            if out.len() > MOST {
                return Err(format!("more than {MOST} numbers"));
            }
        }
        Ok(Counts(out))
    }
}

fn range(first: &str, rest: &str) -> Result<Vec<usize>, String> {
    let (last, step) = match rest.find(['+', '*']) {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "+1"),
    };
    let (mut at, last, by) = (number(first)?, number(last)?, number(&step[1..])?);
    let times = step.starts_with('*');
    if by < 1 || times && (by < 2 || at == 0) {
        return Err(format!("the range {first}-{rest} never ends"));
    }
    let mut out = vec![];
    while at <= last && out.len() <= MOST {
        out.push(at);
        at = if times { at.saturating_mul(by) } else { at.saturating_add(by) };
    }
    Ok(out)
}

fn number(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let wrong = || format!("'{text}' is not a number from 0 to {LARGEST}");
    text.parse().ok().filter(|&n| n <= LARGEST).ok_or_else(wrong)
}

/// Token ids, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens(pub Vec<u32>);

impl FromStr for Tokens {
    type Err = String;

    fn from_str(text: &str) -> Result<Tokens, String> {
        let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|w| !w.is_empty());
        let ids = words.map(|w| w.parse().map_err(|_| format!("'{w}' is not a token id")));
        Ok(Tokens(ids.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let list = |text: &str| text.parse::<Counts>().map(|c| c.0);
        assert_eq!(list("512").unwrap(), [512]);
        assert_eq!(list("0,4096").unwrap(), [0, 4096]);
        assert_eq!(list("1-8*2,16").unwrap(), [1, 2, 4, 8, 16]);
        assert_eq!(list("1-9+4").unwrap(), [1, 5, 9]);
        assert_eq!(list("3-5").unwrap(), [3, 4, 5]);
        for bad in ["", "x", "-1", "1-", "1-8*1", "0-8*2", "1-8+0", "1,,2", "99999999999", "0-999999"] {
            assert!(list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn token_ids() {
        let list = |text: &str| text.parse::<Tokens>().map(|t| t.0);
        assert_eq!(list("1,2, 3 4\n").unwrap(), [1, 2, 3, 4]);
        assert!(list("").unwrap().is_empty());
        assert!(list("1,-2").is_err());
        assert!(list("4294967296").is_err());
    }
}
