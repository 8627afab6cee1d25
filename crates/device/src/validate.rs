//! Checks a program against its contract before anything is compiled or run.

use std::collections::HashSet;

use compiler::program::{Buffer, BufferKind, Count, Launch, Program};

use crate::cpu::stage_queue::MAX_UNITS;
use crate::error::{Error, Result};

/// Bytes of scratch of the launch that needs most, where each of its tasks has its own.
///
/// # Errors
/// Those of [`tasks`].
pub fn scratch(program: &Program, vars: &[i64]) -> Result<usize> {
    let mut most = 0;
    for launch in program.each_launch() {
        let each = program.kernels[launch.kernel].geometry.scratch_bytes;
        most = most.max(tasks(program, launch, vars)? as usize * each);
    }
    Ok(most)
}

/// The number of tasks of a launch for these variables.
///
/// # Errors
/// [`Error::TaskCount`] if it is negative or overflows.
pub fn tasks(program: &Program, launch: &Launch, vars: &[i64]) -> Result<i64> {
    match launch.tasks.eval(vars) {
        Some(tasks) if tasks >= 0 => Ok(tasks),
        _ => Err(Error::TaskCount { program: program.name.clone(), origin: launch.origin.clone() }),
    }
}

/// Checks that the values of the variables are those the program was made for.
pub fn vars(program: &Program, vars: &[i64]) -> Result<()> {
    if vars.len() != program.vars.len() {
        return Err(Error::VariableCount {
            program: program.name.clone(),
            expected: program.vars.len(),
            got: vars.len(),
        });
    }
    for (variable, &value) in program.vars.iter().zip(vars) {
        if value < variable.min || value > variable.max {
            return Err(Error::VariableRange {
                program: program.name.clone(),
                variable: variable.name.clone(),
                value,
                min: variable.min,
                max: variable.max,
            });
        }
    }
    Ok(())
}

/// Checks everything that does not depend on the values of variables.
pub fn program(program: &Program) -> Result<()> {
    let malformed = |reason: String| Error::Malformed { program: program.name.clone(), reason };
    for variable in &program.vars {
        if variable.min > variable.max {
            return Err(malformed(format!("variable {} has no legal value", variable.name)));
        }
    }
    let mut symbols = HashSet::new();
    for kernel in &program.kernels {
        if !is_identifier(&kernel.symbol) {
            return Err(malformed(format!("'{}' is no C name", kernel.symbol)));
        }
        if !symbols.insert(kernel.symbol.as_str()) {
            return Err(malformed(format!("two kernels named {}", kernel.symbol)));
        }
    }
    for buffer in &program.buffers {
        let fits = match &buffer.kind {
            BufferKind::Arena(offset) => offset.checked_add(buffer.bytes).is_some_and(|end| end <= program.arena_bytes),
            BufferKind::Const(bytes) => buffer.bytes <= bytes.len(),
            _ => true,
        };
        if !fits {
            return Err(malformed(format!(
                "buffer {} of {} bytes does not fit where it is placed",
                buffer.name, buffer.bytes
            )));
        }
    }
    for stage in &program.stages {
        if stage.launches.len() > MAX_UNITS as usize {
            return Err(malformed("a stage with more than 65535 launches".into()));
        }
        for launch in &stage.launches {
            check_launch(program, launch).map_err(malformed)?;
        }
    }
    Ok(())
}

/// Checks that all weights are read as files have them.
pub fn rows_of_files(program: &Program) -> Result<()> {
    match program.buffers.iter().find(|buffer| matches!(buffer.kind, BufferKind::Planes { .. })) {
        None => Ok(()),
        Some(Buffer { name, .. }) => Err(Error::Malformed {
            program: program.name.clone(),
            reason: format!("{name} is to be repacked, which is for GPUs: compile for a CPU"),
        }),
    }
}

fn check_launch(program: &Program, launch: &Launch) -> std::result::Result<(), String> {
    let origin = &launch.origin;
    if launch.kernel >= program.kernels.len() {
        return Err(format!("{origin} uses kernel {}", launch.kernel));
    }
    if let Some(arg) = launch.args.iter().find(|&&i| i >= program.buffers.len()) {
        return Err(format!("{origin} uses buffer {arg}"));
    }
    for count in [&launch.tasks, &launch.bytes] {
        check_count(program, count).map_err(|reason| format!("{origin}: {reason}"))?;
    }
    Ok(())
}

fn check_count(program: &Program, count: &Count) -> std::result::Result<(), String> {
    match count {
        Count::Const(_) => Ok(()),
        Count::Var(index) if *index < program.vars.len() => Ok(()),
        Count::Var(index) => Err(format!("a count uses variable {index}")),
        Count::Add(a, b) | Count::Mul(a, b) | Count::Min(a, b) => {
            check_count(program, a)?;
            check_count(program, b)
        }
        Count::CeilDiv(_, divisor) if *divisor < 1 => Err(format!("a count is divided by {divisor}")),
        Count::CeilDiv(a, _) => check_count(program, a),
    }
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use compiler::program::{Kernel, Stage, Variable};

    fn sound() -> Program {
        Program {
            name: "test".into(),
            vars: vec![Variable { name: "T".into(), min: 1, max: 8 }],
            buffers: vec![Buffer { kind: BufferKind::Arena(64), bytes: 64, name: "x".into() }],
            arena_bytes: 128,
            kernels: vec![Kernel::of_source("k0", "", 0)],
            stages: vec![Stage {
                launches: vec![Launch {
                    kernel: 0,
                    args: vec![0],
                    tasks: Count::Var(0),
                    origin: "layer 0 norm".into(),
                    ..Launch::default()
                }],
            }],
            ..Program::default()
        }
    }

    #[test]
    fn each_breach_is_named() {
        program(&sound()).unwrap();
        let breach = |change: &dyn Fn(&mut Program), expected: &str| {
            let mut broken = sound();
            change(&mut broken);
            let error = program(&broken).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        breach(&|p| p.vars[0].min = 9, "T has no legal value");
        breach(&|p| p.kernels[0].symbol = "a-b".into(), "'a-b' is no C name");
        breach(&|p| p.kernels.push(p.kernels[0].clone()), "two kernels named k0");
        breach(&|p| p.arena_bytes = 100, "buffer x");
        breach(&|p| p.buffers[0].kind = BufferKind::Arena(usize::MAX), "buffer x");
        breach(&|p| p.buffers[0].kind = BufferKind::Const(vec![0; 3]), "buffer x");
        breach(&|p| p.stages[0].launches[0].kernel = 1, "kernel 1");
        breach(&|p| p.stages[0].launches[0].args[0] = 7, "buffer 7");
        breach(&|p| p.stages[0].launches[0].tasks = Count::Var(1), "layer 0 norm: a count uses variable 1");
        breach(&|p| p.stages[0].launches[0].bytes = Count::CeilDiv(Box::new(Count::Const(1)), 0), "divided by 0");
    }
}
