#!/usr/bin/env python3
"""How many sentences of stories follow the grammar of the corpus, whatever names and things they use.

    for s in $(seq 50); do kernloom run -p "Tell me a story." --temp 0.7 -n 200 --seed $s; done > stories.txt
    python3 demo/stories_check.py stories.txt

A sentence counts if some line of `stories.py` reads like it with any words in its slots; what does not is printed. The
last sentence of a story that was cut at 200 tokens is left out."""

import re
import sys
from pathlib import Path

import lexicon as lx
import stories

BRIDGES = ["The next day, the sun was shining again.", "A week later, something else happened.", "But that was not all.", "The next morning, {H} met {F} again.",
           "Some time later, {H} had a new idea.", "After that, everything was quiet for a while."]
NAME = r"[A-Z][a-z]+"
KIND = r"(?:[a-z]+ )?[a-z]+"
PRONOUN = {"he": "(?:he|she)", "him": "(?:him|her)", "his": "(?:his|her)", "He": "(?:He|She)", "His": "(?:His|Her)", "himself": "(?:himself|herself)"}
HOBBY = "(?:" + "|".join(re.escape(h).replace(re.escape("{F}"), NAME) for h in stories.HOBBIES) + ")"


def one_of(words) -> str:
    return "(?:" + "|".join(map(re.escape, sorted(words, key=len, reverse=True))) + ")"


def a(words) -> str:
    return one_of({lx.a(word) for word in words})


PLACE = one_of({place for place, _ in lx.PLACES})
SLOTS = {"H": NAME, "F": NAME, "place": PLACE, "inplace": f"(?:in|on|at|by) the {PLACE}", "inaplace": f"(?:in|on|at|by) an? (?:{one_of(lx.PLACE_WORDS)} )?{PLACE}",
         "Inaplace": f"(?:In|On|At|By) an? (?:{one_of(lx.PLACE_WORDS)} )?{PLACE}", "thing": one_of(lx.THINGS), "athing": a(lx.THINGS), "build": one_of(stories.BUILDS), "abuild": a(stories.BUILDS),
         "food": one_of(lx.FOODS), "onefood": one_of(lx.ONE_FOOD.values()), "skill": one_of(stories.SKILLS), "ingredient": one_of(stories.INGREDIENTS), "trait": one_of(lx.TRAITS), "trait2": one_of(lx.TRAITS),
         "size": one_of(lx.SIZES), "wet": one_of(["cold", "warm", "rainy", "sunny", "windy", "quiet"]), "hobby": HOBBY, "hobby2": HOBBY, "day": one_of(lx.DAYS),
         "time": one_of(["morning", "evening", "day", "afternoon"]), "colour": one_of(lx.COLOURS)}
SLOTS |= PRONOUN | {"f" + key: value for key, value in PRONOUN.items() if key[0].islower()} | {"F" + key: value for key, value in PRONOUN.items() if key[0].isupper()}
KINDS = one_of(lx.STORY_ANIMALS + lx.STORY_FOLK + ["girl", "boy"])
SLOTS |= {"kind": KINDS, "fkind": KINDS} | {key: f"an? {one_of(lx.TRAITS + lx.SIZES)} {KINDS}" for key in ("akind", "afkind")}


def lines() -> list[str]:
    """Everything that a story may say."""
    beats = [stories.OPENINGS, stories.FOLLOWS, stories.INTRODUCTIONS, stories.WEATHER, stories.ENDINGS, BRIDGES] + [beat for plot in stories.PLOTS.values() for beat in plot]
    return sorted({line for beat in beats for line in beat if line != "?"})


def pattern(line: str) -> str:
    parts = re.split(r"\{(\w+)\}", line)
    return "".join(re.escape(part) if i % 2 == 0 else SLOTS[part] for i, part in enumerate(parts))


def main() -> None:
    grammar = re.compile("|".join(f"(?:{pattern(line)})" for line in sorted(lines(), key=len, reverse=True)))
    right, wrong = 0, []
    for story in re.split(r"\n(?=\S)", Path(sys.argv[1]).read_text().replace("\n\n", " ")):
        text, at = story.strip(), 0
        while at < len(text):
            found = grammar.match(text, at)
            if found and (found.end() == len(text) or text[found.end()] == " "):
                right, at = right + 1, found.end() + 1
                continue
            end = re.search(r'[.!?]"?(?: |$)', text[at:])
            if not end:
                break
            wrong.append(text[at:at + end.end()])
            at += end.end()
    for sentence in wrong:
        print(sentence)
    print(f"{right} of {right + len(wrong)} sentences follow the grammar ({right / max(1, right + len(wrong)):.1%})")


if __name__ == "__main__":
    main()
