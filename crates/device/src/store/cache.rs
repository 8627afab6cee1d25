//! The folder of compiled kernels.
//!
//! Each target has a folder in it, named after the target. Shared objects
//! there are named by the digest of their own bytes, so an object
//! proves itself before it is opened, and two processes that write one write
//! the same. A small *reference* per kernel says which object holds it. Whole
//! programs lie beside them (`programs.rs`). Every file appears by a
//! rename: a reader sees all of it or nothing.
//!
//! Code is taken only from where none but root and the user can have changed it: a folder that others can change is an
//! error, and so is a file ([`crate::store::trust`]). What is read is the descriptor that was checked.
//!
//! Nothing is written before a kernel was compiled, so that a folder with all
//! that a model needs may lie on a read-only file system. Programs are kept where
//! that can be done.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cpu::isa::Target;
use crate::error::{Error, Result};
use crate::store::digest::{self, DIGITS, Digest};
use crate::store::folder::{self, BuildFolder};
use crate::store::pack::{self, Kept, Pack, Packed};
use crate::store::programs;
use crate::store::publish::{self, FRESH, PRIVATE, PUBLIC};
use crate::store::shared_object::{self, SharedObject};
use crate::store::trust::{Trust, Trusted, Unopened};

/// Changes whenever files of older versions would be misread.
const LAYOUT: &str = "kernels-3";

/// Names of references end in it.
const REFERENCE: &str = "ref";

/// Names of folders in which something is built begin with it.
const BUILD: &str = "build";

/// Where compiled kernels are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The folder to keep them in; `None` keeps them for this process only.
    pub folder: Option<PathBuf>,
    /// Folders of kernels that were built ahead of time; nothing is written there.
    pub ready: Vec<PathBuf>,
    /// The same as files ([`crate::store::pack`]), looked at after all folders.
    pub packs: Vec<PathBuf>,
    /// Folders that nobody else reaches, whatever their owners and modes say: these, and those around them, are not
    /// questioned.
    pub trusted: Vec<PathBuf>,
    /// Where a folder for this process is made if `folder` cannot be written.
    pub temporary: PathBuf,
}

impl CacheConfig {
    /// `kernloom` in the user's cache folder, by the environment of this
    /// process (`XDG_CACHE_HOME`, else `.cache` in the home folder), and the packs that came with this program.
    pub fn from_environment() -> Self {
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let program = std::env::current_exe().and_then(fs::canonicalize).ok();
        CacheConfig {
            folder: caches.map(|folder| folder.join("kernloom")),
            ready: vec![],
            packs: program.map_or(vec![], |program| pack::beside(&program)),
            trusted: vec![],
            temporary: std::env::temp_dir(),
        }
    }

    /// All of them, in the order in which they are looked at.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.folder.iter().chain(&self.ready)
    }

    /// The targets that kernels are kept for, of whatever machines; best first.
    pub fn targets(&self) -> Vec<Target> {
        let kept = self.folders().flat_map(|folder| fs::read_dir(folder.join(LAYOUT)).into_iter().flatten().flatten());
        let mut targets: Vec<Target> = kept.filter_map(|entry| kept_for(&entry.path())).collect();
        // One that cannot be used is told of where kernels are looked up.
        let packs = self.packs.iter().filter_map(|path| Pack::open(path, &self.trusted).ok());
        packs.for_each(|pack| targets.extend(pack.targets().map(|(target, _)| target.clone())));
        targets.sort_by(|a, b| b.cmp(a));
        targets.dedup();
        targets
    }

    /// Whether code may be loaded from all folders that kernels are kept in, and from the packs.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    pub fn check(&self) -> Result<()> {
        let kept = self.folders().flat_map(|folder| fs::read_dir(folder.join(LAYOUT)).into_iter().flatten().flatten());
        let mut folders: Vec<PathBuf> = kept.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        let mut trust = Trust::with(&self.trusted);
        folders.iter().try_for_each(|folder| is_trusted(folder, &mut trust))?;
        self.open_packs().map(|_| ())
    }

    /// The packs that are whole, and what is to be said of the others.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    fn open_packs(&self) -> Result<(Vec<Pack>, Vec<Warning>)> {
        let (mut packs, mut warnings) = (vec![], vec![]);
        for path in &self.packs {
            match Pack::open(path, &self.trusted) {
                Ok(pack) => packs.push(pack),
                Err(error @ Error::Untrusted(_)) => return Err(error),
                Err(error) => warnings.push(Warning::PackIgnored { reason: error.to_string() }),
            }
        }
        Ok((packs, warnings))
    }
}

/// Writes the kernels of a folder, of all targets, as a pack; how many there are, and how many bytes they take.
///
/// # Errors
/// [`Error::Cache`] for what cannot be read or written.
pub fn pack(folder: &Path, to: &Path) -> Result<(usize, u64)> {
    let all = folder.join(LAYOUT);
    let entries = fs::read_dir(&all).map_err(|error| Error::cache("read", &all, error))?;
    let folders = entries.flatten().map(|entry| entry.path());
    let mut targets: Vec<_> = folders.filter_map(|path| Some((kept_for(&path)?, path))).collect();
    targets.sort();
    let of = |(target, folder): (Target, PathBuf)| Kept {
        target,
        kernels: references(&folder),
        programs: programs::names(&folder),
        folder,
    };
    let kept: Vec<Kept> = targets.into_iter().map(of).collect();
    Ok((kept.iter().map(|kept| kept.kernels.len()).sum(), pack::write(&kept, to)?))
}

/// The kernels of a folder with the objects that hold them.
fn references(folder: &Path) -> Vec<(Digest, Digest)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let reference = |path: PathBuf| {
        let key = path.file_name()?.to_str()?.strip_suffix(REFERENCE)?.strip_suffix('.')?.to_owned();
        Some((key, digest_of(fs::File::open(&path).ok()?)?))
    };
    let mut kernels: Vec<_> = files.filter_map(reference).collect();
    kernels.sort();
    kernels
}

fn is_trusted(folder: &Path, trust: &mut Trust) -> Result<()> {
    trust.folder(folder).map_err(|unopened| Error::unopened("read", folder, unopened))?;
    Ok(())
}

/// The name of the folder of a target.
fn name_of(target: &Target) -> String {
    format!("{}-{target}", target.isa.architecture())
}

/// The target of a folder that has kernels for one.
fn kept_for(folder: &Path) -> Option<Target> {
    let name = folder.file_name()?.to_str()?;
    let target: Target = name.split_once('-')?.1.parse().ok()?;
    let mut files = fs::read_dir(folder).ok()?.flatten();
    let reference = |entry: fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == REFERENCE);
    (name_of(&target) == name && files.any(reference)).then_some(target)
}

/// Something the user should know although the work went on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// New kernels are compiled again at the next start.
    #[error("kernels cannot be kept in {}: {reason}; they are compiled again at every start", folder.display())]
    CacheUnusable {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A cached object was not what its name says; it was built again.
    #[error("the compiled kernels in {} were damaged and have been built again", object.display())]
    Damaged {
        /// The object.
        object: PathBuf,
    },
    /// A pack is of no use.
    #[error("{reason}; it is ignored")]
    PackIgnored {
        /// Why.
        reason: String,
    },
    /// Plans that a search has found are left aside.
    #[error("the tuned plans in {} are ignored: {reason}; the next `kernloom tune` writes them anew", file.display())]
    TunedIgnored {
        /// Their file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The compiler does not know all instructions of this machine.
    #[error("{compiler} does not know all of {machine}; kernels use {target}")]
    OldCompiler {
        /// Version line of the compiler.
        compiler: String,
        /// What the machine has.
        machine: String,
        /// What is used.
        target: String,
    },
}

/// What a look-up found.
pub(crate) enum Found {
    /// The object that holds the kernel; its bytes are as they were written.
    Object(SharedObject),
    /// An object that is not what it was.
    Damaged(PathBuf),
    /// Nothing.
    Missing,
}

/// The look-ups of one program: what passed is neither checked nor read again.
#[derive(Debug)]
pub(crate) struct Opening {
    trust: Trust,
    /// Objects whose bytes are as they were written.
    proved: HashSet<PathBuf>,
}

impl Opening {
    fn new(trust: &Trust) -> Opening {
        Opening { trust: trust.clone(), proved: HashSet::new() }
    }

    /// A file, if it is there and can be read.
    fn open(&mut self, path: &Path) -> Result<Option<Trusted>> {
        match self.trust.open(path) {
            Ok(opened) => Ok(Some(opened)),
            Err(Unopened::Refused(refusal)) => Err(Error::Untrusted(refusal)),
            Err(Unopened::Io(_)) => Ok(None),
        }
    }

    /// An object of a folder by its digest.
    fn object(&mut self, folder: &Path, name: &Digest) -> Result<Found> {
        let path = folder.join(format!("{name}.so"));
        if self.proved.contains(&path) {
            return Ok(Found::Object(SharedObject { path, checked: None }));
        }
        let Some(mut opened) = self.open(&path)? else { return Ok(Found::Missing) };
        let mut bytes = vec![];
        if opened.file.read_to_end(&mut bytes).is_err() || digest::of_bytes(&bytes) != *name {
            return Ok(Found::Damaged(path));
        }
        self.proved.insert(path.clone());
        Ok(Found::Object(SharedObject { path, checked: Some(opened) }))
    }
}

/// The digest that a reference consists of.
fn digest_of(reference: fs::File) -> Option<Digest> {
    let mut name = String::new();
    reference.take(DIGITS as u64 + 1).read_to_string(&mut name).ok()?;
    (name.len() == DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit())).then_some(name)
}

/// The kernels of one target in all folders, and the place that new ones go to.
#[derive(Debug)]
pub(crate) struct Cache {
    target: Target,
    /// Where objects are looked for, and after that.
    folders: Vec<PathBuf>,
    packs: Vec<Pack>,
    /// Packs that are of no use.
    warnings: Vec<Warning>,
    /// The folder to keep new ones in.
    own: Option<PathBuf>,
    temporary: PathBuf,
    /// What every look-up begins with.
    trust: Trust,
    /// Whether others read what is written, and nothing else will do.
    ahead: bool,
    output: Mutex<Option<Arc<Output>>>,
}

/// Where new objects go.
#[derive(Debug)]
pub(crate) struct Output {
    folder: PathBuf,
    /// Where the sources of kernels that do not compile are left.
    failures: PathBuf,
    /// Why it is not the folder that was wanted.
    warning: Option<Warning>,
    trust: Trust,
    /// Removed when nobody needs the output any more.
    _temporary: Option<BuildFolder>,
}

impl Cache {
    /// Looks where there are folders for a target; makes none.
    ///
    /// # Errors
    /// [`Error::Untrusted`] for one that others can change.
    pub(crate) fn open(config: &CacheConfig, target: &Target) -> Result<Cache> {
        let place = |folder: &PathBuf| {
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            folder.join(LAYOUT).join(name_of(target))
        };
        let folders: Vec<PathBuf> = config.folders().map(place).filter(|folder| folder.is_dir()).collect();
        let trust = Trust::with(&config.trusted);
        folders.iter().try_for_each(|folder| is_trusted(folder, &mut trust.clone()))?;
        let (packs, warnings) = config.open_packs()?;
        Ok(Cache {
            target: target.clone(),
            folders,
            packs,
            warnings,
            own: config.folder.as_ref().map(place),
            temporary: config.temporary.clone(),
            trust,
            ahead: false,
            output: Mutex::new(None),
        })
    }

    /// A folder to build in ahead of time: others may read it, and no other takes its place.
    ///
    /// # Errors
    /// As [`Cache::open`].
    pub(crate) fn ahead(folder: &Path, trusted: &[PathBuf], target: &Target) -> Result<Cache> {
        let trusted = trusted.to_vec();
        let config = CacheConfig {
            folder: Some(folder.into()),
            ready: vec![],
            packs: vec![],
            trusted,
            temporary: folder.into(),
        };
        Ok(Cache { ahead: true, ..Cache::open(&config, target)? })
    }

    /// The place that new objects go to: the wanted folder, made if needed,
    /// or one for this process, with a warning, if that cannot be written or trusted.
    pub(crate) fn output(&self) -> Result<Arc<Output>> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(output) = &*output {
            return Ok(output.clone());
        }
        let fresh = Arc::new(self.make_output()?);
        *output = Some(fresh.clone());
        Ok(fresh)
    }

    fn make_output(&self) -> Result<Output> {
        let mut warning = None;
        if let Some(folder) = &self.own {
            match folder::prepare(folder, if self.ahead { PUBLIC } else { PRIVATE }, self.trust.clone()) {
                Ok(()) => {
                    folder::sweep(folder, &[BUILD, FRESH]);
                    let (folder, failures) = (folder.clone(), folder.clone());
                    let trust = self.trust.clone();
                    return Ok(Output { folder, failures, warning: None, trust, _temporary: None });
                }
                Err(unopened) if self.ahead => return Err(Error::unopened("write", folder, unopened)),
                Err(Unopened::Io(error)) if error.kind() == io::ErrorKind::StorageFull => {
                    return Err(Error::DiskFull { folder: folder.clone() });
                }
                Err(error) => {
                    let folder = folder.ancestors().nth(2).unwrap_or(folder).to_path_buf();
                    warning = Some(Warning::CacheUnusable { folder, reason: error.to_string() });
                }
            }
        }
        let temporary = BuildFolder::new(&self.temporary, "kernloom")?;
        Ok(Output {
            folder: temporary.path().to_path_buf(),
            failures: self.temporary.clone(),
            warning,
            trust: self.trust.clone(),
            _temporary: Some(temporary),
        })
    }

    /// Begins to look up the kernels of a program.
    pub(crate) fn opening(&self) -> Opening {
        Opening::new(&self.trust)
    }

    /// The object that holds the kernel of this key.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    pub(crate) fn find(&self, key: &Digest, opening: &mut Opening) -> Result<Found> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let output = output.as_ref().map(|output| &output.folder);
        let mut damaged = None;
        for folder in self.folders.iter().chain(output) {
            let reference = folder.join(format!("{key}.{REFERENCE}"));
            let Some(opened) = opening.open(&reference)? else { continue };
            // The name comes from a file: it must not lead out of the folder.
            let Some(name) = digest_of(opened.file) else {
                damaged = Some(reference);
                continue;
            };
            match opening.object(folder, &name)? {
                Found::Missing => {}
                Found::Damaged(object) => damaged = Some(object),
                found => return Ok(found),
            }
        }
        for packed in self.packs.iter().filter_map(|pack| pack.find(&self.target, key)) {
            match self.unpacked(&packed, opening, shared_object::in_memory)? {
                Found::Damaged(object) => damaged = Some(object),
                found => return Ok(found),
            }
        }
        Ok(damaged.map_or(Found::Missing, Found::Damaged))
    }

    /// An object of a pack, in memory if there are such files, else kept as if it had been built.
    fn unpacked(
        &self,
        packed: &Packed<'_>,
        opening: &mut Opening,
        in_memory: impl FnOnce(&[u8]) -> Option<Trusted>,
    ) -> Result<Found> {
        let path = packed.path();
        if opening.proved.contains(&path) {
            return Ok(Found::Object(SharedObject { path, checked: None }));
        }
        let Some(bytes) = packed.bytes() else { return Ok(Found::Damaged(path)) };
        if let Some(file) = in_memory(&bytes) {
            opening.proved.insert(path.clone());
            return Ok(Found::Object(SharedObject { path, checked: Some(file) }));
        }
        Ok(Found::Object(self.output()?.keep_bytes(&bytes, &packed.keys())?))
    }

    /// Packs that are of no use.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// A program that was kept, in bytes.
    pub(crate) fn program(&self, follows_from: &str) -> Option<Vec<u8>> {
        let of_packs = || {
            let name = programs::name(follows_from)?;
            self.packs.iter().find_map(|pack| digest::unsealed(pack.program(&name)?))
        };
        programs::find(&self.folders, follows_from, self.trust.clone()).or_else(of_packs)
    }

    /// Keeps a program in the folder that is built ahead of time.
    pub(crate) fn keep_program_ahead(&self, follows_from: &str, program: &[u8]) -> Result<()> {
        programs::write(self.output()?.folder(), follows_from, program);
        Ok(())
    }

    /// Keeps a program, if the own folder can be written: without it, only the next start takes longer.
    pub(crate) fn keep_program(&self, follows_from: &str, program: &[u8]) {
        if let Some(folder) = &self.own
            && folder::prepare(folder, PRIVATE, self.trust.clone()).is_ok()
        {
            programs::keep(folder, follows_from, program);
        }
    }
}

impl Output {
    /// Why it is not the folder that was wanted.
    pub(crate) fn warning(&self) -> Option<&Warning> {
        self.warning.as_ref()
    }

    /// The folder that new objects are built in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder for sources that did not compile; it outlives this value.
    pub(crate) fn failures(&self) -> &Path {
        &self.failures
    }

    /// Keeps a freshly built object that holds the kernels of these keys, and returns it, to be loaded as others are.
    pub(crate) fn keep(&self, built: &Path, keys: &[Digest]) -> Result<SharedObject> {
        self.keep_bytes(&fs::read(built).map_err(|error| Error::cache("read", built, error))?, keys)
    }

    fn keep_bytes(&self, bytes: &[u8], keys: &[Digest]) -> Result<SharedObject> {
        let name = digest::of_bytes(bytes);
        let publish =
            |path: &Path, bytes: &[u8]| publish::file(path, bytes).map_err(|error| Error::cache("write", path, error));
        let path = self.folder.join(format!("{name}.so"));
        // Not the compiler's own file, whose mode is the compiler's.
        publish(&path, bytes)?;
        for key in keys {
            publish(&self.folder.join(format!("{key}.{REFERENCE}")), name.as_bytes())?;
        }
        match Opening::new(&self.trust).object(&self.folder, &name)? {
            Found::Object(object) => Ok(object),
            Found::Damaged(_) | Found::Missing => {
                Err(Error::cache("read", &path, io::Error::other("it is not what was just written")))
            }
        }
    }

    /// A folder to build in, on the file system of the objects.
    pub(crate) fn build_folder(&self) -> Result<BuildFolder> {
        BuildFolder::new(&self.folder, BUILD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Isa;

    fn here(name: &str) -> (BuildFolder, CacheConfig) {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let config = CacheConfig {
            folder: Some(folder.path().join(name)),
            ready: vec![],
            packs: vec![],
            trusted: vec![],
            temporary: folder.path().to_path_buf(),
        };
        (folder, config)
    }

    fn target() -> Target {
        Target { isa: Isa::Scalar, extras: vec![] }
    }

    fn open(config: &CacheConfig) -> Cache {
        Cache::open(config, &target()).unwrap()
    }

    fn keep(cache: &Cache, bytes: &[u8], key: &str) -> PathBuf {
        let output = cache.output().unwrap();
        let folder = output.build_folder().unwrap();
        let built = folder.path().join("kernels.so");
        fs::write(&built, bytes).unwrap();
        output.keep(&built, &[key.to_string()]).unwrap().path
    }

    fn find(cache: &Cache, key: &Digest) -> Found {
        cache.find(key, &mut cache.opening()).unwrap()
    }

    #[test]
    fn what_was_kept_is_found_also_by_another_process() {
        let (_folder, config) = here("cache");
        let cache = open(&config);
        let key = digest::of_bytes(b"kernel");
        assert!(matches!(find(&cache, &key), Found::Missing));
        let object = keep(&cache, b"object", &key);
        assert_eq!(cache.output().unwrap().warning(), None);
        assert!(matches!(find(&cache, &key), Found::Object(found) if found.path == object));
        assert!(matches!(find(&open(&config), &key), Found::Object(found) if found.path == object));
    }

    #[test]
    fn kernels_of_a_pack_are_found_after_those_of_folders_and_nothing_is_written() {
        let (folder, config) = here("built");
        let keys = ["a", "b"].map(|text| digest::of_bytes(text.as_bytes()));
        keep(&open(&config), b"object", &keys[0]);
        let path = folder.path().join("kernels.pack");
        let size = pack(&folder.path().join("built"), &path).unwrap();
        assert_eq!(size, (1, fs::metadata(&path).unwrap().len()));
        let packed =
            CacheConfig { folder: Some(folder.path().join("own")), packs: vec![path.clone()], ..config.clone() };
        assert_eq!((packed.targets(), packed.check().is_ok()), (vec![target()], true));
        let cache = open(&packed);
        let mut opening = cache.opening();
        let mut find = |key| cache.find(key, &mut opening).unwrap();
        let Found::Object(mut object) = find(&keys[0]) else { panic!("it is in the pack") };
        let mut bytes = vec![];
        object.checked.as_mut().unwrap().file.read_to_end(&mut bytes).unwrap();
        assert!(matches!(find(&keys[0]), Found::Object(again) if again.path == object.path && again.checked.is_none()));
        assert!(matches!(find(&keys[1]), Found::Missing));
        if cfg!(target_os = "linux") {
            assert!(object.path.starts_with(&path) && !folder.path().join("own").exists());
        }
        let both = CacheConfig { packs: vec![path.clone()], ..config };
        let cache = open(&both);
        let found = cache.find(&keys[0], &mut cache.opening()).unwrap();
        assert!(matches!(found, Found::Object(found) if found.path.starts_with(folder.path().join("built"))));
        fs::write(&path, "no pack").unwrap();
        let cache = open(&packed);
        assert!(matches!(cache.warnings(), [Warning::PackIgnored { reason }] if reason.contains("kernels.pack")));
        assert_eq!(packed.targets(), []);
    }

    #[test]
    fn where_no_file_can_be_in_memory_objects_of_a_pack_are_kept_in_the_folder() {
        let (folder, config) = here("built");
        let keys = ["a", "b"].map(|text| digest::of_bytes(text.as_bytes()));
        let built = open(&config);
        let object = folder.path().join("kernels.so");
        fs::write(&object, b"object").unwrap();
        built.output().unwrap().keep(&object, &keys).unwrap();
        let path = folder.path().join("kernels.pack");
        pack(&folder.path().join("built"), &path).unwrap();
        let own = folder.path().join("own");
        let config = CacheConfig { folder: Some(own.clone()), packs: vec![path], ..config };
        let cache = open(&config);
        let packed = cache.packs[0].find(&target(), &keys[0]).unwrap();
        let found = cache.unpacked(&packed, &mut cache.opening(), |_| None).unwrap();
        assert!(matches!(found, Found::Object(object) if object.path.starts_with(&own)));
        // With all kernels that are in it, for this process and for others.
        assert!(matches!(find(&cache, &keys[1]), Found::Object(object) if object.path.starts_with(&own)));
        assert!(matches!(find(&open(&config), &keys[1]), Found::Object(object) if object.path.starts_with(&own)));
    }

    #[test]
    fn nothing_is_written_before_something_is_kept() {
        let (folder, config) = here("cache");
        let cache = open(&config);
        assert!(matches!(find(&cache, &digest::of_bytes(b"kernel")), Found::Missing));
        drop(cache);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn kernels_that_are_ready_are_found_and_left_alone() {
        let (folder, config) = here("cache");
        let key = digest::of_bytes(b"kernel");
        let ready = folder.path().join("ready");
        let object = keep(&Cache::ahead(&ready, &[], &target()).unwrap(), b"object", &key);
        let config = CacheConfig { ready: vec![ready.clone()], ..config };
        assert_eq!(config.targets(), [target()]);
        let cache = open(&config);
        assert!(matches!(find(&cache, &key), Found::Object(found) if found.path == object));
        let new = keep(&cache, b"other", &digest::of_bytes(b"another"));
        assert!(!new.starts_with(&ready), "{new:?}");
        let other = Target { isa: Isa::Neon, extras: vec![] };
        assert!(matches!(find(&Cache::open(&config, &other).unwrap(), &key), Found::Missing));
    }

    #[test]
    #[cfg(unix)]
    fn others_may_read_what_was_built_ahead() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, config) = here("cache");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let own = keep(&open(&config), b"object", "key");
        assert_eq!(mode(own.parent().unwrap()), 0o700);
        let ahead = keep(&Cache::ahead(&folder.path().join("ahead"), &[], &target()).unwrap(), b"object", "key");
        assert_eq!(mode(ahead.parent().unwrap()) & 0o055, 0o055);
        fs::write(folder.path().join("file"), "in the way").unwrap();
        assert!(Cache::ahead(&folder.path().join("file"), &[], &target()).unwrap().output().is_err());
    }

    #[test]
    #[cfg(unix)]
    fn what_a_killed_process_left_is_removed_a_day_later() {
        let (_folder, config) = here("cache");
        let cache = open(&config);
        let key = digest::of_bytes(b"kernel");
        keep(&cache, b"object", &key);
        let kept = cache.output().unwrap().folder().to_path_buf();
        let (old, new) = (kept.join("build-1-2-3"), kept.join("build-4-5-6"));
        for folder in [&old, &new] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("kernels.c"), "").unwrap();
        }
        let yesterday = std::time::SystemTime::now() - folder::ABANDONED - std::time::Duration::from_secs(60);
        fs::File::open(&old).and_then(|file| file.set_modified(yesterday)).unwrap();
        let cache = open(&config);
        cache.output().unwrap();
        assert!(!old.exists() && new.exists());
        assert!(matches!(find(&cache, &key), Found::Object(_)));
    }

    #[test]
    fn a_damaged_object_is_noticed_and_replaced() {
        let (_folder, config) = here("cache");
        let cache = open(&config);
        let key = digest::of_bytes(b"kernel");
        let object = keep(&cache, b"object", &key);
        fs::write(&object, b"obj").unwrap();
        assert!(matches!(find(&cache, &key), Found::Damaged(path) if path == object));
        keep(&cache, b"object", &key);
        assert!(matches!(find(&cache, &key), Found::Object(_)));
    }

    #[test]
    fn a_reference_cannot_lead_out_of_the_folder() {
        let (_folder, config) = here("cache");
        let cache = open(&config);
        let key = digest::of_bytes(b"kernel");
        fs::write(cache.output().unwrap().folder().join(format!("{key}.ref")), "../../evil").unwrap();
        assert!(matches!(find(&cache, &key), Found::Damaged(_)));
    }

    #[test]
    #[cfg(unix)]
    fn what_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, config) = here("cache");
        let key = digest::of_bytes(b"kernel");
        let object = keep(&open(&config), b"object", &key);
        let inner = object.parent().unwrap();
        let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for (path, good) in [(inner, 0o700), (folder.path(), 0o700)] {
            mode(path, 0o777);
            let error = Cache::open(&config, &target()).err().unwrap().to_string();
            assert!(error.contains(&format!("chmod go-w {}", path.display())), "{error}");
            assert_eq!(config.check().unwrap_err().to_string(), error);
            mode(path, good);
        }
        config.check().unwrap();
        for (path, good) in [(&object, 0o644), (&inner.join(format!("{key}.ref")), 0o644)] {
            mode(path, 0o664);
            let cache = open(&config);
            let error = cache.find(&key, &mut cache.opening()).err().unwrap().to_string();
            assert!(error.contains(&format!("{} can be changed by other users", path.display())), "{error}");
            assert!(error.contains(&format!("chmod -R go-w {}", inner.display())), "{error}");
            mode(path, good);
        }
        assert!(matches!(find(&open(&config), &key), Found::Object(_)));
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_kept_where_others_can_write() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, config) = here("outer/cache");
        let outer = folder.path().join("outer");
        fs::create_dir(&outer).unwrap();
        fs::set_permissions(&outer, fs::Permissions::from_mode(0o777)).unwrap();
        let output = open(&config).output().unwrap();
        let warning = output.warning().unwrap().to_string();
        assert!(warning.contains("compiled again at every start"), "{warning}");
        assert!(warning.contains(&format!("chmod go-w {}", outer.display())), "{warning}");
        assert!(!output.folder().starts_with(&outer));
        let ahead = Cache::ahead(&outer.join("ahead"), &[], &target()).unwrap();
        assert!(matches!(ahead.output(), Err(Error::Untrusted(_))));
    }

    #[test]
    fn a_folder_that_cannot_be_made_gives_a_warning_and_a_temporary_one() {
        let (folder, config) = here("file");
        fs::write(config.folder.as_ref().unwrap(), b"in the way").unwrap();
        let cache = open(&config);
        let output = cache.output().unwrap();
        let wanted = config.folder.clone().unwrap();
        assert!(matches!(output.warning(), Some(Warning::CacheUnusable { folder, .. }) if *folder == wanted));
        let place = output.folder().to_path_buf();
        assert!(place.starts_with(folder.path()) && place.is_dir());
        keep(&cache, b"object", &digest::of_bytes(b"kernel"));
        drop((cache, output));
        assert!(!place.exists());
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = Error::cache("write", Path::new("/cache/x.so"), full).to_string();
        assert!(error.contains("no space left in /cache"), "{error}");
    }
}
