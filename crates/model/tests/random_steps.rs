//! Random legal plans, cuts and orders of loops on the steps of every family leave their logits equal, in the interpreter.

use crate::support::{nmse, synth, tokens};
use compiler::{Cuts, Numerics, Options};
use device::Interpreter;
use gguf::Gguf;
use model::cache::CacheKind;
use model::engine::{Engine, EngineOptions};
use model::step::Class;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use testkit::cases::{Random, random_plan, times};

/// Plans that are tried, each on some steps of one of the models.
const SEEDS: u64 = 20;

/// NMSE of sums in another order.
const EXACT: f64 = 1e-9;

/// NMSE where codes of 8 bits fall to either side, or tokens are multiplied in bf16 instead.
const INT8: f64 = 3e-3;

/// The same with experts, of which others may be chosen.
const INT8_MIXTURE: f64 = 2e-2;

/// Lengths of the steps: long enough to be read by runs or many tokens, few, and one.
const STEPS: [[(usize, Class); 3]; 2] =
    [[(64, Class::Prompt), (2, Class::Few), (1, Class::One)], [(9, Class::Many), (2, Class::Few), (1, Class::One)]];

/// A model and its numerics.
struct Case {
    shape: &'static str,
    file: Arc<Gguf>,
    numerics: Numerics,
    cache: CacheKind,
    most: f64,
}

impl Case {
    /// Formats differ too, as kernels unpack them.
    fn all() -> Vec<Case> {
        let (exact, int8) = (Numerics::Exact, Numerics::Int8);
        let (f32, f16, q8_0) = (CacheKind::F32, CacheKind::F16, CacheKind::Q8_0);
        let case = |(shape, quant, layers, numerics, cache)| {
            let mixture = ["tiny-qwen3moe", "tiny-mla-moe"].contains(&shape);
            let most = match numerics {
                Numerics::Exact => EXACT,
                Numerics::Int8 if mixture => INT8_MIXTURE,
                Numerics::Int8 => INT8,
            };
            Case { shape, file: synth(shape, quant, Some(layers)), numerics, cache, most }
        };
        let all = [
            ("tiny-llama", "q4_0", 1, exact, f16),
            ("tiny-llama", "q4_k_m", 1, int8, q8_0),
            ("tiny-qwen3moe", "q4_0", 1, exact, f32),
            ("tiny-qwen3moe", "q4_0", 1, int8, f16),
            ("tiny-glm4", "q5_k_m", 1, exact, f32),
            ("tiny-glm4", "q4_0", 1, int8, f16),
            ("tiny-mla-dense", "q4_k_m", 1, exact, f32),
            ("tiny-mla-dense", "q4_0", 1, int8, q8_0),
            ("tiny-mla-moe", "q4_0", 2, exact, f32),
            ("tiny-mla-moe", "q4_0", 2, int8, f16),
        ];
        all.map(case).into_iter().collect()
    }

    /// Logits of the last rows of each step.
    fn logits(&self, steps: &[(usize, Class)], compiler: Options) -> Result<Vec<f32>, String> {
        let options = EngineOptions { compiler, context: 80, chunk: 64, cache: self.cache };
        let mut engine =
            Engine::new(self.file.clone(), Arc::new(Interpreter::default()), options).map_err(|e| e.to_string())?;
        let all = tokens(steps.iter().map(|step| step.0).sum(), engine.config().vocab as u32, 5);
        let (mut out, mut at) = (vec![], 0);
        for &(n, class) in steps {
            assert_eq!(engine.class_of(n, at), class, "{}", self.shape);
            let step = engine.step(&all[at..at + n], at, n - n.min(2)..n);
            out.extend_from_slice(step.map_err(|e| e.to_string())?);
            at += n;
        }
        Ok(out)
    }

    /// What a seed makes of the compiler.
    fn options(&self, seed: u64) -> Options {
        let mut random = Random(seed);
        let mut plan = random_plan(&mut random);
        // The interpreter takes half a minute for scalar kernels of a prompt.
        plan.vector_bytes = plan.vector_bytes.max(16);
        let cuts = if random.below(4) == 0 { Cuts::Sized } else { Cuts::Random(random.bits()) };
        Options::cpu(self.numerics, 64).with_cpu(|cpu| (cpu.plan, cpu.cuts) = (plan, cuts))
    }
}

#[test]
fn random_plans_and_cuts_of_a_step_give_the_same() {
    let cases = Case::all();
    let want: Vec<OnceLock<Vec<f32>>> = (0..STEPS.len() * cases.len()).map(|_| OnceLock::new()).collect();
    let next = AtomicU64::new(0);
    let problem = |seed: u64| {
        let i = seed as usize % want.len();
        let (case, steps) = (&cases[i % cases.len()], &STEPS[i / cases.len()]);
        let options = case.options(seed);
        let default = || case.logits(steps, Options::cpu(case.numerics, 64)).expect(case.shape);
        let want = want[i].get_or_init(default);
        let start = Instant::now();
        let got = case.logits(steps, options.clone());
        let error = got.as_ref().map_or(f64::NAN, |got| nmse(got, want));
        println!("seed {seed}, {} {:?}: NMSE {error:.1e}, {:.1?}", case.shape, case.numerics, start.elapsed());
        // Written so that NaN fails.
        let close = error <= case.most;
        let why = got.err().unwrap_or(format!("NMSE {error:.2e}"));
        (!close).then(|| format!("seed {seed}, {} {:?}: {why} by {options:?}", case.shape, case.numerics))
    };
    let worker = || {
        let seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        seeds.take_while(|&seed| seed < SEEDS * times()).filter_map(problem).collect::<Vec<String>>()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let problems: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
