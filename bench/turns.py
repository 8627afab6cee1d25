#!/usr/bin/env python3
"""Chats that take turns on a server whose cache holds few of them: how long each waits for its first token.

    bench/turns.py MODEL --kernloom PROGRAM [--llama-server PATH] [--chats 16] [--prompt 4000] [--turns 4] [--room 16384]
                   [--places 4] [--device cuda] [-- FLAGS of kernloom serve]

Each chat begins with a prompt of random tokens that no other has. Then all go on by turns: to what was said, the answer
included, come 32 tokens, and 16 are answered. One row for the first turns, when all is new, and one for the later ones;
kernloom with what does not fit kept beside the device (--cache-ram) and without, by turns with each other, and
llama-server with its own such cache. Tokens of prompts that were found are the server's own count. Needs nothing but Python.
"""

import json
import random
import time
import urllib.request

from clients import quantile
from servers import get, llama_server, parser, running

MORE, ANSWER = 32, 16


def ask(port, prompt):
    """Seconds until the answer without its later tokens, the answer, and how many tokens of the prompt were found."""
    body = {"prompt": prompt, "n_predict": ANSWER, "ignore_eos": True, "temperature": 0.0, "cache_prompt": True, "return_tokens": True}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    sent = time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as answer:
        event = json.load(answer)
    took = time.monotonic() - sent
    timings = event["timings"]
    return took - timings["predicted_ms"] / 1e3, event["tokens"], len(prompt) - timings["prompt_n"]


def chats(port, args, vocab, seed):
    """First tokens of first turns and of later ones, the share of later prompts that was found, and all answers."""
    ids = random.Random(seed)
    texts = [[ids.randrange(vocab) for _ in range(args.prompt)] for _ in range(args.chats)]
    first, later, found, read, answers = [], [], 0, 0, []
    for turn in range(args.turns):
        for text in texts:
            took, answer, known = ask(port, text)
            if turn == 0:
                first.append(took)
            else:
                later.append(took)
                found, read = found + known, read + len(text)
            answers.append(answer)
            text += answer + [ids.randrange(vocab) for _ in range(MORE)]
    return first, later, found / max(read, 1), answers


def main():
    of, own, flags = parser(__doc__)
    of.add_argument("--chats", type=int, default=16)
    of.add_argument("--prompt", type=int, default=4000)
    of.add_argument("--turns", type=int, default=4)
    of.add_argument("--room", type=int, default=16384, help="tokens of the cache of all")
    of.add_argument("--places", type=int, default=4)
    of.add_argument("--rounds", type=int, default=2, help="times that each server is started")
    args = of.parse_args(own)
    room = ["-np", str(args.places), "-c", str(args.room), "--kv-unified"]
    ours = [args.kernloom, "serve", "-m", args.model, "--device", args.device, *room, *flags]
    servers = [("kernloom", ours), ("kernloom --cache-ram 0", [*ours, "--cache-ram", "0"])]
    if args.llama_server:
        servers.append(("llama-server", llama_server(args, room)))
    print("| server | first turns p50 ms | p99 | later turns p50 ms | p99 | found |\n|---|---|---|---|---|---|", flush=True)
    said = {}
    for number in range(args.rounds):
        for name, command in servers:
            with running(name, command) as (_, port):
                vocab = get(port, "/v1/models")["data"][0]["meta"]["n_vocab"]
                # What is compiled at the first step of a kind is not what is measured.
                ask(port, list(range(100, 100 + args.prompt)))
                first, later, found, answers = chats(port, args, vocab, number)
            said[number, name] = answers
            cells = [quantile(first, 0.5), quantile(first, 0.99), quantile(later, 0.5), quantile(later, 0.99)]
            print(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} | {found:.0%} |", flush=True)
    same = [sum(a == b for a, b in zip(said[number, "kernloom"], said[number, "kernloom --cache-ram 0"])) for number in range(args.rounds)]
    print(f"answers that are the same with and without: {sum(same)} of {args.rounds * args.chats * args.turns}")


if __name__ == "__main__":
    main()
