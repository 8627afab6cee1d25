//! Kernels of blocks for the real shapes, without any data: a stage a layer more than on a CPU, packed dots, and no more shared
//! memory than a multiprocessor has.

use crate::support::hollow::Hollow;
use compiler::Options;
use model::step::Class;

/// Bytes of shared memory that one block may have on an H200.
const SHARED: usize = 227 << 10;

/// Layers of each shape.
const LAYERS: u32 = 3;

#[test]
fn real_shapes_become_blocks() {
    for shape in ["glm-4.7-flash", "youtu-llm-2b", "llama-3.2-1b"] {
        let hollow = Hollow::new(shape, LAYERS);
        let cpu = hollow.compile();
        let c = hollow.compile_with(Class::One, &Options::gpu(hollow.numerics)).expect("a program");
        // Parts of attention are merged by a kernel of their own.
        assert!(c.program.stages.len() <= cpu.program.stages.len() + LAYERS as usize, "{shape}");
        for launch in c.program.stages.iter().flat_map(|s| &s.launches) {
            let body = &c.bodies[launch.kernel];
            let kernel = &c.program.kernels[launch.kernel];
            let (symbol, block) = (&kernel.symbol, kernel.geometry);
            println!("{shape} {symbol} {:?} {block:?} {:?} {}", launch.tasks, body.paths, launch.origin);
            assert_eq!(block.scratch_bytes, 0, "{shape} {symbol}: what a block keeps does not fit");
            assert!(block.shared_bytes <= SHARED, "{shape} {symbol}: {block:?}");
        }
    }
}
