//! The sets of characters that splitting rules name.

use super::text::{Class, Unit};

/// `\p{L}`
pub(super) fn letter(unit: Unit) -> bool {
    unit.is(Class::LETTER)
}

/// `\p{N}`
pub(super) fn number(unit: Unit) -> bool {
    unit.is(Class::NUMBER)
}

/// `\p{P}`
pub(super) fn punctuation(unit: Unit) -> bool {
    unit.is(Class::PUNCTUATION)
}

/// `\d`
pub(super) fn digit(unit: Unit) -> bool {
    unit.is(Class::DIGIT)
}

/// `\w`. Numbers and symbols may be letters as well, but not what only a later version of Unicode assigns.
pub(super) fn word(unit: Unit) -> bool {
    unit.is(Class::LETTER | Class::MARK | Class::DIGIT)
        || unit.is(Class::NUMBER | Class::SYMBOL) && unit.ch.is_alphabetic()
        || unit.is_connector()
        || matches!(unit.ch, '\u{200C}' | '\u{200D}')
}

/// `\s`
pub(super) fn space(unit: Unit) -> bool {
    unit.is(Class::SPACE)
}

/// A space and nothing else.
pub(super) fn blank(unit: Unit) -> bool {
    unit.ch == ' '
}

/// `[\t\n]`
pub(super) fn tab_or_line_feed(unit: Unit) -> bool {
    matches!(unit.ch, '\t' | '\n')
}

/// `\n`
pub(super) fn line_feed(unit: Unit) -> bool {
    unit.ch == '\n'
}

/// `[^\n]`
pub(super) fn in_line(unit: Unit) -> bool {
    unit.ch != '\n'
}

/// `` [\p{P}!-/:-@\[-`{-~] ``
pub(super) fn punctuation_or_ascii_sign(unit: Unit) -> bool {
    punctuation(unit) || unit.ch.is_ascii_punctuation()
}

/// `[^(\s|.,!?…。，、।۔،)]`: what makes a word in the vocabularies after BLOOM.
pub(super) fn bloom_word(unit: Unit) -> bool {
    !unit.is(Class::SPACE)
        && !matches!(unit.ch, '(' | ')' | '|' | '.' | ',' | '!' | '?')
        && !matches!(unit.ch, '…' | '。' | '，' | '、' | '।' | '۔' | '،')
}

/// `[0-9]`
pub(super) fn ascii_digit(unit: Unit) -> bool {
    unit.ch.is_ascii_digit()
}

/// `[\r\n]`
pub(super) fn line_break(unit: Unit) -> bool {
    unit.is_line_break()
}

/// `` [\p{P}\$\+<=>\^~\|`] ``
pub(super) fn falcon_punctuation(unit: Unit) -> bool {
    default_punctuation(unit) || unit.ch == '`'
}

/// `[\p{P}\$\+<=>\^~\|]`
pub(super) fn default_punctuation(unit: Unit) -> bool {
    punctuation(unit) || matches!(unit.ch, '$' | '+' | '<' | '=' | '>' | '^' | '~' | '|')
}

/// The letters of DeepSeek LLM: those of cased scripts, as its vocabulary lists them.
pub(super) fn cased_letter(unit: Unit) -> bool {
    within(unit, CASED_LETTERS)
}

/// The signs of DeepSeek LLM: ASCII, full-width forms, quotes, ideographic stops.
pub(super) fn deepseek_sign(unit: Unit) -> bool {
    matches!(unit.ch,
        '!'..='/' | ':'..='~' | '！'..='／' | '：'..='～' | '\u{2018}'..='\u{201F}'
        | '\u{3000}'..='\u{3002}')
}

/// `[一-龥ࠀ-一가-퟿]`, the "CJK" of DeepSeek LLM and Coder: everything from U+0800 to U+9FA5 and
/// the block of Hangul syllables.
pub(super) fn deepseek_cjk(unit: Unit) -> bool {
    matches!(unit.ch, '\u{800}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7FF}')
}

/// Han characters, Hiragana, Katakana.
pub(super) fn han_or_kana(unit: Unit) -> bool {
    matches!(unit.ch, '\u{3040}'..='\u{30FF}' | '\u{4E00}'..='\u{9FA5}')
}

/// `\p{Han}`
pub(super) fn han(unit: Unit) -> bool {
    within(unit, HAN)
}

/// The scripts that AFMoE takes for one without spaces: Han, Kana, Hangul, Thai, Lao, Khmer, Burmese, and all that lies
/// from U+8C48 to U+FAFF.
pub(super) fn unspaced_script(unit: Unit) -> bool {
    matches!(unit.ch,
        '\u{E40}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{2F00}'..='\u{2FDF}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{8C48}'..='\u{FAFF}' | '\u{FF65}'..='\u{FF9F}')
}

/// Hangul syllables and compatibility letters.
pub(super) fn hangul(unit: Unit) -> bool {
    matches!(unit.ch, '\u{3131}'..='\u{318E}' | '\u{AC00}'..='\u{D7A3}')
}

/// Bopomofo letters.
pub(super) fn bopomofo(unit: Unit) -> bool {
    matches!(unit.ch, '\u{3105}'..='\u{312F}')
}

/// The Chinese punctuation of Youtu.
pub(super) fn wide_punctuation(unit: Unit) -> bool {
    matches!(unit.ch,
        '\u{FF01}' | '\u{2026}' | '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}' | '\u{2014}'
        | '\u{FF1A}' | '\u{FF1B}' | '\u{FF0C}' | '\u{3001}'..='\u{303F}' | '\u{FE30}'..='\u{FE4F}')
}

fn within(unit: Unit, ranges: &[(u32, u32)]) -> bool {
    let code = u32::from(unit.ch);
    let after = ranges.partition_point(|&(first, _)| first <= code);
    after > 0 && code <= ranges[after - 1].1
}

#[rustfmt::skip]
const HAN: &[(u32, u32)] = &[
    (0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029),
    (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D), (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3),
    (0x16FF0, 0x16FF1), (0x20000, 0x2A6DF), (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1), (0x2CEB0, 0x2EBE0),
    (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF),
];

#[rustfmt::skip]
const CASED_LETTERS: &[(u32, u32)] = &[
    (0x41, 0x5A), (0x61, 0x7A), (0xB5, 0xB5), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1BA),
    (0x1BC, 0x1BF), (0x1C4, 0x293), (0x295, 0x2AF), (0x370, 0x373), (0x376, 0x377),
    (0x37B, 0x37D), (0x37F, 0x37F), (0x386, 0x386), (0x388, 0x38A), (0x38C, 0x38C),
    (0x38E, 0x3A1), (0x3A3, 0x3F5), (0x3F7, 0x481), (0x48A, 0x52F), (0x531, 0x556),
    (0x10A0, 0x10C5), (0x13A0, 0x13F5), (0x13F8, 0x13FD), (0x1C90, 0x1CBA), (0x1CBD, 0x1CBF),
    (0x1D00, 0x1D2B), (0x1D6B, 0x1D77), (0x1D79, 0x1D9A), (0x1E00, 0x1F15), (0x1F18, 0x1F1D),
    (0x1F20, 0x1F45), (0x1F48, 0x1F4D), (0x1F50, 0x1F57), (0x1F59, 0x1F59), (0x1F5B, 0x1F5B),
    (0x1F5D, 0x1F5D), (0x1F5F, 0x1F7D), (0x1F80, 0x1FB4), (0x1FB6, 0x1FBC), (0x1FBE, 0x1FBE),
    (0x1FC2, 0x1FC4), (0x1FC6, 0x1FCC), (0x1FD0, 0x1FD3), (0x1FD6, 0x1FDB), (0x1FE0, 0x1FEC),
    (0x1FF2, 0x1FF4), (0x1FF6, 0x1FFC), (0x2102, 0x2102), (0x2107, 0x2107), (0x210A, 0x2113),
    (0x2115, 0x2115), (0x2119, 0x211D), (0x2124, 0x2124), (0x2126, 0x2126), (0x2128, 0x2128),
    (0x212A, 0x212D), (0x212F, 0x2134), (0x2139, 0x2139), (0x213C, 0x213F), (0x2145, 0x2149),
    (0x214E, 0x214E), (0x2183, 0x2184), (0x2C00, 0x2C7B), (0x2C7E, 0x2CE4), (0x2CEB, 0x2CEE),
    (0x2CF2, 0x2CF3), (0xA640, 0xA66D), (0xA680, 0xA69B), (0xA722, 0xA76F), (0xA771, 0xA787),
    (0xA78B, 0xA78E), (0xAB70, 0xABBF), (0xFB00, 0xFB06), (0xFB13, 0xFB17), (0xFF21, 0xFF3A),
    (0xFF41, 0xFF5A), (0x10400, 0x1044F), (0x104B0, 0x104D3), (0x104D8, 0x104FB),
    (0x10C80, 0x10CB2), (0x10CC0, 0x10CF2), (0x118A0, 0x118DF), (0x1E900, 0x1E943),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cased_letters_are_sorted_and_complete() {
        let (mut total, mut last) = (0, 0);
        for &(first, end) in CASED_LETTERS {
            assert!(last < first && first <= end);
            total += end - first + 1;
            last = end;
        }
        assert_eq!((CASED_LETTERS.len(), total), (84, 2729));
    }
}
