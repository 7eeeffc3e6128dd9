#!/usr/bin/env python3
"""Which worker serves which layers, in real processes: device maps, limits of memory, and refused layouts.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/layout_test.py
"""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, Cluster, clean_environment, tutti, wait_until

KV = ["--kv-tokens", "4096"]
ASK = ["generate", "--prompt", "12+30=", "--temperature", "0", "--max-tokens", "8", "--ignore-eos"]

with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as config:
    LAYERS = json.load(config)["num_hidden_layers"]


def huggingface_map(first):
    """The first `first` layers on device 0, the others on device 1, as Accelerate writes it."""
    modules = {f"model.layers.{i}": 0 if i < first else "cuda:1" for i in range(LAYERS)}
    return {"model.embed_tokens": 0, **modules, "model.norm": 1, "lm_head": 1}


class Layouts(unittest.TestCase):
    def write(self, content):
        file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
        self.addCleanup(os.unlink, file.name)
        with file:
            json.dump(content, file)
        return file.name

    def serve(self, *flags, workers=2):
        """How many layers each worker serves, in order; and the cluster's answer."""
        cluster = Cluster(*KV, *flags, workers=workers)
        self.addCleanup(cluster.cleanup)
        stages = cluster.status()["pipelines"][0]["stages"]
        served = [(stage["worker"]["worker_id"], stage["num_layers"]) for stage in stages]
        done = cluster.tutti(*ASK)
        self.assertEqual(done.returncode, 0, done.stderr)
        return served, done.stdout, cluster

    def test_every_layout_is_as_asked_and_gives_the_same_text(self):
        texts = set()
        for flags, workers, expected in (
                (["--device-map", self.write(huggingface_map(1))], 2, [("w0", 1), ("w1", LAYERS - 1)]),
                (["--device-map", self.write([{"worker": 1, "layers": 1}, {"worker": "w0", "layers": LAYERS - 1}])],
                 2, [("w1", 1), ("w0", LAYERS - 1)]),
                (["--device-map", "balanced_low_0"], 2, [("w1", LAYERS)]),
                (["--device-map", "sequential"], 3, [("w0", LAYERS)]),
                (["--max-memory", "0=128MiB,w2=96MiB"], 3, None)):
            with self.subTest(flags):
                served, text, cluster = self.serve(*flags, workers=workers)
                texts.add(text)
                if expected is not None:
                    self.assertEqual(served, expected)
                    continue
                self.assertEqual([name for name, _ in served], ["w0", "w2"])
                stages = cluster.status()["pipelines"][0]["stages"]
                self.assertEqual([int(stage["predicted"]["budget"]) for stage in stages], [128 << 20, 96 << 20])
        self.assertEqual(len(texts), 1, texts)

    def test_auto_chooses_and_tells_what_it_rejected(self):
        texts = set()
        for flags, workers in ((["--layout", "auto"], 2),
                               (["--pipeline-parallel-size", "auto", "--tensor-parallel-size", "auto"], 4)):
            with self.subTest(flags):
                served, text, cluster = self.serve(*flags, workers=workers)
                texts.add(text)
                status = cluster.status()
                layout = status["layout"]
                self.assertTrue(layout["speeds_known"], "workers measure themselves")
                chosen = layout["chosen"]
                self.assertEqual(len(served), chosen["stages"] * chosen["ranks"])
                self.assertTrue(layout["rejected"])
                self.assertTrue(all(one["why_rejected"] for one in layout["rejected"]))
                workers_told = [stage["worker"] for pipeline in status["pipelines"] for stage in pipeline["stages"]]
                speeds = {worker["read_bytes_per_second"] for worker in workers_told}
                self.assertEqual(len(speeds), 1, "equal workers of one machine are told the same")
                self.assertGreater(speeds.pop(), 1e8)
                shown = cluster.tutti("status").stdout
                self.assertIn("layout:", shown)
                self.assertIn("rejected:", shown)
        self.assertEqual(len(texts), 1, texts)

    def test_steps_stand_beside_their_prediction(self):
        _, _, cluster = self.serve("--speed", "10GB/s@50Gflop/s")
        for stage in cluster.status()["pipelines"][0]["stages"]:
            self.assertEqual(stage["worker"]["flops_per_second"], 50e9)
            self.assertGreater(stage["step_seconds"], 0)
            self.assertGreater(stage["predicted_step_seconds"], 0)
            self.assertGreater(stage["bubble_share"], 0)
            self.assertLessEqual(stage["bubble_share"], 1)
            self.assertGreater(int(stage["steps_total"]), 0)
        self.assertIn("step (plan)", cluster.tutti("status").stdout)

    def refused(self, *flags, naming, model=DEMO):
        done = tutti("up", "--model", model, "--workers", "2", "--listen", "127.0.0.1:0", *KV, *flags)
        self.assertNotIn(done.returncode, (0, 130), done.stdout)
        for words in naming:
            self.assertIn(words, done.stderr)
        return done.stderr

    def test_what_is_wrong_from_the_start_is_refused_with_the_nearest(self):
        unknown = huggingface_map(1)
        unknown["model.layer.0"] = unknown.pop("model.layers.0")
        self.refused("--device-map", self.write(unknown), naming=['"model.layer.0"', '"model.layers.0"'])
        missing = huggingface_map(1)
        del missing["model.layers.1"]
        self.refused("--device-map", self.write(missing), naming=["model.layers.1", "is given no device"])
        split = {**huggingface_map(1), "model.layers.1.mlp": 0}
        self.refused("--device-map", self.write(split), naming=["a layer is never split"])
        self.refused("--device-map", "balance", naming=["the nearest mode is balanced"])
        self.refused("--max-memory", "0=20Gibi", naming=["20Gibi", "GiB"])
        self.refused("--max-memory", "0=1GiB,cpu=8GiB", naming=["nothing is offloaded"])
        self.refused("--tensor-parallel-size", "3", naming=["3", "the nearest that this model takes is"])

    def test_experts_whose_rows_are_rounded_are_whole_and_then_no_size_is_wrong(self):
        with tempfile.TemporaryDirectory(prefix="tutti-e2e-") as folder:
            with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            integers = {"num_bits": 8, "type": "int", "symmetric": True}
            group = {"targets": ["Linear"], "weights": {**integers, "strategy": "channel", "dynamic": False},
                     "input_activations": {**integers, "strategy": "token", "dynamic": True}}
            config.update(
                architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", moe_intermediate_size=64, num_experts=8, num_experts_per_tok=2,
                norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                quantization_config={"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": group}})
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            sizes = ("--tensor-parallel-size", "2")
            self.refused(*sizes, naming=["tensor-parallel size 2", "--expert-split expert"], model=folder)
            # There are no tensors.
            said = self.refused(*sizes, "--expert-split", "expert", naming=["safetensors"], model=folder)
            self.assertNotIn("tensor-parallel size", said)

    def test_a_device_that_is_not_there_is_waited_for_and_named(self):
        with tempfile.TemporaryDirectory(prefix="tutti-e2e-") as folder:
            path = lambda name: os.path.join(folder, name)
            with open(path("map.json"), "w", encoding="utf-8") as file:
                json.dump({"": 4}, file)
            with open(path("coordinator.toml"), "w", encoding="utf-8") as file:
                file.write(f'device-map = "{path("map.json")}"\n')
            environment = clean_environment(TUTTI_MIN_WORKERS="1")
            start = lambda *arguments: subprocess.Popen(arguments, stderr=subprocess.DEVNULL, env=environment)
            processes = [start(os.path.join(BINARIES, "tutti-coordinator"), "--model", DEMO, "--listen",
                               "127.0.0.1:0", "--peer-listen", f"unix:{path('peers')}", "--ready-file",
                               path("ready.json"), "--config", path("coordinator.toml")),
                         start(os.path.join(BINARIES, "tutti-worker"), "--model", DEMO, "--worker-id", "w0",
                               "--coordinator", f"unix:{path('peers')}", "--listen", f"unix:{path('w0')}",
                               "--threads", "1", "--memory", "256MiB")]
            try:
                wait_until(lambda: os.path.exists(path("ready.json")), "the coordinator listens")
                with open(path("ready.json"), encoding="utf-8") as file:
                    env = clean_environment(TUTTI_ADDRESS=json.load(file)["address"])
                words = "device 4 of the device map is not there; there is 1 device: 0 (w0); the nearest is 0"
                wait_until(lambda: words in " ".join(tutti("status", env=env).stdout.split()), "the status says who is not there")
                self.assertEqual(tutti("status", env=env).returncode, 3)
                self.assertIsNone(processes[0].poll(), "the coordinator goes on waiting")
            finally:
                for process in processes:
                    process.kill()
                    process.wait(timeout=PATIENCE_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
