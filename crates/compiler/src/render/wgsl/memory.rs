//! Memory as arrays of words.
//!
//! What is only read, or written 16 bytes at once, is an array of vectors of four words; what is written word by word is an
//! array of words, as a store to a part of a vector may write all of it. Neighbouring bytes and halves that different threads
//! write would meet in one word: where a kernel stores less than a word, the array is one of atomic words, and the store
//! flips those bits of its own place that differ. Nobody else writes there, so the place is read before without a race.

use super::values::{from_bits, packed_halves, to_bits};
use super::{Wgsl, register};
use crate::gpu::select::{Access, in_words};
use crate::render::family::{Language, Renderer};
use ir::{BinOp, DType, Graph, Id, Op, Space, Type};
use rustc_hash::FxHashMap;

/// How an array of memory is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Vectors of four words.
    Vectors,
    /// Words.
    Words,
    /// Atomic words.
    Atomic,
    /// f16 numbers that matrices are loaded from.
    Halves,
    /// f32 numbers that matrices are stored to.
    Floats,
}

impl View {
    /// One that both stores have words for.
    fn for_both(self, other: View) -> View {
        match (self, other) {
            (View::Atomic, _) | (_, View::Atomic) => View::Atomic,
            (View::Vectors, View::Vectors) => View::Vectors,
            _ => View::Words,
        }
    }

    /// The type of an element.
    pub(super) fn element(self) -> &'static str {
        match self {
            View::Vectors => "vec4<u32>",
            View::Words => "u32",
            View::Atomic => "atomic<u32>",
            View::Halves => "f16",
            View::Floats => "f32",
        }
    }
}

/// The arrays of a kernel.
pub(super) struct Views {
    /// Of each slot.
    pub(super) slots: FxHashMap<u32, View>,
    /// Of the memory of a block.
    pub(super) shared: View,
    /// Of scratch.
    pub(super) scratch: View,
}

/// How the arrays of a kernel are declared.
pub(super) fn views(g: &Graph, root: Id) -> Views {
    let mut views = Views { slots: FxHashMap::default(), shared: View::Words, scratch: View::Vectors };
    let order = g.toposort(&[root]);
    for &id in &order {
        if let Op::Buffer { slot, space, .. } = *g.op(id)
            && !space.is_scratch()
        {
            views.slots.entry(slot).or_insert(View::Vectors);
        }
    }
    for &id in &order {
        let (Op::Store, &[buffer, _, value, ..]) = (g.op(id), g.src(id)) else { continue };
        let Op::Buffer { slot, space, .. } = *g.op(buffer) else { continue };
        let view = match g.ty(value).bytes() {
            0..4 => View::Atomic,
            bytes if bytes.is_multiple_of(16) => View::Vectors,
            _ => View::Words,
        };
        let of = match space {
            Space::Shared => &mut views.shared,
            Space::Task => &mut views.scratch,
            _ => views.slots.entry(slot).or_insert(View::Vectors),
        };
        *of = of.for_both(view);
    }
    for &id in order.iter().filter(|&&id| matches!(g.op(id), Op::Fragment { .. })) {
        if let &[load] = g.src(id)
            && let Op::Buffer { slot, space, .. } = *g.op(g.src(load)[0])
            && !space.is_scratch()
            && views.slots.get(&slot) == Some(&View::Vectors)
        {
            views.slots.insert(slot, View::Halves);
        }
    }
    views
}

/// Where a buffer lies: from a word of an array on.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) view: View,
    pub(super) name: String,
    /// The word, or nothing for the first.
    pub(super) first: String,
}

impl Array {
    pub(super) fn at(&self, word: &str) -> String {
        if self.first.is_empty() { word.into() } else { format!("{} + {word}", self.first) }
    }

    /// Bytes of the units in which so many are read.
    fn unit(&self, bytes: usize) -> usize {
        match self.view {
            View::Vectors if bytes.is_multiple_of(16) && self.first.is_empty() => 16,
            _ => bytes.min(4),
        }
    }

    /// A word.
    fn word(&self, word: &str) -> String {
        let (name, at) = (&self.name, self.at(word));
        match self.view {
            View::Vectors => format!("{name}[({at}) >> 2u][({at}) & 3]"),
            View::Words => format!("{name}[{at}]"),
            View::Atomic => format!("atomicLoad(&{name}[{at}])"),
            View::Floats => format!("bitcast<u32>({name}[{at}])"),
            View::Halves => {
                let at = self.at(&format!("2 * ({word})"));
                format!("bitcast<u32>(vec2<f16>({name}[{at}], {name}[{at} + 1]))")
            }
        }
    }

    /// The line that stores a word.
    fn set(&self, word: &str, value: &str) -> String {
        let (name, at) = (&self.name, self.at(word));
        match self.view {
            View::Atomic => format!("atomicStore(&{name}[{at}], {value});"),
            _ => format!("{name}[{at}] = {value};"),
        }
    }
}

/// An index of units of so many bytes, to one of units of more.
fn coarser(at: &str, from: usize, to: usize) -> String {
    match to / from {
        1 => at.into(),
        n => format!("({at} >> {}u)", n.trailing_zeros()),
    }
}

/// How far a part of a word is from its lowest bit, for an index of elements of so many bytes.
fn shift(at: &str, bytes: usize) -> String {
    format!("((u32({at}) & {}u) * {}u)", 4 / bytes - 1, bytes * 8)
}

/// A part of a word, whose other bits are zero.
fn cut(word: &str, shift: &str, bytes: usize) -> String {
    format!("(({word} >> {shift}) & {:#x}u)", (1u64 << (8 * bytes)) - 1)
}

/// The lanes of a value as pairs of f32 numbers.
fn pairs(ty: Type, value: &str) -> Vec<String> {
    let lanes: Vec<String> = (0..usize::from(ty.lanes)).map(|lane| Wgsl::part(value, ty, lane)).collect();
    lanes.chunks(2).map(|pair| format!("vec2<f32>({}, {})", pair[0], pair[pair.len() - 1])).collect()
}

impl Renderer<'_, Wgsl<'_>> {
    /// The words that a value of this many bytes consists of; less than a word is the low part of one. `at` counts the units in
    /// which it is read ([`Array::unit`]).
    fn words_at(&mut self, array: &Array, at: &str, bytes: usize) -> Vec<String> {
        if bytes < 4 {
            let word = array.word(&coarser(at, bytes, 4));
            return vec![cut(&word, &shift(at, bytes), bytes)];
        }
        let words = bytes / 4;
        if array.view == View::Vectors && words.is_multiple_of(4) {
            let first = self.fours(array, at, array.unit(bytes));
            let four = |r: &mut Self, four: usize| {
                let name = r.hold("vec4<u32>", &format!("{}[{first} + {four}]", array.name));
                ["x", "y", "z", "w"].map(|part| format!("{name}.{part}"))
            };
            return (0..words / 4).flat_map(|n| four(self, n)).collect();
        }
        let first = if words > 1 { self.hold("i32", at) } else { at.into() };
        let nth = |n: usize| if n == 0 { first.clone() } else { format!("{first} + {n}") };
        (0..words).map(|n| array.word(&nth(n))).collect()
    }

    /// The index of a vector of four words.
    fn fours(&mut self, array: &Array, at: &str, element: usize) -> String {
        let at = match array.first.is_empty() {
            true => coarser(at, element, 16),
            false => format!("({}) >> 2u", array.at(&coarser(at, element, 4))),
        };
        self.hold("i32", &at)
    }

    /// A value that is loaded.
    pub(super) fn loaded(&mut self, g: &mut Graph, id: Id, access: Access) -> Option<String> {
        let (ty, buffer) = (g.ty(id), g.src(id)[0]);
        if access != Access::Bytes {
            let words = self.loaded_words(g, id).filter(|_| ty.base != DType::Index)?;
            return Some(self.of_memory(ty, &words));
        }
        if ty.lanes > 1 || g.dtype(buffer).bytes() > 1 {
            return None;
        }
        let at = self.value(g, g.src(id)[1]);
        let array = self.language.places.get(&buffer)?.clone();
        let byte = |n: usize| {
            let at = if n == 0 { at.clone() } else { format!("({at} + {n})") };
            let byte = cut(&array.word(&coarser(&at, 1, 4)), &shift(&at, 1), 1);
            if n == 0 { byte } else { format!("({byte} << {}u)", 8 * n) }
        };
        let bits = (0..ty.base.bytes()).map(byte).collect::<Vec<_>>().join(" | ");
        Some(self.hold(register(ty.base), &from_bits(ty.base, &format!("({bits})"))))
    }

    /// The words of what is loaded; less than a word is the low part of one.
    pub(super) fn loaded_words(&mut self, g: &mut Graph, load: Id) -> Option<Vec<String>> {
        let (bytes, buffer, index) = (g.ty(load).bytes(), g.src(load)[0], g.src(load)[1]);
        let array = self.language.places.get(&buffer)?.clone();
        // Counted in the units that are read, sums of products need no shift.
        let per_unit = g.int((array.unit(bytes) / g.dtype(buffer).bytes()) as i64);
        let place = g.binary(BinOp::Div, index, per_unit);
        let at = self.value(g, place);
        Some(self.words_at(&array, &at, bytes))
    }

    /// A value from the words of its bytes.
    fn of_memory(&mut self, ty: Type, words: &[String]) -> String {
        if ty.lanes == 1 {
            return self.hold(register(ty.base), &from_bits(ty.base, &words[0]));
        }
        if in_words(ty) {
            return self.parts(ty, words.to_vec());
        }
        let words: Vec<String> = words.iter().map(|word| self.hold("u32", word)).collect();
        let of_word = 4 / ty.base.bytes();
        let lane = |lane: usize| {
            let (word, part) = (&words[lane / of_word], lane % of_word);
            match ty.base {
                DType::F16 => format!("unpack2x16float({word}).{}", ["x", "y"][part]),
                base if base.bytes() == 4 => from_bits(base, word),
                base => from_bits(base, &cut(word, &format!("{}u", part * 8 * base.bytes()), base.bytes())),
            }
        };
        let lanes = (0..usize::from(ty.lanes)).map(lane).collect();
        self.parts(ty, lanes)
    }

    /// The words of a value's bytes.
    fn to_memory(&self, ty: Type, name: &str) -> Vec<String> {
        let lanes: Vec<String> = (0..Wgsl::parts(ty)).map(|part| Wgsl::part(name, ty, part)).collect();
        if ty.lanes > 1 && in_words(ty) {
            return lanes;
        }
        match ty.base.bytes() {
            4 => lanes.iter().map(|lane| to_bits(ty.base, lane)).collect(),
            2 if ty.base == DType::F16 => lanes.chunks(2).map(packed_halves).collect(),
            bytes => {
                let word = |lanes: &[String]| {
                    let part =
                        |(n, lane): (usize, &String)| format!("({} << {}u)", to_bits(ty.base, lane), 8 * bytes * n);
                    format!("({})", lanes.iter().enumerate().map(part).collect::<Vec<_>>().join(" | "))
                };
                lanes.chunks(4 / bytes).map(word).collect()
            }
        }
    }

    /// The lines that store f16 numbers for matrices, which come in pairs.
    fn stored_halves(&mut self, array: &Array, at: &str, lanes: usize, pairs: &[String]) -> String {
        let first = self.hold("i32", &array.at(at));
        let mut lines = vec![];
        for (n, pair) in pairs.iter().enumerate() {
            let half = self.temp();
            self.line(&format!("let {half} = vec2<f16>({pair});"));
            let of = ["x", "y"].into_iter().take(lanes - 2 * n).enumerate();
            lines.extend(of.map(|(i, part)| format!("{}[{first} + {}] = {half}.{part};", array.name, 2 * n + i)));
        }
        lines.join(" ")
    }

    /// What a store needs, and the lines that store.
    pub(super) fn stored(&mut self, g: &mut Graph, id: Id) -> String {
        let mut src = g.src(id).to_vec();
        let ty = g.ty(src[2]);
        let array = self.language.places.get(&src[0]).cloned();
        // What is stored as f16 numbers is rounded there.
        if array.as_ref().is_some_and(|array| array.view == View::Halves)
            && let (Op::Cast, &[float]) = (g.op(src[2]), g.src(src[2]))
            && g.dtype(float) == DType::F32
        {
            src[2] = float;
        }
        let at = self.value(g, src[1]);
        let moved = self.moved_words(g, src[2]);
        let value = if moved.is_some() { String::new() } else { self.value(g, src[2]) };
        let only = src.get(3).map(|&c| self.value(g, c));
        let element = g.dtype(src[0]).bytes();
        let Some(array) = array else { return self.unknown(g, id) };
        if ty.base == DType::Index {
            return self.unknown(g, id);
        }
        if array.view == View::Halves {
            let pairs: Vec<String> = match moved {
                Some(words) => words.iter().map(|word| format!("unpack2x16float({word})")).collect(),
                None => pairs(ty, &value),
            };
            return self.stored_halves(&array, &at, ty.lanes.into(), &pairs);
        }
        let words = moved.unwrap_or_else(|| self.to_memory(ty, &value));
        let bytes = ty.bytes();
        let lines = if bytes < 4 {
            let at = self.hold("i32", &coarser(&at, element, bytes));
            let (word, shift) = (coarser(&at, bytes, 4), self.hold("u32", &shift(&at, bytes)));
            // Of a scalar, or of lanes that were joined.
            let new = format!("({} & {:#x}u)", words[0], (1u64 << (8 * bytes)) - 1);
            let old = cut(&array.word(&word), &shift, bytes);
            format!("atomicXor(&{}[{}], ({new} ^ {old}) << {shift});", array.name, array.at(&word))
        } else if array.view == View::Vectors {
            let first = self.fours(&array, &at, element);
            let line = |(n, four): (usize, &[String])| {
                format!("{}[{first} + {n}] = vec4<u32>({});", array.name, four.join(", "))
            };
            words.chunks(4).enumerate().map(line).collect::<Vec<_>>().join(" ")
        } else {
            let first = self.hold("i32", &coarser(&at, element, 4));
            let nth = |n: usize| if n == 0 { first.clone() } else { format!("{first} + {n}") };
            words.iter().enumerate().map(|(n, word)| array.set(&nth(n), word)).collect::<Vec<_>>().join(" ")
        };
        only.map_or(lines.clone(), |c| format!("if ({c}) {{ {lines} }}"))
    }
}
