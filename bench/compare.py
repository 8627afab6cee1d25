#!/usr/bin/env python3
"""Speed of kernloom beside llama.cpp on the same files, alternating.

For each row and each setting of the peer (repack x flash attention) the two programs take turns: A, B, A, B. Before
each timed run the model file is read into the page cache, since the peer's repacked copy may have pushed it out. A run
with major page faults measured the disk: it is repeated up to three times before it counts, and reported if the faults
stay. One run of each side comes first and is not counted; it fills kernloom's kernel cache and brings both programs into
memory.

Rows (--rows all, or a list):
  decode        tokens one by one, nothing in the cache
  formats       the same in other block formats
  depth         the same behind 4096 and 16384 tokens
  prefill       a prompt of 512 tokens
  long-prefill  prompts of 512 and 4096 tokens, and what the longer keeps of the speed of the shorter
  batch         8 sequences that decode together, all their tokens a second (llama-batched-bench)
  first         process start to first text, after a prompt of 16 tokens, in seconds (llama-completion)
  neighbour     share of the speed that is left beside a process that spins; each side against itself. Ours has to be 45%
                at least
  avx2          kernloom with AVX2 and nothing more (--isa x86-64-v3) against itself with all that the machine has;
                llama.cpp has no part in this row
Without --rows, the test is what -p, -n and -d say. What the machine can do is measured by `kernloom bench --machine`
before and after, and each test has a ceiling from that, for both sides the same: the least time that its bytes take at
the read bandwidth, its linear layers at 8/11 of the integer peak (or in the matrix unit, where there is one) and its
attention at the f32 peak. ceilings.py has the formula.

Usually started by compare.sh, which builds both programs. Writes JSON and an SVG chart. Exit code: 0, or 1 if a timed
run of kernloom had major faults that stayed, a program failed, or a row missed what it has to reach.
"""

import argparse
import contextlib
import datetime
import functools
import json
import os
import pathlib
import platform
import statistics
import sys

import ceilings
import chart
import rows as kinds
import runs
from runs import Failed


def arguments():
    parser = argparse.ArgumentParser(prog="bench/compare.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom", help="the program (compare.sh gives it)")
    parser.add_argument("--peer", help="a build folder of llama.cpp, with bin/llama-bench and its like (compare.sh "
                                       "builds one if none is given)")
    parser.add_argument("--folder", default="target/compare", help="where models and results go")
    parser.add_argument("--rows", help=f"all, or some of {', '.join(kinds.ROWS)}")
    parser.add_argument("--model", action="append", default=[], metavar="ARCH:QUANT",
                        help="a model to make with `kernloom synth` instead of those of the rows; may be repeated")
    parser.add_argument("--file", action="append", default=[], metavar="GGUF", help="a model file that is there already")
    parser.add_argument("-p", "--prompt", help="prompt tokens, 0 for none; a list is possible")
    parser.add_argument("-n", "--gen", help="tokens to decode, 0 for none (default 32)")
    parser.add_argument("-d", "--depth", help="tokens in the cache before a test; a list such as 0,4096")
    parser.add_argument("--sequences", default="8", help="sequences of the row batch (default 8)")
    parser.add_argument("-r", "--repeat", default="3", help="repetitions of a test inside one run (default 3)")
    parser.add_argument("-t", "--threads", default="2", help="threads of both (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each pair takes turns (default 3)")
    parser.add_argument("--repack", default="1,0", help="settings of the peer's --repack (default 1,0)")
    parser.add_argument("--fa", default="0,1", help="settings of the peer's -fa (default 0,1)")
    parser.add_argument("--isa", help="level of instructions of kernloom's kernels, such as x86-64-v3 (default the best); "
                                      "shares refer to what the machine can do with it")
    parser.add_argument("--best", action="store_true",
                        help="try each setting of the peer once, uncounted, and alternate with the best of a test only")
    parser.add_argument("--json", help="where the result goes (default a dated file in the folder)")
    parser.add_argument("--svg", help="where the chart goes (default beside the JSON)")
    args = parser.parse_args()
    if not args.kernloom or not args.peer:
        raise Failed("--kernloom and --peer are missing; bench/compare.sh builds both and gives them")
    args.bin = lambda name: str(pathlib.Path(args.peer) / "bin" / name)
    return args


def work(args):
    """The rows to measure: name, model, and the object that measures."""
    if args.rows is None:
        wanted = [("custom", (args.model or ([] if args.file else [kinds.GLM]), "0", "32", "0"))]
    else:
        names = list(kinds.ROWS) if args.rows == "all" else args.rows.split(",")
        unknown = [name for name in names if name not in kinds.ROWS]
        if unknown:
            raise Failed(f"--rows {unknown[0]}: there is no such row ({', '.join(kinds.ROWS)})")
        wanted = [(name, kinds.ROWS[name]) for name in names]
    for name, (models, prompt, gen, depth) in wanted:
        models = args.model if args.model or args.file else models
        for path in [*(made(args, model) for model in models), *map(there, args.file)]:
            kind = kinds.KINDS.get(name, kinds.Speed)
            # What a row is about is not replaced by an option for all rows: no prompt in a row about decoding.
            given = [option if option is not None and default != "0" or name == "custom" and option else default
                     for option, default in ((args.prompt, prompt), (args.gen, gen), (args.depth, depth))]
            yield name, path, kind(args, path, *given)


def made(args, name):
    """The file of a model that `synth` makes, made now if it is not there."""
    arch, _, quant = name.partition(":")
    if not quant:
        raise Failed(f"--model {name}: expected ARCH:QUANT, for example {kinds.GLM}")
    path = pathlib.Path(args.folder) / f"{arch}-{quant}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        runs.run([args.kernloom, "synth", arch, "--quant", quant, "--out", str(part)])
        part.rename(path)
    return path


def there(name):
    path = pathlib.Path(name)
    if not path.is_file():
        raise Failed(f"--file {name}: there is no such file")
    return path


def line(side, result, unit):
    tests = "  ".join(f"{test} {value:.3g}" for test, value in result["values"].items())
    print(f"  {side:<24} {tests} {unit}   major faults {result['major_faults']}, peak {result['peak_mib']} MiB, "
          f"{result['seconds']:.1f} s", flush=True)


def is_better(job, one, other):
    return one > other if job.more_is_better else one < other


def settings_that_work(args, job):
    """Settings of the other side, each tried once; with --best those that are the best of some test."""
    tried = {}
    for setting in job.settings():
        if tried and not args.best:
            tried[setting] = None
            continue
        try:
            tried[setting] = job.theirs(setting)
            line(f"{job.name_of(setting)}, not counted", tried[setting], job.unit)
        except Failed as failure:
            print(f"  {job.name_of(setting)} fails: {' '.join(str(failure).split())[:200]}", flush=True)
    if not tried:
        raise Failed(f"{job.other} runs with none of its settings")
    if not args.best:
        return list(tried)
    best = {}
    for setting, result in tried.items():
        for test, value in result["values"].items():
            if test not in best or is_better(job, value, best[test][0]):
                best[test] = (value, setting)
    return list(dict.fromkeys(setting for _, setting in best.values()))


def alternate(args, name, model, job):
    """All runs of one row, in the order in which they ran."""
    print(f"{name}: {model.name}, {model.stat().st_size / 1e9:.2f} GB, {args.threads} threads", flush=True)
    line("kernloom, not counted", job.ours(), job.unit)
    settings = settings_that_work(args, job)
    pairs = []
    for number in range(args.rounds):
        for setting in list(settings):
            ours = runs.warm(job.ours, lambda result: line("kernloom, again", result, job.unit))
            line("kernloom", ours, job.unit)
            theirs_name = job.name_of(setting)
            try:
                theirs = runs.warm(lambda: job.theirs(setting),
                                   lambda result: line(f"{theirs_name}, again", result, job.unit))
            except Failed as failure:
                print(f"  {job.name_of(setting)} fails: {' '.join(str(failure).split())[:200]}", flush=True)
                settings.remove(setting)
                continue
            line(theirs_name, theirs, job.unit)
            pairs.append({"round": number, "setting": theirs_name, "kernloom": ours, "other": theirs})
    if not pairs:
        raise Failed(f"{job.other} ran with none of its settings")
    return pairs


def summarise(name, model, job, pairs):
    """A row for each test: the peer at its best setting, and ratios of runs side by side, so that a machine that gets
    slower slows both; their spread says how far to believe them. Ratios above 1 are in our favour."""
    out = []
    for test in pairs[0]["kernloom"]["values"]:
        by_setting = {}
        for pair in pairs:
            if test not in pair["other"]["values"]:
                raise Failed(f"{job.other} did not run {test}, but {list(pair['other']['values'])}")
            values = pair["kernloom"]["values"][test], pair["other"]["values"][test]
            by_setting.setdefault(pair["setting"], []).append(values)
        for setting, both in by_setting.items():
            ratios = [ours / theirs if job.more_is_better else theirs / ours for ours, theirs in both]
            out.append({"row": name, "model": model.stem, "test": test, "unit": job.unit, "against": job.other,
                        "setting": setting, "kernloom": statistics.median(ours for ours, _ in both),
                        "other": statistics.median(theirs for _, theirs in both),
                        "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)})
    best = {}
    for row in out:
        if row["test"] not in best or is_better(job, row["other"], best[row["test"]]["other"]):
            best[row["test"]] = row
    for row in out:
        row["best"] = row is best[row["test"]]
    return out


def add_shares(rows, job, show, machines):
    """The ceiling of each test, and what part of it each side reaches; and whether ours is what it has to be."""
    model = ceilings.Model(show)
    peaks = {isa: ceilings.Machine.of([one for one in machines if one["isa"] == isa]) for isa in (job.isa, job.other_isa)}
    for row in rows:
        if job.floor is not None:
            row["floor"], row["held"] = job.floor, row["kernloom"] >= job.floor
        work = job.works.get(row["test"])
        if not work:
            continue
        row["ceiling"] = {"kernloom": limit(model, work, peaks[job.isa], row["kernloom"], job),
                          "other": limit(model, work, peaks[job.other_isa], row["other"], job)}


def limit(model, work, machine, value, job):
    """The ceiling of a test on a machine in the unit of its row, and the share of it that a value is."""
    ceiling = ceilings.of(model, work, machine)
    most = work.tokens * work.sequences / ceiling.seconds if job.more_is_better else ceiling.seconds
    return {"value": most, "share": value / most if job.more_is_better else most / value, **ceiling.as_json()}


def kept(rows, pairs):
    """What the longest prompt keeps of the speed of the shortest, on both sides, the peer at its best for the longest."""
    prompts = [row for row in rows if row["best"] and row["test"].startswith("pp")]
    prompts.sort(key=lambda row: int(row["test"][2:]))
    if len(prompts) < 2:
        return []
    short, long = prompts[0]["test"], prompts[-1]["test"]
    shares = [[pair[side]["values"][long] / pair[side]["values"][short] for side in ("kernloom", "other")]
              for pair in pairs if pair["setting"] == prompts[-1]["setting"]]
    ratios = [ours / theirs for ours, theirs in shares]
    rest = {key: value for key, value in prompts[-1].items() if key != "ceiling"}
    return [{**rest, "test": f"{long} over {short}", "unit": "of the speed",
             "kernloom": statistics.median(ours for ours, _ in shares),
             "other": statistics.median(theirs for _, theirs in shares),
             "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}]


def report(rows):
    print("\n| row | model | test | beside | kernloom | it | unit | ratio | least..most | ceiling | kernloom's share | "
          "its share | bound by |")
    print("|---|---|---|---|---:|---:|---|---:|---|---:|---:|---:|---|")
    for row in rows:
        mark = " (its best)" if row["best"] and row["against"] == "llama.cpp" else ""
        name = f"{row['against']}, {row['setting']}" if row["setting"] != row["against"] else row["against"]
        print(f"| {row['row']} | {row['model']} | {row['test']} | {name}{mark} | {row['kernloom']:.2f} | "
              f"{row['other']:.2f} | {row['unit']} | {row['ratio']:.3f} | {row['least']:.3f}..{row['most']:.3f} | "
              f"{' | '.join(of_ceiling(row))} |")
    print()
    for text in filter(None, map(verdict, rows)):
        print(text)
    print(flush=True)


def of_ceiling(row):
    """The last columns of a row."""
    if not row.get("ceiling"):
        return [""] * 4
    ours, other = row["ceiling"]["kernloom"], row["ceiling"]["other"]
    most = f"{ours['value']:.3g}" if ours["value"] == other["value"] else f"{ours['value']:.3g}, {other['value']:.3g}"
    return [most, f"{ours['share']:.0%}", f"{other['share']:.0%}", ours["bound"]]


def verdict(row):
    """Whether a row is what it has to be, in words; nothing if it may be anything."""
    if "held" not in row:
        return None
    return (f"{row['row']}, {row['model']}: kernloom keeps {row['kernloom']:.0%} {row['unit']}, {row['against']} "
            f"{row['other']:.0%}; {row['floor']:.0%} at least: {'held' if row['held'] else 'NOT HELD'}")


def machine(args, isa):
    """What the machine can do at most with a level of instructions."""
    restricted = ["--isa", isa] if isa else []
    found = json.loads(runs.run([args.kernloom, "bench", "--machine", "-t", args.threads, "-o", "json", *restricted])[0])
    print(f"machine: {found['cpu_info']}, {found['target']}, read {found['read_gb_per_s']:.1f} GB/s, 8-bit dots "
          f"{found['int8_gmac_per_s']:.0f} and f32 {found['f32_gmac_per_s']:.0f} billion multiply-adds a second", flush=True)
    return {"isa": isa, **found}


def processor():
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for text in file:
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@functools.cache
def show(kernloom, model):
    """What is in a model file."""
    return json.loads(runs.run([kernloom, "show", model, "--json"])[0])


def result(args, now, machines, measured, failures):
    """Everything, as it goes into the file."""
    rows = []
    for job, of_job, pairs in measured:
        add_shares(of_job, job, show(args.kernloom, str(job.model)), machines)
        rows += of_job + (kept(of_job, pairs) if of_job[0]["row"] == "long-prefill" else [])
    every = [pair for _, _, pairs in measured for pair in pairs]
    faults = {side: sum(pair[side]["major_faults"] for pair in every) for side in ("kernloom", "other")}
    return {"date": now.isoformat(timespec="seconds"), "processor": processor(), "system": platform.platform(),
            "cores": len(os.sched_getaffinity(0)), "threads": int(args.threads), "repeat": int(args.repeat),
            "rounds": args.rounds, "machine": machines, "major_faults": faults,
            "rows": [row for row in rows if row["best"]], "other_settings": [row for row in rows if not row["best"]],
            "failures": failures,
            "runs": [{"row": of_job[0]["row"], "model": of_job[0]["model"], "pairs": pairs}
                     for _, of_job, pairs in measured]}


def main():
    args = arguments()
    now = datetime.datetime.now(datetime.timezone.utc)
    path = pathlib.Path(args.json or pathlib.Path(args.folder) / f"compare-{now:%Y%m%d-%H%M%S}.json")
    svg = pathlib.Path(args.svg) if args.svg else path.with_suffix(".svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    machines, measured, failures = [machine(args, args.isa)], [], []
    args.bandwidth = machines[0]["read_gb_per_s"]

    def save():
        whole = result(args, now, machines, measured, failures)
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        svg.write_text(chart.chart(whole), encoding="utf-8")
        return whole

    for name, model, job in work(args):
        try:
            if all(one["isa"] != job.isa for one in machines):
                machines.append(machine(args, job.isa))
            pairs = alternate(args, name, model, job)
            measured.append((job, summarise(name, model, job, pairs), pairs))
        except Failed as failure:
            failures.append(f"{name}, {model.name}: {failure}")
            print(f"  {failures[-1]}", flush=True)
        # What was measured is there even if the rest never is.
        save()
    machines += [machine(args, isa) for isa in dict.fromkeys(one["isa"] for one in machines)]
    whole = save()
    report(whole["rows"] + whole["other_settings"])
    print(f"every run: {path}\nchart: {svg}")
    ours, theirs = whole["major_faults"]["kernloom"], whole["major_faults"]["other"]
    print(f"major faults in runs that count: kernloom {ours}, the other side {theirs}")
    if theirs:
        print("the other side waited for the disk: its copy and the file may not fit into memory together; do not quote "
              "a ratio of such a run")
    if ours:
        raise Failed(f"kernloom waited for the disk, {runs.REPEATED} repetitions and all: the numbers above do not count")
    failures += [verdict(row) for row in whole["rows"] if not row.get("held", True)]
    if failures:
        raise Failed(f"{len(failures)} rows failed: {'; '.join(failures)}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"compare: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
