//! Rows in planes give the values of the blocks that they were packed from, bit for bit, for every row of the table.

use gguf::dequant::dequantise;
use gguf::format::{ALIGN, Blocks, Digit, Field, FloatKind, Format, Plane, Planes, Repack, Scale, rows};

/// A small generator (splitmix64), so that a failure repeats.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z >> 40) as u8
    }
}

fn values(format: &Format, data: &[u8]) -> Vec<u32> {
    let n = data.len() / format.block_bytes() as usize * format.block_len() as usize;
    let mut out = vec![0.0; n];
    dequantise(format, data, &mut out).unwrap();
    out.into_iter().map(f32::to_bits).collect()
}

/// 24 values of 3 bits in two planes; scales of 5 bits for 12 values each.
fn invented() -> Format {
    let low = Plane::new(4, 2, &[Digit::bits(4, 2), Digit::bytes(6, 1)]);
    let high = Plane::new(10, 1, &[Digit::bits(8, 1), Digit::bytes(3, 1)]).lsb(2);
    let scales = Field::unsigned(vec![Plane::new(2, 5, &[Digit::bytes(2, 1)])]);
    let scale = Scale::grouped(FloatKind::F16, 0, scales, 12, 0);
    let code = Field::unsigned(vec![low, high]);
    Format::blocks("threes", Blocks { block: 24, bytes: 13, code, table: None, zero: 4, scale, min: None })
}

/// The offsets at which the planes of a row begin.
fn offsets(row: &Blocks) -> Vec<u32> {
    let scales = [Some(&row.scale), row.min.as_ref().map(|m| &m.0)];
    let mut all: Vec<u32> = row.code.planes.iter().map(|p| p.byte).collect();
    for scale in scales.into_iter().flatten() {
        all.push(scale.byte);
        all.extend(scale.sub.iter().flat_map(|sub| sub.field.planes.iter().map(|p| p.byte)));
    }
    all
}

#[test]
fn planes_hold_the_values_of_blocks() {
    let mut random = Random(1);
    let invented = invented();
    let formats: Vec<&Format> = rows().iter().filter(|f| f.as_blocks().is_some()).chain([&invented]).collect();
    assert!(formats.len() > 13);
    for format in formats {
        for length in [768, 1536] {
            let planes = Planes::of(format, length).unwrap_or_else(|| panic!("{}: no planes", format.name));
            let row = planes.to().as_blocks().unwrap();
            assert_eq!((u64::from(row.block), row.bytes % ALIGN), (length, 0));
            assert!(offsets(row).iter().all(|at| at % ALIGN == 0), "{}: {:?}", format.name, offsets(row));
            let bytes = 3 * format.row_bytes(length).unwrap() as usize;
            let data: Vec<u8> = (0..bytes).map(|_| random.byte()).collect();
            let mut packed = vec![0xAA; planes.packed_bytes(bytes).unwrap()];
            planes.pack(&data, &mut packed).unwrap();
            let mut by_runs = vec![0x55; packed.len()];
            Repack::new(&planes).unwrap().run(&data, &mut by_runs);
            assert!(by_runs == packed, "{}: rows of {length} by runs", format.name);
            assert_eq!(values(format, &data), values(planes.to(), &packed), "{} in rows of {length}", format.name);
            // No format grows by more than the padding, but for bytes that a value does not need.
            assert!(packed.len() <= bytes + 3 * 6 * ALIGN as usize, "{}: {bytes} to {}", format.name, packed.len());
        }
    }
}

#[test]
fn a_q4_0_row_is_codes_and_scales() {
    let format = rows().iter().find(|f| f.name == "Q4_0").unwrap();
    let planes = Planes::of(format, 2048).unwrap();
    let row = planes.to().as_blocks().unwrap();
    assert_eq!((row.bytes, row.code.planes[0].byte, row.scale.byte), (1152, 0, 1024));
    // Sixteen bytes hold a block of 32: the lower half in the low bits.
    let at = |i| row.code.planes[0].address(i);
    assert_eq!((at(0), at(15), at(16), at(32)), ((0, 0), (15, 0), (0, 4), (16, 0)));
}

#[test]
fn what_cannot_be_repacked() {
    let find = |name: &str| rows().iter().find(|f| f.name == name).unwrap();
    assert_eq!(Planes::of(find("F16"), 256), None, "no blocks");
    assert_eq!(Planes::of(find("Q4_K"), 128), None, "half a block");
    assert_eq!(Planes::of(&invented(), 24), None, "a part of a unit");
    assert_eq!(Planes::of(find("Q4_0"), 0), None, "nothing");
    assert_eq!(Planes::of(find("Q4_0"), 1 << 20), None, "a very long row");
    let planes = Planes::of(find("Q4_0"), 64).unwrap();
    assert_eq!(planes.packed_bytes(35), None);
    assert!(planes.pack(&[0; 35], &mut [0; 48]).is_err());
    assert!(planes.pack(&[0; 36], &mut [0; 49]).is_err());
    assert!(planes.pack(&[0; 36], &mut [0; 80]).is_err());
    assert_eq!(planes.pack(&[0; 36], &mut vec![1; planes.packed_bytes(36).unwrap()]), Ok(()));
}

/// Values of a row are quantised to planes as to the blocks that these are repacked from, and to nothing where minima or
/// factors lie beside the floats.
#[test]
fn what_can_be_quantised() {
    let values: Vec<f32> = (0..256).map(|i| ((i * 37 % 101) as f32 - 50.0) * (1.0 + (i / 32) as f32)).collect();
    for (name, able) in [("Q4_0", true), ("Q8_0", true), ("NVFP4", true), ("Q4_1", false), ("Q3_K", false)] {
        let format = rows().iter().find(|f| f.name == name).unwrap();
        let planes = Planes::of(format, 256).unwrap();
        let mut blocks = vec![0; planes.row_bytes().0];
        gguf::quantise::quantise(format, &values, &mut blocks).unwrap();
        let [mut packed, mut direct] = [(); 2].map(|()| vec![0; planes.row_bytes().1]);
        planes.pack(&blocks, &mut packed).unwrap();
        assert_eq!(gguf::quantise::quantise(planes.to(), &values, &mut direct).is_ok(), able, "{name}");
        assert!(!able || packed == direct, "{name}");
    }
}
