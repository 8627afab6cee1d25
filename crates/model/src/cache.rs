//! What the cache of keys and values is made of, and how rows come in and out of it, as tensor code.
//!
//! A row is what attention keeps of one position. It lies in one state as it is, or rounded to halves, or in two: codes
//! of 8 bits, and a scale for each [`BLOCK`] of them.

use crate::config::{Attention, Config};
use compiler::{Builder, Dim, Numerics, Tensor, dims};
use ir::{BinOp, DType, Id, UnOp};
use std::fmt;

/// Positions of a page of the cache.
pub const PAGE: i64 = 64;

/// How the names of states begin that have rows for positions.
pub const CACHE: &str = "cache.";

/// The layer of such a state.
pub(crate) fn layer_of(state: &str) -> Option<i64> {
    state.strip_prefix(CACHE)?.split('.').next()?.parse().ok()
}

/// Values of a row of [`CacheKind::Q8_0`] that share a scale.
pub const BLOCK: i64 = 32;

/// How the name of the state of scales ends, behind that of their codes.
pub const SCALES: &str = ".scale";

/// Greatest magnitude of a code.
const MOST: f32 = 127.0;

/// How the values of the cache are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// f32.
    F32,
    /// f16.
    F16,
    /// Blocks of [`BLOCK`] values: a code of 8 bits each and one f16 scale, 34 bytes. The scale is the largest magnitude
    /// of the block over 127, codes are rounded to nearest, halves away from zero (as llama.cpp's format of this name).
    Q8_0,
}

impl CacheKind {
    /// What a policy has when nothing else is asked for.
    pub fn of(numerics: Numerics) -> CacheKind {
        match numerics {
            Numerics::Exact => CacheKind::F32,
            Numerics::Int8 => CacheKind::F16,
        }
    }

    /// The type of what is made of cached values and as many as they are.
    pub fn halves(self) -> DType {
        match self {
            CacheKind::F32 => DType::F32,
            CacheKind::F16 | CacheKind::Q8_0 => DType::F16,
        }
    }

    /// What the keys of an index are kept as: at least as halves, as codes would choose other positions.
    pub fn of_index(self) -> CacheKind {
        match self {
            CacheKind::F32 => CacheKind::F32,
            CacheKind::F16 | CacheKind::Q8_0 => CacheKind::F16,
        }
    }

    /// Bytes of `n` values; for blocks, `n` is a multiple of [`BLOCK`].
    pub fn bytes(self, n: u64) -> u64 {
        match self {
            CacheKind::F32 => 4 * n,
            CacheKind::F16 => 2 * n,
            CacheKind::Q8_0 => n + n / BLOCK as u64 * DType::F16.bytes() as u64,
        }
    }

    /// Whether the rows of a model can be kept so.
    ///
    /// # Errors
    /// [`Uneven`] if a head is not made of whole blocks.
    pub fn check(self, config: &Config) -> Result<(), Uneven> {
        let lengths = |layer| match config.attention_of(layer) {
            Attention::Grouped { head, value, .. } => vec![("keys", head), ("values", value)],
            Attention::Latent { kv_rank, rope, .. } => vec![("latents", kv_rank), ("rotated keys", rope)],
            Attention::None => vec![],
        };
        match (0..config.layers).flat_map(lengths).find(|(_, length)| length % BLOCK != 0) {
            Some((what, length)) if self == CacheKind::Q8_0 => Err(Uneven { what, length }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheKind::F32 => "f32",
            CacheKind::F16 => "f16",
            CacheKind::Q8_0 => "q8_0",
        })
    }
}

/// A model whose heads are not made of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cache of type q8_0 has blocks of {BLOCK} values, and the {what} of this model have {length}; use f16 or f32"
)]
pub struct Uneven {
    what: &'static str,
    length: i64,
}

/// A cache after this step has written to it.
#[derive(Clone)]
pub struct Cache {
    kind: CacheKind,
    /// Pages that it has.
    pages: Id,
    /// Length of a row.
    n: i64,
    /// Rows `[positions, n]`: values, or codes.
    rows: Tensor,
    /// `[positions, n / BLOCK]`, for codes.
    scales: Option<Tensor>,
    /// Whether what codes stand for is rounded to halves.
    to_halves: bool,
}

impl Cache {
    /// Writes `values` `[T, n]` to the rows `at` `[T]` of a cache of `pages` pages.
    pub fn store(b: &Builder, kind: CacheKind, name: &str, pages: Id, values: &Tensor, at: &Tensor) -> Cache {
        let n = values.len(1);
        let positions = b.index(BinOp::Mul, pages, PAGE);
        let state = |name: &str, ty, n: i64| b.state(name, ty, dims![positions, n]);
        let (rows, scales) = match kind {
            CacheKind::F32 => (state(name, DType::F32, n).scatter(at, values), None),
            CacheKind::F16 => (state(name, DType::F16, n).scatter(at, &values.cast(DType::F16)), None),
            CacheKind::Q8_0 => {
                let (codes, scales) = quantised(values);
                let rows = state(name, DType::I8, n).scatter(at, &codes);
                let scales = state(&format!("{name}{SCALES}"), DType::F16, n / BLOCK).scatter(at, &scales);
                (rows, Some(scales))
            }
        };
        Cache { kind, pages, n, rows, scales, to_halves: false }
    }

    /// The same, of which what codes stand for is read as halves, if that is so.
    pub fn to_halves(self, to_halves: bool) -> Cache {
        Cache { to_halves, ..self }
    }

    /// The rows of pages as f32: of pages `[..]`, `[.., PAGE, n]`.
    pub fn tiles_of(&self, page: &Tensor) -> Tensor {
        self.part_of(page, 0, self.n)
    }

    /// As [`Cache::tiles_of`], `len` values of each row from `start` on; of blocks, whole ones.
    pub fn part_of(&self, page: &Tensor, start: i64, len: i64) -> Tensor {
        self.gathered(start, len, |rows, n| rows.reshape(dims![self.pages, PAGE, n]).gather(page))
    }

    /// The rows of positions as f32: of rows `[..]` of the cache, `[.., n]`.
    pub fn rows_at(&self, row: &Tensor) -> Tensor {
        self.gathered(0, self.n, |rows, _| rows.gather(row))
    }

    /// `len` values from `start` on of what is gathered of rows `[positions, n]`.
    fn gathered(&self, start: i64, len: i64, gather: impl Fn(&Tensor, i64) -> Tensor) -> Tensor {
        let tiles = |rows: &Tensor, each: i64| {
            let rows = gather(rows, self.n / each);
            rows.slice(rows.rank() - 1, start / each, len / each).cast(DType::F32)
        };
        let rows = tiles(&self.rows, 1);
        let Some(scales) = &self.scales else { return rows };
        let whole = rows.shape();
        let mut split = whole.clone();
        split.pop();
        split.extend([Dim::Const(len / BLOCK), Dim::Const(BLOCK)]);
        let values = (&rows.reshape(&split) * &tiles(scales, BLOCK).unsqueeze(whole.len())).reshape(&whole);
        if self.to_halves { values.cast(DType::F16).cast(DType::F32) } else { values }
    }

    /// Length of a row.
    pub fn length(&self) -> i64 {
        self.n
    }

    /// How its values are represented.
    pub fn kind(&self) -> CacheKind {
        self.kind
    }

    /// The next versions of its states.
    pub fn states(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.rows).chain(&self.scales)
    }
}

/// Codes `[T, n]` and scales `[T, n / BLOCK]` of values `[T, n]`. What is not finite has a scale that is not.
fn quantised(values: &Tensor) -> (Tensor, Tensor) {
    let (b, whole) = (values.builder(), values.shape());
    let split = values.reshape(&[whole[0], Dim::Const(values.len(1) / BLOCK), Dim::Const(BLOCK)]);
    let most = split.unary(UnOp::Abs).max(2);
    let zero = b.float(0.0);
    let inverse = zero.lt(&most).select(&(&b.float(MOST) / &most), &zero);
    let codes = (&split * &inverse.unsqueeze(2)).unary(UnOp::Round).cast(DType::I8).reshape(&whole);
    (codes, (most * (1.0 / MOST)).cast(DType::F16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::config_of;

    #[test]
    fn bytes_of_a_row() {
        assert_eq!([CacheKind::F32, CacheKind::F16, CacheKind::Q8_0].map(|kind| kind.bytes(64)), [256, 128, 68]);
    }

    #[test]
    fn heads_are_whole_blocks() {
        let mut llama = config_of("tiny-llama");
        assert_eq!(CacheKind::Q8_0.check(&llama), Ok(()));
        llama.attention = Attention::Grouped { kv_heads: 2, head: 64, value: 80 };
        let error = CacheKind::Q8_0.check(&llama).expect_err("80 is no multiple of 32").to_string();
        assert!(error.contains("values of this model have 80") && error.contains("f16"), "{error}");
        assert_eq!(CacheKind::F16.check(&llama), Ok(()));
        let mut latent = config_of("tiny-mla-dense");
        assert_eq!(CacheKind::Q8_0.check(&latent), Ok(()));
        latent.attention = Attention::Latent { q_rank: None, kv_rank: 256, nope: 64, rope: 16, value: 64 };
        assert!(CacheKind::Q8_0.check(&latent).expect_err("16").to_string().contains("rotated keys"));
    }
}
