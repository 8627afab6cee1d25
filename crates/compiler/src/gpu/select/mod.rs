//! Which instructions compute the values of a kernel of blocks of threads.
//!
//! A rule looks at a value, and at what it is computed from, and says how a thread computes it; the first rule of
//! [`RULES`] that fits is taken, so those that cover several operations at once come before those of one. Bytes are kept
//! four in a word where a vector has whole words of them: machines of threads have registers of words only.
//!
//! Nothing here knows how instructions are written down.

mod arithmetic;
mod inst;
mod lanes;
mod memory;
mod words;

pub(crate) use arithmetic::is_narrow;
pub(crate) use inst::{Access, Inst, Piece};
pub(crate) use words::in_words;

use ir::{Graph, Id};
use rustc_hash::FxHashMap;

/// How some values, or stores, are computed.
type Rule = fn(&mut Graph, Id) -> Option<Inst>;

/// All rules, in the order in which they are tried.
const RULES: [Rule; 18] = [
    // Several operations at once.
    memory::fragment,
    arithmetic::product_as_float,
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
    lanes::constants,
    lanes::moved,
    lanes::joined,
    lanes::exchanged,
    lanes::across,
    arithmetic::elementwise,
];

/// How the values and stores of a kernel are computed. What no rule fits is not in it.
pub(crate) type Selection = FxHashMap<Id, Inst>;

/// Selects the instructions of everything under `roots`.
pub(crate) fn select(g: &mut Graph, roots: &[Id]) -> Selection {
    let order = g.toposort(roots);
    order.into_iter().filter_map(|id| Some((id, RULES.iter().find_map(|rule| rule(g, id))?))).collect()
}
