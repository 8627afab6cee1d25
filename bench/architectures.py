#!/usr/bin/env python3
"""Which of llama.cpp's architectures load here, and how near their logits are.

Usage: bench/architectures.py KERNLOOM FOLDER [--pad N] [NAME...]

FOLDER holds tiny models NAME.gguf of llama.cpp's own architecture test, reference logits NAME.logits.f32 (little-endian f32,
a row for each token of the prompt), and manifest.json: a list of {"file", "prompt", "vocab"}. Each model (or those whose name
begins with a NAME) is run by `kernloom logits --numerics exact`, in steps of one, seven and all tokens. Printed: the greatest
normalised mean squared error of the three, or the line of the refusal; and how many are within the bound.
"""

import argparse
import array
import json
import pathlib
import subprocess
import tempfile

BOUND = 1e-6

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("program")
arguments.add_argument("folder", type=pathlib.Path)
arguments.add_argument("names", nargs="*")
arguments.add_argument("--pad", type=int, default=0, help="tokens behind the prompt, for models that ask how long the context is")
arguments.add_argument("--bare", action="store_true", help="print no refusals")


def floats(path):
    values = array.array("f")
    values.frombytes(pathlib.Path(path).read_bytes())
    return values


def nmse(got, want):
    if len(got) != len(want):
        return float("inf")
    error = sum((a - b) * (a - b) for a, b in zip(got, want))
    return error / max(sum(b * b for b in want), 1e-300)


def run(args, entry, batch, out):
    command = [args.program, "logits", "-m", args.folder / entry["file"], "--numerics", "exact", "--offline"]
    tokens = entry["prompt"] + [0] * args.pad
    command += ["--tokens", ",".join(map(str, tokens)), "--batch", str(batch), "--out", out]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def verdict(args, entry, out):
    want = floats(args.folder / entry["file"].replace(".gguf", ".logits.f32"))[: len(entry["prompt"]) * entry["vocab"]]
    worst = 0.0
    for batch in (1, 7, len(entry["prompt"]) + args.pad):
        ran = run(args, entry, batch, out)
        if ran.returncode:
            return None, (ran.stderr.strip().splitlines() or ["no message"])[-1]
        error = nmse(floats(out)[: len(want)], want)
        worst = max(worst, error) if error == error else float("inf")
    return worst, ""


def main():
    args = arguments.parse_intermixed_args()
    counts = {"near": 0, "far": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as folder:
        for entry in json.loads((args.folder / "manifest.json").read_text()):
            name = entry["file"].removesuffix(".gguf")
            if args.names and not any(name.startswith(start) for start in args.names):
                continue
            error, why = verdict(args, entry, pathlib.Path(folder) / "logits.f32")
            kind = "refused" if error is None else "near" if error <= BOUND else "far"
            counts[kind] += 1
            if kind != "refused" or not args.bare:
                print(f"{name:24} {kind:8} {why if error is None else f'{error:.1e}'}", flush=True)
    print(", ".join(f"{number} {kind}" for kind, number in counts.items()))


if __name__ == "__main__":
    main()
