#!/usr/bin/env python3
"""A GPU beside the references: golden logits on it, and the same bits however a step is sent.

    bench/gpu.py all PROGRAM FOLDER [--device cuda] [--peer LLAMA_BENCH] [--models glm-4.7-flash:q4_0,...] [--jobs N]
    bench/gpu.py golden PROGRAM FOLDER [--device cuda] [--files N] [--jobs N]
    bench/gpu.py shapes PROGRAM [--device cuda] [--quants q4_0,q4_k_m] [--tokens 2048] [--jobs N]
    bench/gpu.py speed PROGRAM MODEL... [--peer LLAMA_BENCH] [--prompts 512,2048] [--depths 0,4000] [--fill random] [--rounds 3]
    bench/gpu.py repeated PROGRAM MODEL... [--device cuda] [--tokens 10000]
    bench/gpu.py memory PROGRAM [--quants q4_0] [--tools memcheck,racecheck] [--jobs N]
    bench/gpu.py faults PROGRAM MODEL
    bench/gpu.py published PROGRAM FILE [--device cuda]

`all` makes the models of whole size in FOLDER with `synth` and runs `golden`, `shapes`, `repeated`, `faults` and `speed` with them.

`golden` has another FOLDER, of manifest.json, models and logits, as tests/golden is one. `exact` must agree with the reference (NMSE at most
1e-9, and the same greedy ids), `int8` may diverge by as much as the gates of the command line's tests allow. Steps of 1, 7
and 64 tokens; one of the sizes also as a plain graph and kernel after kernel (--sending), which must give the same bits.

`shapes` writes every tiny shape of `synth` and compares the logits of 70 tokens, or of as many as are asked for, with those of the
processor: `exact` to NMSE 1e-9, or what steps of other sizes make of it on the processor, and `int8` may be as far from the
processor's `exact` as the processor's `int8` is, with room for a flipped expert. Steps of 1, 7 and 64 tokens, or for longer texts of
an eighth of it and of all of it. Of models without logits servers give the vectors, or the scores.
`speed` reads prompts and decodes 128 tokens with each program by turns and prints the medians and their ratio; llama-bench with
flash attention.
`repeated` lets two servers, one after the other, draw a text of so many tokens from the same seed: the ids must be the same.
`memory` runs every tiny shape of `synth` under the tools of `compute-sanitizer`: a prompt, tokens, several sequences, and tokens
behind 5,000 and 100,000 positions.
`faults` tries what goes wrong: each must be one line and an exit code, soon, and leave the card usable.
`published` compares a published file with the figures of .ci/published on the card: token ids, a chat, greedy texts,
perplexity, and how far `int8` diverges (bench/published.py; FILE is what .ci/published fetches).
"""
import argparse
import array
import concurrent.futures
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import published
from servers import running

EXACT_NMSE = 1e-9
BATCHES = (1, 7, 64)
TOKENS = 70
MODELS = "youtu-llm-2b:q4_0,deepseek-v2-lite:q4_0,glm-4.7-flash:q4_0,glm-4.7-flash:q4_k_m,llama-3.2-1b:q4_k_m"


def text(tokens):
    """A text for tiny models, which know 250 tokens at least."""
    return [(i * 37 + i // 250 * 3 + 11) % 250 for i in range(tokens)]


def floats(path):
    values = array.array("f")
    values.frombytes(path.read_bytes())
    return values


def nmse(got, want):
    return sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)


def log_sum(row):
    most = max(row)
    return most + math.log(sum(math.exp(v - most) for v in row))


def mean_kl(got, want, vocab):
    total = 0.0
    for start in range(0, len(want), vocab):
        g, w = got[start : start + vocab], want[start : start + vocab]
        lg, lw = log_sum(g), log_sum(w)
        total += sum(math.exp(b - lw) * ((b - lw) - (a - lg)) for a, b in zip(g, w))
    return total / (len(want) // vocab)


def problem(file, got, want, numerics):
    """What is wrong with logits, if anything; the same gates as crates/cli/tests/gates."""
    if len(got) != len(want):
        return f"{len(got)} logits instead of {len(want)}"
    vocab = file["vocab"]
    if numerics == "exact":
        rows = range(len(file["prompt"]) - 1, len(want) // vocab)
        chosen = [max(range(vocab), key=got[r * vocab : (r + 1) * vocab].__getitem__) for r in rows]
        same = all(a == b for a, b in zip(chosen, file["greedy"]))
        error = nmse(got, want)
        return None if same and error <= EXACT_NMSE else f"NMSE {error:.2e}, greedy ids equal: {same}"
    mixture = any(part in file["model"] for part in ("moe", "legacy", "softmax"))
    most = 3 * file["peer_kld"] + 5e-3 if mixture else 2 * file["peer_kld"] + 1e-4
    kl = mean_kl(got, want, vocab)
    return None if kl <= most else f"mean KL {kl:.2e}, at most {most:.2e}"


def logits(program, model, tokens, numerics, batch, device, out, *more):
    """Writes the logits of a text; the last line of what went wrong, if anything."""
    ids = ",".join(map(str, tokens))
    command = [program, "logits", "-m", str(model), "--tokens", ids, "--batch", str(batch)]
    command += ["--device", device, "--numerics", numerics, "--out", str(out), *more]
    ran = subprocess.run(command, capture_output=True, text=True)
    return (ran.stderr.strip().splitlines() or ["failed"])[-1] if ran.returncode else None


def one_golden(args, folder, file, numerics, batch):
    """What is wrong with one file in steps of so many tokens, if anything."""
    want = floats(folder / file["file"].replace(".gguf", ".logits.f32"))
    with tempfile.TemporaryDirectory() as scratch:
        out, again = pathlib.Path(scratch) / "logits", pathlib.Path(scratch) / "again"
        model, tokens = folder / file["file"], file["prompt"] + file["greedy"]
        failed = logits(args.program, model, tokens, numerics, batch, args.device, out)
        failed = failed or problem(file, floats(out), want, numerics)
        if failed or not args.device.startswith("cuda"):
            return failed
        if batch == 1:
            # The program of a token with many pages behind it.
            failed = logits(args.program, model, tokens, numerics, batch, args.device, again, "--without", "short")
            return failed or problem(file, floats(again), want, numerics)
        if batch != 7:
            return None
        for way in ("plain-graph", "one-by-one"):
            failed = logits(args.program, model, tokens, numerics, batch, args.device, again, "--sending", way)
            if not failed and out.read_bytes() != again.read_bytes():
                failed = f"{way} gives other bits than one graph"
            if failed:
                return failed
    return None


def how_many_fail(jobs, runs, failure, title):
    """How many runs fail, so many at a time; prints what is wrong with each."""

    def tried(run):
        failed = failure(run)
        if failed:
            print(f"{title(run)}: {failed}", flush=True)
        return bool(failed)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return sum(pool.map(tried, runs))


def golden(args):
    folder = pathlib.Path(args.folder)
    files = json.loads((folder / "manifest.json").read_text())
    files = [file for file in files if (folder / file["file"]).is_file()][: args.files]
    each = [(file, numerics, batch) for file in files for numerics in ("exact", "int8") for batch in BATCHES]

    wrong = how_many_fail(
        args.jobs, each, lambda run: one_golden(args, folder, *run), lambda run: f"{run[0]['file']} {run[1]} in steps of {run[2]}"
    )
    runs = len(each)
    print(f"golden on {args.device}: {len(files)} files, {runs} runs, {wrong} wrong")
    return 1 if wrong or not runs else 0


def written(program, shape, quant, model):
    """Writes a model of a shape; what went wrong, if anything."""
    made = subprocess.run([program, "synth", shape, "--quant", quant, "--out", str(model)], capture_output=True, text=True)
    return (made.stderr.strip() or "failed") if made.returncode else None


def vector(args, model, tokens, numerics, device):
    """The embedding of a text by a server of its own, or the scores of some documents by one that ranks."""
    command = [args.program, "serve", "-m", model, "--device", device, "--numerics", numerics, "-c", str(len(tokens) + 64)]
    asked = [("embeddings", {"input": tokens}), ("rerank", {"query": "one two", "documents": ["three", "four five six", "seven"]})]
    with running("kernloom", command) as (_, port):
        for path, request in asked:
            try:
                url = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{path}", json.dumps(request).encode())
                with urllib.request.urlopen(url, timeout=600) as answer:
                    answer = json.load(answer)
                    if path == "embeddings":
                        return answer["data"][0]["embedding"]
                    return [row["relevance_score"] for row in sorted(answer["results"], key=lambda row: row["index"])]
            except urllib.error.HTTPError as error:
                if error.code != 501:
                    return []
    return []


def one_encoder(args, model, tokens):
    """What is wrong with the vectors of a model on the device, if anything."""
    of = {numerics: vector(args, model, tokens, numerics, "cpu") for numerics in ("exact", "int8")}
    if not of["exact"] or not of["int8"]:
        return "cpu: no vector"
    far = nmse(of["int8"], of["exact"])
    for numerics, most in (("exact", EXACT_NMSE), ("int8", 3 * far + 1e-2)):
        got = vector(args, model, tokens, numerics, args.device)
        if len(got) != len(of["exact"]):
            return f"{numerics}: {len(got)} values instead of {len(of['exact'])}"
        if not nmse(got, of["exact"]) <= most:
            return f"{numerics}: NMSE {nmse(got, of['exact']):.2e}, at most {most:.2e}"
    return None


def one_shape(args, shape, quant):
    """What is wrong with a tiny model on the device in steps of each size, if anything."""
    tokens = text(args.tokens)
    usual, batches = (7, BATCHES) if args.tokens <= TOKENS else (256, (args.tokens // 8, args.tokens))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        model = scratch / "model.gguf"
        failed = written(args.program, shape, quant, model)
        if failed:
            return failed
        of = {}
        for numerics in ("exact", "int8"):
            failed = logits(args.program, model, tokens, numerics, usual, "cpu", scratch / "cpu")
            if failed and "writes no text" in failed:
                return one_encoder(args, model, tokens)
            if failed:
                return f"cpu: {failed}"
            of[numerics] = floats(scratch / "cpu")
        vocab = len(of["exact"]) // len(tokens)
        far = mean_kl(of["int8"], of["exact"], vocab)
        for batch in batches:
            for numerics in ("exact", "int8"):
                failed = logits(args.program, model, tokens, numerics, batch, args.device, scratch / "device")
                got = floats(scratch / "device") if not failed else None
                if not failed and len(got) != len(of["exact"]):
                    failed = f"{len(got)} logits instead of {len(of['exact'])}"
                if not failed and numerics == "exact" and not nmse(got, of["exact"]) <= EXACT_NMSE:
                    # Of a model that makes much of the last bit the processor has other logits, too.
                    failed = logits(args.program, model, tokens, numerics, batch, "cpu", scratch / "cpu")
                    own = 0 if failed else nmse(floats(scratch / "cpu"), of["exact"])
                    failed = failed or None if nmse(got, of["exact"]) <= 3 * own else f"NMSE {nmse(got, of['exact']):.2e}"
                if not failed and numerics == "int8" and not mean_kl(got, of["exact"], vocab) <= 3 * far + 1e-2:
                    failed = f"mean KL {mean_kl(got, of['exact'], vocab):.2e}, the processor's {far:.2e}"
                if failed:
                    return f"{numerics} in steps of {batch}: {failed}"
    return None


def tiny_shapes(args):
    """The tiny shapes of `synth`, or what was asked for, in each of the types that were."""
    told = subprocess.run([args.program, "synth", "--help"], capture_output=True, text=True).stdout
    names = next(line for line in told.splitlines() if line.startswith("Shapes: "))[len("Shapes: ") :].split(", ")
    names = args.shapes.split(",") if args.shapes else [name for name in names if name.startswith("tiny-")]
    return [(name, quant) for name in names for quant in args.quants.split(",")]


def shapes(args):
    each = tiny_shapes(args)
    wrong = how_many_fail(args.jobs, each, lambda run: one_shape(args, *run), " ".join)
    print(f"shapes on {args.device}: {len(each)} models, {wrong} wrong")
    return 1 if wrong or not each else 0


def drawn(args, model, request):
    """The token ids that a server of its own answers a request with."""
    room = str(args.tokens + 64)
    command = [args.program, "serve", "-m", model, "--device", args.device, "--parallel", "1", "-c", room]
    with running("kernloom", command) as (_, port):
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(request).encode())
        with urllib.request.urlopen(asked, timeout=600) as answer:
            return json.load(answer)["tokens"]


def repeated(args):
    """Texts that differ from one run to the next, or are shorter than they should be."""
    request = {"prompt": [1, 2, 3], "n_predict": args.tokens, "ignore_eos": True, "return_tokens": True, "temperature": 0.8, "seed": 7}
    wrong = 0
    for model in args.models:
        first, second = drawn(args, model, request), drawn(args, model, request)
        same = next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
        fine = same == len(first) == len(second) == args.tokens
        wrong += not fine
        kinds = len(set(first))
        print(f"{'ok   ' if fine else 'WRONG'} {pathlib.Path(model).stem}: {same} of {args.tokens} tokens twice, {kinds} different ids", flush=True)
    return 1 if wrong or not args.models else 0


def one_memory(args, shape, quant):
    """What the tools of compute-sanitizer find in the kernels of a tiny model, if anything."""
    with tempfile.TemporaryDirectory() as scratch:
        model, out = pathlib.Path(scratch) / "model.gguf", pathlib.Path(scratch) / "logits"
        failed = written(args.program, shape, quant, model)
        if failed:
            return failed
        bench = ["bench", "-m", model, "--device", "cuda", "-r", "1"]
        runs = [
            ["logits", "-m", model, "--tokens", ",".join(map(str, text(TOKENS))), "--batch", "64", "--device", "cuda", "--out", out],
            [*bench, "-p", "16", "-n", "1", "--parallel", "4"],
            [*bench, "-p", "0", "-n", "1", "-d", "0,5000,100000", "--fill", "random"],
        ]
        for tool in args.tools.split(","):
            for run in runs:
                command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", args.program, *run]
                ran = subprocess.run(command, capture_output=True, text=True)
                if ran.returncode:
                    found = [line for line in (ran.stdout + ran.stderr).splitlines() if line.startswith(("=========", "error: "))]
                    return f"{tool}, {run[0]} (exit {ran.returncode}): {' '.join(found[1:4])[:400]}"
    return None


def memory(args):
    each = tiny_shapes(args)
    wrong = how_many_fail(args.jobs, each, lambda run: one_memory(args, *run), " ".join)
    print(f"memory, {args.tools}: {len(each)} models, {wrong} wrong")
    return 1 if wrong or not each else 0


def rates(command, key):
    """Tokens a second by what was measured, from the JSON of a bench."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {ran.stderr.strip()[-400:]}")
    of = {}
    for row in json.loads(ran.stdout):
        tokens = f"prompt of {row['n_prompt']}" if row["n_prompt"] else "one token"
        of[f"{tokens} behind {row.get('n_depth', 0)}"] = row[key]
    return of


def speed(args):
    tests = [["-p", args.prompts, "-n", "0"]] if args.prompts else []
    tests += [["-p", "0", "-n", "128", "-d", args.depths]]
    print("| model | what | kernloom tok/s | llama.cpp tok/s | ratio |")
    print("|---|---|---|---|---|")
    for model in args.models:
        ours, theirs = {}, {}
        for _ in range(args.rounds):
            for test in tests:
                command = [args.program, "bench", "-m", model, "--device", args.device, *test, "-r", "2", "-o", "json"]
                fill = ["--fill", args.fill] if "-d" in test else []
                for what, value in rates([*command, *fill], "avg_ts").items():
                    ours.setdefault(what, []).append(value)
                if args.peer:
                    command = [args.peer, "-m", model, *test, "-r", "2", "-fa", "1", "-b", "2048", "-ub", "2048"]
                    for what, value in rates([*command, "-ngl", "99", "-o", "json"], "avg_ts").items():
                        theirs.setdefault(what, []).append(value)
        for what, values in ours.items():
            mine = statistics.median(values)
            peer = statistics.median(theirs[what]) if what in theirs else None
            other = f"{peer:.0f} | {mine / peer:.2f}" if peer else "- | -"
            print(f"| {pathlib.Path(model).stem} | {what} | {mine:.0f} | {other} |", flush=True)
    return 0


def everything(args):
    """Makes the models and runs everything else with them."""
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    models = []
    for shape, quant in (model.split(":") for model in args.models.split(",")):
        model = folder / f"{shape}-{quant}.gguf"
        models.append(str(model))
        if not model.is_file():
            failed = written(args.program, shape, quant, model)
            if failed:
                sys.exit(failed)
    args.folder, args.files = pathlib.Path(__file__).parent.parent / "tests" / "golden", None
    args.shapes, args.quants, args.tokens = None, "q4_0,q4_k_m", TOKENS
    wrong = [part for part in (golden, shapes) if part(args)]
    args.model, args.models, args.tokens = models[0], models, 10_000
    wrong += [repeated] if repeated(args) else []
    # What goes wrong with a card, beside what it does.
    wrong += [faults] if args.device.startswith("cuda") and faults(args) else []
    speed(args)
    print("wrong: " + (", ".join(part.__name__ for part in wrong) or "nothing"))
    return len(wrong)


def faults(args):
    """Runs that must fail in a line; and ones that must not."""
    run = [args.program, "run", "-m", args.model, "--no-template", "-p", "a", "--temp", "0"]
    cuda = [*run, "-n", "8", "--device", "cuda"]
    long = [*run, "-n", "100000", "-c", "100000", "--ignore-eos", "--device", "cuda"]
    wrong = 0

    def tried(what, command, good, expected, env=None, seconds=60, interrupt=None):
        nonlocal wrong
        environment = dict(os.environ, **(env or {}))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        started = time.monotonic()
        try:
            if interrupt is not None:
                time.sleep(interrupt)
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            err = process.communicate()[1] + "\nhangs"
        errors = [line for line in err.splitlines() if line.startswith("error: ") or line == "hangs"]
        fine = (process.returncode == 0) == good and len(errors) <= 1 and "panicked" not in err and "hangs" not in errors
        fine = fine and (expected in err)
        wrong += not fine
        took = time.monotonic() - started
        line = (errors or [err.strip().splitlines()[-1] if err.strip() else ""])[0]
        print(f"{'ok   ' if fine else 'WRONG'} {what} ({took:.1f} s, exit {process.returncode}): {line[:300]}", flush=True)

    with tempfile.TemporaryDirectory() as empty:
        tried("as it should be", cuda, True, "")
        tried("no such card", [*run, "-n", "8", "--device", "cuda:99"], False, "there is no cuda:99")
        tried("cards hidden", cuda, False, "CUDA_VISIBLE_DEVICES", {"CUDA_VISIBLE_DEVICES": ""})
        tried("cards hidden, auto", [*run, "-n", "8", "--device", "auto"], True, "device: cpu", {"CUDA_VISIBLE_DEVICES": ""})
        tried("no compiler", [*cuda, "--nvrtc", "/nonexistent.so"], False, "/nonexistent.so", {"XDG_CACHE_HOME": empty})
        tried("no compiler, kernels kept", [*cuda, "--nvrtc", "/nonexistent.so"], True, "")
        kept = {"XDG_CACHE_HOME": empty}
        tried("kernels in a folder of their own", cuda, True, "", kept)
        damaged = [file for file in pathlib.Path(empty).rglob("*") if file.is_file()]
        for file in damaged:
            content = bytearray(file.read_bytes())
            content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
            file.write_bytes(content)
        tried(f"{len(damaged)} damaged files of the cache", cuda, True, "", kept)
        tried("too long a context", [*cuda, "-c", "2000000000"], False, "not enough memory")
        tried("Ctrl-C while it starts", long, False, "", interrupt=0.3)
        tried("Ctrl-C while it decodes", long, False, "", interrupt=4)
        beside = subprocess.Popen(long, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tried("two processes", cuda, True, "")
        beside.kill()
        beside.wait()
        tried("after a process that was killed", cuda, True, "")
    print(f"faults: {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of = {name: commands.add_parser(name) for name in ("all", "golden", "shapes", "repeated", "memory", "speed", "faults", "published")}
    for name, one in of.items():
        one.add_argument("program")
        if name not in ("faults", "memory"):
            one.add_argument("--device", default="cuda")
    for name in ("all", "golden"):
        of[name].add_argument("folder")
    for name in ("all", "golden", "shapes", "memory"):
        of[name].add_argument("--jobs", type=int, default=1, help="runs at a time")
    for name in ("all", "speed"):
        of[name].add_argument("--peer", help="llama-bench")
        of[name].add_argument("--prompts", default="512,2048")
        of[name].add_argument("--depths", default="0,4000")
        of[name].add_argument("--fill", default="computed", help="what the cache holds: computed or random")
        of[name].add_argument("--rounds", type=int, default=3)
    of["all"].add_argument("--models", default=MODELS, help="shapes and types")
    of["golden"].add_argument("--files", type=int)
    of["shapes"].add_argument("--quants", default="q4_0,q4_k_m")
    of["shapes"].add_argument("--tokens", type=int, default=TOKENS)
    of["memory"].add_argument("--quants", default="q4_0")
    for name in ("shapes", "memory"):
        of[name].add_argument("--shapes", help="some instead of every tiny one")
    of["memory"].add_argument("--tools", default="memcheck,racecheck")
    of["repeated"].add_argument("--tokens", type=int, default=10_000)
    for name in ("speed", "repeated"):
        of[name].add_argument("models", nargs="+")
    of["faults"].add_argument("model")
    of["published"].add_argument("model", metavar="file")
    args = parser.parse_args()
    if args.command == "published":
        return 1 if published.check(args.program, args.model, args.device) else 0
    each = {"all": everything, "golden": golden, "shapes": shapes, "repeated": repeated, "memory": memory, "speed": speed, "faults": faults}
    return each[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
