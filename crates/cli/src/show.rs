//! `show`: what is in a model file, and what it needs of the machine. Reads no weights.

use crate::arguments::{ContextFlag, EngineFlags, ModelFile};
use crate::metadata;
use crate::models;
use crate::open::{self, Positions, bytes};
use crate::output::{self, Stdout};
use compiler::program::Program;
use device::heap::Apart;
use device::{Device, Executable, Memory, Null, Target};
use devices::Choice;
use gguf::Gguf;
use gguf::plain::{self, MESSAGE};
use model::config::Config;
use model::engine::{Engine, EngineOptions, Sharing};
use model::memory_plan::{self, ModelMemory, Room};
use model::step::{Class, Output, Variant};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelFile,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    context: ContextFlag,
    #[command(flatten)]
    engine: EngineFlags,
}

/// Shows a file.
pub fn run(args: &Arguments) -> anyhow::Result<()> {
    if let Some(row) = models::not_here(args.model.name())? {
        return row.print(args.json);
    }
    let path = &models::resolve(args.model.name(), &args.model.fetch)?;
    let file = open::file(path)?;
    let needs = needs(args, &file);
    if !args.json {
        return output::print(&in_text(path, &file, &needs));
    }
    let mut out = Stdout;
    writeln!(out, "{}", serde_json::to_string_pretty(&in_json(path, &file, &needs))?)?;
    Ok(out.flush()?)
}

/// A model that this program runs, and what for.
struct Needs {
    config: Config,
    plan: ModelMemory,
    /// Weights that one token reads.
    step_bytes: u64,
    cache_bytes: u64,
    kernels: usize,
    stages: usize,
}

/// A device that programs are made for, and on which nothing is loaded.
struct Unloaded(Arc<dyn Device>);

impl Device for Unloaded {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, program: Arc<Program>, memory: &mut Memory) -> device::Result<Box<dyn Executable>> {
        Null.load(program, memory)
    }

    /// Of which nothing is taken: weights that are mapped lie elsewhere.
    fn memory(&self) -> Memory {
        Memory::on(Arc::new(Apart))
    }

    fn available_memory(&self) -> Option<u64> {
        self.0.available_memory()
    }

    fn largest_block(&self) -> Option<u64> {
        self.0.largest_block()
    }

    fn keeps_weights(&self) -> bool {
        self.0.keeps_weights()
    }
}

/// What programs are made for, and what the compiler does then: a GPU if one is named, else the processor.
fn target(flags: &EngineFlags) -> anyhow::Result<(Arc<dyn Device>, compiler::Options)> {
    if let Choice::Cuda(_) | Choice::Wgpu(_) = flags.device {
        let device = open::gpu(flags)?.device();
        let options = open::leave_out(&flags.kernels, device.options(open::numerics(&flags.kernels)))?;
        return Ok((Arc::new(Unloaded(device)), options));
    }
    let target = open::target(flags)?.map_or_else(|| Target::detect(None), Ok)?;
    Ok((Arc::new(Null), open::compiler_options(&flags.kernels, &target)?))
}

/// What the model needs, or why it cannot be run.
fn needs(args: &Arguments, file: &Arc<Gguf>) -> Result<Needs, String> {
    let in_one_line = |error: anyhow::Error| crate::failure::message(&error);
    let of_engine = || -> anyhow::Result<Needs> {
        let config = Config::read(file)?;
        let cache = open::cache_kind(&args.engine.kernels)?;
        let (device, compiler) = target(&args.engine)?;
        let whole_windows = args.engine.swa_full;
        let weights = memory_plan::weights(file);
        let usual = memory_plan::default_context(&config, cache, weights, Room::of(&*device), whole_windows);
        let context = open::context(&config, Positions::Flag(args.context.ctx_size), usual);
        let chunk = args.engine.kernels.step_tokens(&compiler).min(context as i64);
        let options = EngineOptions { compiler, context: context as i64, chunk, cache };
        let sharing = Sharing { whole_windows, ..Sharing::of_texts(1, context as i64) };
        let mut engine = Engine::shared(file.clone(), device, options, sharing)?;
        let output = Output::usual(&config);
        let one = Variant { class: Class::One, output };
        engine.prepare(one)?;
        engine.prepare(Variant { class: Class::Many, output })?;
        let threads = args.engine.threads.map_or_else(device::default_threads, usize::from);
        let workers = |many| args.engine.threads_batch.filter(|_| many).map_or(threads, usize::from);
        let program = engine.program(one).map(|(program, _)| program);
        Ok(Needs {
            plan: ModelMemory::of_engine(&engine, workers),
            step_bytes: memory_plan::step_bytes(&engine).unwrap_or(0),
            cache_bytes: memory_plan::cache_bytes(&config, cache),
            kernels: program.map_or(0, |p| p.launches()),
            stages: program.map_or(0, |p| p.stages.len()),
            config,
        })
    };
    of_engine().map_err(in_one_line)
}

/// Tensors of one type.
struct OfType {
    name: &'static str,
    tensors: usize,
    bytes: u64,
}

fn types(file: &Gguf) -> Vec<OfType> {
    let mut all: Vec<OfType> = vec![];
    for tensor in file.tensors() {
        let name = tensor.ty.name();
        match all.iter_mut().find(|t| t.name == name) {
            Some(of_type) => {
                of_type.tensors += 1;
                of_type.bytes += tensor.bytes;
            }
            None => all.push(OfType { name, tensors: 1, bytes: tensor.bytes }),
        }
    }
    all.sort_by_key(|of_type| std::cmp::Reverse(of_type.bytes));
    all
}

fn in_text(path: &std::path::Path, file: &Gguf, needs: &Result<Needs, String>) -> String {
    let mut out = String::new();
    let files = if file.shards() > 1 { format!(" in {} files", file.shards()) } else { String::new() };
    let (name, size) = (path.display().to_string(), bytes(file.bytes()));
    let _ = writeln!(out, "{}: GGUF version {}, {size}{files}", plain::line(&name, MESSAGE), file.version());
    let _ = writeln!(out, "{}, {} weights", open::description(file), open::short_count(open::parameters(file)));
    let _ = writeln!(out, "\nmetadata: {} keys", file.metadata().len());
    for (key, value) in file.metadata().iter() {
        let (key, value) = (plain::name(key), crate::failure::one_line(&value.to_string()));
        let _ = writeln!(out, "  {key} = {value}");
    }
    match needs {
        Ok(needs) => {
            let _ = writeln!(out, "\nconfiguration");
            for (key, value) in &config_json(&needs.config) {
                let _ = writeln!(out, "  {key} = {}", plain::line(&value.to_string(), plain::QUOTE));
            }
        }
        Err(reason) => {
            let _ = writeln!(out, "\nconfiguration: none, {}", plain::line(reason, MESSAGE));
        }
    }
    let _ = writeln!(out, "\ntensors: {}", file.tensors().len());
    for tensor in file.tensors() {
        let shape: Vec<String> = tensor.shape().iter().map(u64::to_string).collect();
        let _ =
            writeln!(out, "  {:<40} {:<8} {:<24} {}", tensor.name, tensor.ty, shape.join(" x "), bytes(tensor.bytes));
    }
    let _ = writeln!(out, "\ntypes");
    for of_type in types(file) {
        let _ = writeln!(out, "  {:<8} {:>5} tensors, {}", of_type.name, of_type.tensors, bytes(of_type.bytes));
    }
    if let Ok(needs) = needs {
        let _ = writeln!(
            out,
            "\na token reads {:.1} MB of weights, and {} of the cache a position, with {} kernels in {} stages",
            needs.step_bytes as f64 / 1e6,
            bytes(needs.cache_bytes),
            needs.kernels,
            needs.stages
        );
        let _ = writeln!(out, "memory: {}", needs.plan);
        if let Err(error) = needs.plan.check() {
            let _ = writeln!(out, "{error}");
        }
    }
    out
}

fn in_json(path: &std::path::Path, file: &Gguf, needs: &Result<Needs, String>) -> Value {
    let tensor = |t: &gguf::Tensor| json!({ "name": t.name, "type": t.ty.name(), "shape": t.shape(), "bytes": t.bytes, "file": t.shard, "offset": t.offset });
    let of_type = |t: &OfType| json!({ "type": t.name, "tensors": t.tensors, "bytes": t.bytes });
    let mut all = json!({
        "file": path.display().to_string(),
        "version": file.version(),
        "files": file.shards(),
        "bytes": file.bytes(),
        "description": open::description(file),
        "parameters": open::parameters(file),
        "metadata": metadata::shown(file),
        "types": types(file).iter().map(of_type).collect::<Vec<_>>(),
        "tensors": file.tensors().iter().map(tensor).collect::<Vec<_>>(),
    });
    match needs {
        Ok(needs) => {
            all["config"] = Value::Object(config_json(&needs.config));
            all["weight_bytes_per_token"] = json!(needs.step_bytes);
            all["cache_bytes_per_position"] = json!(needs.cache_bytes);
            all["kernels"] = json!(needs.kernels);
            all["stages"] = json!(needs.stages);
            all["memory"] = json!({
                "context": needs.plan.context,
                "weights": needs.plan.weights,
                "cache": needs.plan.cache,
                "workspace": needs.plan.workspace,
                "available": needs.plan.available,
                "fits": needs.plan.check().is_ok(),
            });
        }
        Err(reason) => all["unsupported"] = json!(reason),
    }
    all
}

fn config_json(config: &Config) -> Map<String, Value> {
    // It is a plain tree of numbers and texts.
    serde_json::to_value(config).ok().and_then(|value| value.as_object().cloned()).unwrap_or_default()
}
