//! Plans by kernel: what a search found, in place of what the heuristics say.
//!
//! A [`Setting`] is a value for each number of a [`Plan`] that may differ from kernel to kernel; [`Tuned`] holds settings
//! by [`KernelKey`]. Every setting is legal for every kernel: one that was found for another only costs time. What
//! decides about numerics or about few and many tokens is no part of a setting, and follows the options of the program.

use crate::cpu::plan::Plan;
use crate::lower::Nest;
use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// A number of a plan that may differ from kernel to kernel.
struct Knob {
    name: &'static str,
    /// The values that a search tries, ascending.
    values: &'static [i64],
    get: fn(&Plan) -> i64,
    set: fn(&mut Plan, i64),
}

/// All of them, in the order of a [`Setting`].
static KNOBS: [Knob; 7] = [
    Knob {
        name: "vector",
        values: &[16, 32, 64],
        get: |p| p.vector_bytes as i64,
        set: |p, v| p.vector_bytes = v as usize,
    },
    Knob { name: "rows", values: &[1, 2, 3, 4, 6, 8], get: |p| p.rows, set: |p, v| p.rows = v },
    Knob { name: "streams", values: &[1, 2, 3, 4, 8], get: |p| p.stream_rows, set: |p, v| p.stream_rows = v },
    Knob { name: "chains", values: &[1, 2, 4, 8], get: |p| p.chains, set: |p, v| p.chains = v },
    Knob {
        name: "prefetch",
        values: &[0, 1152, 2304, 4608, 9216, 18432, 36864],
        get: |p| p.prefetch_l2,
        set: |p, v| p.prefetch_l2 = v,
    },
    Knob { name: "near", values: &[0, 576, 1152, 2304, 4608], get: |p| p.prefetch_l1, set: |p, v| p.prefetch_l1 = v },
    Knob { name: "tokens", values: &[1, 2, 4, 8, 16], get: |p| p.tokens, set: |p, v| p.tokens = v },
];

/// A value for each number of a plan that may differ from kernel to kernel. Written as `vector=64 rows=4 ..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setting([i64; KNOBS.len()]);

/// A text that is no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no setting of a plan")]
pub struct NoSetting(String);

impl Setting {
    /// What a plan says.
    pub fn of(plan: &Plan) -> Setting {
        Setting(std::array::from_fn(|i| (KNOBS[i].get)(plan)))
    }

    /// A plan with these values; vectors become no wider than they are, as a machine has only so many bytes.
    pub fn on(&self, plan: &Plan) -> Plan {
        let mut new = plan.clone();
        KNOBS.iter().zip(self.0).for_each(|(knob, value)| (knob.set)(&mut new, value));
        new.vector_bytes = new.vector_bytes.min(plan.vector_bytes);
        new
    }

    /// The settings that differ in one number, of those that make sense for a machine with this plan.
    pub fn neighbours(&self, plan: &Plan) -> Vec<Setting> {
        let widest = plan.vector_bytes as i64;
        let others = |(i, knob): (usize, &Knob)| {
            let changed = |&value: &i64| {
                let mut next = *self;
                next.0[i] = value;
                next
            };
            knob.values.iter().map(changed).collect::<Vec<_>>()
        };
        let all = KNOBS.iter().enumerate().flat_map(others);
        all.filter(|next| next != self && next.0[0] <= widest).collect()
    }

    /// What differs from another setting, for people: `rows 4 to 8`.
    pub fn changes(&self, from: &Setting) -> String {
        let all = KNOBS.iter().zip(from.0.iter().zip(&self.0));
        let changed = all.filter(|(_, (a, b))| a != b).map(|(knob, (a, b))| format!("{} {a} to {b}", knob.name));
        changed.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = KNOBS.iter().zip(self.0).map(|(knob, value)| format!("{}={value}", knob.name));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for Setting {
    type Err = NoSetting;

    /// From what [`fmt::Display`] writes; every value must be one that a search tries.
    fn from_str(text: &str) -> Result<Setting, NoSetting> {
        let wrong = || NoSetting(text.into());
        let mut words = text.split_ascii_whitespace();
        let mut values = [0; KNOBS.len()];
        for (knob, value) in KNOBS.iter().zip(&mut values) {
            let (name, number) = words.next().and_then(|word| word.split_once('=')).ok_or_else(wrong)?;
            *value = number.parse().map_err(|_| wrong())?;
            if name != knob.name || !knob.values.contains(value) {
                return Err(wrong());
            }
        }
        if words.next().is_some() { Err(wrong()) } else { Ok(Setting(values)) }
    }
}

/// What a kernel is, in whatever program: the structure of its loops and the plan that it would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey(pub u64);

impl KernelKey {
    /// Of a kernel before tiling. Limits of symbolic integers are left out, as they follow the size of a cache.
    pub fn of(g: &Graph, nest: &Nest, plan: &Plan) -> KernelKey {
        let items = || nest.phases.iter().flat_map(|phase| &phase.items);
        let mut roots: Vec<Id> = nest.phases.iter().filter_map(|phase| phase.serial).collect();
        roots.extend(items().flat_map(|item| item.dims.iter().chain([&item.value, &item.buffer, &item.index])));
        roots.push(nest.tasks);
        roots.extend(&nest.stashes);
        // Nodes are numbered as they are met, whatever their numbers in the graph are.
        let mut numbers: FxHashMap<Id, usize> = FxHashMap::default();
        let mut hash = FxHasher::default();
        for &root in &roots {
            number(g, root, &mut numbers, &mut hash);
        }
        roots.iter().for_each(|root| numbers[root].hash(&mut hash));
        for phase in &nest.phases {
            (phase.serial.is_some(), phase.items.len()).hash(&mut hash);
            phase.items.iter().for_each(|item| item.dims.len().hash(&mut hash));
        }
        plan.hash(&mut hash);
        KernelKey(hash.finish())
    }
}

/// Numbers a node after all that it needs, and hashes it.
fn number(g: &Graph, id: Id, numbers: &mut FxHashMap<Id, usize>, hash: &mut FxHasher) {
    if numbers.contains_key(&id) {
        return;
    }
    g.src(id).iter().chain(g.shape(id)).for_each(|&s| number(g, s, numbers, hash));
    match g.op(id) {
        Op::Var { name, .. } => name.hash(hash),
        op => op.hash(hash),
    }
    g.ty(id).hash(hash);
    g.src(id).iter().chain(g.shape(id)).for_each(|s| numbers[s].hash(hash));
    numbers.insert(id, numbers.len());
}

/// Settings by kernel; empty unless a search was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuned(pub BTreeMap<KernelKey, Setting>);

impl Tuned {
    /// The plan of a kernel, if it is not the one of the program.
    pub(crate) fn plan(&self, g: &Graph, nest: &Nest, plan: &Plan) -> Option<Plan> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&KernelKey::of(g, nest, plan)).map(|setting| setting.on(plan)).filter(|new| new != plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Axis, DType, ReduceOp, Space};

    fn plan() -> Plan {
        Plan::of_vectors(64)
    }

    #[test]
    fn settings_parse_back() {
        let setting = Setting::of(&plan());
        assert_eq!(setting.to_string().parse(), Ok(setting));
        assert_eq!(setting.on(&plan()), plan());
        let text = setting.to_string();
        for wrong in [
            text.replace("rows=4", "rows=5"),
            text.replace("rows", "row"),
            text.replace(" chains=4", ""),
            format!("{text} more=1"),
            String::new(),
        ] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn neighbours_differ_in_one_number_and_fit_the_machine() {
        let narrow = Plan::of_vectors(32);
        let setting = Setting::of(&narrow);
        let all = setting.neighbours(&narrow);
        assert!(all.len() > KNOBS.len());
        for next in all {
            assert_eq!(next.0.iter().zip(setting.0).filter(|(a, b)| *a != b).count(), 1);
            assert!(next.on(&narrow).vector_bytes <= 32);
            assert_eq!(next.to_string().parse(), Ok(next));
            assert!(!next.changes(&setting).is_empty());
        }
        assert_eq!(Setting::of(&plan()).on(&narrow).vector_bytes, 32, "never wider than the machine");
    }

    /// A sum over `k`, in a graph that may hold other things before.
    fn nest(g: &mut Graph, extent: i64, most: i64) -> Nest {
        let (n, one) = (g.int(extent), g.int(1));
        let k = g.range(0, Axis::Loop, n);
        let rows = g.var("rows", 1, most);
        let row = g.range(1, Axis::Loop, rows);
        let (from, to) = (g.buffer(0, Space::Input, DType::F32, 0), g.buffer(1, Space::Output, DType::F32, 0));
        let load = g.load(from, k, 1);
        let sum = g.make(Op::Reduce(ReduceOp::Sum, vec![]), DType::F32, vec![], vec![load, k]);
        let item = crate::lower::Item { dims: vec![row], value: sum, buffer: to, index: row };
        let phases = vec![crate::lower::Phase { serial: None, items: vec![item] }];
        Nest { phases, tasks: one, stashes: vec![], ranges: 2, wanted: None }
    }

    #[test]
    fn a_key_says_what_a_kernel_is_and_not_where() {
        let (mut a, mut b) = (Graph::new(), Graph::new());
        let other = b.int(77);
        b.range(5, Axis::Loop, other);
        let (in_a, in_b) = (nest(&mut a, 64, 128), nest(&mut b, 64, 4096));
        let key = KernelKey::of(&a, &in_a, &plan());
        assert_eq!(KernelKey::of(&b, &in_b, &plan()), key, "other numbers, another limit");
        let longer = nest(&mut a, 32, 128);
        assert_ne!(KernelKey::of(&a, &longer, &plan()), key);
        let invariant = Plan { stream_below: 0, ..plan() };
        assert_ne!(KernelKey::of(&a, &in_a, &invariant), key);
    }

    #[test]
    fn only_what_was_tuned_has_a_plan_of_its_own() {
        let mut g = Graph::new();
        let nest = nest(&mut g, 64, 128);
        assert_eq!(Tuned::default().plan(&g, &nest, &plan()), None);
        let setting = Setting::of(&plan()).neighbours(&plan())[0];
        let tuned = Tuned([(KernelKey::of(&g, &nest, &plan()), setting)].into());
        assert_eq!(tuned.plan(&g, &nest, &plan()), Some(setting.on(&plan())));
    }
}
