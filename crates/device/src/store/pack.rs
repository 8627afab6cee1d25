//! Packs: a folder of kernels, and of programs that launch them, as one file, which comes with the program.
//!
//! A pack is an index and the objects of the folder, each compressed by itself, so that a model reads those that it needs
//! and no more. Objects are named by the digests of their bytes as in the folder, and are checked when they are read; the
//! index is behind its own digest. Nothing is unpacked to disk where the system has files in memory (`shared_object.rs`).
//!
//! What a pack cannot do: be added to. It is written anew, from a folder to which more was built.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::cpu::isa::Target;
use crate::error::{Error, Result};
use crate::store::digest::{self, DIGITS, Digest};
use crate::store::publish;
use crate::store::trust::{Trust, Unopened};

/// What a pack begins with.
const MAGIC: &[u8; 16] = b"kernloom pack 1\n";

/// Names of packs end in it.
const PACK: &str = "pack";

/// Bytes of an index at most.
const LONGEST_INDEX: u64 = 64 << 20;

/// An object in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    name: Digest,
    /// Where it begins, behind the index.
    start: u64,
    packed: u64,
    bytes: u64,
}

/// What a pack holds: objects, and for each target the kernels with the numbers of their objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    objects: Vec<Object>,
    targets: BTreeMap<Target, HashMap<Digest, usize>>,
    /// Programs by the names of their files.
    programs: BTreeMap<String, usize>,
}

impl Index {
    fn text(&self) -> String {
        let mut text = String::new();
        for Object { name, start, packed, bytes } in &self.objects {
            let _ = writeln!(text, "object {name} {start} {packed} {bytes}");
        }
        for (target, kernels) in &self.targets {
            let _ = writeln!(text, "target {target}");
            let ordered: BTreeMap<_, _> = kernels.iter().collect();
            ordered.iter().for_each(|(key, object)| _ = writeln!(text, "kernel {key} {object}"));
        }
        self.programs.iter().for_each(|(name, object)| _ = writeln!(text, "program {name} {object}"));
        text
    }

    fn parse(text: &str) -> Option<Index> {
        let mut index = Index::default();
        let mut target = None;
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            let words: Vec<&str> = rest.split(' ').collect();
            let number = |i: usize| words.get(i)?.parse::<u64>().ok();
            let name = || words.first().filter(|name| name.len() == DIGITS).map(|name| (*name).to_owned());
            let known = |index: &Index| usize::try_from(number(1)?).ok().filter(|&i| i < index.objects.len());
            match kind {
                "object" => {
                    let (start, packed, bytes) = (number(1)?, number(2)?, number(3)?);
                    index.objects.push(Object { name: name()?, start, packed, bytes });
                }
                "target" => {
                    let next: Target = rest.parse().ok()?;
                    index.targets.entry(next.clone()).or_default();
                    target = Some(next);
                }
                "kernel" => {
                    let object = known(&index)?;
                    index.targets.get_mut(target.as_ref()?)?.insert(name()?, object);
                }
                "program" => {
                    let object = known(&index)?;
                    index.programs.insert((*words.first()?).to_owned(), object);
                }
                _ => return None,
            }
        }
        Some(index)
    }
}

/// A pack that is open.
#[derive(Debug)]
pub struct Pack {
    path: PathBuf,
    file: Mutex<File>,
    index: Index,
    /// Where objects begin.
    behind: u64,
}

/// An object that a pack has for a kernel.
pub(crate) struct Packed<'a> {
    pack: &'a Pack,
    target: &'a HashMap<Digest, usize>,
    number: usize,
}

impl Pack {
    /// Opens a pack that others cannot have changed, and reads its index.
    ///
    /// # Errors
    /// [`Error::Untrusted`], and [`Error::BadPack`] for what is none, or is damaged.
    pub fn open(path: &Path, trusted: &[PathBuf]) -> Result<Pack> {
        let bad = |reason: &str| Error::BadPack { path: path.to_owned(), reason: reason.into() };
        let mut file = match Trust::with(trusted).open(path) {
            Ok(opened) => opened.file,
            Err(Unopened::Refused(refusal)) => return Err(Error::Untrusted(refusal)),
            Err(Unopened::Io(error)) => return Err(bad(&error.to_string())),
        };
        let (mut magic, mut length) = ([0; MAGIC.len()], [0; 8]);
        let begun = file.read_exact(&mut magic).and_then(|()| file.read_exact(&mut length));
        if begun.is_err() || magic != *MAGIC {
            return Err(bad("it is no pack of kernels of this version"));
        }
        let length = u64::from_le_bytes(length);
        let mut text = vec![];
        let index = ZlibDecoder::new((&mut file).take(length)).take(LONGEST_INDEX).read_to_end(&mut text).ok();
        let index = index.and_then(|_| String::from_utf8(digest::unsealed(text)?).ok());
        let index = index.and_then(|text| Index::parse(&text)).ok_or_else(|| bad("it is damaged"))?;
        let behind = (MAGIC.len() + 8) as u64 + length;
        Ok(Pack { path: path.to_owned(), file: Mutex::new(file), index, behind })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The targets that it has kernels for, with the number of kernels, best first.
    pub fn targets(&self) -> impl Iterator<Item = (&Target, usize)> {
        self.index.targets.iter().rev().map(|(target, kernels)| (target, kernels.len()))
    }

    /// The object with the kernel of this key.
    pub(crate) fn find(&self, target: &Target, key: &Digest) -> Option<Packed<'_>> {
        let target = self.index.targets.get(target)?;
        Some(Packed { pack: self, target, number: *target.get(key)? })
    }

    /// A program, as its file would be.
    pub(crate) fn program(&self, name: &str) -> Option<Vec<u8>> {
        self.bytes(&self.index.objects[*self.index.programs.get(name)?])
    }

    /// The bytes of an object, if they are as they were written.
    fn bytes(&self, object: &Object) -> Option<Vec<u8>> {
        self.read(object).ok().filter(|bytes| digest::of_bytes(bytes) == object.name)
    }

    fn read(&self, object: &Object) -> io::Result<Vec<u8>> {
        let mut packed = vec![];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(self.behind.saturating_add(object.start)))?;
            (&mut *file).take(object.packed).read_to_end(&mut packed)?;
        }
        let mut bytes = vec![];
        ZlibDecoder::new(&*packed).take(object.bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Packed<'_> {
    fn object(&self) -> &Object {
        &self.pack.index.objects[self.number]
    }

    /// A name for it that no other object has, as if the pack were a folder.
    pub(crate) fn path(&self) -> PathBuf {
        self.pack.path.join(&self.object().name)
    }

    /// Its bytes, if they are as they were written.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        self.pack.bytes(self.object())
    }

    /// The keys of all kernels in it.
    pub(crate) fn keys(&self) -> Vec<Digest> {
        let here = self.target.iter().filter(|(_, number)| **number == self.number);
        here.map(|(key, _)| key.clone()).collect()
    }
}

/// The packs that came with a program: beside it, and in `share/kernloom` of where it is installed.
pub fn beside(program: &Path) -> Vec<PathBuf> {
    let bin = program.parent();
    let share = bin.and_then(Path::parent).map(|root| root.join("share/kernloom"));
    let folders = bin.map(Path::to_owned).into_iter().chain(share);
    let mut packs: Vec<PathBuf> = folders
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == PACK))
        .collect();
    packs.sort();
    packs
}

/// What a folder has for a target.
pub(crate) struct Kept {
    pub(crate) target: Target,
    /// Kernels by key, with the object that holds each.
    pub(crate) kernels: Vec<(Digest, Digest)>,
    /// Names of the files of programs.
    pub(crate) programs: Vec<String>,
    pub(crate) folder: PathBuf,
}

/// Objects that were put behind each other.
#[derive(Default)]
struct Objects {
    list: Vec<Object>,
    numbers: HashMap<Digest, usize>,
    data: Vec<u8>,
}

impl Objects {
    /// The number of an object, which is added if it is a new one.
    fn add(&mut self, path: &Path) -> Result<usize> {
        let bytes = fs::read(path).map_err(|error| Error::cache("read", path, error))?;
        let name = digest::of_bytes(&bytes);
        if let Some(&number) = self.numbers.get(&name) {
            return Ok(number);
        }
        let packed = compressed(&bytes);
        let (start, length) = (self.data.len() as u64, packed.len() as u64);
        self.list.push(Object { name: name.clone(), start, packed: length, bytes: bytes.len() as u64 });
        self.data.extend(packed);
        self.numbers.insert(name, self.list.len() - 1);
        Ok(self.list.len() - 1)
    }
}

/// Writes a pack of what folders have; how many bytes it takes.
pub(crate) fn write(kept: &[Kept], to: &Path) -> Result<u64> {
    let (mut index, mut objects) = (Index::default(), Objects::default());
    for Kept { target, kernels, programs, folder } in kept {
        let of_target = index.targets.entry(target.clone()).or_default();
        for (key, name) in kernels {
            of_target.insert(key.clone(), objects.add(&folder.join(format!("{name}.so")))?);
        }
        for name in programs {
            index.programs.insert(name.clone(), objects.add(&folder.join(name))?);
        }
    }
    index.objects = objects.list;
    let text = compressed(&digest::sealed(index.text().as_bytes()));
    let length = (text.len() as u64).to_le_bytes();
    let all = [&MAGIC[..], &length, &text, &objects.data].concat();
    publish::file(to, &all).map_err(|error| Error::cache("write", to, error))?;
    Ok(all.len() as u64)
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(vec![], Compression::best());
    // Memory takes all that is written to it.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BuildFolder;

    const OBJECT: &[u8] = b"code code code code code code";

    /// A pack with one object of two kernels for one target, and one for another.
    fn pack() -> (BuildFolder, PathBuf) {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let kept = |target: &str, keys: &[&str], bytes: &[u8]| {
            let name = digest::of_bytes(bytes);
            publish::file(&folder.path().join(format!("{name}.so")), bytes).unwrap();
            let kernels = keys.iter().map(|key| (digest::of_bytes(key.as_bytes()), name.clone())).collect();
            let program = format!("{target}.program");
            publish::file(&folder.path().join(&program), target.as_bytes()).unwrap();
            Kept { target: target.parse().unwrap(), kernels, programs: vec![program], folder: folder.path().to_owned() }
        };
        let path = folder.path().join("kernels.pack");
        write(&[kept("avx2", &["a", "b"], OBJECT), kept("avx512", &["a"], b"other")], &path).unwrap();
        (folder, path)
    }

    fn key(text: &str) -> Digest {
        digest::of_bytes(text.as_bytes())
    }

    #[test]
    fn a_pack_holds_what_the_folder_held() {
        let (_folder, path) = pack();
        let pack = Pack::open(&path, &[]).unwrap();
        let (avx2, avx512): (Target, Target) = ("avx2".parse().unwrap(), "avx512".parse().unwrap());
        assert_eq!(pack.targets().collect::<Vec<_>>(), [(&avx512, 1), (&avx2, 2)]);
        let [a, b] = ["a", "b"].map(|text| pack.find(&avx2, &key(text)).unwrap());
        assert_eq!((a.bytes().as_deref(), a.path()), (Some(OBJECT), b.path()));
        assert_eq!((a.keys().len(), a.path().starts_with(&path)), (2, true));
        assert_eq!(pack.find(&avx512, &key("a")).unwrap().bytes().as_deref(), Some(&b"other"[..]));
        assert!(pack.find(&avx512, &key("b")).is_none());
        assert_eq!(pack.program("avx2.program").as_deref(), Some(&b"avx2"[..]));
        assert_eq!(pack.program("neon.program"), None);
        assert_eq!(Index::parse(&pack.index.text()).unwrap(), pack.index);
    }

    #[test]
    fn no_byte_of_a_pack_can_change_unseen() {
        let (_folder, path) = pack();
        let whole = fs::read(&path).unwrap();
        let avx2: Target = "avx2".parse().unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            publish::file(&path, &damaged).unwrap();
            let Ok(pack) = Pack::open(&path, &[]) else { continue };
            let found = pack.find(&avx2, &key("a")).unwrap().bytes();
            assert!(found.is_none_or(|bytes| bytes == OBJECT), "byte {at}");
        }
        publish::file(&path, &whole[..whole.len() / 2]).unwrap();
        let error = Pack::open(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("kernels.pack"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_pack_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, path) = pack();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
        let error = Pack::open(&path, &[]).unwrap_err().to_string();
        assert!(error.contains("can be changed by other users"), "{error}");
    }

    #[test]
    fn packs_are_found_beside_the_program_and_where_it_is_installed() {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let (bin, share) = (folder.path().join("bin"), folder.path().join("share/kernloom"));
        [&bin, &share].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let expected = [bin.join("a.pack"), share.join("b.pack")];
        for path in expected.iter().chain([&bin.join("kernloom"), &share.join("README")]) {
            fs::write(path, "").unwrap();
        }
        assert_eq!(beside(&bin.join("kernloom")), expected);
    }
}
