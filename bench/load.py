#!/usr/bin/env python3
"""Many clients at a time against the server: some leave, some read slowly, some send junk.

    bench/load.py --kernloom target/release/kernloom --model crates/demo/demo.gguf [--llama-server PATH] [--minutes 5]

Every reply is compared with the one that the same prompt gets alone (greedy). Where they differ, the two tokens must be
near ties: batches sum in another order. A reply that is lost, cut, or of another prompt fails the run, as do memory that
grows and places that are not free at the end. With --llama-server the same load goes to that next; both get the same
threads. Needs nothing but Python.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

SUBJECTS = "fox dog cat bird boy girl king queen farmer baker fish tree river stone cloud star".split()
DEEDS = ["found a key", "lost a ball", "went to the sea", "made a cake", "saw the moon", "met a friend", "was sad",
         "had a plan", "ran home", "told a lie"]
PROMPTS = [f"Once there was a {s} who {d}. One day the {s}" for s in SUBJECTS for d in DEEDS]
TOKENS = 48
NEAR = 0.25  # Greatest difference of log-probabilities between two tokens of which either may come.
KINDS = [("stream", 70), ("whole", 10), ("leaves", 8), ("leaves at once", 4), ("slow", 4), ("junk", 4)]


class Lost(Exception):
    pass


async def send(port, path, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def ask(port, path, body):
    """Status and whole body of the response."""
    reader, writer = await send(port, path, body)
    raw = await reader.read(-1)
    writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    if not head:
        raise Lost("no response")
    if b"transfer-encoding: chunked" in head.lower():
        whole, rest = b"", body
        while True:
            size, _, rest = rest.partition(b"\r\n")
            size = int(size or b"0", 16)
            if size == 0:
                break
            whole, rest = whole + rest[:size], rest[size + 2:]
        body = whole
    return int(head.split(b" ")[1]), body


def request(prompt, stream, **more):
    body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "top_k": 1, "stream": stream,
            "return_tokens": True, "cache_prompt": True, **more}
    return json.dumps(body).encode()


class Load:
    def __init__(self, name, port, pid, clients, seconds):
        self.name, self.port, self.pid, self.clients, self.seconds = name, port, pid, clients, seconds
        self.expected, self.counts, self.wrong, self.differ = {}, {}, [], []
        self.first, self.between, self.total, self.tokens, self.memory = [], [], [], 0, []

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            return json.load(response)

    async def alone(self):
        for prompt in PROMPTS:
            status, body = await ask(self.port, "/completion", request(prompt, False))
            if status != 200:
                raise SystemExit(f"{self.name}: {status} {body[:200]}")
            self.expected[prompt] = json.loads(body)["tokens"]

    def check(self, prompt, tokens, kind):
        want = self.expected[prompt]
        if tokens != want:
            self.differ.append((kind, prompt, tokens))

    async def one(self, rng):
        kind = rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        prompt = rng.choice(PROMPTS)
        began = time.monotonic()
        if kind == "junk":
            junk = [b"{", b"\xff\xfe", b"[" * 50000, b'{"prompt": 5}', b'{"prompt": "a", "top_p": "x"}']
            status, _ = await ask(self.port, "/completion", rng.choice(junk))
            # llama-server says 500 to some of it; ours must not.
            if status < 400 or (self.name == "kernloom" and status >= 500):
                self.wrong.append(f"junk got {status}")
        elif kind == "whole":
            status, body = await ask(self.port, "/completion", request(prompt, False))
            if status != 200:
                self.wrong.append(f"{kind}: {status} {body[:100]}")
            else:
                self.check(prompt, json.loads(body)["tokens"], kind)
                self.tokens += len(self.expected[prompt])
                self.total.append(time.monotonic() - began)
        else:
            await self.streamed(kind, prompt, began, rng)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    async def streamed(self, kind, prompt, began, rng):
        reader, writer = await send(self.port, "/completion", request(prompt, True))
        leave = {"leaves": rng.randrange(1, 12), "leaves at once": 0}.get(kind)
        tokens, over, last, head = [], False, None, await reader.readline() if leave != 0 else b"HTTP/1.1 200"
        if b" 200" not in head:
            self.wrong.append(f"{kind}: {head!r}")
        while leave != 0:
            line = await reader.readline()
            if not line:
                break
            if not line.startswith(b"data: "):
                continue
            chunk = json.loads(line[6:])
            now = time.monotonic()
            if chunk.get("tokens"):
                if last is None:
                    self.first.append(now - began)
                else:
                    self.between.append((now - last) / len(chunk["tokens"]))
                last = now
                tokens += chunk["tokens"]
                self.tokens += len(chunk["tokens"])
            over = over or chunk.get("stop") is True
            if leave is not None and len(tokens) >= leave:
                break
            if kind == "slow":
                await asyncio.sleep(rng.random() / 5)
        writer.close()
        if leave is None:
            if not over:
                self.wrong.append(f"{kind}: the reply has no end: {prompt!r}")
            self.check(prompt, tokens, kind)
            if kind == "stream":
                self.total.append(time.monotonic() - began)

    async def client(self, seed, end):
        rng = random.Random(seed)
        while time.monotonic() < end:
            try:
                await asyncio.wait_for(self.one(rng), 300)
            except Exception as error:  # noqa: BLE001: whatever it is, a reply was lost
                self.wrong.append(f"{type(error).__name__}: {error}")

    async def watch(self, end):
        while time.monotonic() < end:
            with open(f"/proc/{self.pid}/status") as status:
                kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
            self.memory.append(kib / 1024)
            await asyncio.sleep(0.5)

    async def explain(self):
        """Finds out whether replies that differ do so at a near tie."""
        for kind, prompt, got in self.differ:
            want = self.expected[prompt]
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            if at == len(got) or at == len(want):
                if len(got) != len(want) and not await self.may_end(prompt, want[:at] if at == len(got) else got[:at]):
                    self.wrong.append(f"{kind}: {len(got)} tokens for {len(want)}: {prompt!r}")
                continue
            tops = await self.tops(prompt, want[:at])
            a, b = tops.get(got[at]), tops.get(want[at])
            if a is None or b is None or abs(a - b) > NEAR:
                self.wrong.append(f"{kind}: token {at} is {got[at]} ({a}) for {want[at]} ({b}): {prompt!r}")

    async def may_end(self, prompt, tokens):
        tops = sorted((await self.tops(prompt, tokens)).values(), reverse=True)
        return len(tops) < 2 or tops[0] - tops[1] < NEAR

    async def tops(self, prompt, tokens):
        ids = await ask(self.port, "/tokenize", json.dumps({"content": prompt, "add_special": True}).encode())
        ids = json.loads(ids[1])["tokens"] + tokens
        status, body = await ask(self.port, "/completion", request(ids, False, n_predict=1, n_probs=12))
        found = json.loads(body).get("completion_probabilities") if status == 200 else None
        return {t["id"]: t["logprob"] for t in found[0]["top_logprobs"]} if found else {}

    async def run(self):
        await self.alone()
        end = time.monotonic() + self.seconds
        clients = [self.client(seed, end) for seed in range(self.clients)]
        began = time.monotonic()
        await asyncio.gather(self.watch(end), *clients)
        elapsed = time.monotonic() - began
        await asyncio.sleep(2)
        if any(slot["is_processing"] for slot in self.get("/slots")):
            self.wrong.append("a place is not free at the end")
        await self.explain()
        half = len(self.memory) // 2
        early, late = max(self.memory[: half + 1]), max(self.memory[half:])
        if late > early * 1.05 + 16:
            self.wrong.append(f"memory grew from {early:.0f} to {late:.0f} MiB")
        self.report(elapsed, early, late)

    def report(self, elapsed, early, late):
        def quantiles(values):
            values = sorted(values) or [0.0]
            return [1e3 * values[min(len(values) - 1, int(q * len(values)))] for q in (0.5, 0.99)]

        print(f"{self.name}: {self.tokens / elapsed:.0f} tokens/s, {sum(self.counts.values()) / elapsed:.1f} requests/s "
              f"from {self.clients} clients in {elapsed:.0f} s; memory {early:.0f} then {late:.0f} MiB at most")
        for what, values in ("first token", self.first), ("between tokens", self.between), ("whole reply", self.total):
            p50, p99 = quantiles(values)
            print(f"  {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        print("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.counts.items())))
        print(f"  {len(self.differ)} replies differ from the one alone; {len(self.wrong)} things are wrong")
        for problem in self.wrong[:10]:
            print(f"  wrong: {problem}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(name, command, clients, seconds):
    port = free_port()
    log = tempfile.TemporaryFile()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
    try:
        load = Load(name, port, process.pid, clients, seconds)
        for _ in range(6000):
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"{name} ended: {log.read()[-2000:].decode(errors='replace')}")
            try:
                load.get("/health")
                break
            except OSError:
                time.sleep(0.1)
        asyncio.run(load.run())
        return load
    finally:
        process.terminate()
        process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    positions, seconds, threads = args.clients * 256, args.minutes * 60, str(args.threads)
    shared = ["-m", args.model, "-np", str(args.clients), "-c", str(positions), "-t", threads, "--slots"]
    loads = [serve("kernloom", [args.kernloom, "serve", *shared, "--log-disable"], args.clients, seconds)]
    if args.llama_server:
        loads.append(serve("llama-server", [args.llama_server, *shared, "--no-webui"], args.clients, seconds))
        ours, theirs = (load.tokens / load.seconds for load in loads)
        print(f"kernloom / llama-server: {ours / theirs:.2f} in tokens/s")
    sys.exit(1 if loads[0].wrong else 0)


if __name__ == "__main__":
    main()
