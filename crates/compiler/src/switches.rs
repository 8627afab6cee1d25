//! What can be left out by name: rules of the rewriting passes, fusions, and paths of kernels.
//!
//! A program without any of these computes the same, up to the order of sums and to where values are rounded; it takes
//! longer. They exist to blame and to measure: `bench --each-off` leaves out each in turn. A name changes the source of
//! kernels, and that is what caches of kernels go by.

use crate::options::Options;
use crate::rewrite::passes::{LAYOUT, NEEDED, OFFERS, PASSES, Pass};
use std::sync::Arc;

/// A name, and what happens only if it is not left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The name.
    pub name: &'static str,
    /// What it stands for.
    pub what: &'static str,
}

const fn switch(name: &'static str, what: &'static str) -> Switch {
    Switch { name, what }
}

/// The rules.
const RULES: [Switch; 7] = [
    switch("scan", "short prefix sums may be sums over pairs of elements"),
    switch("neutral", "products and quotients by one go away"),
    switch("factor", "a factor leaves the sum that it does not depend on: norms become scalars after the dot product"),
    switch("split-sum", "a row's sum of squares is summed where the row is produced"),
    switch("int8", "inputs of weights in block formats are quantised, for integer dots"),
    switch("codes", "queries of a cache in 8 bits are quantised, for integer dots"),
    switch("planes", "rows of block formats are repacked in planes (GPUs)"),
];

/// What comes after the rules.
const LATER: [Switch; 30] = [
    switch("choice", "alternatives of equal meaning are priced; without, the first is taken"),
    switch("fuse", "kernels hold more than one operation"),
    switch("merge", "kernels whose results a value combines become one: gate and up"),
    switch("epilogue", "operations join the kernel that produces what they read"),
    switch("absorb", "small kernels move into their readers"),
    switch("repeat", "readers compute what is cheap again instead of waiting for it"),
    switch("fold", "scores of attention stay in the task that weighs with them: online softmax"),
    switch("in-place", "rows of weights that an index chooses are read where they are: experts"),
    switch("tables", "sines and cosines are computed once a step"),
    switch("unpack-once", "operands that a sum reads many times over are converted once"),
    switch("share", "equal layers share their kernels"),
    switch("lanes", "kernels use vectors"),
    switch("dot", "sums of products of codes are packed integer dots"),
    switch("pairs", "products of codes are summed by twos in 16 bits while they fit (AVX2)"),
    switch("hadd", "sums of several groups are added across lanes in 16 bits, then scaled as one vector (AVX2)"),
    switch("tile", "weights are unpacked once for many tokens, in register tiles"),
    switch("few", "up to eight tokens share rows that are unpacked in registers; without, rows are laid out for them"),
    switch("panels", "sums over many elements are cut, so that what they read again stays in a near cache"),
    switch("product", "prompts are multiplied by the matrix unit"),
    switch("prefetch", "weights are asked for ahead of their use"),
    switch("chains", "a sum has several accumulators"),
    switch("fours", "factors that are made of bits of several bytes stay bytes until they are whole"),
    switch("blends", "words that lie apart are blended from wide loads (AVX-512)"),
    switch("halves", "vectors of codes exchange halves of their groups, so that two of them share a factor"),
    switch("exchange", "values that lie along another dimension than their results are transposed in registers"),
    switch("split", "attention of one token is cut along the cache"),
    switch("slots", "each token may read the experts that it chose"),
    switch("by-expert", "tokens may be grouped by the experts that they chose"),
    switch("runs", "tokens of a prompt that follow each other read the cache together"),
    switch("tuned", "kernels take the plans that a search has found on this machine"),
];

/// Everything that [`Options::without`] understands: rules in the order of their passes, then the rest.
pub fn switches() -> Vec<Switch> {
    let rules = [&OFFERS]
        .into_iter()
        .chain(PASSES)
        .chain([&LAYOUT])
        .flat_map(|pass| pass.rules)
        .filter(|rule| !NEEDED.contains(&rule.name));
    let described = |name| RULES.into_iter().find(|s| s.name == name).unwrap_or(switch(name, "a rule"));
    rules.map(|rule| described(rule.name)).chain(LATER).collect()
}

/// Names that stand for several: a pass of rules leaves out all of its rules. What each stands for are their names.
pub fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let all = switches();
    let of = |pass: &'static Pass| {
        let rules = pass.rules.iter().map(|rule| rule.name).filter(|name| !NEEDED.contains(name)).collect();
        (pass.name, rules)
    };
    let passes = PASSES.iter().chain([&LAYOUT]);
    passes.filter(|pass| all.iter().all(|switch| switch.name != pass.name)).map(of).collect()
}

/// The names of [`switches`] and of [`groups`].
pub fn pass_names() -> Vec<&'static str> {
    switches().iter().map(|switch| switch.name).chain(groups().iter().map(|group| group.0)).collect()
}

impl Options {
    /// Whether something that has a name is to be done.
    pub fn allows(&self, name: &str) -> bool {
        let stands_for = |group: &str| groups().iter().any(|(of, names)| *of == group && names.contains(&name));
        NEEDED.contains(&name) || !self.without.iter().any(|w| w == name || stands_for(w))
    }

    /// These options with what is left out by name taken out of plan and prices.
    pub(crate) fn switched(&self) -> Options {
        let mut options = self.clone();
        let (plan, prices) = (&mut options.plan, &mut options.prices);
        prices.unfused |= !self.allows("fuse");
        if !self.allows("repeat") {
            prices.repeat = 0;
        }
        let fusions = &mut prices.fusions;
        fusions.merge &= self.allows("merge");
        fusions.epilogue &= self.allows("epilogue");
        fusions.absorb &= self.allows("absorb");
        fusions.fold &= self.allows("fold");
        fusions.in_place &= self.allows("in-place");
        fusions.tables &= self.allows("tables");
        fusions.unpack_once &= self.allows("unpack-once");
        if !self.allows("tuned") {
            options.tuned = Arc::default();
        }
        if !self.allows("lanes") {
            plan.vector_bytes = 0;
        }
        plan.dots &= self.allows("dot");
        plan.pairs &= self.allows("pairs");
        plan.hadd &= self.allows("hadd");
        plan.panels &= self.allows("panels");
        plan.fours &= self.allows("fours");
        plan.blends &= self.allows("blends");
        plan.halves &= self.allows("halves");
        plan.exchange &= self.allows("exchange");
        if !self.allows("few") {
            plan.few = 0;
        }
        if !self.allows("tile") {
            plan.tokens = 1;
        }
        if !self.allows("prefetch") {
            plan.prefetch = 0;
            plan.near = 0;
        }
        if !self.allows("chains") {
            plan.chains = 1;
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_described() {
        assert!(switches().iter().all(|s| s.what != "a rule"));
        assert_eq!(switches().len(), RULES.len() + LATER.len());
    }

    #[test]
    fn a_pass_stands_for_its_rules() {
        let mut options = Options::cpu(crate::Numerics::Exact, 64);
        options.without = vec!["algebra".into()];
        assert_eq!(
            ["factor", "split-sum", "neutral", "int8"].map(|name| options.allows(name)),
            [false, false, true, true]
        );
        options.without = vec!["expand".into()];
        assert!(!options.allows("neutral") && options.allows("topk"), "some programs need it");
        let names = pass_names();
        assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)), "{names:?}");
    }
}
