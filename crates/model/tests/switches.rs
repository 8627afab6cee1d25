//! Whatever is left out by name, some program changes, and a model computes the same.

use crate::support::{self, nmse, synth, tokens};
use compiler::{Dim, KernelKey, Machine, Numerics, Options, Setting, Tuned, groups, switches};
use device::Interpreter;
use ir::DType;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use testkit::cases;

/// Tokens of steps: many, few and one; and enough in one step for it to be read by runs.
const STEPS: [&[usize]; 2] = [&[9, 2, 1, 1], &[64, 1]];

/// Positions of the cache.
const CONTEXT: i64 = 80;

/// Without these, a program has the kernels that it had: each as often as it is launched, or by another plan.
const SAME_KERNELS: [&str; 3] = ["share", "tuned", "overlap"];

/// A model, a target and the steps that it makes.
struct Case {
    name: &'static str,
    file: Arc<gguf::Gguf>,
    compiler: Options,
    cache: CacheKind,
    steps: &'static [usize],
    /// NMSE that leaving something out may make.
    most: f64,
    /// Whether it is there for what has no effect on the others.
    special: bool,
}

/// The programs of a case: class, sources of kernels, and the kernels of each stage.
type Programs = Vec<(Class, Vec<String>, Vec<Vec<usize>>)>;

impl Case {
    fn all() -> Vec<Case> {
        let (mla, llama) = (synth("tiny-mla-moe", "q4_0", Some(2)), synth("tiny-llama", "q4_k_m", Some(2)));
        let (one_mla, one_llama) = (synth("tiny-mla-dense", "q4_0", Some(1)), synth("tiny-llama", "q4_0", Some(1)));
        let one_bf16 = synth("tiny-llama", "bf16", Some(1));
        let one_window = synth("tiny-gemma3", "q4_0", Some(1));
        let case = |name, file: &Arc<gguf::Gguf>, numerics, change: &dyn Fn(&mut Case)| {
            let mut compiler = support::options(numerics);
            compiler.check = numerics == Numerics::Exact;
            let most = if numerics == Numerics::Exact { 1e-9 } else { 2e-2 };
            let (file, cache, steps) = (file.clone(), CacheKind::F32, STEPS[0]);
            let mut case = Case { name, file, compiler, cache, steps, most, special: true };
            change(&mut case);
            case
        };
        let (exact, int8) = (Numerics::Exact, Numerics::Int8);
        vec![
            case("latent, experts, exact", &mla, exact, &|c| c.special = false),
            case("latent, experts, int8", &mla, int8, &|c| c.special = false),
            case("grouped, exact", &llama, exact, &|c| c.special = false),
            case("grouped, int8", &llama, int8, &|c| c.special = false),
            case("a cache of q8_0", &one_llama, int8, &|c| c.cache = CacheKind::Q8_0),
            case("a matrix unit", &one_llama, int8, &|c| c.compiler.on_cpu(|cpu| cpu.plan.matrix_unit = true)),
            case("products by twos", &one_llama, int8, &|c| {
                c.compiler.on_cpu(|cpu| (cpu.plan.vector_bytes, cpu.plan.pairs) = (32, true));
            }),
            case("vectors of 64 bytes", &one_llama, int8, &|c| {
                c.compiler.on_cpu(|cpu| (cpu.plan.vector_bytes, cpu.plan.pairs) = (64, false));
            }),
            case("vectors of 64 bytes and K formats", &llama, int8, &|c| {
                c.compiler.on_cpu(|cpu| (cpu.plan.vector_bytes, cpu.plan.pairs) = (64, false));
            }),
            case("a GPU", &one_llama, int8, &|c| c.compiler = Options::gpu(int8)),
            case("a GPU, weights of 16 bits", &one_bf16, int8, &|c| c.compiler = Options::gpu(int8)),
            case("a GPU whose warps multiply together", &one_llama, int8, &|c| {
                c.compiler = Options::gpu(int8);
                c.compiler.on_gpu(|plan| plan.groups = true);
                c.steps = STEPS[1];
            }),
            case("an adapter that multiplies matrices", &one_llama, int8, &|c| {
                c.compiler = Options::wgsl_of_matrices(int8);
                c.steps = STEPS[1];
            }),
            case("an adapter that a product leaves half idle", &one_llama, int8, &|c| {
                c.compiler = Options::wgsl_of_matrices(int8);
                c.compiler.on_gpu(|plan| (plan.processors, plan.split_k) = (4, 256));
                c.steps = STEPS[1];
            }),
            case("the same, weights of 16 bits", &one_bf16, int8, &|c| c.compiler = Options::wgsl_of_matrices(int8)),
            case("a GPU that few tasks leave idle", &one_mla, int8, &|c| {
                c.compiler = Options::gpu(int8);
                c.compiler.prices.profile.tasks *= 1000.0;
            }),
            case("grouped, by runs", &one_llama, exact, &|c| c.steps = STEPS[1]),
            case("a window", &one_window, exact, &|_| ()),
            case("latent, by runs", &one_mla, exact, &|c| c.steps = STEPS[1]),
            case("tuned", &one_llama, exact, &|c| {
                let tuned = Arc::new(c.other_plans());
                c.compiler.tuned = tuned;
            }),
        ]
    }

    fn options(&self, without: &[&str]) -> EngineOptions {
        let mut compiler = self.compiler.clone();
        compiler.without = without.iter().map(|name| (*name).to_owned()).collect();
        EngineOptions { compiler, context: CONTEXT, chunk: 64, cache: self.cache }
    }

    fn engine(&self, without: &[&str]) -> Engine {
        Engine::new(self.file.clone(), Arc::new(Interpreter::default()), self.options(without)).expect("a model")
    }

    /// The programs of all steps, and the keys of their kernels.
    fn programs(&self, engine: &mut Engine) -> (Programs, BTreeSet<KernelKey>) {
        let limits = engine.limits();
        let (mut programs, mut keys) = (Programs::new(), BTreeSet::new());
        let mut start = 0;
        for &n in self.steps {
            let class = limits.class(std::iter::once(start..start + n));
            start += n;
            if programs.iter().any(|(known, ..)| *known == class) {
                continue;
            }
            let compiled = engine.compile(class).expect("a program");
            let kernels = &compiled.program.kernels;
            // The number of a kernel in its program is part of its name.
            let sources: Vec<String> = kernels.iter().map(|k| k.source.replacen(&k.symbol, "", 1)).collect();
            keys.extend((0..kernels.len()).filter_map(|kernel| compiled.key(kernel)));
            let of_stage = |s: &compiler::program::Stage| s.launches.iter().map(|launch| launch.kernel).collect();
            let stages = compiled.program.stages.iter().map(of_stage).collect();
            programs.push((class, sources, stages));
        }
        (programs, keys)
    }

    /// Another plan for each kernel.
    fn other_plans(&self) -> Tuned {
        let machine = &self.compiler.machine;
        let rows = |machine: &Machine| machine.plan().expect("a CPU").rows;
        let mut others = Setting::of(machine).neighbours(machine).into_iter();
        let other = others.find(|setting| rows(&setting.on(machine)) != rows(machine));
        let other = other.expect("another number of rows");
        Tuned(self.programs(&mut self.engine(&[])).1.into_iter().map(|key| (key, other)).collect())
    }

    /// Logits of all steps.
    fn logits(&self, engine: &mut Engine) -> Result<Vec<f32>, String> {
        let all = tokens(self.steps.iter().sum(), engine.config().vocab as u32, 3);
        let (mut out, mut at) = (vec![], 0);
        for &n in self.steps {
            out.extend_from_slice(engine.step(&all[at..at + n], at, 0..n).map_err(|e| e.to_string())?);
            at += n;
        }
        Ok(out)
    }

    /// What is wrong without something, if the programs change.
    fn problem(&self, with: &With, without: &str) -> Option<Result<(), String>> {
        let mut engine = self.engine(&[without]);
        let (programs, kernels) = self.programs(&mut engine);
        if programs == with.programs {
            return None;
        }
        // Plans that a search finds, which is for processors, are kept by these keys.
        let searched = self.compiler.plan().is_some() && !SAME_KERNELS.contains(&without);
        if searched && kernels == with.kernels {
            return Some(Err("other kernels have the same keys".into()));
        }
        Some(match self.logits(&mut engine) {
            Ok(got) => match nmse(&got, &with.logits) {
                error if error <= self.most => Ok(()),
                error => Err(format!("NMSE {error:.2e}")),
            },
            Err(error) => Err(error),
        })
    }
}

/// What a case has when nothing is left out.
struct With {
    programs: Programs,
    kernels: BTreeSet<KernelKey>,
    logits: Vec<f32>,
}

/// Leaves names out of cases, on all processors: the names without which a program changed. Panics with what is wrong.
fn leave_out(cases: &[Case], names: &[&'static str]) -> BTreeSet<&'static str> {
    let with = |case: &Case| {
        let mut engine = case.engine(&[]);
        let (programs, kernels) = case.programs(&mut engine);
        With { programs, kernels, logits: case.logits(&mut engine).expect(case.name) }
    };
    let with: Vec<With> = cases.iter().map(with).collect();
    let pairs: Vec<(usize, &str)> = (0..cases.len()).flat_map(|i| names.iter().map(move |name| (i, *name))).collect();
    let (next, changed, problems) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()), Mutex::new(vec![]));
    let worker = || {
        while let Some(&(i, name)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(outcome) = cases[i].problem(&with[i], name) else { continue };
            changed.lock().expect("no panic").insert(name);
            if let Err(problem) = outcome {
                problems.lock().expect("no panic").push(format!("{} without {name}: {problem}", cases[i].name));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let problems = problems.into_inner().expect("no panic");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    changed.into_inner().expect("no panic")
}

#[test]
fn whatever_is_left_out_changes_a_program_and_no_result() {
    let (special, general): (Vec<Case>, Vec<Case>) = Case::all().into_iter().partition(|case| case.special);
    let names = || switches().into_iter().map(|s| s.name).chain(groups().into_iter().map(|g| g.0));
    let idle =
        |changed: &BTreeSet<&str>| -> Vec<&'static str> { names().filter(|name| !changed.contains(name)).collect() };
    let mut changed = leave_out(&general, &names().collect::<Vec<_>>());
    changed.extend(small_programs_change());
    changed.extend(leave_out(&special, &idle(&changed)));
    let idle = idle(&changed);
    assert!(idle.is_empty(), "no program changes without {}", idle.join(", "));
}

/// What no model of the tests shows: `x * 1 + x`, and sums of thousands of elements. The names without which a program
/// changes and its result does not.
fn small_programs_change() -> impl Iterator<Item = &'static str> {
    let mut neutral = cases::Case::default();
    let x = neutral.b.input("x", DType::F32, &[Dim::Const(64)]);
    neutral.bind("x", cases::bytes(&(0..64).map(|i| i as f32 - 30.5).collect::<Vec<_>>()));
    neutral.output("y", &(&(&x * 1.0) + &x));
    let long = cases::programs::a_sum_longer_than_a_panel();
    let of_neutral = changing(&neutral, Numerics::Exact, 0.0, &["neutral", "expand"]);
    of_neutral.into_iter().chain(changing(&long, Numerics::Int8, 1e-3, &["panels"]))
}

/// The names without which the kernels of a program change; its results must be right in any case.
fn changing(case: &cases::Case, numerics: Numerics, most: f64, names: &[&'static str]) -> Vec<&'static str> {
    let sources = |without: &[&str]| -> Vec<String> {
        let mut options = Options::cpu(numerics, 64);
        options.without = without.iter().map(|name| (*name).to_owned()).collect();
        let kernels = case.check(&options, most).expect("a program").program.kernels;
        kernels.iter().map(|kernel| kernel.source.clone()).collect()
    };
    let with = sources(&[]);
    names.iter().copied().filter(|name| sources(&[name]) != with).collect()
}
