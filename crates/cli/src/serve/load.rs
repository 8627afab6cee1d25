//! From a file and the flags of a server to a model that answers.

use super::{Arguments, Reasoning, ReasoningFormat};
use crate::failure::Usage;
use crate::library;
use crate::metadata;
use crate::open::{self, Positions};
use crate::terminal;
use anyhow::Context;
use devices::Machine;
use model::config::{Config, ConfigError};
use model::engine::Sharing;
use model::memory_plan::{self, ModelMemory, Room};
use model::scheduler::{Options as Sharings, Pooling, Scheduler, worker::Worker};
use model::step::{Output, Variant};
#[cfg(unix)]
use server::grammar::{Isolation, Program};
use server::{Defaults, Facts, Model};
use std::path::Path;
use std::time::SystemTime;
use text::chat::{ChatTemplate, Family};
use text::fill::Fill;
use text::rank::Pairs;
use text::sampler::Sampler;

/// Opens a model on this device and starts its engine.
pub(super) fn model(args: &Arguments, path: &Path, names: Vec<String>, machine: Machine) -> anyhow::Result<Model> {
    let file = open::file(path)?;
    let config = open::config(&file, path)?;
    let mut tokenizer = open::tokenizer(&file, path)?;
    let text = |id: Option<u32>| {
        String::from_utf8_lossy(id.and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default()).into_owned()
    };
    let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
    let template = match &args.chat_template_file {
        Some(path) => {
            let source = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            ChatTemplate::parse(&source, &bos, &eos)
        }
        None if args.chat_template.is_some() => {
            let given = args.chat_template.as_deref().unwrap_or_default();
            match Family::named(given) {
                Some(family) => ChatTemplate::of_family(family, &bos, &eos),
                None if given.contains('{') => ChatTemplate::parse(given, &bos, &eos),
                None => return Err(Usage(format!("there is no built-in template '{given}'")).into()),
            }
        }
        None if args.no_jinja => ChatTemplate::of_family(Family::of(&tokenizer), &bos, &eos),
        None => ChatTemplate::of_model(&tokenizer),
    };
    let template = template.map_err(|error| error.to_string());
    if let Ok(template) = &template {
        tokenizer.use_template(template.source());
    }
    if let Err(problem) = &template {
        terminal::line(&format!("warning: no chat, as the template cannot be used: {problem}"));
    }
    let mut sampling = args.sampling.config(&tokenizer);
    sampling.seed = 0;
    Sampler::new(sampling.clone(), config.vocab as usize)?;
    if config.denoises {
        config.check_goes_on()?;
    }
    let ranks = ranks(args, &config)?;
    let pairs = Pairs::of(&file, &tokenizer).with_context(|| path.display().to_string())?;
    let (one, all) = positions(args, &config, memory_plan::weights(&file), Room::of(&*machine.device()))?;
    let sharing = Sharing::of_texts(i64::from(args.places()), all as i64);
    let mut opened = open::shared_engine_on(path, &args.engine, Positions::Needed(one), sharing, machine)?;
    let (available, keeps_weights) = (device::available_memory(), opened.engine.device().keeps_weights());
    let snapshots =
        args.ctx_checkpoints.map_or_else(|| memory_plan::default_snapshots(&config, available), usize::from);
    if !opened.engine.rewinds() && !args.no_prefix_cache {
        let each = open::bytes(memory_plan::state_bytes(&config));
        terminal::line(&format!(
            "this model remembers in states: it goes on from {snapshots} texts at most, of {each} each (--ctx-checkpoints)"
        ));
    }
    if args.batch_invariant {
        anyhow::ensure!(
            opened.engine.rewinds(),
            "--batch-invariant: a model that remembers adds up a prompt by the steps that it comes in"
        );
        opened.engine.make_batch_invariant();
    }
    let mut outputs = if config.causal { vec![Output::Logits] } else { vec![] };
    outputs.extend(ranks.then_some(Output::Scores));
    outputs.extend((!ranks && (!config.causal || args.embeddings)).then_some(Output::Hidden));
    if config.causal && opened.engine.device().steps_ahead() > 0 {
        outputs.extend([Output::Likeliest, Output::Drawn]);
    }
    // Whatever the mix of requests, no step waits for a compiler: it begins with the program of one token, and is moved over
    // to its own when that is there.
    let classes = opened.engine.all_classes();
    let variants = classes.iter().flat_map(|&class| outputs.iter().map(move |&output| Variant { class, output }));
    let (first, others): (Vec<Variant>, Vec<Variant>) = variants.partition(|variant| variant.class.takes_one());
    opened.begin(&args.begin, &first, &others, |line| terminal::line(&line))?;
    let facts = Facts {
        path: path.display().to_string(),
        names,
        tags: args.tags.clone(),
        architecture: file
            .metadata()
            .find::<&str>("general.architecture")
            .ok()
            .flatten()
            .unwrap_or_default()
            .to_owned(),
        quantization: open::main_type(&file).to_owned(),
        digest: library::digest(path),
        modified: written(path).or_else(|| written(&std::env::current_exe().ok()?)),
        metadata: metadata::without_long_lists(&file),
        parameters: open::parameters(&file),
        bytes: file.tensors().iter().map(|tensor| tensor.bytes).sum(),
        trained_context: memory_plan::made_for(&config) as u64,
        width: config.hidden as u64,
        pooling: config.pooling,
        cache: opened.engine.cache().to_string(),
        device: opened.engine.device().name(),
        memory: Some(opened.memory()),
        programs: opened.engine.readiness().clone(),
    };
    let beside = args.prefill_beside.map_or(opened.engine.prompt_tokens_beside(), |tokens| tokens as usize);
    terminal::line(&format!("a step that decodes reads at most {beside} tokens of prompts (--prefill-beside)"));
    let beside_bytes = match args.cache_ram {
        Some(mebibytes) => u64::try_from(mebibytes).map_or(u64::MAX, |mebibytes| mebibytes.saturating_mul(1 << 20)),
        None => memory_plan::default_beside(if keeps_weights { 0 } else { memory_plan::weights(&file) }, available),
    };
    if beside_bytes > 0 && !args.no_prefix_cache {
        let most = if beside_bytes == u64::MAX {
            "without a bound".into()
        } else {
            format!("{} at most", open::bytes(beside_bytes))
        };
        terminal::line(&format!("what the cache has no room for waits beside it, {most} (--cache-ram)"));
    }
    let options = Sharings { queue: args.max_queue, beside, reuse: !args.no_prefix_cache, snapshots, beside_bytes };
    let (worker, _) = Worker::start(Scheduler::new(Box::new(opened.engine), options)).context("no engine thread")?;
    let defaults = Defaults {
        sampling,
        seed: args.sampling.seed,
        limit: usize::try_from(args.predict).ok(),
        thinking: match args.reasoning {
            Reasoning::On => Some(true),
            Reasoning::Off => Some(false),
            Reasoning::Auto => None,
        },
        raw_reasoning: args.reasoning_format == ReasoningFormat::None,
        parse_special: args.parse_special,
    };
    let fill = Fill::of(&file, &tokenizer);
    let mut model = Model::new(worker, tokenizer, template, facts, defaults);
    #[cfg(unix)]
    {
        let program = Program::this().context("the program that compiles grammars cannot be found")?;
        model.isolation = Isolation::Processes(program);
    }
    (model.fill, model.pairs) = (fill, pairs);
    Ok(model)
}

/// What a model needs by its plan, before any of its programs is compiled; what is not said takes the room that there is.
pub(super) fn plan(args: &Arguments, path: &Path, room: Room) -> anyhow::Result<ModelMemory> {
    let file = open::file(path)?;
    let config = open::config(&file, path)?;
    let cache = open::cache_kind(&args.engine.kernels)?;
    let (one, all) = positions(args, &config, memory_plan::weights(&file), room)?;
    Ok(ModelMemory::of_cache(&config, all.max(one), cache, &file))
}

/// Positions of one sequence and of all, for so many bytes of weights on a device with this room.
fn positions(args: &Arguments, config: &Config, weights: u64, room: Room) -> anyhow::Result<(usize, usize)> {
    let cache = open::cache_kind(&args.engine.kernels)?;
    let usual = memory_plan::default_context(config, cache, weights, room, args.engine.swa_full);
    Ok(args.positions(memory_plan::made_for(config), usual))
}

/// Whether the model gives scores.
fn ranks(args: &Arguments, config: &Config) -> anyhow::Result<bool> {
    let ranks = args.options().pooling.or(config.pooling) == Some(Pooling::Rank);
    if ranks && config.ranking.is_none() {
        return Err(ConfigError::NoRanking(config.arch.clone()).into());
    }
    Ok(ranks)
}

/// When a file was written. A model that comes with the program has the age of the program.
fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}
