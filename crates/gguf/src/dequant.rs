//! The reference dequantiser, derived from the row of a format.
//!
//! It defines what a format means; it is not meant to be fast (about a nanosecond or two a value). Every kernel that
//! the compiler derives is tested against it. Arithmetic is in f32, in the order of the formula in [`crate::format`],
//! without fused multiply-add.

use crate::format::{Blocks, Encoding, FieldPlan, Format, FormatError, PlainKind, Scale};
use crate::ggml_type::GgmlType;
use crate::ternary;
use thiserror::Error;

/// Why a row could not be dequantised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DequantError {
    /// The row of the format is unsound.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The data is not a whole number of blocks.
    #[error("{bytes} bytes of {format} data are not a whole number of blocks of {block_bytes} bytes")]
    PartBlock {
        /// Name of the format.
        format: String,
        /// Bytes given.
        bytes: usize,
        /// Bytes per block.
        block_bytes: usize,
    },
    /// The output has another length than the data.
    #[error("{bytes} bytes of {format} data hold {values} values, but the output has room for {room}")]
    Length {
        /// Name of the format.
        format: String,
        /// Bytes given.
        bytes: usize,
        /// Values in them.
        values: usize,
        /// Length of the output.
        room: usize,
    },
}

/// Dequantises `data`, a whole number of blocks, into `out`, which must have exactly their number of values.
///
/// Integers of plain types become the nearest f32. To dequantise many rows, keep a [`Dequantiser`].
///
/// # Errors
/// An unsound row, a part of a block, or an output of another length.
pub fn dequantise(format: &Format, data: &[u8], out: &mut [f32]) -> Result<(), DequantError> {
    Dequantiser::new(format)?.run(data, out)
}

/// A dequantiser of one format, with the addresses of its planes worked out.
#[derive(Clone, Debug)]
pub struct Dequantiser {
    name: String,
    block_len: usize,
    block_bytes: usize,
    plan: DequantPlan,
}

#[derive(Clone, Debug)]
enum DequantPlan {
    /// TQ1_0, by way of TQ2_0.
    Ternary(Box<Dequantiser>),
    Plain(PlainKind),
    Blocks(Box<BlockPlan>),
}

#[derive(Clone, Debug)]
struct BlockPlan {
    code: FieldPlan,
    /// Level of each code, by its bits.
    levels: Vec<f32>,
    scale: ScalePlan,
    min: Option<(ScalePlan, f32)>,
}

#[derive(Clone, Debug)]
struct ScalePlan {
    scale: Scale,
    group: usize,
    groups: usize,
    sub: Option<(FieldPlan, i32)>,
}

impl Dequantiser {
    /// Prepares a dequantiser.
    ///
    /// # Errors
    /// If the row of the format fails [`Format::check`].
    pub fn new(format: &Format) -> Result<Self, FormatError> {
        format.check()?;
        let plan = match &format.encoding {
            Encoding::Plain(kind) => DequantPlan::Plain(*kind),
            Encoding::Blocks(blocks) => DequantPlan::Blocks(Box::new(BlockPlan::new(blocks))),
        };
        Ok(Dequantiser {
            name: format.name.to_string(),
            block_len: format.block_len() as usize,
            block_bytes: format.block_bytes() as usize,
            plan,
        })
    }

    /// Prepares a dequantiser of a type; `None` for one that nothing computes with.
    pub fn of_type(ty: GgmlType) -> Option<Self> {
        let of_rows = Dequantiser::new(ty.computed_as().format()?).ok()?;
        if !ty.is_unpacked() {
            return Some(of_rows);
        }
        let (block_len, block_bytes) = (ty.block_len() as usize, ty.block_bytes() as usize);
        let plan = DequantPlan::Ternary(Box::new(of_rows));
        Some(Dequantiser { name: ty.name().to_owned(), block_len, block_bytes, plan })
    }

    /// Dequantises whole blocks: `data.len() / block_bytes * block_len` values.
    ///
    /// # Errors
    /// A part of a block, or an output of another length.
    pub fn run(&self, data: &[u8], out: &mut [f32]) -> Result<(), DequantError> {
        if !data.len().is_multiple_of(self.block_bytes) {
            return Err(DequantError::PartBlock {
                format: self.name.clone(),
                bytes: data.len(),
                block_bytes: self.block_bytes,
            });
        }
        let values = (data.len() / self.block_bytes).checked_mul(self.block_len);
        if values != Some(out.len()) {
            return Err(DequantError::Length {
                format: self.name.clone(),
                bytes: data.len(),
                values: values.unwrap_or(usize::MAX),
                room: out.len(),
            });
        }
        match &self.plan {
            DequantPlan::Plain(kind) => plain(*kind, data, out),
            DequantPlan::Ternary(wide) => {
                let mut unpacked = vec![0; data.len() / self.block_bytes * wide.block_bytes];
                ternary::unpack(data, &mut unpacked);
                wide.run(&unpacked, out)?;
            }
            DequantPlan::Blocks(plan) => {
                let mut scratch = Scratch::default();
                for (block, out) in data.chunks_exact(self.block_bytes).zip(out.chunks_exact_mut(self.block_len)) {
                    plan.run(block, out, &mut scratch);
                }
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Scratch {
    codes: Vec<u32>,
    subs: Vec<u32>,
    scales: Vec<f32>,
}

impl BlockPlan {
    fn new(blocks: &Blocks) -> Self {
        let level = |bits| blocks.level(blocks.code.extend(bits)) as f32;
        BlockPlan {
            code: FieldPlan::new(&blocks.code, blocks.block),
            levels: (0..1u32 << blocks.code.width()).map(level).collect(),
            scale: ScalePlan::new(&blocks.scale, blocks.block),
            min: blocks.min.as_ref().map(|(min, sign)| (ScalePlan::new(min, blocks.block), *sign)),
        }
    }

    fn run(&self, block: &[u8], out: &mut [f32], scratch: &mut Scratch) {
        self.code.gather_bits(block, &mut scratch.codes);
        for (out, &code) in out.iter_mut().zip(&scratch.codes) {
            *out = self.levels[code as usize];
        }
        self.scale.gather(block, scratch);
        for (group, scale) in out.chunks_exact_mut(self.scale.group).zip(&scratch.scales) {
            group.iter_mut().for_each(|value| *value *= scale);
        }
        let Some((min, sign)) = &self.min else { return };
        min.gather(block, scratch);
        for (group, min) in out.chunks_exact_mut(min.group).zip(&scratch.scales) {
            group.iter_mut().for_each(|value| *value += sign * min);
        }
    }
}

impl ScalePlan {
    fn new(scale: &Scale, block: u32) -> Self {
        ScalePlan {
            scale: scale.clone(),
            group: scale.group(block) as usize,
            groups: (block / scale.group(block)) as usize,
            sub: scale.sub.as_ref().map(|sub| (FieldPlan::new(&sub.field, block / sub.group), sub.zero)),
        }
    }

    /// The scale of every group, into `scratch.scales`.
    fn gather(&self, block: &[u8], scratch: &mut Scratch) {
        scratch.scales.clear();
        let float = |group: usize| self.scale.float_of(block, (group * self.group) as u32);
        match &self.sub {
            None => scratch.scales.extend((0..self.groups).map(float)),
            Some((plan, zero)) => {
                plan.gather_bits(block, &mut scratch.subs);
                let scale = |(group, &bits): (usize, &u32)| float(group) * (plan.integer(bits) - zero) as f32;
                scratch.scales.extend(scratch.subs.iter().enumerate().map(scale));
            }
        }
    }
}

fn plain(kind: PlainKind, data: &[u8], out: &mut [f32]) {
    fn each<const N: usize>(data: &[u8], out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
        for (bytes, out) in data.as_chunks::<N>().0.iter().zip(out) {
            *out = read(*bytes);
        }
    }
    match kind {
        PlainKind::F32 => each(data, out, f32::from_le_bytes),
        PlainKind::F16 => each(data, out, |b| half::f16::from_le_bytes(b).to_f32()),
        PlainKind::BF16 => each(data, out, |b| half::bf16::from_le_bytes(b).to_f32()),
        PlainKind::F64 => each(data, out, |b| f64::from_le_bytes(b) as f32),
        PlainKind::I8 => each(data, out, |b| f32::from(i8::from_le_bytes(b))),
        PlainKind::I16 => each(data, out, |b| f32::from(i16::from_le_bytes(b))),
        PlainKind::I32 => each(data, out, |b| i32::from_le_bytes(b) as f32),
        PlainKind::I64 => each(data, out, |b| i64::from_le_bytes(b) as f32),
    }
}
