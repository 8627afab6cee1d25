"""A byte-level BPE of our own: trained on the corpus, with the splitting rule that files call `glm4`.

Digits are never merged, so numbers are spelled digit by digit."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

# The expression of `glm4`, with Python's classes for \p{L} and \p{N}; they differ in letters that the corpus lacks.
SPLIT = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|(?:[^\w\r\n]|_)?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

CONTROL = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
USER_DEFINED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
                "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
SPECIALS = CONTROL + USER_DEFINED


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte, as in GPT-2."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in prints]
    return [chr(b) if b in prints else chr(256 + rest.index(b)) for b in range(256)]


class Tokenizer:
    """Text to ids and back. `tokens` are in the alphabet of bytes; the specials come last."""

    def __init__(self, tokens: list[str], merges: list[tuple[str, str]]):
        self.tokens, self.merges = tokens, merges
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.ranks = {pair: i for i, pair in enumerate(merges)}
        self.letters = byte_alphabet()
        self.bytes = {letter: b for b, letter in enumerate(self.letters)}
        self.cache: dict[str, list[int]] = {}
        self.special = {text: self.ids[text] for text in SPECIALS}

    @staticmethod
    def train(counts: Counter[str], size: int) -> "Tokenizer":
        """Merges the commonest pair of symbols, again and again; ties go to the pair that sorts first."""
        letters = byte_alphabet()
        tokens = sorted(letters)
        words = [[letters[b] for b in piece.encode()] for piece in counts if not piece.isdigit()]
        weights = [n for piece, n in counts.items() if not piece.isdigit()]
        pairs: Counter[tuple[str, str]] = Counter()
        where: dict[tuple[str, str], set[int]] = defaultdict(set)
        for i, word in enumerate(words):
            for pair in zip(word, word[1:]):
                pairs[pair] += weights[i]
                where[pair].add(i)
        merges: list[tuple[str, str]] = []
        while len(tokens) + len(SPECIALS) < size:
            best, count = min(pairs.items(), key=lambda entry: (-entry[1], entry[0]))
            if count < 2:
                raise ValueError(f"the corpus has too few pieces for {size} tokens")
            joined = "".join(best)
            if joined not in tokens:
                tokens.append(joined)
            merges.append(best)
            for i in list(where[best]):
                word, n = words[i], weights[i]
                for pair in zip(word, word[1:]):
                    pairs[pair] -= n
                    if pairs[pair] <= 0:
                        del pairs[pair]
                    where[pair].discard(i)
                out, k = [], 0
                while k < len(word):
                    if k + 1 < len(word) and (word[k], word[k + 1]) == best:
                        out.append(joined)
                        k += 2
                    else:
                        out.append(word[k])
                        k += 1
                words[i] = out
                for pair in zip(out, out[1:]):
                    pairs[pair] += n
                    where[pair].add(i)
        return Tokenizer(tokens + SPECIALS, merges)

    def piece(self, piece: str) -> list[int]:
        """The ids of a piece of the split: as a whole if it is a token, else by merges."""
        symbols = [self.letters[b] for b in piece.encode()]
        whole = self.ids.get("".join(symbols))
        if whole is not None:
            return [whole]
        while len(symbols) > 1:
            rank, at = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(symbols, symbols[1:])))
            if rank == len(self.ranks):
                break
            symbols[at:at + 2] = ["".join(symbols[at:at + 2])]
        return [self.ids[symbol] for symbol in symbols]

    def encode(self, text: str) -> list[int]:
        """The ids of ordinary text; specials in it are not recognised."""
        ids: list[int] = []
        cache = self.cache
        for piece in SPLIT.findall(text):
            known = cache.get(piece)
            if known is None:
                known = self.piece(piece)
                if len(cache) < 1 << 18:
                    cache[piece] = known
            ids += known
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        parts = [self.tokens[i] if self.tokens[i] in self.special else bytes(self.bytes[c] for c in self.tokens[i]).decode("latin-1") for i in ids]
        return "".join(parts).encode("latin-1").decode("utf-8", "replace")

    def save(self, path: Path) -> None:
        """Writes tokens, their types as GGUF numbers them, and merges."""
        types = [3 if t in CONTROL else 4 if t in USER_DEFINED else 1 for t in self.tokens]
        path.write_text(json.dumps({"tokens": self.tokens, "types": types, "merges": [" ".join(m) for m in self.merges]}, ensure_ascii=False))

    @staticmethod
    def load(path: Path) -> "Tokenizer":
        data = json.loads(path.read_text())
        return Tokenizer(data["tokens"], [tuple(merge.split(" ")) for merge in data["merges"]])
