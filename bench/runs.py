"""Runs programs to be measured: one at a time on the machine, with the model in the page cache, and with what the
system counted for them."""

import contextlib
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile
import time

# The lock that `kernloom bench` takes; the peer runs under it too, so that nobody measures at the same time.
LOCK = pathlib.Path("/tmp/kernloom-measuring.lock")


class Failed(Exception):
    """A program did not do what it was asked for."""


def read_into_page_cache(path):
    """Reads a file to the end; seconds that it took."""
    started = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(16 << 20)
        while file.readinto(buffer):
            pass
    return time.monotonic() - started


@contextlib.contextmanager
def measuring_lock():
    """One measurement at a time on this machine."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def run(command):
    """Runs a program; its output and what the system counted for it and the programs that it waited for. The peak has
    mapped pages of the model in it, and is never below that of this script. `first_output` are the seconds from the
    start of the process to its first byte, or to its end if there is none."""
    with tempfile.TemporaryFile() as err:
        started = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, bufsize=0)
        except OSError as error:
            raise Failed(f"{command[0]} cannot be started: {error.strerror}") from None
        text = process.stdout.read(1)
        first = time.monotonic() - started
        text += process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        if process.returncode != 0:
            last = "\n".join(err.read().decode(errors="replace").splitlines()[-10:])
            raise Failed(f"{pathlib.Path(command[0]).name} ended with {process.returncode}:\n{last}")
        counted = {"seconds": round(seconds, 3), "first_output": round(first, 3), "major_faults": usage.ru_majflt,
                   "minor_faults": usage.ru_minflt, "peak_mib": usage.ru_maxrss // 1024,
                   "involuntary_switches": usage.ru_nivcsw}
        return text.decode(errors="replace"), counted


# Repetitions of a run that waited for the disk, before it counts.
REPEATED = 3


def warm(measure, say):
    """The result of a measurement without major faults, or the last of a few: where the file and what else there is
    barely fit into memory, pages are dropped between reading the file and measuring. Tells `say` of each that does not
    count; the result has the number of those."""
    for repeated in range(REPEATED + 1):
        result = measure()
        if not result["major_faults"] or repeated == REPEATED:
            return {**result, "repeated": repeated}
        say(result)


@contextlib.contextmanager
def neighbour(spins):
    """A process that keeps one core busy, if it is wanted."""
    if not spins:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
