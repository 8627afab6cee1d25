"""The rows of the comparison: what each side runs, and how its output becomes numbers.

A row has two sides, `ours` and `theirs`, that give a value for each of its tests. Tests are called by llama-bench's
names, for example `tg128 @ d4096`.
"""

import contextlib
import json
import pathlib
import statistics

import runs
from runs import Failed

GLM, YOUTU, YOUTU_K = "glm-4.7-flash:q4_0", "youtu-llm-2b:q4_0", "youtu-llm-2b:q4_k_m"

# The rows that --rows knows: models, and the defaults of -p, -n and -d.
ROWS = {
    "decode": ([GLM, YOUTU, YOUTU_K], "0", "32", "0"),
    "formats": ([f"llama-3.2-1b:{quant}" for quant in ("q5_k_m", "q6_k", "q8_0", "iq4_xs")], "0", "32", "0"),
    "depth": ([YOUTU], "0", "32", "4096,16384"),
    "prefill": ([GLM, YOUTU, YOUTU_K], "512", "0", "0"),
    "long-prefill": ([YOUTU], "512,4096", "0", "0"),
    "batch": ([GLM, YOUTU], "64", "32", "0"),
    "first": ([GLM], "16", "1", "0"),
    "neighbour": ([YOUTU], "0", "32", "0"),
}


def label(row):
    """A test by llama-bench's name for it."""
    prompt, gen, depth = (int(row.get(key) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
    name = "+".join(text for text, n in ((f"pp{prompt}", prompt), (f"tg{gen}", gen)) if n)
    return f"{name} @ d{depth}" if depth else name


def longest(numbers):
    """The largest number of a list such as 64,256."""
    return max(int(number) for number in numbers.split(","))


def parsed(text, command):
    """The JSON, or the lines of JSON, that a program printed."""
    try:
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    except ValueError as error:
        raise Failed(f"{pathlib.Path(command[0]).name} printed no JSON: {error}") from error


class Speed:
    """Tokens a second of `kernloom bench` and llama-bench."""

    unit, more_is_better = "tok/s", True

    def __init__(self, args, model, prompt, gen, depth):
        self.args, self.model = args, model
        self.tests = ["-m", str(model), "-p", prompt, "-n", gen, "-d", depth, "-t", args.threads, "-r", args.repeat,
                      "-o", "json"]
        self.bytes_per_token = {}

    def ours(self):
        # It takes the lock itself.
        return self.timed([self.args.kernloom, "bench", *self.tests], contextlib.nullcontext)

    def theirs(self, setting):
        repack, fa = setting
        command = [self.args.bin("llama-bench"), *self.tests, "--repack", repack, "-fa", fa, "-ngl", "0"]
        return self.timed(command, runs.measuring_lock)

    def timed(self, command, lock):
        with lock():
            reading = runs.read_into_page_cache(self.model)
            text, counted = runs.run(command)
        rows = parsed(text, command)
        values = {}
        for row in rows:
            if "avg_ts" not in row:
                raise Failed(f"{pathlib.Path(command[0]).name} printed a row without a speed")
            values[label(row)] = statistics.median(row.get("samples_ts") or [row["avg_ts"]])
            if row.get("bytes_per_token") and not row.get("n_prompt"):
                self.bytes_per_token[label(row)] = row["bytes_per_token"]
        return {"values": values, "page_cache_seconds": round(reading, 3), **counted}


class Batch(Speed):
    """Tokens a second of several sequences together, while they decode."""

    def __init__(self, args, model, prompt, gen, depth):
        super().__init__(args, model, prompt, gen, depth)
        self.prompt, self.gen, self.sequences = prompt, gen, args.sequences

    def ours(self):
        command = [self.args.kernloom, "bench", "-m", str(self.model), "-p", self.prompt, "-n", self.gen, "-np",
                   self.sequences, "-t", self.args.threads, "-r", self.args.repeat, "-o", "jsonl"]
        return self.timed(command, contextlib.nullcontext)

    def theirs(self, setting):
        repack, fa = setting
        # The peer gives each sequence a whole number of 256 cells.
        cells = int(self.sequences) * -(-(longest(self.prompt) + longest(self.gen)) // 256) * 256
        command = [self.args.bin("llama-batched-bench"), "-m", str(self.model), "-c", str(cells), "-npp", self.prompt,
                   "-ntg", self.gen, "-npl", self.sequences, "-t", self.args.threads, "-ngl", "0", "-fa",
                   "on" if fa == "1" else "off", "--repack" if repack == "1" else "--no-repack", "--output-format",
                   "jsonl"]
        return self.timed(command, runs.measuring_lock)

    def timed(self, command, lock):
        # On a busy machine the peer can end before all of its output is written.
        for _ in range(3):
            with lock():
                reading = runs.read_into_page_cache(self.model)
                text, counted = runs.run(command)
            rows = [row for row in parsed(text, command) if "speed_tg" in row]
            if len(rows) == len(self.prompt.split(",")) * len(self.gen.split(",")):
                break
        else:
            raise Failed(f"{pathlib.Path(command[0]).name} did not print all speeds")
        values = {f"tg{row['tg']} x {row['pl']} @ d{row['pp']}": row["speed_tg"] for row in rows}
        return {"values": values, "page_cache_seconds": round(reading, 3), **counted}


class FirstToken(Speed):
    """Seconds from the start of the process to the first text, after a prompt of -p tokens."""

    unit, more_is_better = "s", False

    def __init__(self, args, model, prompt, gen, depth):
        super().__init__(args, model, prompt, gen, depth)
        self.text, self.tokens = self.of_tokens(longest(prompt))

    def of_tokens(self, wanted):
        """A text of so many tokens, or of the next number that there is."""
        words = "The engine reads a prompt and then it says one word after the other until it has nothing to say. "
        words *= wanted // 16 + 1
        for end in range(1, len(words), wanted // 16 + 1):
            text = words[:end]
            ids, _ = runs.run([self.args.kernloom, "tokenize", "-m", str(self.model), text])
            if len(ids.split()) >= wanted:
                return text, len(ids.split())
        raise Failed(f"no text of {wanted} tokens was found for {self.model.name}")

    def ours(self):
        return self.started([self.args.kernloom, "run", "-m", str(self.model), "-p", self.text, "-n", "1", "--temp",
                             "0", "--no-template", "-t", self.args.threads])

    def theirs(self, setting):
        repack, fa = setting
        return self.started([self.args.bin("llama-completion"), "-m", str(self.model), "-p", self.text, "-n", "1",
                             "--temp", "0", "-no-cnv", "--no-display-prompt", "--no-warmup", "-c", "4096", "-t",
                             self.args.threads, "-ngl", "0", "-fa", "on" if fa == "1" else "off",
                             "--repack" if repack == "1" else "--no-repack"])

    def started(self, command):
        with runs.measuring_lock():
            reading = runs.read_into_page_cache(self.model)
            _, counted = runs.run(command)
        values = {f"first token after {self.tokens}": counted["first_output"]}
        return {"values": values, "page_cache_seconds": round(reading, 3), **counted}


class Neighbour(Speed):
    """The share of its speed that a program keeps beside a process that spins."""

    unit = "of the undisturbed speed"

    def timed(self, command, lock):
        with lock():
            runs.read_into_page_cache(self.model)
            alone, _ = runs.run(command)
        # `kernloom bench` takes the lock itself; the neighbour measures nothing.
        with lock(), runs.neighbour(True):
            beside, counted = runs.run(command)
        speeds = [statistics.median(parsed(text, command)[0]["samples_ts"]) for text in (alone, beside)]
        return {"values": {"beside a spinning process": speeds[1] / speeds[0]}, "speeds": speeds, **counted}


KINDS = {"batch": Batch, "first": FirstToken, "neighbour": Neighbour}


def linear_products(show):
    """Multiply-adds of linear layers for one token of a prompt, from `kernloom show --json`; the head is computed for
    the last token only and does not count."""
    experts = (show.get("config") or {}).get("experts") or {}
    share = experts["used"] / experts["count"] if experts else 0
    total = 0
    for tensor in show["tensors"]:
        name, shape = tensor["name"], tensor["shape"]
        if len(shape) < 2 or name in ("token_embd.weight", "output.weight"):
            continue
        elements = 1
        for n in shape:
            elements *= n
        total += elements * share if "_exps" in name else elements
    return total
