//! A block format that exists in this test only: parity with its reference
//! dequantiser and packed integer dot products come from its row of data alone.

use crate::support::{Case, Random, bytes, gpu_options, gpu_plans, nmse, options, plans, programs};
use compiler::program::{Buffer, BufferKind};
use compiler::{Numerics, dims};
use gguf::format::{Blocks, Digit, Field, FloatKind, Format, Plane, Scale};
use ir::DType;

/// 24 values of 3 bits: two low bits in 6 bytes, the high bit in 3 bytes; two
/// groups of 12 with scales of 5 bits in a byte each, under one f16.
fn threes() -> Format {
    let low = Plane::new(4, 2, &[Digit::bits(4, 2), Digit::bytes(6, 1)]);
    let high = Plane::new(10, 1, &[Digit::bits(8, 1), Digit::bytes(3, 1)]).lsb(2);
    let scales = Field::unsigned(vec![Plane::new(2, 5, &[Digit::bytes(2, 1)])]);
    let scale = Scale::grouped(FloatKind::F16, 0, scales, 12, 0);
    Format::blocks(
        "threes",
        Blocks { block: 24, bytes: 13, code: Field::unsigned(vec![low, high]), table: None, zero: 4, scale, min: None },
    )
}

/// Random blocks: any bits, scales of a fitting size.
fn blocks(n: usize, random: &mut Random) -> Vec<u8> {
    let block = |_| {
        let mut b: Vec<u8> = (0..13).map(|_| random.bits() as u8).collect();
        // An f16 between 2^-5 and 2^-4.
        b[1] = 0x28 | (b[1] & 3);
        b
    };
    (0..n).flat_map(block).collect()
}

fn case() -> Case {
    let mut r = Random(11);
    let mut case = Case { vars: vec![("t", 3)], ..Case::default() };
    let t = case.b.var("t", 1, 8);
    let (n, k) = (16, 384);
    case.bind("x", bytes(&r.floats(3 * k)));
    let x = case.b.input("x", DType::F32, dims![t, k]);
    case.bind("w", blocks(n * k / 24, &mut r));
    let w = case.b.quantised("w", &threes(), dims![n, k]);
    case.output("y", &x.linear(&w));
    case
}

#[test]
fn the_row_is_sound() {
    threes().check().expect("a sound format");
}

#[test]
fn dequantised_values_are_those_of_the_reference() {
    let f = threes();
    let data = blocks(64, &mut Random(5));
    let mut want = vec![0.0; 64 * 24];
    gguf::dequant::dequantise(&f, &data, &mut want).expect("a sound format");
    let mut case = Case::default();
    case.bind("w", data);
    let w = case.b.quantised("w", &f, dims![8, 192]);
    case.output("y", &w.exp());
    for plan in plans() {
        let c = case.compile(&options(Numerics::Exact, plan.clone())).expect("a program");
        let got = case.values(&c).unwrap_or_else(|e| panic!("{plan:?}: {e}"));
        let want: Vec<f32> = want.iter().map(|v| v.exp()).collect();
        let e = nmse(&got[0], &want);
        assert!(e <= 1e-13, "{plan:?}: nmse {e:e}");
    }
}

#[test]
fn products_agree_under_every_plan() {
    let case = case();
    for (numerics, most) in [(Numerics::Exact, 1e-11), (Numerics::Int8, 1e-3)] {
        for plan in plans() {
            case.check(&options(numerics, plan.clone()), most).unwrap_or_else(|e| panic!("{numerics:?} {plan:?}: {e}"));
        }
    }
}

#[test]
fn blocks_of_threads_read_it_in_planes() {
    for plan in gpu_plans() {
        for (numerics, most) in [(Numerics::Exact, 1e-11), (Numerics::Int8, 1e-3)] {
            let c = case().check(&gpu_options(numerics, plan.clone()), most);
            let c = c.unwrap_or_else(|e| panic!("{numerics:?} {plan:?}: {e}"));
            let planes = |b: &Buffer| matches!(&b.kind, BufferKind::Planes { name, .. } if name == "w");
            assert!(c.program.buffers.iter().any(planes), "{:?}", c.program.buffers);
            let paths: Vec<_> = c.bodies.iter().flat_map(|b| b.paths()).collect();
            assert_eq!(paths.contains(&"integer dot"), numerics == Numerics::Int8, "{plan:?}: {paths:?}");
        }
    }
}

/// Also where neighbours share a byte.
#[test]
fn no_format_of_the_table_is_multiplied_value_by_value() {
    for format in gguf::format::rows().iter().filter(|f| f.as_blocks().is_some()) {
        let mut r = Random(7);
        let mut case = Case { vars: vec![("t", 3)], ..Case::default() };
        let t = case.b.var("t", 1, 8);
        case.bind("x", bytes(&r.floats(3 * 512)));
        let x = case.b.input("x", DType::F32, dims![t, 512]);
        let w = programs::weights(&mut case, "w", format, &[16, 512], &mut r);
        case.output("y", &x.linear(&w));
        for plan in plans().into_iter().filter(|p| p.vector_bytes > 0) {
            for (numerics, path) in [(Numerics::Exact, "vector reduction"), (Numerics::Int8, "integer dot")] {
                let c = case.compile(&options(numerics, plan.clone())).expect("a program");
                let paths: Vec<_> = c.bodies.iter().flat_map(|b| b.paths()).collect();
                let fits = paths.iter().any(|p| [path, "integer tile"].contains(p));
                assert!(fits && !paths.contains(&"scalar reduction"), "{} {plan:?}: {paths:?}", format.name);
            }
        }
    }
}

#[test]
fn int8_takes_the_packed_dot_product() {
    for plan in plans().into_iter().filter(|p| p.vector_bytes > 0) {
        let c = case().compile(&options(Numerics::Int8, plan.clone())).expect("a program");
        let paths: Vec<_> = c.bodies.iter().flat_map(|b| b.paths()).collect();
        assert!(paths.contains(&"integer dot"), "{plan:?}: {paths:?}");
    }
}
