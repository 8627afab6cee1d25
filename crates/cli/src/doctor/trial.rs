//! Whether a kernel can be compiled, loaded and run: the whole way, in the folder that is really used.

use super::Finding;
use compiler::program::{Buffer, BufferKind, Count, Kernel, Launch, Program, Stage};
use device::{CacheConfig, Cpu, CpuConfig, Device, Error, Memory};
use std::path::PathBuf;
use std::sync::Arc;

/// Tries, beside the kernels that there are, and says which targets are `ready` if it cannot.
pub fn run(cc: Option<PathBuf>, kernels: &CacheConfig, ready: &[String]) -> Finding {
    let mut config = CpuConfig::from_environment();
    config.threads = 1;
    config.toolchain.compiler = cc;
    // Beside the kernels, so that what a mount forbids is noticed, and not among them.
    let folder = kernels.folder.as_ref().map(|folder| folder.join(format!("doctor-{}", std::process::id())));
    config.cache =
        CacheConfig { folder: folder.clone(), packs: vec![], trusted: kernels.trusted.clone(), ..config.cache };
    let tried = double(&config);
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir_all(folder);
    }
    match tried {
        Ok(text) => Finding::good("kernels", text),
        Err(Error::NoCompiler { .. }) if !ready.is_empty() => {
            let text = format!("there are some for {}; new ones cannot be compiled", ready.join(" and "));
            Finding::poor("kernels", text, "install a C compiler to run other models and, on most machines, faster")
        }
        Err(error @ Error::NoCompiler { .. }) => {
            Finding::bad("kernels", error.to_string(), "install a C compiler, or use kernels that were built elsewhere")
        }
        Err(error @ Error::NoExec { .. }) => {
            Finding::bad("kernels", error.to_string(), "name a folder that code may be loaded from with --kernel-cache")
        }
        Err(error) => Finding::bad("kernels", error.to_string(), "check the compiler and the folder of kernels"),
    }
}

fn double(config: &CpuConfig) -> device::Result<String> {
    let cpu = Cpu::new(config)?;
    let mut memory = Memory::new();
    let mut step = cpu.load(Arc::new(doubling()), &mut memory)?;
    memory.input_mut("x")?.copy_from_slice(&[1.0_f32, 2.0, 3.0, 4.0]);
    step.run(&mut memory, &[])?;
    if memory.output::<f32>("y")? != [2.0, 4.0, 6.0, 8.0] {
        return Err(Error::Malformed { program: "trial".into(), reason: "it did not double its numbers".into() });
    }
    let seconds = step.report().time.as_secs_f64();
    let mut text = format!("one was compiled, loaded and run in {seconds:.2} s for {}", cpu.target());
    cpu.warnings().iter().for_each(|warning| text += &format!("; {warning}"));
    Ok(text)
}

/// A program that doubles four numbers.
fn doubling() -> Program {
    let source = "void twice(void *const *bufs, const int64_t *vars, int64_t begin, int64_t end, void *scratch) {
        for (int64_t i = begin; i < end; i++) ((float *)bufs[0])[i] = 2 * ((const float *)bufs[1])[i];
    }";
    let buffer = |kind, name: &str| Buffer { kind, bytes: 16, name: name.into() };
    let launch =
        Launch { kernel: 0, args: vec![0, 1], tasks: Count::Const(4), origin: "trial".into(), ..Launch::default() };
    Program {
        name: "trial".into(),
        prelude: "#include <stdint.h>\n".into(),
        buffers: vec![buffer(BufferKind::Output("y".into()), "y"), buffer(BufferKind::Input("x".into()), "x")],
        kernels: vec![Kernel::of_source("twice", source, 0)],
        stages: vec![Stage { launches: vec![launch] }],
        ..Program::default()
    }
}
