#!/usr/bin/env python3
"""Compares the logits of this model in PyTorch, in f32 from the BF16 weights, with those that `kernloom logits` wrote
for the same tokens.

    kernloom logits -m MODEL.gguf --numerics exact --tokens 1,2,3 --out LOGITS
    python3 demo/compare.py FOLDER --tokens 1,2,3 --logits LOGITS"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from model import Config, Model
from shards import load_shards

parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("folder", type=Path, help="what train.py left")
parser.add_argument("--tokens", required=True)
parser.add_argument("--logits", type=Path, required=True)
args = parser.parse_args()

model = Model(Config(**json.loads((args.folder / "config.json").read_text())))
model.load(load_shards(args.folder))
tokens = torch.tensor([[int(t) for t in args.tokens.split(",")]])
with torch.no_grad():
    want = model.logits(tokens).double().numpy()
got = np.fromfile(args.logits, "<f4").reshape(want.shape).astype(np.float64)
error = ((got - want) ** 2).sum() / (want ** 2).sum()
print(f"NMSE {error:.2e} over {len(want)} tokens; same likeliest token at {(got.argmax(-1) == want.argmax(-1)).mean():.1%}")
raise SystemExit(0 if error < 1e-8 else 1)
