//! Which instructions compute the values of a kernel of blocks of threads.
//!
//! A rule looks at a value, and at what it is computed from, and says how a thread computes it; the first rule of
//! [`RULES`] that fits is taken, so those that cover several operations at once come before those of one. Bytes are kept
//! four in a word where a vector has whole words of them: machines of threads have registers of words only.
//!
//! Nothing here knows how instructions are written down.

mod arithmetic;
mod halves;
mod inst;
mod lanes;
mod memory;
mod words;

pub(crate) use arithmetic::elementwise;
pub(crate) use arithmetic::is_narrow;
pub(crate) use inst::{Access, Inst, Piece};
pub(crate) use words::in_words;

use ir::{Graph, Id, Op};
use rustc_hash::FxHashMap;

/// How some values, or stores, are computed.
type Rule = fn(&mut Graph, Id) -> Option<Inst>;

/// All rules, in the order in which they are tried.
const RULES: [Rule; 21] = [
    // Several operations at once.
    memory::fragment,
    arithmetic::group_product,
    arithmetic::product_as_float,
    words::masked,
    // Bytes in words.
    words::constants,
    words::bitwise,
    words::same_bits,
    words::shifted,
    words::lookup,
    words::shuffled,
    // One operation.
    memory::load,
    memory::store,
    arithmetic::product,
    arithmetic::dot4,
    halves::pairs,
    lanes::constants,
    lanes::moved,
    lanes::joined,
    lanes::exchanged,
    lanes::across,
    arithmetic::elementwise,
];

/// How the values and stores of a kernel are computed. What no rule fits is not in it.
pub(crate) type Selection = FxHashMap<Id, Inst>;

/// Rules that come first where matrices are multiplied. Elsewhere the first is no gain, as registers are short there and not
/// instructions: `attn_q_b` of GLM-4.7-Flash takes 2.7 us with it for one token, and 2.0 without (bench/JOURNAL.md). Halves
/// are made of codes for products alone.
const OF_TILES: [Rule; 4] = [words::shifted_and_masked, halves::scaled_codes, halves::codes, halves::product];

/// Rules that come before these where lanes do not have the elements of matrices.
const OF_MATRICES: [Rule; 1] = [memory::matrix];

/// Selects the instructions of everything under `roots`.
pub(crate) fn select(g: &mut Graph, roots: &[Id]) -> Selection {
    let order = g.toposort(roots);
    let tiles = order.iter().any(|&id| *g.op(id) == Op::WarpProduct);
    let whole = order.iter().any(|&id| matches!(g.op(id), Op::StoreFragment { .. }));
    let of_matrices: &[Rule] = if whole { &OF_MATRICES } else { &[] };
    let of_tiles: &[Rule] = if tiles { &OF_TILES } else { &[] };
    let rules = || of_matrices.iter().chain(of_tiles).chain(&RULES);
    let inst = |g: &mut Graph, id: Id| Some((id, rules().find_map(|rule| rule(g, id))?));
    let mut all: Selection = order.iter().filter_map(|&id| inst(g, id)).collect();
    all.extend(memory::copies(g, &order));
    // Where columns or a matrix begin is a value that was not there before.
    let begins = |inst: &Inst| match inst {
        Inst::GroupProduct { at, .. } | Inst::Matrix { at, .. } => Some(*at),
        _ => None,
    };
    let made: Vec<Id> = all.values().filter_map(begins).collect();
    let made: Vec<Id> = g.toposort(&made).into_iter().filter(|id| !all.contains_key(id)).collect();
    all.extend(made.into_iter().filter_map(|id| inst(g, id)));
    all
}
