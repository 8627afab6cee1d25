"""What a process and all that it has started hold: memory, descriptors, processor time. Linux only."""

import os

TICKS = os.sysconf("SC_CLK_TCK")


def family(pid):
    """The process and its descendants."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def holds(pid):
    """MiB in memory, threads and processes of all, and descriptors of the first: grammars that are kept have a process each,
    with a few of its own. What ends meanwhile holds nothing."""
    memory = descriptors = threads = processes = 0
    for one in family(pid):
        try:
            with open(f"/proc/{one}/status") as status:
                fields = dict(line.split(":", 1) for line in status)
            if one == pid:
                descriptors = len(os.listdir(f"/proc/{one}/fd"))
            memory += int(fields["VmRSS"].split()[0]) / 1024
            threads += int(fields["Threads"])
            processes += 1
        except (OSError, KeyError):
            continue
    return {"memory": memory, "descriptors": descriptors, "threads": threads, "processes": processes}


def processor(pid):
    """Seconds of processor time of those that live."""
    total = 0
    for one in family(pid):
        try:
            with open(f"/proc/{one}/stat") as stat:
                total += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return total / TICKS
