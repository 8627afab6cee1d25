//! Decoding costs what is in the cache, not what fits in it: the programs for a small and a large context differ in
//! nothing but the sizes of the cache and of the page table.

use crate::support::hollow::Hollow;
use compiler::Compiled;
use compiler::program::{BufferKind, Count, Program};
use model::cache::PAGE;

const CONTEXTS: [i64; 2] = [4096, 65536];

/// Tasks, and bytes of weights and state that they read, of every launch at a context.
fn work(c: &Compiled, context: i64) -> Vec<(String, i64, i64)> {
    let program = &c.program;
    let value = |name: &str| match name {
        "pages" | "row_pages" | "table" => context / PAGE,
        "tokens" | "rows" => 1,
        other => panic!("no value for {other}"),
    };
    let values: Vec<i64> = program.vars.iter().map(|v| value(&v.name)).collect();
    let launches = program.stages.iter().flat_map(|s| &s.launches);
    let of = |count: &Count| count.eval(&values).expect("a count");
    launches.map(|l| (l.origin.clone(), of(&l.tasks), of(&l.bytes))).collect()
}

/// The kernels, one after the other.
fn source(program: &Program) -> Vec<(&str, &str)> {
    program.kernels.iter().map(|k| (&*k.symbol, &*k.source)).collect()
}

#[test]
fn decoding_does_the_same_at_any_context() {
    for shape in ["glm-4.7-flash", "llama-3.2-1b", "qwen3-30b-a3b"] {
        let [small, large] = CONTEXTS.map(|context| Hollow { context, ..Hollow::new(shape, 3) }.compile());
        assert!(source(&small.program) == source(&large.program), "{shape}: other kernels");
        assert_eq!(work(&small, CONTEXTS[0]), work(&large, CONTEXTS[1]), "{shape}: other tasks");
        let scratch = |p: &Program| p.kernels.iter().map(|k| k.geometry.scratch_bytes).collect::<Vec<_>>();
        assert_eq!(scratch(&small.program), scratch(&large.program), "{shape}: other scratch");
        assert_eq!(small.program.arena_bytes, large.program.arena_bytes, "{shape}: another arena");
        for (a, b) in small.program.buffers.iter().zip(&large.program.buffers) {
            let grows = match &a.kind {
                BufferKind::State(_) => true,
                BufferKind::Input(name) => name == "page_table",
                _ => false,
            };
            let factor = if grows { (CONTEXTS[1] / CONTEXTS[0]) as usize } else { 1 };
            assert_eq!(a.bytes * factor, b.bytes, "{shape}: buffer {}", a.name);
        }
    }
}
