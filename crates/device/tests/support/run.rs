//! Steps of cases on a device.

use compiler::Compiled;
use compiler::program::BufferKind;
use device::{Device, Result};
use ir::DType;
use std::sync::Arc;
use testkit::cases::{Case, nmse};

/// A step of a case on a device: the values of its outputs and states.
pub fn run(device: &dyn Device, case: &Case, compiled: &Compiled) -> Result<Vec<Vec<f32>>> {
    let program = Arc::new(compiled.program.clone());
    let mut memory = device.memory();
    for buffer in &program.buffers {
        if let BufferKind::Weight(name) | BufferKind::Planes { name, .. } = &buffer.kind {
            memory.copy_weight(name.as_str(), &case.data[name])?;
        }
    }
    let mut step = device.load(program.clone(), &mut memory)?;
    for buffer in &program.buffers {
        match &buffer.kind {
            BufferKind::Input(name) => {
                let data = &case.data[name];
                memory.input_mut::<u8>(name)?[..data.len()].copy_from_slice(data);
            }
            BufferKind::State(name) => memory.write_state(name, 0, &case.data[name])?,
            _ => {}
        }
    }
    let value = |name: &str| case.vars.iter().find(|var| var.0 == name).map_or(1, |var| var.1);
    let vars: Vec<i64> = program.vars.iter().map(|var| value(&var.name)).collect();
    step.run(&mut memory, &vars)?;
    let floats = |ty: DType, bytes: &[u8]| {
        ir::interp::Tensor { ty, dims: vec![bytes.len() / ty.bytes()], bytes: bytes.to_vec() }.floats()
    };
    let mut all = vec![];
    for (name, t) in &case.outs {
        all.push(floats(t.dtype(), memory.output::<u8>(name)?));
    }
    for (name, t) in &case.effects {
        all.push(floats(t.dtype(), &memory.read_state::<u8>(name)?));
    }
    Ok(all)
}

/// Runs a case on a device and compares; `most` is the NMSE that is allowed.
pub fn check(device: &dyn Device, case: &Case, compiled: &Compiled, most: f64) -> std::result::Result<(), String> {
    let got = run(device, case, compiled).map_err(|error| error.to_string())?;
    for ((output, want), got) in case.expected(compiled)?.iter().zip(got) {
        let error = nmse(&got[..want.len()], want);
        // Written so that NaN fails.
        let close = error <= most;
        if !close {
            return Err(format!("{output} has NMSE {error:.2e}"));
        }
    }
    Ok(())
}
