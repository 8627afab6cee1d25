//! Arrays of the tensor interpreter, and strided views of them.
//!
//! An array is stored as narrowly as its class allows (floats always as `f32`).
//! A [`View`] renames its elements: permuting, expanding, slicing and most
//! reshapes copy nothing. What views cannot do: run backwards, or pad.

use super::lanes::{self, Class};
use crate::{Const, DType};
use half::{bf16, f16};
use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

/// The elements of an array in row-major order.
#[derive(Clone, Debug)]
pub(crate) enum Array<'a> {
    Float(Vec<f32>),
    Int(Vec<i32>),
    Index(Vec<i64>),
    Byte(Cow<'a, [u8]>),
    SignedByte(Vec<i8>),
}

/// Values on their way through an operation, by class.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Float(Vec<f32>),
    Int(Vec<i32>),
    Index(Vec<i64>),
}

/// Borrowed values of one class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'b> {
    Float(&'b [f32]),
    Int(&'b [i32]),
    Index(&'b [i64]),
}

impl Block {
    pub fn zeros(class: Class, len: usize) -> Block {
        match class {
            Class::Float => Block::Float(vec![0.0; len]),
            Class::Int => Block::Int(vec![0; len]),
            Class::Index => Block::Index(vec![0; len]),
        }
    }

    pub fn values(&self, len: usize) -> Values<'_> {
        match self {
            Block::Float(v) => Values::Float(&v[..len]),
            Block::Int(v) => Values::Int(&v[..len]),
            Block::Index(v) => Values::Index(&v[..len]),
        }
    }
}

impl<'a> Array<'a> {
    /// An array of zeros, stored as its type is.
    pub fn zeros(ty: DType, len: usize) -> Array<'a> {
        match ty {
            DType::F16 | DType::BF16 | DType::F32 => Array::Float(vec![0.0; len]),
            DType::Index => Array::Index(vec![0; len]),
            DType::U8 | DType::Bool => Array::Byte(Cow::Owned(vec![0; len])),
            DType::I8 => Array::SignedByte(vec![0; len]),
            _ => Array::Int(vec![0; len]),
        }
    }

    /// Zeros, stored as the elements of this array are.
    pub fn zeros_like(&self, len: usize) -> Array<'a> {
        match self {
            Array::Float(_) => Array::Float(vec![0.0; len]),
            Array::Int(_) => Array::Int(vec![0; len]),
            Array::Index(_) => Array::Index(vec![0; len]),
            Array::Byte(_) => Array::Byte(Cow::Owned(vec![0; len])),
            Array::SignedByte(_) => Array::SignedByte(vec![0; len]),
        }
    }

    /// One constant.
    pub fn constant(ty: DType, c: Const) -> Array<'a> {
        let mut array = Array::zeros(ty, 1);
        match Class::of(ty) {
            Class::Float => array.write(0, Values::Float(&[lanes::const_float(ty, c)])),
            Class::Int => array.write(0, Values::Int(&[lanes::const_int(ty, c)])),
            Class::Index => array.write(0, Values::Index(&[c.as_int()])),
        }
        array
    }

    /// An array from its little-endian bytes. Bytes of `U8` are borrowed.
    pub fn decode(ty: DType, bytes: &'a [u8]) -> Array<'a> {
        fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|&b| read(b)).collect()
        }
        match ty {
            DType::U8 => Array::Byte(Cow::Borrowed(bytes)),
            DType::Bool => Array::Byte(bytes.iter().map(|&b| u8::from(b != 0)).collect()),
            DType::I8 => Array::SignedByte(bytes.iter().map(|&b| b as i8).collect()),
            DType::U16 => Array::Int(each(bytes, |b| u16::from_le_bytes(b).into())),
            DType::I16 => Array::Int(each(bytes, |b| i16::from_le_bytes(b).into())),
            DType::U32 | DType::I32 => Array::Int(each(bytes, i32::from_le_bytes)),
            DType::Index => Array::Index(each(bytes, i64::from_le_bytes)),
            DType::F16 => Array::Float(each(bytes, |b| f16::from_le_bytes(b).to_f32())),
            DType::BF16 => Array::Float(each(bytes, |b| bf16::from_le_bytes(b).to_f32())),
            DType::F32 => Array::Float(each(bytes, f32::from_le_bytes)),
        }
    }

    /// The little-endian bytes of some elements of an array of type `ty`.
    fn encode(&self, ty: DType, range: Range<usize>) -> Vec<u8> {
        fn each<const N: usize, T: Copy>(v: &[T], write: impl Fn(T) -> [u8; N]) -> Vec<u8> {
            v.iter().flat_map(|&v| write(v)).collect()
        }
        match (self, ty) {
            (Array::Float(v), DType::F16) => each(&v[range], |v| f16::from_f32(v).to_le_bytes()),
            (Array::Float(v), DType::BF16) => each(&v[range], |v| bf16::from_f32(v).to_le_bytes()),
            (Array::Float(v), _) => each(&v[range], f32::to_le_bytes),
            (Array::Int(v), DType::U16 | DType::I16) => each(&v[range], |v| (v as u16).to_le_bytes()),
            (Array::Int(v), _) => each(&v[range], i32::to_le_bytes),
            (Array::Index(v), _) => each(&v[range], i64::to_le_bytes),
            (Array::Byte(v), _) => v[range].to_vec(),
            (Array::SignedByte(v), _) => each(&v[range], i8::to_le_bytes),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Array::Float(v) => v.len(),
            Array::Int(v) => v.len(),
            Array::Index(v) => v.len(),
            Array::Byte(v) => v.len(),
            Array::SignedByte(v) => v.len(),
        }
    }

    /// Elements that can be used as they are stored.
    pub fn borrow(&self, at: usize, len: usize) -> Option<Values<'_>> {
        match self {
            Array::Float(v) => Some(Values::Float(&v[at..at + len])),
            Array::Int(v) => Some(Values::Int(&v[at..at + len])),
            Array::Index(v) => Some(Values::Index(&v[at..at + len])),
            _ => None,
        }
    }

    /// Stores values of the class of this array from `at` on.
    pub fn write(&mut self, at: usize, values: Values<'_>) {
        match (self, values) {
            (Array::Float(out), Values::Float(v)) => out[at..at + v.len()].copy_from_slice(v),
            (Array::Int(out), Values::Int(v)) => out[at..at + v.len()].copy_from_slice(v),
            (Array::Index(out), Values::Index(v)) => out[at..at + v.len()].copy_from_slice(v),
            (Array::Byte(out), Values::Int(v)) => {
                out.to_mut()[at..at + v.len()].iter_mut().zip(v).for_each(|(o, &v)| *o = v as u8);
            }
            (Array::SignedByte(out), Values::Int(v)) => {
                out[at..at + v.len()].iter_mut().zip(v).for_each(|(o, &v)| *o = v as i8);
            }
            _ => unreachable!("values of another class than the array"),
        }
    }

    /// Copies elements of a view into this array from `at` on: `start ..
    /// start + len` in the order of the view.
    pub fn copy_from(&mut self, at: usize, walk: &Walk, from: &Array<'_>, start: usize, len: usize) {
        fn copy<T: Copy>(out: &mut [T], from: &[T], walk: &Walk, start: usize) {
            walk.copy(from, start, out, |v| v);
        }
        match (self, from) {
            (Array::Float(o), Array::Float(v)) => copy(&mut o[at..at + len], v, walk, start),
            (Array::Int(o), Array::Int(v)) => copy(&mut o[at..at + len], v, walk, start),
            (Array::Index(o), Array::Index(v)) => copy(&mut o[at..at + len], v, walk, start),
            (Array::Byte(o), Array::Byte(v)) => copy(&mut o.to_mut()[at..at + len], v, walk, start),
            (Array::SignedByte(o), Array::SignedByte(v)) => copy(&mut o[at..at + len], v, walk, start),
            _ => unreachable!("arrays of different types"),
        }
    }

    /// Reads elements of a view: `start .. start + len` in the order of the view.
    pub fn read(&self, walk: &Walk, start: usize, len: usize, out: &mut Block) {
        match (self, out) {
            (Array::Float(v), Block::Float(o)) => walk.copy(v, start, &mut o[..len], |v| v),
            (Array::Int(v), Block::Int(o)) => walk.copy(v, start, &mut o[..len], |v| v),
            (Array::Index(v), Block::Index(o)) => walk.copy(v, start, &mut o[..len], |v| v),
            (Array::Byte(v), Block::Int(o)) => walk.copy(v, start, &mut o[..len], i32::from),
            (Array::SignedByte(v), Block::Int(o)) => walk.copy(v, start, &mut o[..len], i32::from),
            _ => unreachable!("a block of another class than the array"),
        }
    }
}

/// An array under another shape. Element `i` of the view is element
/// `offset + sum of i[d] * strides[d]` of the array.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub data: Rc<Array<'a>>,
    pub offset: usize,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

/// Strides of a row-major array.
fn row_major(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d].max(1);
    }
    strides
}

impl<'a> View<'a> {
    /// One element repeated.
    pub fn splat(data: Array<'a>, dims: Vec<usize>) -> View<'a> {
        View { data: Rc::new(data), offset: 0, strides: vec![0; dims.len()], dims }
    }

    /// All of an array.
    pub fn new(data: Array<'a>, dims: Vec<usize>) -> View<'a> {
        debug_assert_eq!(data.len(), dims.iter().product::<usize>());
        View { data: Rc::new(data), offset: 0, strides: row_major(&dims), dims }
    }

    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether the elements lie one after another.
    pub fn is_contiguous(&self) -> bool {
        let mut expect = 1;
        for (&n, &s) in self.dims.iter().zip(&self.strides).rev() {
            if n != 1 && s != expect {
                return false;
            }
            expect *= n;
        }
        true
    }

    /// An array of its own with the same elements.
    pub fn copied(&self) -> Array<'a> {
        let len = self.len();
        let mut out = self.data.zeros_like(len);
        out.copy_from(0, &Walk::new(self), &self.data, 0, len);
        out
    }

    /// A contiguous view of the same elements, copied if need be.
    pub fn contiguous(&self) -> View<'a> {
        if self.is_contiguous() {
            return View { strides: row_major(&self.dims), ..self.clone() };
        }
        View::new(self.copied(), self.dims.clone())
    }

    /// The elements in order as little-endian bytes.
    pub fn encode(&self, ty: DType) -> Vec<u8> {
        let v = self.contiguous();
        v.data.encode(ty, v.offset..v.offset + v.len())
    }

    /// The elements in order as integers; `None` for floats.
    pub fn integers(&self, ty: DType) -> Option<Vec<i64>> {
        let view = self.contiguous();
        let range = view.offset..view.offset + view.len();
        Some(match &*view.data {
            Array::Float(_) => return None,
            Array::Int(v) => v[range].iter().map(|&v| lanes::int_value(ty, v)).collect(),
            Array::Index(v) => v[range].to_vec(),
            Array::Byte(v) => v[range].iter().map(|&v| v.into()).collect(),
            Array::SignedByte(v) => v[range].iter().map(|&v| v.into()).collect(),
        })
    }

    /// Dimension `i` of the result is dimension `perm[i]`.
    pub fn permute(&self, perm: &[usize]) -> View<'a> {
        View {
            data: self.data.clone(),
            offset: self.offset,
            dims: perm.iter().map(|&p| self.dims[p]).collect(),
            strides: perm.iter().map(|&p| self.strides[p]).collect(),
        }
    }

    /// Dimensions of length 1 repeated.
    pub fn expand(&self, dims: &[usize]) -> View<'a> {
        let strides = self.dims.iter().zip(dims).zip(&self.strides).map(|((&n, &m), &s)| if n == m { s } else { 0 });
        View { data: self.data.clone(), offset: self.offset, dims: dims.to_vec(), strides: strides.collect() }
    }

    /// `start .. start + len` of one dimension.
    pub fn slice(&self, axis: usize, start: usize, len: usize) -> View<'a> {
        let mut view = self.clone();
        // An empty slice may start at the very end.
        view.offset += if len == 0 { 0 } else { start * self.strides[axis] };
        view.dims[axis] = len;
        view
    }

    /// One index of one dimension, which disappears.
    pub fn at(&self, axis: usize, index: usize) -> View<'a> {
        let mut view = self.slice(axis, index, 1);
        view.dims.remove(axis);
        view.strides.remove(axis);
        view
    }

    /// The same elements under another shape of equal size, if strides can
    /// express it.
    pub fn reshape(&self, dims: &[usize]) -> Option<View<'a>> {
        let view = |strides| View { data: self.data.clone(), offset: self.offset, dims: dims.to_vec(), strides };
        if self.len() == 0 {
            return Some(view(row_major(dims)));
        }
        let merged = merge(&self.dims, &self.strides);
        let mut strides = vec![0; dims.len()];
        let mut d = dims.len();
        for &(extent, stride) in merged.iter().rev() {
            // The dimensions of the result that split this run.
            let mut step = 1;
            while step < extent {
                d = d.checked_sub(1)?;
                strides[d] = step * stride;
                step *= dims[d];
            }
            if step != extent {
                return None;
            }
        }
        Some(view(strides))
    }
}

/// Dimensions without those of length 1, neighbours that make one run merged.
fn merge(dims: &[usize], strides: &[usize]) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::with_capacity(dims.len());
    for (&n, &s) in dims.iter().zip(strides).filter(|d| *d.0 != 1) {
        match out.last_mut() {
            Some(last) if last.1 == n * s => *last = (last.0 * n, s),
            _ => out.push((n, s)),
        }
    }
    out
}

/// The order in which a view visits its array, in as few runs as possible.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    offset: usize,
    /// Extent and stride of each merged dimension, outermost first; never empty.
    dims: Vec<(usize, usize)>,
}

impl Walk {
    pub fn new(view: &View<'_>) -> Walk {
        let mut dims = merge(&view.dims, &view.strides);
        if dims.is_empty() {
            dims.push((1, 1));
        }
        Walk { offset: view.offset, dims }
    }

    /// The same walk from another first element.
    pub fn from(&self, offset: usize) -> Walk {
        Walk { offset, dims: self.dims.clone() }
    }

    /// Where `start .. start + len` lies, if it is one run of neighbours.
    pub fn run(&self, start: usize, len: usize) -> Option<usize> {
        let &(inner, stride) = self.dims.last()?;
        if stride != 1 || start % inner + len > inner {
            return None;
        }
        Some(self.place(start))
    }

    /// Whether every element is the same one.
    pub fn is_splat(&self) -> bool {
        self.dims.iter().all(|d| d.0 == 1 || d.1 == 0)
    }

    fn place(&self, start: usize) -> usize {
        let mut at = self.offset;
        let mut rest = start;
        for &(n, s) in self.dims.iter().rev() {
            at += rest % n * s;
            rest /= n;
        }
        at
    }

    /// `out[i] = f(from[place of start + i])`.
    fn copy<T: Copy, U: Copy>(&self, from: &[T], start: usize, out: &mut [U], f: impl Fn(T) -> U) {
        if out.is_empty() {
            return;
        }
        let Some((&(inner, stride), outer)) = self.dims.split_last() else { return };
        let mut digits = vec![0; outer.len()];
        let mut first = start % inner;
        let mut rest = start / inner;
        let mut base = self.offset;
        for (digit, &(n, s)) in digits.iter_mut().zip(outer).rev() {
            *digit = rest % n;
            rest /= n;
            base += *digit * s;
        }
        let mut done = 0;
        while done < out.len() {
            let run = (inner - first).min(out.len() - done);
            let at = base + first * stride;
            let chunk = &mut out[done..done + run];
            match stride {
                1 => chunk.iter_mut().zip(&from[at..at + run]).for_each(|(o, &v)| *o = f(v)),
                0 => chunk.fill(f(from[at])),
                _ => chunk.iter_mut().zip(from[at..].iter().step_by(stride)).for_each(|(o, &v)| *o = f(v)),
            }
            done += run;
            first = 0;
            for (digit, &(n, s)) in digits.iter_mut().zip(outer).rev() {
                *digit += 1;
                base += s;
                if *digit < n {
                    break;
                }
                base -= n * s;
                *digit = 0;
            }
        }
    }
}
