//! Source text of kernels.

pub mod c;
pub mod cuda;
