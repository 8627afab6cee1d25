#!/usr/bin/env python3
"""What bench/published.py finds wrong.

    python3 bench/test_published.py
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import published  # noqa: E402

FIGURES = json.loads(published.FIGURES.read_text())


class Right:
    """A server that answers as the figures say, but for one route."""

    def __init__(self, wrong=None):
        self.wrong = wrong

    def ask(self, route, **body):
        if route == self.wrong:
            answers = {"tokens": [0], "prompt": "", "choices": [{"message": {"content": "no"}}]}
        elif route == "/tokenize":
            answers = {"tokens": next(case["ids"] for case in FIGURES["tokens"] if case["text"] == body["content"])}
        elif route == "/apply-template":
            answers = {"prompt": FIGURES["chat"]["prompt"]}
        else:
            asked = body["messages"][0]["content"]
            text = next(case["text"] for case in FIGURES["greedy"] if case["prompt"] == asked)
            answers = {"choices": [{"message": {"content": text}}]}
        return answers


class Published(unittest.TestCase):
    def test_each_text_that_is_another_is_told(self):
        wrong = lambda route: len(list(published.of_texts(Right(route), FIGURES)))
        self.assertEqual(wrong(None), 0)
        self.assertEqual(wrong("/tokenize"), len(FIGURES["tokens"]))
        self.assertEqual(wrong("/apply-template"), 1)
        self.assertEqual(wrong("/v1/chat/completions"), len(FIGURES["greedy"]))

    def test_numbers_have_gates(self):
        def wrong(perplexity, divergence):
            found = {"PPL exact": str(perplexity), "mean KL": f"{divergence} ± 0.000054"}
            return len(list(published.of_numbers(found, FIGURES)))

        right = FIGURES["perplexity"]
        self.assertEqual(wrong(right, 0.0021), 0)
        self.assertEqual(wrong(right * 1.001, 0.0021), 1)
        self.assertEqual(wrong(right, 0.0041), 1)
        self.assertEqual(wrong("nan", "nan"), 2)


if __name__ == "__main__":
    unittest.main()
