//! Plans by kernel: what a search found, in place of what the heuristics say.
//!
//! A [`Setting`] is a value for each number of a plan that may differ from kernel to kernel; [`Tuned`] holds settings
//! by [`KernelKey`]. Every setting is legal for every kernel: one that was found for another only costs time. What
//! decides about numerics or about few and many tokens is no part of a setting, and follows the options of the program.

use crate::cpu::plan::Plan;
use crate::gpu::GpuPlan;
use crate::lower::Nest;
use crate::machine::Machine;
use ir::{Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// A number of a plan that may differ from kernel to kernel.
struct Knob<P> {
    name: &'static str,
    /// The values that a search tries, ascending.
    values: &'static [i64],
    get: fn(&P) -> i64,
    set: fn(&mut P, i64),
}

/// Those of a CPU, in the order of a [`Setting`].
static CPU: [Knob<Plan>; 8] = [
    Knob {
        name: "vector",
        values: &[16, 32, 64],
        get: |p| p.vector_bytes as i64,
        // A machine has only so many bytes.
        set: |p, v| p.vector_bytes = p.vector_bytes.min(v as usize),
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
    Knob { name: "row-vectors", values: &[1, 2, 4], get: |p| p.row_vectors, set: |p, v| p.row_vectors = v },
];

/// Those of a GPU. Numbers that follow from how many multiprocessors it has are in hundredths of what they are.
static GPU: [Knob<GpuPlan>; 10] = [
    Knob { name: "warps", values: &[1, 2, 4, 8, 16], get: |p| p.warps, set: |p, v| p.warps = v.min(p.most_warps) },
    Knob {
        name: "all-warps",
        values: &[25, 50, 100, 200, 400],
        get: |_| 100,
        set: |p, v| p.all_warps = p.all_warps * v / 100,
    },
    Knob { name: "blocks", values: &[25, 50, 100, 200, 400], get: |_| 100, set: |p, v| p.blocks = p.blocks * v / 100 },
    Knob { name: "block-rows", values: &[4, 8, 16, 32, 64, 128], get: |p| p.block_rows, set: |p, v| p.block_rows = v },
    Knob { name: "rows", values: &[1, 2, 4, 8], get: |p| p.rows, set: |p, v| p.rows = v },
    Knob { name: "early", values: &[0, 64, 128, 256, 512], get: |p| p.early as i64, set: |p, v| p.early = v as usize },
    Knob { name: "resident", values: &[256, 512, 1024], get: |p| p.resident, set: |p, v| p.resident = v },
    Knob { name: "tokens", values: &[16, 32, 64, 128], get: |p| p.tile_tokens, set: |p, v| p.tile_tokens = v },
    Knob { name: "tile-rows", values: &[32, 64, 128, 256], get: |p| p.tile_rows, set: |p, v| p.tile_rows = v },
    Knob { name: "tile-warps", values: &[4, 8, 16], get: |p| p.product_warps, set: |p, v| p.product_warps = v },
];

/// A table of numbers, and what is done with values of them.
trait Knobs<P, const N: usize> {
    fn of(&self, plan: &P) -> [i64; N];
    fn on(&self, values: &[i64; N], plan: &P) -> P;
    fn neighbours(&self, values: &[i64; N]) -> Vec<[i64; N]>;
    fn words(&self, values: &[i64; N]) -> String;
    fn parsed(&self, text: &str) -> Option<[i64; N]>;
    fn changes(&self, from: &[i64; N], to: &[i64; N]) -> String;
}

impl<P: Clone, const N: usize> Knobs<P, N> for [Knob<P>; N] {
    fn of(&self, plan: &P) -> [i64; N] {
        std::array::from_fn(|i| (self[i].get)(plan))
    }

    fn on(&self, values: &[i64; N], plan: &P) -> P {
        let mut new = plan.clone();
        self.iter().zip(values).for_each(|(knob, &value)| (knob.set)(&mut new, value));
        new
    }

    fn neighbours(&self, values: &[i64; N]) -> Vec<[i64; N]> {
        let others = |(i, knob): (usize, &Knob<P>)| {
            let changed = |&value: &i64| {
                let mut next = *values;
                next[i] = value;
                next
            };
            knob.values.iter().map(changed).filter(|next| next != values).collect::<Vec<_>>()
        };
        self.iter().enumerate().flat_map(others).collect()
    }

    fn words(&self, values: &[i64; N]) -> String {
        let words = self.iter().zip(values).map(|(knob, value)| format!("{}={value}", knob.name));
        words.collect::<Vec<_>>().join(" ")
    }

    fn parsed(&self, text: &str) -> Option<[i64; N]> {
        let mut words = text.split_ascii_whitespace();
        let mut values = [0; N];
        for (knob, value) in self.iter().zip(&mut values) {
            let (name, number) = words.next()?.split_once('=')?;
            *value = number.parse().ok()?;
            if name != knob.name || !knob.values.contains(value) {
                return None;
            }
        }
        words.next().is_none().then_some(values)
    }

    fn changes(&self, from: &[i64; N], to: &[i64; N]) -> String {
        let all = self.iter().zip(from.iter().zip(to));
        let changed = all.filter(|(_, (a, b))| a != b).map(|(knob, (a, b))| format!("{} {a} to {b}", knob.name));
        changed.collect::<Vec<_>>().join(", ")
    }
}

/// A value for each number of a plan that may differ from kernel to kernel. Written as `vector=64 rows=4 ..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setting {
    /// Of the plan of a CPU.
    Cpu([i64; CPU.len()]),
    /// Of the plan of a GPU.
    Gpu([i64; GPU.len()]),
}

/// A text that is no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no setting of a plan")]
pub struct NoSetting(String);

impl Setting {
    /// What the plan of a machine says.
    pub fn of(machine: &Machine) -> Setting {
        match machine {
            Machine::Cpu(cpu) => Setting::Cpu(CPU.of(&cpu.plan)),
            Machine::Gpu(gpu) => Setting::Gpu(GPU.of(&gpu.plan)),
        }
    }

    /// A machine whose plan has these values; one of the other kind as it is.
    #[must_use]
    pub fn on(&self, machine: &Machine) -> Machine {
        let mut new = machine.clone();
        match (self, &mut new) {
            (Setting::Cpu(values), Machine::Cpu(cpu)) => cpu.plan = CPU.on(values, &cpu.plan),
            (Setting::Gpu(values), Machine::Gpu(gpu)) => gpu.plan = GPU.on(values, &gpu.plan),
            _ => {}
        }
        new
    }

    /// The settings that differ in one number, of those that a machine tells apart.
    pub fn neighbours(&self, machine: &Machine) -> Vec<Setting> {
        let all: Vec<Setting> = match self {
            Setting::Cpu(values) => CPU.neighbours(values).into_iter().map(Setting::Cpu).collect(),
            Setting::Gpu(values) => GPU.neighbours(values).into_iter().map(Setting::Gpu).collect(),
        };
        let widest = machine.plan().map_or(0, |plan| plan.vector_bytes as i64);
        let makes_sense = |next: &Setting| !matches!(next, Setting::Cpu([vector, ..]) if *vector > widest);
        all.into_iter().filter(makes_sense).collect()
    }

    /// What differs from another setting, for people: `rows 4 to 8`.
    pub fn changes(&self, from: &Setting) -> String {
        match (from, self) {
            (Setting::Cpu(from), Setting::Cpu(to)) => CPU.changes(from, to),
            (Setting::Gpu(from), Setting::Gpu(to)) => GPU.changes(from, to),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Setting::Cpu(values) => CPU.words(values),
            Setting::Gpu(values) => GPU.words(values),
        })
    }
}

impl FromStr for Setting {
    type Err = NoSetting;

    /// From what [`fmt::Display`] writes; every value must be one that a search tries.
    fn from_str(text: &str) -> Result<Setting, NoSetting> {
        let parsed = CPU.parsed(text).map(Setting::Cpu).or_else(|| GPU.parsed(text).map(Setting::Gpu));
        parsed.ok_or_else(|| NoSetting(text.into()))
    }
}

/// What a kernel is, in whatever program: the structure of its loops and the plan that it would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey(pub u64);

impl KernelKey {
    /// Of a kernel of these nests, before tiling, as the plan of the machine has it. Limits of symbolic integers are left
    /// out, as they follow the size of a cache.
    pub fn of(g: &Graph, nests: &[&Nest], machine: &Machine) -> KernelKey {
        let mut hash = FxHasher::default();
        for nest in nests {
            let items = || nest.phases.iter().flat_map(|phase| &phase.items);
            let mut roots: Vec<Id> = nest.phases.iter().filter_map(|phase| phase.serial).collect();
            roots.extend(items().flat_map(|item| item.dims.iter().chain([&item.value, &item.buffer, &item.index])));
            roots.push(nest.tasks);
            roots.extend(&nest.stashes);
            // Nodes are numbered as they are met, whatever their numbers in the graph are.
            let mut numbers: FxHashMap<Id, usize> = FxHashMap::default();
            for &root in &roots {
                number(g, root, &mut numbers, &mut hash);
            }
            roots.iter().for_each(|root| numbers[root].hash(&mut hash));
            for phase in &nest.phases {
                (phase.serial.is_some(), phase.items.len()).hash(&mut hash);
                phase.items.iter().for_each(|item| item.dims.len().hash(&mut hash));
            }
        }
        match machine {
            Machine::Cpu(cpu) => cpu.plan.hash(&mut hash),
            Machine::Gpu(gpu) => (&gpu.plan, gpu.language).hash(&mut hash),
        }
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
    /// The setting of a kernel of these nests, if it is not that of the machine's plan.
    pub(crate) fn setting(&self, g: &Graph, nests: &[&Nest], machine: &Machine) -> Option<Setting> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.get(&KernelKey::of(g, nests, machine)).copied();
        found.filter(|setting| *setting != Setting::of(machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Numerics, Options};
    use ir::{Axis, DType, ReduceOp, Space};

    fn cpu(vector_bytes: usize) -> Machine {
        Options::cpu(Numerics::Int8, vector_bytes).machine
    }

    fn machines() -> [Machine; 3] {
        [cpu(64), Options::gpu(Numerics::Int8).machine, Options::wgsl(Numerics::Int8).machine]
    }

    #[test]
    fn settings_parse_back() {
        for machine in machines() {
            let setting = Setting::of(&machine);
            assert_eq!(setting.to_string().parse(), Ok(setting));
            assert_eq!(Setting::of(&setting.on(&machine)), setting);
            let text = setting.to_string();
            let (most, last) = text.rsplit_once(' ').expect("words");
            for wrong in
                [text.replace("rows=4", "rows=5"), format!("{text} more=1"), most.into(), last.into(), "".into()]
            {
                assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn neighbours_differ_in_one_number_and_fit_the_machine() {
        for machine in machines().into_iter().chain([cpu(32)]) {
            let setting = Setting::of(&machine);
            let all = setting.neighbours(&machine);
            assert!(all.len() > 10);
            for next in all {
                let (was, is) = (setting.to_string(), next.to_string());
                assert_eq!(is.split(' ').zip(was.split(' ')).filter(|(a, b)| a != b).count(), 1);
                assert_ne!(format!("{:?}", next.on(&machine)), format!("{machine:?}"));
                assert_eq!(next.to_string().parse(), Ok(next));
                assert!(!next.changes(&setting).is_empty());
            }
        }
        let narrow = Setting::of(&cpu(64)).on(&cpu(32));
        assert_eq!(narrow.plan().map(|plan| plan.vector_bytes), Some(32), "never wider than the machine");
        let [cpu, gpu, _] = machines();
        assert_eq!(Setting::of(&Setting::of(&gpu).on(&cpu)), Setting::of(&cpu), "of another kind of machine");
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
        let machine = cpu(64);
        let (in_a, in_b) = (nest(&mut a, 64, 128), nest(&mut b, 64, 4096));
        let key = KernelKey::of(&a, &[&in_a], &machine);
        assert_eq!(KernelKey::of(&b, &[&in_b], &machine), key, "other numbers, another limit");
        let longer = nest(&mut a, 32, 128);
        assert_ne!(KernelKey::of(&a, &[&longer], &machine), key);
        assert_ne!(KernelKey::of(&a, &[&in_a, &in_a], &machine), key);
        let invariant = Options::cpu(Numerics::Int8, 64).batch_invariant().machine;
        assert_ne!(KernelKey::of(&a, &[&in_a], &invariant), key);
    }

    #[test]
    fn only_what_was_tuned_has_a_setting_of_its_own() {
        let mut g = Graph::new();
        for machine in machines() {
            let nest = nest(&mut g, 64, 128);
            assert_eq!(Tuned::default().setting(&g, &[&nest], &machine), None);
            let setting = Setting::of(&machine).neighbours(&machine)[0];
            let tuned = Tuned([(KernelKey::of(&g, &[&nest], &machine), setting)].into());
            assert_eq!(tuned.setting(&g, &[&nest], &machine), Some(setting));
        }
    }
}
