//! The passes of rewriting, in order, and how one is applied.

use crate::check;
use crate::error::CompileError;
use crate::log::Log;
use crate::options::{Numerics, Options};
use crate::rewrite::rules;
use crate::rewrite::rules::Rule;
use ir::rewrite::rewrite;
use ir::{DType, Graph, Id};

/// Rewrites of a pass at most; a program of a hundred layers needs some 50,000.
const MOST_REWRITES: usize = 1 << 20;

/// One pass of rewriting.
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    pub(crate) rules: &'static [Rule],
    /// Whether a program with these options has it.
    applies: fn(&Options) -> bool,
}

impl Pass {
    /// Whether a program with these options has it, with all of its rules.
    pub(crate) fn is_whole(&self, options: &Options) -> bool {
        (self.applies)(options) && self.rules.iter().all(|rule| options.allows(rule.name))
    }
}

/// Rules that offer alternatives, among which [`choice`](mod@crate::rewrite::choice) then decides.
pub(crate) static OFFERS: Pass = Pass { name: "offers", rules: &[rules::SCAN], applies: |_| true };

/// Passes on tensors without choices, in order.
pub(crate) static PASSES: &[Pass] = &[
    Pass { name: "expand", rules: &[rules::NEUTRAL, rules::TOPK], applies: |_| true },
    Pass { name: "algebra", rules: &[rules::FACTOR, rules::SPLIT_SUM], applies: |_| true },
    Pass { name: "halves", rules: &[rules::BF16], applies: |o| multiplies(o, DType::BF16) },
    Pass {
        name: "blocks as halves",
        rules: &[rules::BF16_BLOCKS],
        applies: |o| multiplies(o, DType::BF16) && o.target().multiplies_blocks_as_halves(),
    },
    Pass { name: "f16", rules: &[rules::F16], applies: |o| multiplies(o, DType::F16) },
    Pass {
        name: "blocks as f16",
        rules: &[rules::F16_BLOCKS],
        applies: |o| multiplies(o, DType::F16) && o.target().multiplies_blocks_as_halves(),
    },
    // Of sums that are multiplied as halves by now, in programs of a target that splits some.
    Pass { name: "split-k", rules: &[rules::SPLIT_K], applies: |o| multiplies(o, DType::F16) },
    Pass {
        name: "signed",
        rules: &[rules::LEVELS],
        applies: |o| o.numerics == Numerics::Int8 && o.target().multiplies_signed(),
    },
    Pass { name: "int8", rules: &[rules::INT8, rules::CODES], applies: |o| o.numerics == Numerics::Int8 },
];

/// Whether several tokens are multiplied as such numbers.
fn multiplies(options: &Options, half: DType) -> bool {
    options.numerics == Numerics::Int8 && options.target().multiplied_half() == Some(half)
}

/// The last pass: where weights lie.
pub(crate) static LAYOUT: Pass =
    Pass { name: "planes", rules: &[rules::PLANES], applies: |o| o.target().lays_planes() };

/// Rules without which some programs cannot be lowered at all.
pub(crate) const NEEDED: [&str; 1] = [rules::TOPK.name];

/// The roots after all [`PASSES`].
pub(crate) fn rewritten(
    g: &mut Graph,
    roots: Vec<Id>,
    options: &Options,
    log: &mut Log,
) -> Result<Vec<Id>, CompileError> {
    PASSES.iter().try_fold(roots, |roots, pass| applied(g, pass, roots, options, log))
}

/// The roots after one pass; as they are if the program does not have it.
pub(crate) fn applied(
    g: &mut Graph,
    pass: &Pass,
    roots: Vec<Id>,
    options: &Options,
    log: &mut Log,
) -> Result<Vec<Id>, CompileError> {
    if !(pass.applies)(options) {
        return Ok(roots);
    }
    let active: Vec<&Rule> = pass.rules.iter().filter(|r| options.allows(r.name)).collect();
    let (new, trace) = rewrite(g, &roots, &active, options, MOST_REWRITES);
    if let Some(why) = trace.stopped {
        return Err(CompileError::Budget { pass: pass.name, why });
    }
    log.rules.extend(trace.fired.into_iter().map(|(rule, n)| (rule.into(), n)));
    if options.check {
        check::tensors(g, pass.name, &new)?;
    }
    Ok(new)
}
