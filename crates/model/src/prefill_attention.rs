//! Attention of tokens that follow each other in one sequence, as the tokens of a prompt do.
//!
//! Such tokens read nearly the same positions of the cache. Taken [`RUN`] at a time, they read each key and value once
//! for all of them, and a query meets a page of keys as one matrix meets another. A *run* is up to [`RUN`] tokens of one
//! segment; which tokens are in which run is decided on the host ([`crate::batch::Batch`]), for nothing but numbers of
//! tokens matters there.
//!
//! The latent cache is read in its decompressed form: keys and values of each head are made of the latents once a step,
//! for all positions in use. A token and a position then meet in `nope + rope + value` products a head instead of twice
//! the rank of the latent and more (DeepSeek-V2, arXiv 2405.04434, section 2.1), which pays for making them as soon as
//! there are enough tokens ([`Reach`]).

use crate::best::Best;
use crate::cache::{Cache, CacheKind, PAGE};
use crate::config::{Attention, Config};
use crate::step::distance_bias::at_distance;
use crate::step::paged::PageTable;
use crate::step::segments::last_as_two;
use crate::window::{Window, distance, end_of_sight, visible};
use compiler::Options;
use compiler::schedule::Prices;
use compiler::tensor::SoftmaxParts;
use compiler::{Builder, Dim, Tensor, dims};
use ir::{BinOp, DType, Id};
use std::ops::Range;

/// Tokens of a run at most.
pub const RUN: i64 = 64;

/// The runs of a step.
pub struct Runs {
    /// Number of runs.
    runs: Dim,
    /// Token of each place, `[runs, RUN]`; places past the last token of a run repeat it.
    token: Tensor,
    /// Place of each token, `[T]`.
    place: Tensor,
    /// What each reads of the cache.
    past: RunPast,
    /// The same in layers with a window.
    window_past: Option<RunPast>,
    /// Where page `i` lies among the decompressed ones, `[runs, row_pages]`.
    slot: Tensor,
    /// Pages that are decompressed, `[slots]`.
    slot_page: Tensor,
    slots: Id,
    /// Whether rows of codes become halves once a step, as products of matrices take those.
    unpacks: bool,
    /// Whether queries of keys that lie as halves do so, too.
    halves: bool,
    /// Position of each token of a run, `[runs, 1, 1, RUN]`.
    last: Tensor,
    /// Whether tokens see what follows.
    sees_ahead: bool,
    b: Builder,
}

/// The pages that runs read.
pub struct RunPast {
    /// Page of step `i` of a run, `[runs, most]`.
    page: Tensor,
    /// Pages that a run reads, `[runs]`.
    pages: Tensor,
    /// Position `j` of page `i`, `[1, most, PAGE, 1]`; `[runs, most, PAGE, 1]` where runs do not begin with the same page.
    at: Tensor,
    /// Whether it is visible to a token of a run, `[runs, most, PAGE, RUN]`.
    visible: Tensor,
    /// Pages of a run at most.
    most: Id,
}

impl RunPast {
    /// The pages of runs whose tokens have positions `last` `[runs, 1, 1, RUN]`, of which those until the last number `pages`
    /// `[runs]` and `most` at most; `pick` finds those of each run by their numbers. If they see what follows, until position
    /// `ahead` at most, of the same shape, they read more.
    fn new(
        b: &Builder,
        (last, ahead): (&Tensor, Option<&Tensor>),
        pages: &Tensor,
        pick: impl Fn(&Tensor) -> Tensor,
        most: Id,
        window: Option<Window>,
    ) -> RunPast {
        let first = window.and_then(|window| window.first_page(b, &last.slice(3, 0, 1).reshape(&pages.shape())));
        let end = end_of_sight(b, last, ahead, window);
        let pages = match ahead {
            None => pages.clone(),
            Some(_) => {
                let end = end.slice(3, RUN - 1, 1).reshape(&pages.shape());
                end.binary(BinOp::Div, &b.int32(PAGE)).binary(BinOp::Add, &b.int32(1))
            }
        };
        let most = window.and_then(|window| window.most_pages(RUN)).map_or(most, |n| b.index(BinOp::Min, most, n));
        let i = b.iota(Dim::Sym(most)).reshape(dims![1, most]);
        let (i, pages) = match first {
            None => (i, pages),
            Some(first) => (i.binary(BinOp::Add, &first.unsqueeze(1)), pages.binary(BinOp::Sub, &first)),
        };
        let at = i
            .reshape(&[i.shape()[0], most.into(), Dim::Const(1), Dim::Const(1)])
            .binary(BinOp::Mul, &b.int32(PAGE))
            .binary(BinOp::Add, &b.iota(PAGE).reshape(dims![1, 1, PAGE, 1]));
        let visible = visible(b, last, &end, &at, window);
        RunPast { page: pick(&i), pages, at, visible, most }
    }
}

impl Runs {
    /// The inputs of a step of so many tokens, `most_tokens` at most, in `segments` segments, with this page table, on a
    /// device with such prices; `windowed` are the window of layers that have one, and their page table. If tokens see what
    /// follows, their sequences end in the step at `ahead` `[T]`.
    pub(crate) fn new(
        b: &Builder,
        (tokens, most_tokens): (Dim, i64),
        segments: i64,
        table: &PageTable,
        prices: &Prices,
        (windowed, ahead): (Option<(Window, &PageTable)>, Option<&Tensor>),
    ) -> Runs {
        let row_pages = table.row_pages;
        let most = b.most(row_pages);
        let runs = Dim::Sym(b.var("runs", 1, most_tokens / RUN + segments));
        let slots = b.var_usually("slots", 1, prices.latents.pages.min(most * segments), prices.usual.pages);
        let token = b.input("run_token", DType::I32, &[runs, RUN.into()]);
        let position = b.input("run_position", DType::I32, &[runs, RUN.into()]);
        let segment = b.input("run_segment", DType::I32, &[runs]);
        let first = b.input("run_slot", DType::I32, &[runs]);
        let pages = b.input("run_pages", DType::I32, &[runs]);
        let place = b.input("run_place", DType::I32, &[tokens]);
        let slot_page = b.input("slot_page", DType::I32, &[Dim::Sym(slots)]);
        let one = Dim::Const(1);
        let slot = first.unsqueeze(1).binary(BinOp::Add, &b.iota(Dim::Sym(row_pages)).reshape(dims![1, row_pages]));
        let last = position.reshape(&[runs, one, one, RUN.into()]);
        let ahead = ahead.map(|ahead| ahead.gather(&token).reshape(&last.shape()));
        let past = |table: &PageTable, window| {
            RunPast::new(b, (&last, ahead.as_ref()), &pages, |i| table.pages(&segment, i), row_pages, window)
        };
        let (past, window_past) = (past(table, None), windowed.map(|(window, table)| past(table, Some(window))));
        let unpacks = prices.fusions.unpack_once && prices.fusions.halves_in_place;
        let halves = prices.fusions.unpack_once && prices.fusions.chosen_halves;
        let (b, sees_ahead) = (b.clone(), ahead.is_some());
        Runs { sees_ahead, halves, runs, token, place, past, window_past, slot, slot_page, slots, unpacks, last, b }
    }

    /// What layers read of the cache, with a window or without.
    pub fn past_of(&self, windowed: bool) -> &RunPast {
        self.window_past.as_ref().filter(|_| windowed).unwrap_or(&self.past)
    }

    /// Queries `[T, kv, group, len]` by run, a token a lane: `[runs, kv, group, len, RUN]`. The keys that they meet may lie
    /// in memory as halves.
    pub fn queries(&self, q: &Tensor, scale: f32, of_halves: bool) -> Tensor {
        let lanes = |q: &Tensor| q.permute(&[0, 2, 3, 4, 1]);
        if self.halves && of_halves {
            // A token's numbers follow each other there.
            return lanes(&(q * scale).cast(DType::F16).gather(&self.token)).cast(DType::F32);
        }
        lanes(&q.gather(&self.token)) * scale
    }

    /// `len` values of each row from `start` on, which are those of `kv` heads, in the pages that each run reads:
    /// `[runs, kv, pages, PAGE, len / kv]`.
    pub fn pages_of(&self, past: &RunPast, cache: &Cache, kv: i64, start: i64, len: i64) -> Tensor {
        by_head(&cache.part_of(&past.page, start, len), kv)
    }

    /// As [`Runs::pages_of`], for one head that all share, of rows of which [`Runs::latents`] are a part.
    pub fn beside_latents(&self, cache: &Cache, start: i64, len: i64) -> Tensor {
        let Some(rows) = self.unpacked(cache) else { return self.pages_of(&self.past, cache, 1, start, len) };
        let pages = rows.reshape(dims![self.slots, PAGE, rows.len(1)]).gather(&self.slot);
        by_head(&pages.slice(3, start, len).cast(DType::F32), 1)
    }

    /// The rows of all positions that are in use as halves, if they are codes and become those: `[slots * PAGE, n]`.
    fn unpacked(&self, cache: &Cache) -> Option<Tensor> {
        let codes = cache.kind() == CacheKind::Q8_0;
        (codes && self.unpacks).then(|| self.rows(cache, cache.length()).cast(DType::F16).fence())
    }

    /// As [`Runs::pages_of`], of rows `[slots * PAGE, kv, len]` that were computed for the rows of [`Runs::latents`].
    pub fn slots_of(&self, rows: &Tensor, kv: i64, len: i64) -> Tensor {
        let pages = rows.reshape(dims![self.slots, PAGE, kv * len]).gather(&self.slot);
        by_head(&pages.cast(DType::F32), kv)
    }

    /// The first `n` values of the rows of all positions that are in use, `[slots * PAGE, n]`.
    pub fn latents(&self, cache: &Cache, n: i64) -> Tensor {
        match self.unpacked(cache) {
            Some(rows) => rows.slice(1, 0, n).cast(DType::F32),
            None => self.rows(cache, n),
        }
    }

    fn rows(&self, cache: &Cache, n: i64) -> Tensor {
        let all = self.b.length(BinOp::Mul, Dim::Sym(self.slots), PAGE);
        cache.part_of(&self.slot_page, 0, n).reshape(&[all, n.into()])
    }

    /// Scores of keys `[runs, kv, pages, PAGE, len]` for queries `[runs, kv, group, len, RUN]`:
    /// `[runs, kv, group, pages, PAGE, RUN]`. Either side may have one `kv` for all of the other.
    pub fn scores(&self, keys: &Tensor, queries: &Tensor) -> Tensor {
        (&keys.unsqueeze(2).unsqueeze(6) * &queries.unsqueeze(3).unsqueeze(3)).sum(5)
    }

    /// Values of tokens `[T, n]` by run, a token a lane: `[runs, n, RUN]`.
    pub fn lanes(&self, x: &Tensor) -> Tensor {
        x.gather(&self.token).permute(&[0, 2, 1])
    }

    /// Whether a token of a run reads position `j` of page `i` where an index has given it the scores `[runs, 1, pages, PAGE,
    /// RUN]` and it reads the best `most`: `[runs, 1, 1, pages, PAGE, RUN]`.
    pub(crate) fn best(&self, scores: &Tensor, most: i64, positions: i64) -> Tensor {
        let past = &self.past;
        let scores = scores.reshape(&past.visible.shape());
        let best = Best::of(&scores, (&past.at, &past.visible), most, positions);
        self.by_page(past, &best.chosen(&past.at, &past.visible))
    }

    /// Positions between a token of a run and position `j` of page `i`, `[runs, 1, 1, pages, PAGE, RUN]`.
    pub fn distances(&self, past: &RunPast) -> Tensor {
        self.by_page(past, &distance(&self.last, &past.at, self.sees_ahead))
    }

    /// What is added to scores, of values for each distance `[distances, kv * group]`, `[runs, kv, group, pages, PAGE, RUN]`.
    pub fn by_distance(&self, past: &RunPast, biases: &Tensor, [kv, group]: [i64; 2]) -> Tensor {
        let biases = at_distance(biases, &self.last, &past.at);
        last_as_two(&biases, [kv, group]).permute(&[0, 4, 5, 1, 2, 3])
    }

    /// `[runs, pages, PAGE, RUN]` beside scores.
    fn by_page(&self, past: &RunPast, x: &Tensor) -> Tensor {
        let one = Dim::Const(1);
        x.reshape(&[self.runs, one, one, past.most.into(), PAGE.into(), RUN.into()])
    }

    /// Softmax over the visible positions, and the weighted sum of values `[runs, kv, pages, PAGE, len]`:
    /// `[T, kv * group * len]`. `sinks` is a score without a value for each head, `[1, kv, group, 1]`.
    pub fn attend(&self, past: &RunPast, scores: &Tensor, values: &Tensor, sinks: Option<&Tensor>) -> Tensor {
        let one = Dim::Const(1);
        let (kv, group, len) = (scores.len(1), scores.len(2), values.len(4));
        let seen = self.by_page(past, &past.visible);
        // Finite, as a token may see nothing of a page that another token of its run reads.
        let scores = seen.select(scores, &self.b.float(f32::MIN));
        let values = values.unsqueeze(2).unsqueeze(5);
        let parts = SoftmaxParts::of_columns(&scores, |e| (&e.unsqueeze(6) * &values).sum(4));
        let count = past.pages.reshape(&[self.runs, one, one]).expand(&[self.runs, kv.into(), group.into()]);
        let mut parts = parts.fold(3, &count);
        if let Some(sinks) = sinks {
            parts = parts.beside(sinks);
        }
        let mixed = parts.finish();
        let places = self.b.length(BinOp::Mul, self.runs, RUN);
        mixed.permute(&[0, 3, 1, 2, 4]).reshape(&[places, Dim::Const(kv * group * len)]).gather(&self.place)
    }
}

/// Rows of pages `[runs, row_pages, PAGE, kv * len]` by head: `[runs, kv, row_pages, PAGE, len]`.
fn by_head(pages: &Tensor, kv: i64) -> Tensor {
    let mut shape = pages.shape();
    let len = pages.len(3) / kv;
    shape.pop();
    shape.extend([Dim::Const(kv), Dim::Const(len)]);
    pages.reshape(&shape).permute(&[0, 3, 1, 2, 4])
}

/// What the two ways of reading the cache cost, in products of one layer: token by token, or by runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// For a token and a position, token by token.
    each: f64,
    /// For a token, token by token.
    token: f64,
    /// For a place of a run and a position.
    run: f64,
    /// For a position that is decompressed.
    slot: f64,
    /// Pages that can be decompressed.
    slots: usize,
    /// Pages of a short past, or 0 if no token has a program for that.
    short: usize,
    /// Tokens at most of a step that has a program between those of few tokens and of many, or 0.
    several: usize,
    /// For another step, which reads the weights again.
    step: f64,
    /// The window of layers that have one, and their share of all.
    window: Option<(Window, f64)>,
    /// Positions that a token reads at most, token by token, as an index chooses them.
    chosen: Option<i64>,
}

/// An 8-bit product against one in f32.
const INT8: f64 = 0.3;

impl Reach {
    /// Nothing is read by runs.
    pub const NOTHING: Reach = Reach {
        each: 0.0,
        token: 0.0,
        run: 0.0,
        slot: 0.0,
        slots: 0,
        short: 0,
        several: 0,
        step: 0.0,
        window: None,
        chosen: None,
    };

    /// The costs of a model on a device.
    pub fn of(config: &Config, options: &Options) -> Reach {
        let prices = &options.prices;
        let short = prices.short.as_ref().filter(|_| options.allows("short"));
        let short = short.filter(|_| matches!(config.attention, Attention::Latent { .. }));
        let runs = if options.allows("runs") { Reach::of_runs(config, prices) } else { Reach::NOTHING };
        let several = prices.several.as_ref().filter(|_| options.allows("several"));
        let window = config.window.as_ref().map(|window| {
            let (with, all) = (window.layers.iter().filter(|&&with| with).count(), window.layers.len());
            (Window::new(window, options), with as f64 / all as f64)
        });
        Reach {
            window,
            chosen: config.index.as_ref().map(|index| index.top_k),
            short: short.map_or(0, |short| short.pages as usize),
            several: several.map_or(0, |several| several.most as usize),
            ..runs
        }
    }

    fn of_runs(config: &Config, prices: &Prices) -> Reach {
        let (heads, latents) = (config.heads as f64, &prices.latents);
        match config.attention {
            Attention::None => Reach::NOTHING,
            Attention::Grouped { head, value, .. } => {
                let pair = heads * (head + value) as f64;
                Reach { each: prices.alone * pair, run: pair, slots: usize::MAX, ..Reach::NOTHING }
            }
            Attention::Latent { kv_rank, nope, rope, value, .. } => {
                let per = |n: i64| heads * n as f64;
                Reach {
                    each: per(2 * kv_rank + rope),
                    token: latents.token * INT8 * per(kv_rank * (nope + value)),
                    run: latents.run * per(nope + rope + value),
                    slot: latents.slot * (per(kv_rank * nope) + INT8 * per(kv_rank * value)),
                    slots: latents.pages as usize,
                    ..Reach::NOTHING
                }
            }
        }
    }

    /// Whether a token that reads so many positions, its own among them, has a short past.
    pub fn is_short(&self, positions: usize) -> bool {
        positions.div_ceil(PAGE as usize) <= self.short
    }

    /// Whether there are programs for short pasts.
    pub fn has_short(&self) -> bool {
        self.short > 0
    }

    /// Tokens at most of a step that has a program between those of few tokens and of many; 0 if there is none.
    pub fn several(&self) -> usize {
        self.several
    }

    /// The same for a model whose layers have so many bytes of weights.
    pub fn beside_weights(self, bytes: u64, prices: &Prices) -> Reach {
        Reach { step: prices.usual.again * bytes as f64, ..self }
    }

    /// Whether segments, each of tokens between two positions, are better read by runs.
    pub fn by_runs(&self, segments: impl Iterator<Item = Range<usize>>) -> bool {
        let (each, runs) = self.costs(segments);
        runs < each
    }

    /// Whether these segments, of sequences that decode and of prompts, are better read in a step each: in one step both
    /// are read token by token, or both by runs.
    pub fn apart(
        &self,
        decoding: impl Iterator<Item = Range<usize>> + Clone,
        prompts: impl Iterator<Item = Range<usize>> + Clone,
    ) -> bool {
        let least = |(each, runs): (f64, f64)| each.min(runs);
        let together = least(self.costs(decoding.clone().chain(prompts.clone())));
        least(self.costs(decoding)) + least(self.costs(prompts)) + self.step < together
    }

    /// What it costs to read segments token by token, and by runs: infinitely much if there is no room, or if a program for
    /// several tokens takes them. What is planned for long runs takes as long for one that is not whole.
    fn costs(&self, segments: impl Iterator<Item = Range<usize>>) -> (f64, f64) {
        let page = PAGE as usize;
        let (mut each, mut runs, mut slots, mut tokens) = (0.0, 0.0, 0, 0);
        for positions in segments {
            let (mut start, end) = (positions.start, positions.end);
            slots += end.div_ceil(page);
            tokens += positions.len();
            while start < end {
                let next = end.min(start + RUN as usize);
                let mean = (self.pages(1, start + 1) + self.pages(1, next)) / 2.0 * PAGE as f64;
                let read = self.chosen.map_or(mean, |most| mean.min(most as f64));
                each += (next - start) as f64 * (read * self.each + self.token);
                runs += RUN as f64 * (self.pages(RUN, next) * PAGE as f64) * self.run;
                start = next;
            }
        }
        let runs = runs + (slots * page) as f64 * self.slot;
        let by_runs = slots <= self.slots && tokens > self.several.min(RUN as usize - 1);
        (each, if by_runs { runs } else { f64::INFINITY })
    }

    /// Pages that tokens until position `end` read together, in the mean of all layers. Whole pages are read.
    fn pages(&self, tokens: i64, end: usize) -> f64 {
        let all = end.div_ceil(PAGE as usize) as f64;
        let within = |(window, share): (Window, f64)| Some((window.most_pages(tokens)? as f64, share));
        match self.window.and_then(within) {
            Some((most, share)) => share * all.min(most) + (1.0 - share) * all,
            None => all,
        }
    }
}
