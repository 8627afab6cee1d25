//! The same rows with each part of the blocks in a plane of its own: what a device with wide aligned loads reads.
//!
//! Blocks have odd sizes (18, 110, 210 bytes), so the 16 bytes that a lane of a GPU loads at once would straddle them
//! and their scales. [`Planes`] is another layout of a whole row: all codes, then all scales, and so on, each plane at
//! a multiple of [`ALIGN`] bytes. It is nothing but another row of the table of formats, whose one block is as long as
//! the row of the tensor; so everything that is derived from a row works on it unchanged, and what it must satisfy is
//! that the reference dequantiser gives the same values.
//!
//! Codes lie in units of [`UNIT`] values: with `w` bits a value, byte `b` of a unit holds the values `b`, `b + 4w`,
//! `b + 8w` ... from its lowest bits up. Four neighbouring values are then four neighbouring bytes at one shift in
//! every plane, which is what a packed product of four takes. Integers of scales lie in plain order.
//!
//! What it cannot do: rows that are not a number of whole units, or longer than [`BLOCK_LIMIT`] values, have no planes.

use super::{
    BLOCK_LIMIT, Blocks, Digit, Encoding, Field, FieldPlan, FloatKind, Floats, Format, Plane, Scale, SubScale,
};
use crate::dequant::DequantError;

/// Bytes at whose multiples planes and rows begin.
pub const ALIGN: u32 = 16;

/// Values whose codes are interleaved.
pub const UNIT: u32 = 32;

/// A format and its rows of one length in planes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Planes {
    from: Format,
    to: Format,
}

/// Where the next plane begins.
struct Room(u32);

impl Room {
    fn take(&mut self, bytes: u32) -> u32 {
        let at = self.0;
        self.0 = (at + bytes).next_multiple_of(ALIGN);
        at
    }

    /// A plane of `count` integers for each plane of a field.
    fn field(&mut self, field: &Field, count: u32, interleaved: bool) -> Field {
        let planes = field.planes.iter().map(|plane| {
            let w = plane.width;
            // As many in a byte as fit, and divide the row.
            let whole = if interleaved { UNIT } else { count };
            let each = [8, 4, 2, 1].into_iter().find(|e| e * w <= 8 && whole.is_multiple_of(*e)).unwrap_or(1);
            let digits = if interleaved {
                let bytes = UNIT / each;
                vec![Digit::bytes(count / UNIT, bytes), Digit::bits(each, w), Digit::bytes(bytes, 1)]
            } else {
                vec![Digit::bytes(count / each, 1), Digit::bits(each, w)]
            };
            Plane { byte: self.take(count / each), shift: 0, width: w, lsb: plane.lsb, digits }
        });
        Field { planes: planes.collect(), signed: field.signed }
    }

    fn floats(&mut self, scale: &Scale, block: u32, count: u32) -> Scale {
        let values = scale.float_values(block);
        let stride = scale.kind.bytes();
        let byte = if scale.kind == FloatKind::One { 0 } else { self.take(count / values * stride) };
        Scale { kind: scale.kind, byte, sub: scale.sub.clone(), floats: Some(Floats { values, stride }) }
    }

    fn subs(&mut self, scale: &mut Scale, count: u32) {
        if let Some(SubScale { field, group, .. }) = &mut scale.sub {
            *field = self.field(field, count / *group, false);
        }
    }
}

impl Planes {
    /// The planes of rows of `values` values; `None` if the format has no blocks or such rows have no planes.
    pub fn of(format: &Format, values: u64) -> Option<Planes> {
        let blocks = format.as_blocks()?;
        let count = u32::try_from(values).ok().filter(|&n| n > 0 && n <= BLOCK_LIMIT)?;
        format.check().ok()?;
        if !count.is_multiple_of(UNIT) || !count.is_multiple_of(blocks.block) {
            return None;
        }
        let mut room = Room(0);
        let code = room.field(&blocks.code, count, true);
        let mut scale = room.floats(&blocks.scale, blocks.block, count);
        let mut min = blocks.min.as_ref().map(|(min, sign)| (room.floats(min, blocks.block, count), *sign));
        room.subs(&mut scale, count);
        if let Some((min, _)) = &mut min {
            room.subs(min, count);
        }
        let (table, zero) = (blocks.table.clone(), blocks.zero);
        let row = Blocks { block: count, bytes: room.0, code, table, zero, scale, min };
        let to = Format::blocks(format!("{} in planes of {count}", format.name), row);
        to.check().is_ok().then(|| Planes { from: format.clone(), to })
    }

    /// The format in the file.
    pub fn from(&self) -> &Format {
        &self.from
    }

    /// The format in planes: a row of the tensor is one block of it.
    pub fn to(&self) -> &Format {
        &self.to
    }

    /// Bytes of `bytes` bytes of the file, repacked; `None` if they are not whole rows.
    pub fn packed_bytes(&self, bytes: usize) -> Option<usize> {
        let row = self.from.row_bytes(u64::from(self.to.block_len()))? as usize;
        bytes.is_multiple_of(row).then(|| bytes / row * self.to.block_bytes() as usize)
    }

    /// Bytes of a row in the file, and in planes.
    pub fn row_bytes(&self) -> (usize, usize) {
        let row = self.from.row_bytes(u64::from(self.to.block_len())).unwrap_or(0);
        (row as usize, self.to.block_bytes() as usize)
    }

    /// Repacks whole rows. Padding between planes becomes 0.
    ///
    /// # Errors
    /// [`DequantError::PartBlock`] if `data` is not whole rows, [`DequantError::Length`] if `out` is not their size in
    /// planes.
    pub fn pack(&self, data: &[u8], out: &mut [u8]) -> Result<(), DequantError> {
        let (Encoding::Blocks(from), Encoding::Blocks(to)) = (&self.from.encoding, &self.to.encoding) else {
            return Ok(());
        };
        let row_bytes = (to.block / from.block * from.bytes) as usize;
        let Some(packed) = self.packed_bytes(data.len()) else {
            let format = self.to.name.to_string();
            return Err(DequantError::PartBlock { format, bytes: data.len(), block_bytes: row_bytes });
        };
        if packed != out.len() {
            let (format, values) = (self.to.name.to_string(), data.len() / row_bytes * to.block as usize);
            return Err(DequantError::Length { format, bytes: out.len(), values, room: packed });
        }
        out.fill(0);
        let mut moves = vec![Move::new(&from.code, &to.code, from.block, to.block)];
        let mut scales = vec![(&from.scale, &to.scale)];
        scales.extend(from.min.iter().zip(&to.min).map(|(a, b)| (&a.0, &b.0)));
        for (a, b) in &scales {
            if let (Some(a), Some(b)) = (&a.sub, &b.sub) {
                moves.push(Move::new(&a.field, &b.field, from.block / a.group, to.block / b.group));
            }
        }
        for (row, out) in data.chunks_exact(row_bytes).zip(out.chunks_exact_mut(to.bytes as usize)) {
            for part in &mut moves {
                part.run(row.chunks_exact(from.bytes as usize), out);
            }
            for (a, b) in &scales {
                for first in (0..to.block).step_by(a.float_values(from.block) as usize) {
                    let block = &row[(first / from.block * from.bytes) as usize..];
                    let n = a.kind.bytes() as usize;
                    let (x, y) = (a.float_byte(first % from.block) as usize, b.float_byte(first) as usize);
                    out[y..y + n].copy_from_slice(&block[x..x + n]);
                }
            }
        }
        Ok(())
    }
}

/// The integers of a field on their way to another place.
struct Move {
    from: FieldPlan,
    to: FieldPlan,
    block: Vec<u32>,
    row: Vec<i32>,
}

impl Move {
    fn new(from: &Field, to: &Field, block: u32, row: u32) -> Move {
        let (from, to) = (FieldPlan::new(from, block), FieldPlan::new(to, row));
        Move { from, to, block: vec![], row: vec![] }
    }

    fn run<'a>(&mut self, blocks: impl Iterator<Item = &'a [u8]>, out: &mut [u8]) {
        self.row.clear();
        for block in blocks {
            self.from.gather_bits(block, &mut self.block);
            self.row.extend(self.block.iter().map(|&bits| bits as i32));
        }
        self.to.scatter(&self.row, out);
    }
}
