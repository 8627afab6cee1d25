"""The corpus: an endless, seeded row of documents, as text for the tokenizer and as packed tokens for training.

A packed token is 16 bits: the id, and in the highest bit whether the model is to learn to say it. It learns what the
assistant says and all of a story, not what users ask."""

import json
from collections import Counter

import numpy as np

import chats
import stories
from draw import Draw
from tokenizer import SPLIT, Tokenizer

LEARN = 1 << 15
# Share of documents that are a story without a chat around it.
STORIES = 0.08


def spans(messages: list[dict], tools: list[dict]) -> list[tuple[str, bool]]:
    """The text of a conversation as `template.jinja` writes it, in parts that are learnt or not; a part is one special
    token or ordinary text."""
    out: list[tuple[str, bool]] = [("[gMASK]", False), ("<sop>", False)]
    if tools:
        lines = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools)
        out += [("<|system|>", False), (f"\n# Tools\n\nThese functions can be called:\n<tools>\n{lines}</tools>\n\nA call is written so:\n", False)]
        out += [(part, False) for part in ["<tool_call>", "NAME", "<arg_key>", "KEY", "</arg_key>", "<arg_value>", "VALUE", "</arg_value>", "</tool_call>"]]
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for i, message in enumerate(messages):
        role, content = message["role"], message["content"]
        after_answer = i > 0 and messages[i - 1]["role"] == "assistant"
        if role == "tool":
            out += [("<|observation|>", after_answer), ("<tool_response>", False), (content, False), ("</tool_response>", False)]
        elif role == "assistant":
            thought = message.get("reasoning_content", "") if i > last_user else ""
            out.append(("<|assistant|>", False))
            out += [("<think>", False), (thought, True), ("</think>", True)] if thought else [("</think>", False)]
            out.append((content, True))
            for call in message.get("tool_calls", []):
                out += [("<tool_call>", True), (call["function"]["name"], True)]
                for key, value in call["function"]["arguments"].items():
                    value = value if isinstance(value, str) else json.dumps(value)
                    out += [("<arg_key>", True), (key, True), ("</arg_key>", True), ("<arg_value>", True), (value, True), ("</arg_value>", True)]
                out.append(("</tool_call>", True))
        else:
            out += [(f"<|{role}|>", after_answer), (content, False)]
    # The turn is over where the user's would begin.
    out.append(("<|user|>", True))
    return [(text, learn) for text, learn in out if text]


def document(r: Draw) -> list[tuple[str, bool]]:
    """The next document."""
    if r.chance(STORIES):
        return [(stories.story(r, chapters=r.choice([1, 1, 2, 3])), True), ("<|endoftext|>", True)]
    tools, messages = chats.chat(r)
    return spans(messages, tools)


def pieces(seed: int, documents: int) -> Counter[str]:
    """How often each piece of the split occurs in a part of the corpus."""
    r, counts = Draw(seed), Counter()
    for _ in range(documents):
        for text, _ in document(r):
            counts.update(SPLIT.findall(text))
    return counts


def held_out_text(seed: int, characters: int) -> str:
    """Stories with names that training never sees, for perplexity."""
    r, parts = Draw(seed, held=True), []
    while sum(map(len, parts)) < characters:
        parts.append(stories.story(r, chapters=r.choice([1, 2, 3])))
    return "\n\n".join(parts) + "\n"


def rows(tokenizer: Tokenizer, seed: int, count: int, length: int) -> np.ndarray:
    """Packed rows `[count, length + 1]`, each a number of whole documents; what is left over is filled and not learnt."""
    r = Draw(seed)
    fill = tokenizer.special["<|endoftext|>"]
    packed = np.full((count, length + 1), fill, np.uint16)
    special, encode = tokenizer.special, tokenizer.encode
    at = row = 0
    while row < count:
        ids: list[int] = []
        for text, learn in document(r):
            flag = LEARN if learn else 0
            ids += [special[text] | flag] if text in special else [i | flag for i in encode(text)]
        if at and at + len(ids) > length + 1:
            row, at = row + 1, 0
            if row == count:
                break
        ids = ids[:length + 1 - at]
        packed[row, at:at + len(ids)] = ids
        at += len(ids)
    return packed
