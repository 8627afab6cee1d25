//! Machine code as text: by NVRTC, which `KERNLOOM_NVRTC` names, and `nvdisasm`, where both are. Neither needs a card.

#[expect(dead_code, reason = "it is compiled here and not run")]
#[path = "../../../examples/custom_kernel.rs"]
mod custom_kernel;

use compiler::Numerics;
use compiler::program::{Kernel, Program};
use cuda::architecture::Architecture;
use cuda::cubins::{Compiling, Cubins};
use cuda::disassembly::Disassembler;
use device::CacheConfig;
use device::store::blobs::Blobs;

/// A kernel that waits for those before it between two loads.
const SOURCE: &str = "extern \"C\" __global__ void waits(float *x, float *y) {
    float early = x[threadIdx.x];
    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");
    y[threadIdx.x] += early;
}";

/// The machine code of a program for a card, where the tools for it are there.
fn assembly(program: &Program) -> Option<String> {
    let (Ok(nvrtc), Ok(_)) = (std::env::var("KERNLOOM_NVRTC"), Disassembler::find()) else {
        println!("disassembly: skipped, KERNLOOM_NVRTC does not name the library, or nvdisasm is not found");
        return None;
    };
    let config = Compiling { nvrtc: Some(nvrtc.into()), jobs: 1, ..Compiling::default() };
    let blobs = Blobs::open(&CacheConfig { folder: None, ..CacheConfig::from_environment() }, "sm_90a");
    let cubins = Cubins::new("sm_90a".into(), None, config, blobs);
    Some(cubins.assembly(program).expect("a text"))
}

#[test]
fn kernels_are_shown_as_instructions() {
    let program = Program { kernels: vec![Kernel::of_source("waits", SOURCE, 0)], ..Program::default() };
    let Some(text) = assembly(&program) else { return };
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("waits:") < at("LDG") && at("LDG") < at("ACQBULK") && at("ACQBULK") < at("STG"), "{text}");
}

#[test]
fn a_custom_kernel_is_machine_code() {
    let card = Architecture::named("sm_90a").expect("a name");
    let program = custom_kernel::step(&card.options(Numerics::Exact)).expect("it has a source in CUDA C++").program;
    let own = program.kernels.iter().find(|k| k.symbol == "rotate").expect("the kernel");
    assert_eq!((own.geometry.threads, own.geometry.waits), (8, false));
    let Some(text) = assembly(&program) else { return };
    assert!(text.contains("rotate:"), "{text}");
}
