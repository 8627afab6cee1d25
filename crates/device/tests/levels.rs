//! The C of every kernel of a set of programs, at every instruction level:
//! those of this machine with gcc and with clang, and those of AArch64 with a
//! cross compiler under emulation. Kernels compile without warnings and agree
//! with the interpreter.

use compiler::cpu::plan::Plan;
use compiler::{Numerics, Options};
use device::Isa;
use device::cpu::toolchain::FLAGS;
use std::path::Path;
use testkit::cases::programs;
use testkit::standalone::Standalone;
use testkit::standalone::builder::{Builder, find};

/// NMSE that contracted products and sums may make.
const EXACT: f64 = 1e-11;

/// As [`EXACT`], where it may move an activation by a code.
const INT8: f64 = 1e-5;

/// Levels that differ from one before them in dots of integers alone, which `exact` has none of.
const DOTS_ALONE: [Isa; 4] = [Isa::AvxVnni, Isa::Avx512Vnni, Isa::NeonDot, Isa::NeonI8mm];

/// All programs, under both policies where that makes a difference.
fn programs_for(isa: Isa) -> Standalone {
    let mut all = Standalone::default();
    let policies = [(Numerics::Exact, EXACT), (Numerics::Int8, INT8)];
    for (numerics, most) in policies.into_iter().skip(usize::from(DOTS_ALONE.contains(&isa))) {
        let mut options = Options::cpu(numerics, 0);
        // No kernel makes the codes of its input beside its sums: vectors of 256 bytes, on which gcc takes seconds.
        options.prices.repeat = 0;
        let vector = Plan {
            vector_bytes: isa.vector_bytes(),
            rows: 2,
            stream_rows: 2,
            chains: 2,
            prefetch_l2: 64,
            prefetch_l1: 64,
            tokens: 4,
            row_vectors: 2,
            matrix_unit: false,
            dots: true,
            pairs: matches!(isa, Isa::Avx2 | Isa::Avx512),
            hadd: true,
            packed_scales: true,
            blends: true,
            interleave: true,
            stream_below: 9,
            panels: true,
            transposed_map: true,
        };
        options.on_cpu(|cpu| cpu.plan = if isa == Isa::Scalar { Plan::scalar() } else { vector });
        for (name, case) in programs::all() {
            let name = format!("{name}, {numerics:?}");
            let c = case.compile(&options).unwrap_or_else(|e| panic!("{name}: {e}"));
            all.add(&name, &case, &c, most).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    all
}

/// Builds the programs for a level and runs them.
fn check(builder: &Builder<'_>, isa: Isa) {
    let name = builder.compiler.file_name().expect("a file").to_string_lossy();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("levels-{name}-{isa}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, data, kernels) = programs_for(isa).finish();
    std::fs::write(folder.join("data"), data).expect("data");
    builder.build(&folder, &[&FLAGS[..], isa.flags()].concat(), &source);
    let ran = builder.run(&folder, &["data"]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{name} at {isa}: {}\n{said}", ran.status);
    println!("levels: {kernels} kernels agree at {isa} with {name}");
}

/// The levels of this machine, with a compiler if it is there.
fn native(compiler: &str) {
    match find(compiler) {
        Some(path) => {
            let builder = Builder { compiler: &path, run: &[], flags: &[] };
            Isa::available().into_iter().for_each(|isa| check(&builder, isa));
        }
        None => println!("levels: {compiler} is not installed: nothing ran"),
    }
}

#[test]
fn gcc_at_every_level_of_this_machine() {
    native("gcc");
}

#[test]
fn clang_at_every_level_of_this_machine() {
    native("clang");
}

#[test]
fn aarch64_under_emulation() {
    match (find("aarch64-linux-gnu-gcc"), find("qemu-aarch64")) {
        (Some(compiler), Some(emulator)) => {
            let run = [emulator.to_str().expect("a path in UTF-8"), "-cpu", "max"];
            let builder = Builder { compiler: &compiler, run: &run, flags: &["-static"] };
            [Isa::Neon, Isa::NeonDot, Isa::NeonI8mm].into_iter().for_each(|isa| check(&builder, isa));
        }
        _ => println!("levels: aarch64-linux-gnu-gcc or qemu-aarch64 is not installed: nothing ran"),
    }
}
