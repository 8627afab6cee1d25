//! Compares logits with golden data: `golden FILE.gguf exact|int8 BATCH [VECTOR_BYTES]`.
use compiler::{Numerics, Options};
use device::{Cpu, CpuConfig};
use model::engine::{Engine, EngineOptions};
use std::sync::Arc;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = &args[1];
    let numerics = if args[2] == "int8" { Numerics::Int8 } else { Numerics::Exact };
    let batch: usize = args[3].parse().unwrap();
    let bytes: usize = args.get(4).map_or(64, |a| a.parse().unwrap());
    let dir = std::path::Path::new(path).parent().unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let name = std::path::Path::new(path).file_name().unwrap().to_str().unwrap();
    let entry = manifest.as_array().unwrap().iter().find(|e| e["file"] == name).unwrap();
    let ids =
        |k: &str| -> Vec<u32> { entry[k].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect() };
    let mut tokens = ids("prompt");
    tokens.extend(ids("greedy"));
    let file = Arc::new(gguf::Gguf::open(path).unwrap());
    let cpu = Arc::new(Cpu::new(&CpuConfig::from_environment()).unwrap());
    let mut options = Options::cpu(numerics, bytes);
    if let Some(w) = args.get(5) {
        options.without = w.split(',').map(String::from).collect();
    }
    if bytes == 0 {
        options.plan = compiler::tile::Plan::scalar();
    }
    let cache = if numerics == Numerics::Exact { ir::DType::F32 } else { ir::DType::F16 };
    let mut e = Engine::new(file, cpu, EngineOptions { compiler: options, context: 256, chunk: 64, cache }).unwrap();
    let mut out = vec![];
    let mut at = 0;
    while at < tokens.len() {
        let n = batch.min(tokens.len() - at);
        out.extend_from_slice(e.step(&tokens[at..at + n], at, 0..n).unwrap());
        at += n;
    }
    let raw = std::fs::read(path.replace(".gguf", ".logits.f32")).unwrap();
    let want: Vec<f32> = raw.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let (mut num, mut den) = (0f64, 0f64);
    for (a, b) in out.iter().zip(&want) {
        num += ((a - b) as f64).powi(2);
        den += (*b as f64).powi(2);
    }
    let v = entry["vocab"].as_u64().unwrap() as usize;
    let mut kl = 0f64;
    for (a, b) in out.chunks(v).zip(want.chunks(v)) {
        let lse = |x: &[f32]| {
            let m = x.iter().cloned().fold(f32::MIN, f32::max) as f64;
            m + x.iter().map(|&v| (v as f64 - m).exp()).sum::<f64>().ln()
        };
        let (la, lb) = (lse(a), lse(b));
        kl += a
            .iter()
            .zip(b)
            .map(|(&x, &y)| {
                let p = (y as f64 - lb).exp();
                p * ((y as f64 - lb) - (x as f64 - la))
            })
            .sum::<f64>();
    }
    let greedy = |x: &[f32]| (0..v).max_by(|&i, &j| x[i].total_cmp(&x[j])).unwrap();
    let same = out.chunks(v).zip(want.chunks(v)).filter(|(a, b)| greedy(a) == greedy(b)).count();
    let class = model::step::Class::of(batch);
    let (p, log) = e.program(class).unwrap();
    println!(
        "{name} {} batch {batch}: nmse {:.2e} kl {:.2e} (peer {:.2e}) top1 {same}/64; {} stages {} launches {} kernels",
        args[2],
        num / den,
        kl / 64.0,
        entry["peer_kld"].as_f64().unwrap(),
        p.stages.len(),
        p.launches(),
        p.kernels.len()
    );
    if args.len() > 6 {
        println!("{log}");
        for (i, s) in p.stages.iter().enumerate() {
            println!("stage {i}");
            for l in &s.launches {
                println!("   {} x{:?} <- {}", p.kernels[l.kernel].symbol, l.tasks, l.origin);
            }
        }
    }
}
