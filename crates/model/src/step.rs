//! One step of a model as tensor code: every supported family on one page.
//!
//! A step takes a ragged batch: tokens, their positions, the segment (sequence)
//! of each, a page table, and the rows whose logits are wanted. The cache is
//! addressed in pages of [`PAGE`] positions.

use crate::cache::{BLOCK, Cache, CacheKind, PAGE, Uneven};
use crate::config::{Attention, Config, ConfigError, Experts, Gating, Rope};
use crate::expert_tiles::Tiles;
use crate::prefill_attention::Runs;
use crate::sampling::{self, CHOSEN};
use crate::weights::Weights;
use compiler::tensor::SoftmaxParts;
use compiler::{Builder, Dim, Tensor, dims};
use compiler::{CompileError, Compiled, Options, compile};
use gguf::Gguf;
use ir::{BinOp, DType, Id, UnOp};
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
    /// Two to eight tokens.
    Few,
    /// More than eight.
    Many,
    /// More than eight, in runs of one sequence that are long enough to be read together ([`crate::prefill_attention`]).
    Prompt,
    /// Any number, for an engine that gives a token the same bits whatever is beside it
    /// ([`crate::engine::Engine::make_batch_invariant`]).
    Any,
}

impl Class {
    /// Those that an engine chooses from by the number of tokens.
    pub const ALL: [Class; 4] = [Class::One, Class::Few, Class::Many, Class::Prompt];

    /// The class of a number of tokens, unless it pays to read them by runs.
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
            Class::Few => "2 to 8 tokens",
            Class::Many => "many tokens",
            Class::Prompt => "prompts",
            Class::Any => "any number of tokens",
        }
    }

    /// Whether a step of it has many tokens.
    pub fn many(self) -> bool {
        matches!(self, Class::Many | Class::Prompt | Class::Any)
    }

    /// Tokens of a step of it at least and at most, if a step has `most` at most.
    pub(crate) fn tokens(self, most: i64) -> (i64, i64) {
        match self {
            Class::One => (1, 1),
            Class::Few => (2, 8),
            Class::Many | Class::Prompt => (9, most.max(9)),
            Class::Any => (1, most),
        }
    }
}

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
    /// The likeliest token, `[rows]`.
    Likeliest,
    /// A token drawn from the likeliest, `[rows]`.
    Drawn,
}

impl Output {
    /// The name of the buffer.
    pub fn name(self) -> &'static str {
        match self {
            Output::Logits => "logits",
            Output::Hidden => "hidden",
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
    sizes.cache.check(config)?;
    let builder = Builder::new();
    let step = Step::new(file, config, sizes, &builder, options);
    let (out, caches) = step.forward(sizes.output)?;
    let kept = sizes.output.chooses().then(|| sampling::keep(&builder, &out, sizes.kept_rows()));
    let effects: Vec<&Tensor> = caches.iter().flat_map(Cache::states).chain(&kept).collect();
    let mut name = format!("{:?}", sizes.class).to_lowercase();
    if sizes.output != Output::Logits {
        name.push_str(&format!("_{:?}", sizes.output).to_lowercase());
    }
    let options = match sizes.class.many() {
        false => options.for_few_tokens(),
        true => options.for_many_tokens(),
    };
    let mut compiled = compile(&builder, &name, &[(sizes.output.name(), &out)], &effects, &options)?;
    compiled.program.many_tokens = sizes.class.many();
    Ok(compiled)
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
    w: Weights<'a>,
    b: &'a Builder,
    /// Number of tokens.
    t: Dim,
    token: Tensor,
    /// Cache row that each token writes.
    row: Tensor,
    rows: Tensor,
    /// Page that tile `i` of split `s` reads, `[T, splits, tiles]`.
    page: Tensor,
    /// Tiles of each split, `[T, splits]`.
    tiles: Tensor,
    /// Splits that have tiles: the first of them, `[T, 1]`.
    used: Tensor,
    /// Whether position `j` of that tile is visible, `[T, splits, tiles, PAGE]`.
    visible: Tensor,
    splits: i64,
    /// Tiles of a split at most.
    most_tiles: Id,
    pages: Id,
    cache: CacheKind,
    sin: Tensor,
    cos: Tensor,
    /// Tokens of one sequence that read the cache together, in a step of prompts.
    runs: Option<Runs>,
    /// Whether choices of experts are counted in chunks.
    counts_in_chunks: bool,
}

impl<'a> Step<'a> {
    fn new(file: &'a Gguf, c: &'a Config, sizes: &Sizes, b: &'a Builder, options: &Options) -> Step<'a> {
        let (least, most) = sizes.class.tokens(sizes.most_tokens);
        let t = match sizes.class {
            Class::One => Dim::Const(1),
            class => {
                let usual = &options.prices.usual;
                let usual = if class == Class::Many { usual.many } else { usual.prompt };
                Dim::Sym(b.var_usually("tokens", least, most, usual))
            }
        };
        let pages = b.var("pages", 1, sizes.pages);
        let row_pages = b.var("row_pages", 1, sizes.row_pages);
        let kv = match c.attention {
            Attention::Grouped { kv_heads, .. } => kv_heads,
            Attention::Latent { .. } => 1,
        };
        let split = &options.prices.splits;
        let splits = match sizes.class {
            _ if !options.allows("split") => 1,
            Class::One => (split.one / kv).max(1),
            Class::Few => split.few,
            Class::Many => split.many,
            Class::Prompt | Class::Any => 1,
        };
        let mut token = b.input("token", DType::I32, &[t]);
        if sizes.output.chooses() {
            token = sampling::given(b, &token, sizes.kept_rows());
        }
        let position = b.input("position", DType::I32, &[t]);
        let segment = b.input("segment", DType::I32, &[t]);
        // Row after row. As their number is not part of any kernel, all numbers of segments share kernels.
        let entries = b.var("table", 1, sizes.segments * sizes.row_pages);
        let table = b.input("page_table", DType::I32, &[Dim::Sym(entries)]);
        let rows = b.input("rows", DType::I32, &[Dim::Sym(b.var("rows", 1, sizes.most_rows.clamp(1, most)))]);
        // The page of a position: page_table[segment, position / PAGE].
        let pick = |tile: &Tensor| -> Tensor {
            let n = b.tensor(row_pages).cast(DType::I32);
            let base = segment.binary(BinOp::Mul, &n);
            let mut shape = vec![t];
            shape.resize(tile.rank(), Dim::Const(1));
            let index = base.reshape(&shape).binary(BinOp::Add, tile);
            table.gather(&index)
        };
        let page_len = b.int32(PAGE);
        let tile_of = position.binary(BinOp::Div, &page_len);
        let row =
            pick(&tile_of).binary(BinOp::Mul, &page_len).binary(BinOp::Add, &position.binary(BinOp::Mod, &page_len));
        // Split s reads tiles s, s + splits, s + 2 splits, …
        let n = b.int32(splits);
        let one = b.int32(1);
        let (s, most_tiles) = {
            let per = index_div_up(b, row_pages, splits);
            (b.iota(splits), per)
        };
        let i = b.iota(Dim::Sym(most_tiles));
        let tile = i
            .reshape(dims![1, 1, most_tiles])
            .binary(BinOp::Mul, &n)
            .binary(BinOp::Add, &s.reshape(dims![1, splits, 1]));
        let last = tile_of.reshape(&[t, Dim::Const(1)]);
        let tiles = last.binary(BinOp::Add, &n).binary(BinOp::Sub, &s.reshape(dims![1, splits])).binary(BinOp::Div, &n);
        let used = last.binary(BinOp::Add, &one).binary(BinOp::Min, &n);
        let page = pick(&tile);
        let at = tile
            .reshape(dims![1, splits, most_tiles, 1])
            .binary(BinOp::Mul, &page_len)
            .binary(BinOp::Add, &b.iota(PAGE).reshape(dims![1, 1, 1, PAGE]));
        let visible =
            at.lt(&position.binary(BinOp::Add, &one).reshape(&[t, Dim::Const(1), Dim::Const(1), Dim::Const(1)]));
        let (sin, cos) = rotations(b, &c.rope, &position);
        let by_runs = sizes.class == Class::Prompt;
        Step {
            c,
            w: Weights::new(file, b),
            b,
            t,
            token,
            row,
            rows,
            page,
            tiles,
            used,
            visible,
            splits,
            most_tiles,
            pages,
            cache: sizes.cache,
            sin,
            cos,
            runs: by_runs.then(|| Runs::new(b, t, most, sizes.segments, row_pages, &table)),
            counts_in_chunks: options.prices.counts_in_chunks,
        }
    }

    fn forward(&self, output: Output) -> Result<(Tensor, Vec<Cache>), ConfigError> {
        let c = self.c;
        let embed = self.w.get("token_embd.weight", &[c.vocab, c.hidden])?;
        let mut x = embed.gather(&self.token);
        let mut caches = vec![];
        for layer in 0..c.layers {
            x = self.attention_of(layer, &x, &mut caches)?;
            x = self.feed_forward_of(layer, &x)?;
        }
        let x = x.gather(&self.rows);
        let norm = self.w.get("output_norm.weight", &[c.hidden])?;
        let x = x.rms_norm(&norm, c.eps);
        if output == Output::Hidden {
            return Ok((x, caches));
        }
        let head = match self.w.find("output.weight", &[c.vocab, c.hidden])? {
            Some(h) => h,
            None => embed,
        };
        let logits = x.linear(&head);
        let chosen = match output {
            Output::Likeliest => sampling::likeliest(&logits),
            Output::Drawn => {
                let draws = self.b.input("draws", DType::F32, &[logits.shape()[0], Draw::LEN.into()]);
                sampling::drawn(&logits, &draws)
            }
            Output::Logits | Output::Hidden => logits,
        };
        Ok((chosen, caches))
    }

    /// `x + attention(norm(x))`.
    fn attention_of(&self, layer: i64, x: &Tensor, caches: &mut Vec<Cache>) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let _scope = self.b.scope(&Part::Attention.scope(layer));
        let name = |part: &str| format!("blk.{layer}.{part}");
        let norm = self.w.get(&name("attn_norm.weight"), &[c.hidden])?;
        let h = x.rms_norm(&norm, c.eps);
        let mut a = match &c.attention {
            Attention::Latent { .. } => self.latent_attention(layer, &h, caches)?,
            Attention::Grouped { .. } => self.grouped_attention(layer, &h, caches)?,
        };
        if c.norms_after {
            a = a.rms_norm(&self.w.get(&name("post_attention_norm.weight"), &[c.hidden])?, c.eps);
        }
        Ok(x + &a)
    }

    /// `x + feed_forward(norm(x))`.
    fn feed_forward_of(&self, layer: i64, x: &Tensor) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let _scope = self.b.scope(&Part::FeedForward.scope(layer));
        let name = |part: &str| format!("blk.{layer}.{part}");
        let norm = self.w.get(&name("ffn_norm.weight"), &[c.hidden])?;
        let h = x.rms_norm(&norm, c.eps);
        let mut f = match &c.experts {
            Some(e) if layer >= c.dense_lead => self.experts(layer, &h, e)?,
            _ => self.feed_forward(&h, c.ffn, |part| format!("blk.{layer}.ffn_{part}"))?,
        };
        if c.norms_after {
            f = f.rms_norm(&self.w.get(&name("post_ffw_norm.weight"), &[c.hidden])?, c.eps);
        }
        Ok(x + &f)
    }

    /// SwiGLU: `down(silu(gate(x)) * up(x))`, each with its bias if there is one; one matrix may hold gate and up.
    fn feed_forward(&self, x: &Tensor, width: i64, name: impl Fn(&str) -> String) -> Result<Tensor, ConfigError> {
        let hidden = self.c.hidden;
        let weight = |part: &str, rows: i64, columns: i64| self.w.get(&(name(part) + ".weight"), &[rows, columns]);
        let biased = |y: Tensor, part: &str, rows: i64| self.biased(y, &(name(part) + ".bias"), rows);
        let down = weight("down", hidden, width)?;
        let h = if self.w.has(&(name("gate") + ".weight")) {
            let (gate, up) = (weight("gate", width, hidden)?, weight("up", width, hidden)?);
            &biased(x.linear(&gate), "gate", width)?.silu() * &biased(x.linear(&up), "up", width)?
        } else {
            let both = weight("up", 2 * width, hidden)?;
            &x.linear(&both.slice(0, 0, width)).silu() * &x.linear(&both.slice(0, width, width))
        };
        biased(h.linear(&down), "down", hidden)
    }

    /// Routed and shared experts.
    fn experts(&self, layer: i64, x: &Tensor, e: &Experts) -> Result<Tensor, ConfigError> {
        let hidden = self.c.hidden;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let scores = x.linear(&self.w.get(&name("ffn_gate_inp.weight"), &[e.count, hidden])?);
        let probs = match e.gating {
            Gating::Softmax => scores.softmax(),
            Gating::Sigmoid => scores.sigmoid(),
        };
        // The bias chooses experts; the weights do not contain it.
        let mut choose = match self.w.find(&name("exp_probs_b.bias"), &[e.count])? {
            Some(bias) => &probs + &bias,
            None => probs.clone(),
        };
        if e.groups.0 > 1 {
            choose = self.only_best_groups(&choose, e);
        }
        let ids = choose.topk(e.used as usize);
        let mut weights = probs.take_last(&ids);
        if e.normalise {
            let total = weights.sum(1).unsqueeze(1).maximum(&self.b.float(6.103_515_6e-5));
            weights = &weights * &total.unary(UnOp::Recip);
        }
        if e.scale != 1.0 {
            weights = weights * e.scale;
        }
        let (gate, up) = if self.w.has(&name("ffn_gate_up_exps.weight")) {
            let both = self.w.get(&name("ffn_gate_up_exps.weight"), &[e.count, 2 * e.width, hidden])?;
            (both.slice(1, 0, e.width), both.slice(1, e.width, e.width))
        } else {
            (
                self.w.get(&name("ffn_gate_exps.weight"), &[e.count, e.width, hidden])?,
                self.w.get(&name("ffn_up_exps.weight"), &[e.count, e.width, hidden])?,
            )
        };
        let down = self.w.get(&name("ffn_down_exps.weight"), &[e.count, hidden, e.width])?;
        // Each token reads its experts, or each expert its tokens.
        let slots = {
            let x = x.unsqueeze(1);
            let h = &x.linear(&gate.gather(&ids)).silu() * &x.linear(&up.gather(&ids));
            h.linear(&down.gather(&ids))
        };
        let by_expert = {
            let tiles = Tiles::of(self.b, self.t, &ids, e.count, self.counts_in_chunks);
            let rows = |w: &Tensor| w.gather(&tiles.expert).unsqueeze(1);
            let x = x.gather(&tiles.token).prefix(1, &tiles.count);
            let h = &x.linear(&rows(&gate)).silu() * &x.linear(&rows(&up));
            let y = h.prefix(1, &tiles.count).linear(&rows(&down));
            tiles.restore(&y)
        };
        let each = Tensor::choice(&name("experts"), &[("slots", slots), ("by-expert", by_expert)]);
        let routed = (&each * &weights.unsqueeze(2)).sum(1);
        if e.shared == 0 {
            return Ok(routed);
        }
        let shared = self.feed_forward(x, e.shared * e.width, |part| format!("blk.{layer}.ffn_{part}_shexp"))?;
        Ok(&routed + &shared)
    }

    /// Minus infinity outside the best groups; a group counts by the sum of its
    /// two best experts (DeepSeek-V3).
    fn only_best_groups(&self, scores: &Tensor, e: &Experts) -> Tensor {
        let (groups, used) = e.groups;
        let size = e.count / groups;
        let grouped = scores.reshape(&[self.t, Dim::Const(groups), Dim::Const(size)]);
        let best = grouped.take_last(&grouped.topk(2)).sum(2);
        let chosen = best.topk(used as usize);
        let hit = chosen.unsqueeze(2).equal(&self.b.iota(groups)).cast(DType::I32).sum(1);
        let keep = self.b.int32(0).lt(&hit).unsqueeze(2);
        keep.select(&grouped, &self.b.float(f32::NEG_INFINITY)).reshape(&[self.t, Dim::Const(e.count)])
    }

    fn biased(&self, x: Tensor, name: &str, n: i64) -> Result<Tensor, ConfigError> {
        Ok(match self.w.find(name, &[n])? {
            Some(b) => &x + &b,
            None => x,
        })
    }

    fn grouped_attention(&self, layer: i64, x: &Tensor, caches: &mut Vec<Cache>) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let Attention::Grouped { kv_heads, head, value } = c.attention else { unreachable!() };
        let name = |part: &str| format!("blk.{layer}.attn_{part}");
        let t = self.t;
        let project = |part: &str, heads: i64, len: i64| -> Result<Tensor, ConfigError> {
            let w = self.w.get(&name(&format!("{part}.weight")), &[heads * len, c.hidden])?;
            let y = self.biased(x.linear(&w), &name(&format!("{part}.bias")), heads * len)?;
            Ok(y.reshape(&[t, Dim::Const(heads), Dim::Const(len)]))
        };
        let mut q = project("q", c.heads, head)?;
        let mut k = project("k", kv_heads, head)?;
        let v = project("v", kv_heads, value)?;
        if c.head_norms {
            q = q.rms_norm(&self.w.get(&name("q_norm.weight"), &[head])?, c.eps);
            k = k.rms_norm(&self.w.get(&name("k_norm.weight"), &[head])?, c.eps);
        }
        let (q, k) = (self.rotate_front(&q), self.rotate_front(&k));
        let keys = self.store(&format!("cache.{layer}.k"), &k.reshape(&[t, Dim::Const(kv_heads * head)]));
        let values = self.store(&format!("cache.{layer}.v"), &v.reshape(&[t, Dim::Const(kv_heads * value)]));
        let group = c.heads / kv_heads;
        let w = self.w.get(&name("output.weight"), &[c.hidden, c.heads * value])?;
        let output = |out: Tensor| self.biased(out.linear(&w), &name("output.bias"), c.hidden);
        if let Some(runs) = &self.runs {
            let q = runs.queries(&q.reshape(dims![t, kv_heads, group, head]), c.scale);
            let k = runs.pages_of(&keys, kv_heads, 0, kv_heads * head);
            let v = runs.pages_of(&values, kv_heads, 0, kv_heads * value);
            caches.extend([keys, values]);
            return output(runs.attend(&runs.scores(&k, &q), &v));
        }
        let tile = |cache: &Cache, len: i64| {
            // [T, splits, tiles, PAGE, kv, len] -> [T, kv, splits, tiles, PAGE, len]
            let rows = cache.tiles_of(&self.page);
            let s = [t, self.splits.into(), self.most_tiles.into(), PAGE.into(), kv_heads.into(), len.into()];
            rows.reshape(&s).permute(&[0, 4, 1, 2, 3, 5])
        };
        let (k, v) = (tile(&keys, head), tile(&values, value));
        caches.extend([keys, values]);
        let one = Dim::Const(1);
        let q = (q * c.scale).reshape(&[t, kv_heads.into(), one, one, group.into(), one, head.into()]);
        let scores = (&q * &k.unsqueeze(4)).sum(6);
        let out = self.attend(scores, kv_heads, |e| (&e.unsqueeze(6) * &v.unsqueeze(4)).sum(5));
        output(out.reshape(&[t, Dim::Const(c.heads * value)]))
    }

    fn latent_attention(&self, layer: i64, x: &Tensor, caches: &mut Vec<Cache>) -> Result<Tensor, ConfigError> {
        let c = self.c;
        let Attention::Latent { q_rank, kv_rank, nope, rope, value } = c.attention else { unreachable!() };
        let name = |part: &str| format!("blk.{layer}.attn_{part}.weight");
        let (t, heads, one) = (self.t, c.heads, Dim::Const(1));
        let (a, q_b) = match q_rank {
            Some(r) => {
                let a = x.linear(&self.w.get(&name("q_a"), &[r, c.hidden])?);
                let a = a.rms_norm(&self.w.get(&name("q_a_norm"), &[r])?, c.eps);
                (a, self.w.get(&name("q_b"), &[heads * (nope + rope), r])?)
            }
            None => (x.clone(), self.w.get(&name("q"), &[heads * (nope + rope), c.hidden])?),
        };
        let whole = a.linear(&q_b).reshape(&[t, heads.into(), (nope + rope).into()]);
        // What is rotated holds a head together; the rest need not.
        let rank = a.len(1);
        let q_b = q_b.reshape(dims![heads, nope + rope, rank]);
        let part = |what: &str, start: i64, len: i64| {
            let apart = a.unsqueeze(1).linear(&q_b.slice(1, start, len));
            let name = format!("blk.{layer}.{what}");
            Tensor::choice(&name, &[("heads", whole.slice(2, start, len)), ("apart", apart)])
        };
        let (q, q_pe) = (part("q", 0, nope), self.rotate(&part("q_pe", nope, rope)));
        let kv = x.linear(&self.w.get(&name("kv_a_mqa"), &[kv_rank + rope, c.hidden])?);
        let latent = kv.slice(1, 0, kv_rank).rms_norm(&self.w.get(&name("kv_a_norm"), &[kv_rank])?, c.eps);
        let k_pe = self.rotate(&kv.slice(1, kv_rank, rope));
        let cache = self.store(&format!("cache.{layer}"), &Tensor::concat(&[latent, k_pe], 1));
        // Keys and values share the latent: k_b moves to the query, v_b to the result.
        let (k_b, v_b) = if self.w.has(&name("k_b")) {
            (self.w.get(&name("k_b"), &[heads, kv_rank, nope])?, self.w.get(&name("v_b"), &[heads, value, kv_rank])?)
        } else {
            let both = self.w.get(&name("kv_b"), &[heads * (nope + value), kv_rank])?;
            let both = both.reshape(dims![heads, nope + value, kv_rank]);
            (both.slice(1, 0, nope).permute(&[0, 2, 1]), both.slice(1, nope, value))
        };
        let w = self.w.get(&name("output"), &[c.hidden, heads * value])?;
        if let Some(runs) = &self.runs {
            // Each head has keys and values of its own.
            let latent = runs.latents(&cache, kv_rank);
            let of_heads = |x: Tensor, n: i64| {
                let positions = x.shape()[0];
                x.cast(self.cache.halves()).reshape(&[positions, heads.into(), n.into()])
            };
            let k = of_heads(latent.unsqueeze(1).linear(&k_b.permute(&[0, 2, 1])), nope);
            let v = of_heads(latent.linear(&v_b.reshape(dims![heads * value, kv_rank])), value);
            let per_head = |q: &Tensor, n: i64| runs.queries(&q.reshape(dims![t, heads, 1, n]), c.scale);
            let k_pe = runs.pages_of(&cache, 1, kv_rank, rope);
            let scores = &runs.scores(&runs.slots_of(&k, heads, nope), &per_head(&q, nope))
                + &runs.scores(&k_pe, &per_head(&q_pe, rope));
            caches.push(cache);
            return Ok(runs.attend(&scores, &runs.slots_of(&v, heads, value)).linear(&w));
        }
        let q_latent = q.linear(&k_b);
        let rows = cache.tiles_of(&self.page);
        caches.push(cache);
        let rows =
            rows.reshape(&[t, one, self.splits.into(), self.most_tiles.into(), PAGE.into(), (kv_rank + rope).into()]);
        let (latent, k_pe) = (rows.slice(5, 0, kv_rank), rows.slice(5, kv_rank, rope));
        let lift = |q: &Tensor, len: i64| q.reshape(&[t, one, one, one, heads.into(), one, len.into()]);
        let scores = &(&lift(&q_latent, kv_rank) * &latent.unsqueeze(4)).sum(6)
            + &(&lift(&q_pe, rope) * &k_pe.unsqueeze(4)).sum(6);
        let mixed = self.attend(scores * c.scale, 1, |e| (&e.unsqueeze(6) * &latent.unsqueeze(4)).sum(5));
        let mixed = mixed.reshape(&[t, heads.into(), kv_rank.into()]);
        let out = mixed.linear(&v_b).reshape(&[t, Dim::Const(heads * value)]);
        let out = match value % BLOCK {
            0 => {
                // A task need not have a whole head to quantise blocks of it.
                let (each, blocks) = (value / BLOCK, heads * value / BLOCK);
                let inputs = mixed.unsqueeze(2).expand(&[t, heads.into(), each.into(), kv_rank.into()]);
                let inputs = inputs.reshape(&[t, blocks.into(), kv_rank.into()]);
                let apart = inputs.linear(&v_b.reshape(dims![blocks, BLOCK, kv_rank])).reshape(&out.shape());
                Tensor::choice(&format!("blk.{layer}.v_b"), &[("heads", out), ("apart", apart)])
            }
            _ => out,
        };
        Ok(out.linear(&w))
    }

    /// Softmax over the cache from scores `[T, kv, splits, tiles, group, PAGE]`.
    /// What is not visible weighs zero; as zero times NaN is NaN, rows that are
    /// not finite reach every token that reads their page. So a page is cleared
    /// before a sequence gets it ([`Batch::begun`](crate::batch::Batch::begun)).
    fn attend(&self, scores: Tensor, kv: i64, weigh: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let (t, one) = (self.t, Dim::Const(1));
        let seen = self.visible.reshape(&[t, one, self.splits.into(), self.most_tiles.into(), one, PAGE.into()]);
        let scores = seen.select(&scores, &self.b.float(f32::NEG_INFINITY));
        let tiles = self.tiles.reshape(&[t, one, self.splits.into()]).expand(&[t, kv.into(), self.splits.into()]);
        let parts = SoftmaxParts::of_tile(&scores, weigh).fold(3, &tiles);
        if self.splits == 1 {
            return parts.finish();
        }
        parts.fold(2, &self.used.expand(&[t, kv.into()])).finish()
    }

    /// Writes rows `[T, n]` to a cache.
    fn store(&self, name: &str, rows: &Tensor) -> Cache {
        Cache::store(self.b, self.cache, name, self.pages, rows, &self.row)
    }

    /// Rotates the first values of each head `[T, heads, len]`.
    fn rotate_front(&self, x: &Tensor) -> Tensor {
        let (n, len) = (self.c.rope.dims, x.len(2));
        if n == len {
            return self.rotate(x);
        }
        Tensor::concat(&[self.rotate(&x.slice(2, 0, n)), x.slice(2, n, len - n)], 2)
    }

    /// Rotary embedding of `[T, .., n]` (arXiv 2104.09864).
    fn rotate(&self, x: &Tensor) -> Tensor {
        let n = self.c.rope.dims;
        let last = x.rank() - 1;
        let mut shape = x.shape();
        let whole = shape.clone();
        shape.pop();
        let (a, b) = if self.c.rope.halves {
            (x.slice(last, 0, n / 2), x.slice(last, n / 2, n / 2))
        } else {
            shape.extend([Dim::Const(n / 2), Dim::Const(2)]);
            let pairs = x.reshape(&shape);
            shape.pop();
            (pairs.slice(last + 1, 0, 1).reshape(&shape), pairs.slice(last + 1, 1, 1).reshape(&shape))
        };
        let mut table = vec![self.t];
        table.resize(last, Dim::Const(1));
        table.push(Dim::Const(n / 2));
        let (sin, cos) = (self.sin.reshape(&table), self.cos.reshape(&table));
        let (u, v) = (&(&a * &cos) - &(&b * &sin), &(&a * &sin) + &(&b * &cos));
        if self.c.rope.halves {
            Tensor::concat(&[u, v], last)
        } else {
            Tensor::concat(&[u.unsqueeze(last + 1), v.unsqueeze(last + 1)], last + 1).reshape(&whole)
        }
    }
}

/// Sines and cosines of `position * theta`, `[T, dims / 2]`. Angles are exact
/// fractions of a turn in 44-bit fixed point, so that large positions lose
/// nothing.
fn rotations(b: &Builder, rope: &Rope, position: &Tensor) -> (Tensor, Tensor) {
    let n = rope.theta.len();
    let (mut high, mut low) = (vec![], vec![]);
    for theta in &rope.theta {
        let turns = (theta / std::f64::consts::TAU).fract();
        let fixed = (turns * (1u64 << 44) as f64).round() as u64 & ((1 << 44) - 1);
        high.extend(((fixed >> 12) as u32).to_le_bytes());
        low.extend(((fixed & 4095) as u32).to_le_bytes());
    }
    let high = b.table("rope.high", DType::U32, dims![1, n], high);
    let low = b.table("rope.low", DType::U32, dims![1, n], low);
    let p = position.cast(DType::U32).unsqueeze(1);
    let twelve = b.int32(12).cast(DType::U32);
    // `p * low >> 12`, in two parts as 32 bits do not hold the product: `p = 4096 * pages + rest`.
    let (pages, rest) = (p.binary(BinOp::Shr, &twelve), p.binary(BinOp::And, &b.int32(4095).cast(DType::U32)));
    let carry = rest.binary(BinOp::Mul, &low).binary(BinOp::Shr, &twelve);
    let part = pages.binary(BinOp::Mul, &low).binary(BinOp::Add, &carry);
    let turns = p.binary(BinOp::Mul, &high).binary(BinOp::Add, &part);
    let angle = turns.cast(DType::I32).cast(DType::F32) * (std::f64::consts::TAU / (1u64 << 32) as f64) as f32;
    let (sin, cos) = (angle.unary(UnOp::Sin), angle.unary(UnOp::Cos));
    let a = rope.amplitude as f32;
    if a == 1.0 { (sin, cos) } else { (sin * a, cos * a) }
}

fn index_div_up(b: &Builder, x: Id, k: i64) -> Id {
    let up = b.index(BinOp::Add, x, k - 1);
    b.index(BinOp::Div, up, k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{Cpu, CpuConfig, Device, Memory};
    use std::sync::Arc;

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

    #[test]
    fn angles_are_reduced_exactly_at_every_position() {
        let positions: [i32; 13] = [
            0,
            1,
            4095,
            4096,
            100_003,
            (1 << 20) - 1,
            1 << 20,
            (1 << 20) + 1,
            1_500_007,
            (1 << 21) - 1,
            9_999_999,
            1 << 28,
            i32::MAX,
        ];
        let theta: Vec<f64> = (0..32).map(|i| 1e6f64.powf(-f64::from(i) / 32.0)).collect();
        let rope = Rope { dims: 64, theta: theta.clone(), amplitude: 1.0, halves: false };
        let b = Builder::new();
        let position = b.input("position", DType::I32, dims![positions.len()]);
        let (sin, cos) = rotations(&b, &rope, &position);
        let program = compile(
            &b,
            "rotations",
            &[("sin", &sin), ("cos", &cos)],
            &[],
            &Options::cpu(compiler::Numerics::Exact, 32),
        );
        let cpu = Cpu::new(&CpuConfig::from_environment()).expect("a C compiler");
        let mut memory = Memory::new();
        let mut step = cpu.load(Arc::new(program.expect("a program").program), &mut memory).expect("a loaded program");
        memory.input_mut::<i32>("position").expect("an input").copy_from_slice(&positions);
        step.run(&mut memory, &[]).expect("a step");
        let sines = memory.output::<f32>("sin").expect("an output").to_vec();
        let cosines = memory.output::<f32>("cos").expect("an output").to_vec();
        for (at, position) in positions.into_iter().enumerate() {
            for (pair, theta) in theta.iter().enumerate() {
                let angle = f64::from(position) * theta;
                let (got_sin, got_cos) = (sines[at * 32 + pair], cosines[at * 32 + pair]);
                // Rounding of the angle and of the functions, and half of the last of 44 bits of a turn a position.
                let most = 1e-6 + f64::from(position) * std::f64::consts::TAU / (1u64 << 45) as f64;
                let error = (f64::from(got_sin) - angle.sin()).abs().max((f64::from(got_cos) - angle.cos()).abs());
                assert!(error <= most, "position {position}, {theta} radians each: off by {error:e}");
            }
        }
    }
}
