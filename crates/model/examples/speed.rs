//! Times decoding and prefill: `speed FILE.gguf N PREFILL`.
use compiler::{Numerics, Options};
use device::{Cpu, CpuConfig};
use model::engine::{Engine, EngineOptions};
use std::{sync::Arc, time::Instant};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args[2].parse().unwrap();
    let pp: usize = args[3].parse().unwrap();
    let t = Instant::now();
    let file = Arc::new(gguf::Gguf::open(&args[1]).unwrap());
    let cpu = Arc::new(Cpu::new(&CpuConfig::from_environment()).unwrap());
    let mut options = Options::cpu(Numerics::Int8, 64);
    if let Some(r) = args.get(5) {
        options.plan.streams = r.parse().unwrap();
    }
    if let Some(r) = args.get(6) {
        options.plan.prefetch = r.parse().unwrap();
    }
    let mut e =
        Engine::new(file, cpu, EngineOptions { compiler: options, context: 4096, chunk: 512, cache: ir::DType::F16 })
            .unwrap();
    println!("open {:?}", t.elapsed());
    let t = Instant::now();
    e.prepare(model::step::Class::One).unwrap();
    println!("prepare {:?}", t.elapsed());
    e.step(&[1], 0, 0..1).unwrap();
    if pp > 0 {
        e.prepare(model::step::Class::Many).unwrap();
        let tokens: Vec<u32> = (0..pp as u32).collect();
        let t = Instant::now();
        e.step(&tokens, 0, pp - 1..pp).unwrap();
        println!("prefill {pp}: {:.1} tok/s", pp as f64 / t.elapsed().as_secs_f64());
    }
    let mut times = vec![];
    for i in 0..n {
        let t = Instant::now();
        e.step(&[(i * 37 % 1000) as u32], pp + i, 0..1).unwrap();
        times.push(t.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!("decode median {:.2} ms = {:.2} tok/s", times[n / 2] * 1e3, 1.0 / times[n / 2]);
    let p = e.profile(&[5], pp + n).unwrap();
    let (prog, _) = e.program(model::step::Class::One).unwrap();
    println!("{} stages {} launches {} kernels", prog.stages.len(), prog.launches(), prog.kernels.len());
    let mut by: std::collections::BTreeMap<String, (f64, usize, String)> = Default::default();
    for l in &p.launches {
        let (la, _) = (l, ());
        let e = by.entry(prog.kernels[la.kernel].symbol.clone()).or_insert((0.0, 0, l.origin.clone()));
        e.0 += l.wall_ns as f64 / 1e6;
        e.1 += 1;
    }
    let mut rows: Vec<_> = by.into_iter().collect();
    rows.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    for (k, (ms, c, o)) in rows.iter().take(20) {
        println!("{ms:8.3} ms {c:4} {k} <- {}", &o[..o.len().min(100)]);
    }
    if let Some(k) = args.get(4) {
        for kk in &prog.kernels {
            if kk.symbol.starts_with(k) {
                println!("{}", kk.source);
            }
        }
    }
}
