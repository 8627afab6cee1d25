#!/usr/bin/env python3
"""The first 40 greedy tokens of the model that ships, here and in llama.cpp, for the prompts in demo/prompts.txt; where
they differ, how close the two likeliest tokens were.

    python3 bench/demo_peer.py path/to/llama-completion [path/to/kernloom]"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

root = Path(__file__).resolve().parent.parent
peer = sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)
kernloom = sys.argv[2] if len(sys.argv) > 2 else str(root / "target/release/kernloom")
model = root / "crates/demo/demo.gguf"
TOKENS = 40


def output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True).stdout.decode()


def ids(text: str) -> list[int]:
    return [int(i) for i in output(kernloom, "tokenize", "--no-bos", "-m", str(model), text).split()]


def gap(prompt: list[int], said: list[int]) -> float:
    """Difference of the two largest logits after what both said."""
    with tempfile.NamedTemporaryFile() as file:
        tokens = ",".join(map(str, prompt + said))
        output(kernloom, "logits", "-m", str(model), "--numerics", "exact", "--tokens", tokens, "--out", file.name)
        data = file.read()
    floats = struct.unpack(f"<{len(data) // 4}f", data)
    first, second = sorted(floats[-len(floats) // len(prompt + said):])[:-3:-1]
    return first - second


same = 0
prompts = (root / "demo/prompts.txt").read_text().splitlines()
for prompt in prompts:
    ours = output(kernloom, "run", "-m", str(model), "-p", prompt, "--temp", "0", "-n", str(TOKENS), "--numerics", "exact").strip()
    text = f"[gMASK]<sop><|user|>{prompt}<|assistant|></think>"
    # On a busy machine it can end before all of its output is written, so the longest of three counts.
    tries = [output(peer, "-m", str(model), "-p", text, "-n", str(TOKENS), "--temp", "0", "-no-cnv", "--no-display-prompt", "--no-repack") for _ in range(3)]
    theirs = max(tries, key=len).replace("[end of text]", "").strip()
    if ours == theirs:
        same += 1
        continue
    a, b = ids(ours), ids(theirs)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    print(f"{prompt}\n  here:  {ours}\n  there: {theirs}\n  after {at} tokens; here the two likeliest are {gap(ids(text), a[:at]):.4f} apart")
print(f"{same} of {len(prompts)} answers are the same for {TOKENS} tokens")
