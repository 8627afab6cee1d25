//! `--debug 1..6`: what the compiler made of a step.

use crate::terminal;
use compiler::Compiled;
use compiler::program::Geometry;
use model::step::Class;
use std::fmt::Write;

/// The level of [`text`] that has all but what kernels are written in.
pub const DECISIONS: u8 = 3;

/// The level that the device adds to those of [`text`].
pub const ASSEMBLY: u8 = 6;

/// Prints everything up to a level but [`ASSEMBLY`].
pub fn print(class: Class, compiled: &Compiled, level: u8) {
    terminal::lines(text(class, compiled, level).trim_end());
}

/// What a launch has to provide, in words.
fn geometry(of: Geometry) -> String {
    let block = match of.threads {
        1 => String::new(),
        threads => format!("{threads} threads, {} bytes shared, ", of.shared_bytes),
    };
    format!("{block}scratch {} bytes", of.scratch_bytes)
}

/// Everything up to a level: 1 schedule, 2 kernels, 3 decisions, 4 source, 5 IR.
pub fn text(class: Class, compiled: &Compiled, level: u8) -> String {
    let program = &compiled.program;
    let mut out = String::new();
    let name = &program.name;
    let _ = writeln!(
        out,
        "program {name} ({class:?}): {} kernels, {} launches, {} stages, arena {} bytes",
        program.kernels.len(),
        program.launches(),
        program.stages.len(),
        program.arena_bytes
    );
    for (i, stage) in program.stages.iter().enumerate() {
        for launch in &stage.launches {
            let kernel = &program.kernels[launch.kernel].symbol;
            let _ = writeln!(out, "stage {i}: {kernel} x {:?} <- {}", launch.tasks, launch.origin);
        }
    }
    if level >= 2 {
        for (kernel, body) in program.kernels.iter().zip(&compiled.bodies) {
            let paths = body.paths().join(", ");
            let _ = writeln!(out, "kernel {}: {paths}; {}", kernel.symbol, geometry(kernel.geometry));
        }
    }
    if level >= DECISIONS {
        let _ = writeln!(out, "{}", compiled.log);
    }
    if level >= 4 {
        program.kernels.iter().for_each(|kernel| out.push_str(&kernel.source));
    }
    if level >= 5 {
        for (kernel, body) in program.kernels.iter().zip(&compiled.bodies) {
            let _ = writeln!(out, "IR of {}:\n{}", kernel.symbol, ir::print::kernel(&compiled.graph, body.root));
        }
    }
    out
}
