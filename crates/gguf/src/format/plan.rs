//! A field with the address of every integer in a list: what loops over whole blocks use.

use super::{Field, mask};

/// The planes of a field, worked out for each index.
#[derive(Clone, Debug)]
pub(crate) struct FieldPlan {
    field: Field,
    count: usize,
    planes: Vec<PlanePlan>,
}

#[derive(Clone, Debug)]
struct PlanePlan {
    mask: u8,
    lsb: u32,
    /// Byte and bit of each integer.
    at: Vec<(u32, u8)>,
}

impl FieldPlan {
    /// The plan of a checked field of `count` integers.
    pub(crate) fn new(field: &Field, count: u32) -> Self {
        let planes = field.planes.iter().map(|plane| PlanePlan {
            mask: mask(plane.width) as u8,
            lsb: plane.lsb,
            at: (0..count).map(|index| plane.address(index)).map(|(byte, bit)| (byte, bit as u8)).collect(),
        });
        FieldPlan { field: field.clone(), count: count as usize, planes: planes.collect() }
    }

    /// The bits of every integer, without sign extension.
    pub(crate) fn gather_bits(&self, block: &[u8], out: &mut Vec<u32>) {
        out.clear();
        out.resize(self.count, 0);
        for plane in &self.planes {
            for (out, &(byte, bit)) in out.iter_mut().zip(&plane.at) {
                *out |= u32::from(block[byte as usize] >> bit & plane.mask) << plane.lsb;
            }
        }
    }

    /// The integer that these bits are.
    pub(crate) fn integer(&self, bits: u32) -> i32 {
        self.field.extend(bits)
    }

    /// Stores every integer into bits that are all zero.
    pub(crate) fn scatter(&self, values: &[i32], block: &mut [u8]) {
        for plane in &self.planes {
            for (&value, &(byte, bit)) in values.iter().zip(&plane.at) {
                block[byte as usize] |= ((value as u32 >> plane.lsb) as u8 & plane.mask) << bit;
            }
        }
    }
}
