//! Vectors of f16 numbers that are only moved: from memory to registers, and from there to memory again.
//!
//! Elsewhere an f16 number is an f32 number that was rounded. What nobody computes with stays the words that it lies in, in half
//! as many registers and without a conversion there and back.

use super::Wgsl;
use crate::gpu::select::{Access, Inst, Selection};
use crate::render::family::Renderer;
use ir::{DType, Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// The accumulators of such vectors: set to what is loaded and to each other, and stored.
pub(super) fn moved(g: &Graph, root: Id, selection: &Selection) -> FxHashSet<Id> {
    let order = g.toposort(&[root]);
    let is_acc = |id: Id| {
        let ty = g.ty(id);
        matches!(g.op(id), Op::Acc(_)) && ty.base == DType::F16 && ty.lanes > 1 && ty.bytes().is_multiple_of(4)
    };
    let mut all: FxHashSet<Id> = order.iter().copied().filter(|&id| is_acc(id)).collect();
    let is_loaded = |id: Id| matches!(selection.get(&id), Some(Inst::Load(Access::Whole)));
    let (mut copies, mut computed): (Vec<(Id, Id)>, FxHashSet<Id>) = Default::default();
    for &id in &order {
        match g.op(id) {
            Op::Set => {
                let set: FxHashMap<Id, Id> = g.src(id).chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                for (&acc, &value) in &set {
                    if is_acc(value) && !set.contains_key(&value) {
                        copies.push((acc, value));
                    } else if !is_loaded(value) {
                        computed.extend([acc, value]);
                    }
                }
            }
            Op::Store => computed.extend(g.src(id).iter().enumerate().filter(|(n, _)| *n != 2).map(|(_, &s)| s)),
            _ => computed.extend(g.src(id)),
        }
    }
    all.retain(|id| !computed.contains(id));
    // Both sides of a copy are words, or neither is.
    while let Some(&(a, b)) = copies.iter().find(|(a, b)| all.contains(a) != all.contains(b)) {
        all.remove(&a);
        all.remove(&b);
    }
    all
}

impl Renderer<'_, Wgsl<'_>> {
    /// The names of the words of such an accumulator.
    pub(super) fn moved_words(&self, g: &Graph, acc: Id) -> Option<Vec<String>> {
        let Op::Acc(n) = *g.op(acc) else { return None };
        let words = g.ty(acc).bytes() / 4;
        self.language.moved.contains(&acc).then(|| (0..words).map(|word| format!("a{n}_{word}")).collect())
    }

    /// The line that sets one.
    pub(super) fn set_moved(&mut self, g: &mut Graph, acc: Id, value: Id) -> Option<String> {
        let to = self.moved_words(g, acc)?;
        let from = match self.moved_words(g, value) {
            Some(words) => words,
            None => self.loaded_words(g, value)?,
        };
        Some(to.iter().zip(from).map(|(to, from)| format!("{to} = {from};")).collect::<Vec<_>>().join(" "))
    }
}
