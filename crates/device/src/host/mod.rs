//! The system that devices run on: its memory, its processor, other programs, and other processes.

pub mod available;
#[cfg(target_os = "linux")]
pub(crate) mod cgroup;
pub(crate) mod child;
pub mod jobs;
pub mod lock;
mod mapped_weights;
pub mod priority;
pub mod processor;
pub(crate) mod region;
pub mod stop;
pub mod workers;
