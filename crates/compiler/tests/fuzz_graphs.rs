//! Random tensor graphs, compiled and run through the kernel interpreter,
//! against the definition of each operation.

mod support;

use compiler::{Numerics, Options, Tensor, dims, gpu, tile::Plan};
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, UnOp};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{Case, Random, bytes, gpu_options, int_bytes, nmse, options, random_gpu_plan, random_plan};

/// Graphs that a run tries.
const CASES: u64 = 200;

/// NMSE of another order of sums.
const MOST: f64 = 1e-10;

/// NMSE of one kernel per operation against fused kernels.
const FUSED: f64 = 1e-12;

/// What a graph is compiled for.
#[derive(Clone, Debug)]
enum Target {
    Cpu(Plan),
    Gpu(gpu::Plan),
}

impl Target {
    /// One of each kind, as a seed has it.
    fn all(seed: u64) -> [Target; 2] {
        let mut random = Random(seed);
        [Target::Cpu(random_plan(&mut random)), Target::Gpu(random_gpu_plan(&mut random))]
    }

    fn options(self) -> Options {
        let options = match self {
            Target::Cpu(plan) => options(Numerics::Exact, plan),
            Target::Gpu(plan) => gpu_options(Numerics::Exact, plan),
        };
        Options { check: true, ..options }
    }
}

/// Kinds of operations that graphs have to hold; the first [`ALWAYS`] of them in every run.
const KINDS: [&str; 14] = [
    "elementwise",
    "permute",
    "reshape",
    "expand",
    "slice",
    "sum",
    "max",
    "softmax",
    "top-k",
    "comparison",
    "scan",
    "concat",
    "gather",
    "scatter",
];

const ALWAYS: usize = 11;

/// Fewer graphs with a kind of operation are too few.
const RARE: usize = 8;

/// The kind of an operation, if it is counted.
fn kind(g: &Graph, id: Id) -> Option<&'static str> {
    Some(match g.op(id) {
        // Of a difference from the largest.
        Op::Unary(UnOp::Exp) if *g.op(g.src(id)[0]) == Op::Binary(BinOp::Sub) => "softmax",
        Op::Where => "comparison",
        Op::Unary(_) | Op::Binary(_) | Op::Cast => "elementwise",
        Op::Reshape => "reshape",
        Op::Permute(_) => "permute",
        Op::Expand => "expand",
        Op::Slice { .. } => "slice",
        Op::Concat(_) => "concat",
        Op::Reduce(ReduceOp::Sum, _) => "sum",
        Op::Reduce(ReduceOp::Max, _) => "max",
        Op::Gather => "gather",
        Op::Scatter => "scatter",
        Op::TopK(_) => "top-k",
        Op::Scan(_) => "scan",
        _ => return None,
    })
}

fn lens(t: &Tensor) -> Vec<i64> {
    (0..t.rank()).map(|a| t.len(a)).collect()
}

fn shaped(t: &Tensor, shape: &[i64]) -> Tensor {
    let shape: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
    t.reshape(&shape)
}

struct Fuzz {
    /// Whether concatenations and gathered rows may occur.
    all: bool,
    r: Random,
    case: Case,
    pool: Vec<Tensor>,
}

impl Fuzz {
    fn new(seed: u64, all: bool) -> Fuzz {
        let mut f = Fuzz { all, r: Random(seed), case: Case::default(), pool: vec![] };
        for i in 0..2 + f.r.below(2) {
            let rank = 1 + f.r.below(3);
            let shape: Vec<i64> = (0..rank).map(|_| [1, 2, 3, 4, 5, 8, 12, 16, 32][f.r.below(9)]).collect();
            let n = shape.iter().product::<i64>() as usize;
            let name = format!("x{i}");
            let values = f.r.floats(n);
            f.case.bind(&name, bytes(&values));
            let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
            let x = if f.r.below(2) == 0 {
                f.case.b.input(&name, DType::F32, &dims)
            } else {
                f.case.b.param(&name, DType::F32, &dims)
            };
            f.pool.push(x);
        }
        f
    }

    fn any(&mut self) -> Tensor {
        // Later values more often, so that graphs are deep.
        let n = self.pool.len();
        let at = self.r.below(n).max(self.r.below(n));
        self.pool[at].clone()
    }

    /// A number of the same magnitude whatever the input.
    fn tame(&mut self, x: &Tensor) -> Tensor {
        match self.r.below(5) {
            0 => x.sigmoid(),
            1 => x.silu(),
            2 => x.unary(UnOp::Abs) + 0.25,
            3 => -x,
            _ => x * 0.5,
        }
    }

    /// One more value, unless the shapes do not allow it.
    fn grow(&mut self) -> Option<Tensor> {
        let x = self.any();
        let shape = lens(&x);
        let rank = shape.len();
        let axis = (rank > 0).then(|| self.r.below(rank));
        let y = match self.r.below(17) {
            8 | 9 | 12 | 13 if !self.all => return None,
            0 => self.tame(&x),
            1 | 2 => {
                let y = self.any();
                let fits = lens(&y).iter().rev().zip(shape.iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1);
                let op = [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Max, BinOp::Min][self.r.below(5)];
                fits.then(|| x.binary(op, &y))?
            }
            3 => x.sum(axis?) * 0.5,
            4 => x.max(axis?),
            5 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                let by = axis?;
                perm.rotate_left(by);
                x.permute(&perm)
            }
            6 => {
                // Two dimensions merged, or one split.
                let a = axis?;
                let mut s = shape.clone();
                if a + 1 < rank {
                    let n = s.remove(a);
                    s[a] *= n;
                } else {
                    let d = (2..=4).find(|d| s[a] % d == 0)?;
                    s[a] /= d;
                    s.insert(a + 1, d);
                }
                shaped(&x, &s)
            }
            7 => {
                let a = axis?;
                let start = self.r.below(shape[a] as usize) as i64;
                let len = 1 + self.r.below((shape[a] - start) as usize) as i64;
                x.slice(a, start, len)
            }
            8 => {
                let a = axis?;
                let other = self.tame(&x);
                Tensor::concat(&[x.clone(), other], a)
            }
            9 => {
                // Zeros on both sides.
                let a = axis?;
                let mut s = shape.clone();
                s[a] = 1 + self.r.below(3) as i64;
                let ones = vec![1; rank];
                let dims: Vec<_> = s.iter().map(|&d| compiler::Dim::Const(d)).collect();
                let zeros = shaped(&self.case.b.float(0.0), &ones).expand(&dims);
                Tensor::concat(&[zeros.clone(), x.clone(), zeros], a)
            }
            10 => (axis.is_some() && shape[rank - 1] > 1).then(|| x.softmax())?,
            11 => {
                let n = *shape.last()?;
                // Values that only rounding tells apart (sums that are one, say) would have any order.
                let coarse = (&x * 64.0).unary(UnOp::Round);
                let ids = coarse.topk(1 + self.r.below(n.min(4) as usize));
                if self.r.below(2) == 0 { x.take_last(&ids) } else { ids.cast(DType::F32) }
            }
            12 => {
                let rows = *shape.first()?;
                let n = 1 + self.r.below(4);
                let ids: Vec<i32> = (0..n).map(|_| self.r.below(rows as usize) as i32).collect();
                let name = format!("id{}", self.case.data.len());
                self.case.bind(&name, int_bytes(&ids));
                let ids = self.case.b.input(&name, DType::I32, dims![n]);
                x.gather(&ids)
            }
            13 => {
                // Some rows of a state, in another order; all of it, or they, are read again.
                let (n, spare) = (*shape.first()?, self.r.below(3) as i64);
                let mut s = shape.clone();
                s[0] += spare;
                let name = format!("state{}", self.case.data.len());
                let values = self.r.floats(s.iter().product::<i64>() as usize);
                self.case.bind(&name, bytes(&values));
                let dims: Vec<_> = s.iter().map(|&d| compiler::Dim::Const(d)).collect();
                let state = self.case.b.state(&name, DType::F32, &dims);
                let by = self.r.below(s[0] as usize) as i64;
                let ids: Vec<i32> = (0..n).map(|i| ((i + by) % s[0]) as i32).collect();
                let at = format!("id{}", self.case.data.len());
                self.case.bind(&at, int_bytes(&ids));
                let ids = self.case.b.input(&at, DType::I32, dims![n]);
                let next = state.scatter(&ids, &x);
                self.case.effects.push((name, next.clone()));
                if self.r.below(2) == 0 { next * 0.5 } else { next.gather(&ids) }
            }
            14 => {
                let y = self.any();
                let fits = lens(&y).iter().rev().zip(shape.iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1);
                fits.then(|| x.lt(&y).select(&x, &y))?
            }
            15 => {
                let axis = axis?;
                if self.r.below(2) == 0 {
                    x.scan(axis) * 0.5
                } else {
                    let name = format!("n{}", self.case.data.len());
                    let values: Vec<i32> = (0..shape.iter().product()).map(|_| self.r.below(7) as i32 - 3).collect();
                    self.case.bind(&name, int_bytes(&values));
                    let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
                    let n = self.case.b.input(&name, DType::I32, &dims);
                    let n = if self.r.below(2) == 0 { n.binary(BinOp::Add, &n) } else { n };
                    &n.scan(axis).cast(DType::F32) * &x
                }
            }
            _ => {
                // A product of matrices.
                let n = *shape.last()?;
                let name = format!("w{}", self.case.data.len());
                let rows = [1, 3, 4, 8, 20][self.r.below(5)];
                let values = self.r.floats((rows * n) as usize);
                self.case.bind(&name, bytes(&values));
                let w = self.case.b.param(&name, DType::F32, dims![rows, n]);
                x.linear(&w) * 0.5
            }
        };
        let small = lens(&y).iter().product::<i64>() <= 4096 && y.rank() <= 5;
        small.then_some(y)
    }

    /// A graph with one to three outputs. An output ends in an exponential,
    /// because views of inputs are a test of their own.
    fn finish(mut self) -> Case {
        let steps = 2 + self.r.below(9);
        for _ in 0..4 * steps {
            if self.pool.len() < steps + 3
                && let Some(y) = self.grow()
            {
                self.pool.push(y);
            }
        }
        for i in 0..1 + self.r.below(3) {
            let y = self.any().sigmoid();
            // A value has one name.
            if self.case.outs.iter().all(|o| o.1.id() != y.id()) {
                self.case.output(&format!("y{i}"), &y);
            }
        }
        self.case
    }
}

fn message(e: Box<dyn std::any::Any + Send>) -> String {
    let text = e.downcast_ref::<String>().cloned().or(e.downcast_ref::<&str>().map(|s| s.to_string()));
    format!("panicked: {}", text.unwrap_or_default())
}

/// What is wrong with the graph of a seed, or the kinds of its operations.
fn problem(seed: u64, all: bool) -> Result<BTreeSet<&'static str>, String> {
    let case = catch_unwind(|| Fuzz::new(seed, all).finish()).map_err(message);
    let case = case.map_err(|e| format!("building: {e}"))?;
    let run = || {
        let mut kinds = BTreeSet::new();
        let mut fused: Option<Vec<Vec<f32>>> = None;
        let same = |first: &Vec<Vec<f32>>, values: &[Vec<f32>]| {
            let worst = first.iter().zip(values).map(|(a, b)| nmse(a, b)).find(|e| *e > FUSED);
            worst.map_or(Ok(()), |e| Err(format!("another result than fused for the cpu: nmse {e:.2e}")))
        };
        let [cpu, gpu] = Target::all(seed).map(Target::options);
        let unfused = Options { without: vec!["fuse".into()], ..cpu.clone() };
        // Short prefix sums are loops too.
        let [cpu, gpu] =
            [cpu, gpu].map(|o| if seed.is_multiple_of(2) { o } else { Options { without: vec!["scan".into()], ..o } });
        for (name, options) in [("cpu", cpu), ("gpu", gpu), ("cpu without fuse", unfused)] {
            let c = case.check(&options, MOST).map_err(|e| format!("{name}: {e}"))?;
            let values = case.values(&c)?;
            same(fused.get_or_insert_with(|| values.clone()), &values).map_err(|e| format!("{name}: {e}"))?;
            let roots: Vec<_> = case.outs.iter().chain(&case.effects).map(|o| o.1.id()).collect();
            kinds.extend(c.graph.toposort(&roots).into_iter().filter_map(|id| kind(&c.graph, id)));
        }
        Ok(kinds)
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|e| Err(message(e)))
}

/// Prints the graph of a seed.
fn show(seed: u64, all: bool) {
    let case = Fuzz::new(seed, all).finish();
    let roots: Vec<_> = case.outs.iter().map(|o| o.1.id()).collect();
    match case.compile(&Target::all(seed)[0].clone().options()) {
        Ok(c) => println!("{}", ir::print::tensor(&c.graph, &roots)),
        Err(e) => println!("{e}"),
    }
}

/// How many times as many graphs as usual are wanted.
fn times() -> u64 {
    std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"))
}

/// Runs all seeds, or the one in `SEED`, of which it prints the graph.
fn run(cases: u64, all: bool) {
    let seeds = match std::env::var("SEED") {
        Ok(s) => vec![s.parse().expect("a number")],
        Err(_) => (0..cases * times()).collect::<Vec<u64>>(),
    };
    let one = seeds.len() == 1;
    if one {
        show(seeds[0], all);
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems: Vec<(u64, String)> = vec![];
    for &seed in &seeds {
        match problem(seed, all) {
            Ok(kinds) => kinds.into_iter().for_each(|kind| *counts.entry(kind).or_default() += 1),
            Err(e) => problems.push((seed, e)),
        }
    }
    println!("fuzzer: {} graphs; graphs with {counts:?}", seeds.len());
    let kinds = if all { &KINDS[..] } else { &KINDS[..ALWAYS] };
    let rare: Vec<&&str> = kinds.iter().filter(|kind| counts.get(**kind).is_none_or(|n| *n < RARE)).collect();
    assert!(one || !problems.is_empty() || rare.is_empty(), "fewer than {RARE} graphs with {rare:?}");
    let line = |(s, p): &(u64, String)| format!("seed {s}: {}", if one { p } else { p.lines().next().unwrap_or("") });
    let lines: Vec<String> = problems.iter().map(line).collect();
    assert!(problems.is_empty(), "{} of {} graphs failed:\n{}", lines.len(), seeds.len(), lines.join("\n"));
}

#[test]
fn random_graphs_agree_with_their_definition() {
    run(2 * CASES, false);
}

#[test]
fn random_graphs_with_concat_and_gather_agree_with_their_definition() {
    run(CASES, true);
}
