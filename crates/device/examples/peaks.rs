//! The limits of this machine for each instruction level and thread count.
//!
//! `cargo run --release --example peaks`

use device::cpu::bandwidth;
use device::{Cpu, CpuConfig, Isa, MachineLock, Target, default_threads};

fn main() -> device::Result<()> {
    let _alone = MachineLock::acquire(&MachineLock::default_path(), |holder| {
        eprintln!("waiting for {holder}");
    })?;
    println!("level         threads   GB/s  int8 GMAC/s  f32 GMAC/s");
    for isa in Isa::available() {
        for threads in 1..=default_threads() {
            let cpu = Cpu::new(&CpuConfig {
                threads,
                target: Some(Target::detect(Some(isa))?),
                ..CpuConfig::from_environment()
            })?;
            let peaks = bandwidth::measure(&cpu, bandwidth::READ_BYTES)?;
            println!(
                "{:12}  {threads:7}  {:5.1}  {:11.0}  {:10.0}",
                isa.name(),
                peaks.read / 1e9,
                peaks.integer_dot / 1e9,
                peaks.f32 / 1e9,
            );
        }
    }
    Ok(())
}
