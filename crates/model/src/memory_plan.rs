//! What a model needs of the machine: memory, and bytes read a token.

use crate::cache::{CacheKind, PAGE};
use crate::config::{Attention, Config};
use crate::engine::Engine;
use crate::step::{Class, Output, Variant};
use crate::window_pages;
use device::{Device, Needs};
use gguf::Gguf;
use ir::DType;
use std::fmt;

/// Bytes of a position in each state of the cache of a layer, in a context of so many: of keys and values, or of latents with what
/// is rotated beside them and of the keys of their index.
fn rows(config: &Config, cache: CacheKind, layer: i64, context: u64) -> [u64; 2] {
    let bytes = |n: i64| cache.bytes(n as u64);
    match config.attention_of(layer) {
        Attention::Grouped { kv_heads, head, value } => [bytes(kv_heads * head), bytes(kv_heads * value)],
        Attention::Latent { kv_rank, rope, .. } => {
            let index = config.index_among(i64::try_from(context).unwrap_or(i64::MAX));
            let index = index.filter(|index| index.own[layer as usize]);
            [bytes(kv_rank + rope), index.map_or(0, |index| cache.of_index().bytes(index.key as u64))]
        }
        Attention::None => [0; 2],
    }
}

/// Bytes of the cache for one position of one sequence, in a context that the model was made for.
pub fn cache_bytes(config: &Config, cache: CacheKind) -> u64 {
    cache_bytes_of(config, cache, made_for(config) as u64, (1, 1))
}

/// Bytes of the cache for so many positions, of which layers with a window have so many, in a context of so many.
fn cache_bytes_of(config: &Config, cache: CacheKind, context: u64, (positions, in_window): (u64, u64)) -> u64 {
    let kept = |layer| if config.window_of(layer).is_some() { in_window } else { positions };
    let own = (0..config.layers).filter(|&layer| config.has_cache(layer));
    own.map(|layer| rows(config, cache, layer, context).iter().sum::<u64>().saturating_mul(kept(layer))).sum()
}

/// Bytes of the cache that a token reads which has so many positions behind it, itself among them: where an index chooses, the
/// keys of the index for all of them and the rest for those that it chooses.
pub fn read_bytes(config: &Config, cache: CacheKind, positions: usize) -> u64 {
    let attending = (0..config.layers).filter(|&layer| config.mixers[layer as usize].attends());
    let most = config.index_among(positions as i64).map_or(positions, |index| index.top_k as usize);
    let read = |layer| {
        let [row, beside] = rows(config, cache, layer, positions as u64);
        let seen = config.seen(layer, 1, positions);
        seen.min(most) as u64 * row + seen as u64 * beside
    };
    attending.map(read).sum()
}

/// Bytes of the largest state of a layer, for so many positions, of which layers with a window have so many.
fn largest_state(config: &Config, cache: CacheKind, positions: u64, in_window: u64) -> u64 {
    let kept = |layer| if config.window_of(layer).is_some() { in_window } else { positions };
    let largest = |layer| rows(config, cache, layer, positions).into_iter().max().unwrap_or(0);
    let of_layer = |layer| largest(layer).saturating_mul(kept(layer));
    (0..config.layers).map(of_layer).max().unwrap_or(0)
}

/// Bytes of the states of one sequence, however long it is.
pub fn state_bytes(config: &Config) -> u64 {
    let layers = config.mixers.iter().filter(|mixer| mixer.remembers()).count();
    let values = config.recurrence.as_ref().map_or(0, |recurrence| recurrence.values(config.hidden));
    layers as u64 * values as u64 * DType::F32.bytes() as u64
}

/// Texts that a model that remembers can go on from, when nothing is said: as many as llama-server keeps, if an eighth of the
/// memory that is `available` to the host holds them. None for a model that does not remember.
pub fn default_snapshots(config: &Config, available: Option<u64>) -> usize {
    const USUAL: u64 = 32;
    match (state_bytes(config), available) {
        (0, _) => 0,
        (bytes, Some(available)) => USUAL.min(available / 8 / bytes) as usize,
        (_, None) => USUAL as usize,
    }
}

/// Bytes beside a device for pages of the cache when nothing is said: as many as llama-server takes for prompts, or a quarter
/// of the memory that is `available` to the host, of which the weights take so many.
pub fn default_beside(weights: u64, available: Option<u64>) -> u64 {
    const USUAL: u64 = 8 << 30;
    available.map_or(0, |available| USUAL.min(available.saturating_sub(weights) / 4))
}

/// Positions that a model has at least when nothing is said, if it was made for so many, and all that it has where the
/// system does not say how much memory there is.
pub const USUAL_CONTEXT: usize = 4096;

/// Tokens of a step, as far as that matters for what layers with a window keep.
const USUAL_STEP: i64 = 512;

/// Positions that a model was made for.
pub fn made_for(config: &Config) -> usize {
    usize::try_from(config.context).unwrap_or(1).max(1)
}

/// Bytes of a file as kernels read it: those of a tensor that is [unpacked](gguf::GgmlType::computed_as) when it is laid into
/// memory are what comes out.
pub fn weights(file: &Gguf) -> u64 {
    let packed = file.tensors().iter().filter(|tensor| tensor.ty.is_unpacked()).map(|tensor| tensor.bytes).sum();
    file.bytes().saturating_sub(packed).saturating_add(unpacked(file))
}

/// Bytes of what is unpacked of a file.
fn unpacked(file: &Gguf) -> u64 {
    file.tensors().iter().map(gguf::Tensor::unpacked_bytes).fold(0, u64::saturating_add)
}

/// Bytes of the largest weight of a file, or of a state of so many.
fn largest(file: &Gguf, state: u64) -> u64 {
    file.tensors().iter().map(|tensor| tensor.bytes.max(tensor.unpacked_bytes())).chain([state]).max().unwrap_or(0)
}

/// What a device has for a model. By default nothing is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes for its weights and for the cache, if the device says.
    pub available: Option<u64>,
    /// Bytes of one of its weights or states at most; `None` without a bound.
    pub largest_block: Option<u64>,
}

impl Room {
    /// What a device has now.
    pub fn of(device: &dyn Device) -> Room {
        Room { available: device.available_memory(), largest_block: device.largest_block() }
    }
}

/// Positions that texts have at most, when nothing is said, of which each is read in one step.
const USUAL_WHOLE: usize = 8192;

/// Positions of the cache when nothing is said: all that the model was made for, if half of the memory that is left beside
/// its weights holds them and no state is too large for it, else a power of two of which that is true: what is available changes a little
/// from run to run, and programs are kept for one number of positions. At least [`USUAL_CONTEXT`], whatever there is. Of a model
/// with an index no more than this chooses: beyond that each token scores all positions of the context, used or not.
///
/// # Arguments
/// `weights` are those of [`weights`]; layers with a window keep all positions with `whole_windows`.
pub fn default_context(config: &Config, cache: CacheKind, weights: u64, room: Room, whole_windows: bool) -> usize {
    let made_for = if config.causal { made_for(config) } else { made_for(config).min(USUAL_WHOLE) };
    let made_for = config.index.as_ref().map_or(made_for, |index| made_for.min(index.top_k as usize));
    let Some(available) = room.available else { return made_for.min(USUAL_CONTEXT) };
    let bytes = available.saturating_sub(weights) / 2;
    let [each, in_window] = [1, 0].map(|beside| cache_bytes_of(config, cache, made_for as u64, (beside, 1)));
    // Layers with a window take no more from some number of positions on.
    let pool = window_pages::pool(config, 1, USUAL_STEP).filter(|_| !whole_windows).map(|pages| (pages * PAGE) as u64);
    let beyond = pool
        .map_or(0, |kept| bytes.saturating_sub(in_window.saturating_mul(kept)) / each.saturating_sub(in_window).max(1));
    let held = (bytes / each.max(1)).max(beyond);
    let widest_row = largest_state(config, cache, 1, if pool.is_some() { 0 } else { 1 });
    let pages = |bytes: u64| bytes / (widest_row * PAGE as u64).max(1);
    let in_blocks = room.largest_block.map_or(u64::MAX, |bytes| pages(bytes).saturating_mul(PAGE as u64));
    match usize::try_from(held.min(in_blocks)).unwrap_or(usize::MAX) {
        fit if fit >= made_for => made_for,
        fit => fit.checked_ilog2().map_or(0, |log| 1 << log).max(USUAL_CONTEXT).min(made_for),
    }
}

/// Memory of a model at a context, known before any weight is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelMemory {
    /// Positions of the cache.
    pub context: u64,
    /// Bytes of the weights as kernels read them, those of [`weights`].
    pub weights: u64,
    /// How many of them are in no file as they are, but unpacked: a device that reads the mapped file has memory for them.
    pub unpacked: u64,
    /// Whether the device has a copy of the weights; otherwise the file is mapped, but for what is unpacked of it.
    pub keeps_weights: bool,
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes of the largest weight, or state of the cache.
    pub largest: u64,
    /// Everything else that is allocated: between kernels, scratch, tables, inputs, outputs. `None` if the programs
    /// have not been compiled yet.
    pub workspace: Option<u64>,
    /// What the device still has for all of this, if it says.
    pub available: Option<u64>,
}

/// A plan that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("not enough memory: {plan}; {advice}", plan = .0, advice = .0.advice())]
pub struct TooLarge(pub ModelMemory);

impl ModelMemory {
    /// What the cache alone needs at least: enough to refuse a context that is far too large before compiling for it.
    pub fn of_cache(config: &Config, context: usize, cache: CacheKind, file: &Gguf) -> ModelMemory {
        let context = context as u64;
        let positions = context.next_multiple_of(PAGE as u64);
        let in_window = config.window.as_ref().map_or(positions, |window| positions.min(window.width as u64));
        ModelMemory {
            context,
            weights: weights(file),
            unpacked: unpacked(file),
            keeps_weights: false,
            cache: cache_bytes_of(config, cache, positions, (positions, in_window)).saturating_add(state_bytes(config)),
            largest: largest(file, largest_state(config, cache, positions, in_window)),
            workspace: None,
            available: device::available_memory(),
        }
    }

    /// The same on a device.
    pub fn on(self, device: &dyn Device) -> ModelMemory {
        ModelMemory { keeps_weights: device.keeps_weights(), available: device.available_memory(), ..self }
    }

    /// What it takes of a device that copies weights.
    pub fn needs(&self) -> Needs {
        Needs { bytes: self.weights.saturating_add(self.cache), largest: self.largest }
    }

    /// What would make it fit.
    fn advice(&self) -> String {
        let rest = self.weights.saturating_add(self.workspace.unwrap_or(0));
        let per_position = self.cache / self.context.max(1);
        match self.available {
            Some(available) if self.keeps_weights && rest >= available => {
                "there is no split between card and processor; use --device cpu, or a smaller quantisation".into()
            }
            Some(available) if self.keeps_weights && per_position > 0 => format!(
                "about {} positions fit (-c), twice as many with --cache-type-k q8_0; or use --device cpu",
                (available - rest) / per_position
            ),
            Some(available) if self.unpacked.saturating_add(self.workspace.unwrap_or(0)) >= available => {
                "TQ1_0 is unpacked; choose another quantisation, which is mapped".into()
            }
            _ => "choose a smaller context (-c)".into(),
        }
    }

    /// What the programs that an engine has compiled need on so many workers in steps of few tokens, or of many.
    pub fn of_engine(engine: &Engine, workers: impl Fn(bool) -> usize) -> ModelMemory {
        let plan = engine.memory_plan(workers);
        let positions = engine.limits().pages as u64 * PAGE as u64;
        ModelMemory {
            context: match engine.limits() {
                limits if limits.segments == 1 => limits.context as u64,
                _ => positions,
            },
            weights: weights(engine.file()),
            unpacked: unpacked(engine.file()),
            largest: {
                let in_window = engine.window_positions() as u64;
                largest(engine.file(), largest_state(engine.config(), engine.cache(), positions, in_window))
            },
            keeps_weights: engine.device().keeps_weights(),
            cache: plan.states as u64,
            workspace: Some((plan.allocated() - plan.states) as u64),
            available: engine.available_memory(),
        }
    }

    /// Bytes of weights that are read from the mapped file.
    pub fn mapped(&self) -> u64 {
        if self.keeps_weights { 0 } else { self.weights.saturating_sub(self.unpacked) }
    }

    /// What is allocated; a mapped file is not.
    pub fn allocated(&self) -> u64 {
        self.weights
            .saturating_sub(self.mapped())
            .saturating_add(self.cache)
            .saturating_add(self.workspace.unwrap_or(0))
    }

    /// Whether it fits.
    ///
    /// # Errors
    /// [`TooLarge`] with the plan. Weights that are mapped may exceed the memory: they are then read from disk.
    pub fn check(&self) -> Result<(), TooLarge> {
        match self.available {
            Some(available) if self.allocated() > available => Err(TooLarge(*self)),
            _ => Ok(()),
        }
    }

    /// Whether the weights do not fit beside the rest, so that every token reads them from disk.
    pub fn weights_spill(&self) -> bool {
        let spills = |available| self.allocated().saturating_add(self.mapped()) > available;
        !self.keeps_weights && self.available.is_some_and(spills)
    }
}

impl fmt::Display for ModelMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache {} for {} positions", Bytes(self.cache), self.context)?;
        if let Some(workspace) = self.workspace {
            write!(f, ", workspace {}", Bytes(workspace))?;
        }
        write!(f, ", weights {}", Bytes(self.weights))?;
        match (self.keeps_weights, self.unpacked) {
            (true, _) => {}
            (false, 0) => f.write_str(" (mapped)")?,
            (false, unpacked) => write!(f, " ({} unpacked, the rest mapped)", Bytes(unpacked))?,
        }
        match self.available {
            Some(available) => write!(f, "; {} available", Bytes(available)),
            None => Ok(()),
        }
    }
}

/// Bytes of weights that decoding one token reads, as its program says; `None` before that is compiled.
pub fn step_bytes(engine: &Engine) -> Option<u64> {
    let of = |(class, output)| engine.program(Variant { class, output });
    let outputs = [Output::Logits, Output::Likeliest, Output::Drawn];
    let all = outputs.into_iter().flat_map(|output| [(Class::One, output), (Class::Short, output)]);
    let (program, _) = all.into_iter().find_map(of)?;
    let vars: Vec<i64> = program.vars.iter().map(|v| v.min).collect();
    let launches = program.stages.iter().flat_map(|s| &s.launches);
    Some(launches.map(|l| l.bytes.eval(&vars).unwrap_or(0).max(0) as u64).sum())
}

/// A number of bytes for people.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.iter().find(|(_, size)| self.0 >= *size) {
            Some((unit, size)) => write!(f, "{:.2} {unit}", self.0 as f64 / *size as f64),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{SynthOptions, SynthPlan, config_of};

    #[test]
    fn keys_and_values_are_two_states_and_latents_one() {
        for (shape, states) in [("tiny-llama", 2), ("tiny-mla-moe", 1)] {
            let config = config_of(shape);
            let of_layer = cache_bytes(&config, CacheKind::F16) / config.mixers.len() as u64;
            assert_eq!(largest_state(&config, CacheKind::F16, 1, 1) * states, of_layer, "{shape}");
        }
    }

    #[test]
    fn layers_with_a_window_read_no_more_than_that() {
        for (shape, with, width) in [("tiny-llama", 0, 0), ("tiny-gemma3", 6, 24)] {
            let config = config_of(shape);
            let (all, row) = (config.mixers.len() as u64, cache_bytes(&config, CacheKind::F16));
            assert_eq!(read_bytes(&config, CacheKind::F16, 10), 10 * row, "{shape}");
            assert_eq!(
                read_bytes(&config, CacheKind::F16, 100),
                (100 * (all - with) + width * with) * (row / all),
                "{shape}"
            );
        }
    }

    #[test]
    fn a_context_that_nobody_chose_takes_half_of_what_weights_leave() {
        let config = Config { context: 100_000, ..config_of("tiny-llama") };
        let (kind, weights) = (CacheKind::F16, 5u64 << 30);
        let row = cache_bytes(&config, kind);
        let with = |available| Room { available, largest_block: None };
        let of =
            |positions: u64| default_context(&config, kind, weights, with(Some(weights + 2 * row * positions)), false);
        assert_eq!([of(100_000), of(99_999), of(65_535), of(10_000)], [100_000, 65_536, 32_768, 8192]);
        // Less is refused by the plan, not made smaller.
        assert_eq!([of(100), of(0)], [USUAL_CONTEXT; 2]);
        assert_eq!(default_context(&config, kind, weights, with(Some(0)), false), USUAL_CONTEXT);
        assert_eq!(default_context(&config, kind, weights, Room::default(), false), USUAL_CONTEXT);
        // A state of a layer is no larger than the device takes, in whole pages.
        let state = largest_state(&config, kind, 1, 1);
        let in_blocks = |positions: u64| Room { available: Some(1 << 40), largest_block: Some(state * positions) };
        let of = |positions: u64| default_context(&config, kind, weights, in_blocks(positions), false);
        assert_eq!([of(100_032), of(100_000), of(65_535), of(0)], [100_000, 65_536, 32_768, USUAL_CONTEXT]);
        let short = Config { context: 1000, ..config };
        let of = |available| default_context(&short, kind, 0, with(available), false);
        assert_eq!([None, Some(0), Some(1 << 40)].map(of), [1000; 3]);
    }

    #[test]
    fn a_context_that_nobody_chose_is_no_longer_than_an_index_chooses() {
        let config = Config { context: 100_000, ..config_of("tiny-deepseek32") };
        let most = config.index.as_ref().expect("an index").top_k as usize;
        let of =
            |available| default_context(&config, CacheKind::F16, 0, Room { available, largest_block: None }, false);
        assert_eq!([None, Some(0), Some(1 << 40)].map(of), [most; 3]);
        let short = Config { context: 100, ..config.clone() };
        assert_eq!(default_context(&short, CacheKind::F16, 0, Room::default(), false), 100);
    }

    #[test]
    fn layers_with_a_window_leave_room_for_more_positions() {
        let config = Config { context: 1 << 20, ..config_of("tiny-gemma3") };
        let (kind, available) = (CacheKind::F16, Some(1 << 30));
        let of =
            |config: &Config, whole| default_context(config, kind, 0, Room { available, largest_block: None }, whole);
        let (kept, whole) = (of(&config, false), of(&config, true));
        assert!(kept >= 4 * whole, "{kept} and {whole}");
        let plan = |positions: usize| {
            let in_window = (window_pages::pool(&config, 1, USUAL_STEP).expect("windows") * PAGE) as u64;
            cache_bytes_of(&config, kind, positions as u64, (positions as u64, in_window))
        };
        assert!(plan(kept) <= 1 << 29 && plan(4 * kept) > 1 << 29);
        // A model that reads whole texts in a step has no pool, and no endless step.
        let whole_texts = Config { causal: false, ..config };
        assert_eq!((window_pages::pool(&whole_texts, 1, 512), of(&whole_texts, false)), (None, USUAL_WHOLE));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_plan() {
        let plan = ModelMemory {
            context: 8192,
            weights: 17 << 30,
            unpacked: 0,
            keeps_weights: false,
            cache: 3 << 30,
            largest: 1 << 30,
            workspace: None,
            available: Some(2 << 30),
        };
        let error = plan.check().unwrap_err().to_string();
        assert!(error.contains("cache 3.00 GiB for 8192 positions") && error.contains("2.00 GiB available"), "{error}");
        let roomy = ModelMemory { available: Some(4 << 30), ..plan };
        assert_eq!(roomy.check(), Ok(()));
        assert!(roomy.weights_spill(), "the weights are read from disk");
        assert_eq!(ModelMemory { available: None, ..plan }.check(), Ok(()));
        let on_card = |available: u64| ModelMemory { keeps_weights: true, available: Some(available), ..plan };
        assert_eq!(on_card(21 << 30).check(), Ok(()));
        let error = on_card(18 << 30).check().unwrap_err().to_string();
        assert!(error.contains("about 2730 positions fit") && !error.contains("mapped"), "{error}");
        let error = on_card(16 << 30).check().unwrap_err().to_string();
        assert!(error.contains("no split between card and processor; use --device cpu"), "{error}");
    }

    #[test]
    fn what_is_unpacked_is_allocated_once_on_every_device() {
        let of = |quant: &str| {
            let plan = SynthPlan::new("tiny-llama", quant, &SynthOptions::default()).expect("a shape");
            Gguf::parse(plan.to_vec().expect("a file")).expect("a file that reads back")
        };
        let file = of("tq1_0");
        let (mut packed, mut wide) = (0, 0);
        for tensor in file.tensors().iter().filter(|tensor| tensor.ty == gguf::GgmlType::TQ1_0) {
            (packed, wide) = (packed + tensor.bytes, wide + tensor.elements() / 256 * 66);
        }
        assert!(packed > 0 && packed * 66 == wide * 54);
        let on_host = ModelMemory::of_cache(&config_of("tiny-llama"), 64, CacheKind::F16, &file);
        assert_eq!((on_host.unpacked, on_host.weights), (wide, file.bytes() - packed + wide));
        assert_eq!((on_host.allocated(), on_host.mapped()), (wide + on_host.cache, file.bytes() - packed));
        let with = |available| ModelMemory { available: Some(available), ..on_host };
        assert_eq!(with(wide + on_host.cache).check(), Ok(()));
        let error = with(wide + on_host.cache - 1).check().unwrap_err().to_string();
        assert!(error.contains("unpacked, the rest mapped)") && error.contains("smaller context"), "{error}");
        let error = with(wide).check().unwrap_err().to_string();
        assert!(error.contains("choose another quantisation"), "{error}");
        assert!(with(on_host.cache + on_host.weights - 1).weights_spill());
        assert!(!with(on_host.cache + on_host.weights).weights_spill());
        let on_card = ModelMemory { keeps_weights: true, ..on_host };
        assert_eq!(on_card.needs().bytes, on_host.weights + on_host.cache);
        assert_eq!((on_card.allocated(), on_card.mapped()), (on_card.needs().bytes, 0));
        assert!(!on_card.to_string().contains("packed"), "{on_card}");
        // Of other files nothing is unpacked.
        let plain = of("tq2_0");
        assert_eq!((weights(&plain), unpacked(&plain)), (plain.bytes(), 0));
    }

    #[test]
    fn bytes_read_well() {
        let text = |n| Bytes(n).to_string();
        assert_eq!(
            [text(12), text(1536), text(5 << 20), text(3 << 29)],
            ["12 bytes", "1.50 KiB", "5.00 MiB", "1.50 GiB"]
        );
    }
}
