//! TQ1_0: blocks whose codes are digits in base 3, five in a byte.
//!
//! A row of the table of formats has no words for such digits. So kernels do not read these blocks: they are unpacked
//! when weights are laid into memory, to blocks of [`GgmlType::TQ2_0`] with the same values
//! ([`GgmlType::computed_as`]), 66 bytes instead of 54.
//!
//! A byte holds `⌈256 v / 243⌉` for the number `v` of five digits below 243, so that the digits come out from the most
//! significant one down: three times the byte is the digit, from bit 8 on, and the rest ([ggml's block_tq1_0]). A block has
//! 160 values in 32 bytes (neighbours in neighbouring bytes), 80 in 16, 16 in 4 with four digits each, and the factor of
//! all as a half.
//!
//! [ggml's block_tq1_0]: https://github.com/ggml-org/llama.cpp/pull/8151

use crate::format::{Blocks, Format};
use crate::ggml_type::GgmlType;
use std::sync::LazyLock;

/// Values of a block.
const VALUES: usize = 256;

/// Bytes of a block, and where the half is.
const BYTES: usize = 54;
const HALF: usize = 52;

/// The same of TQ2_0.
pub(crate) const WIDE_BYTES: usize = 66;
const WIDE_HALF: usize = 64;

/// Digits of a byte.
const DIGITS: usize = 5;

/// Bytes whose values lie together: where they begin, how many there are, and how many digits each has.
const RUNS: [(usize, usize, usize); 3] = [(0, 32, 5), (32, 16, 5), (48, 4, 4)];

/// The digits of each byte, the most significant one first.
const fn digits(byte: u8) -> [u8; DIGITS] {
    let (mut out, mut rest, mut n) = ([0; DIGITS], byte as u16, 0);
    while n < DIGITS {
        let tripled = 3 * rest;
        (out[n], rest, n) = ((tripled >> 8) as u8, tripled & 0xFF, n + 1);
    }
    out
}

/// Calls `put` with each value of a block, its byte and the place of its digit there.
fn walk(mut put: impl FnMut(usize, usize, usize)) {
    let mut value = 0;
    for (first, bytes, each) in RUNS {
        for digit in 0..each {
            for byte in first..first + bytes {
                put(value, byte, digit);
                value += 1;
            }
        }
    }
}

/// Byte and bit of a value in a block of TQ2_0.
fn wide(value: usize) -> (usize, usize) {
    (32 * (value / 128) + value % 32, 2 * (value % 128 / 32))
}

/// Blocks of TQ1_0 as blocks of TQ2_0; what is no whole block in either is left out.
pub fn unpack(blocks: &[u8], out: &mut [u8]) {
    static DIGITS_OF: LazyLock<Vec<[u8; DIGITS]>> = LazyLock::new(|| (0..=u8::MAX).map(digits).collect());
    static PLACES: LazyLock<Vec<(usize, usize, usize, usize)>> = LazyLock::new(|| {
        let mut places = Vec::with_capacity(VALUES);
        walk(|value, byte, digit| {
            let (to, bit) = wide(value);
            places.push((byte, digit, to, bit));
        });
        places
    });
    let (digits_of, places) = (&**DIGITS_OF, &**PLACES);
    for (block, out) in blocks.chunks_exact(BYTES).zip(out.chunks_exact_mut(WIDE_BYTES)) {
        out[..WIDE_HALF].fill(0);
        for &(byte, digit, to, bit) in places {
            out[to] |= digits_of[usize::from(block[byte])][digit] << bit;
        }
        out[WIDE_HALF..].copy_from_slice(&block[HALF..]);
    }
}

/// Blocks of TQ2_0 as blocks of TQ1_0, where a code above 2 counts as 2; what is no whole block in either is left out.
pub fn pack(blocks: &[u8], out: &mut [u8]) {
    for (block, out) in blocks.chunks_exact(WIDE_BYTES).zip(out.chunks_exact_mut(BYTES)) {
        let mut numbers = [0u16; HALF];
        let powers = [81, 27, 9, 3, 1];
        walk(|value, byte, digit| {
            let (from, bit) = wide(value);
            numbers[byte] += powers[digit] * u16::from((block[from] >> bit & 3).min(2));
        });
        for (out, number) in out.iter_mut().zip(numbers) {
            *out = (256 * number).div_ceil(243) as u8;
        }
        out[HALF..].copy_from_slice(&block[WIDE_HALF..]);
    }
}

/// TQ2_0 without its fourth level: what blocks are made in before they are packed.
pub fn levels() -> &'static Format {
    static LEVELS: LazyLock<Format> = LazyLock::new(|| {
        let wide = GgmlType::TQ2_0.format().and_then(Format::as_blocks).expect("a row of the table");
        Format::blocks(GgmlType::TQ1_0.name(), Blocks { table: Some(vec![-1, 0, 1, 1]), zero: 0, ..wide.clone() })
    });
    &LEVELS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_a_byte_are_those_that_were_packed() {
        for number in 0..243u16 {
            let byte = (256 * number).div_ceil(243) as u8;
            let want = [81, 27, 9, 3, 1].map(|power| (number / power % 3) as u8);
            assert_eq!(digits(byte), want);
        }
        assert!((0..=u8::MAX).all(|byte| digits(byte).iter().all(|&digit| digit < 3)), "of any byte");
    }

    #[test]
    fn blocks_come_back() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        // Any bytes, and the same values packed as a writer packs them.
        let any: Vec<u8> = (0..3 * BYTES).map(|_| next()).collect();
        let (mut wide, mut packed, mut again) = (vec![9; 3 * WIDE_BYTES], vec![9; 3 * BYTES], vec![0; 3 * WIDE_BYTES]);
        unpack(&any, &mut wide);
        pack(&wide, &mut packed);
        unpack(&packed, &mut again);
        assert_eq!(wide, again);
        assert_eq!(wide[2 * WIDE_BYTES + WIDE_HALF..], any[2 * BYTES + HALF..]);
        let mut count = 0;
        walk(|value, byte, digit| {
            assert_eq!(value, count);
            assert!(byte < HALF && digit < DIGITS);
            count += 1;
        });
        assert_eq!(count, VALUES);
    }

    #[test]
    fn a_fourth_level_is_none() {
        let (wide, mut packed, mut again) = (vec![0xFF; WIDE_BYTES], vec![0; BYTES], vec![0; WIDE_BYTES]);
        pack(&wide, &mut packed);
        unpack(&packed, &mut again);
        assert!(again[..WIDE_HALF].iter().all(|&byte| byte == 0b1010_1010));
        levels().check().unwrap();
    }
}
