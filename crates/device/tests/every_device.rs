//! What every device has to do alike: the same cases on each.

use crate::run;
use crate::support::{Folder, cpu};
use compiler::{Numerics, Options, dims};
use device::{Device, Error, Interpreter};
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
    programs_mean_what_their_operations_do, a_step_may_run_again, variables_have_bounds);

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
