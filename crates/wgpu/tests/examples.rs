//! The examples of the repository that run on an adapter, too.

#[path = "../../../examples/custom_kernel.rs"]
mod custom_kernel;

use webgpu::Wgpu;
use webgpu::adapter::adapters;

#[test]
fn a_custom_kernel_runs() {
    let Some(adapter) = adapters().into_iter().next() else { return };
    custom_kernel::run(&Wgpu::of(adapter).expect("an adapter that can be opened")).expect("an example");
}
