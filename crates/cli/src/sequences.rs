//! Sequences of random tokens that are decoded together, each in pages of its own.

use crate::interrupt::Watch;
use model::batch::Batch;
use model::cache::PAGE;
use model::engine::{Engine, Sharing};
use model::random::Random;
use model::step::Class;

/// Sequences whose prompts are equally long.
pub struct Sequences {
    pages: Vec<Vec<u32>>,
    batch: Batch,
    random: Random,
    /// Tokens are below this.
    vocab: u64,
}

/// Pages of so many positions.
fn pages(positions: usize) -> usize {
    positions.div_ceil(PAGE as usize)
}

/// What an engine must have room for.
pub fn sharing(count: usize, positions: usize) -> Sharing {
    Sharing::of_texts(count as i64, (pages(positions) * count) as i64 * PAGE)
}

/// The classes of the steps of so many prompts and of one token behind each.
pub fn classes(engine: &Engine, count: usize, prompt: usize) -> Vec<Class> {
    let (all, chunk) = (prompt * count, engine.limits().tokens);
    let sizes = (0..all).step_by(chunk).map(|at| Class::of(chunk.min(all - at)));
    let many = || engine.all_classes().into_iter().filter(|class| class.many());
    // Which of those of many tokens depends on the segments.
    let prompts = sizes.flat_map(|class| if class.many() { many().collect() } else { vec![class] });
    let mut classes: Vec<Class> = prompts.chain([engine.class_of_sequences(count, prompt..prompt + 1)]).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

impl Sequences {
    /// So many sequences of at most so many positions, for an engine with room for them.
    pub fn new(engine: &Engine, count: usize, positions: usize) -> Sequences {
        let each = pages(positions);
        let pages = (0..count).map(|s| (s * each..(s + 1) * each).map(|page| page as u32).collect()).collect();
        let limits = engine.limits();
        Sequences { pages, batch: Batch::new(limits), random: Random(1), vocab: limits.vocab as u64 }
    }

    /// Computes all prompts, in steps of as many tokens as the engine takes.
    pub fn read_prompts(&mut self, engine: &mut Engine, prompt: usize, watch: &Watch) -> anyhow::Result<()> {
        let Sequences { pages, batch, random, vocab } = self;
        let most = engine.limits().tokens;
        let mut tokens = vec![];
        batch.clear();
        for (s, own) in pages.iter().enumerate() {
            let mut at = 0;
            while at < prompt {
                let n = (most - batch.tokens()).min(prompt - at);
                tokens.clear();
                tokens.extend((0..n).map(|_| random.below(*vocab)));
                batch.add(&tokens, at, own)?;
                batch.set_place(s);
                at += n;
                if at == prompt {
                    batch.want_last();
                }
                let last = s + 1 == pages.len() && at == prompt;
                if batch.tokens() == most || last {
                    watch.check()?;
                    if batch.rows() == 0 {
                        batch.want_last();
                    }
                    engine.run(batch)?;
                    batch.clear();
                }
            }
        }
        Ok(())
    }

    /// One token of each at this position.
    pub fn next(&mut self, position: usize) -> anyhow::Result<&Batch> {
        self.batch.clear();
        for pages in &self.pages {
            self.batch.add(&[self.random.below(self.vocab)], position, pages)?;
            self.batch.want_last();
        }
        Ok(&self.batch)
    }
}
