#!/usr/bin/env python3
"""How far the default numerics (`int8`) are from `exact`, on a text that the model has not seen.

    bench/accuracy.py --kernloom target/release/kernloom [--model F16.gguf] [--text FILE] [--most 0.002]

For each quantisation: perplexity of `exact`, whose log-probabilities are the reference; perplexity of `int8`, with a cache
of f16 and of q8_0, and the divergence (KL) of its distributions from the reference. Both read the same file, so what
quantising weights costs is in neither. Without --model it is the model that comes with the program, quantised anew from its
Q8_0; without --text as much of the stories of its held-out split as --characters says (names, phrasings and plots that
training never saw). Windows of 512 tokens, of which the second half counts. Prints a Markdown table; exit code 1 if a mean
divergence is above --most.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUANTS = ("q4_0", "q4_k_m", "q6_k", "q8_0")
WINDOW = 512
LEAST_TOKENS = 10_000
COLUMNS = {"PPL exact": r"PPL\(base\) = ([\d.]+)", "PPL int8": r"^PPL = ([\d.]+)", "ratio": r"ratio ([\d.]+)",
           "mean KL": r"mean KLD = (-?[\d.]+ ± [\d.]+)", "median": r"KLD: median (-?[\d.]+)", "99%": r"99% (-?[\d.]+)",
           "most": r"max (-?[\d.]+)", "same top": r"same top = ([\d.]+)"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom", required=True, help="the program")
    parser.add_argument("--model", help="a file to quantise, F32, F16, BF16 or Q8_0 (default the model that comes with it)")
    parser.add_argument("--text", help="a file with the text")
    parser.add_argument("--characters", type=int, default=100_000, help="length of the text that is made (default 100000)")
    parser.add_argument("--quants", default=",".join(QUANTS), help=f"quantisations (default {','.join(QUANTS)})")
    parser.add_argument("--most", type=float, default=0.002, help="mean divergence that is accepted (default 0.002)")
    parser.add_argument("-t", "--threads", default="2", help="threads (default 2)")
    return parser.parse_args()


def stories(characters):
    """Stories of the held-out split, with a seed of their own."""
    sys.path.insert(0, str(ROOT / "demo"))
    from draw import Draw
    from stories import story
    draw, parts = Draw(70_000, held=True), []
    while sum(map(len, parts)) < characters:
        parts.append(story(draw, chapters=draw.choice([1, 2, 3])))
    return "\n\n".join(parts) + "\n"


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"accuracy: {command[1]} ended with {done.returncode}: {' '.join(done.stderr.splitlines()[-2:])}")
    return done.stdout


def figures(text):
    """The columns of a comparison with saved logits."""
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in COLUMNS.items()}
    missing = [name for name, match in found.items() if not match]
    if missing:
        sys.exit(f"accuracy: `perplexity --kl-base` did not print {missing[0]}: {text}")
    return {name: match[1] for name, match in found.items()}


def main():
    args = arguments()
    model = args.model or ROOT / "crates/demo/demo.gguf"
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = pathlib.Path(args.text) if args.text else folder / "text"
        if not args.text:
            text.write_text(stories(args.characters), encoding="utf-8")
        tokens = len(run(args.kernloom, "tokenize", "--no-bos", "-m", model, text.read_text(encoding="utf-8")).split())
        if tokens < LEAST_TOKENS:
            sys.exit(f"accuracy: the text has {tokens} tokens; {LEAST_TOKENS} are needed for figures that mean something")
        print(f"{pathlib.Path(model).name}, {tokens} tokens, {tokens // WINDOW} windows of {WINDOW}\n")
        print(f"| file | cache | {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * len(COLUMNS)}", flush=True)
        for quant in args.quants.split(","):
            file, base = folder / f"{quant}.gguf", folder / "logits"
            run(args.kernloom, "quantize", "--allow-requantize", model, file, quant)
            common = (args.kernloom, "perplexity", "-m", file, "-c", WINDOW, "-t", args.threads)
            run(*common, "-f", text, "--numerics", "exact", "--save-logits", base)
            for cache in ("f16", "q8_0"):
                row = figures(run(*common, "--kl-base", base, "--numerics", "int8", "--cache-type-k", cache))
                worst = max(worst, float(row["mean KL"].split()[0]))
                print(f"| {quant} | {cache} | {' | '.join(row.values())} |", flush=True)
            base.unlink()
            file.unlink()
    if not worst <= args.most:
        sys.exit(f"accuracy: a mean divergence of {worst} is above {args.most}")


if __name__ == "__main__":
    main()
