//! What every device has to do alike: the same cases on each.

use crate::run;
use crate::support::{Folder, cpu};
use compiler::{Numerics, Options, dims};
use device::{Beside, Device, Error, Interpreter};
use ir::DType;
use std::sync::Arc;
use testkit::cases::{Case, programs};

/// NMSE of another order of sums.
const EXACT: f64 = 1e-11;

/// NMSE of activations of 8 bits.
const INT8: f64 = 1e-3;

/// A device, what its programs are compiled by, and the folder that lives as long.
struct Subject {
    device: Box<dyn Device>,
    options: fn(Numerics) -> Options,
    numerics: &'static [(Numerics, f64)],
    programs: fn(&str) -> bool,
    _folder: Option<Folder>,
}

const BOTH: &[(Numerics, f64)] = &[(Numerics::Exact, EXACT), (Numerics::Int8, INT8)];

fn open(name: &str) -> Option<Arc<Subject>> {
    let subject = |device: Interpreter, options| Subject {
        device: Box::new(device),
        options,
        numerics: BOTH,
        programs: |_| true,
        _folder: None,
    };
    Some(Arc::new(match name {
        "interpreter" => subject(Interpreter::default(), |numerics| Options::cpu(numerics, 32)),
        "blocks" => subject(Interpreter::of_blocks(), Options::gpu),
        "apart" => Subject { numerics: &BOTH[1..], ..subject(Interpreter::of_blocks().apart(), Options::gpu) },
        _ => {
            let folder = Folder::new();
            Subject {
                device: Box::new(cpu(&folder, 2)),
                options: |numerics| Options::cpu(numerics, 0),
                numerics: &BOTH[..1],
                // Products at every level are in levels.rs.
                programs: |name| !name.starts_with("a product"),
                _folder: Some(folder),
            }
        }
    }))
}

testkit::devices!(crate::every_device::open: cpu, interpreter, blocks, apart;
    programs_mean_what_their_operations_do, a_step_may_run_again, variables_have_bounds, parts_of_states_wait_beside_it);

fn cases(subject: &Subject) -> Vec<(String, Case)> {
    programs::all().into_iter().filter(|(name, _)| (subject.programs)(name)).collect()
}

fn programs_mean_what_their_operations_do(subject: &Subject) {
    for (name, case) in cases(subject) {
        for &(numerics, most) in subject.numerics {
            let compiled = case.compile(&(subject.options)(numerics)).expect("a program");
            run::check(&*subject.device, &case, &compiled, most).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}

fn a_step_may_run_again(subject: &Subject) {
    let (name, case) = cases(subject).swap_remove(0);
    let compiled = case.compile(&(subject.options)(Numerics::Exact)).expect("a program");
    let mut bits = (0..2).map(|_| {
        let values = run::run(&*subject.device, &case, &compiled).expect("a step");
        values.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    });
    assert_eq!(bits.next(), bits.next(), "{name}");
}

fn variables_have_bounds(subject: &Subject) {
    let mut case = Case::default();
    let n = case.b.var("n", 1, 64);
    let x = case.b.input("x", DType::F32, dims![n]);
    case.output("y", &(&x + &x));
    let compiled = case.compile(&(subject.options)(Numerics::Exact)).expect("a program");
    let program = Arc::new(compiled.program);
    let mut memory = subject.device.memory();
    let mut step = subject.device.load(program.clone(), &mut memory).expect("a program");
    let most = program.vars[0].max;
    assert!(matches!(step.run(&mut memory, &[most + 1]), Err(Error::VariableRange { .. })));
    assert!(matches!(step.run(&mut memory, &[1, 1]), Err(Error::VariableCount { got: 2, .. })));
    step.run(&mut memory, &[most]).expect("a step");
}

fn parts_of_states_wait_beside_it(subject: &Subject) {
    let mut case = Case::default();
    let cache = case.b.state("cache", DType::F32, dims![8, 32]);
    case.output("y", &(&cache + &cache));
    let compiled = case.compile(&(subject.options)(Numerics::Exact)).expect("a program");
    let mut memory = subject.device.memory();
    let step = subject.device.load(Arc::new(compiled.program), &mut memory);
    step.expect("a program").run(&mut memory, &[]).expect("a step");
    let rows: Vec<f32> = (0..8 * 32).map(|i| i as f32).collect();
    memory.write_state("cache", 0, &rows).expect("a device");
    let row = |at: usize| at * 128..(at + 1) * 128;
    let mut beside = Beside::new(&**memory.heap(), 256, "two rows").expect("memory");
    memory.move_out("cache", row(3), &mut beside, 128).expect("a device");
    memory.clear_state("cache", row(3)).expect("a device");
    memory.move_in("cache", row(6), &beside, 128).expect("a device");
    let moved = memory.read_state::<f32>("cache").expect("a device");
    let row = |at: usize| at * 32..(at + 1) * 32;
    assert_eq!((&moved[row(3)], &moved[row(6)], &moved[row(5)]), (&[0.0; 32][..], &rows[row(3)], &rows[row(5)]));
    for (range, at) in [(960..1088, 0), (0..128, 129), (0..128, usize::MAX)] {
        let refused = memory.move_out("cache", range.clone(), &mut beside, at);
        assert!(matches!(refused, Err(Error::OutOfReach { .. })), "{refused:?}");
        assert!(matches!(memory.move_in("cache", range, &beside, at), Err(Error::OutOfReach { .. })));
    }
}
