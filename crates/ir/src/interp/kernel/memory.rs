//! Elements in little-endian bytes.

use crate::DType;
use half::{bf16, f16};

/// What memory holds that nobody wrote: NaN as a float of any width (whatever
/// the alignment, if even), a large negative number as an integer.
pub(super) fn poison(bytes: &mut [u8]) {
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = if i % 2 == 0 { 0xfe } else { 0xff };
    }
}

fn read<const N: usize, T>(bytes: &[u8], out: &mut [T], f: impl Fn([u8; N]) -> T) {
    for (o, &b) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = f(b);
    }
}

fn write<const N: usize, T: Copy>(v: &[T], bytes: &mut [u8], f: impl Fn(T) -> [u8; N]) {
    for (&v, b) in v.iter().zip(bytes.as_chunks_mut::<N>().0) {
        *b = f(v);
    }
}

pub(super) fn read_floats(ty: DType, bytes: &[u8], out: &mut [f32]) {
    match ty {
        DType::F16 => read(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        DType::BF16 => read(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
        _ => read(bytes, out, f32::from_le_bytes),
    }
}

pub(super) fn read_ints(ty: DType, bytes: &[u8], out: &mut [i32]) {
    match ty {
        DType::Bool => read(bytes, out, |b: [u8; 1]| i32::from(b[0] != 0)),
        DType::U8 => read(bytes, out, |b: [u8; 1]| i32::from(b[0])),
        DType::I8 => read(bytes, out, |b: [u8; 1]| i32::from(b[0] as i8)),
        DType::U16 => read(bytes, out, |b| i32::from(u16::from_le_bytes(b))),
        DType::I16 => read(bytes, out, |b| i32::from(i16::from_le_bytes(b))),
        _ => read(bytes, out, i32::from_le_bytes),
    }
}

pub(super) fn read_indices(bytes: &[u8], out: &mut [i64]) {
    read(bytes, out, i64::from_le_bytes);
}

pub(super) fn write_floats(ty: DType, v: &[f32], bytes: &mut [u8]) {
    match ty {
        DType::F16 => write(v, bytes, |v| f16::from_f32(v).to_le_bytes()),
        DType::BF16 => write(v, bytes, |v| bf16::from_f32(v).to_le_bytes()),
        _ => write(v, bytes, f32::to_le_bytes),
    }
}

pub(super) fn write_ints(ty: DType, v: &[i32], bytes: &mut [u8]) {
    match ty.bytes() {
        1 => write(v, bytes, |v| [v as u8]),
        2 => write(v, bytes, |v| (v as u16).to_le_bytes()),
        _ => write(v, bytes, i32::to_le_bytes),
    }
}

pub(super) fn write_indices(v: &[i64], bytes: &mut [u8]) {
    write(v, bytes, i64::to_le_bytes);
}
