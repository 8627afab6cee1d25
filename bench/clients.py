#!/usr/bin/env python3
"""Servers side by side under clients that each wait for an answer before they ask again: throughput and latency.

    bench/clients.py MODEL --kernloom PROGRAM [--llama-server PATH] [--rows 1:512:128,32:512:128,32:4096:256]
                     [--rounds 2] [--rate REQUESTS] [--grammars N] [--device cuda] [-- FLAGS of kernloom serve]

A row is clients : tokens of a prompt : tokens of an answer. With --rate nobody waits for an answer before the next one asks:
a row's requests, clients times rounds of them, come at random moments, so many a second, the same ones for both. Prompts are random token ids that no two requests share, given to
`/completion` of both servers, which have the same places and the same room for each; answers are greedy and do not end
before their length. Of each row: tokens of answers a second while all clients run, the time until the first token and, as
a mean of each answer, from token to token (p50 and p99, milliseconds), and requests that failed. When the first token came
is counted back from the end of an answer by the server's own time for the others: of a file with random weights most
tokens are no text, so nothing else may come before. With --grammars the first N clients ask for text by a grammar. Needs nothing
but Python.
"""

import asyncio
import itertools
import json
import random
import sys
import time

from load import send
from servers import get, llama_server, parser, running


# Words without an end.
GRAMMAR = 'root ::= [a-zA-Z0-9 ]+'


async def ask(port, prompt, tokens, grammar=None):
    """Seconds until the first token, seconds from token to token, and the number of tokens."""
    body = {"prompt": prompt, "n_predict": tokens, "stream": True, "ignore_eos": True, "cache_prompt": False,
            "temperature": 0.0, **({"grammar": grammar} if grammar else {})}
    text = json.dumps(body).encode()
    sent = time.monotonic()
    reader, writer = await send(port, "/completion", text)
    try:
        status = await reader.readline()
        if b" 200 " not in status:
            raise OSError((await reader.read(2000)).decode(errors="replace").strip().splitlines()[-1])
        async for line in reader:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise OSError(json.dumps(event["error"]))
            if event.get("stop"):
                count, rest = event["tokens_predicted"], event["timings"]["predicted_ms"] / 1e3
                return time.monotonic() - rest - sent, rest / max(count - 1, 1), count
        raise OSError("the answer was cut")
    finally:
        writer.close()


async def row(port, clients, prompt, tokens, rounds, vocab, seed, rate=None, grammars=0):
    """All requests of a row, or what went wrong, and how long it took."""
    done, failed = [], []

    async def client(number, rounds, after=0.0):
        ids = random.Random(seed * 1000 + number)
        prompts = [[ids.randrange(vocab) for _ in range(prompt)] for _ in range(rounds)]
        await asyncio.sleep(after)
        for ids in prompts:
            try:
                done.append(await ask(port, ids, tokens, GRAMMAR if number < grammars else None))
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                failed.append(str(error))

    if rate:
        gaps = random.Random(seed)
        moments = itertools.accumulate(gaps.expovariate(rate) for _ in range(clients * rounds))
        users = [client(number, 1, after) for number, after in enumerate(moments)]
    else:
        users = [client(number, rounds) for number in range(clients)]
    began = time.monotonic()
    await asyncio.gather(*users)
    return done, failed, time.monotonic() - began


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] * 1e3 if values else float("nan")


def report(name, spec, result):
    done, failed, took = result
    rate = sum(d[2] for d in done) / took
    first, gaps = [d[0] for d in done], [d[1] for d in done]
    for why in sorted(set(failed)):
        print(f"{name}: {failed.count(why)} failed: {why}", file=sys.stderr)
    cells = [quantile(first, 0.5), quantile(first, 0.99), quantile(gaps, 0.5), quantile(gaps, 0.99)]
    numbers = " | ".join(f"{c:.1f}" for c in cells)
    print(f"| {spec[0]} | {spec[1]} / {spec[2]} | {name} | {rate:.0f} | {numbers} | {len(failed)} |", flush=True)
    return rate


def main():
    of, own, flags = parser(__doc__)
    of.add_argument("--rows", default="1:512:128,32:512:128,128:512:128,32:4096:256")
    of.add_argument("--rounds", type=int, default=2, help="requests of a client")
    of.add_argument("--grammars", type=int, default=0, help="clients of a row whose answers follow a grammar")
    of.add_argument("--rate", type=float, help="requests a second, of clients that do not wait for each other")
    args = of.parse_args(own)
    rows = [tuple(map(int, spec.split(":"))) for spec in args.rows.split(",")]
    places = max(spec[0] for spec in rows)
    room = -(-max(prompt + tokens for _, prompt, tokens in rows) // 256) * 256
    room_for_all = ["-np", str(places), "-c", str(places * room)]
    servers = [("kernloom", [args.kernloom, "serve", "-m", args.model, "--device", args.device, *room_for_all, *flags])]
    if args.llama_server:
        servers.append(("llama-server", llama_server(args, room_for_all)))
    print("| clients | prompt / answer | server | tok/s | first p50 ms | p99 | next p50 ms | p99 | failed |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rates = {}
    for name, command in servers:
        with running(name, command) as (_, port):
            vocab = get(port, "/v1/models")["data"][0]["meta"]["n_vocab"]
            # What is compiled at the first step of a kind is not what a row measures.
            for spec in rows:
                asyncio.run(row(port, spec[0], min(spec[1], 512), 4, 1, vocab, 7, None, args.grammars))
            for seed, spec in enumerate(rows):
                rates[name, spec] = report(name, spec, asyncio.run(row(port, *spec, args.rounds, vocab, seed, args.rate, args.grammars)))
    if args.llama_server:
        ratios = ", ".join(f"{spec[0]} x {spec[1]} / {spec[2]}: {rates['kernloom', spec] / rates['llama-server', spec]:.2f}" for spec in rows)
        print(f"throughput, kernloom to llama-server: {ratios}")


if __name__ == "__main__":
    main()
