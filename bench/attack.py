#!/usr/bin/env python3
"""Attacks on the server, each for a while, beside clients with good manners.

    bench/attack.py --kernloom target/release/kernloom [--model MODEL.gguf] [--seconds 10] [--streams 4] [--only WORD]
                    [--memory MIB] [FLAGS of kernloom serve]

Prints for each attack the statuses that it got, how long /health took, the gaps between the tokens of the streams, and
the memory of the server and its children at most and afterwards. The aims: /health at the 99th percentile within 50 ms, and
that gap within twice the median while a processor is free; what misses one is marked with *. A server that dies, a
stream that is cut or has another text than alone (the server is told to give each request the same text whatever runs
beside it), or memory that does not come back within 64 MiB fail the run. Attackers are processes of their own. The table
of attacks is that of crates/cli/tests/attacks.rs in large. Needs nothing but Python, and Linux.
"""

import argparse
import asyncio
import collections
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

from load import send
from processes import holds, processor
from servers import free_port

HEALTH_AIM = 0.050
GAP_AIM = 2
KEPT = 64  # MiB by which the server may be larger afterwards.
REST = 30  # Seconds that it has to give back what an attack took.
TOKENS = 300
PROMPTS = [f"Once there was a {who} who" for who in "fox dog cat bird king queen baker farmer".split()]


# Bodies. Each attack is a list of ways to send something: a function of a port that gives a status, 0 for none.

def exchange(port, raw, leave=None, patience=120):
    """Sends bytes; the status of what comes back, or leaves after some seconds."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(raw)
        except OSError:
            pass
        if leave is not None:
            time.sleep(leave)
            return "left"
        got = b""
        try:
            while piece := connection.recv(1 << 16):
                got = got or piece[:16]
        except TimeoutError:
            return "late"
        except OSError:
            pass
        return int(got.split(b" ")[1]) if got.startswith(b"HTTP/1.1 ") else "closed"


def post(path, body, leave=None, headers=""):
    def go(port):
        data = body() if callable(body) else body
        data = data if isinstance(data, bytes) else data.encode()
        head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{headers}"
                f"Content-Length: {len(data)}\r\n\r\n")
        return exchange(port, head.encode() + data, leave)
    return go


def raw(data):
    return lambda port: exchange(port, data)


def hold(data, count, seconds):
    """Connections that have sent the same and stay."""
    def go(port):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for connection in held:
            try:
                connection.sendall(data)
            except OSError:
                pass
        time.sleep(seconds)
        for connection in held:
            connection.close()
        return "held"
    return go


def completion(more):
    return f'{{"prompt":"a","n_predict":4,{more}}}'


def gbnf(grammar):
    return post("/completion", lambda: completion(f'"grammar":{json.dumps(grammar)}'))


def schema(text, leave=None):
    return post("/completion", lambda: completion(f'"json_schema":{text}'), leave)


def pattern(text, leave=None):
    return schema(json.dumps({"type": "string", "pattern": text}), leave)


def ignored(what):
    return post("/completion", lambda: completion(f'"ignored":{what()}'))


def chain(rules, before="", after=""):
    lines = [f"r{at} ::= {before}r{at + 1}{after}" for at in range(rules)]
    return "\n".join(["root ::= r0", *lines, f'r{rules} ::= "a"'])


def references(count, before="", after=""):
    parts = [f'"d{at}":{before}{{"$ref":"#/$defs/d{at + 1}"}}{after}' for at in range(count)]
    return f'{{"$ref":"#/$defs/d0","$defs":{{{",".join(parts)},"d{count}":{{"type":"null"}}}}}}'


def doubling(count, word):
    twice = (f'"d{at}":{{"{word}":[{{"$ref":"#/$defs/d{at + 1}"}},{{"$ref":"#/$defs/d{at + 1}"}}]}}' for at in range(count))
    return f'{{"$ref":"#/$defs/d0","$defs":{{{",".join(twice)},"d{count}":{{"type":"null"}}}}}}'


def listed(item, size):
    return "[" + ",".join([item] * (size // (len(item) + 1))) + "]"


LINKS = [("", ""), ('{"type":"object","properties":{"a":', "}}"), ('{"type":"array","items":', "}"),
         ('{"anyOf":[{"type":"null"},', "]}"), ('{"allOf":[', "]}"),
         ('{"type":"object","required":["a"],"properties":{"a":', "}}")]
PATTERNS = ["((((a{1,50}){1,50}){1,50}){1,50})", "(([a-z]{1,40}[0-9]{1,40}){1,40}x?){1,40}", "(.*a)" * 60,
            ".{0,900}x.{0,900}y.{0,900}", "^(.*a.{40}|.*b.{40}|.*c.{40})$", r"(\p{L}{1,100}\p{N}{1,100}){1,20}",
            "(" + "ab|" * 600 + "z){200}"]
AT_ONCE = [json.dumps({"type": "string", "allOf": [{"pattern": f".*{chr(97 + n % 26)}.{{20}}"} for n in range(30)]}),
           json.dumps({"type": "string", "allOf": [{"pattern": f"^(.{{{n * 7 + 1}}})*$"} for n in range(2, 14)]}),
           json.dumps({"type": "object", "properties": {f"p{n}": {"type": "string",
                       "pattern": f"(.*[a-{chr(98 + n)}]{{1,30}}.*){{1,30}}"} for n in range(25)}})]
HEAD = b"POST /completion HTTP/1.1\r\nHost: localhost\r\n"
BELOW = (4 << 20) - 8192
MESSAGE = '{"role":"user","content":"a"}'

ATTACKS = {
    "grammars: stacked repeats": [gbnf('root ::= "a"' + repeat * (15000 // len(repeat))) for repeat in ("*", "?", "+", "{0,3}")],
    "grammars: chains": [gbnf(chain(rules)) for rules in (900, 5000, 40000)] + [gbnf(chain(5000, "(", ")*"))],
    "grammars: nesting": [gbnf("root ::= " + "(" * depth + '"a"' + ")" * depth) for depth in (1000, 15000, 300000)],
    "grammars: recursion": [gbnf(text) for text in ("root ::= root", 'root ::= root root | ""', 'root ::= root "a" | "a"',
                                                   "root ::= a\na ::= b\nb ::= a")],
    "grammars: wide": [gbnf('root ::= "a"' + ' | "b"' * 100000), gbnf("root ::= " + '"a"? ' * 20000),
                       gbnf('root ::= (((("a"{1000}){1000}){1000}){1000})')],
    "schemas: references": [schema(references(count, *link)) for link in LINKS for count in (1200, 20000)],
    "schemas: nesting": [schema('{"items":' * depth + "{}" + "}" * depth) for depth in (100, 10000, 100000)],
    "schemas: numbers": [schema(text) for text in (
        '{"type":"integer","multipleOf":4294967291}', '{"type":"number","multipleOf":1e-300}',
        '{"type":"string","minLength":1000000000}', '{"type":"array","minItems":1000000000}',
        '{"type":"integer","allOf":[{"multipleOf":99991},{"multipleOf":99989},{"multipleOf":99971}]}')],
    "schemas: lists": [schema('{"enum":[' + ",".join(f'"w{n}"' for n in range(50000)) + "]}"),
                       schema('{"type":"object","required":[' + ",".join(f'"n{n}"' for n in range(20000)) + "]}"),
                       schema('{"anyOf":[' + ",".join(f'{{"const":{n}}}' for n in range(20000)) + "]}")],
    "schemas: doubling": [schema(doubling(30, word)) for word in ("allOf", "anyOf", "oneOf")],
    "patterns": [pattern(text) for text in PATTERNS] + [schema(text) for text in AT_ONCE],
    "patterns, left after 50 ms": [pattern(text, 0.05) for text in PATTERNS] + [schema(text, 0.05) for text in AT_ONCE],
    "bodies: 60 MB of nested lists": [ignored(lambda: listed("[[[[[]]]]]", 60_000_000))],
    "bodies: empty lists to the limit": [ignored(lambda: listed("[]", BELOW))],
    "bodies: numbers to the limit": [ignored(lambda: listed("0", BELOW))],
    "bodies: text to the limit": [ignored(lambda: '"' + "a" * (BELOW - 100) + '"'),
                                  ignored(lambda: '"' + "\\u0000" * 650_000 + '"')],
    "bodies: keys": [ignored(lambda: "{" + ",".join(f'"{n:x}":0' for n in range(300_000)) + "}")],
    "bodies: depth": [ignored(lambda: "[" * 400_000 + "]" * 400_000), post("/tokenize", "[" * 1_000_000),
                      ignored(lambda: '{"a":' * 400_000 + "0" + "}" * 400_000)],
    "fields: many": [
        post("/completion", lambda: '{"prompt":[' + ",".join(["9"] * 1_000_000) + "]}"),
        post("/v1/chat/completions", lambda: '{"messages":[' + ",".join([MESSAGE] * 100_000) + "]}"),
        post("/apply-template", lambda: '{"messages":[' + ",".join([MESSAGE] * 100_000) + "]}"),
        post("/completion", lambda: completion('"logit_bias":[' + ",".join(["[1,0]"] * 200_000) + "]")),
        post("/completion", completion('"n":64,"temperature":1')),
        post("/completion", completion('"n_probs":1000'))],
    "text: 4 MB to tokens": [post("/tokenize", lambda: json.dumps({"content": text * (4_000_000 // len(text))}))
                             for text in ("a", " ", "word ", "<|user|>")],
    "names of a megabyte": [
        post("/v1/chat/completions", lambda: '{"stream":true,"max_tokens":8,"messages":[' + MESSAGE + '],"model":"'
             + "n" * 1_000_000 + '"}'),
        post("/v1/chat/completions", lambda: '{"messages":[{"role":"user","content":[{"type":"' + "n" * 1_000_000 + '"}]}]}')],
    "connections: 200 that say nothing": [hold(b"", 200, 1)],
    "connections: 200 heads without an end": [hold(HEAD + b"X-A: b", 200, 1)],
    "connections: 200 bodies that stall": [hold(HEAD + b"Content-Length: 4000000\r\n\r\n" + b"[" * 1_000_000, 200, 1)],
    "connections: chunks that stall": [hold(HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n[[", 200, 1)],
    "connections: broken": [
        raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"), raw(b"GET /\n"), raw(b"\0" * 1_000_000),
        raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{}"),
        raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(1000)) + b"\r\n"),
        raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n")],
    "clients that leave": [post("/completion", json.dumps({"prompt": "a " * 400, "n_predict": 900, "ignore_eos": True,
                                                           "stream": True}), leave) for leave in (0, 0.002, 0.02, 0.1)],
}


def attacker(name, port, seconds, first):
    """Sends what an attack has until the time is over; prints how often there was which status."""
    ways, statuses, at = ATTACKS[name], collections.Counter(), first
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            statuses[str(ways[at % len(ways)](port))] += 1
        except OSError as error:
            statuses[type(error).__name__] += 1
            time.sleep(0.05)
        at += 1
    print(json.dumps(statuses))


def quantile(values, q):
    values = sorted(values) or [0.0]
    return values[min(len(values) - 1, int(q * len(values)))]


class Watch:
    """Clients with good manners, and what they notice."""

    def __init__(self, port, pid, alone):
        self.port, self.pid, self.alone = port, pid, alone
        self.health, self.gaps, self.peak, self.wrong, self.over, self.streams, self.refused = [], [], 0, [], False, 0, 0

    async def stream(self, prompt):
        while not self.over:
            try:
                reader, writer = await send(self.port, "/completion", body(prompt, True))
                head = await reader.readline()
                if b" 429" in head:
                    self.refused += 1
                elif b" 200" not in head:
                    self.wrong.append(f"a stream got {head!r}")
                else:
                    await self.read(reader, prompt)
                writer.close()
            except OSError as error:
                self.wrong.append(f"a stream: {type(error).__name__}")
                await asyncio.sleep(0.2)

    async def read(self, reader, prompt):
        text, last, ended = "", None, False
        while line := await asyncio.wait_for(reader.readline(), 60):
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            now = time.monotonic()
            if last is not None and event.get("tokens"):
                self.gaps.append(now - last)
            text, last, ended = text + event.get("content", ""), now, event.get("stop") is True
        self.streams += 1
        if not ended or text != self.alone[prompt]:
            self.wrong.append("a stream was cut" if not ended else "a stream has another text than alone")

    async def ask_health(self):
        while not self.over:
            began = time.monotonic()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: close\r\n\r\n".encode())
                answer = await asyncio.wait_for(reader.read(), 60)
                writer.close()
                if not answer.startswith(b"HTTP/1.1 200"):
                    self.wrong.append(f"/health: {answer[:20]!r}")
            except (OSError, asyncio.TimeoutError) as error:
                self.wrong.append(f"/health: {type(error).__name__}")
                await asyncio.sleep(0.2)
            self.health.append(time.monotonic() - began)
            await asyncio.sleep(0.01)

    async def ask_memory(self):
        while not self.over:
            self.peak = max(self.peak, holds(self.pid)["memory"])
            await asyncio.sleep(0.05)

    async def run(self, name, args):
        watching = [asyncio.create_task(task) for task in (
            self.ask_health(), self.ask_memory(), *(self.stream(PROMPTS[at % len(PROMPTS)]) for at in range(args.streams)))]
        statuses = collections.Counter()
        if name is None:
            await asyncio.sleep(args.seconds)
        else:
            command = [sys.executable, os.path.abspath(__file__), "--attacker", name, "--port", str(self.port),
                       "--seconds", str(args.seconds)]
            attackers = [await asyncio.create_subprocess_exec(*command, "--first", str(at), stdout=subprocess.PIPE)
                         for at in range(args.attackers)]
            for one in attackers:
                out, _ = await one.communicate()
                statuses.update(json.loads(out) if out else {"attacker died": 1})
        self.over = True
        await asyncio.gather(*watching)
        return statuses


def body(prompt, stream):
    return json.dumps({"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "ignore_eos": True, "stream": stream}).encode()


class Server:
    def __init__(self, args, flags):
        self.args, self.flags, self.process = args, flags, None

    def start(self):
        self.port, self.log = free_port(), tempfile.TemporaryFile()
        command = [self.args.kernloom, "serve", *([self.args.model] if self.args.model else []), "--port", str(self.port),
                   "-t", str(self.args.threads), "-np", str(self.args.streams + 4), "-c", "16384", "--kv-unified",
                   "--batch-invariant", "--log-disable", *self.flags]
        most = self.args.memory << 20
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))  # noqa: E731
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, preexec_fn=limit)
        for _ in range(6000):
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended: {self.end()}")
            try:
                if exchange(self.port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        self.alone = {}
        for prompt in PROMPTS:
            self.alone[prompt] = asyncio.run(self.ask(prompt))
        gbnf('root ::= "a"')(self.port)
        self.before = holds(self.process.pid)

    async def ask(self, prompt):
        reader, writer = await send(self.port, "/completion", body(prompt, False))
        answer = await reader.read()
        writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])["content"]

    def lives(self):
        return self.process.poll() is None

    def rest(self):
        """What it holds once it has nothing to do, or when the time is over; and whether it has nothing to do."""
        end, idle = time.monotonic() + REST, False
        while time.monotonic() < end:
            used = processor(self.process.pid)
            time.sleep(0.3)
            idle = processor(self.process.pid) - used < 0.03
            now = holds(self.process.pid)
            if idle and now["memory"] <= self.before["memory"] + KEPT and now["descriptors"] <= self.before["descriptors"] + 16:
                break
        return holds(self.process.pid), idle

    def end(self):
        """Ends it; the last that it said."""
        self.process.kill()
        self.process.wait()
        self.log.seek(0)
        said = self.log.read()[-300:].decode(errors="replace").strip().splitlines()
        return said[-1] if said else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernloom")
    parser.add_argument("--model")
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    parser.add_argument("--streams", type=int, default=4, help="clients with good manners")
    parser.add_argument("--attackers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", type=int, default=8192, help="MiB of address space of the server")
    parser.add_argument("--only", metavar="WORD", help="attacks with this in their names")
    parser.add_argument("--attacker", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    args, flags = parser.parse_known_args()
    if args.attacker:
        return attacker(args.attacker, args.port, args.seconds, args.first)
    if not args.kernloom:
        parser.error("--kernloom is needed")
    server, failed = Server(args, flags), 0
    server.start()
    print(f"{args.streams} streams, {args.attackers} attackers, {args.threads} threads of {os.cpu_count()}; "
          f"{server.before['memory']:.0f} MiB, {server.before['descriptors']} descriptors before\n")
    print(f"{'attack':38} {'health p50/p99/max ms':>24} {'gap p50/p99/max ms':>22} {'MiB peak/after':>15} {'fds':>4}  statuses")
    for name in [None, *(name for name in ATTACKS if not args.only or args.only in name)]:
        watch = Watch(server.port, server.process.pid, server.alone)
        statuses = asyncio.run(watch.run(name, args))
        lives = server.lives()
        after, idle = server.rest() if lives else ({"memory": 0, "descriptors": 0}, True)
        h, g = ([1e3 * quantile(values, q) for q in (0.5, 0.99, 1)] for values in (watch.health, watch.gaps))
        marks = "".join(("*" if h[1] > 1e3 * HEALTH_AIM else " ", "*" if g[1] > GAP_AIM * g[0] else " "))
        kept = after["memory"]
        counts = ", ".join(f"{status} x{count}" for status, count in sorted(statuses.items()))
        print(f"{name or 'none':38} {f'{h[0]:.1f}/{h[1]:.1f}/{h[2]:.0f}{marks[0]}':>24} "
              f"{f'{g[0]:.2f}/{g[1]:.2f}/{g[2]:.0f}{marks[1]}':>22} {f'{watch.peak:.0f}/{kept:.0f}':>15} "
              f"{after['descriptors']:>4}  {counts}", flush=True)
        wrong = sorted(set(watch.wrong))
        if lives and not idle:
            wrong.append(f"it still computes {REST} s later")
        if after["memory"] > server.before["memory"] + KEPT:
            wrong.append("its memory does not come back")
        if after["descriptors"] > server.before["descriptors"] + 16:
            wrong.append("its descriptors do not come back")
        if not lives:
            wrong.insert(0, f"the server died: {server.end()}")
        if wrong:
            failed += 1
            print(f"    {watch.streams} streams, {watch.refused} refused; wrong: " + "; ".join(wrong[:4]), flush=True)
        if not lives or not idle:
            server.end()
            server.start()
    server.end()
    print(f"\n{failed} attacks did harm")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
