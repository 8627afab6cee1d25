//! A model that nobody has trained, from public tensor code: what its parts have in common with the shipped families
//! is only that the same passes compile them.
//!
//! A block adds latent attention and a mixture of experts that both read one LayerNorm of the residual stream. Experts
//! have a squared ReLU and no gate; three of them are shared. Keys are not rotated but scaled down with the distance
//! from the start.

use crate::support::{Case, Random, bytes, int_bytes, options};
use compiler::cpu::plan::Plan;
use compiler::tensor::SoftmaxParts;
use compiler::{Compiled, Numerics, Options, Tensor, dims};
use gguf::format::rows;
use ir::{BinOp, DType, Id, Op, UnOp};

const LAYERS: usize = 3;
const HIDDEN: i64 = 96;
const HEADS: i64 = 3;
/// Length of a query head before it is absorbed.
const HEAD: i64 = 96;
/// Length of a value head.
const VALUE: i64 = 64;
/// Length of the cached latent.
const LATENT: i64 = 160;
const EXPERTS: i64 = 7;
const USED: i64 = 3;
const SHARED: i64 = 3;
const WIDTH: i64 = 64;
const VOCAB: i64 = 128;
/// Rows of the cache in all, and in a tile.
const ROWS: i64 = 64;
const TILE: i64 = 16;
/// Rows that are in use; the last is written by the step.
const POSITION: i32 = 37;

/// Stages of a block: the norm and its codes; queries, cache, router and the way up of shared experts; absorbed
/// queries, top-k and their way down; attention beside the way up of routed experts; values beside their way down; output.
const STAGES: usize = 6;

struct Model {
    case: Case,
    random: Random,
}

impl Model {
    /// A matrix in a block format.
    fn matrix(&mut self, name: &str, format: &str, shape: &[i64]) -> Tensor {
        let format = rows().iter().find(|f| f.name == format).expect("a known format");
        let n = shape.iter().product::<i64>() as usize;
        let size = 1.0 / (*shape.last().expect("a row") as f32).sqrt();
        let values: Vec<f32> = self.random.floats(n).iter().map(|v| v * size).collect();
        let mut data = vec![0; format.row_bytes(n as u64).expect("whole blocks") as usize];
        gguf::quantise::quantise(format, &values, &mut data).expect("a quantiser");
        self.case.bind(name, data);
        let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
        self.case.b.quantised(name, format, &dims)
    }

    /// Floats around a mean.
    fn floats(&mut self, name: &str, mean: f32, shape: &[i64]) -> Tensor {
        let n = shape.iter().product::<i64>() as usize;
        let values: Vec<f32> = self.random.floats(n).iter().map(|v| mean + 0.3 * v).collect();
        self.case.bind(name, bytes(&values));
        let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
        self.case.b.param(name, DType::F32, &dims)
    }

    /// `(x - mean) / sqrt(variance + eps) * weight + bias`.
    fn layer_norm(&mut self, name: &str, x: &Tensor) -> Tensor {
        let weight = self.floats(&format!("{name}.weight"), 1.0, &[HIDDEN]);
        let bias = self.floats(&format!("{name}.bias"), 0.0, &[HIDDEN]);
        let n = 1.0 / HIDDEN as f32;
        let mean = (x.sum(1) * n).unsqueeze(1);
        let centred = x - &mean;
        let variance = (&centred * &centred).sum(1) * n;
        let factor = (variance + 1e-5).unary(UnOp::Rsqrt).unsqueeze(1);
        &(&(&centred * &factor) * &weight) + &bias
    }

    /// Latent attention over the rows of the cache up to this position.
    fn attention(&mut self, layer: usize, h: &Tensor, position: &Tensor) -> Tensor {
        let name = |part: &str| format!("{layer}.{part}");
        let q = h.linear(&self.matrix(&name("q"), "Q4_0", &[HEADS * HEAD, HIDDEN]));
        let latent = h.linear(&self.matrix(&name("kv"), "Q8_0", &[LATENT, HIDDEN]));
        let distance = position.cast(DType::F32).unsqueeze(1) * 0.01 + 1.0;
        let latent = &latent * &distance.unary(UnOp::Recip);
        self.case.bind(&name("cache"), bytes(&self.random.floats((ROWS * LATENT) as usize)));
        let cache = self.case.b.state(&name("cache"), DType::F32, dims![ROWS, LATENT]).scatter(position, &latent);
        self.case.effects.push((name("cache"), cache.clone()));
        let k_b = self.matrix(&name("k_b"), "Q4_0", &[HEADS, LATENT, HEAD]);
        let v_b = self.matrix(&name("v_b"), "Q5_0", &[HEADS, VALUE, LATENT]);
        let tiles = ROWS / TILE;
        let q = q.reshape(dims![1, HEADS, HEAD]).linear(&k_b).reshape(dims![1, 1, HEADS, 1, LATENT]);
        let rows = cache.reshape(dims![1, tiles, 1, TILE, LATENT]);
        let scores = (&q * &rows).sum(4) * (1.0 / (HEAD as f32).sqrt());
        let b = &self.case.b;
        let end = position.binary(BinOp::Add, &b.int32(1)).reshape(dims![1, 1, 1, 1]);
        let seen = b.iota(ROWS).reshape(dims![1, tiles, 1, TILE]).lt(&end);
        let scores = seen.select(&scores, &b.float(f32::NEG_INFINITY));
        let count = position.binary(BinOp::Div, &b.int32(TILE)).binary(BinOp::Add, &b.int32(1));
        let parts = SoftmaxParts::of_tile(&scores, |e| (&e.unsqueeze(4) * &rows).sum(3));
        let mixed = parts.fold(1, &count).finish().reshape(dims![1, HEADS, LATENT]);
        let out = mixed.linear(&v_b).reshape(dims![1, HEADS * VALUE]);
        out.linear(&self.matrix(&name("o"), "Q4_0", &[HIDDEN, HEADS * VALUE]))
    }

    /// `down(max(up(x), 0)^2)` of the experts that the router chose, weighted, and of the shared ones.
    fn experts(&mut self, layer: usize, h: &Tensor) -> Tensor {
        let name = |part: &str| format!("{layer}.{part}");
        let square = |x: Tensor| {
            let x = x.maximum(&x.builder().float(0.0));
            &x * &x
        };
        let scores = h.linear(&self.floats(&name("router"), 0.0, &[EXPERTS, HIDDEN]));
        let ids = scores.topk(USED as usize);
        let weights = scores.take_last(&ids).softmax();
        let up = self.matrix(&name("up"), "Q4_0", &[EXPERTS, WIDTH, HIDDEN]).gather(&ids);
        let down = self.matrix(&name("down"), "Q5_1", &[EXPERTS, HIDDEN, WIDTH]).gather(&ids);
        let routed = square(h.unsqueeze(1).linear(&up)).linear(&down);
        let routed = (&routed * &weights.unsqueeze(2)).sum(1);
        let up = self.matrix(&name("up_shared"), "Q4_0", &[SHARED, WIDTH, HIDDEN]);
        let down = self.matrix(&name("down_shared"), "Q4_1", &[SHARED, HIDDEN, WIDTH]);
        &routed + &square(h.unsqueeze(1).linear(&up)).linear(&down).sum(1)
    }
}

/// One token through so many blocks.
fn model(layers: usize) -> Case {
    let mut m = Model { case: Case::default(), random: Random(21) };
    m.case.bind("token", int_bytes(&[77]));
    m.case.bind("position", int_bytes(&[POSITION]));
    let token = m.case.b.input("token", DType::I32, dims![1]);
    let position = m.case.b.input("position", DType::I32, dims![1]);
    let embedding = m.matrix("embedding", "Q8_0", &[VOCAB, HIDDEN]);
    let mut x = embedding.gather(&token);
    for layer in 0..layers {
        let h = m.layer_norm(&format!("{layer}.norm"), &x);
        let (a, f) = (m.attention(layer, &h, &position), m.experts(layer, &h));
        x = &(&x + &a) + &f;
    }
    let h = m.layer_norm("norm", &x);
    let head = m.matrix("head", "Q5_0", &[VOCAB, HIDDEN]);
    m.case.output("logits", &h.linear(&head));
    m.case
}

fn compiled(layers: usize, numerics: Numerics) -> Compiled {
    model(layers).compile(&Options::cpu(numerics, 64)).expect("a program")
}

#[test]
fn agrees_with_its_definition() {
    let case = model(2);
    for (numerics, most) in [(Numerics::Exact, 1e-10), (Numerics::Int8, 1e-2)] {
        for plan in [Plan::scalar(), Plan::of_vectors(32), Plan::of_vectors(64)] {
            case.check(&options(numerics, plan.clone()), most).unwrap_or_else(|e| panic!("{numerics:?} {plan:?}: {e}"));
        }
    }
}

#[test]
fn agrees_without_fusion() {
    let mut options = Options::cpu(Numerics::Exact, 64);
    options.without = vec!["fuse".into()];
    model(2).check(&options, 1e-10).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn a_block_takes_6_stages() {
    let (two, three) = (compiled(2, Numerics::Int8), compiled(LAYERS, Numerics::Int8));
    let stages = three.program.stages.len() - two.program.stages.len();
    assert_eq!(stages, STAGES);
}

#[test]
fn every_matrix_of_codes_is_read_by_integer_dots() {
    let c = compiled(LAYERS, Numerics::Int8);
    assert!((0..c.graph.len() as u32).all(|i| !matches!(c.graph.op(Id(i)), Op::Call { .. } | Op::Fence)));
    for launch in c.program.stages.iter().flat_map(|s| &s.launches) {
        let matrices = ["q", "kv", "k_b", "v_b", "o", "up", "down", "up_shared", "down_shared"];
        let reads = |name: &str| launch.origin.split(' ').any(|read| read.split_once('.').is_some_and(|r| r.1 == name));
        let paths = c.bodies[launch.kernel].paths();
        let count = matrices.iter().filter(|m| reads(m)).count();
        let dots = paths.iter().filter(|p| **p == "integer dot").count();
        assert!(dots >= count, "{}: {paths:?}", launch.origin);
    }
}
