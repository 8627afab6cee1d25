//! Matrices that a warp multiplies as a whole: 16 by 16 f16 numbers, and sums of f32.
//!
//! They are loaded from and stored to arrays of their own type, which nothing else lies in. A lane says where a row of its
//! begins ([`Op::Fragment`]), and where a matrix does was found out before (`gpu/select`).

use super::Wgsl;
use super::memory::View;
use crate::gpu::launch::ALIGN;
use crate::kernel::body::{ARRAYS, Body, shared_by_turns, whole_matrices};
use crate::render::family::Renderer;
use ir::{DType, Graph, Id, Op};
use rustc_hash::FxHashSet;

/// The type of sums.
pub(super) const SUMS: &str = "coop_mat16x16<f32, C>";

/// What of a kernel is such matrices; of several side by side, of one of them, as they have the same registers and scratch for
/// other things.
#[derive(Default)]
pub(super) struct Matrices {
    stashes: FxHashSet<Id>,
    sums: FxHashSet<Id>,
    /// What is multiplied from the right.
    right: FxHashSet<Id>,
}

impl Matrices {
    pub(super) fn of(g: &Graph, root: Id) -> Matrices {
        let stashes: FxHashSet<Id> = whole_matrices(g, root).into_iter().collect();
        let (mut sums, mut right) = (FxHashSet::default(), FxHashSet::default());
        for id in g.toposort(&[root]) {
            if *g.op(id) == Op::WarpProduct && !stashes.is_empty() {
                sums.insert(g.src(id)[0]);
                right.insert(g.src(id)[2]);
            }
        }
        Matrices { stashes, sums, right }
    }

    /// The array of its own that a stash lies in.
    pub(super) fn array(&self, g: &Graph, stash: Id) -> Option<DType> {
        self.stashes.contains(&stash).then(|| g.dtype(stash))
    }

    /// Whether an accumulator is a matrix.
    pub(super) fn is_sums(&self, acc: Id) -> bool {
        self.sums.contains(&acc)
    }
}

impl View {
    /// An array that matrices lie in.
    pub(super) fn of_matrices(ty: DType) -> View {
        if ty == DType::F16 { View::Halves } else { View::Floats }
    }
}

/// What an array of the memory of a block is called.
pub(super) fn array_name(array: Option<DType>) -> &'static str {
    match array {
        None => "near",
        Some(DType::F16) => "near_f16",
        Some(_) => "near_f32",
    }
}

/// The arrays of the memory of a block, and the bytes of each: those of matrices have a type.
pub(super) fn arrays(g: &Graph, body: &Body) -> impl Iterator<Item = (Option<DType>, usize)> {
    let bytes = shared_by_turns(g, std::slice::from_ref(body), ALIGN);
    ARRAYS.into_iter().zip(bytes).filter(|&(_, bytes)| bytes > 0)
}

impl Renderer<'_, Wgsl<'_>> {
    /// The head of a branch in which matrices are multiplied: all threads of a warp take it, or none, but naga wants all of the
    /// block to, and does not look at how often a loop runs.
    pub(super) fn branch_of_matrices(&mut self, g: &Graph, id: Id, condition: &str) -> Option<String> {
        let sums = &self.language.matrices.sums;
        if sums.is_empty() || !g.toposort(&[id]).iter().any(|id| sums.contains(id)) {
            return None;
        }
        let once = self.temp();
        Some(format!("for (var {once} = {condition}; {once}; {once} = false) "))
    }

    /// A matrix that is multiplied: from this element on, with rows so far apart.
    pub(super) fn loaded_matrix(
        &mut self,
        g: &mut Graph,
        id: Id,
        [buffer, at]: [Id; 2],
        pitch: i64,
        transposed: bool,
    ) -> String {
        let matrices = &self.language.matrices;
        let right = matrices.right.contains(&id);
        let role = if right { "B" } else { "A" };
        // What comes from the right lies column by column.
        let load = if right != transposed { "coopLoad" } else { "coopLoadT" };
        let array = self.language.places.get(&buffer).filter(|array| array.view == View::Halves).cloned();
        let Some(array) = array else { return self.unknown(g, id) };
        let at = self.value(g, at);
        let place = format!("&{}[{}]", array.name, array.at(&at));
        let name = self.temp();
        self.line(&format!("let {name} = {load}<coop_mat16x16<f16, {role}>>({place}, {pitch}u);"));
        name
    }

    /// The line that sets sums, to zero or to what comes to them.
    pub(super) fn set_matrix(&mut self, g: &mut Graph, acc: Id, value: Id) -> Option<String> {
        if !self.language.matrices.is_sums(acc) {
            return None;
        }
        let name = self.value(g, acc);
        Some(match *g.op(value) {
            Op::WarpProduct => {
                let src = g.src(value).to_vec();
                let [sums, rows, columns] = [0, 1, 2].map(|n| self.value(g, src[n]));
                format!("{name} = coopMultiplyAdd({rows}, {columns}, {sums});")
            }
            _ if is_zero(g, value) => format!("{name} = {SUMS}();"),
            _ => self.unknown(g, value),
        })
    }

    /// Stores sums.
    pub(super) fn store_matrix(&mut self, g: &mut Graph, id: Id) {
        let (&Op::StoreFragment { pitch }, &[buffer, at, sums]) = (g.op(id), g.src(id)) else { return };
        let Some(array) = self.language.places.get(&buffer).cloned() else { return drop(self.unknown(g, id)) };
        self.scope("", |r| {
            let (at, sums) = (r.value(g, at), r.value(g, sums));
            r.line(&format!("coopStore({sums}, &{}[{}], {pitch}u);", array.name, array.at(&at)));
        });
    }
}

/// Whether all lanes of a value are zero.
fn is_zero(g: &Graph, value: Id) -> bool {
    match g.op(value) {
        Op::Const(c) => c.as_f32() == 0.0,
        Op::Lanes(all) => all.iter().all(|c| c.as_f32() == 0.0),
        Op::Splat => is_zero(g, g.src(value)[0]),
        _ => false,
    }
}
