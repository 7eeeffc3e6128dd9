#!/usr/bin/env python3
"""Real processes on emulated GPUs whose coordinator compares what they hold with the plan: with a draft model, and after a pipeline
has formed anew of fewer workers and of all again, they serve, and answers are the same.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/gpu_shards_test.py
"""
import json
import os
import signal
import subprocess
import unittest

from harness import DEMO, EMULATED, HAS_EMULATED_GPUS, PATIENCE_S, TUTTI, Cluster, wait_until

SETTINGS = {"TUTTI_PLUGIN_DIR": EMULATED, "EMULATED_GPUS": "2"}
ASK = [TUTTI, "generate", "--prompt", "Tell me something: ", "--max-tokens", "12", "--temperature", "0", "--ignore-eos", "--json"]


@unittest.skipUnless(HAS_EMULATED_GPUS, "this preset has no emulated GPUs")
class GpuShards(unittest.TestCase):
    def serve(self, *flags, workers):
        cluster = Cluster("--device", "cuda", "--kv-tokens", "4096", *flags, workers=workers, settings=SETTINGS)
        self.addCleanup(cluster.cleanup)
        # Before that: whoever is killed has its GPU for a moment longer.
        self.addCleanup(lambda: cluster.process.poll() is None and cluster.stop())
        return cluster

    def answer(self, cluster):
        done = subprocess.run(ASK, env=cluster.env, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        tokens = [token for line in done.stdout.splitlines() for token in json.loads(line).get("tokens", ())]
        self.assertEqual(len(tokens), 12)
        return tokens

    # Two models share the work space of one GPU, which holds less than the plan promises.
    def test_a_draft_model_beside_its_target(self):
        alone = self.serve(workers=1)
        plain = self.answer(alone)
        alone.stop()
        cluster = self.serve("--draft-model", DEMO, workers=1)
        self.assertEqual(self.answer(cluster), plain)
        held = cluster.status()["pipelines"][0]["stages"][0]
        self.assertLess(int(held["actual"]["activations"]), int(held["predicted"]["activations"]))

    # A worker that gets another shard holds nothing of the one before, for which more was planned.
    def test_a_pipeline_that_forms_anew(self):
        cluster = self.serve("--pipeline-parallel-size", "2", "--reform-after", "1", workers=2)
        expected = self.answer(cluster)

        def serves_in(stages):
            status = cluster.status()
            return status.get("serving") and len(status["pipelines"][0]["stages"]) == stages

        for worker in ("w0", "w1"):
            stopped = cluster.children()[worker]
            os.kill(stopped, signal.SIGSTOP)
            try:
                wait_until(lambda: serves_in(1), f"the other serves without {worker}")
                self.assertEqual(self.answer(cluster), expected)
            finally:
                os.kill(stopped, signal.SIGCONT)
            wait_until(lambda: serves_in(2), f"{worker} serves again")
            self.assertEqual(self.answer(cluster), expected)
            self.assertEqual(cluster.status().get("refused_peers", []), [])


if __name__ == "__main__":
    unittest.main()
