//! Text as a splitting rule sees it: code points with their class, over bytes that need not be
//! valid UTF-8.

use std::ops::BitOr;
use unicode_general_category::{GeneralCategory, get_general_category};

/// A set of character classes; every character is in exactly one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Class(u16);

impl Class {
    pub(super) const UPPER: Class = Class(1 << 0);
    pub(super) const TITLE: Class = Class(1 << 1);
    pub(super) const LOWER: Class = Class(1 << 2);
    pub(super) const MODIFIER: Class = Class(1 << 3);
    pub(super) const OTHER_LETTER: Class = Class(1 << 4);
    /// `\p{M}`
    pub(super) const MARK: Class = Class(1 << 5);
    /// `\d`, that is `\p{Nd}`
    pub(super) const DIGIT: Class = Class(1 << 6);
    const OTHER_NUMBER: Class = Class(1 << 11);
    /// `\p{N}`
    pub(super) const NUMBER: Class = Class::DIGIT.or(Class::OTHER_NUMBER);
    /// `\p{P}`
    pub(super) const PUNCTUATION: Class = Class(1 << 7);
    /// `\p{S}`
    pub(super) const SYMBOL: Class = Class(1 << 8);
    /// `\s`, that is White_Space
    pub(super) const SPACE: Class = Class(1 << 9);
    /// Controls, format characters, private use, unassigned.
    const OTHER: Class = Class(1 << 10);
    /// `\p{L}`
    pub(super) const LETTER: Class = Class(0b1_1111);

    fn of(ch: char) -> Class {
        use GeneralCategory::*;
        if ch.is_whitespace() {
            return Class::SPACE;
        }
        match get_general_category(ch) {
            UppercaseLetter => Class::UPPER,
            TitlecaseLetter => Class::TITLE,
            LowercaseLetter => Class::LOWER,
            ModifierLetter => Class::MODIFIER,
            OtherLetter => Class::OTHER_LETTER,
            NonspacingMark | SpacingMark | EnclosingMark => Class::MARK,
            DecimalNumber => Class::DIGIT,
            LetterNumber | OtherNumber => Class::OTHER_NUMBER,
            ConnectorPunctuation | DashPunctuation | OpenPunctuation | ClosePunctuation | InitialPunctuation
            | FinalPunctuation | OtherPunctuation => Class::PUNCTUATION,
            MathSymbol | CurrencySymbol | ModifierSymbol | OtherSymbol => Class::SYMBOL,
            _ => Class::OTHER,
        }
    }
}

impl BitOr for Class {
    type Output = Class;

    fn bitor(self, other: Class) -> Class {
        self.or(other)
    }
}

impl Class {
    /// Union, usable in constants.
    pub(super) const fn or(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }
}

/// One code point, or one byte that is not part of any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The code point; U+FFFD for a stray byte.
    pub(super) ch: char,
    class: Class,
    /// Where the next unit starts.
    pub(super) end: usize,
}

impl Unit {
    pub(super) fn is(&self, class: Class) -> bool {
        self.class.0 & class.0 != 0
    }

    /// `\p{Pc}`
    pub(super) fn is_connector(&self) -> bool {
        get_general_category(self.ch) == GeneralCategory::ConnectorPunctuation
    }

    pub(super) fn is_line_break(&self) -> bool {
        matches!(self.ch, '\r' | '\n')
    }
}

/// A piece of text to split further. Rules look at nothing outside it.
#[derive(Clone, Copy)]
pub(super) struct Text<'t>(pub(super) &'t [u8]);

impl Text<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The unit that starts at byte `at`.
    pub(super) fn at(&self, at: usize) -> Option<Unit> {
        let rest = self.0.get(at..)?;
        let &first = rest.first()?;
        if first < 0x80 {
            return Some(Unit { ch: char::from(first), class: ASCII[usize::from(first)], end: at + 1 });
        }
        let (ch, len) = decode(rest).unwrap_or((char::REPLACEMENT_CHARACTER, 1));
        Some(Unit { ch, class: Class::of(ch), end: at + len })
    }

    /// End of the run of units from `from` that satisfy `wanted`.
    pub(super) fn run(&self, from: usize, wanted: impl Fn(Unit) -> bool) -> usize {
        let mut end = from;
        while let Some(unit) = self.at(end).filter(|&unit| wanted(unit)) {
            end = unit.end;
        }
        end
    }

    /// End of the run of units of `class` from `from`.
    pub(super) fn run_of(&self, from: usize, class: Class) -> usize {
        self.run(from, |unit| unit.is(class))
    }

    /// Like [`run_of`](Self::run_of), at most `max` units.
    pub(super) fn run_up_to(&self, from: usize, max: usize, wanted: impl Fn(Unit) -> bool) -> usize {
        let mut end = from;
        for _ in 0..max {
            match self.at(end).filter(|&unit| wanted(unit)) {
                Some(unit) => end = unit.end,
                None => break,
            }
        }
        end
    }
}

/// The code point that `bytes` begin with, and its length, if they are well-formed.
fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let len = match bytes.first()? {
        0..=0x7F => 1,
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    let text = std::str::from_utf8(bytes.get(..len)?).ok()?;
    Some((text.chars().next()?, len))
}

/// Length of the code point that `bytes` begin with; 1 for a byte that begins none.
pub(in super::super) fn unit_len(bytes: &[u8]) -> usize {
    decode(bytes).map_or(1, |(_, len)| len)
}

static ASCII: [Class; 128] = ascii();

const fn ascii() -> [Class; 128] {
    let mut table = [Class::OTHER; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'\t'..=b'\r' | b' ' => Class::SPACE,
            b'A'..=b'Z' => Class::UPPER,
            b'a'..=b'z' => Class::LOWER,
            b'0'..=b'9' => Class::DIGIT,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => Class::SYMBOL,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'_' | b'{' | b'}' => Class::PUNCTUATION,
            _ => Class::OTHER,
        };
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_table_is_unicode() {
        for byte in 0..128u8 {
            assert_eq!(ASCII[usize::from(byte)], Class::of(char::from(byte)), "{byte:#x}");
        }
    }

    #[test]
    fn stray_bytes_are_symbols_of_one_byte() {
        let text = Text(b"\xe6\x97\xa5\xe6\x97\xff\xed\xa0\x80");
        let mut units = vec![];
        let mut at = 0;
        while let Some(unit) = text.at(at) {
            units.push((unit.ch, unit.end - at, unit.is(Class::SYMBOL)));
            at = unit.end;
        }
        let stray = ('\u{fffd}', 1, true);
        assert_eq!(units[0], ('日', 3, false));
        assert_eq!(&units[1..], [stray; 6]);
    }
}
