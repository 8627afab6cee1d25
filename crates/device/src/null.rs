//! A device that runs nothing: for counting kernels and stages, and for
//! programs whose weights are not at hand.

use std::sync::Arc;

use compiler::program::Program;

use crate::cpu::objects::CompileReport;
use crate::error::Result;
use crate::memory::Memory;
use crate::profile::{Clock, Profile, Stopwatch};
use crate::{Device, Executable, validate};

/// The device; programs are checked against their contract, not compiled, and
/// bind no memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Device for Null {
    fn name(&self) -> String {
        "null".into()
    }

    fn load(&self, program: Arc<Program>, _memory: &mut Memory) -> Result<Box<dyn Executable>> {
        validate::program(&program)?;
        let report = CompileReport { kernels: program.kernels.len(), ..CompileReport::default() };
        Ok(Box::new(NullExecutable { program, report }))
    }
}

struct NullExecutable {
    program: Arc<Program>,
    report: CompileReport,
}

impl NullExecutable {
    fn check(&self, vars: &[i64]) -> Result<()> {
        validate::vars(&self.program, vars)?;
        for launch in self.program.each_launch() {
            validate::tasks(&self.program, launch, vars)?;
        }
        Ok(())
    }
}

impl Executable for NullExecutable {
    fn program(&self) -> &Program {
        &self.program
    }

    fn report(&self) -> &CompileReport {
        &self.report
    }

    fn run(&mut self, _memory: &mut Memory, vars: &[i64]) -> Result<()> {
        self.check(vars)
    }

    fn run_profiled(&mut self, _memory: &mut Memory, vars: &[i64], clock: Clock) -> Result<Profile> {
        self.check(vars)?;
        let launches = self.program.each_launch();
        let tasks = launches.map(|launch| launch.tasks.eval(vars).unwrap_or(0));
        let stopwatch = Stopwatch::start(clock, 1, self.program.launches(), self.program.stages.len());
        Ok(stopwatch.stop(&self.program, vars, tasks))
    }
}
