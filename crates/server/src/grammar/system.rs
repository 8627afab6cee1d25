//! What the processes of grammars ask of the system: to fork, to pass sockets on, to have limits. Forking and signals
//! need `unsafe`; the rest is `rustix`.
//!
//! Memory is bounded on Linux only: elsewhere a process may have what the machine has.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Which of the two processes this is after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The new one.
    Child,
    /// The one that was there.
    Parent,
}

/// Makes a process that is a copy of this one, with this thread only.
pub fn fork() -> io::Result<Forked> {
    // SAFETY: the other threads of a process that forks wait, in `join` or in `poll`, and hold no lock then: the new one
    // may do whatever this thread may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent),
    }
}

/// Ends the process without running anything of it: a copy has nothing to tidy up.
pub fn exit() -> ! {
    // SAFETY: it does not come back, and leaves nothing half written that another process reads.
    unsafe { libc::_exit(0) }
}

/// Closes a socket whose owner is a thread of the process that this one was forked from.
pub fn close_inherited(socket: RawFd) {
    // SAFETY: that thread is not in this process: nobody else uses or closes the descriptor.
    unsafe { libc::close(socket) };
}

/// What a user or a supervisor sends to the whole group is for the server, whose end these processes hear of by their
/// sockets. Children are not waited for.
pub fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
        // SAFETY: to ignore a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Bytes of this process that are in memory; nothing where the system does not say.
pub fn resident() -> u64 {
    of_statm(1).unwrap_or(0)
}

/// Bytes of this process by their place in what Linux says of its pages: all of them, and those in memory.
fn of_statm(place: usize) -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(place)?.parse::<u64>().ok()? * rustix::param::page_size() as u64)
}

/// When the machine runs out of memory, these processes go first, and not the server. They leave no cores.
pub fn be_expendable() {
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    limit(Resource::Core, 0);
}

/// From here on the process gets so many bytes more.
pub fn limit_memory(more: u64) {
    #[cfg(target_os = "linux")]
    if let Some(all) = of_statm(0) {
        limit(Resource::As, all + more);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = more;
}

fn limit(resource: Resource, most: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(most, |maximum| most.min(maximum));
    // Nobody can be told where it fails, and the other limits still hold.
    let _ = setrlimit(resource, Rlimit { current: Some(current), maximum });
}

/// Processor time of this process.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waits until the other end of a socket is gone, for so long at most. Whether it is.
pub fn is_gone(socket: impl AsFd, wait: Option<Duration>) -> bool {
    // What is asked for is nothing: that an end is gone is always told.
    let mut polled = [PollFd::new(&socket, PollFlags::empty())];
    let wait = wait.map(|wait| Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() });
    let told = poll(&mut polled, wait.as_ref());
    told.is_ok_and(|count| count > 0) && !polled[0].revents().is_empty()
}

/// Passes a socket on, without waiting for room.
pub fn send_socket(over: &UnixStream, socket: &UnixStream) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(over, &[IoSlice::new(&[0])], &mut control, send_flags())?;
    Ok(())
}

#[cfg(not(target_vendor = "apple"))]
fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

#[cfg(target_vendor = "apple")]
fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT
}

/// Waits for a socket that is passed on; `None` when the other end is gone.
pub fn receive_socket(over: &UnixStream) -> io::Result<Option<UnixStream>> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let got = recvmsg(over, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty());
        match got {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
        }
        let sockets = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if let Some(socket) = sockets {
            return Ok(Some(UnixStream::from(socket)));
        }
    }
}

/// The socket that a process was started with as its input, which is then empty.
pub fn take_input() -> io::Result<UnixStream> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let socket = UnixStream::from(input);
    // Anything but a socket has no name.
    socket.local_addr()?;
    Ok(socket)
}
