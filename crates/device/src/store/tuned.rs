//! Plans of kernels that a search has found on this machine, in the folder of compiled kernels.
//!
//! There is a file for each target and processor or card. It says of what it holds a digest, so that a file that is damaged or
//! was cut off is found out; it is then as if there were none. It appears by a rename.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use compiler::{KernelKey, Setting, Tuned};

use crate::cpu::isa::Target;
use crate::error::{Error, Result};
use crate::host::processor;
use crate::store::cache::{CacheConfig, Warning};
use crate::store::digest;
use crate::store::folder;
use crate::store::publish::{self, FRESH, PRIVATE};
use crate::store::trust::{Trust, Unopened};

/// Changes whenever files of older versions would be misread.
const LAYOUT: &str = "tuned-3";

/// What a file begins with.
const HEAD: &str = "kernloom tuned plans";

/// Digits of the machine's digest in the name of a file.
const NAME: usize = 16;

/// The plans that were found for a target on this processor or card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedPlans {
    file: PathBuf,
    machine: String,
    trust: Trust,
}

impl TunedPlans {
    /// Those for this processor in the folder of compiled kernels; `None` if kernels are not kept.
    pub fn of_processor(config: &CacheConfig, target: &Target) -> Option<TunedPlans> {
        TunedPlans::of(config, &format!("{}-{target}", target.isa.architecture()), processor::identity())
    }

    /// As [`TunedPlans::of_processor`], for a machine that this line says all about that plans follow from, and for what its
    /// kernels are compiled for.
    pub fn of(config: &CacheConfig, target: &str, machine: String) -> Option<TunedPlans> {
        let folder = config.folder.as_ref()?;
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).join(LAYOUT);
        let name = &digest::of_bytes(machine.as_bytes())[..NAME];
        let file = folder.join(format!("{target}-{name}"));
        Some(TunedPlans { file, machine: machine.replace('\n', " "), trust: Trust::with(&config.trusted) })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The plans; none if no search was made.
    ///
    /// # Errors
    /// [`Warning::TunedIgnored`] for a file that cannot be read, is damaged, or may have been changed by others.
    pub fn read(&self) -> Result<Tuned, Warning> {
        let ignored = |reason: String| Warning::TunedIgnored { file: self.file.clone(), reason };
        let mut text = String::new();
        let read = match self.trust.clone().open(&self.file) {
            Ok(mut opened) => opened.file.read_to_string(&mut text),
            Err(Unopened::Refused(refusal)) => return Err(ignored(refusal.to_string())),
            Err(Unopened::Io(error)) => Err(error),
        };
        match read {
            Ok(_) => self.parse(&text).ok_or_else(|| ignored("it is damaged".into())),
            // Nor is there anything where a file stands in the way of the folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Tuned::default())
            }
            Err(error) => Err(ignored(error.to_string())),
        }
    }

    /// Checks that plans can be kept, before time is spent on finding some.
    ///
    /// # Errors
    /// [`Error::Cache`] for a folder that cannot be made or written, [`Error::Untrusted`] for one that others can change.
    pub fn prepare(&self) -> Result<()> {
        let folder = self.folder();
        folder::prepare(folder, PRIVATE, self.trust.clone())
            .map_err(|error| Error::unopened("write", folder, error))?;
        folder::sweep(folder, &[FRESH]);
        Ok(())
    }

    /// Keeps plans of some kernels, or that they need none of their own; what is there of others stays.
    ///
    /// # Errors
    /// [`Error::Cache`] and [`Error::DiskFull`].
    pub fn keep(&self, found: &BTreeMap<KernelKey, Option<Setting>>) -> Result<()> {
        let mut all = self.read().unwrap_or_default();
        for (&key, setting) in found {
            match setting {
                Some(setting) => all.0.insert(key, *setting),
                None => all.0.remove(&key),
            };
        }
        publish::file(&self.file, self.text(&all).as_bytes()).map_err(|error| Error::cache("write", &self.file, error))
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(&self.file)
    }

    fn text(&self, all: &Tuned) -> String {
        let mut plans = String::new();
        for (KernelKey(key), setting) in &all.0 {
            let _ = writeln!(plans, "{key:016x} {setting}");
        }
        format!("{HEAD}\n{}\n{}\n{plans}", self.machine, self.digest(&plans))
    }

    fn parse(&self, text: &str) -> Option<Tuned> {
        let mut parts = text.splitn(4, '\n');
        let (head, machine, digest, plans) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if head != HEAD || machine != self.machine || digest != self.digest(plans) {
            return None;
        }
        let plan = |line: &str| {
            let (key, setting) = line.split_once(' ')?;
            Some((KernelKey(u64::from_str_radix(key, 16).ok()?), setting.parse().ok()?))
        };
        Some(Tuned(plans.lines().map(plan).collect::<Option<_>>()?))
    }

    fn digest(&self, plans: &str) -> String {
        digest::of_parts([self.machine.as_bytes(), plans.as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Isa;
    use crate::store::folder::BuildFolder;
    use compiler::{Numerics, Options};
    use std::fs;

    fn here() -> (BuildFolder, TunedPlans) {
        let folder = BuildFolder::new(&std::env::temp_dir(), "kernloom-test").unwrap();
        let config = CacheConfig {
            folder: Some(folder.path().join("cache")),
            ready: vec![],
            packs: vec![],
            trusted: vec![],
            temporary: folder.path().to_path_buf(),
        };
        let plans = TunedPlans::of_processor(&config, &Target { isa: Isa::Avx2, extras: vec![] }).unwrap();
        (folder, plans)
    }

    fn settings() -> Vec<Setting> {
        let [cpu, gpu] =
            [Options::cpu(Numerics::Int8, 32), Options::gpu(Numerics::Int8)].map(|options| options.machine);
        let neighbours = |machine| Setting::of(machine).neighbours(machine).into_iter();
        neighbours(&cpu).zip(neighbours(&gpu)).flat_map(|(cpu, gpu)| [cpu, gpu]).collect()
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let (_folder, plans) = here();
        assert_eq!(plans.read(), Ok(Tuned::default()), "no file is no search");
        plans.prepare().unwrap();
        let all = settings();
        plans.keep(&[(KernelKey(1), Some(all[0])), (KernelKey(u64::MAX), Some(all[1]))].into()).unwrap();
        plans.keep(&[(KernelKey(1), None), (KernelKey(7), Some(all[2]))].into()).unwrap();
        let want = Tuned([(KernelKey(u64::MAX), all[1]), (KernelKey(7), all[2])].into());
        assert_eq!(plans.read(), Ok(want));
    }

    #[test]
    fn what_is_damaged_is_ignored_with_a_reason() {
        let (_folder, plans) = here();
        plans.prepare().unwrap();
        plans.keep(&[(KernelKey(1), Some(settings()[0]))].into()).unwrap();
        let whole = fs::read_to_string(plans.file()).unwrap();
        let other = TunedPlans { machine: "another".into(), ..plans.clone() };
        for text in [
            &whole[..whole.len() - 3],
            "",
            "\n\n\n\n",
            &whole.replace("rows=", "rows=9"),
            &other.text(&Tuned::default()),
        ] {
            fs::write(plans.file(), text).unwrap();
            let warning = plans.read().unwrap_err().to_string();
            assert!(warning.contains("damaged"), "{warning}");
        }
        fs::write(plans.file(), [0xff, 0xfe]).unwrap();
        assert!(plans.read().is_err());
        plans.keep(&[(KernelKey(2), Some(settings()[1]))].into()).unwrap();
        assert_eq!(plans.read().unwrap().0.len(), 1, "the next search begins afresh");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_before_the_search() {
        let (folder, plans) = here();
        fs::write(folder.path().join("cache"), "a file where the folder should be").unwrap();
        let error = plans.prepare().unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains(LAYOUT), "{error}");
    }
}
