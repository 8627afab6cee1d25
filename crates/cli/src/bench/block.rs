//! `bench --block`: the median time of one block and of its feed-forward in decoding.
//!
//! Taken inside whole steps, so that every block has weights of its own and finds the caches as in real use. A kernel
//! belongs to the block whose tensors it reads.

use super::median;
use crate::interrupt::Watch;
use crate::open::Opened;
use anyhow::bail;
use device::Profile;
use model::random::Random;
use std::collections::BTreeMap;
use std::io::Write;

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
            let profile = opened.engine.profile(&[token], depth)?;
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
        let mut out = std::io::stdout().lock();
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
    let mut blocks: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for launch in &profile.launches {
        let Some(number) = block_of(&launch.origin) else { continue };
        let times = blocks.entry(number).or_default();
        let microseconds = launch.wall_ns as f64 / 1e3;
        times.0 += microseconds;
        if launch.origin.contains(".ffn_") {
            times.1 += microseconds;
        }
    }
    blocks.into_values().collect()
}

/// The block of the first tensor that a kernel reads.
fn block_of(origin: &str) -> Option<u32> {
    let rest = &origin[origin.find("blk.")? + 4..];
    rest.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_know_their_block() {
        assert_eq!(block_of("blk.12.attn_q_a blk.13.attn_norm"), Some(12));
        assert_eq!(block_of("output_norm output"), None);
        assert_eq!(block_of("blk.x"), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }
}
