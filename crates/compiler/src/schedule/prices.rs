//! What is worth fusing and what work costs: limits, switches and the profile of a class of devices.

/// Limits and prices of a target, as far as scheduling needs them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// A kernel keeps at least this many tasks (for one token) when it gives up
    /// an axis.
    pub min_tasks: i64,
    /// Elements (for one token) that a task of a kernel without weights computes at most when that gives up an axis.
    pub task_elements: i64,
    /// Elements that each task of a reader may compute again rather than read.
    pub repeat: i64,
    /// The same, where it makes the reader a stage earlier.
    pub stage_elements: i64,
    /// Steps of a loop at most that moves into the kernel that reads its result, which has fewer tasks.
    pub moved_steps: i64,
    /// Heads of queries that a task of attention has.
    pub heads: Heads,
    /// What attention over a latent has instead where its rows are halves, if anything.
    pub tiled_heads: Option<TiledHeads>,
    /// Rows of weights at most that one task may have to have together, where it has several tokens: a norm of longer heads
    /// reads them from memory.
    pub rows_together: i64,
    /// What a token with a short past is read by, if it has a program of its own.
    pub short: Option<Short>,
    /// What has a program of its own between few tokens and many, if there is one.
    pub several: Option<Several>,
    /// What a product of a token and its own positions costs, which shares them with a few heads alone, against one of tokens
    /// that follow each other and read them together.
    pub alone: f64,
    /// Keys and values that prompts make of latents.
    pub latents: Latents,
    /// Whether choices of experts are counted in chunks, by many threads at once, or all are gone through once.
    pub counts_in_chunks: bool,
    /// Tiles of what chose the same expert, in prompts and where many sequences have a token each.
    pub expert_tiles: ExpertTiles,
    /// Whether kernels of weights and many tokens run beside larger ones where they can wait for them: what has fewer tasks
    /// than there are multiprocessors leaves some idle.
    pub beside_larger: bool,
    /// Whether the indices of a prefix, whose number is data, count as tasks.
    pub prefix_tasks: bool,
    /// What a step of many tokens usually has.
    pub usual: Usual,
    /// Into how many parts a fold over a cache is split.
    pub splits: Splits,
    /// One kernel for each operation: no fusion.
    pub unfused: bool,
    /// What is done otherwise.
    pub fusions: Fusions,
    /// What work costs.
    pub profile: Profile,
}

/// Parts of a fold over a cache, each with tasks of its own; a later kernel merges them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    /// For one token, in all of its heads of keys.
    pub one: i64,
    /// For one token whose heads all read one latent.
    pub of_latent: i64,
    /// For each of a few tokens.
    pub few: i64,
    /// For each of many tokens.
    pub many: i64,
}

/// Attention of a token over a latent whose rows lie as halves, where warps multiply rows with the heads of a task as a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledHeads {
    /// Heads of a task, instead of [`Heads::of_latent`].
    pub heads: i64,
    /// Splits of a step of one token, instead of [`Splits::of_latent`].
    pub splits: i64,
}

/// Heads of queries that read the same keys, and that a task of attention has together at most: it reads keys once for all of
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Where each group of heads has keys of its own.
    pub of_group: i64,
    /// Where all heads read one latent.
    pub of_latent: i64,
    /// Of tokens of a prompt that follow each other.
    pub of_run: i64,
}

/// Attention of one token whose heads all read one latent, and that has so few pages behind it that more tasks which read
/// them again are faster than few which do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// Pages at most; each is a part of the fold ([`Splits`]).
    pub pages: i64,
    /// Heads of queries that a task has at most.
    pub heads: i64,
}

/// Steps of sequences that are so few that they wait for weights, as those of few tokens do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    /// Tokens at most.
    pub most: i64,
    /// Tokens that such a step is planned and priced for.
    pub usual: i64,
    /// Whether it multiplies in tiles of tokens; otherwise each token by itself, as steps of few tokens do.
    pub tiles: bool,
}

/// Keys and values of each head that a step of a prompt makes of the latents in a cache. Costs are those of a product, against one of
/// attention in which heads read the latents themselves, token by token.
#[derive(Clone, Debug, PartialEq)]
pub struct Latents {
    /// Pages of which they are made at most, for which there is room then; with more, heads read the latents.
    pub pages: i64,
    /// To make them.
    pub slot: f64,
    /// To read them, with many tokens together.
    pub run: f64,
    /// To have a token read latents, with what else a step costs that is planned for fewer tokens.
    pub token: f64,
}

/// How many choices of an expert, a token's each, a tile has places for: its rows are read once for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertTiles {
    /// Places at most.
    pub most: i64,
    /// How many times the choices that an expert usually has.
    pub of_usual: i64,
}

/// What a step of many tokens is planned and priced for; it may have fewer and more.
#[derive(Clone, Debug, PartialEq)]
pub struct Usual {
    /// Tokens of several sequences.
    pub many: i64,
    /// Tokens of prompts.
    pub prompt: i64,
    /// Pages of latents that a prompt has keys and values of.
    pub pages: i64,
    /// Tokens of prompts that a step has beside sequences that decode: more delay these, fewer are read slowly.
    pub beside: i64,
    /// Products of attention, token by token, that take as long as a byte of weights that another step reads again.
    pub again: f64,
}

/// What the work of a step costs on a class of devices: enough to tell alternatives apart, and committed, so that a
/// program does not depend on the machine that compiles it. All but the first three are per microsecond.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Microseconds of a stage that waits for the one before it.
    pub stage: f64,
    /// Microseconds of a step of a serial loop that waits for the one before it.
    pub step: f64,
    /// Tasks that a kernel must have to reach what follows; one with fewer reaches as much less.
    pub tasks: f64,
    /// Tokens that a task of a kernel with weights takes together, where there are many.
    pub together: i64,
    /// Bytes of weights, states and values between kernels.
    pub bytes: f64,
    /// Products of 8-bit codes, with scales and unpacking.
    pub dots: f64,
    /// Products of floats in sums that read weights or a state.
    pub floats: f64,
    /// Products in bf16 by the matrix unit of a CPU, with unpacking.
    pub unit: f64,
    /// Elementwise operations.
    pub elements: f64,
}

/// Ways to have fewer kernels and to read less; all of them unless one is left out by name ([`crate::switches()`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Fusions {
    /// Kernels that a value combines become one.
    pub merge: bool,
    /// Values join the kernel that produces what they read.
    pub epilogue: bool,
    /// Small kernels move into their readers.
    pub absorb: bool,
    /// The tiles of a fold are computed inside its loop.
    pub fold: bool,
    /// Rows that a computed index chooses are read in place.
    pub in_place: bool,
    /// Sines and cosines are computed once, and not by each reader.
    pub tables: bool,
    /// Operands that are read many times over are converted once.
    pub unpack_once: bool,
    /// Halves of a cache are no such operands: they are multiplied as they are.
    pub halves_in_place: bool,
    /// Codes of a cache become halves as they are read, which are multiplied so.
    pub codes_to_halves: bool,
    /// Nor are computed halves that an index chooses; queries of prompts lie in memory so.
    pub chosen_halves: bool,
}

impl Default for Fusions {
    fn default() -> Fusions {
        Fusions {
            merge: true,
            epilogue: true,
            absorb: true,
            fold: true,
            in_place: true,
            tables: true,
            unpack_once: true,
            halves_in_place: false,
            codes_to_halves: false,
            chosen_halves: false,
        }
    }
}

impl Prices {
    /// A CPU with a spinning pool.
    pub fn cpu() -> Prices {
        Prices {
            min_tasks: 2,
            // Some ten microseconds of one core, or two of a multiprocessor.
            task_elements: 1 << 18,
            repeat: 512,
            stage_elements: 0,
            moved_steps: i64::MAX,
            heads: Heads { of_group: i64::MAX, of_latent: i64::MAX, of_run: i64::MAX },
            tiled_heads: None,
            rows_together: i64::MAX,
            short: None,
            several: None,
            alone: 1.3,
            latents: Latents { pages: 256, slot: 1.0, run: 1.0, token: 1.0 },
            counts_in_chunks: false,
            // Some experts have more choices than others.
            expert_tiles: ExpertTiles { most: 64, of_usual: 2 },
            beside_larger: false,
            prefix_tasks: true,
            // A product of floats, of 144 billion a second, as 45 GB/s.
            usual: Usual { many: i64::MAX, prompt: i64::MAX, pages: i64::MAX, beside: 64, again: 3.0 },
            // Tasks for the cores of a desktop.
            splits: Splits { one: 8, of_latent: 8, few: 2, many: 1 },
            unfused: false,
            fusions: Fusions::default(),
            profile: Profile {
                // A barrier of two spinning threads, measured on an AVX-512 Xeon with two cores.
                stage: 0.25,
                // Five cycles from a store to the load of the same place, an addition and the loop, at 3 GHz.
                step: 0.003,
                tasks: 1.0,
                together: 1,
                // Read by two threads: 25 to 28 GB/s on Sapphire Rapids, 41 to 68 on Zen 5 (bench/JOURNAL.md).
                bytes: 45e3,
                // Integer tiles, both threads: 337 to 364 billion a second on Zen 5, 166 to 360 on Xeons (the same).
                dots: 350e3,
                // Attention of prompts on Zen 5: 121 to 173 billion a second of a peak of 260 (the same).
                floats: 144e3,
                // Block products on Sapphire Rapids: 385 billion a second and core (the same).
                unit: 770e3,
                // Two cores at 3 GHz, an operation of 8 lanes in two cycles: loads and stores of nearly every value.
                elements: 24e3,
            },
        }
    }

    /// An H200: a task is a block of threads.
    pub fn gpu() -> Prices {
        Prices::of_gpu(132, 4528e3)
    }

    /// A GPU of so many multiprocessors, whose memory gives so many bytes a microsecond.
    pub fn of_gpu(processors: i64, bytes: f64) -> Prices {
        let all = processors as f64;
        let share = all / 132.0;
        Prices {
            // As many as a short past has pages; more are merged by more blocks than a product of heads has.
            moved_steps: 32,
            // A pair of numbers that are ranked takes a multiprocessor a third of a cycle (bench/JOURNAL.md): six microseconds.
            task_elements: 1 << 15,
            // Top-8 of 128 by pairs; a block of 256 threads computes it in a microsecond.
            stage_elements: 1 << 15,
            // A block multiplies all choices of a tile.
            prefix_tasks: false,
            // Tasks share a second cache, and products of matrices have two sides: tokens and positions.
            // Four of eight: 1.03 at depth 0 and 1.19 at 4000 (bench/JOURNAL.md); a latent is too long to be read again.
            heads: Heads { of_group: 4, of_latent: i64::MAX, of_run: 1 },
            tiled_heads: None,
            rows_together: 256,
            // Four tasks a page, which the 132 multiprocessors of an H200 run at once.
            short: Some(Short { pages: 32, heads: 5 }),
            // What is planned for more leaves most multiprocessors idle when some sequences decode.
            several: Some(Several { most: 128, usual: 32, tiles: true }),
            // Of prompts of GLM-4.7-Flash at depths of 16,000 and 30,000 on an H200: 2.4e-14 s, 1e-14 s, and 2.8e-14 s a product
            // of heads that read the latents themselves.
            alone: 1.3,
            latents: Latents { pages: 1024, slot: 0.9, run: 0.35, token: 6.5 },
            counts_in_chunks: true,
            fusions: Fusions { halves_in_place: true, ..Fusions::default() },
            // A step of 2048 tokens takes 115 ms with GLM-4.7-Flash on an H200; 32 clients get 1.15 times as much as with 1024.
            // With weights that cost a third of that, or twice as much, they get less (bench/JOURNAL.md).
            usual: Usual { many: 512, prompt: 512, pages: 32, beside: 2048, again: 20.0 },
            // A multiprocessor each; with 128 of 132 GLM-4.7-Flash is 0.92 as fast at depth 8000 (bench/JOURNAL.md).
            splits: Splits { one: processors, of_latent: processors, few: 16, many: 4 },
            profile: Profile {
                // A true dependence between two kernels of a graph, measured on an H200.
                stage: 1.35,
                // A load of shared memory, an addition and a store, some 60 cycles at 1.75 GHz.
                step: 0.035,
                tasks: all,
                together: 64,
                // Of an H200: a read-only stream of 8 GiB at 4528 GB/s.
                bytes,
                // On each of 132 multiprocessors 64 dots of four a cycle, at 1.75 GHz.
                dots: 59e6 * share,
                // On each 128 multiply-adds a cycle, at 1.75 GHz. Neither this nor `dots` knows of tensor cores, which
                // multiply tiles of many tokens faster.
                floats: 29e6 * share,
                unit: 29e6 * share,
                // As many operations as multiply-adds, at half of that for loads and index arithmetic.
                elements: 14e6 * share,
            },
            ..Prices::cpu()
        }
    }
}
