"""The rows of the comparison: what each side runs, and how its output becomes numbers.

A row has two sides, `ours` and `theirs`, that give a value for each of its tests. Tests are called by llama-bench's
names, for example `tg128 @ d4096`. What a test has to do at least is its `Work` (ceilings.py).
"""

import contextlib
import itertools
import json
import pathlib
import statistics

import runs
from ceilings import Work
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
    "avx2": ([YOUTU], "512", "32", "0"),
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


def work_of(row):
    """The work of a test that one of the programs printed; None for a prompt and tokens timed together."""
    prompt, gen, depth = (int(row.get(key) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
    return None if prompt and gen else Work(prompt or gen, depth, prompt=bool(prompt))


class Speed:
    """Tokens a second of `kernloom bench` and llama-bench."""

    unit, more_is_better, other = "tok/s", True, "llama.cpp"
    # What the value of ours has to be at least, if the row says so.
    floor = None

    def __init__(self, args, model, prompt, gen, depth):
        self.args, self.model = args, model
        # Levels of instructions of both sides, if they are not the best of the machine.
        self.isa = self.other_isa = args.isa
        self.tests = ["-m", str(model), "-p", prompt, "-n", gen, "-d", depth, "-t", args.threads, "-r", args.repeat,
                      "-o", "json"]
        # The work of each test.
        self.works = {}

    def kernloom(self, command, isa, *flags):
        """A command line of kernloom at a level of instructions. `bench` gets the bandwidth that was measured, since
        measuring it takes a gigabyte and a second of each run."""
        known = ["--bandwidth", f"{self.args.bandwidth:.3f}"] if command == "bench" else []
        return [self.args.kernloom, command, *flags, *known, *(["--isa", isa] if isa else [])]

    def settings(self):
        """What the other side is tried with."""
        return list(itertools.product(self.args.repack.split(","), self.args.fa.split(",")))

    @staticmethod
    def name_of(setting):
        return f"repack {setting[0]} fa {setting[1]}"

    def ours(self):
        # It takes the lock itself.
        return self.timed(self.kernloom("bench", self.isa, *self.tests), contextlib.nullcontext)

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
            if work_of(row):
                self.works[label(row)] = work_of(row)
        return {"values": values, "page_cache_seconds": round(reading, 3), **counted}


class Batch(Speed):
    """Tokens a second of several sequences together, while they decode. Both sides decode once a run, as
    llama-batched-bench knows no repetitions."""

    def __init__(self, args, model, prompt, gen, depth):
        super().__init__(args, model, prompt, gen, depth)
        self.prompt, self.gen, self.sequences = prompt, gen, args.sequences

    def ours(self):
        command = self.kernloom("bench", self.isa, "-m", str(self.model), "-p", self.prompt, "-n", self.gen, "-np",
                                self.sequences, "-t", self.args.threads, "-r", "1", "-o", "jsonl")
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
        values = {}
        for row in rows:
            name = f"tg{row['tg']} x {row['pl']} @ d{row['pp']}"
            values[name] = row["speed_tg"]
            self.works[name] = Work(row["tg"], row["pp"], row["pl"])
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
            ids, _ = runs.run([self.args.kernloom, "tokenize", "--no-bos", "-m", str(self.model), text])
            if len(ids.split()) >= wanted:
                return text, len(ids.split())
        raise Failed(f"no text of {wanted} tokens was found for {self.model.name}")

    def ours(self):
        return self.started(self.kernloom("run", self.isa, "-m", str(self.model), "-p", self.text, "-n", "1", "--temp",
                                          "0", "--no-template", "-t", self.args.threads))

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
        name = f"first token after {self.tokens}"
        values = {name: counted["first_output"]}
        self.works[name] = Work(self.tokens, prompt=True)
        return {"values": values, "page_cache_seconds": round(reading, 3), **counted}


class Neighbour(Speed):
    """The share of its speed that a program keeps beside a process that spins."""

    unit, floor = "of the undisturbed speed", 0.45

    def timed(self, command, lock):
        with lock():
            runs.read_into_page_cache(self.model)
            alone, before = runs.run(command)
        # `kernloom bench` takes the lock itself; the neighbour measures nothing.
        with lock(), runs.neighbour(True):
            beside, counted = runs.run(command)
        speeds = [statistics.median(parsed(text, command)[0]["samples_ts"]) for text in (alone, beside)]
        counted["major_faults"] += before["major_faults"]
        return {"values": {"beside a spinning process": speeds[1] / speeds[0]}, "speeds": speeds, **counted}


class Restricted(Speed):
    """Kernloom with the kernels of a machine that has AVX2 and nothing more, beside itself with all that this machine
    has. llama.cpp would have to be built once more for that, and then be told apart by what each compiler left in; so
    this row says what the restriction costs, and nothing about anybody else. Each side's ceiling is that of its own
    instructions."""

    other = "kernloom with all instructions"

    def __init__(self, args, model, prompt, gen, depth):
        super().__init__(args, model, prompt, gen, depth)
        self.isa = "x86-64-v3"

    def settings(self):
        return [()]

    @staticmethod
    def name_of(setting):
        return Restricted.other

    def theirs(self, setting):
        return self.timed(self.kernloom("bench", self.other_isa, *self.tests), contextlib.nullcontext)


KINDS = {"batch": Batch, "first": FirstToken, "neighbour": Neighbour, "avx2": Restricted}
