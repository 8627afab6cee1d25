//! The printable alphabet in which byte-level BPE vocabularies are stored.
//!
//! GPT-2 wrote every byte as one visible character, so that vocabularies could be text files:
//! the bytes 33–126, 161–172 and 174–255 stand for themselves, the other 68 are the code points
//! from 256 up, in order. Tokens and merges of a GGUF file are spelled in this alphabet.

const LAST: usize = 256 + 68;

const fn is_itself(byte: usize) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

const fn characters() -> [u16; 256] {
    let mut table = [0; 256];
    let (mut byte, mut next) = (0, 256);
    while byte < 256 {
        if is_itself(byte) {
            table[byte] = byte as u16;
        } else {
            table[byte] = next;
            next += 1;
        }
        byte += 1;
    }
    table
}

const fn bytes() -> [u16; LAST] {
    let mut table = [NONE; LAST];
    let mut byte = 0;
    while byte < 256 {
        table[CHARACTERS[byte] as usize] = byte as u16;
        byte += 1;
    }
    table
}

const NONE: u16 = u16::MAX;
const CHARACTERS: [u16; 256] = characters();
static BYTES: [u16; LAST] = bytes();

/// Appends the stored spelling of `byte`.
pub(super) fn spell(byte: u8, out: &mut Vec<u8>) {
    let code = CHARACTERS[usize::from(byte)];
    if code < 0x80 {
        out.push(code as u8);
    } else {
        // Two bytes of UTF-8 reach to U+07FF.
        out.extend([0xC0 | (code >> 6) as u8, 0x80 | (code & 0x3F) as u8]);
    }
}

/// Appends the bytes that `stored` spells; `false`, with nothing appended, if it is not text of
/// this alphabet.
pub(super) fn unspell(stored: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut rest = stored;
    while let Some((&first, tail)) = rest.split_first() {
        let (code, used) = match (first, tail.first()) {
            (0..0x80, _) => (usize::from(first), 1),
            (0xC2..0xE0, Some(&second)) if second & 0xC0 == 0x80 => {
                ((usize::from(first) & 0x1F) << 6 | usize::from(second) & 0x3F, 2)
            }
            _ => (LAST, 0),
        };
        match BYTES.get(code) {
            Some(&byte) if byte != NONE => out.push(byte as u8),
            _ => {
                out.truncate(start);
                return false;
            }
        }
        rest = &rest[used..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_back() {
        for byte in 0..=255u8 {
            let (mut stored, mut back) = (vec![], vec![]);
            spell(byte, &mut stored);
            assert_eq!(std::str::from_utf8(&stored).unwrap().chars().count(), 1);
            assert!(unspell(&stored, &mut back));
            assert_eq!(back, [byte]);
        }
    }

    #[test]
    fn known_spellings() {
        let mut out = vec![];
        b" \n\xad".iter().for_each(|&b| spell(b, &mut out));
        assert_eq!(out, "ĠĊŃ".as_bytes());
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["a b", "日", "▁a", "\u{7f}"] {
            let mut out = b"kept".to_vec();
            assert!(!unspell(text.as_bytes(), &mut out), "{text}");
            assert_eq!(out, b"kept");
        }
        for bytes in [&b"\xc4"[..], b"\xc4\x41", b"\xff", b"\xc0\x80"] {
            assert!(!unspell(bytes, &mut vec![]), "{bytes:?}");
        }
    }
}
