#!/usr/bin/env python3
"""Speed of kernloom beside llama-bench on the same files, alternating.

For each model, and for each setting of the peer (repack x flash attention), the two programs take turns: A, B, A, B.
Before each timed run the model file is read into the page cache, since the peer's repacked copy may have pushed it
out. Major page faults of each run are reported: where they are not 0, the run measured the disk. One run of each side
comes first and is not counted; it fills kernloom's kernel cache and brings both programs into memory.

Usually started by compare.sh, which builds both programs. Exit code: 0, or 1 if a timed run of kernloom had major
faults or a program failed.
"""

import argparse
import contextlib
import datetime
import fcntl
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

# The lock that `kernloom bench` takes; the peer runs under it too, so that nobody measures at the same time.
LOCK = pathlib.Path("/tmp/kernloom-measuring.lock")


class Failed(Exception):
    """A program did not do what it was asked for."""


def arguments():
    parser = argparse.ArgumentParser(prog="bench/compare.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom", help="the program (compare.sh gives it)")
    parser.add_argument("--llama-bench", help="the peer's program (compare.sh gives it)")
    parser.add_argument("--folder", default="target/compare", help="where models and results go")
    parser.add_argument("--model", action="append", default=[], metavar="ARCH:QUANT",
                        help="a model to make with `kernloom synth`; may be repeated (default glm-4.7-flash:q4_0, 17 GB)")
    parser.add_argument("--file", action="append", default=[], metavar="GGUF", help="a model file that is there already")
    parser.add_argument("-p", "--prompt", default="0", help="prompt tokens of the prefill test, 0 for none (default 0)")
    parser.add_argument("-n", "--gen", default="32", help="tokens of the decode test, 0 for none (default 32)")
    parser.add_argument("-d", "--depth", default="0", help="tokens in the cache before a test; a list such as 0,4096")
    parser.add_argument("-r", "--repeat", default="3", help="repetitions of a test inside one run (default 3)")
    parser.add_argument("-t", "--threads", default="2", help="threads of both (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each pair takes turns (default 3)")
    parser.add_argument("--repack", default="1,0", help="settings of the peer's --repack (default 1,0)")
    parser.add_argument("--fa", default="0,1", help="settings of the peer's -fa (default 0,1)")
    parser.add_argument("--json", help="where the result goes (default a dated file in the folder)")
    return parser.parse_args()


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
    mapped pages of the model in it, and is never below that of this script."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            last = "\n".join(err.read().decode(errors="replace").splitlines()[-10:])
            raise Failed(f"{pathlib.Path(command[0]).name} ended with {process.returncode}:\n{last}")
        counted = {"seconds": round(seconds, 3), "major_faults": usage.ru_majflt, "minor_faults": usage.ru_minflt,
                   "peak_mib": usage.ru_maxrss // 1024, "involuntary_switches": usage.ru_nivcsw}
        return out.read().decode(), counted


def label(row):
    """A test by llama-bench's name for it, for example `tg128 @ d4096`."""
    prompt, gen, depth = (int(row.get(key) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
    name = "+".join(text for text, n in ((f"pp{prompt}", prompt), (f"tg{gen}", gen)) if n)
    return f"{name} @ d{depth}" if depth else name


def speeds(text, command):
    """Median tokens a second of each test in the JSON of a bench command."""
    try:
        rows = json.loads(text)
        return {label(row): statistics.median(row.get("samples_ts") or [row["avg_ts"]]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{pathlib.Path(command[0]).name} printed no bench table in JSON: {error}") from error


class Bench:
    """The two programs on one model."""

    def __init__(self, args, model):
        self.args, self.model = args, model
        self.tests = ["-m", str(model), "-p", args.prompt, "-n", args.gen, "-d", args.depth, "-t", args.threads,
                      "-o", "json"]

    def kernloom(self, repeat):
        # It takes the lock itself.
        return self.timed([self.args.kernloom, "bench", *self.tests, "-r", repeat], contextlib.nullcontext())

    def peer(self, setting, repeat):
        repack, fa = setting
        command = [self.args.llama_bench, *self.tests, "-r", repeat, "--repack", repack, "-fa", fa, "-ngl", "0"]
        return self.timed(command, measuring_lock())

    def timed(self, command, lock):
        with lock:
            reading = read_into_page_cache(self.model)
            text, counted = run(command)
        return {"speeds": speeds(text, command), "page_cache_seconds": round(reading, 3), **counted}


def name_of(setting):
    return f"repack {setting[0]} fa {setting[1]}"


def line(side, result):
    tests = "  ".join(f"{test} {speed:.2f}" for test, speed in result["speeds"].items())
    print(f"  {side:<24} {tests} tok/s   major faults {result['major_faults']}, peak {result['peak_mib']} MiB, "
          f"{result['seconds']:.1f} s", flush=True)


def compare(args, model):
    """All runs of one model, in the order in which they ran."""
    bench = Bench(args, model)
    settings = list(itertools.product(args.repack.split(","), args.fa.split(",")))
    print(f"{model.name}, {model.stat().st_size / 1e9:.2f} GB, {args.threads} threads", flush=True)
    line("kernloom, not counted", bench.kernloom("1"))
    line("llama.cpp, not counted", bench.peer(settings[0], "1"))
    pairs = []
    for number in range(args.rounds):
        for setting in settings:
            ours = bench.kernloom(args.repeat)
            line("kernloom", ours)
            theirs = bench.peer(setting, args.repeat)
            line(name_of(setting), theirs)
            pairs.append({"round": number, "setting": name_of(setting), "kernloom": ours, "llama.cpp": theirs})
    return {"model": model.name, "bytes": model.stat().st_size, "threads": int(args.threads), "pairs": pairs,
            "summary": summarise(pairs)}


def summarise(pairs):
    """Medians and ratios of each test. A ratio is taken of two runs side by side, so that a machine that gets slower
    slows both; its spread says how far to believe it."""
    summary = {}
    tests = list(pairs[0]["kernloom"]["speeds"])
    for test in tests:
        by_setting = {}
        for pair in pairs:
            if test not in pair["llama.cpp"]["speeds"] or test not in pair["kernloom"]["speeds"]:
                raise Failed(f"one side did not run {test}; kernloom ran {tests}, "
                             f"llama-bench ran {list(pair['llama.cpp']['speeds'])}")
            ours, theirs = pair["kernloom"]["speeds"][test], pair["llama.cpp"]["speeds"][test]
            by_setting.setdefault(pair["setting"], []).append((ours, theirs))
        rows = {}
        for setting, both in by_setting.items():
            ratios = [ours / theirs for ours, theirs in both]
            rows[setting] = {"kernloom": statistics.median(ours for ours, _ in both),
                             "llama.cpp": statistics.median(theirs for _, theirs in both),
                             "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        best = max(rows, key=lambda setting: rows[setting]["llama.cpp"])
        summary[test] = {"settings": rows, "best": best}
    return summary


def report(result):
    print(f"\n| {result['model']} | llama.cpp | kernloom tok/s | llama.cpp tok/s | ratio | least..most |")
    print("|---|---|---|---|---|---|")
    for test, entry in result["summary"].items():
        for setting, row in entry["settings"].items():
            mark = " (its best)" if setting == entry["best"] else ""
            print(f"| {test} | {setting}{mark} | {row['kernloom']:.2f} | {row['llama.cpp']:.2f} | {row['ratio']:.3f} | "
                  f"{row['least']:.3f}..{row['most']:.3f} |")
    print(flush=True)


def faults(results, side):
    return sum(pair[side]["major_faults"] for result in results for pair in result["pairs"])


def processor():
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for text in file:
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def models(args):
    """The files to measure; those to make are made."""
    made = args.model or ([] if args.file else ["glm-4.7-flash:q4_0"])
    for name in made:
        arch, _, quant = name.partition(":")
        if not quant:
            raise Failed(f"--model {name}: expected ARCH:QUANT, for example glm-4.7-flash:q4_0")
        path = pathlib.Path(args.folder) / f"{arch}-{quant}.gguf"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            run([args.kernloom, "synth", arch, "--quant", quant, "--out", str(part)])
            part.rename(path)
        yield path
    for name in args.file:
        path = pathlib.Path(name)
        if not path.is_file():
            raise Failed(f"--file {name}: there is no such file")
        yield path


def main():
    args = arguments()
    if not args.kernloom or not args.llama_bench:
        raise Failed("--kernloom and --llama-bench are missing; bench/compare.sh builds both and gives them")
    now = datetime.datetime.now(datetime.timezone.utc)
    results = []
    for model in models(args):
        results.append(compare(args, model))
        report(results[-1])
    ours, theirs = faults(results, "kernloom"), faults(results, "llama.cpp")
    whole = {"date": now.isoformat(timespec="seconds"), "processor": processor(), "system": platform.platform(),
             "cores": len(os.sched_getaffinity(0)), "repeat": int(args.repeat), "rounds": args.rounds,
             "major_faults": {"kernloom": ours, "llama.cpp": theirs}, "models": results}
    path = pathlib.Path(args.json or pathlib.Path(args.folder) / f"compare-{now:%Y%m%d-%H%M%S}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    print(f"every run: {path}")
    print(f"major faults in timed runs: kernloom {ours}, llama.cpp {theirs}")
    if theirs:
        print("llama.cpp waited for the disk: its copy and the file may not fit into memory together; do not quote a "
              "ratio of such a run")
    if ours:
        raise Failed("kernloom waited for the disk: the numbers above do not count")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"compare: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
