//! Programs that are run for what they print and write: compilers.
//!
//! Each call has a time limit, a bound on what it may print, and a process group of its own, which ends with the call and
//! with this process, however that ends: the group begins with a shell that waits for the end of a pipe, whose other end
//! is held here alone, and then kills its group. So what a compiler has started ends with it. A program that leaves its
//! group to live on is not held; without `/bin/sh`, the group is left alone when this process is killed. The terminal's
//! Ctrl-C does not reach the group: `stop` is asked instead. On systems other than Unix only the program itself is run.

use std::io;
use std::process::{Command, Output};
use std::time::Duration;

use crate::host::stop::Stop;

/// Bytes that a program may print, to each of its two outputs: a hundred times what a compiler that lists all macros does.
const PRINTED: usize = 4 << 20;

/// When to end a program that has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) time: Duration,
    pub(crate) stop: Option<&'a Stop>,
}

/// Why a program has no outcome.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It could not be run.
    Failed(io::Error),
    /// It did not end in this time, and was ended.
    TimeLimit(Duration),
    /// It printed more than this many bytes, and was ended.
    Printed(usize),
    /// It was ended as was asked for.
    Stopped,
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed(error)
    }
}

#[cfg(unix)]
pub(crate) use system::output;

/// Runs a program to its end.
#[cfg(not(unix))]
pub(crate) fn output(command: &mut Command, _: Limits<'_>) -> Result<Output, Ended> {
    Ok(command.stdin(std::process::Stdio::null()).output()?)
}

#[cfg(unix)]
mod system {
    use super::{Command, Duration, Ended, Limits, Output, PRINTED, io};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    use std::io::{ErrorKind, Read};
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, ExitStatus, Stdio};
    use std::time::Instant;

    /// Waits for the end of its input, and then kills its group, itself included.
    const WATCH: &str = "read -r _; kill -9 0";

    /// How often limits and the program's end are looked at while it prints nothing.
    const TICK: Duration = Duration::from_millis(10);

    /// The same when its outputs are closed: it is about to end.
    const LAST_TICK: Duration = Duration::from_millis(1);

    /// A process group that ends with this value, and with this process.
    struct Group {
        id: Option<Pid>,
        watch: Option<Child>,
    }

    impl Group {
        fn new() -> Group {
            let mut watch = Command::new("/bin/sh");
            watch.args(["-c", WATCH]).env_clear().current_dir("/").process_group(0);
            watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let watch = watch.spawn().ok();
            Group { id: watch.as_ref().map(Pid::from_child), watch }
        }

        /// Starts a program in the group, or at the head of it.
        fn start(&mut self, command: &mut Command) -> io::Result<Child> {
            let child = command.process_group(self.id.map_or(0, |id| id.as_raw_nonzero().get())).spawn()?;
            self.id.get_or_insert(Pid::from_child(&child));
            Ok(child)
        }

        /// Ends all of it, and this program of it in any case. Neither it nor the first process of the group was waited
        /// for, so that their numbers are nobody else's.
        fn end(&self, mut child: Child) -> io::Result<ExitStatus> {
            if let Some(id) = self.id {
                let _ = kill_process_group(id, Signal::KILL);
            }
            let _ = child.kill();
            child.wait()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            if let Some(mut watch) = self.watch.take() {
                let _ = kill_process_group(Pid::from_child(&watch), Signal::KILL);
                let _ = watch.wait();
            }
        }
    }

    /// What a program prints to one of its outputs.
    struct Printed<R> {
        pipe: Option<R>,
        bytes: Vec<u8>,
    }

    impl<R: Read + AsFd> Printed<R> {
        /// Reading does not wait; a pipe of which that cannot be had is not read.
        fn new(pipe: Option<R>) -> Printed<R> {
            let pipe = pipe.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok());
            Printed { pipe, bytes: vec![] }
        }

        /// Takes what is there; the pipe is closed at its end.
        fn take(&mut self) -> Result<(), Ended> {
            let mut part = [0; 16 << 10];
            while let Some(pipe) = &mut self.pipe {
                match pipe.read(&mut part) {
                    Ok(0) => self.pipe = None,
                    Ok(_) if self.bytes.len() > PRINTED => return Err(Ended::Printed(PRINTED)),
                    Ok(bytes) => self.bytes.extend_from_slice(&part[..bytes]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }
    }

    /// Runs a program to its end or to a limit, and ends what it has left.
    pub(crate) fn output(command: &mut Command, limits: Limits<'_>) -> Result<Output, Ended> {
        let begin = Instant::now();
        let mut group = Group::new();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = group.start(command)?;
        let (mut out, mut err) = (Printed::new(child.stdout.take()), Printed::new(child.stderr.take()));
        let waited = wait(&child, &mut out, &mut err, begin, limits);
        // Others of the group may hold the pipes open; what is in them now is all that there is to read.
        let status = group.end(child);
        waited?;
        out.take()?;
        err.take()?;
        Ok(Output { status: status?, stdout: out.bytes, stderr: err.bytes })
    }

    /// Reads what a program prints until it has ended.
    fn wait(
        child: &Child,
        out: &mut Printed<impl Read + AsFd>,
        err: &mut Printed<impl Read + AsFd>,
        begin: Instant,
        limits: Limits<'_>,
    ) -> Result<(), Ended> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            pause(out, err);
            // Its end counts, even where this process was held up for longer than the limit.
            if waitid(WaitId::Pid(Pid::from_child(child)), ended).map_err(io::Error::from)?.is_some() {
                return Ok(());
            }
            out.take()?;
            err.take()?;
            if limits.stop.is_some_and(|stop| stop()) {
                return Err(Ended::Stopped);
            }
            if begin.elapsed() >= limits.time {
                return Err(Ended::TimeLimit(limits.time));
            }
        }
    }

    /// Waits until there is something to read, for a moment.
    fn pause(out: &Printed<impl AsFd>, err: &Printed<impl AsFd>) {
        let out = out.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let err = err.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let mut open: Vec<PollFd<'_>> = out.into_iter().chain(err).collect();
        if open.is_empty() {
            return std::thread::sleep(LAST_TICK);
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as _ };
        let _ = poll(&mut open, Some(&tick));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    /// Long enough that a test which waits for it fails.
    const LONG: Duration = Duration::from_secs(600);

    fn sh(script: &str, time: Duration, stop: Option<&Stop>) -> Result<Output, Ended> {
        output(Command::new("sh").args(["-c", script]), Limits { time, stop })
    }

    /// Whether a process runs; the system may not have cleared away one that has ended.
    #[cfg(target_os = "linux")]
    fn runs(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        state.is_some_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
    }

    #[test]
    fn what_is_printed_and_the_end_come_whole() {
        let script = "cat; head -c 300000 /dev/zero; echo no >&2; exit 3";
        let output = sh(script, LONG, None).unwrap();
        assert_eq!((output.status.code(), output.stdout.len(), &output.stderr[..]), (Some(3), 300_000, &b"no\n"[..]));
        assert!(matches!(output_of_nothing(), Err(Ended::Failed(_))));
    }

    fn output_of_nothing() -> Result<Output, Ended> {
        output(&mut Command::new("/nowhere/cc"), Limits { time: LONG, stop: None })
    }

    #[test]
    fn one_that_hangs_is_ended_in_time() {
        let limit = Duration::from_millis(200);
        for script in ["sleep 600", "sleep 600 & wait", "trap '' TERM INT HUP; exec >&- 2>&-; sleep 600"] {
            let start = Instant::now();
            assert!(matches!(sh(script, limit, None), Err(Ended::TimeLimit(time)) if time == limit), "{script}");
            assert!(start.elapsed() < LONG / 2);
        }
    }

    #[test]
    fn one_that_prints_without_end_is_ended() {
        for script in ["yes", "yes >&2", "yes & wait"] {
            assert!(matches!(sh(script, LONG, None), Err(Ended::Printed(PRINTED))), "{script}");
        }
    }

    #[test]
    fn it_is_ended_when_it_is_told_to() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let stop: Stop = Arc::new(move || count.fetch_add(1, Ordering::Relaxed) > 2);
        assert!(matches!(sh("sleep 600", LONG, Some(&stop)), Err(Ended::Stopped)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_it_has_started_ends_with_it_and_holds_nothing_up() {
        let start = Instant::now();
        let output = sh("sleep 600 & echo $!", LONG, None).unwrap();
        assert!(start.elapsed() < LONG / 2, "the pipes are held by another");
        let pid = String::from_utf8(output.stdout).unwrap();
        while runs(pid.trim()) {
            assert!(start.elapsed() < LONG / 10, "{pid} lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn one_that_leaves_its_group_holds_nothing_up() {
        let start = Instant::now();
        let output = sh("setsid sleep 600 & echo $!", LONG, None).unwrap();
        assert!(start.elapsed() < LONG / 2);
        let pid = String::from_utf8(output.stdout).unwrap();
        let _ = Command::new("kill").args(["-9", pid.trim()]).status();
    }
}
