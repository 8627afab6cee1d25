#!/usr/bin/env python3
"""Checks the corpus: nothing that is held out can be drawn for training, and how its parts are balanced.

    python3 demo/check_corpus.py"""

import re
from collections import Counter

import beyond
import chats
import corpus
import held_out
import phrases
import skills
from draw import Draw
from grammar import expression

DOCUMENTS = 20_000


def patterns() -> list[tuple[str, dict[str, list[str]]]]:
    """Everything that is put together from parts."""
    talk = [p for name in ("HELLO", "FINE", "THANKS", "BYE", "WHO", "WHAT", "MADE") for p in getattr(phrases, name)]
    return [(phrases.BEFORE + p, {}) for p in talk] + [(p, beyond.SLOTS) for kind, ps in beyond.COMPOSED.items() if kind not in ("nonsense", "hard sums") for p in ps]


def main() -> None:
    held = [user for requests in (held_out.REQUESTS, held_out.SECOND) for users in requests.values() for user in users]
    found = [user for user in held for pattern, slots in patterns() if re.fullmatch(expression(pattern, slots) + r"[\s.!?]*", user, re.IGNORECASE)]
    r, seen, counts, letters = Draw(99), set(), Counter(), Counter()
    for _ in range(DOCUMENTS):
        document = corpus.document(r)
        kind = "story" if document[0][0] != "[gMASK]" else "tools" if "\n# Tools" in document[3][0] else "chat"
        counts[kind] += 1
        letters[kind] += sum(len(text) for text, learn in document if learn)
        seen.update(held_out.plain(text) for text, _ in document)
    found += [user for user in held if held_out.plain(user) in seen]
    draws, kinds = Draw(98), Counter()
    answers = {answer: kind for kind, (_, given) in beyond.OUT.items() for answer in given or []}
    answers |= {answer: "small talk" for _, given, _ in chats.TALK for answer in given or []} | {answer: "small talk" for answer in chats.HELLO + chats.FINE}
    for _ in range(DOCUMENTS):
        kinds[answers.get(chats.talk_or_skill(draws).answer, "a skill")] += 1
    for name, part in (("documents", counts), ("letters learnt", letters), ("turns", kinds)):
        total = sum(part.values())
        print(f"{name}: " + ", ".join(f"{kind} {n / total:.1%}" for kind, n in part.most_common()))
    print(f"{len(skills.SKILLS)} skills, {len(held)} requests written by hand and held out")
    if found:
        raise SystemExit("held out, but in the training part: " + "; ".join(sorted(set(found))))


if __name__ == "__main__":
    main()
