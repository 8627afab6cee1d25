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
const RULES: [Switch; 13] = [
    switch("scan", "short prefix sums may be sums over pairs of elements"),
    switch("neutral", "products and quotients by one go away"),
    switch("factor", "a factor leaves the sum that it does not depend on: norms become scalars after the dot product"),
    switch("split-sum", "a row's sum of squares is summed where the row is produced"),
    switch("bf16", "several tokens are multiplied with weights of 16 bits as bf16 numbers (GPUs)"),
    switch("bf16-blocks", "many tokens are multiplied with weights in block formats as bf16 numbers (Hopper)"),
    switch("f16", "the same as f16 numbers (adapters of wgpu that multiply matrices)"),
    switch(
        "f16-blocks",
        "several tokens are multiplied with weights in block formats as f16 numbers (the same adapters)",
    ),
    switch(
        "split-k",
        "long sums of products that leave half of a GPU idle are computed in two parts (the same adapters)",
    ),
    switch("levels", "what codes stand for is multiplied as signed bytes, without a term to add (GPUs)"),
    switch("int8", "inputs of weights in block formats are quantised, for integer dots"),
    switch("codes", "queries of a cache in 8 bits are quantised, for integer dots"),
    switch("planes", "rows of block formats are repacked in planes (GPUs)"),
];

/// A switch, and what leaving it out does to the options; nothing where whoever decides asks for it by name.
struct Off(Switch, fn(&mut Options));

const fn off(name: &'static str, what: &'static str, set: fn(&mut Options)) -> Off {
    Off(switch(name, what), set)
}

/// What comes after the rules.
static LATER: [Off; 35] = [
    off("choice", "alternatives of equal meaning are priced; without, the first is taken", |_| ()),
    off("fuse", "kernels hold more than one operation", |o| o.prices.unfused = true),
    off("merge", "kernels whose results a value combines become one: gate and up", |o| o.prices.fusions.merge = false),
    off("epilogue", "operations join the kernel that produces what they read", |o| o.prices.fusions.epilogue = false),
    off("absorb", "small kernels move into their readers", |o| o.prices.fusions.absorb = false),
    off("repeat", "readers compute what is cheap again instead of waiting for it", |o| {
        (o.prices.repeat, o.prices.stage_elements) = (0, 0);
    }),
    off("fold", "scores of attention stay in the task that weighs with them: online softmax", |o| {
        o.prices.fusions.fold = false;
    }),
    off("in-place", "rows of weights that an index chooses are read where they are: experts", |o| {
        o.prices.fusions.in_place = false;
    }),
    off("tables", "sines and cosines are computed once a step", |o| o.prices.fusions.tables = false),
    off("unpack-once", "operands that a sum reads many times over are converted once", |o| {
        o.prices.fusions.unpack_once = false;
    }),
    off("share", "equal layers share their kernels", |_| ()),
    off("lanes", "kernels use vectors", |o| o.on_cpu(|cpu| cpu.plan.vector_bytes = 0)),
    off("dot", "sums of products of codes are packed integer dots", |o| o.on_cpu(|cpu| cpu.plan.dots = false)),
    off("pairs", "products of codes are summed by twos in 16 bits while they fit (AVX2)", |o| {
        o.on_cpu(|cpu| cpu.plan.pairs = false)
    }),
    off("hadd", "sums of several groups are added across lanes in 16 bits, then scaled as one vector (AVX2)", |o| {
        o.on_cpu(|cpu| cpu.plan.hadd = false);
    }),
    off("tile", "weights are unpacked once for many tokens, in register tiles", |o| {
        o.on_cpu(|cpu| cpu.plan.tokens = 1)
    }),
    off(
        "stream",
        "up to eight tokens share rows that are unpacked in registers; without, rows are laid out for them",
        |o| {
            o.on_cpu(|cpu| cpu.plan.stream_below = 0);
        },
    ),
    off("panels", "sums over many elements are cut, so that what they read again stays in a near cache", |o| {
        o.on_cpu(|cpu| cpu.plan.panels = false);
    }),
    off("product", "prompts are multiplied by the matrix unit", |_| ()),
    off("prefetch", "weights are asked for ahead of their use", |o| {
        o.on_cpu(|cpu| (cpu.plan.prefetch_l1, cpu.plan.prefetch_l2) = (0, 0));
    }),
    off("chains", "a sum has several accumulators", |o| o.on_cpu(|cpu| cpu.plan.chains = 1)),
    off("packed-scales", "factors that are made of bits of several bytes stay bytes until they are whole", |o| {
        o.on_cpu(|cpu| cpu.plan.packed_scales = false);
    }),
    off("blends", "words and bytes that lie apart are blended from wide loads (AVX-512)", |o| {
        o.on_cpu(|cpu| cpu.plan.blends = false)
    }),
    off("interleave", "vectors of codes exchange halves of their groups, so that two of them share a factor", |o| {
        o.on_cpu(|cpu| cpu.plan.interleave = false);
    }),
    off("transposed-map", "values along another dimension than their results are transposed in registers", |o| {
        o.on_cpu(|cpu| cpu.plan.transposed_map = false);
    }),
    off("overlap", "launches begin before those before them are over, and load weights (GPUs)", |o| {
        o.on_gpu(|gpu| gpu.overlap = false);
    }),
    off("window", "layers with a window leave out the pages of the cache before it", |_| ()),
    off("split", "attention of one token is cut along the cache", |_| ()),
    off("several", "steps of some dozen sequences have a program of their own (GPUs)", |_| ()),
    off("short", "one token with few pages behind it has a program of its own (GPUs)", |_| ()),
    off("slots", "each token may read the experts that it chose", |_| ()),
    off("by-expert", "tokens may be grouped by the experts that they chose", |_| ()),
    off("apart", "rows of a head that nothing holds together may be products of their own", |_| ()),
    off("runs", "tokens of a prompt that follow each other read the cache together", |_| ()),
    off("tuned", "kernels take the plans that a search has found on this machine", |o| {
        o.tuned = Arc::default();
    }),
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
    rules.map(|rule| described(rule.name)).chain(LATER.iter().map(|off| off.0)).collect()
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
        LATER.iter().filter(|off| !self.allows(off.0.name)).for_each(|off| (off.1)(&mut options));
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
