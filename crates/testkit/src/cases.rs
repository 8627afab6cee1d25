//! Runs compiled programs through the kernel interpreter, and their unfused
//! graphs through the tensor interpreter.

pub mod graphs;
pub mod programs;

use compiler::cpu::plan::Plan;
use compiler::program::BufferKind;
use compiler::{Builder, CompileError, Compiled, Numerics, Options, Tensor, compile, gpu};
use ir::interp::kernel::{Buffers, Kernel};
use ir::interp::{Bindings, Vars, evaluate};
use ir::spec::check_kernel;
use ir::{DType, print};
use std::collections::BTreeMap;

/// Pseudo-random numbers (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// From -1 to 1.
    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

/// A step with its data.
#[derive(Default)]
pub struct Case {
    pub b: Builder,
    pub outs: Vec<(String, Tensor)>,
    /// New versions of states, with the names of the states.
    pub effects: Vec<(String, Tensor)>,
    pub data: BTreeMap<String, Vec<u8>>,
    pub vars: Vec<(&'static str, i64)>,
}

pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn int_bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(ty: DType, dims: &[usize], bytes: &[u8]) -> Vec<f32> {
    ir::interp::Tensor { ty, dims: dims.to_vec(), bytes: bytes.to_vec() }.floats()
}

impl Case {
    pub fn bind(&mut self, name: &str, data: Vec<u8>) {
        self.data.insert(name.into(), data);
    }

    pub fn output(&mut self, name: &str, tensor: &Tensor) {
        self.outs.push((name.into(), tensor.clone()));
    }

    pub fn compile(&self, options: &Options) -> Result<Compiled, CompileError> {
        let outs: Vec<(&str, &Tensor)> = self.outs.iter().map(|(n, t)| (n.as_str(), t)).collect();
        let effects: Vec<&Tensor> = self.effects.iter().map(|e| &e.1).collect();
        compile(&self.b, "test", &outs, &effects, options)
    }

    /// Values of the outputs and states by the definition of each operation.
    pub fn expected(&self, c: &Compiled) -> Result<Vec<(String, Vec<f32>)>, String> {
        let mut bindings = Bindings::new();
        for (n, v) in &self.vars {
            bindings = bindings.var(n, *v);
        }
        for (n, d) in &self.data {
            bindings = bindings.tensor(n, d);
        }
        let all: Vec<&(String, Tensor)> = self.outs.iter().chain(&self.effects).collect();
        let roots: Vec<_> = all.iter().map(|t| t.1.id()).collect();
        let values = evaluate(&c.graph, &roots, &bindings).map_err(|e| e.to_string())?;
        Ok(all.iter().zip(values).map(|(t, v)| (t.0.clone(), v.floats())).collect())
    }

    /// Runs every kernel of a program.
    pub fn run(&self, c: &Compiled) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let p = &c.program;
        let mut vars = Vars::new();
        self.vars.iter().for_each(|(n, v)| vars.set(n, *v));
        let value = |name: &str| self.vars.iter().find(|v| v.0 == name).map_or(1, |v| v.1);
        let values: Vec<i64> = p.vars.iter().map(|v| value(&v.name)).collect();
        let data = |name: &str| self.data.get(name).cloned().ok_or(format!("no data for {name}"));
        let fill = |b: &compiler::program::Buffer| {
            Ok(match &b.kind {
                BufferKind::Weight(n) => data(n)?,
                BufferKind::Planes { name, planes } => {
                    let data = data(name)?;
                    let mut packed = vec![0; planes.packed_bytes(data.len()).ok_or("not whole rows")?];
                    planes.pack(&data, &mut packed).map_err(|e| e.to_string())?;
                    packed
                }
                BufferKind::Input(n) | BufferKind::State(n) => {
                    let mut d = data(n)?;
                    d.resize(b.bytes, 0);
                    d
                }
                BufferKind::Const(d) => d.clone(),
                // NaN as a float: what is read must have been written.
                BufferKind::Output(_) | BufferKind::Arena(_) => vec![0xff; b.bytes],
            })
        };
        let mut memory: Vec<Vec<u8>> = p.buffers.iter().map(fill).collect::<Result<_, String>>()?;
        for l in p.stages.iter().flat_map(|s| &s.launches) {
            let root = c.bodies[l.kernel].root;
            let explain = |e: String| format!("{e}\n{}", print::kernel(&c.graph, root));
            check_kernel(&c.graph, root).map_err(|e| explain(e.to_string()))?;
            let kernel = Kernel::compile(&c.graph, root).map_err(|e| explain(e.to_string()))?;
            let kernel = kernel.with_widest(p.kernels[l.kernel].geometry.widest);
            let mut taken: Vec<(usize, Vec<u8>)> = vec![];
            for &a in &l.args {
                if taken.iter().any(|t| t.0 == a) {
                    return Err(explain(format!("buffer {a} is bound twice")));
                }
                taken.push((a, std::mem::take(&mut memory[a])));
            }
            let mut buffers = Buffers::new();
            for (slot, (a, t)) in taken.iter_mut().enumerate() {
                buffers = match p.buffers[*a].kind {
                    BufferKind::Weight(_) | BufferKind::Planes { .. } | BufferKind::Const(_) => {
                        buffers.read(slot as u32, t)
                    }
                    _ => buffers.write(slot as u32, t),
                };
            }
            let tasks = l.tasks.eval(&values).expect("a count");
            kernel.run(&mut buffers, &vars, 0..tasks).map_err(|e| explain(e.to_string()))?;
            drop(buffers);
            taken.into_iter().for_each(|(a, t)| memory[a] = t);
        }
        let named = p.buffers.iter().zip(memory).filter_map(|(b, m)| match &b.kind {
            BufferKind::Output(n) | BufferKind::State(n) => Some((n.clone(), m)),
            _ => None,
        });
        Ok(named.collect())
    }

    /// As [`Case::run`], with floats, in the order of [`Case::expected`].
    pub fn values(&self, c: &Compiled) -> Result<Vec<Vec<f32>>, String> {
        let got = self.run(c)?;
        let all = self.outs.iter().chain(&self.effects);
        all.map(|(name, t)| {
            let raw = got.get(name).ok_or(format!("{name} was not written"))?;
            Ok(floats(t.dtype(), &[raw.len() / t.dtype().bytes()], raw))
        })
        .collect()
    }

    /// Compiles, runs and compares; `most` is the NMSE that is allowed.
    pub fn check(&self, options: &Options, most: f64) -> Result<Compiled, String> {
        let c = self.compile(options).map_err(|e| e.to_string())?;
        let want = self.expected(&c)?;
        for ((name, want), got) in want.iter().zip(self.values(&c)?) {
            let e = nmse(&got[..want.len()], want);
            // Written so that NaN fails.
            let close = e <= most;
            if !close {
                return Err(format!("{name}: nmse {e:.2e}, got {:?}, want {:?}", head(&got), head(want)));
            }
        }
        Ok(c)
    }
}

fn head(v: &[f32]) -> &[f32] {
    &v[..v.len().min(8)]
}

/// Mean squared error over mean square. Equal NaNs and infinities are no error.
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let same = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan());
    let pairs = || got.iter().zip(want).filter(|(a, b)| !same(**a, **b));
    let error: f64 = pairs().map(|(a, b)| (*a as f64 - *b as f64).powi(2)).sum();
    let size: f64 = want.iter().filter(|v| v.is_finite()).map(|b| (*b as f64).powi(2)).sum();
    if pairs().count() == 0 { 0.0 } else { error / size.max(f64::MIN_POSITIVE) }
}

/// Plans of all kinds: scalar, and vectors of several widths and rows.
pub fn plans() -> Vec<Plan> {
    let mut all = vec![Plan::scalar()];
    for vector_bytes in [16, 32, 64] {
        all.extend([1, 2, 4].map(|rows| Plan {
            vector_bytes,
            rows,
            stream_rows: rows,
            chains: 4,
            prefetch_l2: 2304,
            prefetch_l1: if rows == 2 { 0 } else { 576 },
            tokens: 2 * rows,
            row_vectors: rows,
            matrix_unit: false,
            dots: true,
            pairs: rows == 2,
            hadd: true,
            packed_scales: true,
            blends: rows != 1,
            interleave: rows != 2,
            stream_below: [0, 3, 9][rows as usize % 3],
            panels: rows != 2,
            transposed_map: rows != 1,
        }));
    }
    all
}

/// GPU-like targets of all kinds: blocks of one warp and of several, one sum a thread and several.
pub fn gpu_plans() -> Vec<gpu::GpuPlan> {
    let plan = |warps, rows, blocks, shared| gpu::GpuPlan {
        warps,
        all_warps: 1,
        rows,
        blocks,
        shared,
        ..gpu::GpuPlan::default()
    };
    vec![gpu::GpuPlan::default(), plan(1, 1, 1, 1 << 20), plan(2, 2, 4, 1 << 10), plan(8, 4, 16, 0), odd_gpu_plan()]
}

/// A GPU unlike others: few lanes, narrow loads, little shared memory, and no products of matrices.
pub fn odd_gpu_plan() -> gpu::GpuPlan {
    gpu::GpuPlan {
        lanes: 8,
        widest: 8,
        words: true,
        multiplies: false,
        shared: 16 << 10,
        all_warps: 16,
        ..gpu::GpuPlan::default()
    }
}

/// Any plan for a GPU that is legal.
pub fn random_gpu_plan(r: &mut Random) -> gpu::GpuPlan {
    let odd = r.below(4) == 0;
    gpu::GpuPlan {
        lanes: if odd { 1 << (1 + r.below(6)) } else { 32 },
        widest: if odd { 4 << r.below(3) } else { 16 },
        words: odd && r.below(2) == 0,
        multiplies: !odd,
        cooperative: false,
        halves: !odd,
        halves_of_blocks: !odd,
        groups: !odd,
        registers: 256 << 10,
        warps: 1 << r.below(6),
        most_warps: 1 << r.below(6),
        product_warps: 1 << r.below(6),
        all_warps: 1 << r.below(12),
        rows: 1 + r.below(6) as i64,
        blocks: 1 + r.below(512) as i64,
        processors: 1 + r.below(256) as i64,
        split_k: 0,
        resident: 1 << r.below(11),
        join: r.below(2) == 0,
        overlap: r.below(2) == 0,
        early: [0, 16, 100, 256][r.below(4)],
        block_rows: 1 << r.below(8),
        tile_tokens: 1 << r.below(8),
        tile_rows: 16 << r.below(4),
        shared: [0, 64, 1 << 10, 1 << 20][r.below(4)],
        shared_of_two: [0, 1 << 10, 1 << 20][r.below(3)],
        slots: [4, 8, usize::MAX][r.below(3)],
        alignment: [64, 256][r.below(2)],
    }
}

/// How many times as many random cases as usual a run tries: `TIMES`, or once.
pub fn times() -> u64 {
    std::env::var("TIMES").map_or(1, |times| times.parse().expect("a number"))
}

/// Any plan for a CPU that is legal; of those with a matrix unit, [`Options::for_many_tokens`] knows what they are for.
pub fn random_plan(r: &mut Random) -> Plan {
    Plan {
        vector_bytes: [0, 16, 32, 64][r.below(4)],
        rows: 1 + r.below(6) as i64,
        stream_rows: 1 + r.below(4) as i64,
        chains: 1 + r.below(6) as i64,
        prefetch_l2: [0, 64, 4096][r.below(3)],
        prefetch_l1: [0, 576][r.below(2)],
        tokens: 1 + r.below(8) as i64,
        row_vectors: 1 << r.below(3),
        matrix_unit: r.below(4) == 0,
        dots: r.below(4) > 0,
        pairs: r.below(2) == 0,
        hadd: r.below(2) == 0,
        packed_scales: r.below(2) == 0,
        blends: r.below(2) == 0,
        interleave: r.below(2) == 0,
        stream_below: r.below(12) as i64,
        panels: r.below(2) == 0,
        transposed_map: r.below(2) == 0,
    }
}

pub fn gpu_options(numerics: Numerics, plan: gpu::GpuPlan) -> Options {
    let mut options = Options::gpu(numerics);
    options.on_gpu(|of| *of = plan);
    options
}

pub fn options(numerics: Numerics, plan: Plan) -> Options {
    Options::cpu(numerics, 64).with_cpu(|cpu| cpu.plan = plan)
}
