//! One measurement at a time on a machine.
//!
//! An advisory lock on a file that all users share. The system releases it
//! when its holder ends, however that happens. The holder's process and
//! command line stand in the file, so that who waits can say for whom; only
//! who made the file can write there, and the others lock it all the same.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::publish;

/// Who holds a lock, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its process.
    pub pid: Option<u32>,
    /// Its command line; empty if it has not written it yet.
    pub command: String,
}

impl Holder {
    fn this_process() -> Holder {
        let words: Vec<_> =
            std::env::args_os().map(|word| word.to_string_lossy().replace(char::is_control, " ")).collect();
        Holder { pid: Some(std::process::id()), command: words.join(" ") }
    }

    fn read(file: &mut File) -> Holder {
        let mut text = String::new();
        let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(4096).read_to_string(&mut text));
        let (pid, command) = match read {
            Ok(_) => text.split_once(' ').unwrap_or_default(),
            Err(_) => Default::default(),
        };
        // Who locks a file of another user leaves there what it found.
        match pid.parse().ok().filter(|&pid| system::is_there(pid)) {
            Some(pid) => Holder { pid: Some(pid), command: command.trim().replace(char::is_control, " ") },
            None => Holder::default(),
        }
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let text = format!("{} {}\n", self.pid.unwrap_or(0), self.command);
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text.as_bytes())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} ({})", self.command),
            None => f.write_str("an unknown process"),
        }
    }
}

/// The lock; held as long as this lives.
#[derive(Debug)]
pub struct MachineLock {
    file: File,
    path: PathBuf,
}

impl MachineLock {
    /// The file that benchmarks of all users agree on.
    pub fn default_path() -> PathBuf {
        if cfg!(unix) {
            // Not the folder of the environment, which differs by user.
            PathBuf::from("/tmp/kernloom-measuring.lock")
        } else {
            std::env::temp_dir().join("kernloom-measuring.lock")
        }
    }

    /// Takes the lock; waits for it if need be, after telling `waiting` for
    /// whom.
    ///
    /// # Errors
    /// [`Error::Lock`] if the file cannot be opened or locked.
    pub fn acquire(path: &Path, waiting: impl FnOnce(&Holder)) -> Result<MachineLock> {
        let failed = |source| Error::Lock { path: path.into(), source };
        let mut file = open(path).map_err(failed)?;
        if !lock(&file, false).map_err(failed)? {
            waiting(&Holder::read(&mut file));
            lock(&file, true).map_err(failed)?;
        }
        MachineLock::held(file, path)
    }

    /// Takes the lock if nobody has it; else says who does.
    ///
    /// # Errors
    /// As [`MachineLock::acquire`].
    pub fn try_acquire(path: &Path) -> Result<std::result::Result<MachineLock, Holder>> {
        let failed = |source| Error::Lock { path: path.into(), source };
        let mut file = open(path).map_err(failed)?;
        if !lock(&file, false).map_err(failed)? {
            return Ok(Err(Holder::read(&mut file)));
        }
        MachineLock::held(file, path).map(Ok)
    }

    fn held(mut file: File, path: &Path) -> Result<MachineLock> {
        // The name of the holder is a courtesy: a file of another user that
        // can only be read still locks.
        let _ = Holder::this_process().write(&mut file);
        Ok(MachineLock { file, path: path.into() })
    }

    /// The file of the lock.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MachineLock {
    fn drop(&mut self) {
        // Closing the file releases the lock. The file itself stays: whoever
        // waits for it holds it open, and a new one would be another lock.
        let _ = self.file.set_len(0);
    }
}

/// Locks the file; says whether it is locked now.
fn lock(file: &File, wait: bool) -> io::Result<bool> {
    loop {
        let locked = if wait { file.lock().map_err(TryLockError::Error) } else { file.try_lock() };
        match locked {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Opens the file for all users, making it if needed.
fn open(path: &Path) -> io::Result<File> {
    loop {
        // Not one call that opens or creates: in a folder such as /tmp the
        // system refuses that for a file of another user.
        match existing(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

fn existing(path: &Path) -> io::Result<File> {
    let options = |write| {
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        system::no_links(&mut options);
        options
    };
    let file = match options(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => options(false).open(path),
        opened => opened,
    }?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(file)
}

fn create(path: &Path) -> io::Result<File> {
    let file = publish::create(path)?;
    system::share(&file)?;
    Ok(file)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    pub(super) fn no_links(options: &mut OpenOptions) {
        // Nor is a pipe waited for.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }

    /// Lets all users read the file, which is enough to lock it, whatever the mask of this process.
    pub(super) fn share(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(0o644))
    }

    /// Whether there is such a process, whoever it belongs to.
    pub(super) fn is_there(pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io;

    pub(super) fn no_links(_options: &mut OpenOptions) {}

    pub(super) fn share(_file: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn is_there(_: u32) -> bool {
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("kernloom-{name}-{}.lock", std::process::id()))
    }

    #[test]
    fn the_second_waits_and_knows_for_whom() {
        let path = path("second");
        let first = MachineLock::acquire(&path, |_| panic!("nobody holds it")).unwrap();
        let holder = MachineLock::try_acquire(&path).unwrap().unwrap_err();
        assert_eq!(holder, Holder::this_process());
        assert!(holder.to_string().contains(&std::process::id().to_string()));
        let (send, receive) = mpsc::channel();
        let waiter = {
            let path = path.clone();
            std::thread::spawn(move || {
                let told = send.clone();
                let lock = MachineLock::acquire(&path, |holder| {
                    told.send(holder.to_string()).unwrap();
                });
                send.send("got it".into()).unwrap();
                lock.unwrap()
            })
        };
        assert!(receive.recv().unwrap().starts_with("process"));
        assert!(receive.recv_timeout(Duration::from_millis(50)).is_err());
        drop(first);
        assert_eq!(receive.recv().unwrap(), "got it");
        drop(waiter.join().unwrap());
        assert!(MachineLock::try_acquire(&path).unwrap().is_ok());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_killed_holder_releases_it() {
        let path = path("killed");
        File::create(&path).unwrap();
        let mut command = Command::new("flock");
        command.arg("-F").arg(&path).args(["sleep", "60"]);
        let Ok(mut holder) = command.spawn() else {
            return; // No such tool.
        };
        let stranger = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            MachineLock::try_acquire(&path).unwrap().err()
        });
        assert_eq!(stranger.unwrap().to_string(), "an unknown process");
        holder.kill().unwrap();
        holder.wait().unwrap();
        let lock = MachineLock::acquire(&path, |_| panic!("nobody holds it")).unwrap();
        assert_eq!(lock.path(), path);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_link_is_not_followed() {
        let path = path("link");
        std::os::unix::fs::symlink("/nowhere/else", &path).unwrap();
        assert!(MachineLock::try_acquire(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
