//! `show`: what is in a model file, and what it needs of the machine. Reads no weights.

use crate::arguments::{ContextFlag, EngineFlags, ModelFile};
use crate::models;
use crate::open::{self, Positions, bytes};
use crate::output::{self, Stdout};
use device::{Device, Null, Target};
use gguf::plain::{self, MESSAGE};
use gguf::{Array, Gguf, Value as Meta};
use model::config::{Attention, Config, Gating};
use model::engine::{Engine, EngineOptions, Sharing};
use model::memory_plan::{self, ModelMemory};
use model::step::Class;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

/// Arrays of metadata are cut to this length in JSON.
const ARRAY_SHOWN: usize = 1000;

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

/// What the model needs, or why it cannot be run.
fn needs(args: &Arguments, file: &Arc<Gguf>) -> Result<Needs, String> {
    let in_one_line = |error: anyhow::Error| crate::failure::message(&error);
    let of_engine = || -> anyhow::Result<Needs> {
        let config = Config::read(file)?;
        let cache = open::cache_kind(&args.engine.kernels)?;
        let context = open::context(&config, Positions::Flag(args.context.ctx_size))?;
        let target = open::target(&args.engine)?.map_or_else(|| Target::detect(None), Ok)?;
        let compiler = open::compiler_options(&args.engine.kernels, &target)?;
        let chunk = i64::from(args.engine.kernels.ubatch_size).min(context as i64);
        let options = EngineOptions { compiler, context: context as i64, chunk, cache };
        let device: Arc<dyn Device> = Arc::new(Null);
        let mut engine = Engine::shared(file.clone(), device, options, Sharing::of_texts(1, context as i64))?;
        engine.prepare(Class::One)?;
        engine.prepare(Class::Many)?;
        let threads = args.engine.threads.map_or_else(device::default_threads, usize::from);
        let workers = |many| args.engine.threads_batch.filter(|_| many).map_or(threads, usize::from);
        let program = engine.program(Class::One).map(|(program, _)| program);
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
    let metadata: Map<String, Value> =
        file.metadata().iter().map(|(key, value)| (key.to_owned(), meta_json(&value))).collect();
    let tensor = |t: &gguf::Tensor| json!({ "name": t.name, "type": t.ty.name(), "shape": t.shape(), "bytes": t.bytes, "file": t.shard, "offset": t.offset });
    let of_type = |t: &OfType| json!({ "type": t.name, "tensors": t.tensors, "bytes": t.bytes });
    let mut all = json!({
        "file": path.display().to_string(),
        "version": file.version(),
        "files": file.shards(),
        "bytes": file.bytes(),
        "description": open::description(file),
        "parameters": open::parameters(file),
        "metadata": metadata,
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

/// A value of metadata; long arrays are cut, and say so.
fn meta_json(value: &Meta<'_>) -> Value {
    match value {
        Meta::Bool(v) => json!(v),
        Meta::String(v) => json!(String::from_utf8_lossy(v)),
        Meta::Array(array) if array.len() > ARRAY_SHOWN => {
            json!({ "array": array.len(), "of": array.element_type().to_string() })
        }
        Meta::Array(array) => array_json(array),
        other => match (other.integer(), other.float()) {
            (Some(v), _) => i64::try_from(v).map_or_else(|_| json!(v as u64), |v| json!(v)),
            (_, Some(v)) => json!(v),
            _ => Value::Null,
        },
    }
}

fn array_json(array: &Array<'_>) -> Value {
    Value::Array(array.iter().map(|value| meta_json(&value)).collect())
}

fn config_json(c: &Config) -> Map<String, Value> {
    let attention = match &c.attention {
        Attention::Grouped { kv_heads, head, value } => {
            json!({ "kind": "grouped", "kv_heads": kv_heads, "head": head, "value": value })
        }
        Attention::Latent { q_rank, kv_rank, nope, rope, value } => {
            json!({ "kind": "latent", "q_rank": q_rank, "kv_rank": kv_rank, "nope": nope, "rope": rope, "value": value })
        }
    };
    let experts = c.experts.as_ref().map(|e| {
        json!({
            "count": e.count, "used": e.used, "shared": e.shared, "width": e.width,
            "gating": match e.gating { Gating::Softmax => "softmax", Gating::Sigmoid => "sigmoid" },
            "normalise": e.normalise, "scale": e.scale, "groups": e.groups.0, "groups_used": e.groups.1,
        })
    });
    let all = json!({
        "architecture": c.arch, "name": c.name, "layers": c.layers, "hidden": c.hidden, "heads": c.heads,
        "vocabulary": c.vocab, "context": c.context, "norm_epsilon": c.eps, "attention": attention,
        "attention_scale": c.scale, "rope_dimensions": c.rope.dims, "rope_amplitude": c.rope.amplitude,
        "feed_forward": c.ffn, "dense_lead": c.dense_lead, "experts": experts,
    });
    all.as_object().cloned().unwrap_or_default()
}
