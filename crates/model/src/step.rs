//! One step of a model as tensor code, for all families: what differs is in their rows ([`crate::family`]). Attention and
//! feed-forward have pages of their own.
//!
//! A step takes a ragged batch: tokens, their positions, the segment (sequence)
//! of each, a page table, and the rows whose logits are wanted. The cache is
//! addressed in pages of [`PAGE`] positions.

mod attention;
mod channel_mixing;
mod delta_rule;
pub(crate) mod distance_bias;
mod feed_forward;
mod index;
mod keyed_state;
mod layer_input;
mod linear_attention;
mod observed;
pub(crate) mod paged;
mod past;
mod ranking;
mod recurrence;
pub(crate) mod segments;
mod selective_scan;
mod state_space;
mod streams;
mod time_mixing;

use crate::cache::{CACHE, Cache, CacheKind, PAGE, Uneven};
use crate::config::{Attention, Config, ConfigError, Pooling, Ranking, Reads};
use crate::family::{EmbeddingNorm, Family, Norm};
use crate::prefill_attention::{Reach, Runs};
use crate::rotation::Rotation;
use crate::sampling::{self, CHOSEN};
use crate::weights::Weights;
use crate::window::Window;
use attention::Caches;
use compiler::schedule::{ExpertTiles, Heads};
use compiler::{Builder, Dim, Tensor};
use compiler::{CompileError, Compiled, Options, compile};
use gguf::Gguf;
use ir::{BinOp, DType, Id};
pub(crate) use observed::{Counts, Observed};
use paged::{PageTable, Paged};
use past::Past;
pub use segments::REMEMBERED;
use segments::Segments;
use std::cell::OnceCell;
use std::collections::HashSet;
use text::sampler::Draw;

/// Rows of logits of a step that has as many sequences or fewer, and is asked for the last token of each. It is one number,
/// as a kernel of the head that is made for another one is another kernel.
pub const ROWS: i64 = 64;

/// How many tokens a program takes in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// One token of one sequence.
    One,
    /// The same, with few pages behind it, where that has a program of its own ([`compiler::schedule::Short`]).
    Short,
    /// Two to eight tokens.
    Few,
    /// More than eight, where so few have a program of their own ([`compiler::schedule::Several`]).
    Several,
    /// More than eight.
    Many,
    /// More than eight, in runs of one sequence that are long enough to be read together ([`crate::prefill_attention`]).
    Prompt,
    /// Any number, for an engine that gives a token the same bits whatever is beside it
    /// ([`crate::engine::Engine::make_batch_invariant`]).
    Any,
}

impl Class {
    /// Those that an engine of any model and device chooses from.
    pub const ALL: [Class; 4] = [Class::One, Class::Few, Class::Many, Class::Prompt];

    /// Those that an engine chooses from, by what its ways of reading the cache cost. Those of one token come first.
    pub fn choices(reach: &Reach) -> Vec<Class> {
        let short = Some(Class::Short).filter(|_| reach.has_short());
        let several = Some(Class::Several).filter(|_| reach.several() > 0);
        let most = [Class::One, Class::Many, Class::Few, Class::Prompt];
        short.into_iter().chain(most).chain(several).collect()
    }

    /// The class of a number of tokens, whatever they read.
    pub fn of(tokens: usize) -> Class {
        match tokens {
            0 | 1 => Class::One,
            2..=8 => Class::Few,
            _ => Class::Many,
        }
    }

    /// Its steps, in words.
    pub fn words(self) -> &'static str {
        match self {
            Class::One => "1 token",
            Class::Short => "1 token with a short past",
            Class::Few => "2 to 8 tokens",
            Class::Several => "several tokens",
            Class::Many => "many tokens",
            Class::Prompt => "prompts",
            Class::Any => "any number of tokens",
        }
    }

    /// Whether a step of it has one token of one sequence.
    pub fn one(self) -> bool {
        matches!(self, Class::One | Class::Short)
    }

    /// Whether a step of it may have one token, so that its program can answer alone.
    pub fn takes_one(self) -> bool {
        self.one() || self == Class::Any
    }

    /// Whether a step of it has many tokens.
    pub fn many(self) -> bool {
        matches!(self, Class::Several | Class::Many | Class::Prompt | Class::Any)
    }

    /// Tokens of a step of it at least and at most, if a step has `most` at most.
    pub fn tokens(self, most: i64) -> (i64, i64) {
        match self {
            Class::One | Class::Short => (1, 1),
            Class::Few => (2, 8),
            Class::Several | Class::Many | Class::Prompt => (9, most.max(9)),
            Class::Any => (1, most),
        }
    }
}

/// The input of a step that is the page table of layers with a window, and the variable that is the number of their pages:
/// an engine may keep less of them ([`crate::window_pages`]).
pub(crate) const WINDOW_TABLE: &str = "window_table";
pub(crate) const WINDOW_PAGES: &str = "window_pages";

/// A half of a block, which is what programs say of their kernels ([`compiler::program::Launch::scope`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Attention with its norms and the sum with its input.
    Attention,
    /// The feed-forward with its norms, the choice of experts, and the sum with its input.
    FeedForward,
}

impl Part {
    /// Both, in the order in which they run.
    pub const ALL: [Part; 2] = [Part::Attention, Part::FeedForward];

    /// Its name in the names of tensors.
    fn name(self) -> &'static str {
        match self {
            Part::Attention => "attn",
            Part::FeedForward => "ffn",
        }
    }

    /// The scope of its kernels in a layer.
    pub fn scope(self, layer: i64) -> String {
        format!("blk.{layer}.{}", self.name())
    }

    /// The layer and the part of a scope; `None` for what belongs to no layer.
    pub fn of(scope: &str) -> Option<(i64, Part)> {
        let (layer, name) = scope.strip_prefix("blk.")?.split_once('.')?;
        let part = Part::ALL.into_iter().find(|part| part.name() == name)?;
        Some((layer.parse().ok()?, part))
    }
}

/// What a program computes of the rows that are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Output {
    /// Logits, `[rows, vocab]`.
    #[default]
    Logits,
    /// What the head would read: the hidden state after the last norm, `[rows, hidden]`.
    Hidden,
    /// The scores that the head of a classifier gives a text, `[rows, labels]`.
    Scores,
    /// The likeliest token, `[rows]`.
    Likeliest,
    /// A token drawn from the likeliest, `[rows]`.
    Drawn,
}

impl Output {
    /// What a model gives that is asked for nothing else.
    pub fn usual(config: &Config) -> Output {
        match (config.causal || config.denoises, config.pooling) {
            (true, _) => Output::Logits,
            (false, Some(Pooling::Rank)) => Output::Scores,
            (false, _) => Output::Hidden,
        }
    }

    /// The name of the buffer.
    pub fn name(self) -> &'static str {
        match self {
            Output::Logits => "logits",
            Output::Hidden => "hidden",
            Output::Scores => "scores",
            Output::Likeliest | Output::Drawn => CHOSEN,
        }
    }

    /// What a step gives that draws a token so.
    pub fn of(draw: Draw) -> Output {
        if draw.is_greedy() { Output::Likeliest } else { Output::Drawn }
    }

    /// Whether it is tokens, one a row, that the next step may read.
    pub fn chooses(self) -> bool {
        matches!(self, Output::Likeliest | Output::Drawn)
    }

    /// Length of a row.
    pub fn width(self, config: &Config) -> usize {
        let width = match self {
            Output::Logits => config.vocab,
            Output::Hidden => config.hidden,
            Output::Scores => config.ranking.map_or(0, |ranking| ranking.labels),
            Output::Likeliest | Output::Drawn => 1,
        };
        width as usize
    }
}

/// One of the programs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variant {
    /// Tokens of a step.
    pub class: Class,
    /// What comes out.
    pub output: Output,
}

impl From<Class> for Variant {
    fn from(class: Class) -> Variant {
        Variant { class, output: Output::Logits }
    }
}

/// Sizes that a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Tokens of a step.
    pub class: Class,
    /// What comes out.
    pub output: Output,
    /// Most tokens of a step of a class of many.
    pub most_tokens: i64,
    /// Most rows that are asked for, as far as a step of the class has tokens.
    pub most_rows: i64,
    /// Sequences that have a row in the page table.
    pub segments: i64,
    /// Pages of the cache.
    pub pages: i64,
    /// Pages of layers with a window.
    pub window_pages: i64,
    /// Pages of one sequence at most.
    pub row_pages: i64,
    /// How the values of the cache are represented.
    pub cache: CacheKind,
}

impl Sizes {
    /// Rows whose tokens are kept for the next step.
    fn kept_rows(&self) -> i64 {
        self.segments.max(ROWS)
    }
}

/// Errors of building a step.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The file and its metadata.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A cache that this model cannot have.
    #[error(transparent)]
    Cache(#[from] Uneven),
    /// The compiler.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

/// Compiles the step of a model.
pub fn build(file: &Gguf, config: &Config, sizes: &Sizes, options: &Options) -> Result<Compiled, StepError> {
    Ok(built(file, config, sizes, options, false)?.0)
}

/// As [`build`], with outputs that tell what the matrices were multiplied with.
pub(crate) fn build_observed(
    file: &Gguf,
    config: &Config,
    sizes: &Sizes,
    options: &Options,
) -> Result<(Compiled, Vec<Observed>), StepError> {
    built(file, config, sizes, options, true)
}

fn built(
    file: &Gguf,
    config: &Config,
    sizes: &Sizes,
    options: &Options,
    observe: bool,
) -> Result<(Compiled, Vec<Observed>), StepError> {
    sizes.cache.check(config)?;
    let builder = Builder::new();
    let step = Step::new(file, config, sizes, &builder, options);
    let (out, states) = step.forward(sizes.output)?;
    let kept = sizes.output.chooses().then(|| sampling::keep(&builder, &out, sizes.kept_rows()));
    let (sums, observed) = if observe { observed::observe(file, &builder, &out) } else { Default::default() };
    let mut outputs = vec![(sizes.output.name(), &out)];
    outputs.extend(sums.iter().map(|(name, sum)| (name.as_str(), sum)));
    let effects: Vec<&Tensor> = states.iter().chain(&kept).collect();
    let mut name = format!("{:?}", sizes.class).to_lowercase();
    if sizes.output != Output::Logits {
        name.push_str(&format!("_{:?}", sizes.output).to_lowercase());
    }
    let options = match sizes.class {
        Class::One | Class::Short => options.for_one_token(),
        Class::Few => options.for_few_tokens(),
        Class::Several => options.for_several_tokens().without_overlap(),
        Class::Many | Class::Prompt => options.for_many_tokens().without_overlap(),
        Class::Any => options.for_many_tokens(),
    };
    let mut compiled = compile(&builder, &name, &outputs, &effects, &options)?;
    compiled.program.many_tokens = sizes.class.many();
    Ok((compiled, observed))
}

/// Names of the tensors that a step reads, which is recorded and not compiled.
pub(crate) fn reads(
    file: &Gguf,
    config: &Config,
    sizes: &Sizes,
    options: &Options,
) -> Result<HashSet<String>, StepError> {
    sizes.cache.check(config)?;
    let builder = Builder::new();
    let step = Step::new(file, config, sizes, &builder, options);
    step.forward(sizes.output)?;
    Ok(step.w.into_read())
}

struct Step<'a> {
    c: &'a Config,
    family: &'static Family,
    w: Weights<'a>,
    b: &'a Builder,
    /// Number of tokens.
    t: Dim,
    token: Tensor,
    position: Tensor,
    segment: Tensor,
    rows: Tensor,
    table: PageTable,
    /// The cache, and that of layers with a window.
    paged: Paged,
    window_paged: Option<Paged>,
    /// What each token reads of the cache.
    past: Past,
    /// The same in layers with a window.
    window_past: Option<Past>,
    /// Whether its splits are so few that several tasks may merge the same.
    few_splits: bool,
    /// Positions of a sequence at most.
    positions: i64,
    /// Whether an index that may choose has a say.
    chooses: bool,
    cache: CacheKind,
    /// Whether codes of the cache are read as halves.
    codes_to_halves: bool,
    rotation: Rotation<'a>,
    /// That of layers with a window, if it is another.
    window_rotation: Option<Rotation<'a>>,
    /// Tokens of one sequence that read the cache together, in a step of prompts.
    runs: Option<Runs>,
    /// The sequences of the step, if some layers remember.
    segments: Option<Segments>,
    /// Values of the first layer, if later ones read them.
    first_values: OnceCell<Tensor>,
    /// Tokens that a step of its class usually has.
    usual_tokens: i64,
    /// Whether tokens may be grouped by the experts that they chose.
    groups_by_expert: bool,
    /// Whether choices of experts are counted in chunks.
    counts_in_chunks: bool,
    /// Tiles of choices of the same expert.
    expert_tiles: ExpertTiles,
    /// Heads that a task of attention has.
    heads_of_task: Heads,
}

impl<'a> Step<'a> {
    fn new(file: &'a Gguf, c: &'a Config, sizes: &Sizes, b: &'a Builder, options: &Options) -> Step<'a> {
        let (least, most) = sizes.class.tokens(sizes.most_tokens);
        let usual = &options.prices.usual;
        let several = options.prices.several.as_ref().filter(|_| sizes.class == Class::Several);
        let usual_tokens = match (sizes.class, several) {
            (_, Some(several)) => several.usual,
            (Class::Many, _) => usual.many,
            _ => usual.prompt,
        };
        let t = match sizes.class {
            class if class.one() => Dim::Const(1),
            _ => Dim::Sym(b.var_usually("tokens", least, most, usual_tokens)),
        };
        let pages = b.var("pages", 1, sizes.pages);
        let row_pages = b.var("row_pages", 1, sizes.row_pages);
        let (split, fusions) = (&options.prices.splits, &options.prices.fusions);
        let short = options.prices.short.as_ref().filter(|_| sizes.class == Class::Short);
        let mut heads_of_task = options.prices.heads.clone();
        let tiled = options.prices.tiled_heads.as_ref();
        let tiled = tiled.filter(|_| short.is_none() && sizes.cache == CacheKind::F16);
        if let Some(heads) = short.map(|short| short.heads).or(tiled.map(|tiled| tiled.heads)) {
            heads_of_task.of_latent = heads;
        }
        let splits = match sizes.class {
            _ if !options.allows("split") => 1,
            Class::One => match c.attention {
                Attention::Grouped { kv_heads, .. } => (split.one / kv_heads).max(1),
                Attention::Latent { .. } | Attention::None => tiled.map_or(split.of_latent, |tiled| tiled.splits),
            },
            Class::Short => short.map_or(split.of_latent, |short| short.pages),
            Class::Few => split.few,
            Class::Several if several.is_some_and(|several| !several.tiles) => split.few,
            Class::Several | Class::Many => split.many,
            Class::Prompt | Class::Any => 1,
        };
        let mut token = b.input("token", DType::I32, &[t]);
        if sizes.output.chooses() {
            token = sampling::given(b, &token, sizes.kept_rows());
        }
        let position = b.input("position", DType::I32, &[t]);
        let segment = b.input("segment", DType::I32, &[t]);
        // Row after row. As their number is not part of any kernel, all numbers of segments share kernels.
        let entries = Dim::Sym(b.var("table", 1, sizes.segments * sizes.row_pages));
        let table_of = |name: &str| PageTable { table: b.input(name, DType::I32, &[entries]), row_pages };
        let table = table_of("page_table");
        let rows = b.input("rows", DType::I32, &[Dim::Sym(b.var("rows", 1, sizes.most_rows.clamp(1, most)))]);
        let window_table = c.window.as_ref().map(|_| table_of(WINDOW_TABLE));
        let paged = Paged::new(b, pages, &table, &segment, &position);
        let window_pages = || b.var(WINDOW_PAGES, 1, sizes.window_pages);
        let window_paged = window_table.as_ref().map(|table| Paged::new(b, window_pages(), table, &segment, &position));
        // A short past has a part for each page.
        let most_pages = short.map_or(row_pages, |short| b.index(BinOp::Min, row_pages, short.pages));
        let of_window = window_table.as_ref().unwrap_or(&table);
        let last = (!c.causal).then(|| segments::last(b, sizes, &segment, &position));
        let past = |table: &PageTable, window| {
            let pick = |tile: &Tensor| table.pages(&segment, tile);
            Past::new(b, (&position, last.as_ref()), pick, most_pages, splits, window)
        };
        let window = c.window.as_ref().map(|window| Window::new(window, options));
        let by_runs = sizes.class == Class::Prompt;
        let positions = sizes.row_pages * PAGE;
        let window_rope = c.window.as_ref().and_then(|window| window.rope.as_ref());
        Step {
            c,
            family: c.family(),
            w: Weights::new(file, c.family(), b),
            b,
            t,
            token,
            rows,
            paged,
            window_paged,
            past: past(&table, None),
            window_past: window.map(|window| past(of_window, Some(window))),
            few_splits: short.is_some() && splits > 1,
            positions,
            chooses: short.is_none_or(|short| c.index_among(short.pages * PAGE).is_some()),
            cache: sizes.cache,
            codes_to_halves: fusions.codes_to_halves && fusions.unpack_once,
            rotation: Rotation::new(b, "rope", &c.rope, positions, &position),
            window_rotation: window_rope.map(|rope| Rotation::new(b, "window_rope", rope, positions, &position)),
            segments: c.recurrence.as_ref().map(|_| Segments::new(b, t, sizes, &segment, &position)),
            first_values: OnceCell::new(),
            position,
            segment: segment.clone(),
            runs: by_runs.then(|| {
                let windowed = window.map(|window| (window, of_window));
                Runs::new(b, (t, most), sizes.segments, &table, &options.prices, (windowed, last.as_ref()))
            }),
            table,
            usual_tokens,
            groups_by_expert: several.is_none_or(|several| several.tiles),
            counts_in_chunks: options.prices.counts_in_chunks,
            expert_tiles: options.prices.expert_tiles.clone(),
            heads_of_task,
        }
    }

    /// What comes out, and the next versions of all states.
    fn forward(&self, output: Output) -> Result<(Tensor, Vec<Tensor>), ConfigError> {
        let c = self.c;
        let given = matches!(output, Output::Hidden | Output::Scores) || c.denoises && output == Output::Logits;
        if !given {
            c.check_goes_on()?;
        }
        let ranking = match (output, &c.ranking) {
            (Output::Scores, None) => return Err(ConfigError::NoRanking(c.arch.clone())),
            (Output::Scores, ranking) => ranking.as_ref(),
            _ => None,
        };
        let embed = self.w.get("token_embd.weight", &[c.vocab, c.hidden])?;
        let mut x = self.embedding(&embed)?;
        let inputs = self.layer_inputs(&x)?;
        if let Some(streams) = &c.streams {
            x = self.streams_of(&x, streams)?;
        }
        let embedding = x.clone();
        let (mut states, mut caches) = (vec![], Caches::default());
        for layer in 0..c.layers {
            x = match &c.streams {
                None => self.block(layer, &x, &mut states, &mut caches)?,
                Some(streams) => {
                    let predicted = self.predicted(layer, &x, streams)?;
                    let made = self.block(layer, &self.active(&predicted, streams), &mut states, &mut caches)?;
                    self.corrected(layer, &predicted, &made, streams)?
                }
            };
            x = match (&inputs, &c.streams) {
                (None, _) => x,
                (Some(inputs), None) => &x + &self.input_of(layer, &x, inputs)?,
                (Some(inputs), Some(streams)) => self.streams_with_input(layer, &x, inputs, streams)?,
            };
            let scale = format!("blk.{layer}.layer_output_scale.weight");
            x = match self.family.adds_embedding {
                true => &x + &(&embedding * &self.w.get(&scale, &[1])?),
                false => self.scaled(x, &scale)?,
            };
            if c.halved_every.is_some_and(|every| (layer + 1) % every == 0) {
                x = x * 0.5;
            }
        }
        let x = match ranking {
            Some(Ranking { reads: Reads::Mean, .. }) => x,
            _ => x.gather(&self.rows),
        };
        let x = match &c.streams {
            Some(streams) => self.merged_streams(&x, streams)?,
            None => x,
        };
        let x = match self.family.output_norm {
            Some(name) => self.norm(&x, name, &[c.hidden])?,
            None => x,
        };
        if let Some(ranking) = ranking {
            return Ok((self.scores(x, ranking)?, states));
        }
        if output == Output::Hidden {
            return Ok((self.projected(x)?, states));
        }
        let head = match self.w.find("output.weight", &[c.vocab, c.hidden])? {
            Some(h) => h,
            None => embed,
        };
        let mut logits = self.biased(times(x.linear(&head), c.logit_scale), "output.bias", c.vocab)?;
        if let Some(cap) = c.logit_cap {
            logits = logits.soft_cap(cap);
        }
        let chosen = match output {
            Output::Likeliest => sampling::likeliest(&logits),
            Output::Drawn => {
                let draws = self.b.input("draws", DType::F32, &[logits.shape()[0], Draw::LEN.into()]);
                sampling::drawn(&logits, &draws)
            }
            Output::Logits | Output::Hidden | Output::Scores => logits,
        };
        Ok((chosen, states))
    }

    /// What a block makes of the stream.
    fn block(
        &self,
        layer: i64,
        x: &Tensor,
        states: &mut Vec<Tensor>,
        caches: &mut Caches,
    ) -> Result<Tensor, ConfigError> {
        let with_attention = self.attention_of(layer, x, states, caches)?;
        self.feed_forward_of(layer, x, &with_attention, states)
    }

    /// What the first block reads.
    fn embedding(&self, embed: &Tensor) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let mut x = times(embed.gather(&self.token), c.embedding_scale);
        // A text by itself is of the first type, which may be the only one.
        x = match self.w.shape("token_types.weight").as_deref() {
            None => x,
            Some([types, _]) => x + &self.w.get("token_types.weight", &[*types, c.hidden])?.slice(0, 0, 1),
            Some(_) => x + &self.w.get("token_types.weight", &[c.hidden])?,
        };
        if let Some(positions) = self.w.find("position_embd.weight", &[c.context, c.hidden])? {
            x = x + &positions.gather(&self.position);
        }
        match self.family.embedding_norm {
            EmbeddingNorm::None => Ok(x),
            EmbeddingNorm::Weighted => self.norm(&x, "token_embd_norm", &[c.hidden]),
            EmbeddingNorm::BareRms => Ok(&x * &x.rms_factor(c.eps)),
        }
    }

    /// What the matrices behind the last norm make of hidden states, in files that have them (`dense_2`, `dense_3`). They
    /// stand behind the pooling in the model; as they are linear, that is the same.
    fn projected(&self, mut x: Tensor) -> Result<Tensor, ConfigError> {
        let rows_of = |name: &str| self.w.shape(&format!("{name}.weight"))?.first().copied();
        let names: Vec<&str> = ["dense_2", "dense_3"].into_iter().filter(|name| rows_of(name).is_some()).collect();
        for (i, name) in names.iter().enumerate() {
            // A vector is as long as the hidden state.
            let rows = if i + 1 < names.len() { rows_of(name).unwrap_or(0) } else { self.c.hidden };
            let columns = x.len(1);
            let y = x.linear(&self.w.get(&format!("{name}.weight"), &[rows, columns])?);
            x = self.biased(y, &format!("{name}.bias"), rows)?;
        }
        Ok(x)
    }

    /// A norm over the last dimension, with weights of this shape and their bias, if there is one.
    fn norm(&self, x: &Tensor, name: &str, shape: &[i64]) -> Result<Tensor, ConfigError> {
        self.norm_with(x, name, shape, self.c.eps)
    }

    /// As [`Step::norm`], with this epsilon.
    fn norm_with(&self, x: &Tensor, name: &str, shape: &[i64], eps: f32) -> Result<Tensor, ConfigError> {
        // Some converters write a norm without the suffix.
        let weight = || match self.w.has(name) {
            true => self.w.get(name, shape),
            false => self.w.get(&format!("{name}.weight"), shape),
        };
        let y = match self.c.norm {
            Norm::Rms => x.rms_norm(&weight()?, eps),
            Norm::Layer => x.layer_norm(Some(&weight()?), eps),
            Norm::Bare => return Ok(x.layer_norm(None, eps)),
            Norm::BareRms => return Ok(x * &x.rms_factor(eps)),
        };
        Ok(match self.w.find(&format!("{name}.bias"), shape)? {
            Some(bias) => y + &bias,
            None => y,
        })
    }

    /// The first of these norms that a block has.
    fn norm_there<'n>(&self, layer: i64, names: &[&'n str]) -> Option<&'n str> {
        let has = |name: String| self.w.has(&name) || self.w.has(&(name + ".weight"));
        let there = |name: &&&str| self.c.norm.is_bare() || has(format!("blk.{layer}.{name}"));
        names.iter().find(there).copied()
    }

    /// The norm of a block that has one of these names; the value itself if there are none.
    fn norm_of(&self, layer: i64, x: &Tensor, names: &[&str]) -> Result<Tensor, ConfigError> {
        self.norm_of_with(layer, x, names, self.c.eps)
    }

    /// As [`Step::norm_of`], of what a half of a block gives.
    fn norm_after(&self, layer: i64, x: &Tensor, names: &[&str]) -> Result<Tensor, ConfigError> {
        self.norm_of_with(layer, x, names, self.family.eps_after.unwrap_or(self.c.eps))
    }

    fn norm_of_with(&self, layer: i64, x: &Tensor, names: &[&str], eps: f32) -> Result<Tensor, ConfigError> {
        match self.norm_there(layer, names).or(names.first().copied()) {
            Some(name) => self.norm_with(x, &format!("blk.{layer}.{name}"), &[self.c.hidden], eps),
            None => Ok(x.clone()),
        }
    }

    /// The stream with what a half of a block gives, of which it read `read`.
    fn with_half(&self, stream: &Tensor, read: &Tensor, given: Tensor) -> Tensor {
        match self.family.normed_residual {
            true => &times(read.clone(), self.c.residual_scale) + &given,
            false => stream + &times(given, self.c.residual_scale),
        }
    }

    fn biased(&self, x: Tensor, name: &str, n: i64) -> Result<Tensor, ConfigError> {
        Ok(match self.w.find(name, &[n])? {
            Some(b) => &x + &b,
            None => x,
        })
    }

    /// Times the scale of a matrix, if it has one.
    fn scaled(&self, x: Tensor, name: &str) -> Result<Tensor, ConfigError> {
        Ok(match self.w.find(name, &[1])? {
            Some(scale) => x * &scale,
            None => x,
        })
    }

    /// Writes rows `[T, n]` to a part of the cache of a layer, which has this name behind its number.
    fn store(&self, layer: i64, part: &str, rows: &Tensor) -> Cache {
        self.store_as(self.cache, layer, part, rows)
    }

    /// As [`Step::store`], to a part that is kept otherwise than the rest.
    fn store_as(&self, kind: CacheKind, layer: i64, part: &str, rows: &Tensor) -> Cache {
        let paged = self.c.window_of(layer).and(self.window_paged.as_ref()).unwrap_or(&self.paged);
        let name = format!("{CACHE}{layer}{part}");
        Cache::store(self.b, kind, &name, paged.pages, rows, &paged.row).to_halves(self.codes_to_halves)
    }
}

fn times(x: Tensor, factor: f32) -> Tensor {
    if factor == 1.0 { x } else { x * factor }
}

fn index_div_up(b: &Builder, x: Id, k: i64) -> Id {
    let up = b.index(BinOp::Add, x, k - 1);
    b.index(BinOp::Div, up, k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_few_tokens_are_those_that_rows_stream_past() {
        let plan = compiler::cpu::plan::Plan::of_vectors(32);
        assert_eq!(Class::Few.tokens(512).1 + 1, plan.stream_below);
        assert_eq!(Class::Many.tokens(512).0, plan.stream_below);
    }

    #[test]
    fn scopes_name_their_layer_and_half() {
        for part in Part::ALL {
            assert_eq!(Part::of(&part.scope(12)), Some((12, part)));
        }
        assert_eq!(["", "blk.1", "blk.x.attn", "blk.1.other"].map(Part::of), [None; 4]);
    }
}
