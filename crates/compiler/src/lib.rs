//! The compiler: from tensor code to a program of fused kernels.

pub mod program;
pub mod tensor;
