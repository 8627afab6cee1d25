//! Which devices this machine has, and one place that opens them.

#[cfg_attr(not(feature = "wgpu"), path = "no_adapters.rs")]
mod adapters;

use compiler::program::Program;
use cuda::driver::Card;
use cuda::{Cuda, CudaConfig};
use device::{Cpu, CpuConfig, Device, Error, Interpreter, Isa, MatrixUnits, Needs, Result, Target, Warning};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What is to run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// A card or a GPU of Apple's if there is one that the model fits on, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA card, by its number among those that this process may use.
    Cuda(usize),
    /// A GPU by Vulkan, Metal or DirectX 12, by its number among the adapters.
    Wgpu(usize),
    /// The reference interpreter.
    Interpreter,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Choice, String> {
        match &*text.to_ascii_lowercase() {
            "auto" => Ok(Choice::Auto),
            "cpu" => Ok(Choice::Cpu),
            "cuda" => Ok(Choice::Cuda(0)),
            "wgpu" => Ok(Choice::Wgpu(0)),
            "interpreter" => Ok(Choice::Interpreter),
            // What wgpu goes by is known better than it: an adapter has one name.
            "metal" | "vulkan" | "dx12" => Ok(Choice::Wgpu(0)),
            other => match other.split_once(':').map(|(kind, ordinal)| (kind, ordinal.parse())) {
                Some(("cuda", Ok(ordinal))) => Ok(Choice::Cuda(ordinal)),
                Some(("wgpu" | "metal" | "vulkan" | "dx12", Ok(ordinal))) => Ok(Choice::Wgpu(ordinal)),
                _ => Err(format!(
                    "'{other}' is no device; there are auto, cpu, cuda, cuda:N, wgpu, wgpu:N and interpreter"
                )),
            },
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Auto => f.write_str("auto"),
            Choice::Cpu => f.write_str("cpu"),
            Choice::Cuda(0) => f.write_str("cuda"),
            Choice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Choice::Wgpu(0) => f.write_str("wgpu"),
            Choice::Wgpu(ordinal) => write!(f, "wgpu:{ordinal}"),
            Choice::Interpreter => f.write_str("interpreter"),
        }
    }
}

/// How to use what is chosen.
#[derive(Clone)]
pub struct Config {
    /// What is to run programs.
    pub choice: Choice,
    /// For the processor.
    pub cpu: CpuConfig,
    /// For a card; its number is that of the choice. An adapter has as many steps ahead.
    pub cuda: CudaConfig,
}

/// A device that was opened, by kind: what is measured and shown differs.
#[derive(Clone)]
pub enum Machine {
    /// The processor.
    Cpu(Arc<Cpu>),
    /// An NVIDIA card.
    Cuda(Arc<Cuda>),
    /// A GPU by Vulkan, Metal or DirectX 12.
    #[cfg(feature = "wgpu")]
    Wgpu(Arc<webgpu::Wgpu>),
    /// The reference interpreter.
    Interpreter(Arc<Interpreter>),
}

impl Machine {
    /// What runs programs.
    pub fn device(&self) -> Arc<dyn Device> {
        match self {
            Machine::Cpu(cpu) => cpu.clone(),
            Machine::Cuda(cuda) => cuda.clone(),
            #[cfg(feature = "wgpu")]
            Machine::Wgpu(wgpu) => wgpu.clone(),
            Machine::Interpreter(interpreter) => interpreter.clone(),
        }
    }

    /// The processor, if it is that.
    pub fn cpu(&self) -> Option<&Arc<Cpu>> {
        match self {
            Machine::Cpu(cpu) => Some(cpu),
            _ => None,
        }
    }

    /// What the user should know about how it was opened.
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Machine::Cpu(cpu) => cpu.warnings(),
            Machine::Cuda(cuda) => cuda.warnings(),
            _ => &[],
        }
    }

    /// What tables call it.
    pub fn backend(&self) -> &'static str {
        match self {
            Machine::Cpu(_) => "CPU",
            Machine::Cuda(_) => "CUDA",
            #[cfg(feature = "wgpu")]
            Machine::Wgpu(_) => "wgpu",
            Machine::Interpreter(_) => "interpreter",
        }
    }

    /// The name of a card, if it is one.
    pub fn card(&self) -> Option<String> {
        match self {
            Machine::Cuda(cuda) => Some(cuda.card().name.clone()),
            #[cfg(feature = "wgpu")]
            Machine::Wgpu(wgpu) => Some(wgpu.adapter().name().to_string()),
            _ => None,
        }
    }

    /// Bytes a second that a kernel of a GPU reads which does nothing else.
    ///
    /// # Errors
    /// Of the device, and [`Error::Unusable`] for what is none.
    pub fn read_bandwidth(&self) -> Result<f64> {
        match self {
            Machine::Cuda(cuda) => cuda.read_bandwidth(),
            #[cfg(feature = "wgpu")]
            Machine::Wgpu(wgpu) => wgpu.read_bandwidth(),
            Machine::Cpu(_) | Machine::Interpreter(_) => {
                Err(Error::Unusable(format!("the {} is no GPU", self.backend())))
            }
        }
    }

    /// What matrix units of a GPU multiply at most, where that is measured: of an NVIDIA card.
    ///
    /// # Errors
    /// Of the device.
    pub fn matrix_units(&self) -> Result<Option<MatrixUnits>> {
        match self {
            Machine::Cuda(cuda) => cuda.matrix_units().map(Some),
            _ => Ok(None),
        }
    }

    /// The kernels of a program as the machine code that they are compiled to.
    ///
    /// # Errors
    /// Of the compiler, and [`Error::Unusable`] where there is no machine code, or nothing that shows it.
    pub fn assembly(&self, program: &Program) -> Result<String> {
        match self {
            Machine::Cpu(cpu) => cpu.assembly(program),
            Machine::Cuda(cuda) => cuda.assembly(program),
            #[cfg(feature = "wgpu")]
            Machine::Wgpu(_) => Err(Error::Unusable("the driver of an adapter does not show its machine code".into())),
            Machine::Interpreter(_) => Err(Error::Unusable("the interpreter has no machine code".into())),
        }
    }

    /// Workers in steps of few tokens, or of many.
    pub fn workers(&self, many_tokens: bool) -> usize {
        self.device().workers(many_tokens)
    }
}

/// Opens a device for a model. [`Choice::Auto`] takes a card, else an adapter that is a card or Apple's, else the processor;
/// each that is there and not taken is told of with the reason, but for adapters where a card is taken: they are not looked for.
///
/// # Errors
/// Of the device that was chosen; [`Choice::Auto`] has those of the processor only.
pub fn open(config: &Config, needs: Needs, mut tell: impl FnMut(String)) -> Result<Machine> {
    match config.choice {
        Choice::Cpu => Ok(Machine::Cpu(Arc::new(Cpu::new(&config.cpu)?))),
        Choice::Cuda(ordinal) => {
            let config = CudaConfig { ordinal, ..config.cuda.clone() };
            Ok(Machine::Cuda(Arc::new(Cuda::new(&config)?)))
        }
        Choice::Wgpu(ordinal) => adapters::open(ordinal, config.cuda.ahead),
        Choice::Interpreter => {
            let isa = config.cpu.target.as_ref().map_or_else(Isa::detect, |target| target.isa);
            Ok(Machine::Interpreter(Arc::new(Interpreter::of(Target { isa, extras: vec![] }))))
        }
        Choice::Auto => {
            let card = fitting(config, needs, &mut tell).map(|cuda| Machine::Cuda(Arc::new(cuda)));
            match card.or_else(|| adapters::fitting(config.cuda.ahead, needs, &mut tell)) {
                Some(gpu) => Ok(gpu),
                None => open(&Config { choice: Choice::Cpu, ..config.clone() }, needs, tell),
            }
        }
    }
}

/// A card on which programs can be made to run, and bytes of its memory that are free.
fn usable(card: Card, config: &CudaConfig) -> Result<(Cuda, usize)> {
    let cuda = Cuda::of(card, config)?;
    cuda.check_compiler()?;
    let (free, _) = cuda.free_memory()?;
    Ok((cuda, free))
}

/// Bytes in GiB.
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Why a model does not fit on a device: into what is free, if its driver says, or into a block, if those have a bound.
fn lack(needs: Needs, free: Option<u64>, largest_block: Option<u64>) -> Option<String> {
    let Some(free) = free else { return Some("its driver does not say how much of its memory is free".into()) };
    if needs.bytes > free {
        let (needed, free) = (gib(needs.bytes), gib(free));
        return Some(format!("the model needs {needed:.1} GiB there, and {free:.1} GiB are free"));
    }
    let most = largest_block.filter(|&most| needs.largest > most)?;
    let (largest, most) = (gib(needs.largest), gib(most));
    Some(format!("a weight or a cache takes {largest:.1} GiB, and its kernels reach {most:.1} GiB of one"))
}

/// The first card that has room. Without any, nothing is said: most machines have none.
fn fitting(config: &Config, needs: Needs, tell: &mut impl FnMut(String)) -> Option<Cuda> {
    let cards = cuda::cards().ok()?;
    for at in cards {
        let name = format!("cuda:{} ({})", at.ordinal, at.name);
        match usable(at, &config.cuda) {
            Ok((cuda, free)) => match lack(needs, Some(free as u64), None) {
                None => return Some(cuda),
                Some(lack) => tell(format!("{name} is not used: {lack}")),
            },
            Err(error) => tell(format!("{name} is not used: {error}")),
        }
    }
    None
}

/// A line about each device of this machine, and whether programs run on it.
pub fn list(nvrtc: Option<PathBuf>) -> Vec<Listed> {
    let mut config = CudaConfig::from_environment();
    config.compiling.nvrtc = nvrtc;
    let mut all = vec![];
    match cuda::cards() {
        Ok(cards) => {
            for at in cards {
                let opened = usable(at.clone(), &config).map(|(_, free)| free);
                let ((major, minor), version) = (at.capability, at.driver.version);
                let mut text = format!(
                    "{}, compute capability {major}.{minor}, {} multiprocessors, {:.1} GiB, a driver for CUDA {}.{}",
                    at.name,
                    at.multiprocessors,
                    gib(at.memory as u64),
                    version.0,
                    version.1
                );
                if let Ok(free) = &opened {
                    text += &format!(", {:.1} GiB free", gib(*free as u64));
                }
                all.push(Listed { name: format!("cuda:{}", at.ordinal), text, problem: opened.err() });
            }
        }
        Err(error) => all.push(Listed { name: "cuda".into(), text: "NVIDIA cards".into(), problem: Some(error) }),
    }
    all.extend(adapters::list());
    let text = format!("{}, {}", device::host::processor::name(), Isa::detect().name());
    all.push(Listed { name: "cpu".into(), text, problem: None });
    all
}

/// A device that may be chosen.
pub struct Listed {
    /// Its name as a choice.
    pub name: String,
    /// What it is.
    pub text: String,
    /// Why it cannot be used.
    pub problem: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_names() {
        for choice in [
            Choice::Auto,
            Choice::Cpu,
            Choice::Cuda(0),
            Choice::Cuda(3),
            Choice::Wgpu(0),
            Choice::Wgpu(2),
            Choice::Interpreter,
        ] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert_eq!("cuda:0".parse(), Ok(Choice::Cuda(0)));
        assert_eq!(["METAL", "Vulkan:0", "dx12"].map(str::parse), [const { Ok(Choice::Wgpu(0)) }; 3]);
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(wrong.parse::<Choice>().unwrap_err().contains("cuda:N"));
        }
    }
}
