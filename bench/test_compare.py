#!/usr/bin/env python3
"""The arithmetic of the comparison, on numbers that can be checked by hand.

    python3 bench/test_compare.py
"""

import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import ceilings  # noqa: E402
import chart  # noqa: E402
import compare  # noqa: E402
import rows  # noqa: E402
import runs  # noqa: E402
from ceilings import Machine, Work  # noqa: E402

# One unit of everything a second.
UNIT = Machine(1.0, 1.0, 1.0, "the peak")


def tensor(name, *shape, size=1):
    return {"name": name, "shape": list(shape), "bytes": size}


def grouped():
    """Two layers, two heads of 3 + 5 values; 24 elements in linear layers, 14 in the head."""
    return {"config": {"layers": 2, "heads": 2, "attention": {"kind": "grouped", "kv_heads": 1, "head": 3, "value": 5}},
            "cache_bytes_per_position": 32,
            "tensors": [tensor("token_embd.weight", 2, 7, size=70), tensor("output.weight", 2, 7, size=28),
                        tensor("blk.0.attn_norm.weight", 2, size=8), tensor("blk.0.ffn_up.weight", 2, 4, size=80),
                        tensor("blk.1.ffn_up.weight", 4, 4, size=160), tensor("blk.2.ffn_up.weight", 100, 100, size=10000)]}


def latent():
    """One layer with latent attention and experts of which 2 of 8 are used; the table of embeddings is the head."""
    return {"config": {"layers": 1, "heads": 3, "experts": {"count": 8, "used": 2},
                       "attention": {"kind": "latent", "q_rank": None, "kv_rank": 8, "nope": 2, "rope": 1, "value": 2}},
            "cache_bytes_per_position": 18,
            "tensors": [tensor("token_embd.weight", 2, 10, size=20), tensor("blk.0.attn_q.weight", 2, 9, size=18),
                        tensor("blk.0.ffn_up_exps.weight", 2, 4, 8, size=64)]}


class Ceilings(unittest.TestCase):
    def test_decoding_reads_all_weights_and_the_cache_for_each_token(self):
        model = ceilings.Model(grouped())
        self.assertEqual((model.common, model.head), ((24, 248), (14, 28)))
        found = ceilings.of(model, Work(2, depth=10), UNIT)
        # Tokens see 11 and 12 positions, in 2 layers of 2 heads of 3 + 5 products.
        self.assertEqual((found.linear.reading, found.linear.computing), (2 * 276, 2 * 38))
        self.assertEqual((found.attention.reading, found.attention.computing), (23 * 32, 23 * 32))
        self.assertEqual(found.seconds, 552 + 736)
        self.assertEqual(found.name, "read bandwidth")

    def test_a_prompt_reads_once_and_wants_one_row_of_the_head(self):
        found = ceilings.of(ceilings.Model(grouped()), Work(4, prompt=True), UNIT)
        self.assertEqual((found.linear.reading, found.linear.computing), (276, 4 * 24 + 14))
        self.assertEqual((found.attention.reading, found.attention.computing), (4 * 32, 10 * 32))

    def test_each_part_counts_its_longer_side(self):
        fast = Machine(1.0, 0.1, 100.0, "the peak")
        found = ceilings.of(ceilings.Model(grouped()), Work(4, prompt=True), fast)
        self.assertAlmostEqual(found.seconds, (4 * 24 + 14) / 0.1 + 4 * 32)
        self.assertEqual(found.name, "the peak and read bandwidth")
        self.assertEqual(ceilings.of(ceilings.Model(grouped()), Work(4, prompt=True),
                                     Machine(1.0, 0.01, 100.0, "the peak")).name, "the peak")

    def test_sequences_share_weights_and_not_the_cache(self):
        model = ceilings.Model(latent())
        found = ceilings.of(model, Work(1, depth=4, sequences=2), UNIT)
        # 8 (1 - (3/4)^2) = 3.5 of 8 experts are chosen by two tokens.
        self.assertAlmostEqual(found.linear.reading, 18 + 20 + 64 * 3.5 / 8)
        self.assertAlmostEqual(found.linear.computing, 2 * (18 + 64 / 4 + 20))
        self.assertEqual(found.attention.reading, 2 * 5 * 18)
        # Absorbed: twice the latent and the rotated part.
        self.assertEqual(found.attention.computing, 2 * 5 * 3 * (2 * 8 + 1))

    def test_a_prompt_takes_the_better_form_of_latent_attention(self):
        model = ceilings.Model(latent())
        pairs, made = 8 * 9 // 2 + 8 * 2, 2 * 3 * 8 * 4
        found = ceilings.of(model, Work(8, depth=2, prompt=True), UNIT)
        self.assertEqual(found.attention.computing, pairs * 3 * 5)
        self.assertEqual(found.linear.computing, 8 * (18 + 64 / 4) + 20 + made)
        # One token does not pay for keys and values of 50 positions.
        found = ceilings.of(model, Work(1, depth=50, prompt=True), UNIT)
        self.assertEqual(found.attention.computing, 51 * 3 * 17)
        self.assertEqual(found.linear.computing, 18 + 64 / 4 + 20)

    def test_the_peaks_are_means(self):
        def one(read, tiles):
            return {"read_gb_per_s": read, "int8_gmac_per_s": 11.0, "f32_gmac_per_s": 4.0, "bf16_tile_gmac_per_s": tiles}
        machine = Machine.of([one(10.0, None), one(30.0, None)])
        self.assertEqual((machine.read, machine.linear, machine.f32), (20e9, 8e9, 4e9))
        self.assertEqual(Machine.of([one(10.0, 100.0)]).linear, 100e9)


def pair(ours, theirs, setting="a", faults=0):
    def side(values):
        return {"values": values, "major_faults": faults}
    return {"round": 0, "setting": setting, "kernloom": side(ours), "other": side(theirs)}


def job(cls=rows.Speed, **works):
    args = types.SimpleNamespace(isa=None, threads="2", repeat="3", kernloom="kernloom", bandwidth=50.0)
    made = cls(args, pathlib.Path("m.gguf"), "0", "8", "0")
    made.works = works
    return made


MEASURED = {"isa": None, "read_gb_per_s": 1e-9, "int8_gmac_per_s": 11e-9 / 8, "f32_gmac_per_s": 1e-9}


class Rows(unittest.TestCase):
    def test_ratios_are_of_neighbours_and_the_best_setting_is_marked(self):
        pairs = [pair({"tg8": 10.0}, {"tg8": 5.0}, "a"), pair({"tg8": 4.0}, {"tg8": 4.0}, "a"),
                 pair({"tg8": 9.0}, {"tg8": 3.0}, "a"), pair({"tg8": 8.0}, {"tg8": 8.0}, "b")]
        a, b = compare.summarise("decode", pathlib.Path("m.gguf"), job(), pairs)
        self.assertEqual((a["kernloom"], a["other"]), (9.0, 4.0))
        self.assertEqual((a["least"], a["ratio"], a["most"]), (1.0, 2.0, 3.0))
        self.assertEqual((a["best"], b["best"]), (False, True))

    def test_seconds_are_better_when_fewer(self):
        first = job(rows.Speed)
        first.more_is_better = False
        row, = compare.summarise("first", pathlib.Path("m.gguf"), first, [pair({"t": 2.0}, {"t": 6.0})])
        self.assertEqual(row["ratio"], 3.0)
        first.works = {"t": Work(4, prompt=True)}
        compare.add_shares([row], first, grouped(), [MEASURED])
        self.assertAlmostEqual(row["ceiling"]["kernloom"]["value"], 276 + 320)
        self.assertAlmostEqual(row["ceiling"]["other"]["share"], 596 / 6.0)

    def test_both_sides_have_a_share(self):
        speed = job(tg2=Work(2, depth=10))
        table = compare.summarise("decode", pathlib.Path("m.gguf"), speed, [pair({"tg2": 1e-3}, {"tg2": 5e-4})])
        compare.add_shares(table, speed, grouped(), [MEASURED])
        self.assertAlmostEqual(table[0]["ceiling"]["kernloom"]["share"], 1e-3 * 1288 / 2)
        self.assertAlmostEqual(table[0]["ceiling"]["other"]["share"], 5e-4 * 1288 / 2)
        self.assertNotIn("held", table[0])
        self.assertEqual(len(compare.of_ceiling(table[0])), 4)
        result = {"rows": table, "threads": 2, "date": "2026-01-01T00:00:00"}
        self.assertIn("64% / 32%", chart.chart(result))

    def test_each_side_has_the_ceiling_of_its_instructions(self):
        avx2 = job(rows.Restricted, tg2=Work(2, depth=10))
        table = compare.summarise("avx2", pathlib.Path("m.gguf"), avx2, [pair({"tg2": 1e-3}, {"tg2": 1e-3})])
        compare.add_shares(table, avx2, grouped(), [MEASURED, {**MEASURED, "isa": "x86-64-v3", "read_gb_per_s": 5e-10}])
        ours, other = table[0]["ceiling"]["kernloom"], table[0]["ceiling"]["other"]
        self.assertAlmostEqual(ours["value"] * 2, other["value"])
        self.assertEqual(avx2.kernloom("bench", avx2.isa, "-n", "8")[-4:], ["--bandwidth", "50.000", "--isa", "x86-64-v3"])
        self.assertNotIn("--isa", avx2.kernloom("bench", avx2.other_isa))

    def test_the_neighbour_has_a_floor(self):
        beside = job(rows.Neighbour)
        for share, held in ((0.44, False), (0.45, True)):
            row, = compare.summarise("neighbour", pathlib.Path("m.gguf"), beside, [pair({"t": share}, {"t": 0.3})])
            compare.add_shares([row], beside, grouped(), [MEASURED])
            self.assertEqual(row["held"], held)
            self.assertIn("45% at least: " + ("held" if held else "NOT HELD"), compare.verdict(row))

    def test_what_a_long_prompt_keeps(self):
        pairs = [pair({"pp512": 10.0, "pp4096": 8.0}, {"pp512": 10.0, "pp4096": 4.0})]
        table = compare.summarise("long-prefill", pathlib.Path("m.gguf"), job(), pairs)
        row, = compare.kept(table, pairs)
        self.assertEqual((row["kernloom"], row["other"], row["ratio"]), (0.8, 0.4, 2.0))

    def test_works_are_those_of_what_was_printed(self):
        self.assertEqual(rows.work_of({"n_prompt": 512, "n_gen": 0, "n_depth": 64}), Work(512, 64, prompt=True))
        self.assertEqual(rows.work_of({"n_prompt": 0, "n_gen": 32}), Work(32))
        self.assertIsNone(rows.work_of({"n_prompt": 512, "n_gen": 32}))


class Faults(unittest.TestCase):
    def test_a_run_that_waited_for_the_disk_is_repeated(self):
        def measured(*faults):
            left = iter(faults)
            said = []
            return runs.warm(lambda: {"major_faults": next(left)}, said.append), len(said)
        self.assertEqual(measured(0), ({"major_faults": 0, "repeated": 0}, 0))
        self.assertEqual(measured(7, 2, 0), ({"major_faults": 0, "repeated": 2}, 2))
        # Faults that stay are reported.
        self.assertEqual(measured(7, 2, 3, 1), ({"major_faults": 1, "repeated": 3}, 3))


if __name__ == "__main__":
    unittest.main()
