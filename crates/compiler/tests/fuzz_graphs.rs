//! Random tensor graphs, compiled and run through the kernel interpreter,
//! against the definition of each operation.

mod support;

use compiler::{Numerics, Tensor, dims, tile::Plan};
use ir::{BinOp, DType, UnOp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{Case, Random, bytes, int_bytes, nmse, options};

/// Graphs that a run tries.
const CASES: u64 = 150;

/// Seeds that fail: an outer product of a vector with itself (see interpreter.rs).
const KNOWN: [u64; 0] = [];

/// NMSE of another order of sums.
const MOST: f64 = 1e-10;

/// NMSE of one kernel per operation against fused kernels.
const FUSED: f64 = 1e-12;

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
        let y = match self.r.below(14) {
            8 | 9 | 12 if !self.all => return None,
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
                let ids = x.topk(1 + self.r.below(n.min(4) as usize));
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

/// What is wrong with the graph of a seed, if anything.
fn problem(seed: u64, all: bool) -> Option<String> {
    let case = catch_unwind(|| Fuzz::new(seed, all).finish()).map_err(message);
    let case = match case {
        Ok(case) => case,
        Err(e) => return Some(format!("building: {e}")),
    };
    let plan = match seed % 4 {
        0 => Plan::scalar(),
        n => Plan { vector_bytes: 8 << n, rows: 4, streams: 4, chains: 4, prefetch: 0 },
    };
    let run = || -> Result<(), String> {
        let o = options(Numerics::Exact, plan.clone());
        if std::env::var("SEED").is_ok() {
            let c = case.compile(&o).map_err(|e| e.to_string())?;
            let roots: Vec<_> = case.outs.iter().map(|o| o.1.id()).collect();
            println!("{}", ir::print::tensor(&c.graph, &roots));
        }
        let c = case.check(&o, MOST)?;
        let fused = case.values(&c)?;
        let mut o = o;
        o.without = vec!["fuse".into()];
        let c = case.check(&o, MOST).map_err(|e| format!("without fuse: {e}"))?;
        for (a, b) in fused.iter().zip(case.values(&c)?) {
            let e = nmse(a, &b);
            if e > FUSED {
                return Err(format!("fused and unfused differ: nmse {e:.2e}"));
            }
        }
        Ok(())
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(r) => r.err(),
        Err(e) => Some(message(e)),
    }
}

/// Runs all seeds, or the one in `SEED`, of which it prints the graph.
fn run(cases: u64, all: bool) {
    let seeds = match std::env::var("SEED") {
        Ok(s) => vec![s.parse().expect("a number")],
        Err(_) => (0..cases).filter(|s| !KNOWN.contains(s)).collect::<Vec<u64>>(),
    };
    let one = seeds.len() == 1;
    let problems: Vec<(u64, String)> = seeds.iter().filter_map(|&s| Some((s, problem(s, all)?))).collect();
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
