//! Kinds of cards: what kernels may use and are cut for, known from a name alone, so that kernels built ahead are those that a
//! card asks for.

use compiler::{Numerics, Options};
use device::{Error, Result};

/// Shared memory of a multiprocessor that the driver keeps for each block.
const RESERVED: usize = 1 << 10;

/// The oldest generation that kernels are made for: 8.0 multiplies by warps what `ldmatrix` has loaded, and copies without registers.
const LEAST: (i32, i32) = (8, 0);

/// The first generation whose kernels may begin before those that they wait for have ended.
const EARLY: (i32, i32) = (9, 0);

/// The generation whose warps multiply in groups of four.
const HOPPER: i32 = 9;

/// What a card usually has, by its compute capability: multiprocessors of a large one of the generation, and the megabytes a second
/// that its memory gives each of them (A100 of 80 GB, RTX 3090, RTX 4090, H200, B200, RTX 5090).
const USUAL: [((i32, i32), i32, f64); 6] = [
    ((8, 0), 108, 18_900.0),
    ((8, 6), 82, 11_400.0),
    ((8, 9), 128, 7_900.0),
    ((9, 0), 132, 4_528_000.0 / 132.0),
    ((10, 0), 148, 54_000.0),
    ((12, 0), 170, 10_500.0),
];

/// What kernels are made for: a generation, by its compute capability, and how many multiprocessors a card has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architecture {
    /// Compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors: a program is cut for so many.
    pub multiprocessors: i32,
}

impl Architecture {
    /// Of a name as compilers have it, `sm_80` or `sm_90a`, for a large card of that generation; `sm_89:46` for one with 46
    /// multiprocessors.
    pub fn named(name: &str) -> Option<Architecture> {
        let (name, multiprocessors) = match name.split_once(':') {
            Some((name, count)) => (name, Some(count.parse().ok().filter(|count| (1..=1024).contains(count))?)),
            None => (name, None),
        };
        let digits = name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        let number: i32 = digits.parse().ok().filter(|number| (10..1000).contains(number))?;
        let capability = (number / 10, number % 10);
        let multiprocessors = multiprocessors.unwrap_or(usual(capability).0);
        let of_name = Architecture { capability, multiprocessors };
        (name == of_name.name() || name == format!("sm_{number}")).then_some(of_name)
    }

    /// Its name for compilers. From 9.0 on it is the one with features of its own.
    pub fn name(&self) -> String {
        let (major, minor) = self.capability;
        format!("sm_{major}{minor}{}", if self.capability >= EARLY { "a" } else { "" })
    }

    /// Whether four warps multiply matrices together.
    pub fn multiplies_together(&self) -> bool {
        self.capability.0 == HOPPER
    }

    /// Whether kernels may begin before those that they wait for have ended.
    pub fn launches_early(&self) -> bool {
        self.capability >= EARLY
    }

    /// Bytes of shared memory that each of so many blocks of a multiprocessor may have.
    pub fn shared_bytes(&self, blocks: usize) -> usize {
        let all = match self.capability {
            (8, 0 | 7) => 164 << 10,
            (8, _) | (12, _) => 100 << 10,
            _ => 228 << 10,
        };
        all / blocks - RESERVED
    }

    /// Whether kernels can be made for it.
    ///
    /// # Errors
    /// [`Error::Unusable`] for one that is too old.
    pub fn check(&self, card: &str) -> Result<()> {
        if self.capability >= LEAST {
            return Ok(());
        }
        let ((major, minor), (least, _)) = (self.capability, LEAST);
        Err(Error::Unusable(format!(
            "{card} has compute capability {major}.{minor}, and kernels need {least}.0 (Ampere) or newer; use --device cpu"
        )))
    }

    /// What the compiler of kernels does for it by default.
    pub fn options(&self, numerics: Numerics) -> Options {
        let (processors, bytes) = (self.multiprocessors, usual(self.capability).1);
        let mut options = Options::gpu_of(numerics, processors.into(), f64::from(processors) * bytes);
        options.on_gpu(|plan| {
            plan.overlap &= self.launches_early();
            plan.groups = self.multiplies_together();
            plan.shared = plan.shared.min(self.shared_bytes(1));
            plan.shared_of_two = self.shared_bytes(2);
        });
        options
    }
}

/// Multiprocessors and megabytes a second for each: of the newest generation in the table that is not newer than this one.
fn usual(capability: (i32, i32)) -> (i32, f64) {
    let known = USUAL.iter().rev().find(|row| row.0 <= capability).unwrap_or(&USUAL[0]);
    (known.1, known.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_have_names() {
        for name in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"] {
            assert_eq!(Architecture::named(name).expect(name).name(), name);
        }
        assert_eq!(Architecture::named("sm_90"), Architecture::named("sm_90a"));
        let small = Architecture::named("sm_89:46").expect("a name");
        assert_eq!((small.name().as_str(), small.multiprocessors), ("sm_89", 46));
        for wrong in [
            "sm_89:",
            "sm_89:0",
            "sm_89:x",
            "sm_",
            "sm_9",
            "sm_a",
            "sm_9x",
            "sm_80a",
            "cuda",
            "compute_90",
            "sm_-80",
            "sm_99999",
        ] {
            assert_eq!(Architecture::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn older_ones_have_less() {
        let of = |name| Architecture::named(name).expect(name);
        assert!(of("sm_75").check("a card").is_err() && of("sm_80").check("a card").is_ok());
        assert!(!of("sm_89").launches_early() && of("sm_90a").launches_early());
        assert!(of("sm_86").shared_bytes(1) < of("sm_80").shared_bytes(1));
        let source = |name| format!("{:?}", of(name).options(Numerics::Int8));
        assert!(source("sm_80") != source("sm_86") && source("sm_80") != source("sm_90a"));
        assert!(source("sm_89") != source("sm_89:46") && source("sm_89") == source("sm_89:128"));
    }

    #[test]
    fn an_h200_is_what_the_compiler_takes_by_default() {
        let h200 = Architecture::named("sm_90a:132").expect("a name").options(Numerics::Int8);
        assert_eq!(format!("{:?}", h200.prices), format!("{:?}", Options::gpu(Numerics::Int8).prices));
    }
}
