#!/usr/bin/env python3
"""Writes the cases of the evaluation, `demo/cases.jsonl`: for every skill some questions of the training split and some
held out, each with the answers that count as right; the requests of `held_out.py`; questions with tools, and with thinking.

    python3 demo/cases.py > demo/cases.jsonl"""

import json
import re

import beyond
import chats
import held_out
import skills
from draw import Draw

EACH = 40
HELLOS = chats.HELLO + chats.FINE
HONEST = sorted({answer for _, answers in beyond.OUT.values() for answer in answers or []})
# What answers count for the requests written by hand.
ANSWERS = {"hello": HELLOS, "thanks": chats.WELCOME, "bye": chats.BYE, "who": chats.I_AM, "what": chats.I_CAN, "made": chats.MADE, "beyond": HONEST}


def small(turn) -> bool:
    """Whether all numbers are at most 20, the sum apart."""
    return all(int(n) <= 20 for n in re.findall(r"\d+", turn.answer.split("=")[0]))


def draw(r: Draw, skill, keep, count: int) -> list:
    turns = {}
    for _ in range(100 * count):
        turn = skill(r)
        if keep(turn):
            turns[turn.user] = turn
        if len(turns) == count:
            break
    return list(turns.values())


def tool_cases(r: Draw, split: str) -> None:
    """Questions with tools: for one of them, and for none."""
    asked = set()
    while len(asked) < EACH:
        tools, messages = chats.tool_chat(r)
        said, call = messages[0]["content"], messages[1].get("tool_calls")
        if call and said not in asked:
            asked.add(said)
            print(json.dumps({"skill": "tool calls", "split": split, "user": said, "tools": tools, "call": call[0]["function"]}))
    for turn in draw(r, skills.draw, lambda turn: True, EACH):
        tools = [chats.tool(name) for name in r.sample(list(chats.TOOLS), r.choice([1, 2, 3]))]
        print(json.dumps({"skill": "tools that are not needed", "split": split, "user": turn.user, "tools": tools, "accept": accepted(turn)}))


def accepted(turn) -> list[str]:
    """The answers that count; a word problem may end with the sum."""
    return [turn.answer] + [turn.answer.split(",")[0] + "."] * (", so the answer is" in turn.answer)


def main() -> None:
    rows = [(skill.__name__.replace("_", " "), skill, lambda turn: True) for skill in skills.SKILLS if skill not in (skills.add, skills.subtract)]
    for skill in (skills.add, skills.subtract):
        rows += [(f"{skill.__name__} to 20", skill, small), (f"{skill.__name__} to 100", skill, lambda turn: not small(turn))]
    for held in (False, True):
        for name, skill, keep in rows:
            r = Draw(20_000 + held, held)
            if held and name.endswith("to 100"):
                # Held-out phrasings draw small numbers only; large ones come from the pairs alone.
                continue
            for turn in draw(r, skill, keep, EACH):
                print(json.dumps({"skill": name, "split": "held out" if held else "seen", "user": turn.user, "accept": accepted(turn)}))
    for wanted, users in held_out.REQUESTS.items():
        for user in users:
            print(json.dumps({"skill": "small talk and honest refusals", "split": "held out", "user": user, "accept": ANSWERS[wanted]}))
    r = Draw(30_000)
    for asks in (chats.small_talk, beyond.out_of_scope):
        for turn in draw(r, asks, lambda turn: True, EACH):
            lists = [answers for _, answers, _ in chats.TALK if answers and turn.answer in answers] + [HELLOS] * (turn.answer in HELLOS) + [HONEST] * (turn.answer in HONEST)
            print(json.dumps({"skill": "small talk and honest refusals", "split": "seen", "user": turn.user, "accept": lists[0]}))
    for held, split in ((False, "seen"), (True, "held out")):
        r = Draw(40_000 + held, held)
        tool_cases(r, split)
        for turn in draw(r, skills.draw, lambda turn: True, EACH):
            print(json.dumps({"skill": "thinking", "split": split, "user": turn.user, "think": True, "accept": accepted(turn)}))
    for wanted, users in held_out.SECOND.items():
        for user in users:
            kind = "refusals" if wanted == "beyond" else "small talk"
            print(json.dumps({"skill": f"{kind}, a second set", "split": "held out", "user": user, "accept": ANSWERS[wanted]}))


if __name__ == "__main__":
    main()
