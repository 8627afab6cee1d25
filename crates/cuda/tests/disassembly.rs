//! Machine code as text: by NVRTC, which `KERNLOOM_NVRTC` names, and `nvdisasm`, where both are. Neither needs a card.

use compiler::program::{Kernel, Program};
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

#[test]
fn kernels_are_shown_as_instructions() {
    let (Ok(nvrtc), Ok(_)) = (std::env::var("KERNLOOM_NVRTC"), Disassembler::find()) else {
        println!("disassembly: skipped, KERNLOOM_NVRTC does not name the library, or nvdisasm is not found");
        return;
    };
    let config = Compiling { nvrtc: Some(nvrtc.into()), jobs: 1, ..Compiling::default() };
    let blobs = Blobs::open(&CacheConfig { folder: None, ..CacheConfig::from_environment() }, "sm_90a");
    let cubins = Cubins::new("sm_90a".into(), None, config, blobs);
    let program = Program { kernels: vec![Kernel::of_source("waits", SOURCE, 0)], ..Program::default() };
    let text = cubins.assembly(&program).expect("a text");
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(at("waits:") < at("LDG") && at("LDG") < at("ACQBULK") && at("ACQBULK") < at("STG"), "{text}");
}
