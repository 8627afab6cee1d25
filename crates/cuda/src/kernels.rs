//! From the kernels of a program to functions on the card.

use crate::cubins::Cubins;
use crate::driver::{Context, Module};
use compiler::program::Program;
use cudarc::driver::sys::CUfunction;
use device::{CompileReport, Result};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Instant;

/// Functions that can be launched; the code stays on the card as long as this lives.
pub struct Loaded {
    /// One for each kernel of the program.
    pub functions: Vec<CUfunction>,
    /// How they came to be.
    pub report: CompileReport,
    _modules: Vec<Module>,
}

// SAFETY: the functions are handles of the driver; the modules that they belong to are here.
unsafe impl Send for Loaded {}

/// Compiles what is missing, and loads the kernels of a program.
///
/// # Errors
/// Those of [`Cubins::codes`], and of the driver.
pub fn load(context: &Arc<Context>, cubins: &Cubins, program: &Program) -> Result<Loaded> {
    let start = Instant::now();
    let (codes, compiled) = cubins.codes(program)?;
    let (mut functions, mut modules) = (vec![], vec![]);
    for (kernel, code) in program.kernels.iter().zip(&codes) {
        let module = context.module(code)?;
        let symbol = CString::new(kernel.symbol.as_str()).unwrap_or_default();
        functions.push(module.function(&symbol, kernel.geometry.shared_bytes)?);
        modules.push(module);
    }
    let report = CompileReport {
        kernels: program.kernels.len(),
        compiled,
        units: compiled,
        compiler: cubins.compiler().filter(|_| compiled > 0),
        time: start.elapsed(),
        ..CompileReport::default()
    };
    Ok(Loaded { functions, report, _modules: modules })
}
