#!/usr/bin/env python3
"""Codes of weights in real processes: those that workers make while they load are those of `tutti quantize`.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/quantize_test.py
"""
import json
import os
import tempfile
import unittest

from harness import DEMO, Cluster, tutti

ASK = ["generate", "--prompt", "What is 12 + 30?", "--temperature", "0.8", "--seed", "7", "--max-tokens", "24", "--ignore-eos",
       "--top-logprobs", "2", "--json"]


def answer(cluster):
    """Every token with all that is reported of it."""
    done = cluster.tutti(*ASK)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [token for line in done.stdout.splitlines() for token in json.loads(line)["tokens"]]


class Quantize(unittest.TestCase):
    def served(self, *flags, model=DEMO, workers=1):
        cluster = Cluster("--kv-tokens", "4096", *flags, model=model, workers=workers)
        self.addCleanup(cluster.stop)
        status = cluster.status()
        stages = status["pipelines"][0]["stages"]
        for stage in stages:
            self.assertEqual(stage["actual"]["weights"], stage["predicted"]["weights"])
        weights = sum(int(stage["actual"]["weights"]) for stage in stages)
        return answer(cluster), status["model_fingerprint"], weights

    def test_loaded_as_codes_and_from_a_file_answers_are_equal(self):
        plain, of_checkpoint, weights = self.served()
        with tempfile.TemporaryDirectory(prefix="tutti-e2e-") as folder:
            made = os.path.join(folder, "made")
            done = tutti("quantize", DEMO, made, "--scheme", "int4-g32", "--head")
            self.assertEqual(done.returncode, 0, done.stderr)
            of_file, _, held = self.served(model=made)
        self.assertNotEqual(of_file, plain)
        self.assertLess(held, weights)
        for workers, layout in ((1, ()), (2, ("--pipeline-parallel-size", "2")), (2, ("--tensor-parallel-size", "2"))):
            with self.subTest(layout):
                found, fingerprint, _ = self.served("--quantize", "int4-g32", "--quantize-head", *layout, workers=workers)
                self.assertEqual(found, of_file)
                self.assertEqual(fingerprint, of_checkpoint + "-int4-g32-head", "other codes are another model")

    def test_what_cannot_be_made_is_refused_at_start(self):
        for flags, words in ((("--quantize", "int5"), "give int8, or int4-g128"),
                             (("--quantize", "int4-g256"), "which groups of 256 do not divide"),
                             (("--quantize-head",), "--quantize-head says how little without --quantize")):
            with self.subTest(flags):
                done = tutti("up", "--model", DEMO, "--workers", "1", "--listen", "127.0.0.1:0", "--http", "off", *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
