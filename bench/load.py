#!/usr/bin/env python3
"""Many clients at a time against the server: some leave, some read slowly, some send junk.

    bench/load.py --kernloom target/release/kernloom --model crates/demo/demo.gguf [--llama-server PATH] [--minutes 5]
                  [--rounds 2] [--against KERNLOOM] [FLAGS of kernloom serve]

Every reply is compared with the one that the same prompt gets alone (greedy). Where they differ, the two tokens must be
near ties: batches sum in another order; with --batch-invariant nothing may differ. Replies that must follow a grammar are
checked against that. A reply that is lost, cut, or of another prompt fails the run, as do memory that
grows, descriptors that stay open and places that are not free at the end. Memory and descriptors, of the server and of
what it has started, are printed each minute. With --llama-server, or --against with another build of kernloom, the same
load goes to that too, in turns; all get the same threads. With --temperature tokens are drawn, and replies are not
compared. Needs nothing but Python, and Linux.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sys
import time
from statistics import median

from processes import holds
from servers import get, running

SUBJECTS = "fox dog cat bird boy girl king queen farmer baker fish tree river stone cloud star".split()
DEEDS = ["found a key", "lost a ball", "went to the sea", "made a cake", "saw the moon", "met a friend", "was sad",
         "had a plan", "ran home", "told a lie"]
PROMPTS = [f"Once there was a {s} who {d}. One day the {s}" for s in SUBJECTS for d in DEEDS]
TOKENS = 48
TICKS = os.sysconf("SC_CLK_TCK")
NEAR = 0.25  # Greatest difference of log-probabilities between two tokens of which either may come.
KINDS = [("stream", 60), ("whole", 10), ("ruled", 8), ("leaves", 8), ("leaves at once", 4), ("cut", 3), ("slow", 3),
         ("junk", 4)]
# What only this server has to take: grammars, and requests that would break it.
OURS = {"ruled", "cut"}
RULES = [({"grammar": "root ::= (\"yes\" | \"no\") [.!]"}, re.compile(r"(yes|no)[.!]")),
         ({"json_schema": {"enum": ["fox", "dog", 7, None]}}, re.compile(r'"fox"|"dog"|7|null')),
         ({"json_schema": {"type": "string", "pattern": "^[a-c]{2,5}$"}}, re.compile(r'"[a-c]{2,5}"'))]
CHAIN = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1200)}
JUNK = [b"{", b"\xff\xfe", b"[" * 50000, b'{"prompt": 5}', b'{"prompt": "a", "top_p": "x"}', b'{"prompt": "a", "n": 1e9}']
HARMFUL = [b'{"prompt":"a","x":[' + b"[]," * 1_300_000 + b"[]]}", b'{"prompt":"a","grammar":"root ::= (((("}',
           json.dumps({"prompt": "a", "json_schema": {"$ref": "#/$defs/d0", "$defs": CHAIN}}).encode(),
           json.dumps({"prompt": "a", "grammar": "root ::= " + "(" * 300_000}).encode()]
SLACK = 16  # Descriptors that a helper of the server may have open at the end.


class Lost(Exception):
    pass


async def send(port, path, body, length=None):
    """A connection that has sent a body, of which this may be the beginning."""
    length = len(body) if length is None else length
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
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


def processor(pid="self"):
    """Seconds of processor time that a process took, and that all of the machine's took."""
    with open(f"/proc/{pid}/stat") as own, open("/proc/stat") as all_:
        own = sum(map(int, own.read().rpartition(")")[2].split()[11:13]))
        user, nice, system, _, _, irq, softirq, *_ = map(int, all_.readline().split()[1:])
    return own / TICKS, (user + nice + system + irq + softirq) / TICKS


class Load:
    def __init__(self, name, port, pid, clients, seconds, temperature):
        self.name, self.port, self.pid, self.clients, self.seconds = name, port, pid, clients, seconds
        self.sampling = {"temperature": temperature, "top_k": 40, "top_p": 0.95, "min_p": 0.05} if temperature else {}
        self.expected, self.counts, self.wrong, self.differ = {}, {}, [], []
        self.first, self.between, self.total, self.tokens, self.memory = [], [], [], 0, []
        self.exact = False

    def get(self, path):
        return get(self.port, path)

    async def alone(self):
        for prompt in PROMPTS:
            status, body = await ask(self.port, "/completion", request(prompt, False))
            if status != 200:
                raise SystemExit(f"{self.name}: {status} {body[:200]}")
            self.expected[prompt] = json.loads(body)["tokens"]

    def check(self, prompt, tokens, kind):
        if not self.sampling and tokens != self.expected[prompt]:
            self.differ.append((kind, prompt, tokens))

    async def one(self, rng):
        kinds = [(k, w) for k, w in KINDS if self.name != "llama-server" or k not in OURS]
        kind = rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        prompt = rng.choice(PROMPTS)
        began = time.monotonic()
        if kind == "junk":
            junk = JUNK if self.name == "llama-server" else JUNK + HARMFUL
            status, _ = await ask(self.port, "/completion", rng.choice(junk))
            # llama-server says 500 to some of it; ours must not.
            if status < 400 or (self.name != "llama-server" and status >= 500):
                self.wrong.append(f"junk got {status}")
        elif kind == "ruled":
            rule, follows = rng.choice(RULES)
            status, body = await ask(self.port, "/completion", request(prompt, False, **rule))
            if status == 200:
                text = json.loads(body)["content"]
                if not follows.fullmatch(text):
                    self.wrong.append(f"{text!r} does not follow {rule}")
            elif status != 429:
                self.wrong.append(f"{kind}: {status} {body[:100]}")
        elif kind == "cut":
            whole = request(prompt, False)
            reader, writer = await send(self.port, "/completion", whole[: rng.randrange(len(whole))], len(whole))
            await asyncio.sleep(rng.random() / 5)
            writer.close()
        elif kind == "whole":
            status, body = await ask(self.port, "/completion", request(prompt, False, **self.sampling))
            if status != 200:
                self.wrong.append(f"{kind}: {status} {body[:100]}")
            else:
                tokens = json.loads(body)["tokens"]
                self.check(prompt, tokens, kind)
                self.tokens += len(tokens)
                self.total.append(time.monotonic() - began)
        else:
            await self.streamed(kind, prompt, began, rng)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    async def streamed(self, kind, prompt, began, rng):
        reader, writer = await send(self.port, "/completion", request(prompt, True, **self.sampling))
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
                elif kind == "stream":
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
        self.before = holds(self.pid)
        self.tell("at the start", self.before)
        minute, minutes = time.monotonic() + 60, 0
        while time.monotonic() < end:
            now = holds(self.pid)
            self.memory.append(now["memory"])
            if time.monotonic() >= minute:
                minute, minutes = minute + 60, minutes + 1
                self.tell(f"after {minutes} min", now)
            await asyncio.sleep(0.5)

    def tell(self, when, now):
        print(f"  {self.name} {when}: {now['memory']:.0f} MiB, {now['descriptors']} descriptors, {now['threads']} threads, "
              f"{now['processes']} processes; {sum(self.counts.values())} requests", flush=True)

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
        began, before, own = time.monotonic(), processor(self.pid), processor()[0]
        await asyncio.gather(self.watch(end), *clients)
        elapsed, after, own = time.monotonic() - began, processor(self.pid), processor()[0] - own
        await asyncio.sleep(2)
        now = holds(self.pid)
        self.tell("at the end", now)
        if now["descriptors"] > self.before["descriptors"] + SLACK:
            self.wrong.append(f"descriptors: {self.before['descriptors']} before, {now['descriptors']} after")
        if any(slot["is_processing"] for slot in self.get("/slots")):
            self.wrong.append("a place is not free at the end")
        if self.exact:
            self.wrong += [f"{kind}: another reply than alone: {prompt!r}" for kind, prompt, _ in self.differ]
        else:
            await self.explain()
        half = len(self.memory) // 2
        early, late = max(self.memory[: half + 1]), max(self.memory[half:])
        if late > early * 1.05 + 16:
            self.wrong.append(f"memory grew from {early:.0f} to {late:.0f} MiB")
        self.speed, server = self.tokens / elapsed, after[0] - before[0]
        self.cost = 1e6 * server / self.tokens
        self.report(elapsed, early, late)
        others = after[1] - before[1] - server - own
        print(f"  processor: {self.cost:.0f} us a token, {server / elapsed:.2f} processors; "
              f"clients {own / elapsed:.2f}, others {others / elapsed:.2f}", flush=True)

    def report(self, elapsed, early, late):
        def quantiles(values):
            values = sorted(values) or [0.0]
            return [1e3 * values[min(len(values) - 1, int(q * len(values)))] for q in (0.5, 0.99)]

        print(f"{self.name}: {self.speed:.0f} tokens/s, {sum(self.counts.values()) / elapsed:.1f} requests/s "
              f"from {self.clients} clients in {elapsed:.0f} s; memory {early:.0f} then {late:.0f} MiB at most")
        for what, values in ("first token", self.first), ("between tokens", self.between), ("whole reply", self.total):
            p50, p99 = quantiles(values)
            print(f"  {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        print("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.counts.items())))
        print(f"  {len(self.differ)} replies differ from the one alone; {len(self.wrong)} things are wrong")
        for problem in self.wrong[:10]:
            print(f"  wrong: {problem}")


def serve(name, command, args):
    with running(name, command) as (process, port):
        load = Load(name, port, process.pid, args.clients, args.minutes * 60, args.temperature)
        load.exact = "--batch-invariant" in command
        asyncio.run(load.run())
        return load


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom", required=True)
    parser.add_argument("--llama-server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--against", metavar="KERNLOOM", help="another build, as a peer")
    parser.add_argument("--rounds", type=int, default=1, help="how often each has its turn")
    parser.add_argument("--temperature", type=float, default=0)
    args, flags = parser.parse_known_args()
    shared = ["-m", args.model, "-np", str(args.clients), "-c", str(args.clients * 256), "-t", str(args.threads), "--slots"]
    servers = {"kernloom": [args.kernloom, "serve", *shared, "--log-disable", *flags]}
    if args.against:
        servers["against"] = [args.against, "serve", *shared, "--log-disable"]
    if args.llama_server:
        servers["llama-server"] = [args.llama_server, *shared, "--no-webui"]
    loads = {name: [] for name in servers}
    for _ in range(args.rounds):
        for name, command in servers.items():
            loads[name].append(serve(name, command, args))
    for peer in list(servers)[1:]:
        speed, cost = (
            [median(getattr(load, of) for load in loads[name]) for name in ("kernloom", peer)] for of in ("speed", "cost")
        )
        print(f"kernloom / {peer}: {speed[0] / speed[1]:.2f} in tokens/s, {cost[0] / cost[1]:.2f} in processor time a token")
    sys.exit(any(load.wrong for load in loads["kernloom"]))


if __name__ == "__main__":
    main()
