//! Damaged and hostile files: each gives a typed error with its place, without panic and without much memory.

use gguf::{Error, GgmlType, Gguf, Value};
use std::path::PathBuf;

/// A file written byte by byte, so that it can be wrong.
#[derive(Clone)]
struct Raw(Vec<u8>);

const U32: u32 = 4;
const I32: u32 = 5;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

impl Raw {
    fn new(n_tensors: i64, n_entries: i64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).i64(n_tensors).i64(n_entries)
    }

    fn u32(mut self, v: u32) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }

    fn u64(mut self, v: u64) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }

    fn i64(self, v: i64) -> Raw {
        self.u64(v as u64)
    }

    fn string(self, s: &str) -> Raw {
        self.bytes(s.as_bytes())
    }

    fn bytes(mut self, s: &[u8]) -> Raw {
        self = self.u64(s.len() as u64);
        self.0.extend(s);
        self
    }

    /// A metadata entry with a u32 value.
    fn entry(self, key: &str, value: u32) -> Raw {
        self.string(key).u32(U32).u32(value)
    }

    fn info(mut self, name: &str, dims: &[i64], ty: u32, offset: u64) -> Raw {
        self = self.string(name).u32(dims.len() as u32);
        for &dim in dims {
            self = self.i64(dim);
        }
        self.u32(ty).u64(offset)
    }

    /// Padding to the alignment, then `n` bytes of data.
    fn data(mut self, n: usize) -> Raw {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + n, 7);
        self
    }

    fn open(self) -> Result<Gguf, Error> {
        Gguf::parse(self.0)
    }

    fn error(self) -> Error {
        let error = self.open().expect_err("a bad file was accepted");
        let message = error.to_string();
        assert!(!message.contains('\n') && message.len() < 300, "{message:?}");
        error
    }
}

/// A file with `n` bytes after its header, so that counts and sizes have something to be compared with.
fn one_tensor(name: &str, dims: &[i64], ty: u32, offset: u64) -> Raw {
    Raw::new(1, 0).info(name, dims, ty, offset).data(4096)
}

macro_rules! fails {
    ($raw:expr, $pattern:pat) => {{
        let error = $raw.error();
        assert!(matches!(error, $pattern), "{error:?}");
    }};
}

#[test]
fn headers() {
    fails!(Raw(vec![]), Error::Empty);
    fails!(Raw(b"GGUG".to_vec()), Error::NotGguf { .. });
    for version in [0, 1, 4, 5, 0xFFFF_FFFF] {
        fails!(Raw(b"GGUF".to_vec()).u32(version).i64(0).i64(0), Error::Version { .. });
    }
    for version in [2u32, 3] {
        fails!(Raw(b"GGUF".to_vec()).u32(version.swap_bytes()).i64(0).i64(0), Error::BigEndian);
        Raw(b"GGUF".to_vec()).u32(version).i64(0).i64(0).open().unwrap();
    }
    for count in [-1, i64::MIN, i64::MAX, i64::MAX / 8 + 1, 1 << 32, 200] {
        fails!(Raw::new(count, 0).data(2000), Error::Count { what: "tensors", .. });
        fails!(Raw::new(0, count).data(2000), Error::Count { what: "metadata entries", .. });
    }
}

#[test]
fn what_other_files_look_like() {
    let mut safetensors = 40u64.to_le_bytes().to_vec();
    safetensors.extend(b"{\"__metadata__\":{}}                          ");
    let cases: [(&[u8], &str); 12] = [
        (b"PK\x03\x04....", "zip"),
        (b"\x80\x02}q\x00", "pickle"),
        (b"tjgg\x03\0\0\0", "before GGUF"),
        (b"FUGG\0\0\0\x03", "swapped"),
        (b"\x1F\x8B\x08\0", "gzip"),
        (b"\x28\xB5\x2F\xFD\0", "Zstandard"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "web page"),
        (b"{\"error\":\"not found\"}", "JSON"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0", "zeros"),
        (b"\x7FELF\x02", "program"),
        (&safetensors, "safetensors"),
    ];
    for (bytes, what) in cases {
        let message = Raw(bytes.to_vec()).error().to_string();
        assert!(message.contains(what), "{message}");
    }
    assert!(Raw(b"\xDE\xAD".to_vec()).error().to_string().contains("nothing known (it starts with [de, ad])"));
}

#[test]
fn metadata() {
    let one = || Raw::new(0, 1);
    fails!(one().u64(1 << 63).data(64), Error::StringLength { .. });
    fails!(one().u64(u64::MAX).data(64), Error::StringLength { .. });
    fails!(one().u64(65).data(64), Error::StringLength { .. });
    fails!(one().string("").u32(U32).u32(1).data(64), Error::EmptyKey { index: 0, offset: 24 });
    fails!(one().bytes(b"a\xFF").u32(U32).u32(1).data(64), Error::NameNotText { .. });
    for control in ["a\nb", "\u{1b}[2J", "\u{7f}", "\u{9b}31m"] {
        fails!(one().entry(control, 1), Error::NameNotText { .. });
        fails!(one_tensor(control, &[8], 0, 0), Error::NameNotText { .. });
    }
    fails!(one().entry(&"k".repeat(65_536), 1), Error::StringLength { limit: 65_535, .. });
    let long = "k".repeat(65_535);
    assert_eq!(one().entry(&long, 1).open().unwrap().metadata().u64(&long).unwrap(), 1);
    fails!(Raw::new(0, 2).entry(&long, 1).entry(&long, 1), Error::DuplicateKey { .. });
    fails!(one().string(&long).u32(99).u64(0), Error::ValueType { .. });
    fails!(one().string(&long).u32(U32), Error::Truncated { .. });
    fails!(Raw::new(0, 3).entry("a", 1).entry("b", 1).entry("a", 2), Error::DuplicateKey { .. });
    for id in [13, 14, 255, u32::MAX] {
        fails!(one().string("a").u32(id).u64(0), Error::ValueType { .. });
        fails!(one().string("a").u32(ARRAY).u32(id).u64(0), Error::ValueType { .. });
    }
    fails!(one().string("a").u32(ARRAY).u32(ARRAY).u64(0), Error::NestedArray { .. });
    fails!(one().string("a").u32(STRING).u64(1 << 63).data(64), Error::StringLength { .. });
    // Counts whose size in bytes wraps, or is more than the file, or just one too many.
    for count in [1 << 63, u64::MAX, (1 << 62) + 1, (1 << 30) + 1, 9] {
        for (element, size) in [(U32, 4), (10, 8), (STRING, 8), (0, 1)] {
            let room = if count == 9 { 8 * size } else { 8 };
            let mut raw = one().string("a").u32(ARRAY).u32(element).u64(count);
            raw.0.resize(raw.0.len() + room, 0);
            fails!(raw, Error::ArrayLength { .. });
        }
    }
    fails!(one().string("a").u32(ARRAY).u32(STRING).u64(2).string("x").u64(99).data(64), Error::StringLength { .. });
}

#[test]
fn alignments() {
    for value in [0, 3, 33, u32::MAX] {
        fails!(Raw::new(0, 1).entry("general.alignment", value).data(64), Error::Alignment { .. });
    }
    fails!(Raw::new(0, 1).string("general.alignment").u32(I32).u32(32), Error::Alignment { .. });
    fails!(Raw::new(0, 1).string("general.alignment").u32(STRING).string("32"), Error::Alignment { .. });
    let coarse = Raw::new(1, 1).entry("general.alignment", 1 << 31).info("a", &[4], 0, 0);
    fails!(coarse.data(64), Error::Truncated { .. });
    let fine = Raw::new(2, 1).entry("general.alignment", 1).info("a", &[1], 24, 0).info("b", &[1], 24, 1).data(64);
    assert_eq!(fine.open().unwrap().tensors()[1].offset, fine_offset());
    /// Header, alignment entry, two infos of one dimension, one byte of data.
    fn fine_offset() -> u64 {
        24 + (8 + 17 + 4 + 4) + 2 * (8 + 1 + 4 + 8 + 4 + 8) + 1
    }
}

#[test]
fn tensor_infos() {
    fails!(one_tensor(&"n".repeat(64), &[32], 0, 0), Error::TensorName { index: 0, len: 64 });
    one_tensor(&"n".repeat(63), &[32], 0, 0).open().unwrap();
    fails!(Raw::new(1, 0).bytes(b"\xFF\xFE").u32(1).data(64), Error::NameNotText { .. });
    let twice = Raw::new(2, 0).info("a", &[8], 0, 0).info("a", &[8], 0, 32).data(64);
    fails!(twice, Error::DuplicateTensor { .. });
    for rank in [5, u32::MAX] {
        fails!(Raw::new(1, 0).string("a").u32(rank).data(4096), Error::Rank { .. });
    }
    fails!(one_tensor("a", &[32, -1], 0, 0), Error::Dimension { axis: 1, value: -1, .. });
    fails!(one_tensor("a", &[i64::MIN], 0, 0), Error::Dimension { .. });
    for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, 64, u32::MAX] {
        fails!(one_tensor("a", &[32], id, 0), Error::TensorType { .. });
    }
    assert!(one_tensor("a", &[32], 4, 0).error().to_string().contains("removed"));
    fails!(one_tensor("a", &[31], 2, 0), Error::PartBlock { row: 31, ty: GgmlType::Q4_0, .. });
    fails!(one_tensor("a", &[128], 12, 0), Error::PartBlock { ty: GgmlType::Q4_K, .. });
}

#[test]
fn tensor_sizes() {
    let m = i64::MAX;
    for dims in [
        &[m / 32 * 32, 2][..],
        &[1 << 32, 1 << 32],
        &[1 << 62],
        &[1 << 21, 1 << 21, 1 << 21, 1 << 21],
        &[0, 1 << 40, 1 << 40],
        &[m],
    ] {
        fails!(one_tensor("a", dims, 0, 0), Error::SizeOverflow { .. });
    }
    // Padding that wraps, and a running end that does.
    fails!(one_tensor("a", &[m], 24, 0), Error::SizeOverflow { .. });
    let half = 1i64 << 62;
    let sum = Raw::new(3, 0).info("a", &[half], 24, 0).info("b", &[half - 32], 24, 1 << 62);
    fails!(sum.info("c", &[32], 24, (1 << 63) - 32).data(64), Error::SizeOverflow { .. });
    fails!(one_tensor("a", &[1 << 40], 0, 0), Error::DataTruncated { .. });
    fails!(one_tensor("a", &[1025], 0, 0), Error::DataTruncated { .. });
    one_tensor("a", &[1024], 0, 0).open().unwrap();
    // Scalars and empty tensors are legal in the container.
    let scalar = one_tensor("a", &[], 0, 0).open().unwrap();
    assert_eq!((scalar.tensors()[0].elements(), scalar.tensors()[0].bytes), (1, 4));
    let empty = one_tensor("a", &[0, 3], 0, 0).open().unwrap();
    assert_eq!(empty.data(&empty.tensors()[0]), []);
}

#[test]
fn tensor_offsets() {
    let two = |first: u64, second: u64| Raw::new(2, 0).info("a", &[8], 0, first).info("b", &[16], 0, second).data(96);
    two(0, 32).open().unwrap();
    fails!(two(0, 4), Error::Unaligned { .. });
    fails!(two(32, 64), Error::Offset { offset: 32, expected: 0, .. });
    fails!(two(0, 0), Error::Offset { offset: 0, expected: 32, .. });
    fails!(two(0, 64), Error::Offset { offset: 64, expected: 32, .. });
    fails!(two(0, u64::MAX - 31), Error::Offset { .. });
    fails!(one_tensor("a", &[8], 0, 1 << 40), Error::Offset { .. });
}

/// A valid file with some of everything.
fn small_file() -> Vec<u8> {
    let raw = Raw::new(2, 4)
        .entry("general.alignment", 32)
        .string("s")
        .u32(STRING)
        .string("text")
        .string("numbers")
        .u32(ARRAY)
        .u32(U32)
        .u64(2)
        .u32(1)
        .u32(2)
        .string("tokens")
        .u32(ARRAY)
        .u32(STRING)
        .u64(2)
        .string("a")
        .string("bc");
    raw.info("first", &[8], 0, 0).info("second", &[32, 2], 2, 32).data(32 + 36).0
}

#[test]
fn every_truncation_is_an_error() {
    let file = small_file();
    let whole = Gguf::parse(file.clone()).unwrap();
    assert_eq!(whole.metadata().strings("tokens").unwrap().iter().collect::<Vec<_>>(), [b"a".as_slice(), b"bc"]);
    for len in 0..file.len() {
        let error = Raw(file[..len].to_vec()).error();
        let expected = match error {
            Error::Empty => len == 0,
            Error::Truncated { offset, need, have, .. } => offset + have == len as u64 && need > have,
            Error::StringLength { .. } | Error::ArrayLength { .. } | Error::Count { .. } => true,
            Error::DataTruncated { len: l, .. } => l == len as u64,
            _ => false,
        };
        assert!(expected, "cut at {len}: {error:?}");
    }
}

#[test]
fn every_flipped_byte_is_survived() {
    let file = small_file();
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut bad = file.clone();
            bad[at] ^= 1 << bit;
            if let Ok(open) = Gguf::parse(bad) {
                for (_, value) in open.metadata().iter() {
                    let _ = value.to_string();
                }
                for tensor in open.tensors() {
                    assert_eq!(open.data(tensor).len() as u64, tensor.bytes);
                }
            }
        }
    }
}

#[test]
fn wrong_types_name_the_key() {
    let file = Gguf::parse(small_file()).unwrap();
    let metadata = file.metadata();
    let error = metadata.u64("s").unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata s is string \"text\", but an integer from 0 to 18446744073709551615 is needed"
    );
    assert!(matches!(metadata.f32("general.alignment"), Err(Error::WrongType { .. })));
    assert!(matches!(metadata.bool("general.alignment"), Err(Error::WrongType { .. })));
    assert!(matches!(metadata.str("numbers"), Err(Error::WrongType { .. })));
    assert!(matches!(metadata.strings("numbers"), Err(Error::WrongType { .. })));
    assert!(matches!(metadata.array("s"), Err(Error::WrongType { .. })));
    assert!(matches!(metadata.u64("absent"), Err(Error::MissingKey { .. })));
    assert!(matches!(metadata.find::<Vec<bool>>("numbers"), Err(Error::WrongType { .. })));
    assert_eq!(metadata.require::<Vec<i64>>("numbers").unwrap(), [1, 2]);
    assert_eq!(metadata.get("general.alignment"), Some(Value::U32(32)));
}

#[test]
fn paths() {
    let folder = std::env::temp_dir().join(format!("kernloom-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let root = |path: PathBuf| -> String {
        let error = Gguf::open(&path).unwrap_err();
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        format!("{:?}", error.root())
    };
    assert!(root(folder.clone()).starts_with("Directory"));
    assert!(root(folder.join("absent.gguf")).contains("NotFound"));
    assert!(root("/dev/null".into()).starts_with("NotAFile"));
    assert!(root(file("empty.gguf", b"")).starts_with("Empty"));
    assert!(root(file("text.gguf", b"hello")).starts_with("NotGguf"));
    let whole = small_file();
    assert!(root(file("short.gguf", &whole[..whole.len() - 1])).starts_with("DataTruncated"));

    let good = file("good.gguf", &whole);
    let open = Gguf::open(&good).unwrap();
    open.check_unchanged().unwrap();
    assert_eq!(open.data_with_slack(&open.tensors()[1]).len(), 36 + gguf::SLACK);
    std::fs::File::options().append(true).open(&good).unwrap().set_len(whole.len() as u64 - 1).unwrap();
    assert!(matches!(open.check_unchanged().unwrap_err().root(), Error::Changed { .. }));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn scales_that_are_no_numbers() {
    let check = |ty: u32, dims: &[i64], data: &[u8]| {
        let mut raw = Raw::new(1, 0).info("w", dims, ty, 0).data(0);
        raw.0.extend(data);
        let file = raw.open().unwrap();
        file.check_weights(&file.tensors()[0])
    };
    let mut q4_0 = vec![0; 36];
    check(2, &[64], &q4_0).unwrap();
    q4_0[18..20].copy_from_slice(&[0x00, 0x7C]);
    assert!(matches!(check(2, &[64], &q4_0), Err(Error::BadScale { block: 1, scale: f32::INFINITY, .. })));
    let mut q4_k = vec![0; 144];
    q4_k[2..4].copy_from_slice(&[0x01, 0x7E]);
    assert!(matches!(check(12, &[256], &q4_k), Err(Error::BadScale { block: 0, .. })));
    assert!(matches!(check(39, &[32], &[255; 17]), Err(Error::BadScale { block: 0, .. })));
    assert!(matches!(check(0, &[2], &[0, 0, 0, 0, 0, 0, 0xC0, 0xFF]), Err(Error::BadScale { block: 1, .. })));
    check(16, &[256], &[255; 66]).unwrap();
}

/// Counts that announce much make the reader reserve little: these would take gigabytes otherwise.
#[test]
fn little_memory_for_large_claims() {
    let before = peak_bytes();
    for _ in 0..50 {
        let mut entries = Raw::new(0, 100_000);
        entries.0.resize(1_400_024, 0xFF);
        assert!(entries.open().is_err());
        let mut strings = Raw::new(0, 1).string("a").u32(ARRAY).u32(STRING).u64(100_000);
        strings.0.resize(800_100, 0xFF);
        assert!(strings.open().is_err());
        assert!(Raw::new(0, 1).string("a").u32(ARRAY).u32(0).u64(1 << 30).data(64).open().is_err());
    }
    let (Some(before), Some(after)) = (before, peak_bytes()) else {
        return;
    };
    assert!(after - before < 64 << 20, "peak memory rose by {} bytes", after - before);
}

/// Largest resident size of this process so far, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
