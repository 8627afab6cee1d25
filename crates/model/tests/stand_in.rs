//! Steps whose program is not compiled yet: another stands in, and hands over.

use crate::support::{self, cpu, synth, tokens, worst_row};
use compiler::Numerics;
use compiler::program::Program;
use device::{Clock, CompileReport, Cpu, Device, Error, Executable, Memory, Profile, Result, Stop};
use gguf::Gguf;
use model::batch::Batch;
use model::cache::CacheKind;
use model::engine::readiness::State;
use model::engine::{Engine, EngineOptions, Sharing};
use model::step::{Class, Output, Variant};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const VOCAB: usize = 512;

/// Programs that sum in another order.
const NMSE: f64 = 1e-9;

/// Never, for a test.
const LONG: Duration = Duration::from_secs(300);

/// When kernels are compiled beside steps.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    /// Steps that have run.
    steps: AtomicUsize,
    /// Opens it after so many.
    opens_at: usize,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().expect("no panic") = true;
        self.opened.notify_all();
    }
}

/// A processor that keeps no programs, and whose compilers beside steps wait at a gate.
struct Gated(Arc<Cpu>, Arc<Gate>);

impl Device for Gated {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Counted(self.0.load(program, memory)?, self.1.clone())))
    }

    fn compiles_beside(&self) -> bool {
        self.0.compiles_beside()
    }

    fn compile_beside(&self, program: &Arc<Program>, stop: &Stop) -> Result<CompileReport> {
        let mut open = self.1.open.lock().expect("no panic");
        while !*open {
            if stop() {
                return Err(Error::Stopped);
            }
            open = self.1.opened.wait_timeout(open, Duration::from_millis(1)).expect("no panic").0;
        }
        drop(open);
        self.0.compile_beside(program, stop)
    }
}

struct Counted(Box<dyn Executable>, Arc<Gate>);

impl Executable for Counted {
    fn program(&self) -> &Program {
        self.0.program()
    }

    fn report(&self) -> &CompileReport {
        self.0.report()
    }

    fn run(&mut self, memory: &mut Memory, vars: &[i64]) -> Result<()> {
        let steps = self.1.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if self.1.opens_at > 0 && steps >= self.1.opens_at {
            self.1.open();
            // Slow enough that what is compiled then comes before the end.
            std::thread::sleep(Duration::from_millis(100));
        }
        self.0.run(memory, vars)
    }

    fn run_profiled(&mut self, memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile> {
        self.0.run_profiled(memory, vars, clock)
    }
}

fn engine(file: &Arc<Gguf>, device: Arc<dyn Device>) -> Engine {
    let compiler = support::options(Numerics::Exact);
    let options = EngineOptions { compiler, context: 256, chunk: 192, cache: CacheKind::F32 };
    Engine::shared(
        file.clone(),
        device,
        options,
        Sharing { sequences: 3, positions: 512, rows: None, whole_windows: false },
    )
    .expect("an engine")
}

/// Two sequences in one step: a prompt behind what is there already, and one that begins.
fn ragged(engine: &Engine, output: Output) -> Batch {
    let mut batch = Batch::new(engine.limits());
    batch.set_output(output);
    batch.add(&tokens(20, VOCAB as u32, 3), 60, &[5, 0]).expect("room");
    batch.want(18..20);
    batch.add(&tokens(11, VOCAB as u32, 4), 0, &[2]).expect("room");
    batch.want(20..21);
    batch.want_last();
    batch
}

fn first(engine: &mut Engine) -> Vec<f32> {
    let mut batch = Batch::new(engine.limits());
    batch.add(&tokens(60, VOCAB as u32, 2), 0, &[5]).expect("room");
    batch.want(0..60);
    engine.run(&batch).expect("a step").to_vec()
}

#[test]
fn a_stand_in_computes_the_same_until_the_own_program_is_there() {
    for shape in ["tiny-llama", "tiny-mla-moe"] {
        let file = synth(shape, "q4_0", None);
        let mut waits = engine(&file, cpu(2));
        let want = first(&mut waits);
        let batch = ragged(&waits, Output::Logits);
        let want_ragged = waits.run(&batch).expect("a step").to_vec();

        let gate = Arc::new(Gate::default());
        let mut early = engine(&file, Arc::new(Gated(cpu(2), gate.clone())));
        let (tell, told) = channel();
        early.answer_early(move |variant, _| tell.send(variant).unwrap_or_default());
        let got = first(&mut early);
        assert_eq!((got.len(), early.readiness().stood_in()), (60 * VOCAB, 60), "{shape}: one by one");
        assert!(worst_row(&got, &want, VOCAB) <= NMSE, "{shape}");
        let got = early.run(&batch).expect("a step").to_vec();
        assert_eq!((got.len(), early.readiness().stood_in()), (4 * VOCAB, 91), "{shape}: rows in their order");
        assert!(worst_row(&got, &want_ragged, VOCAB) <= NMSE, "{shape}");
        let programs = early.readiness().programs();
        assert_eq!(programs[0], (Class::One.into(), State::Ready), "{shape}");
        assert!(programs[1..].iter().all(|(_, state)| *state == State::Compiling) && programs.len() > 1, "{shape}");

        gate.open();
        let class = batch.variant();
        let ready = || early.readiness().programs().contains(&(class, State::Ready));
        let began = std::time::Instant::now();
        while !ready() {
            assert!(began.elapsed() < LONG, "{shape}: it is compiled");
            std::thread::sleep(Duration::from_millis(5));
        }
        let got = early.run(&batch).expect("a step").to_vec();
        assert_eq!(early.readiness().stood_in(), 91, "{shape}: nobody stands in any more");
        // The cache was computed by another program, the step was not.
        assert!(worst_row(&got, &want_ragged, VOCAB) <= NMSE, "{shape}");
        assert!(told.try_iter().any(|variant| variant == class), "{shape}: it is told of");
    }
}

#[test]
fn the_rest_of_a_step_is_run_by_its_own_program() {
    let file = synth("tiny-llama", "q4_0", None);
    let mut waits = engine(&file, cpu(2));
    let want = first(&mut waits);
    // So that compiling beside the steps takes no longer than some of them.
    let gate = Arc::new(Gate { opens_at: 5, ..Gate::default() });
    let mut early = engine(&file, Arc::new(Gated(cpu(2), gate.clone())));
    early.answer_early(|_, _| ());
    let got = first(&mut early);
    let alone = early.readiness().stood_in();
    assert!((5..60).contains(&alone), "{alone} one by one");
    assert_eq!(gate.steps.load(Ordering::Relaxed) as u64, alone + 1, "and the others together");
    assert!(worst_row(&got, &want, VOCAB) <= NMSE);
}

#[test]
fn hidden_states_have_a_stand_in_of_their_own() {
    let file = synth("tiny-llama", "q4_0", None);
    let (mut waits, gate) = (engine(&file, cpu(2)), Arc::new(Gate::default()));
    let mut early = engine(&file, Arc::new(Gated(cpu(2), gate)));
    early.answer_early(|_, _| ());
    let both = [&mut waits, &mut early].map(|engine| {
        first(engine);
        let batch = ragged(engine, Output::Hidden);
        engine.run(&batch).expect("a step").to_vec()
    });
    let [want, got] = both;
    assert_eq!(early.readiness().stood_in(), 91);
    assert!(worst_row(&got, &want, want.len() / 4) <= NMSE);
}

#[test]
fn an_engine_whose_results_must_not_depend_on_it_waits() {
    let file = synth("tiny-llama", "q4_0", None);
    let mut early = engine(&file, Arc::new(Gated(cpu(2), Arc::new(Gate::default()))));
    early.make_batch_invariant();
    early.answer_early(|_, _| ());
    first(&mut early);
    assert_eq!(early.readiness().stood_in(), 0);
    let any = Variant::from(Class::Any);
    assert_eq!(early.readiness().programs(), [(any, State::Ready)]);
}

/// A processor where nothing compiles kernels, and which has those of steps of few tokens.
struct Short(Arc<Cpu>, Arc<Gate>);

impl Short {
    fn refused(program: &Program) -> Result<()> {
        match program.many_tokens {
            true => Err(Error::NotBuilt {
                missing: 1,
                kernels: program.kernels.len(),
                target: "this machine".into(),
                source: Box::new(Error::NoCompiler { looked_for: "cc".into() }),
            }),
            false => Ok(()),
        }
    }
}

impl Device for Short {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> Result<Box<dyn Executable>> {
        Short::refused(&program)?;
        Ok(Box::new(Counted(self.0.load(program, memory)?, self.1.clone())))
    }

    fn compiles_beside(&self) -> bool {
        true
    }

    fn compile_beside(&self, program: &Arc<Program>, stop: &Stop) -> Result<CompileReport> {
        Short::refused(program)?;
        self.0.compile_beside(program, stop)
    }
}

#[test]
fn where_nothing_compiles_programs_of_few_tokens_stand_in_for_good() {
    let file = synth("tiny-llama", "q4_0", None);
    let want = first(&mut engine(&file, cpu(2)));
    let gate = Arc::new(Gate::default());
    let mut short = engine(&file, Arc::new(Short(cpu(2), gate.clone())));
    let (tell, told) = channel();
    short.answer_early(move |variant, made| {
        tell.send((variant, made.is_err_and(|error| error.is_not_built()))).unwrap_or_default();
    });
    let began = std::time::Instant::now();
    while !short.readiness().programs().contains(&(Class::Few.into(), State::Ready)) {
        assert!(began.elapsed() < LONG, "that of few tokens comes");
        assert!(worst_row(&first(&mut short), &want, VOCAB) <= NMSE);
    }
    let before = gate.steps.load(Ordering::Relaxed);
    assert!(worst_row(&first(&mut short), &want, VOCAB) <= NMSE);
    assert_eq!(gate.steps.load(Ordering::Relaxed) - before, 60_usize.div_ceil(8), "eight tokens at a time");
    let told: Vec<_> = told.try_iter().collect();
    let refused: Vec<_> = told.iter().filter(|(_, refused)| *refused).map(|(variant, _)| variant.class).collect();
    assert!(matches!(refused[..], [Class::Many | Class::Prompt]), "asked for once: {told:?}");
    // Who asks for the program itself hears why there is none.
    let error = short.prepare(refused[0]).expect_err("no kernels").to_string();
    assert!(error.contains("no C compiler found"), "{error}");
}
