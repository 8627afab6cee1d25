#!/usr/bin/env python3
"""Trains the model: tokenizer and corpus are made here, from the seed. Leaves weights (BF16 safetensors in shards),
config, tokenizer, the held-out text and the loss curve in a folder.

    python3 demo/train.py --out DIR            the model that ships; under 8 minutes on an H200
    python3 demo/train.py --out DIR --smoke    a few steps of a tiny batch, on any machine

A run that finds a checkpoint in its folder goes on from it (`test_train.py`)."""

import argparse
import json
import math
import multiprocessing
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

import corpus
from model import Config, Model
from muon import Muon
from shards import save_shards
from tokenizer import Tokenizer

# Documents that the tokenizer is trained on, in parts.
TOKENIZER_PARTS, PART_DOCUMENTS = 16, 10000
# Steps that compile, and are not counted when the speed is measured.
WARM_STEPS = 100
# Seeds of the parts of the corpus: for training they count up from here, and nothing else uses numbers as large.
TRAINING, HELD_OUT = 1_000_000, 7


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", type=Path, required=True, help="folder for the results")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=17500, help="steps of the whole run; fewer if --minutes are too short for them")
    p.add_argument("--tokens", type=int, default=65536, help="tokens of a step")
    p.add_argument("--length", type=int, default=512, help="tokens of a row")
    p.add_argument("--long-every", type=int, default=4, help="every so many steps rows have 2048 tokens")
    p.add_argument("--muon-rate", type=float, default=0.02)
    p.add_argument("--adam-rate", type=float, default=0.006)
    p.add_argument("--decay", type=float, default=0.1, help="weight decay of the matrices")
    p.add_argument("--cooldown", type=float, default=0.5, help="part of the run in which the rates fall to nothing")
    p.add_argument("--minutes", type=float, default=7.5, help="time for the whole run")
    p.add_argument("--until", type=int, help="save a checkpoint and stop after this step")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 3))
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--smoke", action="store_true", help="a few steps of a tiny batch")
    return p.parse_args()


# --- corpus, in worker processes ---

worker_tokenizer: Tokenizer


def start_worker(path: Path) -> None:
    global worker_tokenizer
    worker_tokenizer = Tokenizer.load(path)


def make_rows(job: tuple[int, int, int]) -> np.ndarray:
    return corpus.rows(worker_tokenizer, *job)


def count_pieces(seed: int) -> Counter:
    return corpus.pieces(seed, PART_DOCUMENTS)


def make_tokenizer(args, path: Path, size: int) -> Tokenizer:
    if not path.exists():
        parts = 2 if args.smoke else TOKENIZER_PARTS
        with multiprocessing.get_context("fork").Pool(args.workers) as pool:
            counts = sum(pool.imap(count_pieces, [args.seed * 100 + i for i in range(parts)]), Counter())
        Tokenizer.train(counts, size).save(path)
    return Tokenizer.load(path)


def batches(args, tokenizer_path: Path, first: int):
    """Batches `[rows, length + 1]` of steps `first` and on; the same for every number of workers."""
    def jobs():
        for step in range(first, args.steps):
            length = args.length if (step + 1) % args.long_every else 2048
            yield TRAINING * args.seed + step, max(1, args.tokens // length), length
    with multiprocessing.get_context("fork").Pool(args.workers, start_worker, (tokenizer_path,)) as pool:
        yield from pool.imap(make_rows, jobs())


# --- training ---

def rate(args, step: int) -> float:
    """Factor of the learning rates: up, level, and down to nothing."""
    left = (args.steps - step) / args.steps
    return min(1.0, (step + 1) / max(1, args.steps // 50), left / args.cooldown)


def optimizers(args, model: Model) -> list[torch.optim.Optimizer]:
    routers = [b.router for b in model.blocks if not b.dense]
    matrices = [p for b in model.blocks for name, p in b.named_parameters() if p.dim() == 2 and name != "router"]
    norms = [p for p in model.parameters() if p.dim() == 1]
    adam = [dict(params=[model.embedding], lr=args.adam_rate), dict(params=[model.head], lr=args.adam_rate),
            dict(params=norms + routers, lr=args.adam_rate / 2)]
    return [Muon(matrices, lr=args.muon_rate, weight_decay=args.decay),
            torch.optim.AdamW(adam, betas=(0.9, 0.98), eps=1e-10, weight_decay=0.0, fused=model.head.is_cuda)]


def fit(args, step: int, began: float, first: int, started: float) -> None:
    """Takes back steps for which the time will be too short, while the rates do not fall yet."""
    now = time.time()
    each = (now - began) / (step - first)
    possible = step + int((args.minutes * 60 - (now - started)) / each)
    if possible < args.steps:
        args.steps = max(possible, step + 1)
        print(f"{each * 1000:.1f} ms a step: the run gets {args.steps} steps", flush=True)


def train(args, model: Model, path: Path, started: float) -> list[tuple[int, float]]:
    device = model.head.device
    opts = optimizers(args, model)
    for opt in opts:
        for group in opt.param_groups:
            group["first_lr"] = group["lr"]
    curve: list[tuple[int, float]] = []
    first, checkpoint = 0, args.out / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        for opt, state in zip(opts, saved["optimizers"]):
            opt.load_state_dict(state)
        first, curve, args.steps = saved["step"], saved["curve"], saved["steps"]
        print(f"going on from step {first}", flush=True)

    def save(step: int) -> None:
        partial = checkpoint.with_suffix(".partial")
        torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in opts], "step": step, "steps": args.steps, "curve": curve}, partial)
        partial.rename(checkpoint)

    recent, seen, since, began = [], 0, time.time(), time.time()
    for step, rows in enumerate(batches(args, path, first), first):
        packed = torch.from_numpy(rows.view(np.int16)).to(device, non_blocking=True).to(torch.int32)
        learn = (packed[:, 1:] < 0).flatten().float()
        tokens = (packed & (corpus.LEARN - 1)).long()
        with torch.autocast(device.type, torch.bfloat16):
            x, counts = model.stream(tokens[:, :-1].contiguous())
            loss, n = model.losses(x, tokens[:, 1:].flatten(), learn)
        (loss / n).backward()
        factor = rate(args, step)
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = group["first_lr"] * factor
            opt.step()
            opt.zero_grad(set_to_none=True)
        model.balance(counts, 0.002 * factor)
        recent.append((loss / n).detach())
        seen += tokens.shape[0] * (tokens.shape[1] - 1)
        if (step + 1) % max(1, min(100, args.steps // 10)) == 0 or step + 1 == args.steps:
            mean = torch.stack(recent).mean().item()
            curve.append((step + 1, mean))
            share = (counts / counts.sum(-1, keepdim=True).clamp(min=1))[model.config.first_k_dense_replace:]
            now = time.time()
            print(f"step {step + 1} loss {mean:.4f} rate {factor:.3f} experts {share.min().item():.3f}..{share.max().item():.3f} "
                  f"{seen / (now - since) / 1e6:.2f} Mtok/s {now - started:.0f} s", flush=True)
            recent, seen, since = [], 0, now
            if not math.isfinite(mean):
                raise SystemExit("the loss is not finite")
        if (step + 1) % 2000 == 0 and step + 1 < args.steps:
            save(step + 1)
        if step + 1 == args.until:
            save(step + 1)
            raise SystemExit(f"stopped after step {step + 1}; run the command again to go on")
        if step == first + WARM_STEPS:
            began = time.time()
        elif step > first and (step - first) % (10 * WARM_STEPS) == 0 and step < args.steps * (1 - args.cooldown):
            fit(args, step, began, first + WARM_STEPS, started)
        if step + 1 >= args.steps:
            break
    checkpoint.unlink(missing_ok=True)
    return curve


# --- results ---

def draw_curve(path: Path, curve: list[tuple[int, float]]) -> None:
    """The loss over the steps, as a picture."""
    wide, high, left, under = 720, 360, 50, 40
    low, top = 0.0, max(1e-6, min(2.0, max(y for _, y in curve)))
    last = curve[-1][0]
    x = lambda step: left + (wide - left - 10) * step / last
    y = lambda loss: 10 + (high - under - 10) * (1 - (min(loss, top) - low) / (top - low))
    points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in curve)
    grid = "".join(f'<line x1="{left}" x2="{wide - 10}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/><text x="{left - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>'
                   for v in (low + (top - low) * i / 5 for i in range(6)))
    ticks = "".join(f'<text x="{x(last * i / 5):.1f}" y="{high - 22}" text-anchor="middle">{last * i // 5}</text>' for i in range(6))
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>{grid}{ticks}'
                    f'<polyline points="{points}" fill="none" stroke="#2060b0" stroke-width="1.5"/><text x="{wide / 2}" y="{high - 6}" text-anchor="middle">steps; loss of what is learnt, nats a token</text></svg>\n')


def main() -> None:
    args, started = arguments(), time.time()
    if args.smoke:
        args.steps, args.tokens, args.length, args.no_compile, args.workers = min(args.steps, 6), 512, 256, True, min(args.workers, 2)
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    config = Config()
    path = args.out / "tokenizer.json"
    tokenizer = make_tokenizer(args, path, config.vocab_size)
    print(f"tokenizer: {len(tokenizer.tokens)} tokens, {time.time() - started:.0f} s", flush=True)
    model = Model(config).to(device)
    print(f"model: {sum(p.numel() for p in model.parameters()):,} weights on {device}", flush=True)
    if not args.no_compile:
        # Attention stays outside: the rest sees only the number of tokens, whatever the length of a row.
        for block in model.blocks:
            block.before, block.after = torch.compile(block.before), torch.compile(block.after)
        model.losses = torch.compile(model.losses)
    curve = train(args, model, path, started)
    (args.out / "config.json").write_text(json.dumps(config.to_dict(), indent=1) + "\n")
    (args.out / "held-out.txt").write_text(corpus.held_out_text(HELD_OUT, 8_000))
    draw_curve(args.out / "loss.svg", curve)
    (args.out / "loss.json").write_text(json.dumps(curve))
    save_shards(args.out, model.tensors())
    print(f"done in {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
