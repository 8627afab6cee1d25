//! Adapters of Vulkan, Metal and DirectX 12 as devices.

use crate::{Listed, Machine, gib, lack};
use device::{Needs, Result};
use std::sync::Arc;
use webgpu::Wgpu;
use webgpu::adapter::{Adapter, Kind, adapters};

/// What is known of an adapter before it is opened.
#[derive(Clone, Copy)]
struct Known {
    kind: Kind,
    /// Bytes of its memory that are free, if that is known.
    free: Option<u64>,
    largest_block: u64,
}

impl Known {
    fn of(adapter: &Adapter) -> Known {
        Known { kind: adapter.kind(), free: adapter.free_memory(), largest_block: adapter.largest_block() }
    }

    /// Why an adapter is not taken for a model by itself, but only if it is named.
    fn refusal(self, needs: Needs) -> Option<String> {
        match self.kind {
            Kind::Discrete | Kind::Apple => lack(needs, self.free, Some(self.largest_block)),
            Kind::Integrated => Some("it has no memory of its own".into()),
            Kind::Software => Some("it is software".into()),
            Kind::Unknown => Some("its driver does not say whether it has memory of its own".into()),
        }
    }
}

/// Opens the adapter of this number, with so many steps ahead.
///
/// # Errors
/// As [`Wgpu::new`].
pub fn open(ordinal: usize, ahead: usize) -> Result<Machine> {
    Wgpu::new(ordinal).map(|wgpu| machine(wgpu, ahead))
}

/// The first adapter that a model fits on, with so many steps ahead. Those that are passed over are told of with the reason.
pub fn fitting(ahead: usize, needs: Needs, tell: &mut impl FnMut(String)) -> Option<Machine> {
    for adapter in adapters() {
        let name = format!("wgpu:{} ({})", adapter.ordinal, adapter.name());
        let opened = match Known::of(&adapter).refusal(needs) {
            None => Wgpu::of(adapter).map_err(|error| error.to_string()),
            Some(refusal) => Err(refusal),
        };
        match opened {
            Ok(wgpu) => return Some(machine(wgpu, ahead)),
            Err(problem) => tell(format!("{name} is not used: {problem}")),
        }
    }
    None
}

/// A line about each adapter.
pub fn list() -> Vec<Listed> {
    let listed = |adapter: Adapter| {
        let mut text = format!("{}, {}", adapter.name(), adapter.facts());
        if let Some(budget) = adapter.budget() {
            text += &format!(", {:.1} GiB", gib(budget.total));
        }
        if let Some(free) = adapter.free_memory() {
            text += &format!(", {:.1} GiB free", gib(free));
        }
        Listed { name: format!("wgpu:{}", adapter.ordinal), text, problem: Wgpu::of(adapter).err() }
    };
    adapters().into_iter().map(listed).collect()
}

fn machine(wgpu: Wgpu, ahead: usize) -> Machine {
    Machine::Wgpu(Arc::new(wgpu.with_steps_ahead(ahead)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    const NEEDS: Needs = Needs { bytes: 5 * GIB, largest: GIB };

    fn refusal(kind: Kind, free: Option<u64>, largest_block: u64) -> Option<String> {
        Known { kind, free, largest_block }.refusal(NEEDS)
    }

    #[test]
    fn cards_and_those_of_apple_are_taken_if_the_model_fits() {
        for kind in [Kind::Discrete, Kind::Apple] {
            assert_eq!(refusal(kind, Some(5 * GIB), GIB), None);
            let small = refusal(kind, Some(4 * GIB), GIB).expect("a reason");
            assert_eq!(small, "the model needs 5.0 GiB there, and 4.0 GiB are free");
            let unknown = refusal(kind, None, GIB).expect("a reason");
            assert!(unknown.contains("does not say how much"), "{unknown}");
            let short = refusal(kind, Some(9 * GIB), GIB / 2).expect("a reason");
            assert!(short.contains("takes 1.0 GiB, and its kernels reach 0.5 GiB"), "{short}");
        }
    }

    #[test]
    fn no_others_are_taken_however_much_they_have() {
        let of = |kind| refusal(kind, Some(100 * GIB), 2 * GIB).expect("a reason");
        assert_eq!(of(Kind::Software), "it is software");
        assert_eq!(of(Kind::Integrated), "it has no memory of its own");
        assert!(of(Kind::Unknown).contains("does not say whether"));
    }
}
