//! What the writer writes, the reader reads back: metadata of every type, tensors, split files.

use gguf::{Error, GgmlType, Gguf, ValueBuf, WriteError, Writer};
use proptest::prelude::*;
use std::io::{self, Write};
use std::path::PathBuf;

/// A folder of its own for a test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kernloom-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Data of a tensor that tells which it is: bytes counted up from the first letter of the name.
fn fill(tensor: &gguf::Tensor, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&pattern(&tensor.name, tensor.bytes))
}

fn pattern(name: &str, bytes: u64) -> Vec<u8> {
    let first = name.bytes().next().unwrap_or(0);
    (0..bytes).map(|i| first.wrapping_add(i as u8)).collect()
}

fn everything() -> Writer {
    let mut writer = Writer::new();
    writer
        .set("general.architecture", "test")
        .set("u8", 200u8)
        .set("i8", -100i8)
        .set("u16", 60_000u16)
        .set("i16", -30_000i16)
        .set("u32", 4_000_000_000u32)
        .set("i32", -2_000_000_000i32)
        .set("u64", u64::MAX)
        .set("i64", i64::MIN)
        .set("f32", 0.1f32)
        .set("f64", 0.1f64)
        .set("bool", true)
        .set("string", String::from("Grüße"))
        .set("numbers", vec![1u16, 2, 3])
        .set("floats", vec![0.5f32, f32::NAN])
        .set("bools", vec![true, false])
        .set("strings", vec!["a", "", "bc"])
        .set("bytes", vec![b"\xFF\x00".as_slice(), b"ok"])
        .set("none", Vec::<u64>::new())
        .set("no strings", Vec::<String>::new());
    writer.tensor("alpha", GgmlType::Q4_0, &[64, 3]).unwrap();
    writer.tensor("beta", GgmlType::F32, &[5]).unwrap();
    writer.tensor("gamma", GgmlType::IQ2_XXS, &[256, 2, 1, 2]).unwrap();
    writer.tensor("delta", GgmlType::F16, &[]).unwrap();
    writer
}

fn check_everything(file: &Gguf) {
    let m = file.metadata();
    assert_eq!(file.architecture().unwrap(), "test");
    for (key, value) in [("u8", 200), ("u16", 60_000), ("u32", 4_000_000_000), ("u64", u64::MAX)] {
        assert_eq!(m.u64(key).unwrap(), value);
    }
    for (key, value) in [("i8", -100), ("i16", -30_000), ("i32", -2_000_000_000), ("i64", i64::MIN), ("u8", 200)] {
        assert_eq!(m.i64(key).unwrap(), value);
    }
    assert!(matches!(m.u64("i8"), Err(Error::WrongType { .. })));
    assert!(matches!(m.i64("u64"), Err(Error::WrongType { .. })));
    assert!(matches!(m.require::<u32>("u64"), Err(Error::WrongType { .. })));
    assert_eq!((m.f32("f32").unwrap(), m.require::<f64>("f64").unwrap()), (0.1, 0.1));
    assert_eq!(m.f32("f64").unwrap(), 0.1);
    assert!(m.bool("bool").unwrap());
    assert_eq!(m.str("string").unwrap(), "Grüße");
    assert_eq!(m.require::<Vec<u64>>("numbers").unwrap(), [1, 2, 3]);
    let floats = m.require::<Vec<f32>>("floats").unwrap();
    assert!(floats[0] == 0.5 && floats[1].is_nan());
    assert_eq!(m.require::<Vec<bool>>("bools").unwrap(), [true, false]);
    assert_eq!(m.require::<Vec<&str>>("strings").unwrap(), ["a", "", "bc"]);
    assert!(matches!(m.require::<Vec<&str>>("bytes"), Err(Error::WrongType { .. })));
    assert_eq!(m.strings("bytes").unwrap().get(0), Some(b"\xFF\x00".as_slice()));
    assert_eq!(m.strings("bytes").unwrap().get(2), None);
    assert!(m.array("none").unwrap().is_empty() && m.strings("no strings").unwrap().is_empty());
    assert_eq!(m.get("strings").unwrap().to_string(), "[\"a\", \"\", \"bc\"] (3 × string)");

    let names: Vec<&str> = file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["alpha", "beta", "gamma", "delta"]);
    let gamma = file.tensor("gamma").unwrap();
    assert_eq!((gamma.shape(), gamma.rows(), gamma.row_bytes()), ([256, 2, 1, 2].as_slice(), 4, 66));
    assert_eq!(file.tensor("delta").unwrap().n_dims, 0);
    assert!(file.tensor("epsilon").is_none());
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor), pattern(&tensor.name, tensor.bytes), "{}", tensor.name);
        assert_eq!(tensor.offset % file.alignment(), 0);
    }
}

#[test]
fn everything_comes_back() {
    let bytes = everything().to_vec(fill).unwrap();
    let file = Gguf::parse(bytes.clone()).unwrap();
    check_everything(&file);
    assert_eq!((file.version(), file.alignment(), bytes.len() % 32), (3, 32, 0));

    let mut again = Writer::new();
    again.copy_metadata(file.metadata());
    for tensor in file.tensors() {
        again.tensor(&tensor.name, tensor.ty, tensor.shape()).unwrap();
    }
    let copied = again.to_vec(|tensor, out| out.write_all(file.data(file.tensor(&tensor.name).unwrap()))).unwrap();
    assert_eq!(copied, bytes);
}

#[test]
fn set_replaces_and_alignment_is_obeyed() {
    let mut writer = everything();
    writer.set("general.alignment", 256u32).set("u8", 1u8).set("u8", 200u8).set("gone", 1u8).remove("gone");
    let file = Gguf::parse(writer.to_vec(fill).unwrap()).unwrap();
    check_everything(&file);
    assert_eq!((file.alignment(), file.metadata().contains("gone")), (256, false));
    assert!(file.tensors().iter().all(|tensor| tensor.offset % 256 == 0));
    for wrong in [ValueBuf::from(48u32), ValueBuf::from(32u64), ValueBuf::from(0u32)] {
        let error = writer.set("general.alignment", wrong).to_vec(fill).unwrap_err();
        assert!(matches!(error, WriteError::Tensor(Error::Alignment { .. })), "{error}");
    }
}

#[test]
fn version_2_reads_like_3() {
    let mut bytes = everything().to_vec(fill).unwrap();
    bytes[4] = 2;
    let file = Gguf::parse(bytes).unwrap();
    check_everything(&file);
    assert_eq!(file.version(), 2);
}

#[test]
fn files_on_disk() {
    let folder = Folder::new("files");
    let path = folder.0.join("model.gguf");
    everything().write(&path, fill).unwrap();
    let options = gguf::OpenOptions { will_need: true };
    let file = Gguf::open_with(&path, options).unwrap();
    check_everything(&file);
    assert_eq!(file.shard_path(0), Some(path.as_path()));
    file.will_need(&file.tensors()[0]);
    let last = file.tensors().last().unwrap();
    assert_eq!(file.data_with_slack(last).len() as u64, last.bytes + gguf::SLACK as u64);
    // Written over while it is open: the open one keeps the old file.
    Writer::new().set("new", 1u8).write(&path, fill).unwrap();
    check_everything(&file);
    assert_eq!(Gguf::open(&path).unwrap().metadata().u64("new").unwrap(), 1);
    assert_eq!(folder.names(), ["model.gguf"]);
}

#[test]
fn failures_leave_no_trace() {
    let folder = Folder::new("failures");
    let path = folder.0.join("model.gguf");
    std::fs::write(&path, "precious").unwrap();
    let full = |tensor: &gguf::Tensor, out: &mut dyn Write| match tensor.name.as_str() {
        "gamma" => Err(io::ErrorKind::StorageFull.into()),
        _ => fill(tensor, out),
    };
    let error = everything().write(&path, full).unwrap_err();
    assert!(matches!(&error, WriteError::Data { tensor, .. } if tensor == "gamma"), "{error}");
    for (surplus, wrote) in [(-1i64, 19), (1, 21)] {
        let wrong = |tensor: &gguf::Tensor, out: &mut dyn Write| match tensor.name.as_str() {
            "beta" => out.write_all(&vec![0; (20 + surplus) as usize]),
            _ => fill(tensor, out),
        };
        let error = everything().write(&path, wrong).unwrap_err();
        assert!(matches!(error, WriteError::DataLength { bytes: 20, wrote: w, .. } if w == wrote), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(folder.names(), ["model.gguf"]);
    let nowhere = everything().write(folder.0.join("absent/model.gguf"), fill).unwrap_err();
    assert!(matches!(nowhere, WriteError::File { .. }));

    /// A disk with room for `0` more bytes.
    struct Small(usize);
    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.0);
            self.0 -= n;
            if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let size = everything().to_vec(fill).unwrap().len();
    for room in 0..size {
        let error = everything().write_to(&mut Small(room), fill).unwrap_err();
        assert!(matches!(error, WriteError::Header(_) | WriteError::Data { .. }), "{error}");
    }
    assert_eq!(everything().write_to(&mut Small(size), fill).unwrap(), size as u64);
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = everything();
    let mut refuse = |name: &str, ty, shape: &[u64]| match writer.tensor(name, ty, shape) {
        Err(WriteError::Tensor(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refuse(&"n".repeat(64), GgmlType::F32, &[1]), Error::TensorName { .. }));
    assert!(matches!(refuse("alpha", GgmlType::F32, &[1]), Error::DuplicateTensor { .. }));
    assert!(matches!(refuse("x", GgmlType::F32, &[1; 5]), Error::Rank { n_dims: 5, .. }));
    assert!(matches!(refuse("x", GgmlType::Q6_K, &[255]), Error::PartBlock { .. }));
    assert!(matches!(refuse("x", GgmlType::F32, &[1 << 62]), Error::SizeOverflow { .. }));
    assert!(matches!(refuse("x", GgmlType::I8, &[u64::MAX]), Error::SizeOverflow { .. }));
    assert!(matches!(refuse("a\u{1b}[2J", GgmlType::F32, &[1]), Error::NameNotText { .. }));
    assert_eq!(writer.tensors().len(), 4);
    for key in [String::new(), "a\nb".into(), "k".repeat(65536)] {
        let mut writer = Writer::new();
        assert!(matches!(writer.set(key, 1u8).to_vec(fill), Err(WriteError::Key { .. })));
    }
}

#[test]
fn split_models() {
    let folder = Folder::new("split");
    let prefix = folder.0.join("model");
    let paths = everything().write_split(&prefix, 130, fill).unwrap();
    let names = ["model-00001-of-00003.gguf", "model-00002-of-00003.gguf", "model-00003-of-00003.gguf"];
    assert_eq!(folder.names(), names);
    assert_eq!(paths, names.map(|name| folder.0.join(name)));

    let file = Gguf::open(&paths[0]).unwrap();
    check_everything(&file);
    assert_eq!(file.shards(), 3);
    assert_eq!(file.tensors().iter().map(|tensor| tensor.shard).collect::<Vec<_>>(), [0, 0, 1, 2]);
    assert_eq!(file.shard_path(2), Some(paths[2].as_path()));
    file.check_unchanged().unwrap();
    let bytes = paths.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    check_everything(&Gguf::parse_shards(bytes.clone()).unwrap());
    assert_eq!(Gguf::open_shard(&paths[1]).unwrap().tensors().len(), 1);

    // The wrong file of the right model.
    let error = Gguf::open(&paths[1]).unwrap_err();
    assert!(matches!(error.root(), Error::NotFirstShard { no: 1, count: 3, first: Some(first) } if *first == paths[0]));
    let parse = |order: &[usize]| Gguf::parse_shards(order.iter().map(|&at| bytes[at].clone()).collect()).unwrap_err();
    assert!(matches!(parse(&[1, 0, 2]), Error::NotFirstShard { .. }));
    assert!(matches!(parse(&[0, 2, 1]), Error::SplitNumber { found: 2, expected: 1 }));
    assert!(matches!(parse(&[0, 1]), Error::SplitIncomplete { given: 2, count: 3 }));

    // A file under another name, a file of another model, one that is missing.
    let renamed = folder.0.join("renamed.gguf");
    std::fs::copy(&paths[0], &renamed).unwrap();
    assert!(matches!(Gguf::open(&renamed).unwrap_err().root(), Error::SplitName { count: 3 }));
    let other = everything().write_split(folder.0.join("other"), 150, fill).unwrap();
    assert_eq!(other.len(), 3);
    std::fs::copy(&paths[2], &other[2]).unwrap();
    check_everything(&Gguf::open(&other[0]).unwrap());
    std::fs::copy(&paths[1], &other[2]).unwrap();
    assert!(matches!(Gguf::open(&other[0]).unwrap_err().root(), Error::SplitNumber { found: 1, expected: 2 }));
    std::fs::remove_file(&paths[1]).unwrap();
    let error = Gguf::open(&paths[0]).unwrap_err();
    assert!(error.to_string().starts_with(&paths[1].display().to_string()), "{error}");
    assert!(matches!(error.root(), Error::Io { .. }));
}

#[test]
fn shards_must_be_of_one_model() {
    let shard = |no: u16, count: u16, tensors: i32, arch: &str, name: &str| {
        let mut writer = Writer::new();
        writer.set("split.no", no).set("split.count", count).set("split.tensors.count", tensors);
        writer.set("general.architecture", arch).tensor(name, GgmlType::F32, &[8]).unwrap();
        writer.to_vec(fill).unwrap()
    };
    let open = |second| Gguf::parse_shards(vec![shard(0, 2, 2, "llama", "a"), second]);
    assert_eq!(open(shard(1, 2, 2, "llama", "b")).unwrap().tensors().len(), 2);
    assert!(matches!(open(shard(1, 2, 2, "llama", "a")), Err(Error::DuplicateTensor { .. })));
    assert!(matches!(open(shard(1, 2, 2, "glm4", "b")), Err(Error::SplitArchitecture { .. })));
    assert!(matches!(open(shard(1, 3, 2, "llama", "b")), Err(Error::SplitCount { found: 3, expected: 2 })));
    let few = vec![shard(0, 2, 5, "llama", "a"), shard(1, 2, 5, "llama", "b")];
    assert!(matches!(Gguf::parse_shards(few), Err(Error::SplitTensors { found: 2, expected: 5 })));
    let negative = vec![shard(0, 2, -2, "llama", "a"), shard(1, 2, -2, "llama", "b")];
    assert!(matches!(Gguf::parse_shards(negative), Err(Error::SplitTensors { .. })));
    let mut silent = Writer::new();
    silent.tensor("b", GgmlType::F32, &[8]).unwrap();
    assert!(matches!(open(silent.to_vec(fill).unwrap()), Err(Error::MissingKey { .. })));
    let mut odd = Writer::new();
    odd.set("split.count", "two");
    assert!(matches!(Gguf::parse(odd.to_vec(fill).unwrap()), Err(Error::WrongType { .. })));
    odd.set("split.count", -3i32);
    assert!(matches!(Gguf::parse(odd.to_vec(fill).unwrap()), Err(Error::WrongType { .. })));
}

#[test]
fn a_large_vocabulary_opens_in_linear_time() {
    let tokens: Vec<String> = (0..300_000).map(|i| format!("token{i}")).collect();
    let mut writer = Writer::new();
    writer.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.scores", vec![0f32; 300_000]);
    let bytes = writer.to_vec(fill).unwrap();
    let start = std::time::Instant::now();
    let file = Gguf::parse(bytes).unwrap();
    let elapsed = start.elapsed();
    let strings = file.metadata().strings("tokenizer.ggml.tokens").unwrap();
    assert_eq!((strings.len(), strings.get(299_999)), (300_000, b"token299999".as_slice().into()));
    println!("300000 tokens in {elapsed:?}");
    // Milliseconds; a look at every string for every string would take minutes.
    assert!(elapsed.as_secs() < 10, "{elapsed:?}");
}

fn value() -> impl Strategy<Value = ValueBuf> {
    let strings = proptest::collection::vec(".{0,12}", 0..6);
    prop_oneof![
        any::<u8>().prop_map(ValueBuf::from),
        any::<i16>().prop_map(ValueBuf::from),
        any::<u32>().prop_map(ValueBuf::from),
        any::<i64>().prop_map(ValueBuf::from),
        any::<f32>().prop_map(ValueBuf::from),
        any::<f64>().prop_map(ValueBuf::from),
        any::<bool>().prop_map(ValueBuf::from),
        ".{0,40}".prop_map(ValueBuf::from),
        strings.prop_map(ValueBuf::from),
        proptest::collection::vec(any::<i8>(), 0..20).prop_map(ValueBuf::from),
        proptest::collection::vec(any::<u64>(), 0..20).prop_map(ValueBuf::from),
        proptest::collection::vec(any::<f32>(), 0..20).prop_map(ValueBuf::from),
    ]
}

fn tensor() -> impl Strategy<Value = (GgmlType, Vec<u64>)> {
    let types: Vec<GgmlType> = GgmlType::ALL.to_vec();
    (proptest::sample::select(types), proptest::collection::vec(0u64..4, 0..=4)).prop_map(|(ty, mut shape)| {
        match shape.first_mut() {
            Some(row) => *row *= u64::from(ty.block_len()),
            None if ty.block_len() > 1 => shape.push(u64::from(ty.block_len())),
            None => {}
        }
        (ty, shape)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn write_then_read(
        entries in proptest::collection::btree_map("[a-z.]{1,16}", value(), 0..12),
        tensors in proptest::collection::btree_map("[a-z0-9._]{0,40}", tensor(), 0..8),
        alignment in 0u32..10,
        shard_bytes in 1u64..4000,
    ) {
        let mut writer = Writer::new();
        for (key, value) in &entries {
            writer.set(key, value.clone());
        }
        writer.set("general.alignment", 1u32 << alignment);
        for (name, (ty, shape)) in &tensors {
            writer.tensor(name, *ty, shape).unwrap();
        }
        let folder = Folder::new("property");
        let paths = writer.write_split(folder.0.join("m"), shard_bytes, fill).unwrap();
        let whole = Gguf::parse(writer.to_vec(fill).unwrap()).unwrap();
        for file in [whole, Gguf::open(&paths[0]).unwrap()] {
            for (key, value) in &entries {
                prop_assert_eq!(&ValueBuf::from(file.metadata().get(key).unwrap()), value);
            }
            prop_assert_eq!(file.tensors().len(), tensors.len());
            for tensor in file.tensors() {
                let (ty, shape) = &tensors[&tensor.name];
                prop_assert_eq!((tensor.ty, tensor.shape()), (*ty, shape.as_slice()));
                prop_assert_eq!(tensor.bytes, tensor.rows() * tensor.row_bytes());
                prop_assert_eq!(file.data(tensor), pattern(&tensor.name, tensor.bytes));
                prop_assert_eq!(tensor.offset % (1 << alignment), 0);
            }
        }
    }
}
