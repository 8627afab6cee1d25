//! The examples of the repository run to their end.

#[path = "../../../examples/custom_kernel.rs"]
mod custom_kernel;
#[path = "../../../examples/tensor.rs"]
mod tensor;

#[test]
fn tensor_code_runs() {
    tensor::main().expect("an example");
}

#[test]
fn a_custom_kernel_runs() {
    let cpu = device::Cpu::new(&device::CpuConfig::from_environment()).expect("a processor");
    custom_kernel::run(&cpu).expect("an example");
}
