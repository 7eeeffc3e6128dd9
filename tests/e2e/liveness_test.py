#!/usr/bin/env python3
"""Busy is not stuck: a coordinator that stood still, and workers that get little of the processors.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/liveness_test.py
TUTTI_BUSY_SECONDS says how long the workers compute beside others (default 20).
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BINARIES, DEMO, TUTTI, Cluster, read_line

BUSY_S = float(os.environ.get("TUTTI_BUSY_SECONDS", "20"))
BURNERS = 12
PATIENCE_S = 240
LONG = ["generate", "--prompt", "12", "--max-tokens", "1900", "--ignore-eos", "--temperature", "1",
        "--seed", "1", "--json"]


class StoppedCoordinator(unittest.TestCase):
    """What happens while the coordinator stands still is not held against its workers."""

    def setUp(self):
        self.cluster = Cluster("--kv-tokens", "16384")
        self.addCleanup(self.cluster.cleanup)

    def check_stop(self, seconds):
        expected = self.cluster.tutti(*LONG, timeout=PATIENCE_S).stdout.splitlines()
        workers = {name: pid for name, pid in self.cluster.children().items() if name != "coordinator"}
        epoch = self.cluster.status()["pipelines"][0]["epoch"]
        streams = [subprocess.Popen([TUTTI, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env=self.cluster.env) for _ in range(4)]
        first = [read_line(stream) for stream in streams]
        coordinator = self.cluster.children()["coordinator"]
        os.kill(coordinator, signal.SIGSTOP)
        time.sleep(seconds)  # the fault itself
        os.kill(coordinator, signal.SIGCONT)
        for line, stream in zip(first, streams):
            output, errors = stream.communicate(timeout=PATIENCE_S)
            self.assertEqual(stream.returncode, 0, errors)
            self.assertEqual(tokens([line, *output.splitlines()]), tokens(expected))
        self.assertEqual(self.cluster.status()["pipelines"][0]["epoch"], epoch, self.cluster.stderr())
        self.assertEqual({name: self.cluster.children().get(name) for name in workers}, workers)

    def test_three_seconds(self):
        self.check_stop(3)

    def test_eight_seconds(self):
        self.check_stop(8)


def tokens(lines):
    return [token["id"] for line in lines for token in json.loads(line)["tokens"]]


def make_wide_model(folder):
    """A model whose largest product of 512 rows takes longer than a lease beside other processes."""
    with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config.update(hidden_size=4096, intermediate_size=12288, num_hidden_layers=2, num_attention_heads=32,
                  num_key_value_heads=8, head_dim=128, max_position_embeddings=4096)
    shape = os.path.join(folder, "config.json")
    with open(shape, "w", encoding="utf-8") as file:
        json.dump(config, file)
    model = os.path.join(folder, "model")
    subprocess.run([os.path.join(BINARIES, "make_random_model"), "--config", shape, "--copy-tokenizer", DEMO,
                    "--output", model], check=True, capture_output=True)
    return model


class BusyWorkers(unittest.TestCase):
    def test_long_prompts_beside_processes_that_burn_the_processors(self):
        folder = tempfile.mkdtemp(prefix="tutti-e2e-")
        self.addCleanup(shutil.rmtree, folder)
        cluster = Cluster("--kv-tokens", "8192", model=make_wide_model(folder), memory="2GiB")
        self.addCleanup(cluster.cleanup)
        epoch = cluster.status()["pipelines"][0]["epoch"]
        burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
        for burner in burners:
            self.addCleanup(burner.wait)
            self.addCleanup(burner.kill)
        prompts = 0
        end = time.monotonic() + BUSY_S
        while time.monotonic() < end:
            prompt = f"{prompts} " + "12 + 30 = 42, " * 40
            done = cluster.tutti("generate", "--prompt", prompt, "--max-tokens", "4", "--ignore-eos",
                                 timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 0, done.stderr + cluster.stderr())
            prompts += 1
        status = cluster.status()
        self.assertEqual(status["pipelines"][0]["epoch"], epoch, cluster.stderr())
        print(f"{prompts} prompts in {BUSY_S} s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
