//! Quantisers, derived from the row of a format like the dequantiser.
//!
//! Which method a format gets follows from its shape:
//!
//! - plain floats: rounding to nearest even;
//! - one float scale and evenly spaced codes (Q4_0, Q5_0, Q8_0, Q4_1, Q5_1): the closed formulas of the field
//!   (`direct`), so that the codes are those of other engines; the search, where values have importances;
//! - everything else (K-quants, tables, powers of two, formats made at run time): a search for the least weighted
//!   squared error (`search`).
//!
//! All are deterministic. Integer types cannot be quantised to, nor can formats without a row.

mod direct;
mod fit;
mod levels;
mod search;

use crate::format::{
    Blocks, Digit, Encoding, Field, FieldPlan, FloatKind, Format, FormatError, PlainKind, Plane, Scale,
};
use crate::ggml_type::GgmlType;
use crate::ternary;
use direct::Direct;
use levels::{Table, Uniform};
use search::Search;
use thiserror::Error;

/// Why values could not be quantised.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum QuantiseError {
    /// The row of the format is unsound.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// There is no quantiser for the type.
    #[error("cannot quantise to {0}")]
    Unsupported(String),
    /// The values are not a whole number of blocks.
    #[error("{values} values are not a whole number of blocks of {format} ({block} values each)")]
    PartBlock {
        /// Name of the format.
        format: String,
        /// Values given.
        values: usize,
        /// Values per block.
        block: usize,
    },
    /// The output has another size than the values need.
    #[error("{values} values take {bytes} bytes as {format}, but the output has {room}")]
    Length {
        /// Name of the format.
        format: String,
        /// Values given.
        values: usize,
        /// Bytes that they take.
        bytes: usize,
        /// Bytes in the output.
        room: usize,
    },
    /// The importances do not go with the values.
    #[error("{given} importances for {values} values; there must be one each")]
    Importances {
        /// Importances given.
        given: usize,
        /// Values given.
        values: usize,
    },
    /// An importance that is negative or not a number.
    #[error("the importance of value {index} is {value}; it must be finite and not negative")]
    BadImportance {
        /// Which value, from 0.
        index: usize,
        /// Its importance.
        value: f32,
    },
    /// A value that is NaN or infinite.
    #[error("value {index} is {value}; only finite values can be quantised")]
    NotFinite {
        /// Which, from 0.
        index: usize,
        /// The value.
        value: f32,
    },
    /// A value beyond the range of the format.
    #[error("value {index} is {value}, too large for {format}")]
    TooLarge {
        /// Name of the format.
        format: String,
        /// Which, from 0.
        index: usize,
        /// The value.
        value: f32,
    },
}

/// Quantises `values`, a whole number of blocks, into `out`, which must have exactly their size. To quantise many rows,
/// keep a [`Quantiser`].
///
/// # Errors
/// Those of [`Quantiser::new`] and [`Quantiser::run`].
pub fn quantise(format: &Format, values: &[f32], out: &mut [u8]) -> Result<(), QuantiseError> {
    Quantiser::new(format)?.run(values, out)
}

/// A quantiser to one format.
#[derive(Clone, Debug)]
pub struct Quantiser {
    name: String,
    block_len: usize,
    block_bytes: usize,
    method: Method,
    sums: Option<Sums>,
}

#[derive(Clone, Debug)]
enum Method {
    /// TQ1_0, by way of blocks of two bits a code.
    Ternary(Box<Quantiser>),
    Plain(PlainKind),
    /// The search is for values with importances; codes of eight bits gain nothing by it.
    Direct(Direct, Option<Search<Uniform>>, Packer),
    Uniform(Search<Uniform>, Packer),
    Table(Search<Table>, Packer),
    Groups(Box<Groups>),
}

/// Blocks of several floats, each the scale of some values: a block of its own for these.
#[derive(Clone, Debug)]
struct Groups {
    each: Quantiser,
    code: FieldPlan,
    scale: Scale,
}

impl Groups {
    /// The groups of a row that has nothing else in its blocks.
    fn of(blocks: &Blocks) -> Result<Option<Groups>, QuantiseError> {
        let kind = blocks.scale.kind;
        let alone = kind != FloatKind::One && blocks.scale.sub.is_none() && blocks.min.is_none();
        let Some(floats) = blocks.scale.floats.filter(|_| alone) else { return Ok(None) };
        let codes = Plane::new(kind.bytes(), blocks.code.width(), &[Digit::bytes(floats.values, 1)]);
        let each = Blocks {
            block: floats.values,
            bytes: kind.bytes() + floats.values,
            code: Field { planes: vec![codes], signed: blocks.code.signed },
            scale: Scale::whole(kind, 0),
            ..blocks.clone()
        };
        let each = Quantiser::new(&Format::blocks("a group", each))?;
        Ok(Some(Groups { each, code: FieldPlan::new(&blocks.code, blocks.block), scale: blocks.scale.clone() }))
    }

    /// Quantises a block; `None` if it is beyond the range of the format.
    fn block(&self, x: &[f32], w: Option<&[f32]>, out: &mut [u8], solution: &mut Solution) -> Option<()> {
        let (mut codes, mut group) = (vec![], vec![0; self.each.block_bytes]);
        let (len, bytes) = (self.each.block_len, self.scale.kind.bytes() as usize);
        out.fill(0);
        for (number, at) in self.scale.float_bytes(x.len() as u32).enumerate() {
            let range = number * len..(number + 1) * len;
            self.each.block(&x[range.clone()], w.map(|w| &w[range]), &mut group, solution)?;
            codes.extend_from_slice(&solution.codes);
            out[at..at + bytes].copy_from_slice(&group[..bytes]);
        }
        self.code.scatter(&codes, out);
        Some(())
    }
}

/// What some activation types store besides values: sums of codes, for the minima of the weights they meet.
#[derive(Clone, Copy, Debug)]
enum Sums {
    /// Q8_1: the scale times the sum of all codes, as f16 at byte 2.
    Scaled,
    /// Q8_K: the sums of 16 codes each, as i16 from byte 260 on.
    Of16,
}

impl Quantiser {
    /// Prepares a quantiser. Bytes of the block that the row does not describe become 0 (see [`Quantiser::of_type`]).
    ///
    /// # Errors
    /// [`QuantiseError::Format`] for an unsound row, [`QuantiseError::Unsupported`] for integer types and for blocks of
    /// several floats with factors or minima beside them, as planes may have.
    pub fn new(format: &Format) -> Result<Self, QuantiseError> {
        format.check()?;
        let method = match &format.encoding {
            Encoding::Plain(kind @ (PlainKind::F32 | PlainKind::F16 | PlainKind::BF16 | PlainKind::F64)) => {
                Method::Plain(*kind)
            }
            Encoding::Plain(_) => return Err(QuantiseError::Unsupported(format.name.to_string())),
            Encoding::Blocks(blocks) if let Some(groups) = Groups::of(blocks)? => Method::Groups(Box::new(groups)),
            Encoding::Blocks(blocks)
                if blocks.scale.floats.is_some() || matches!(&blocks.min, Some((min, _)) if min.floats.is_some()) =>
            {
                return Err(QuantiseError::Unsupported(format.name.to_string()));
            }
            Encoding::Blocks(blocks) => {
                let packer = Packer::new(blocks);
                let search = || Search::new(blocks, Uniform::new(blocks));
                match (Direct::of(blocks), &blocks.table) {
                    (Some(direct), _) => Method::Direct(direct, (blocks.code.range().1 < 127).then(search), packer),
                    (None, None) => Method::Uniform(search(), packer),
                    (None, Some(table)) => Method::Table(Search::new(blocks, Table::new(table, blocks.zero)), packer),
                }
            }
        };
        Ok(Quantiser {
            name: format.name.to_string(),
            block_len: format.block_len() as usize,
            block_bytes: format.block_bytes() as usize,
            method,
            sums: None,
        })
    }

    /// Prepares a quantiser to a type of the file format, with the sums that Q8_1 and Q8_K carry.
    ///
    /// # Errors
    /// [`QuantiseError::Unsupported`] for integer types and types that nothing computes with.
    pub fn of_type(ty: GgmlType) -> Result<Self, QuantiseError> {
        if ty.is_unpacked() {
            let wide = Self::new(ternary::levels())?;
            let (block_len, block_bytes) = (ty.block_len() as usize, ty.block_bytes() as usize);
            let method = Method::Ternary(Box::new(wide));
            return Ok(Quantiser { name: ty.name().to_owned(), block_len, block_bytes, method, sums: None });
        }
        let format = ty.format().ok_or_else(|| QuantiseError::Unsupported(ty.name().to_owned()))?;
        let mut quantiser = Self::new(format)?;
        quantiser.sums = match ty {
            GgmlType::Q8_1 => Some(Sums::Scaled),
            GgmlType::Q8_K => Some(Sums::Of16),
            _ => None,
        };
        Ok(quantiser)
    }

    /// Quantises whole blocks, all values equally important.
    ///
    /// # Errors
    /// A part of a block, an output of the wrong size, NaN, infinity, or values too large for the format. The output
    /// then holds nothing of use.
    pub fn run(&self, values: &[f32], out: &mut [u8]) -> Result<(), QuantiseError> {
        self.blocks(values, None, out)
    }

    /// As [`Quantiser::run`], where the squared error of each value counts by its importance (for instance the mean
    /// square of the activations that it meets). Plain floats and Q8_0 do not heed it.
    ///
    /// # Errors
    /// Those of [`Quantiser::run`], and importances that are negative, not finite or not one per value.
    pub fn run_weighted(&self, values: &[f32], importance: &[f32], out: &mut [u8]) -> Result<(), QuantiseError> {
        if importance.len() != values.len() {
            return Err(QuantiseError::Importances { given: importance.len(), values: values.len() });
        }
        if let Some(index) = importance.iter().position(|v| !v.is_finite() || *v < 0.0) {
            return Err(QuantiseError::BadImportance { index, value: importance[index] });
        }
        self.blocks(values, Some(importance), out)
    }

    fn blocks(&self, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), QuantiseError> {
        let format = || self.name.clone();
        if !values.len().is_multiple_of(self.block_len) {
            return Err(QuantiseError::PartBlock { format: format(), values: values.len(), block: self.block_len });
        }
        let bytes = (values.len() / self.block_len).saturating_mul(self.block_bytes);
        if bytes != out.len() {
            return Err(QuantiseError::Length { format: format(), values: values.len(), bytes, room: out.len() });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(QuantiseError::NotFinite { index, value: values[index] });
        }
        let mut solution = Solution::default();
        for (at, block) in out.chunks_exact_mut(self.block_bytes).enumerate() {
            let range = at * self.block_len..(at + 1) * self.block_len;
            let x = &values[range.clone()];
            let w = importance.map(|importance| &importance[range.clone()]);
            if self.block(x, w, block, &mut solution).is_none() {
                let largest = (0..x.len()).rev().max_by(|&a, &b| x[a].abs().total_cmp(&x[b].abs())).unwrap_or(0);
                return Err(QuantiseError::TooLarge {
                    format: format(),
                    index: range.start + largest,
                    value: x[largest],
                });
            }
        }
        Ok(())
    }

    /// Quantises one block; `None` if it is beyond the range of the format.
    fn block(&self, x: &[f32], w: Option<&[f32]>, out: &mut [u8], solution: &mut Solution) -> Option<()> {
        let packer = match &self.method {
            Method::Plain(kind) => return plain(*kind, x[0], out),
            Method::Ternary(wide) => {
                let mut block = [0; ternary::WIDE_BYTES];
                wide.block(x, w, &mut block, solution)?;
                ternary::pack(&block, out);
                return Some(());
            }
            Method::Groups(groups) => return groups.block(x, w, out, solution),
            Method::Direct(direct, search, packer) => {
                match search.as_ref().filter(|_| w.is_some()) {
                    Some(search) => search.solve(x, w, solution)?,
                    None => direct.solve(x, solution)?,
                }
                packer
            }
            Method::Uniform(search, packer) => {
                search.solve(x, w, solution)?;
                packer
            }
            Method::Table(search, packer) => {
                search.solve(x, w, solution)?;
                packer
            }
        };
        packer.store(solution, out)?;
        match self.sums {
            None => {}
            Some(Sums::Scaled) => {
                // The scale before it was rounded to f16, as other engines do.
                let sum = solution.scale * solution.codes.iter().sum::<i32>() as f32;
                FloatKind::F16.put(&mut out[2..4], sum);
            }
            Some(Sums::Of16) => {
                for (codes, out) in solution.codes.chunks_exact(16).zip(out[260..].chunks_exact_mut(2)) {
                    out.copy_from_slice(&(codes.iter().sum::<i32>() as i16).to_le_bytes());
                }
            }
        }
        Some(())
    }
}

fn plain(kind: PlainKind, value: f32, out: &mut [u8]) -> Option<()> {
    match kind {
        PlainKind::F32 => out.copy_from_slice(&value.to_le_bytes()),
        PlainKind::F64 => out.copy_from_slice(&f64::from(value).to_le_bytes()),
        PlainKind::F16 => {
            let half = half::f16::from_f32(value);
            out.copy_from_slice(&half.to_le_bytes());
            return half.is_finite().then_some(());
        }
        PlainKind::BF16 => {
            let half = half::bf16::from_f32(value);
            out.copy_from_slice(&half.to_le_bytes());
            return half.is_finite().then_some(());
        }
        PlainKind::I8 | PlainKind::I16 | PlainKind::I32 | PlainKind::I64 => return None,
    }
    Some(())
}

/// A block before it is packed. Sub-scales count from their zero point; codes are as stored.
#[derive(Debug, Default)]
struct Solution {
    codes: Vec<i32>,
    scale: f32,
    scale_subs: Vec<i32>,
    min: f32,
    min_subs: Vec<i32>,
}

/// Stores a [`Solution`] where the row of the format says.
#[derive(Clone, Debug)]
struct Packer {
    code: FieldPlan,
    scale: ScalePacker,
    min: Option<ScalePacker>,
}

#[derive(Clone, Debug)]
struct ScalePacker {
    kind: FloatKind,
    byte: usize,
    sub: Option<(FieldPlan, i32)>,
}

impl Packer {
    fn new(blocks: &Blocks) -> Packer {
        let scale = |scale: &Scale| ScalePacker {
            kind: scale.kind,
            byte: scale.byte as usize,
            sub: scale.sub.as_ref().map(|sub| (FieldPlan::new(&sub.field, blocks.block / sub.group), sub.zero)),
        };
        Packer {
            code: FieldPlan::new(&blocks.code, blocks.block),
            scale: scale(&blocks.scale),
            min: blocks.min.as_ref().map(|(min, _)| scale(min)),
        }
    }

    /// Writes the whole block; `None` if a float of it is not finite as stored.
    fn store(&self, solution: &mut Solution, block: &mut [u8]) -> Option<()> {
        block.fill(0);
        self.code.scatter(&solution.codes, block);
        self.scale.store(solution.scale, &mut solution.scale_subs, block)?;
        match &self.min {
            Some(min) => min.store(solution.min, &mut solution.min_subs, block),
            None => Some(()),
        }
    }
}

impl ScalePacker {
    fn store(&self, float: f32, subs: &mut [i32], block: &mut [u8]) -> Option<()> {
        if let Some((plan, zero)) = &self.sub {
            subs.iter_mut().for_each(|sub| *sub += zero);
            plan.scatter(subs, block);
        }
        match self.kind {
            FloatKind::One => Some(()),
            kind => kind.put(&mut block[self.byte..], float).is_finite().then_some(()),
        }
    }
}
