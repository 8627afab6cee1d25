//! What the machine can do at most, measured for who asks for it, under the machine-wide lock. Nothing of it is kept: it
//! would be a number of another hour.

use crate::arguments::MeasureFlags;
use crate::terminal;
use anyhow::bail;
use device::cpu::bandwidth::{self, Peaks, READ_BYTES, Reader};
use device::{Cpu, MachineLock};
use devices::Machine;

/// Takes the lock of measurements; says for whom it waits.
pub fn lock(flags: &MeasureFlags) -> anyhow::Result<MachineLock> {
    let path = flags.lock.clone().unwrap_or_else(MachineLock::default_path);
    let lock = MachineLock::acquire(&path, |holder| {
        terminal::line(&format!("waiting for {holder}, which is measuring on this machine"));
    })?;
    Ok(lock)
}

/// How fast a device reads its memory.
pub enum Bandwidth {
    /// As a flag says, in bytes a second.
    Given(f64),
    /// As the processor does when it is asked.
    Cpu(Box<Reader>),
    /// As a GPU does when it is asked.
    Gpu(Machine),
}

impl Bandwidth {
    /// What the flags give, or what measures it.
    pub fn of(machine: &Machine, flags: &MeasureFlags) -> anyhow::Result<Bandwidth> {
        Ok(match (flags.bandwidth, machine) {
            (Some(given), _) => Bandwidth::Given(given * 1e9),
            (None, Machine::Cpu(cpu)) => Bandwidth::Cpu(Box::new(Reader::new(cpu, room())?)),
            (None, Machine::Interpreter(_)) => {
                bail!("the speed of the interpreter says nothing; use --device cpu")
            }
            (None, gpu) => Bandwidth::Gpu(gpu.clone()),
        })
    }

    /// Bytes a second at this moment.
    pub fn now(&mut self) -> anyhow::Result<f64> {
        Ok(match self {
            Bandwidth::Given(given) => *given,
            Bandwidth::Cpu(reader) => reader.now()?,
            Bandwidth::Gpu(gpu) => gpu.read_bandwidth()?,
        })
    }
}

/// Everything that the processor can do at most.
pub fn all(cpu: &Cpu) -> anyhow::Result<Peaks> {
    terminal::progress("measuring the machine");
    let peaks = bandwidth::measure(cpu, room())?;
    terminal::wipe();
    Ok(peaks)
}

/// Bytes to read, where so many can be had.
fn room() -> usize {
    let room = device::available_memory().map_or(READ_BYTES, |bytes| (bytes / 4) as usize);
    READ_BYTES.min(room).max(64 << 20)
}
