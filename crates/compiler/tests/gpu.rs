//! The GPU-like target: kernels of blocks, warps and lanes, run in the interpreter, against the definition of each
//! operation and against the CPU's kernels; and the form of the kernels, which is what makes them fast.

use crate::support::programs::{format, input, input_of, weights};
use crate::support::{Case, Random, bytes, gpu_options, gpu_plans, int_bytes, nmse, options, random_gpu_plan};
use compiler::cpu::plan::Plan;
use compiler::kernel::body::Body;
use compiler::tensor::SoftmaxParts;
use compiler::{Compiled, Numerics, Tensor, dims, gpu};
use gguf::format::rows;
use ir::index::Linear;
use ir::{Axis, BinOp, DType, Graph, Id, Op, Space, print};

/// Plans that are tried on each case besides those of the table.
const RANDOM_PLANS: u64 = 6;

/// Runs a case on GPU-like targets and on the CPU's kernels: both near the definition, and near each other. Returns the
/// program of the default target with few warps in a block.
fn check(case: &Case, numerics: Numerics, most: f64) -> Compiled {
    let cpu = case.check(&options(numerics, Plan::scalar()), most).unwrap_or_else(|e| panic!("cpu: {e}"));
    let want = case.values(&cpu).expect("values");
    let random = (0..RANDOM_PLANS).map(|seed| random_gpu_plan(&mut Random(seed)));
    for plan in gpu_plans().into_iter().chain(random) {
        let c = case.check(&gpu_options(numerics, plan.clone()), most).unwrap_or_else(|e| panic!("{plan:?}: {e}"));
        for (got, want) in case.values(&c).expect("values").iter().zip(&want) {
            // Other orders of sums move a rounded code now and then.
            let (e, most) = (nmse(got, want), if numerics == Numerics::Exact { 1e-11 } else { 1e-4 });
            assert!(e <= most, "{plan:?}: nmse {e:.2e} from the CPU");
        }
    }
    let plan = gpu::GpuPlan { all_warps: 1, ..gpu::GpuPlan::default() };
    case.compile(&gpu_options(numerics, plan)).expect("a program")
}

fn nodes(c: &Compiled, body: &Body) -> Vec<Id> {
    c.graph.toposort(&[body.root])
}

fn space(g: &Graph, buffer: Id) -> Space {
    let Op::Buffer { space, .. } = *g.op(buffer) else { panic!("not a buffer") };
    space
}

/// The statements that multiply packed integers: the inner loop of a matrix product.
fn inner_statements(c: &Compiled, body: &Body) -> Vec<Id> {
    let g = &c.graph;
    let dot = |&id: &Id| *g.op(id) == Op::Set && g.toposort(&[id]).iter().any(|&n| *g.op(n) == Op::Dot4);
    nodes(c, body).into_iter().filter(dot).collect()
}

fn text(c: &Compiled, body: &Body) -> String {
    print::kernel(&c.graph, body.root)
}

/// The kernels with packed integer dots, after checking their form: weights by 16 bytes a lane, neighbours in
/// neighbouring lanes, no byte by itself, and the sum divided over lanes that exchange by shuffles.
fn packed(c: &Compiled) -> Vec<&Body> {
    let g = &c.graph;
    let all: Vec<&Body> = c.bodies.iter().filter(|b| !inner_statements(c, b).is_empty()).collect();
    for body in &all {
        let text = text(c, body);
        let lane = *nodes(c, body).iter().find(|&&n| matches!(g.op(n), Op::Range(_, Axis::Lane))).expect("lanes");
        let outside = |&n: &Id| *g.op(n) == Op::Load && !space(g, g.src(n)[0]).is_scratch();
        let loads: Vec<Id> = nodes(c, body).into_iter().filter(outside).collect();
        let raw = |&&l: &&Id| g.dtype(g.src(l)[0]) == DType::U8 && g.dtype(l) == DType::U8;
        let codes: Vec<&Id> = loads.iter().filter(raw).collect();
        assert!(!codes.is_empty(), "no codes are loaded:\n{text}");
        for &&l in &codes {
            assert_eq!(g.ty(l).bytes(), 16, "codes are not loaded by 16 bytes:\n{text}");
            let index = Linear::of(g, g.src(l)[1]);
            let step = index.coefficient(lane);
            let part = index.terms.iter().any(|t| g.toposort(&[t.0]).contains(&lane));
            assert!(step == 16 || part, "lanes do not divide the sum:\n{text}");
        }
        assert!(loads.iter().all(|&l| g.ty(l).bytes() > 1), "a byte is loaded by itself:\n{text}");
        let shuffles = nodes(c, body).iter().filter(|&&n| matches!(g.op(n), Op::LaneXor(_))).count();
        assert!(shuffles >= 2, "{shuffles} shuffles:\n{text}");
        assert!(body.paths().contains(&"integer dot"), "{:?}", body.paths());
    }
    all
}

/// Whether values go from thread to thread through shared memory.
fn shares(c: &Compiled, body: &Body) -> bool {
    let (g, all) = (&c.graph, nodes(c, body));
    let shared = |op: &Op| {
        all.iter().any(|&n| {
            let same = std::mem::discriminant(g.op(n)) == std::mem::discriminant(op);
            same && space(g, g.src(n)[0]) == Space::Shared
        })
    };
    shared(&Op::Load) && shared(&Op::Store) && all.iter().any(|&n| matches!(g.op(n), Op::Barrier { .. }))
}

/// Whether the kernel stores elements of a type to memory.
fn stores(c: &Compiled, body: &Body, ty: DType) -> bool {
    let g = &c.graph;
    let is = |&n: &Id| *g.op(n) == Op::Store && g.dtype(g.src(n)[0]) == ty && space(g, g.src(n)[0]) == Space::Output;
    nodes(c, body).iter().any(is)
}

#[test]
fn a_product_quantises_its_output_rows() {
    let mut r = Random(1);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 1024, &mut r);
    let a = weights(&mut case, "a", format("Q4_0"), &[256, 1024], &mut r);
    let b = weights(&mut case, "b", format("Q4_0"), &[64, 256], &mut r);
    case.output("y", &x.linear(&a).linear(&b));
    let c = check(&case, Numerics::Int8, 1e-3);
    let kernels = packed(&c);
    assert_eq!(kernels.len(), 2);
    let first = kernels.iter().find(|b| stores(&c, b, DType::I8)).expect("a product with codes as its output");
    assert!(shares(&c, first), "{}", text(&c, first));
}

#[test]
fn every_format_is_read_by_16_bytes() {
    let mut r = Random(2);
    for f in rows().iter().filter(|f| f.as_blocks().is_some() && !f.name.starts_with("Q8_")) {
        let mut case = Case::default();
        let x = input(&mut case, "x", 1, 1024, &mut r);
        let w = weights(&mut case, "w", f, &[8, 1024], &mut r);
        case.output("y", &x.linear(&w));
        let c = case.compile(&gpu_options(Numerics::Int8, gpu_plans()[0].clone())).expect("a program");
        let body = c.bodies.iter().find(|b| !inner_statements(&c, b).is_empty());
        let body = body.unwrap_or_else(|| panic!("{}: no packed dot", f.name));
        let g = &c.graph;
        let widest = nodes(&c, body).into_iter().filter(|&n| *g.op(n) == Op::Load && g.dtype(n) == DType::U8);
        let widest = widest.map(|n| g.ty(n).bytes()).max();
        assert_eq!(widest, Some(16), "{}:\n{}", f.name, text(&c, body));
    }
}

#[test]
fn experts_with_gate_and_up_are_one_kernel() {
    let mut r = Random(3);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 512, &mut r);
    case.bind("ids", int_bytes(&[3, 0, 1, 5]));
    let t = case.b.var("t", 1, 8);
    let ids = case.b.input("ids", DType::I32, dims![t, 2]);
    let q4 = format("Q4_0");
    let gate = weights(&mut case, "gate", q4, &[6, 128, 512], &mut r);
    let up = weights(&mut case, "up", q4, &[6, 128, 512], &mut r);
    let down = weights(&mut case, "down", q4, &[6, 64, 128], &mut r);
    let x = x.unsqueeze(1);
    let h = &x.linear(&gate.gather(&ids)).silu() * &x.linear(&up.gather(&ids));
    case.output("y", &h.linear(&down.gather(&ids)).sum(1));
    let c = check(&case, Numerics::Int8, 1e-3);
    let kernels = packed(&c);
    let weights = |b: &Body| {
        nodes(&c, b).iter().filter(|&&n| matches!(c.graph.op(n), Op::Buffer { space: Space::Weight, .. })).count()
    };
    let both = kernels.iter().find(|b| weights(b) == 2).expect("gate and up in one kernel");
    assert!(stores(&c, both, DType::I8), "SwiGLU and its codes are in another kernel");
    assert!(shares(&c, both), "{}", text(&c, both));
    // The expert is part of the address.
    let g = &c.graph;
    let ids = |n: Id| matches!(g.op(n), Op::Load | Op::Acc(_)) && g.dtype(n) == DType::I32;
    let address =
        |&n: &Id| *g.op(n) == Op::Load && g.ty(n).bytes() == 16 && g.toposort(&[g.src(n)[1]]).into_iter().any(ids);
    assert!(nodes(&c, both).iter().any(address), "{}", text(&c, both));
}

#[test]
fn many_tokens_are_multiplied_in_tiles() {
    let mut r = Random(6);
    for f in rows().iter().filter(|f| f.as_blocks().is_some()) {
        let mut case = Case::default();
        let x = input_of(&mut case, "x", 19, (9, 40), 512, &mut r);
        let w = weights(&mut case, "w", f, &[48, 512], &mut r);
        case.output("y", &x.silu().linear(&w));
        for plan in
            [gpu::GpuPlan::default(), gpu::GpuPlan { product_warps: 2, tile_tokens: 16, ..gpu::GpuPlan::default() }]
        {
            let c = case.check(&gpu_options(Numerics::Int8, plan), 1e-3).unwrap_or_else(|e| panic!("{}: {e}", f.name));
            let tile = c.bodies.iter().any(|b| b.paths().contains(&"integer tile"));
            assert!(tile, "{}: {:?}", f.name, c.bodies.iter().map(|b| b.paths()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn norms() {
    let mut r = Random(4);
    let mut case = Case::default();
    let x = input(&mut case, "x", 3, 2048, &mut r);
    case.bind("norm", bytes(&r.floats(2048)));
    let norm = case.b.param("norm", DType::F32, dims![2048]);
    case.output("y", &x.rms_norm(&norm, 1e-5));
    for numerics in [Numerics::Exact, Numerics::Int8] {
        let c = check(&case, numerics, 1e-11);
        let body = c.bodies.iter().find(|b| b.paths().contains(&"lane reduction")).expect("a sum over lanes");
        let g = &c.graph;
        assert!(shares(&c, body), "{}", text(&c, body));
        let wide = |&n: &Id| *g.op(n) == Op::Load && g.ty(n).bytes() == 16;
        assert!(nodes(&c, body).iter().any(wide), "{}", text(&c, body));
    }
}

#[test]
fn latent_attention_by_online_softmax() {
    let mut r = Random(5);
    let mut case = Case::default();
    // Eight heads over one cached row of 64 latents and 16 rotated values; the values are the latents.
    let (heads, latent, width, tile, tiles) = (8, 64, 80, 16, 8);
    let x = input(&mut case, "x", 2, heads * width, &mut r);
    let t = case.b.var("t", 1, 8);
    case.bind("pos", int_bytes(&[70, 71]));
    let pos = case.b.input("pos", DType::I32, dims![t]);
    case.bind("new", bytes(&r.floats(2 * width as usize)));
    let new = case.b.input("new", DType::F32, dims![t, width]);
    let cached = r.floats((tile * tiles * width) as usize);
    let halves = cached.iter().flat_map(|v| half_bits(*v).to_le_bytes()).collect();
    case.bind("cache", halves);
    let cache = case.b.state("cache", DType::F16, dims![tile * tiles, width]);
    let next = cache.scatter(&pos, &new.cast(DType::F16));
    let rows = next.cast(DType::F32).reshape(dims![1, tiles, 1, tile, width]);
    let q = x.reshape(dims![t, 1, heads, 1, width]);
    let scores = &(&q * &rows).sum(4) * 0.1;
    let one = case.b.int32(1);
    let at = case.b.iota(tile * tiles).reshape(dims![1, tiles, 1, tile]);
    let seen = at.lt(&pos.binary(BinOp::Add, &one).reshape(dims![t, 1, 1, 1]));
    let scores = seen.select(&scores, &case.b.float(-1e30));
    let values = rows.slice(4, 0, latent);
    let parts = SoftmaxParts::of_tile(&scores, |e| (&e.unsqueeze(4) * &values).sum(3));
    let size = case.b.int32(tile);
    let count = pos.binary(BinOp::Add, &size).binary(BinOp::Div, &size);
    case.output("o", &parts.fold(1, &count).finish());
    case.effects.push(("cache".into(), next));
    for numerics in [Numerics::Exact, Numerics::Int8] {
        let c = check(&case, numerics, 1e-11);
        let g = &c.graph;
        let folded = |b: &&Body| nodes(&c, b).iter().any(|&n| *g.op(n) == Op::Unary(ir::UnOp::Exp)) && shares(&c, b);
        let body = c.bodies.iter().find(folded).expect("one kernel for scores and values");
        let shuffles = nodes(&c, body).iter().any(|&n| matches!(g.op(n), Op::LaneXor(_)));
        assert!(shuffles && body.paths().contains(&"lane reduction"), "{:?}\n{}", body.paths(), text(&c, body));
        // A latent that was read is used for several heads.
        let folds = |&n: &Id| *g.op(n) == Op::Set && g.src(n).len() == 8 && g.ty(g.src(n)[0]).lanes == 1;
        let shared = |&n: &Id| {
            let all = g.toposort(&[n]);
            let loads = |near: bool| {
                let of = |&&l: &&Id| {
                    *g.op(l) == Op::Load && g.dtype(l) == DType::F32 && (space(g, g.src(l)[0]) == Space::Shared) == near
                };
                all.iter().filter(of).count()
            };
            folds(&n) && loads(false) == 1 && loads(true) == 4
        };
        assert!(nodes(&c, body).iter().any(shared), "{}", text(&c, body));
        // The loop over the cache is the fold's, with a length that is data.
        let long = |&n: &Id| {
            let of_data = |r: Id| g.toposort(&[g.src(r)[0]]).into_iter().any(|m| *g.op(m) == Op::Load);
            *g.op(n) == Op::Loop && of_data(g.src(n)[0])
        };
        assert!(nodes(&c, body).iter().any(long), "{}", text(&c, body));
    }
}

#[test]
fn parts_that_lie_in_memory_are_merged_in_registers() {
    // None, one, few, and more than what is loaded before any is merged; threads have several elements, one, or a part of one.
    let counts = [0, 1, 2, 3, 16, 17, 19, 40];
    let (tokens, most, len) = (counts.len() as i64, 40, 128);
    // Parts that are computed from what lies there do not merge with each other.
    for computed in [false, true] {
        let mut r = Random(9);
        let mut case = Case::default();
        let mut part = |name: &str, len: i64| {
            let values = input(&mut case, name, tokens, most * len, &mut r);
            values.reshape(dims![values.shape()[0], most, len])
        };
        let (max, sum, acc) = (part("max", 1), part("sum", 1), part("acc", len));
        let t = max.shape()[0];
        case.bind("count", int_bytes(&counts));
        let count = case.b.input("count", DType::I32, dims![t]);
        let of = |x: Tensor| if computed { x.exp() } else { x }.reshape(dims![t, most]);
        let all = SoftmaxParts { max: max.reshape(dims![t, most]), sum: of(sum), acc }.fold(1, &count);
        case.output("sum", &all.sum);
        case.output("acc", &all.acc);
        let c = check(&case, Numerics::Exact, 1e-11);
        assert!(c.bodies.iter().any(|body| body.paths().contains(&"fold in registers")));
    }
}

/// An f16 near a number between -1 and 1.
fn half_bits(v: f32) -> u16 {
    let scaled = (v.abs() * 1024.0) as u16;
    // Multiples of 1/1024 below one: 1.x * 2^e with the leading bit of `scaled` dropped.
    let top = 15 - scaled.max(1).leading_zeros() as u16;
    let sign = if v < 0.0 { 0x8000 } else { 0 };
    if scaled == 0 { 0 } else { sign | (top + 5) << 10 | (scaled << (10 - top)) & 0x3ff }
}

#[test]
fn halves_are_what_they_should_be() {
    assert_eq!([half_bits(0.5), half_bits(-0.25), half_bits(0.75)], [0x3800, 0xb400, 0x3a00]);
}

#[test]
fn few_blocks_have_more_warps() {
    let plan = gpu::GpuPlan { warps: 4, most_warps: 16, all_warps: 1024, ..gpu::GpuPlan::default() };
    let warps = |tasks, elements| plan.for_blocks(tasks, elements).warps;
    assert_eq!([warps(1000, 1 << 20), warps(128, 1 << 20), warps(100, 1 << 20), warps(1, 1 << 20)], [4, 8, 8, 16]);
    // Not without work for them.
    assert_eq!([warps(1, 1 << 10), warps(1, 1 << 12)], [4, 8]);
}

#[test]
fn weights_can_stay_in_blocks() {
    let mut r = Random(6);
    let mut case = Case::default();
    let x = input(&mut case, "x", 2, 256, &mut r);
    let w = weights(&mut case, "w", format("Q4_K"), &[8, 256], &mut r);
    case.output("y", &x.linear(&w));
    let mut o = gpu_options(Numerics::Int8, gpu_plans()[0].clone());
    o.without = vec!["planes".into()];
    case.check(&o, 1e-3).expect("the same from blocks");
}
