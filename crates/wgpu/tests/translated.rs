//! Every kernel of tiny models becomes MSL and SPIR-V, for targets of several kinds; needs no adapter. Where `spirv-val` is
//! there, it looks at the SPIR-V.

use compiler::gpu::GpuPlan;
use compiler::{Compiled, Numerics, Options};
use gguf::Gguf;
use model::cache::{CacheKind, PAGE};
use model::config::Config;
use model::step::{Class, Output, Sizes, build};
use naga::back::{msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use std::collections::HashSet;
use std::io::Write;
use std::process::Command;
use testkit::golden::{Golden, all};

/// Files whose kernels are translated: each model and each kind of format.
const FILES: [&str; 7] = [
    "tiny-llama-Q4_0",
    "tiny-llama-IQ4_XS",
    "tiny-llama-BF16",
    "tiny-mla-moe-Q4_K_M",
    "tiny-mla-dense-Q4_0",
    "tiny-qwen3moe-Q4_0",
    "tiny-glm4-Q5_K_M",
];

/// Apple's GPUs, a large card, a small one without subgroups, one with long ones, and one that multiplies matrices.
fn plans() -> Vec<(Class, GpuPlan)> {
    let small = GpuPlan { shared: 16 << 10, slots: 7, ..GpuPlan::portable(1, 32) };
    vec![
        (Class::One, GpuPlan::portable(32, 256)),
        (Class::Short, GpuPlan::portable(32, 1024)),
        (Class::Few, small),
        (Class::Many, GpuPlan { slots: 15, ..GpuPlan::portable(16, 256) }),
        (Class::Many, GpuPlan::of_matrices()),
    ]
}

fn program(file: &Golden, numerics: Numerics, class: Class, plan: GpuPlan) -> Compiled {
    let opened = Gguf::open(&file.path).expect("a model file");
    let config = Config::read(&opened).expect("a model");
    let options = Options::wgsl_on(numerics, plan);
    let pages = 256 / PAGE;
    let sizes = Sizes {
        class,
        output: Output::Logits,
        most_tokens: 64,
        most_rows: 64,
        segments: 1,
        window_pages: pages,
        pages,
        row_pages: pages,
        cache: CacheKind::of(numerics),
    };
    build(&opened, &config, &sizes, &options).expect("a program")
}

/// A kernel that was read and found valid.
fn valid(text: &str) -> Result<(naga::Module, ModuleInfo), String> {
    let module = naga::front::wgsl::parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let halves = Capabilities::SHADER_FLOAT16_IN_FLOAT32 | Capabilities::SHADER_FLOAT16;
    let capabilities = Capabilities::SUBGROUP | halves | Capabilities::COOPERATIVE_MATRIX;
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    let info = info.map_err(|error| error.emit_to_string(text))?;
    Ok((module, info))
}

/// The validator of SPIR-V of the Khronos group.
const VALIDATOR: &str = "spirv-val";

/// Whether it finds nothing in a module.
fn validated(words: &[u32]) -> Result<(), String> {
    let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&bytes).map_err(|error| error.to_string())?;
    let out = Command::new(VALIDATOR).args(["--target-env", "vulkan1.1"]).arg(file.path()).output();
    let out = out.map_err(|error| error.to_string())?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

fn translated(text: &str, symbol: &str, validates: bool) -> Result<(), String> {
    let (module, info) = valid(text)?;
    let options = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
    let words = spv::write_vec(&module, &info, &options, None).map_err(|error| error.to_string())?;
    let matrices = text.contains("coop_mat16x16");
    // Those of Debian 12 are older than matrices.
    if validates && !matrices {
        validated(&words)?;
    }
    // Metal has smaller ones.
    if matrices {
        return if words.len() > 20 { Ok(()) } else { Err("nothing came out".into()) };
    }
    let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
    let text = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
    let (text, _) = text.map_err(|error| error.to_string())?;
    // Both have the entry point.
    match words.len() > 20 && text.contains(symbol) {
        true => Ok(()),
        false => Err("nothing came out".into()),
    }
}

#[test]
fn kernels_become_msl_and_spirv() {
    let files: Vec<Golden> = all().into_iter().filter(|f| FILES.iter().any(|n| f.name.starts_with(n))).collect();
    assert!(!files.is_empty(), "no golden files");
    let version = Command::new(VALIDATOR).arg("--version").output();
    let validates = version.is_ok_and(|out| out.status.success());
    let (mut seen, mut kernels, mut of_matrices, mut problems) = (HashSet::new(), 0, 0, vec![]);
    for file in &files {
        for (numerics, class, plan) in plans()
            .into_iter()
            .flat_map(|(class, plan)| [Numerics::Exact, Numerics::Int8].map(|numerics| (numerics, class, plan.clone())))
        {
            let program = program(file, numerics, class, plan).program;
            for kernel in &program.kernels {
                if !seen.insert(kernel.source.clone()) {
                    continue;
                }
                kernels += 1;
                of_matrices += usize::from(kernel.source.contains("coopMultiplyAdd"));
                let text = format!("{}\n{}", program.prelude, kernel.source);
                if let Err(problem) = translated(&text, &kernel.symbol, validates) {
                    problems.push(format!("{} {}: {problem}", file.name, kernel.symbol));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} of {kernels}: {}", problems.len(), problems[..1.min(problems.len())].join("\n"));
    assert!(of_matrices > 20, "{of_matrices} kernels multiply matrices");
    let found = if validates { "found valid" } else { "not looked at: spirv-val is not there" };
    println!("wgpu: {kernels} kernels of {} files became MSL and SPIR-V ({found})", files.len());
}
