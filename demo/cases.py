#!/usr/bin/env python3
"""Writes the cases of the evaluation, `demo/cases.jsonl`: for every skill some questions of the training split and some
held out, each with the answers that count as right; and the requests written by hand below, which no list of the corpus
contains (two earlier sets showed where the corpus was too narrow; this one was written after them).

    python3 demo/cases.py > demo/cases.jsonl"""

import json
import re

import chats
import skills
from draw import Draw

EACH = 40
HELLOS = chats.HELLO + chats.FINE
HONEST = sorted({answer for _, answers in chats.OUT.values() for answer in answers or []})
# Written by hand, not drawn: how strangers may greet, ask about the model, or ask for too much.
BY_HAND = [
    (HELLOS, ["Good evening, dear machine", "hey, just checking in to say hi", "Hello from the other side of the world", "Oh hello, I did not see you there", "Hi, is it a good day for you?", "Rise and shine!"]),
    (chats.WELCOME, ["You are a star, thanks", "Thanks, I could not have done it without you", "thank you for all of this"]),
    (chats.BYE, ["Well, I'd better be going. Bye!", "Catch you later"]),
    (chats.I_AM, ["Could you tell me a bit about who you are?", "Do I talk to a person or to a computer here?", "What name did they give you?"]),
    (chats.I_CAN, ["How can you make yourself useful?", "Please list everything that you can do", "What could I ask you about?"]),
    (chats.MADE, ["Who put you together?", "What company do you come from?"]),
    (HONEST, ["Build me a website with React", "Why does my for loop never end?", "Generate a Dockerfile for a Node app", "Explain what a pointer is in C", "Translate the word apple into Italian", "Say thank you in Japanese", "Wo ist der Bahnhof?", "Je voudrais un cafe.",
              "Any breaking news?", "Who won the match between Spain and Italy?", "Who is the mayor of London?", "Is it going to snow on Christmas?", "What is the date tomorrow?", "How does the immune system work?", "What is the theory of evolution?",
              "How far is the sun from the earth?", "Who wrote Romeo and Juliet?", "What caused the first world war?", "How many people live in China?", "My laptop does not start, what can I do?", "I think I have the flu, help", "Should I learn Java or Python?",
              "How much money should I save?", "Write a birthday speech for my grandfather", "Turn these notes into a report", "Give me feedback on my essay", "Call a taxi for me", "Find cheap flights to Rome", "Show me pictures of cats", "What is 88888 minus 12345?", "zzkt plo"]),
]


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
                # A word problem may end with the sum.
                accept = [turn.answer] + [turn.answer.split(",")[0] + "."] * (skill is skills.word_problem)
                print(json.dumps({"skill": name, "split": "held out" if held else "seen", "user": turn.user, "accept": accept}))
    for answers, users in BY_HAND:
        for user in users:
            print(json.dumps({"skill": "small talk and honest refusals", "split": "held out", "user": user, "accept": answers}))
    r = Draw(30_000)
    for asks in (chats.small_talk, chats.out_of_scope):
        for turn in draw(r, asks, lambda turn: True, EACH):
            lists = [answers for _, answers, _ in chats.TALK if answers and turn.answer in answers] + [HELLOS] * (turn.answer in HELLOS) + [HONEST] * (turn.answer in HONEST)
            print(json.dumps({"skill": "small talk and honest refusals", "split": "seen", "user": turn.user, "accept": lists[0]}))


if __name__ == "__main__":
    main()
