#!/usr/bin/env python3
"""Checkpoints of codes in real processes: over stages and ranks, with prefixes that are shared, too little room for K/V, and a
worker that is killed while answers stream, every token is that of one process alone, bit for bit.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/quantised_test.py
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

from harness import DEMO, TUTTI, Cluster, read_line, tutti

WRITER = os.path.join(os.path.dirname(TUTTI), "..", "tests", "quantised_checkpoint")
# Of quantised_checkpoint; their names are those of worker/quantised_formats_testing.cc.
FORMATS = ("gptq4_any_order", "awq", "fp8_blocks", "w8a8")
AT_LOAD = ("--quantize", "int4-g128")
STAGES, RANKS = "--pipeline-parallel-size", "--tensor-parallel-size"
# Flags, and the number of workers.
LAYOUTS = (((STAGES, "2"), 2), ((STAGES, "3"), 3), ((RANKS, "2"), 2), ((RANKS, "4"), 4))
# Of all prompts: three blocks and a half.
BEGINNING = list(range(300, 356))
TOKENS = 256
# K/V of two answers and less than three, of which four run.
SMALL = ("--kv-tokens", "768")


def ask(number):
    prompt = BEGINNING + [7 * number + token for token in range(5 + 9 * number)]
    drawn = ["--temperature", "0"] if number == 0 else ["--temperature", "0.9", "--seed", str(number), "--top-p", "0.95"]
    return [TUTTI, "generate", "--token-ids", ",".join(map(str, prompt)), "--max-tokens", str(TOKENS), "--ignore-eos",
            "--top-logprobs", "2", "--json", *drawn]


def tokens_of(text):
    """Every token with all that is reported of it."""
    return [token for line in text.splitlines() for token in json.loads(line).get("tokens", ())]


def overwrite(path, tensor, value):
    """Puts `value` in the place of the tensor's first bytes."""
    with open(path, "r+b") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        begin = json.loads(file.read(length))[tensor]["data_offsets"][0]
        file.seek(8 + length + begin)
        file.write(value)


class Quantised(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def checkpoint(self, name):
        to = os.path.join(self.folder, name)
        subprocess.run([WRITER, name, DEMO, to], check=True)
        return os.path.join(to, "codes")

    def serve(self, model, *flags, workers=1):
        cluster = Cluster(*flags, model=model, workers=workers)
        self.addCleanup(cluster.cleanup)
        for stage in (stage for pipeline in cluster.status()["pipelines"] for stage in pipeline["stages"]):
            for kind in ("weights", "kv", "activations"):
                self.assertEqual(stage["actual"][kind], stage["predicted"][kind], (kind, stage))
        return cluster

    def alone(self, model, *flags):
        """Answers of one process, one after the other, none of which has anything of another."""
        cluster = self.serve(model, "--kv-tokens", "8192", "--enable-prefix-caching=false", "--speculation", "off", *flags)
        answers = []
        for number in range(4):
            done = subprocess.run(ask(number), env=cluster.env, capture_output=True, text=True, check=True)
            answers.append(tokens_of(done.stdout))
            self.assertEqual(len(answers[-1]), TOKENS)
        cluster.stop()
        return answers

    def together(self, cluster, victim=None):
        """Answers that stream at the same time; after the first tokens of all a worker dies."""
        asking = [subprocess.Popen(ask(number), env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                  for number in range(4)]
        first = [read_line(process) for process in asking]
        if victim is not None:
            os.kill(cluster.children()[victim], signal.SIGKILL)
        answers = []
        for begun, process in zip(first, asking):
            rest, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            answers.append(tokens_of(begun + rest.decode()))
        return answers

    def one_voice(self, model, *flags, layouts=LAYOUTS):
        expected = self.alone(model, *flags)
        for layout, workers in layouts:
            with self.subTest(layout=layout):
                cluster = self.serve(model, *SMALL, *layout, *flags, workers=workers)
                self.assertEqual(self.together(cluster), expected)
                pipeline = cluster.status()["pipelines"][0]
                self.assertGreater(int(pipeline.get("preemptions", 0)), 0, "answers gave way to others")
                self.assertGreater(int(pipeline.get("prefix_hit_tokens", 0)), 0, "prefixes were shared")
                self.assertEqual(self.together(cluster, victim=f"w{workers - 1}"), expected)
                self.assertGreater(int(cluster.status()["requests"].get("recovered", 0)), 0, "answers outlived a worker")
                cluster.stop()

    def test_layers_of_several_formats(self):
        model = self.checkpoint("mixed")
        self.one_voice(model, layouts=LAYOUTS[1::2])
        plan = tutti("plan", "--model", model, "--devices", "2x64MiB", "--max-num-seqs", "4")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn("the embedding is quantised too; its rows are held in bf16", plan.stdout)
        self.assertIn("quantised: layer 0: not quantised; layers 1 to 3: query, key, value, attention_output: compressed-tensors e4m3; "
                      "gate, up, down: compressed-tensors int4, groups of 32", plan.stdout)

    def test_codes_made_while_loading(self):
        self.one_voice(DEMO, *AT_LOAD)


class CannotBeLoaded(unittest.TestCase):
    """What no worker can load at any time ends `tutti up`, with the tensor and the reason."""

    def refused(self, model, *flags):
        done = tutti("up", "--model", model, "--workers", "2", "--pipeline-parallel-size", "2", "--listen", "127.0.0.1:0",
                     "--http", "off", "--memory-per-worker", "512MiB", *flags)
        self.assertEqual(done.returncode, 2, done.stderr)
        last = done.stderr.splitlines()[-1]
        self.assertRegex(last, r"^tutti: the model cannot be loaded: worker w[01] \(stage 1\): ")
        return last

    def test_scales_and_weights_that_are_no_numbers(self):
        scale = "model.layers.3.mlp.down_proj.weight_scale"
        # A bf16 in hexadecimal digits as the file has it.
        for value, said in (("c07f", "nan"), ("807f", "inf"), ("0000", "0"), ("80bf", "-1")):
            with self.subTest(value), tempfile.TemporaryDirectory(prefix="tutti-e2e-") as folder:
                subprocess.run([WRITER, "w8a8", DEMO, folder], check=True)
                model = os.path.join(folder, "codes")
                overwrite(os.path.join(model, "model.safetensors"), scale, bytes.fromhex(value))
                self.assertIn(f'tensor "{scale}": element 0 is {said}, which is no scale', self.refused(model))
        weight = "model.layers.3.mlp.down_proj.weight"
        with tempfile.TemporaryDirectory(prefix="tutti-e2e-") as folder:
            model = shutil.copytree(DEMO, os.path.join(folder, "model"))
            overwrite(os.path.join(model, "model.safetensors"), weight, bytes.fromhex("c07f"))
            self.assertIn(f'tensor "{weight}": has a weight that is no number (nan) at [0, 0]',
                          self.refused(model, "--quantize", "int8"))


def test_of(name):
    return lambda self: self.one_voice(self.checkpoint(name))


for name in FORMATS:
    setattr(Quantised, f"test_{name}", test_of(name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
