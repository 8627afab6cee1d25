"""Random choices that respect the split: what is held out is never drawn for training.

Held out are every tenth name, every tenth phrasing of a list and a tenth of the number pairs (by a hash, so that the
order of the numbers does not matter)."""

import random
import zlib
from dataclasses import dataclass

import lexicon


@dataclass
class Turn:
    """A question and its answer; `one_word` is the answer for those who ask for one word, `thought` a sentence of
    reasoning before it."""

    user: str
    answer: str
    one_word: str = ""
    thought: str = ""


def is_held(index: int) -> bool:
    """Whether the entry of a list is held out."""
    return index % 10 == 9


def is_held_pair(a: int, b: int) -> bool:
    """Whether a pair of numbers is held out."""
    return zlib.crc32(f"{min(a, b)} {max(a, b)}".encode()) % 10 == 0


class Draw(random.Random):
    """A seeded source of choices, of the training split or of the held-out one."""

    def __init__(self, seed: int, held: bool = False):
        super().__init__(seed)
        self.held = held

    def part(self, entries: list) -> list:
        """The entries of this split."""
        return [entry for i, entry in enumerate(entries) if is_held(i) == self.held]

    def say(self, phrasings: list[str], **slots) -> str:
        """A phrasing of this split with its slots filled."""
        n = len(phrasings)
        while is_held(i := int(self.random() * n)) != self.held:
            pass
        return phrasings[i].format_map(slots)

    def chance(self, p: float) -> bool:
        return self.random() < p

    def name(self) -> str:
        """A person's name."""
        return self.any_name(lexicon.GIRLS if self.chance(0.5) else lexicon.BOYS)

    def any_name(self, names: list[str]) -> str:
        if not self.held and self.chance(0.08):
            return self.made_up()
        return self.choice(self.part(names))

    def made_up(self) -> str:
        """A name that nobody has, so that names are copied and not only known."""
        syllables = ["ba", "do", "ki", "lu", "ma", "ne", "pi", "ra", "so", "ta", "vi", "zo", "mor", "lin", "fen", "gar",
                     "tel", "bri", "cas", "dru"]
        return "".join(self.choice(syllables) for _ in range(self.choice([2, 2, 3]))).capitalize()

    def pair(self, low: int, high: int) -> tuple[int, int]:
        """Two numbers of this split."""
        while True:
            a, b = self.randint(low, high), self.randint(low, high)
            if is_held_pair(a, b) == self.held:
                return a, b


