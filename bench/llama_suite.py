#!/usr/bin/env python3
"""llama.cpp's own server tests against `kernloom serve`, group by group.

Usage: bench/llama_suite.py KERNLOOM [--model FILE ...] [--source FOLDER] [--slow] [--list] [GROUP...]

The tests come with the source of the Python package llama-cpp-python (--source: a checkout of llama.cpp), their packages go into an
environment of their own; both are kept in the cache folder. Every preset gets the same model, nothing is downloaded for it: the one
that comes with the program, or each --model in turn. A test that fails with one model and passes with another fails for want of a
better model; one that fails with all of them may fail for want of a feature. Groups are the files of tests, without those of
what this server does not have (--list says which and why)."""

import argparse
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import xml.etree.ElementTree

PACKAGE = "llama-cpp-python==0.3.36"

# What the tests are about that is not there.
ABSENT = {
    "compat_gcp": "Google's prediction routes",
    "lora": "adapters",
    "mcp_servers": "MCP",
    "proxy": "MCP",
    "rerank": "a model that ranks",
    "router": "starting servers for models",
    "speculative": "draft models",
    "tools_builtin": "tools that the server runs",
    "vision_api": "images",
    "slot_save": "slots on disk",
}

# Stands for llama-server: every preset has the model, which thinks as little as those of the presets. All presets are started
# once before any test, those too of what is not there.
SERVER = """\
#!{python}
import os, sys
words, given = sys.argv[1:], []
while words:
    word = words.pop(0)
    if word in ("--hf-repo", "--hf-file", "--model-url", "--model", "--mmproj-url"):
        words.pop(0)
    elif word not in ("--offline", "--reranking"):
        given.append(word)
if "--reasoning" not in given:
    given += ["--reasoning", "off"]
os.environ.setdefault("LLAMA_ARG_CORS_ORIGINS", "*")
os.execv({program!r}, [{program!r}, "serve", *{model!r}, "--offline", *given])
"""


def cache():
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kernloom-llama-suite"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tests_of(source):
    """The folder of the tests, in this checkout or in the source of the package."""
    if source:
        return source / "tools/server/tests"
    kept = cache() / PACKAGE.replace("==", "-")
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            pip, source = [sys.executable, "-m", "pip"], ["--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
            # Nothing is built: the source is all that is wanted of it.
            subprocess.run([*pip, "install", "--quiet", "scikit-build-core"], check=True)
            subprocess.run([*pip, "download", *source, PACKAGE, "-d", folder], check=True)
            archive = next(pathlib.Path(folder).glob("*.tar.gz"))
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
            archive.unlink()
            next(pathlib.Path(folder).iterdir()).rename(kept)
    return kept / "vendor/llama.cpp/tools/server/tests"


def python_for(tests):
    """An environment with the packages that the tests ask for."""
    kept, wanted = cache() / "python", (tests / "requirements.txt").read_text() + "pytest-timeout\n"
    if not (kept / "pins").is_file() or (kept / "pins").read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", kept], check=True)
        (kept / "wanted.txt").write_text(wanted)
        subprocess.run([kept / "bin/pip", "install", "--quiet", "-r", kept / "wanted.txt"], check=True)
        (kept / "pins").write_text(wanted)
    return kept / "bin/python"


def group_of(path):
    return path.stem.removeprefix("test_")


def run(python, tests, group, program, model, slow):
    """What became of each test of a group: passed, failed or skipped."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server, report = folder / "llama-server", folder / "report.xml"
        server.write_text(SERVER.format(python=sys.executable, program=str(program), model=["-m", str(model)] if model else []))
        server.chmod(0o755)
        command = [python, "-m", "pytest", "-q", f"--junitxml={report}", "--timeout=120", f"unit/test_{group}.py"]
        command += [] if slow else ["-m", "not slow"]
        environment = {**os.environ, "LLAMA_SERVER_BIN_PATH": str(server), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
        if not report.is_file():
            raise SystemExit(f"{group}: pytest wrote no report:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        became = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error")]
            skipped = any(child.tag == "skipped" for child in case)
            name = case.get("name") or case.get("classname")
            became[name] = "failed" if bad else "skipped" if skipped else "passed"
            if bad:
                reason = (bad[0].get("message") or "").strip().splitlines()
                became[name, "why"] = reason[0][:160] if reason else "no message"
        return became


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--model", type=pathlib.Path, action="append")
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--slow", action="store_true", help="those too that are marked as slow")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--why", action="store_true", help="print what fails with every model, with the first line of its reason")
    args = parser.parse_intermixed_args()
    tests = tests_of(args.source)
    known = sorted(group_of(path) for path in (tests / "unit").glob("test_*.py"))
    if args.list:
        print(textwrap.fill(" ".join(name for name in known if name not in ABSENT), 100))
        for name in known:
            if name in ABSENT:
                print(f"not there: {name} ({ABSENT[name]})")
        return
    wanted = args.groups or [name for name in known if name not in ABSENT]
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"no group {unknown[0]}; there are {', '.join(known)}")
    python, program = python_for(tests), args.program.resolve()
    models = [model.resolve() for model in args.model or []] or [None]
    print("| tests | passed | failed, and passed with another model | failed with all | skipped |\n|---|---:|---:|---:|---:|")
    total = [0] * 4
    for group in wanted:
        results = [run(python, tests, group, program, model, args.slow) for model in models]
        names = [name for name in results[0] if isinstance(name, str)]
        counts = [0] * 4
        for name in names:
            became = [result.get(name, "skipped") for result in results]
            place = 3 if became[0] == "skipped" else 0 if became[0] == "passed" else 1 if "passed" in became else 2
            counts[place] += 1
            if args.why and place == 2:
                print(f"  {group}::{name}: {results[-1].get((name, 'why'))}", file=sys.stderr)
        total = [a + b for a, b in zip(total, counts)]
        print(f"| {group} | " + " | ".join(map(str, counts)) + " |", flush=True)
    print("| all | " + " | ".join(map(str, total)) + " |")


if __name__ == "__main__":
    main()
