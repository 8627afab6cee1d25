#!/usr/bin/env python3
"""Tests training on any machine, in tiny steps: a run that was stopped and goes on gives the weights and losses of one
that was not, and what it leaves is complete.

    python3 demo/test_train.py"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from model import Config, Model
from shards import load_shards

HERE = Path(__file__).resolve().parent


def run(out: Path, *more: str) -> int:
    command = [sys.executable, str(HERE / "train.py"), "--smoke", "--workers", "1", "--out", str(out), *more]
    return subprocess.run(command, env={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}).returncode


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, parts = Path(folder) / "whole", Path(folder) / "parts"
        assert run(whole) == 0
        parts.mkdir()
        shutil.copy(whole / "tokenizer.json", parts)
        assert run(parts, "--until", "3") != 0
        assert (parts / "checkpoint.pt").exists() and not (parts / "config.json").exists()
        assert run(parts) == 0
        assert not (parts / "checkpoint.pt").exists()
        losses = [json.loads((out / "loss.json").read_text()) for out in (whole, parts)]
        assert len(losses[0]) == 6 and losses[0] == losses[1], losses
        assert losses[0][-1][1] < losses[0][0][1], "the loss does not fall"
        weights = [load_shards(out) for out in (whole, parts)]
        assert weights[0].keys() == weights[1].keys() and all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
        model = Model(Config())
        model.load(weights[0])
        assert all(path.stat().st_size < 16 << 20 for path in whole.glob("*.safetensors"))
        assert {path.name for path in whole.iterdir()} >= {"config.json", "held-out.txt", "loss.svg", "tokenizer.json", "model.safetensors.index.json"}
        if len(sys.argv) > 1:
            shutil.copytree(whole, sys.argv[1], dirs_exist_ok=True)
    print("a run that goes on is the run that was never stopped")


if __name__ == "__main__":
    main()
