//! Which instructions compute the values of a kernel.
//!
//! A rule looks at a value, and at what it is computed from, and says how it is computed; the first rule of [`RULES`]
//! that fits is taken, so those that cover several operations at once come before those of one. What a rule needs of
//! the machine stands beside it. The vectors of a kernel may be wider than those of the machine: functions of the
//! prelude have a body for each instruction set.
//!
//! Nothing here knows how instructions are written down.

mod arithmetic;
mod inst;
mod lanes;
mod masks;
mod memory;
mod sums;

pub(crate) use inst::{Inst, type_name};
pub(crate) use masks::register;

use crate::cpu::plan::Plan;
use ir::{Graph, Id};
use rustc_hash::FxHashMap;

/// What a rule needs of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// What every machine has.
    Nothing,
    /// A matrix unit, and the conversions that come with it.
    MatrixUnit,
}

impl Needs {
    fn are_met(self, plan: &Plan) -> bool {
        match self {
            Needs::Nothing => true,
            Needs::MatrixUnit => plan.matrix_unit,
        }
    }
}

/// How some values, or statements, are computed.
struct Rule {
    needs: Needs,
    select: fn(&mut Graph, Id) -> Option<Inst>,
}

const fn rule(needs: Needs, select: fn(&mut Graph, Id) -> Option<Inst>) -> Rule {
    Rule { needs, select }
}

/// All rules, in the order in which they are tried.
const RULES: [Rule; 27] = [
    // Several operations at once.
    rule(Needs::MatrixUnit, memory::product),
    rule(Needs::MatrixUnit, lanes::rounded_together),
    rule(Needs::Nothing, lanes::low_halves_joined),
    rule(Needs::Nothing, lanes::splats_joined),
    rule(Needs::Nothing, lanes::splat_of_half),
    rule(Needs::Nothing, lanes::words_of_low_half),
    rule(Needs::Nothing, arithmetic::bytes_shifted),
    rule(Needs::Nothing, arithmetic::fours_shifted),
    rule(Needs::Nothing, arithmetic::lanes_shifted),
    // One operation.
    rule(Needs::Nothing, memory::load),
    rule(Needs::Nothing, memory::store),
    rule(Needs::Nothing, memory::prefetch),
    rule(Needs::Nothing, memory::lookup),
    rule(Needs::Nothing, arithmetic::binary),
    rule(Needs::Nothing, arithmetic::unary),
    rule(Needs::Nothing, arithmetic::select),
    rule(Needs::Nothing, arithmetic::scalar_cast),
    rule(Needs::Nothing, arithmetic::mask_cast),
    rule(Needs::Nothing, arithmetic::vector_cast),
    rule(Needs::Nothing, lanes::constants),
    rule(Needs::Nothing, lanes::splat),
    rule(Needs::Nothing, lanes::scalars_joined),
    rule(Needs::Nothing, lanes::joined),
    rule(Needs::Nothing, lanes::shuffled),
    rule(Needs::Nothing, sums::dot4),
    rule(Needs::Nothing, sums::dot2),
    rule(Needs::Nothing, sums::across),
];

/// How the values, loads and stores of a kernel are computed. What no rule fits is not in it.
pub(crate) type Selection = FxHashMap<Id, Inst>;

/// Selects the instructions of everything under `root`, for the machine of a plan.
pub(crate) fn select(g: &mut Graph, root: Id, plan: &Plan) -> Selection {
    let met: Vec<&Rule> = RULES.iter().filter(|rule| rule.needs.are_met(plan)).collect();
    let order = g.toposort(&[root]);
    order.into_iter().filter_map(|id| Some((id, met.iter().find_map(|rule| (rule.select)(g, id))?))).collect()
}
