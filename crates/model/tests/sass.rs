//! What the assembler makes of kernels that decode: loads that are early in the text of a kernel are early in its
//! instructions, and nothing is spilled. Only the disassembly shows it, as the assembler moves loads that it can prove to be
//! of constants behind the wait.
//!
//! It needs NVRTC, as [`crate::nvrtc`] does, and `nvdisasm` (the wheel `nvidia-cuda-nvdisasm`; `.ci/run` fetches it), and no
//! card. Without them the test says that it was skipped.

use crate::nvrtc::library;
use crate::support::hollow::Hollow;
use compiler::Compiled;
use cuda::architecture::Architecture;
use cuda::disassembly::Disassembler;
use cuda::nvrtc::options;
use device::host::jobs;
use ir::{Id, Op};
use model::cache::CacheKind;
use model::step::Class;
use std::collections::HashSet;

/// A generation whose kernels begin early.
const ARCHITECTURE: &str = "sm_90a";

/// The instruction that waits for the launches before.
const WAIT: &str = "ACQBULK";

/// The instructions of a kernel in their order, without what decides whether they are executed.
fn instructions(text: &str) -> Vec<&str> {
    let instruction = |line| -> Option<&str> {
        // `        /*00b0*/                   @!P0 LDG.E.128 R4, [R2.64] ;`
        let (_, rest) = str::trim_start(line).strip_prefix("/*")?.split_once("*/")?;
        let (text, _) = rest.split_once(';')?;
        let text = text.trim();
        let predicated = text.starts_with('@').then(|| text.split_once(' ')).flatten();
        Some(predicated.map_or(text, |(_, text)| text.trim()))
    };
    text.lines().filter_map(instruction).collect()
}

/// Bytes that a load from global memory brings a thread.
fn loaded(instruction: &str) -> Option<usize> {
    let name = instruction.split_whitespace().next()?;
    let mut parts = name.split('.');
    (parts.next() == Some("LDG")).then(|| {
        let width = |part| match part {
            "128" => Some(16),
            "64" => Some(8),
            "U16" | "S16" => Some(2),
            "U8" | "S8" => Some(1),
            _ => None,
        };
        parts.find_map(width).unwrap_or(4)
    })
}

/// Bytes that a thread loads before each wait, ascending: of each part, which begins where the one before has ended.
fn early_in_instructions(instructions: &[&str]) -> Vec<usize> {
    let mut all: Vec<usize> = vec![];
    for (at, _) in instructions.iter().enumerate().filter(|(_, text)| text.starts_with(WAIT)) {
        let own = instructions[..at].iter().rev().take_while(|text| !text.starts_with("EXIT"));
        all.push(own.filter_map(|text| loaded(text)).sum());
    }
    all.sort_unstable();
    all
}

/// The same as the compiler of kernels means it.
fn early_in_ir(c: &Compiled, root: Id) -> Vec<usize> {
    let g = &c.graph;
    let parts = if *g.op(root) == Op::Parts { g.src(root).to_vec() } else { vec![root] };
    let mut all: Vec<usize> = parts.into_iter().map(|part| crate::gpu_shapes::early_bytes(c, part)).collect();
    all.sort_unstable();
    all
}

#[test]
fn early_loads_stay_early_and_nothing_is_spilled() {
    let Some(nvrtc) = library() else { return };
    let Ok(disassembler) = Disassembler::find() else {
        println!("sass: skipped, nvdisasm is not found");
        return;
    };
    // Attention over latents, and real widths: what is spilled depends on them. A long past of codes needs most registers.
    let hollow = Hollow::new("youtu-llm-2b", 2);
    let of_codes = Hollow { cache: Some(CacheKind::Q8_0), context: 65_536, ..Hollow::new("youtu-llm-2b", 2) };
    let architecture = Architecture::named(ARCHITECTURE).expect("an architecture");
    let programs =
        [hollow, of_codes].map(|h| h.compile_with(Class::One, &architecture.options(h.numerics)).expect("a program"));
    let mut seen = HashSet::new();
    let all = programs.iter().flat_map(|c| (0..c.program.kernels.len()).map(move |index| (c, index)));
    let kernels: Vec<_> = all.filter(|(c, index)| seen.insert(&c.program.kernels[*index].source)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let checked = jobs::all(threads, kernels.len(), |at| {
        let (c, index) = kernels[at];
        let (kernel, root) = (&c.program.kernels[index], c.bodies[index].root);
        let source = format!("{}\n{}", c.program.prelude, kernel.source);
        let code = nvrtc.compile(&source, &options(ARCHITECTURE)).unwrap_or_else(|e| panic!("{}: {e}", kernel.symbol));
        let text = disassembler.text(&code)?;
        let instructions = instructions(&text);
        assert!(instructions.len() > 20, "{}: {text}", kernel.symbol);
        let spilled = instructions.iter().find(|text| text.starts_with("STL") || text.starts_with("LDL"));
        assert_eq!(spilled, None, "{} has too few registers", kernel.symbol);
        let early = early_in_ir(c, root);
        assert_eq!(early_in_instructions(&instructions), early, "{}: bytes before each wait", kernel.symbol);
        Ok(early.into_iter().sum::<usize>())
    });
    let early: Vec<usize> = checked.expect("texts");
    let (kernels, begins) = (early.len(), early.iter().filter(|&&bytes| bytes > 0).count());
    assert!(2 * begins > kernels, "only {begins} of {kernels} kernels load anything early");
    println!("sass: {kernels} kernels for {ARCHITECTURE} read, {begins} of them load early");
}

#[test]
fn instructions_are_read() {
    let text = "
        .target sm_90a
kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 EXIT ;
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/               @P1 LDG.E.U16 R8, desc[UR4][R2.64+0x10] ;
        /*0040*/                   ACQBULK ;
        /*0050*/                   LDG.E R9, desc[UR4][R6.64] ;
.L_x_1:
        /*0060*/                   EXIT ;
        /*0070*/                   LDG.E.64.CONSTANT R8, desc[UR4][R2.64] ;
        /*0080*/                   ACQBULK ;
        /*0090*/                   BRA `(.L_x_1);
";
    let read = instructions(text);
    assert_eq!((read.len(), read[1], read[3].split(' ').next()), (10, "EXIT", Some("LDG.E.U16")));
    assert_eq!(early_in_instructions(&read), [8, 18]);
    assert_eq!(["LDG.E.S8 R1", "LDG.E R1", "LDS R1", "EXIT"].map(loaded), [Some(1), Some(4), None, None]);
}
