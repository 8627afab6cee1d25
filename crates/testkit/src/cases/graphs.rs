//! Random tensor graphs with their data, and the plans that they are compiled by.

use super::{Case, Random, bytes, gpu_options, int_bytes, options, random_gpu_plan, random_plan, times};
use compiler::tensor::{Runs, SoftmaxParts};
use compiler::{Numerics, Options, Tensor, dims};
use ir::{BinOp, DType, UnOp};

/// NMSE of another order of sums.
pub const MOST: f64 = 1e-10;

/// The graph of a seed; `all` if concatenations, and rows that are gathered and scattered, may occur.
pub fn graph(seed: u64, all: bool) -> Case {
    Fuzz::new(seed, all).finish()
}

/// What the graph of a seed is compiled by, for a CPU and for a GPU.
pub fn targets(seed: u64) -> [Options; 2] {
    let mut random = Random(seed);
    let cpu = options(Numerics::Exact, random_plan(&mut random)).for_many_tokens();
    let gpu = gpu_options(Numerics::Exact, random_gpu_plan(&mut random));
    // Short prefix sums are loops too.
    let without = if seed.is_multiple_of(2) { vec![] } else { vec!["scan".to_string()] };
    [cpu, gpu].map(|options| Options { check: true, without: without.clone(), ..options })
}

/// A compiled graph as text.
pub fn show(case: &Case, options: &Options) -> String {
    let roots: Vec<_> = case.outs.iter().map(|o| o.1.id()).collect();
    case.compile(options).map_or_else(|e| e.to_string(), |c| ir::print::tensor(&c.graph, &roots))
}

/// The first seeds, `TIMES` as many as usual, or the one in `SEED`.
pub fn seeds(usual: u64) -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (0..usual * times()).collect(),
    }
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
        let y = match self.r.below(18) {
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
                let kind = self.r.below(3);
                if kind == 0 {
                    x.scan(axis) * 0.5
                } else if kind == 1 {
                    self.recurrence(&x, &shape)
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
            17 => self.fold(&x, &shape, axis?),
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

    /// A softmax in tiles, of which data says how many: the tiles lie along `axis`, and each has all that lies below it.
    fn fold(&mut self, x: &Tensor, shape: &[i64], axis: usize) -> Tensor {
        let [lead, tiles, inside] =
            [&shape[..axis], &shape[axis..=axis], &shape[axis + 1..]].map(|part| part.iter().product::<i64>());
        let values = x.reshape(dims![lead, tiles, inside]);
        let mut scores = self.tame(&values);
        if self.r.below(3) == 0 {
            // What comes before the loop reads what is in it.
            scores = &scores - &scores.max(1).unsqueeze(1);
        }
        let parts = match self.r.below(2) {
            0 => SoftmaxParts::of_tile(&scores, |e| e * &values),
            _ => {
                let (name, width) = (format!("v{}", self.case.data.len()), [1, 3, 8][self.r.below(3)]);
                let weights = self.r.floats((width * inside) as usize);
                self.case.bind(&name, bytes(&weights));
                let w = self.case.b.param(&name, DType::F32, dims![width, inside]);
                SoftmaxParts::of_tile(&scores, |e| (e * &values).linear(&w))
            }
        };
        if self.r.below(3) == 0 {
            self.pool.push(parts.max.clone());
        }
        let name = format!("c{}", self.case.data.len());
        let counts: Vec<i32> = (0..lead).map(|_| 1 + self.r.below(tiles as usize) as i32).collect();
        self.case.bind(&name, int_bytes(&counts));
        let count = self.case.b.input(&name, DType::I32, dims![lead]);
        // Known before a step, or computed in it.
        let count = match self.r.below(2) {
            0 => count,
            _ => scores.max(2).max(1).lt(&self.case.b.float(0.3)).select(&count, &self.case.b.int32(1)),
        };
        parts.fold(1, &count).finish()
    }

    /// Along the first dimension, in runs: a matrix for which each step has a key, which learns what it does not know of the
    /// values of the step.
    fn recurrence(&mut self, x: &Tensor, shape: &[i64]) -> Tensor {
        let (steps, values) = (shape[0], shape[1..].iter().product::<i64>());
        let keys = [1, 3, 4, 8, 16][self.r.below(5)];
        let begins: Vec<i32> = (0..steps).map(|t| i32::from(t == 0 || self.r.below(3) == 0)).collect();
        let ends: Vec<i32> = begins[1..].iter().copied().chain([1]).collect();
        let run: Vec<i32> = (0..begins.len()).map(|t| begins[..=t].iter().sum::<i32>() - 1).collect();
        let count = begins.iter().sum::<i32>();
        let mut integers = |values: &[i32]| {
            let name = format!("t{}", self.case.data.len());
            self.case.bind(&name, int_bytes(values));
            self.case.b.input(&name, DType::I32, dims![steps])
        };
        let [begins, ends, run] = [&begins, &ends, &run].map(|values| integers(values));
        let mut floats = |shape: &[i64], size: f32| {
            let name = format!("f{}", self.case.data.len());
            let values: Vec<f32> =
                self.r.floats(shape.iter().product::<i64>() as usize).iter().map(|v| v * size).collect();
            self.case.bind(&name, bytes(&values));
            let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
            self.case.b.input(&name, DType::F32, &dims)
        };
        let (start, key) = (floats(&[steps, values, keys], 1.0), floats(&[steps, keys], 1.0 / keys as f32));
        let runs = Runs { begins, ends, run: run.clone(), count: i64::from(count).into() };
        let (v, kind) = (x.reshape(dims![steps, values]), self.r.below(3));
        let [last, found] = runs.carry(
            &start,
            [&v, &key],
            |state, [v, key]| {
                let known = (state * &key.unsqueeze(0)).sum(1);
                &(state * 0.5) + &(&(&v - &known).unsqueeze(1) * &key.unsqueeze(0))
            },
            |[so_far, next], [v, key]| match kind {
                0 => &(so_far * &key.unsqueeze(0)).sum(1) + &(&v * 0.5),
                1 => (next * &key.unsqueeze(0)).sum(1),
                _ => &next.sum(1) + &(&(so_far * so_far).sum(1) * 0.25),
            },
        );
        let dims: Vec<_> = shape.iter().map(|&d| compiler::Dim::Const(d)).collect();
        (&found + &(last.sum(2).gather(&run) * 0.25)).reshape(&dims)
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
