//! `bench --block`: the median time of one block and of its feed-forward in decoding.
//!
//! Taken inside whole steps, so that every block has weights of its own and finds the caches as in real use. A kernel
//! belongs to the block and the half of it that its program says, see [`Part`].

use crate::interrupt::Watch;
use crate::open::Opened;
use crate::output::Stdout;
use anyhow::bail;
use device::Profile;
use model::median::median;
use model::random::Random;
use model::step::Part;
use std::collections::BTreeMap;
use std::io::Write;
use text::sampler::SamplerConfig;

/// Prints a line for each depth, with medians of at least so many times.
pub fn run(opened: &mut Opened, depths: &[usize], least: usize, watch: &Watch) -> anyhow::Result<()> {
    let mut random = Random(1);
    let chunk = opened.engine.chunk();
    for &depth in depths {
        for at in (0..depth).step_by(chunk) {
            watch.check()?;
            let n = chunk.min(depth - at);
            let tokens: Vec<u32> = (0..n).map(|_| random.token(opened.engine.config())).collect();
            opened.engine.prepare(opened.engine.class_of(n, at))?;
            opened.engine.step(&tokens, at, n - 1..n)?;
        }
        let (mut blocks, mut feed_forwards) = (vec![], vec![]);
        let mut steps = 0;
        // The first step warms up.
        while blocks.len() < least || steps < 4 {
            watch.check()?;
            let token = random.token(opened.engine.config());
            let draw = opened.engine.draw(&SamplerConfig::greedy());
            let profile = opened.engine.profile(&[token], depth, draw)?;
            if steps > 0 {
                for (block, feed_forward) in of_blocks(&profile) {
                    blocks.push(block);
                    feed_forwards.push(feed_forward);
                }
            }
            steps += 1;
            if blocks.is_empty() && steps > 1 {
                bail!("no kernel says which block it belongs to, so blocks cannot be timed");
            }
        }
        let times = blocks.len();
        let (block, feed_forward) = (median(&mut blocks), median(&mut feed_forwards));
        let mut out = Stdout;
        writeln!(
            out,
            "depth {depth}: block {block:.1} us, feed-forward {feed_forward:.1} us (medians of {times} in {} steps)",
            steps - 1
        )?;
        out.flush()?;
    }
    Ok(())
}

/// Microseconds of each block of a step, and of its feed-forward.
fn of_blocks(profile: &Profile) -> Vec<(f64, f64)> {
    let mut blocks: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for launch in &profile.launches {
        let Some((layer, part)) = Part::of(&launch.scope) else { continue };
        let times = blocks.entry(layer).or_default();
        let microseconds = launch.wall_ns as f64 / 1e3;
        times.0 += microseconds;
        if part == Part::FeedForward {
            times.1 += microseconds;
        }
    }
    blocks.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::LaunchTime;

    #[test]
    fn each_launch_counts_in_its_block_and_half() {
        let launch = |scope: &str, origin: &str, wall_ns| LaunchTime {
            scope: scope.into(),
            origin: origin.into(),
            wall_ns,
            ..LaunchTime::default()
        };
        let profile = Profile {
            wall_ns: 1_111_111,
            workers: 1,
            stages: vec![],
            launches: vec![
                launch("", "token_embd blk.0.attn_norm", 1_000_000),
                launch("blk.0.attn", "blk.0.attn_output blk.0.ffn_norm", 1_000),
                launch("blk.0.attn", "page_table", 100_000),
                launch("blk.0.ffn", "blk.0.ffn_down blk.1.attn_norm", 10_000),
                launch("blk.1.ffn", "", 10),
                launch("blk.1.attn", "", 1),
            ],
            rest_ns: 100,
        };
        let [first, second] = of_blocks(&profile)[..] else { panic!("two blocks") };
        assert_eq!((first, second), ((111.0, 10.0), (0.011, 0.01)));
    }
}
