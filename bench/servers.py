"""Servers that are started to be measured, and ended whatever happens."""

import argparse
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def parser(doc):
    """What every comparison of servers is told, what is to be parsed of the command line, and the flags behind `--`, which are ours."""
    own = sys.argv[1:]
    own, flags = (own[: own.index("--")], own[own.index("--") + 1 :]) if "--" in own else (own, [])
    of = argparse.ArgumentParser(description=doc.splitlines()[0])
    of.add_argument("model", type=pathlib.Path)
    of.add_argument("--kernloom", required=True)
    of.add_argument("--llama-server")
    of.add_argument("--device", default="cuda")
    return of, own, flags


def llama_server(args, room):
    """The peer's command for the same model, on the same kind of device, with so much room."""
    layers = "0" if args.device == "cpu" else "99"
    return [args.llama_server, "-m", args.model, "-fa", "on", "-ngl", layers, "--no-webui", *room]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.load(answer)


@contextlib.contextmanager
def running(name, command):
    """A server by a command that takes --port: its process and its port, when it answers. What it said is told if it ends first."""
    port, log = free_port(), tempfile.TemporaryFile()
    process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
    try:
        for _ in range(6000):
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"{name} ended: {log.read()[-2000:].decode(errors='replace')}")
            try:
                get(port, "/health")
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit(f"{name} does not answer after ten minutes")
        yield process, port
    finally:
        process.terminate()
        process.wait(60)
