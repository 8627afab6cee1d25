#!/usr/bin/env python3
"""The figures that .ci/published compares with, computed from the file alone by other means.

    reference.py FILE.gguf LLAMA_PERPLEXITY > figures.json        # needs numpy, gguf, tokenizers, jinja2

Token ids by the tokenizers library from the vocabulary and the merges in the file, the prompt of a chat by Jinja2, greedy
texts and perplexity by a transformer in numpy with the dequantised weights in f32. Prompts whose greedy texts hang on a near
tie are left out: rounding would decide them. Beside that the perplexity that llama.cpp's program gives, which rounds inputs
to 8 bits.
"""
import json
import pathlib
import re
import subprocess
import sys

import jinja2
import numpy
from gguf import GGUFReader, dequantize
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = "demo/held-out.txt"
WINDOW = 512
GREEDY_TOKENS = 32
LEAST_MARGIN = 0.02
TEXTS = [
    "Hello, world!",
    "The year 2024 had 366 days; pi is 3.14159.",
    "  two  spaces,\ttabs\n\nand lines\r\n",
    "I'm sure they've said it wasn't ours, HE'LL see.",
    "Zürich, naïve café, Ελληνικά, русский",
    "日本語の文章、中文，한국어",
    "emoji 👩‍🚀🎉 and \u200b zero width",
    "fn main() { println!(\"{:?}\", 1_000_000u64 << 3); } // ok",
    "<|im_start|>user<|endoftext|>",
    "",
]
CHAT = [
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "And of Italy?\n"},
]
PROMPTS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "List three colours.",
    "What do bees make?",
    "Why is the sky blue?",
]


class File:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {t.name: dequantize(t.data, t.tensor_type).astype(numpy.float32) for t in reader.tensors}

    def tokenizer(self):
        tokens, kinds = self.fields["tokenizer.ggml.tokens"], self.fields["tokenizer.ggml.token_type"]
        vocabulary = {token: id for id, token in enumerate(tokens)}
        merges = [tuple(merge.split(" ")) for merge in self.fields["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        digits, bytes_ = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer, {token: id for id, token in enumerate(tokens) if kinds[id] == 3}


def norm(x, weight, eps):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


class Model:
    """A llama, one text at a time; keys and values of what was read are kept."""

    def __init__(self, file):
        f = lambda name: file.fields[f"llama.{name}"]
        self.w, self.layers, self.eps = file.tensors, f("block_count"), f("attention.layer_norm_rms_epsilon")
        self.heads, self.kv_heads = f("attention.head_count"), f("attention.head_count_kv")
        self.head, self.base = f("rope.dimension_count"), f("rope.freq_base")
        self.clear()

    def clear(self):
        self.kept = [([], []) for _ in range(self.layers)]

    def rotated(self, x, start):
        angles = (start + numpy.arange(x.shape[0]))[:, None] * self.base ** (-numpy.arange(0, self.head, 2) / self.head)
        cos, sin = (f(angles).astype(numpy.float32)[:, None] for f in (numpy.cos, numpy.sin))
        even, odd = x[..., 0::2], x[..., 1::2]
        return numpy.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    def logits(self, ids):
        w, x = self.w, self.w["token_embd.weight"][ids]
        for layer, (keys, values) in enumerate(self.kept):
            of = lambda name: w[f"blk.{layer}.{name}.weight"]
            start = sum(len(part) for part in keys)
            h = norm(x, of("attn_norm"), self.eps)
            rows = lambda name, heads: (h @ of(name).T).reshape(len(ids), heads, self.head)
            q = self.rotated(rows("attn_q", self.heads), start)
            keys.append(self.rotated(rows("attn_k", self.kv_heads), start))
            values.append(rows("attn_v", self.kv_heads))
            group = self.heads // self.kv_heads
            k, v = (numpy.concatenate(part).repeat(group, 1).transpose(1, 0, 2) for part in (keys, values))
            scores = q.transpose(1, 0, 2) @ k.transpose(0, 2, 1) / self.head**0.5
            later = numpy.arange(k.shape[1])[None] > start + numpy.arange(len(ids))[:, None]
            scores = numpy.where(later, -numpy.inf, scores)
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            mixed = (weights / weights.sum(-1, keepdims=True)) @ v
            x = x + mixed.transpose(1, 0, 2).reshape(len(ids), -1) @ of("attn_output").T
            h = norm(x, of("ffn_norm"), self.eps)
            gate = h @ of("ffn_gate").T
            x = x + (gate / (1 + numpy.exp(-gate)) * (h @ of("ffn_up").T)) @ of("ffn_down").T
        return norm(x, w["output_norm.weight"], self.eps) @ w["token_embd.weight"].T


def greedy(model, ids, end):
    """Tokens that follow, and the least distance of a likeliest logit from the next one."""
    model.clear()
    out, margin, ids = [], float("inf"), list(ids)
    while len(out) < GREEDY_TOKENS:
        row = model.logits(ids)[-1]
        second, first = numpy.partition(row, -2)[-2:]
        margin, ids = min(margin, float(first - second)), [int(row.argmax())]
        if ids[0] == end:
            break
        out += ids
    return out, margin


def perplexity(model, ids):
    """Of the second half of each window, as `kernloom perplexity` counts."""
    losses = []
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        window = ids[start : start + WINDOW]
        model.clear()
        rows = model.logits(window[:-1]).astype(numpy.float64)
        most = rows.max(-1, keepdims=True)
        logs = rows - most - numpy.log(numpy.exp(rows - most).sum(-1, keepdims=True))
        losses += [-logs[at, window[at + 1]] for at in range(WINDOW // 2, WINDOW - 1)]
    return float(numpy.exp(numpy.mean(losses)))


def parted(text, special):
    """Special tokens, and what lies between them."""
    parts = re.split("(" + "|".join(map(re.escape, special)) + ")", text)
    return [part for part in parts if part]


def main():
    file = File(sys.argv[1])
    tokenizer, special = file.tokenizer()
    chat = jinja2.Environment().from_string(file.fields["tokenizer.chat_template"])
    rendered = lambda messages: chat.render(messages=messages, add_generation_prompt=True)
    encode = lambda text: tokenizer.encode(text).ids
    ids_of = lambda part: [special[part]] if part in special else encode(part)

    model, texts = Model(file), []
    for question in PROMPTS:
        ids = [id for part in parted(rendered([{"role": "user", "content": question}]), special) for id in ids_of(part)]
        out, margin = greedy(model, ids, special["<|im_end|>"])
        print(f"{question}: margin {margin:.4f}", file=sys.stderr)
        if margin >= LEAST_MARGIN:
            texts.append({"prompt": question, "text": tokenizer.decode(out)})
    peer = [sys.argv[2], "-m", sys.argv[1], "-f", str(ROOT / TEXT), "-c", str(WINDOW), "-b", str(WINDOW)]
    said = subprocess.run(peer, capture_output=True, text=True, check=True)
    figures = {
        "tokens": [{"text": text, "ids": encode(text)} for text in TEXTS],
        "chat": {"messages": CHAT, "prompt": rendered(CHAT)},
        "greedy": texts,
        "greedy_tokens": GREEDY_TOKENS,
        "text": TEXT,
        "perplexity": round(perplexity(model, encode((ROOT / TEXT).read_text())), 5),
        "perplexity_of_llama_cpp": float(re.search(r"Final estimate: PPL = ([\d.]+)", said.stdout + said.stderr)[1]),
    }
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    print(re.sub(r"\[\s+(\d[\d,\s]*?)\s+\]", lambda ids: "[" + re.sub(r"\s+", " ", ids[1]) + "]", text))


if __name__ == "__main__":
    main()
