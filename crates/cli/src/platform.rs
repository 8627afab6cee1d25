//! What differs between systems, for the program: signals, and what a file system says. Files as they are mapped, child processes and
//! folders of code are in the crates that use them.
//!
//! Other systems than Unix have been compiled for as far as types go, and nothing was run there.

#[cfg(unix)]
mod bus_error;

use std::path::Path;

/// Has the program say why it ends when a mapped file was made shorter. Where nothing is mapped, nothing can.
pub fn explain_bus_errors() {
    #[cfg(unix)]
    bus_error::install();
}

/// Has Mesa's layer of Vulkan leave the order of adapters alone: it would look for a screen, and complain on stderr where there is
/// none. To be called before there are other threads.
pub fn leave_adapters_alone() {
    const LAYER_IS_OFF: &str = "NODEVICE_SELECT";
    if cfg!(target_os = "linux") && std::env::var_os(LAYER_IS_OFF).is_none() {
        // SAFETY: nobody reads the environment meanwhile, as this thread is the only one.
        unsafe { std::env::set_var(LAYER_IS_OFF, "1") };
    }
}

/// Bytes that are free where a folder lies, where the system tells.
#[cfg(target_os = "linux")]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes that are free where a folder lies; nobody knows here.
#[cfg(not(target_os = "linux"))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}
