//! Instruction levels: what the machine can run, found at run time, and the
//! compiler flags that say exactly that.
//!
//! Never `-march=native`: the flags are part of the key of every compiled
//! kernel, so they must name what they stand for.

use std::fmt;
use std::str::FromStr;

use compiler::cpu::plan::Plan;
use compiler::{Numerics, Options};

use crate::error::{Error, Result};

/// The flags of AVX2, then of AVX-VNNI.
static X86: [&str; 7] = ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mpopcnt", "-mavxvnni"];

/// The flags of AVX2, then of AVX-512, then of its VNNI.
static X86_512: [&str; 11] = [
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-mbmi",
    "-mbmi2",
    "-mpopcnt",
    "-mavx512f",
    "-mavx512bw",
    "-mavx512vl",
    "-mavx512dq",
    "-mavx512vnni",
];

/// An instruction level that the compiler's renderer can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Isa {
    /// What every machine of the architecture has (SSE2 on x86-64).
    Scalar,
    /// AVX2 with FMA, F16C and BMI2.
    Avx2,
    /// [`Isa::Avx2`] with the 256-bit integer dot product (AVX-VNNI).
    AvxVnni,
    /// AVX-512 F, BW, VL and DQ.
    Avx512,
    /// [`Isa::Avx512`] with the integer dot product (VNNI).
    Avx512Vnni,
    /// AArch64 with its obligatory vectors.
    Neon,
    /// [`Isa::Neon`] with `sdot` and half precision arithmetic.
    NeonDot,
    /// [`Isa::NeonDot`] with the 2x8x2 integer matrix product.
    NeonI8mm,
}

impl Isa {
    /// All levels, lowest first within an architecture.
    pub const ALL: [Isa; 8] =
        [Isa::Scalar, Isa::Avx2, Isa::AvxVnni, Isa::Avx512, Isa::Avx512Vnni, Isa::Neon, Isa::NeonDot, Isa::NeonI8mm];

    /// Its name in configurations, reports and keys.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avx-vnni",
            Isa::Avx512 => "avx512",
            Isa::Avx512Vnni => "avx512-vnni",
            Isa::Neon => "neon",
            Isa::NeonDot => "neon-dot",
            Isa::NeonI8mm => "neon-i8mm",
        }
    }

    /// The flags that allow the compiler this level and no more; gcc and clang
    /// agree on them.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Isa::Scalar => &[],
            Isa::Avx2 => &X86[..6],
            Isa::AvxVnni => &X86[..7],
            Isa::Avx512 => &X86_512[..10],
            Isa::Avx512Vnni => &X86_512[..11],
            Isa::Neon => &["-march=armv8-a"],
            Isa::NeonDot => &["-march=armv8.2-a+fp16+dotprod"],
            Isa::NeonI8mm => &["-march=armv8.2-a+fp16+dotprod+i8mm"],
        }
    }

    /// Bytes of a vector; 0 where there are none.
    pub fn vector_bytes(self) -> usize {
        match self {
            Isa::Scalar => 0,
            Isa::Avx2 | Isa::AvxVnni => 32,
            Isa::Avx512 | Isa::Avx512Vnni => 64,
            Isa::Neon | Isa::NeonDot | Isa::NeonI8mm => 16,
        }
    }

    /// The architecture that it is a level of, as in [`std::env::consts::ARCH`].
    pub fn architecture(self) -> &'static str {
        match self {
            Isa::Scalar => std::env::consts::ARCH,
            Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Avx512Vnni => "x86_64",
            Isa::Neon | Isa::NeonDot | Isa::NeonI8mm => "aarch64",
        }
    }

    /// Whether this machine and its operating system run code of this level.
    pub fn is_available(self) -> bool {
        available(self)
    }

    /// The levels that this machine runs, lowest first; never empty.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Their names, for people.
    pub(crate) fn available_names() -> String {
        names(&Isa::available())
    }

    /// The highest level that this machine runs.
    pub fn detect() -> Isa {
        *Isa::available().last().unwrap_or(&Isa::Scalar)
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = Error;

    fn from_str(name: &str) -> Result<Isa> {
        Isa::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| Error::UnknownIsa { name: name.into(), known: names(&Isa::ALL) })
    }
}

fn names(levels: &[Isa]) -> String {
    let names: Vec<_> = levels.iter().map(|isa| isa.name()).collect();
    names.join(", ")
}

#[cfg(target_arch = "x86_64")]
fn available(isa: Isa) -> bool {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq");
    match isa {
        Isa::Scalar => true,
        Isa::Avx2 => avx2,
        Isa::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
        Isa::Avx512 => avx512,
        Isa::Avx512Vnni => avx512 && is_x86_feature_detected!("avx512vnni"),
        Isa::Neon | Isa::NeonDot | Isa::NeonI8mm => false,
    }
}

#[cfg(target_arch = "aarch64")]
fn available(isa: Isa) -> bool {
    use std::arch::is_aarch64_feature_detected;
    let dot = is_aarch64_feature_detected!("dotprod") && is_aarch64_feature_detected!("fp16");
    match isa {
        Isa::Scalar | Isa::Neon => true,
        Isa::NeonDot => dot,
        Isa::NeonI8mm => dot && is_aarch64_feature_detected!("i8mm"),
        Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Avx512Vnni => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn available(isa: Isa) -> bool {
    isa == Isa::Scalar
}

/// An instruction group that some machines of a level have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Extra {
    /// Byte permutes over 64 and 128 entries.
    Avx512Vbmi,
    /// bfloat16 conversions and dot products.
    Avx512Bf16,
    /// Half precision arithmetic.
    Avx512Fp16,
    /// Products of tiles of bf16 numbers.
    AmxBf16,
}

impl Extra {
    const ALL: [Extra; 4] = [Extra::Avx512Vbmi, Extra::Avx512Bf16, Extra::Avx512Fp16, Extra::AmxBf16];

    /// Its name in reports and keys.
    pub fn name(self) -> &'static str {
        match self {
            Extra::Avx512Vbmi => "vbmi",
            Extra::Avx512Bf16 => "bf16",
            Extra::Avx512Fp16 => "fp16",
            Extra::AmxBf16 => "amx-bf16",
        }
    }

    /// The flags that allow the compiler these instructions.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Extra::Avx512Vbmi => &["-mavx512vbmi"],
            Extra::Avx512Bf16 => &["-mavx512bf16"],
            Extra::Avx512Fp16 => &["-mavx512fp16"],
            Extra::AmxBf16 => &["-mamx-tile", "-mamx-bf16"],
        }
    }

    /// Whether this machine has them.
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        match self {
            Extra::Avx512Vbmi => is_x86_feature_detected!("avx512vbmi"),
            Extra::Avx512Bf16 => is_x86_feature_detected!("avx512bf16"),
            Extra::Avx512Fp16 => is_x86_feature_detected!("avx512fp16"),
            Extra::AmxBf16 => tiles_allowed(),
        }
    }

    /// Whether this machine has them.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_available(self) -> bool {
        false
    }
}

/// Whether the processor has tiles of bf16 and the operating system lets this process use them. Linux keeps room for
/// tiles only for processes that have asked once; threads inherit the answer.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tiles_allowed() -> bool {
    /// `ARCH_REQ_XCOMP_PERM` of `arch_prctl`, and the number of the state that holds tiles.
    const REQUEST_PERMISSION: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    /// Bits of leaf 7: AMX-BF16 and AMX-TILE.
    const NEEDED: u32 = 1 << 22 | 1 << 24;
    static ALLOWED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let leaves = std::arch::x86_64::__get_cpuid_max(0).0;
        let bits = if leaves >= 7 { std::arch::x86_64::__cpuid_count(7, 0).edx } else { 0 };
        let bf16 = is_x86_feature_detected!("avx512bf16");
        // SAFETY: the call takes numbers and changes nothing but this permission.
        bf16 && bits & NEEDED == NEEDED
            && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) } == 0
    })
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn tiles_allowed() -> bool {
    false
}

/// What kernels are compiled for: a level and extras. Of two targets, the greater one is the better one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The level.
    pub isa: Isa,
    /// What a machine has beyond the level, in the order of [`Extra`].
    pub extras: Vec<Extra>,
}

/// Names that others have for levels.
const LEVELS_OF_OTHERS: [(&str, Isa); 2] = [("x86-64-v3", Isa::Avx2), ("x86-64-v4", Isa::Avx512)];

impl Target {
    /// The best target of this machine, or the one at exactly the level
    /// `limit`, with the extras that exist at that level.
    ///
    /// # Errors
    /// [`Error::IsaUnavailable`] if the machine does not run `limit`.
    pub fn detect(limit: Option<Isa>) -> Result<Target> {
        let isa = limit.unwrap_or_else(Isa::detect);
        if !isa.is_available() {
            return Err(Error::IsaUnavailable { wanted: isa.name().into(), available: Isa::available_names() });
        }
        let extras = match isa {
            Isa::Avx512 | Isa::Avx512Vnni => Extra::ALL.into_iter().filter(|extra| extra.is_available()).collect(),
            _ => Vec::new(),
        };
        Ok(Target { isa, extras })
    }

    /// Whether this machine runs code for it.
    pub fn is_available(&self) -> bool {
        self.isa.is_available() && self.extras.iter().all(|extra| extra.is_available())
    }

    /// Whether it is at the level of another target, and has no more than that.
    pub(crate) fn is_within(&self, other: &Target) -> bool {
        self.isa == other.isa && self.extras.iter().all(|extra| other.extras.contains(extra))
    }

    /// What the compiler of kernels does for this target by default.
    pub fn options(&self, numerics: Numerics) -> Options {
        let mut options = Options::cpu(numerics, self.isa.vector_bytes());
        options.on_cpu(|cpu| {
            cpu.plan.pairs = matches!(self.isa, Isa::Avx2 | Isa::Avx512);
            // A product of bytes needs its value in a register: with one load for each, loads are what bounds a tile.
            cpu.plan.row_vectors = if self.isa == Isa::Avx2 { 2 } else { 1 };
            cpu.plan.matrix_unit = self.extras.contains(&Extra::AmxBf16);
            if self.isa == Isa::Scalar {
                cpu.plan = Plan::scalar();
            }
        });
        options
    }

    /// The compiler flags of the level and its extras.
    pub fn flags(&self) -> Vec<&'static str> {
        let extras = self.extras.iter().flat_map(|extra| extra.flags());
        self.isa.flags().iter().chain(extras).copied().collect()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.isa.name())?;
        for extra in &self.extras {
            write!(f, "+{}", extra.name())?;
        }
        Ok(())
    }
}

impl FromStr for Target {
    type Err = Error;

    /// From what [`fmt::Display`] writes, or from a level of the x86-64 ABI: `x86-64-v3` is AVX2, `x86-64-v4` AVX-512.
    fn from_str(name: &str) -> Result<Target> {
        let mut words = name.split('+');
        let level = words.next().unwrap_or_default();
        let other = LEVELS_OF_OTHERS.iter().find(|(other, _)| *other == level);
        let isa = other.map_or_else(|| level.parse(), |(_, isa)| Ok(*isa))?;
        let extra = |word: &str| Extra::ALL.into_iter().find(|extra| extra.name() == word);
        let extras: Option<Vec<Extra>> = words.map(extra).collect();
        match extras {
            Some(mut extras) if extras.is_empty() || matches!(isa, Isa::Avx512 | Isa::Avx512Vnni) => {
                extras.sort();
                extras.dedup();
                Ok(Target { isa, extras })
            }
            _ => {
                let extras = Extra::ALL.map(Extra::name).join(", +");
                let known = format!("{}; AVX-512 can have +{extras}", names(&Isa::ALL));
                Err(Error::UnknownIsa { name: name.into(), known })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse::<Isa>().unwrap(), isa);
        }
        let error = "avx9".parse::<Isa>().unwrap_err().to_string();
        assert!(error.contains("avx9") && error.contains("avx512-vnni"));
    }

    #[test]
    fn names_of_targets_parse_back() {
        let native = Target::detect(None).unwrap();
        assert!(native.is_available());
        let all = Target { isa: Isa::Avx512Vnni, extras: Extra::ALL.to_vec() };
        for target in [native, all, Target { isa: Isa::Neon, extras: vec![] }] {
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
        assert_eq!("x86-64-v3".parse::<Target>().unwrap().isa, Isa::Avx2);
        assert_eq!("avx512+bf16+vbmi".parse::<Target>().unwrap().to_string(), "avx512+vbmi+bf16");
        for wrong in ["x86-64-v5", "avx2+bf16", "avx512+", "avx512+sse", ""] {
            let error = wrong.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_limit_is_kept_and_an_absent_level_is_refused() {
        for isa in Isa::ALL {
            match Target::detect(Some(isa)) {
                Ok(target) => assert_eq!(target.isa, isa),
                Err(error) => {
                    assert!(!isa.is_available());
                    assert!(error.to_string().contains(isa.name()));
                }
            }
        }
    }

    #[test]
    fn scalar_code_gets_no_flags() {
        let target = Target::detect(Some(Isa::Scalar)).unwrap();
        assert!(target.flags().is_empty());
        assert_eq!(target.to_string(), "scalar");
    }

    #[test]
    fn no_level_asks_for_native_code() {
        for isa in Isa::ALL {
            assert!(isa.flags().iter().all(|flag| !flag.contains("native")));
        }
    }
}
