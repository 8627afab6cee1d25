"""Phrases put together from parts: `{a|b}` stands for one of the alternatives, which may be nothing, `<name>` for an
entry of a list of that name."""

import re
from functools import lru_cache

from draw import Draw

TOKEN = re.compile(r"[{}|]|<\w+>|[^{}|<]+")


@lru_cache(maxsize=None)
def parse(pattern: str) -> tuple:
    """A sequence of texts, `("<name>",)` for slots, and lists of alternatives, which are sequences too."""
    stack: list[list] = [[[]]]
    for token in TOKEN.findall(pattern):
        if token == "{":
            stack.append([[]])
        elif token == "|" and len(stack) > 1:
            stack[-1].append([])
        elif token == "}":
            choices = stack.pop()
            stack[-1][-1].append([tuple(choice) for choice in choices])
        else:
            stack[-1][-1].append((token,) if token.startswith("<") else token)
    (sequence,), = stack
    return tuple(sequence)


def pick(r: Draw, sequence: tuple, slots: dict[str, list[str]]) -> str:
    out = ""
    for part in sequence:
        if isinstance(part, str):
            out += part
        elif isinstance(part, tuple):
            entries = slots[part[0][1:-1]]
            out += entries[int(r.random() * len(entries))]
        else:
            out += pick(r, part[int(r.random() * len(part))], slots)
    return out


def expand(r: Draw, pattern: str, slots: dict[str, list[str]] = {}) -> str:
    """The pattern with an alternative chosen everywhere."""
    return pick(r, parse(pattern), slots)


def expression(pattern: str, slots: dict[str, list[str]] = {}) -> str:
    """A regular expression for everything that the pattern makes."""
    def write(sequence: tuple) -> str:
        return "".join(re.escape(part) if isinstance(part, str)
                       else "(?:" + "|".join(map(re.escape, slots[part[0][1:-1]])) + ")" if isinstance(part, tuple)
                       else "(?:" + "|".join(map(write, part)) + ")" for part in sequence)
    return write(parse(pattern))
