#!/usr/bin/env python3
"""What bench/accuracy.py reads and makes.

    python3 bench/test_accuracy.py
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import accuracy  # noqa: E402

PRINTED = """PPL = 4.9142 ± 0.29185 (15 windows of 512 tokens)
PPL(base) = 4.9101, ratio 1.000830
mean KLD = 0.000106 ± 0.000035
KLD: median -0.000001, 90% 0.000160, 99% 0.000915, max 0.128073
same top = 99.111 ± 0.152 %
"""


class Accuracy(unittest.TestCase):
    def test_figures_are_those_that_were_printed(self):
        self.assertEqual(list(accuracy.figures(PRINTED).values()),
                         ["4.9101", "4.9142", "1.000830", "0.000106 ± 0.000035", "-0.000001", "0.000915", "0.128073", "99.111"])
        with self.assertRaises(SystemExit):
            accuracy.figures(PRINTED.replace("mean KLD", "KL"))

    def test_the_text_is_long_enough_and_always_the_same(self):
        text = accuracy.stories(5000)
        self.assertGreaterEqual(len(text), 5000)
        self.assertEqual(text, accuracy.stories(5000))
        self.assertTrue(accuracy.stories(20000).startswith(text[:4000]))


if __name__ == "__main__":
    unittest.main()
