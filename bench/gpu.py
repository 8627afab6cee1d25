#!/usr/bin/env python3
"""A GPU beside the references: golden logits on it, and the same bits however a step is sent.

    bench/gpu.py golden PROGRAM FOLDER [--device cuda] [--files N]

FOLDER holds manifest.json, models and logits as tests/golden does. `exact` must agree with the reference (NMSE at most
1e-9, and the same greedy ids), `int8` may diverge by as much as the gates of the command line's tests allow. Steps of 1, 7
and 64 tokens; one of the sizes also kernel after kernel (--sending one-by-one), which must give the same bits.
"""
import argparse
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

EXACT_NMSE = 1e-9
BATCHES = (1, 7, 64)


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


def logits(program, folder, file, numerics, batch, device, out, *more):
    ids = ",".join(map(str, file["prompt"] + file["greedy"]))
    command = [program, "logits", "-m", str(folder / file["file"]), "--tokens", ids, "--batch", str(batch)]
    command += ["--device", device, "--numerics", numerics, "--out", str(out), *more]
    ran = subprocess.run(command, capture_output=True, text=True)
    return (ran.stderr.strip().splitlines() or ["failed"])[-1] if ran.returncode else None


def golden(args):
    folder = pathlib.Path(args.folder)
    files = json.loads((folder / "manifest.json").read_text())
    files = [file for file in files if (folder / file["file"]).is_file()][: args.files]
    wrong = runs = 0
    with tempfile.TemporaryDirectory() as scratch:
        out, again = pathlib.Path(scratch) / "logits", pathlib.Path(scratch) / "again"
        for file in files:
            want = floats(folder / file["file"].replace(".gguf", ".logits.f32"))
            for numerics in ("exact", "int8"):
                for batch in BATCHES:
                    runs += 1
                    failed = logits(args.program, folder, file, numerics, batch, args.device, out)
                    failed = failed or problem(file, floats(out), want, numerics)
                    if not failed and batch == 7 and args.device.startswith("cuda"):
                        for way in ("plain-graph", "one-by-one"):
                            more = ("--sending", way)
                            failed = logits(args.program, folder, file, numerics, batch, args.device, again, *more)
                            if not failed and out.read_bytes() != again.read_bytes():
                                failed = f"{way} gives other bits than one graph"
                            if failed:
                                break
                    if failed:
                        wrong += 1
                        print(f"{file['file']} {numerics} in steps of {batch}: {failed}", flush=True)
    print(f"golden on {args.device}: {len(files)} files, {runs} runs, {wrong} wrong")
    return 1 if wrong or not runs else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_golden = commands.add_parser("golden")
    of_golden.add_argument("program")
    of_golden.add_argument("folder")
    of_golden.add_argument("--device", default="cuda")
    of_golden.add_argument("--files", type=int)
    args = parser.parse_args()
    return {"golden": golden}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
