#!/usr/bin/env python3
"""Which device each worker of `tutti up` serves from, in real processes on emulated GPUs.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/devices_test.py
"""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, EMULATED, HAS_EMULATED_GPUS, PATIENCE_S, TUTTI, clean_environment, wait_until

WORKER = os.path.join(BINARIES, "tutti-worker")
ASK = ["generate", "--prompt", "12+30=", "--temperature", "0", "--max-tokens", "4"]
LONG = ["generate", "--prompt", "Tell me something: ", "--max-tokens", "200", "--ignore-eos", "--temperature", "0"]
MIB = 1 << 20


def environment(gpus, folder):
    return clean_environment(TUTTI_PLUGIN_DIR=EMULATED, EMULATED_GPUS=str(gpus), TMPDIR=folder, XDG_RUNTIME_DIR="",
                             EMULATED_GPU_LOST=os.path.join(folder, "lost"), NVML_TESTING=os.path.join(folder, "nvml"),
                             TUTTI_NVML_LIBRARY=os.path.join(EMULATED, "libtutti_nvml_testing.so"))


@unittest.skipUnless(HAS_EMULATED_GPUS, "this preset has no emulated GPUs")
class Devices(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-devices-")
        self.addCleanup(self.folder.cleanup)

    def up(self, gpus, *flags):
        """`tutti up` as a person starts it, until it serves: its ready file, and what it said."""
        ready = os.path.join(self.folder.name, "ready.json")
        said = open(os.path.join(self.folder.name, "said"), "w+", encoding="utf-8")
        self.addCleanup(said.close)
        process = subprocess.Popen(
            [TUTTI, "up", "--model", DEMO, "--listen", "127.0.0.1:0", "--http", "off", "--ready-file", ready, *flags],
            stdout=said, stderr=said, env=environment(gpus, self.folder.name))
        self.addCleanup(self.end, process)
        wait_until(lambda: os.path.exists(ready) or process.poll() is not None, "the cluster serves")
        said.seek(0)
        text = said.read()
        self.assertIsNone(process.poll(), text)
        with open(ready, encoding="utf-8") as file:
            return json.load(file)["address"], text

    def end(self, process):
        process.terminate()
        process.wait(timeout=PATIENCE_S)

    def refused(self, gpus, *flags):
        done = subprocess.run([TUTTI, "up", "--model", DEMO, "--listen", "127.0.0.1:0", "--http", "off", *flags],
                              capture_output=True, text=True, timeout=PATIENCE_S,
                              env=environment(gpus, self.folder.name), check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def ask(self, address, *arguments):
        # An emulated GPU is slow, and slower beside other work.
        done = subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=5 * PATIENCE_S,
                              env=clean_environment(TUTTI_ADDRESS=address, TMPDIR=self.folder.name,
                                                    XDG_RUNTIME_DIR=""), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def workers(self, address):
        """The workers that serve: name -> (device, predicted, actual bytes)."""
        status = json.loads(self.ask(address, "status", "--json"))
        found = {}
        for pipeline in status["pipelines"]:
            for stage in pipeline["stages"]:
                worker = stage["worker"]
                found[worker["worker_id"]] = (worker["device"], stage["predicted"], stage["actual"])
        return found

    def test_default_flags_use_every_gpu_and_hold_what_was_planned(self):
        address, said = self.up(4)
        self.assertNotIn("from the CPU", said)
        text = self.ask(address, *ASK)
        workers = self.workers(address)
        self.assertEqual({name: device for name, (device, _, _) in workers.items()},
                         {f"w{i}": f"cuda:{i}" for i in range(4)})
        for name, (_, predicted, actual) in workers.items():
            for part in ("weights", "kv", "activations"):
                self.assertEqual(predicted[part], actual[part], (name, part))
                self.assertGreater(int(actual[part]), 0, (name, part))
        self.assertTrue(text)

    def test_the_cpu_serves_without_gpus_and_says_why(self):
        address, said = self.up(0, "--memory-per-worker", "512MiB", "--threads-per-worker", "1")
        self.assertIn("from the CPU: EMULATED_GPUS says that there are none", said)
        self.assertEqual({device for device, _, _ in self.workers(address).values()}, {"cpu:0"})

    def test_two_workers_share_a_gpu_only_when_told_to(self):
        many = self.refused(2, "--workers", "3")
        self.assertIn("--workers 3: 2 GPUs of this machine may serve", many)
        self.assertIn("--share-devices", many)
        one = self.refused(2, "--workers", "2", "--device", "cuda:1")
        self.assertIn("--device cuda:1 is one GPU", one)
        self.assertIn("--device cuda to deal out all GPUs", one)
        address, _ = self.up(1, "--workers", "2", "--share-devices", "--pipeline-parallel-size", "2")
        workers = self.workers(address)
        self.assertEqual({name: device for name, (device, _, _) in workers.items()}, {"w0": "cuda:0", "w1": "cuda:0"})
        # Each was dealt an equal part: the first one leaves the second its own.
        budgets = {int(predicted["budget"]) for _, predicted, _ in workers.values()}
        self.assertEqual(len(budgets), 1, workers)
        self.assertTrue(self.ask(address, *ASK))

    def test_a_lost_gpu_ends_its_worker_by_name_and_no_stream(self):
        logs = os.path.join(self.folder.name, "logs")
        address, _ = self.up(2, "--pipelines", "2", "--pipeline-parallel-size", "1", "--log-dir", logs)
        undisturbed = self.ask(address, *LONG)
        streams = [subprocess.Popen([TUTTI, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=clean_environment(TUTTI_ADDRESS=address, XDG_RUNTIME_DIR=""))
                   for _ in range(4)]
        self.addCleanup(lambda: [stream.kill() for stream in streams])

        def pipelines():
            return json.loads(self.ask(address, "status", "--json"))["pipelines"]

        wait_until(lambda: all(int(one.get("running", 0)) > 0 for one in pipelines()), "both pipelines have streams")
        lost = os.path.join(self.folder.name, "lost")
        with open(lost, "w", encoding="utf-8") as file:
            file.write("1")

        def said():
            with open(os.path.join(logs, "w1.log"), encoding="utf-8") as file:
                return "GPU 1 is lost: " in file.read()

        wait_until(said, "the worker says that its GPU is lost")
        os.remove(lost)  # the next process may use it
        for stream in streams:
            text, error = stream.communicate(timeout=5 * PATIENCE_S)
            self.assertEqual((stream.returncode, text), (0, undisturbed), error)
        wait_until(lambda: all(one["state"] == "serving" for one in pipelines()), "the worker is back")
        status = json.loads(self.ask(address, "status", "--json"))
        self.assertGreater(len(status["recoveries"]), 0)

    def test_the_driver_says_how_every_gpu_is(self):
        address, said = self.up(2)
        status = json.loads(self.ask(address, "status", "--json"))
        for stage in status["pipelines"][0]["stages"]:
            gpu = stage["worker"]["gpu"]
            self.assertEqual(int(gpu["total_bytes"]), 80 << 30)
            self.assertEqual(gpu["temperature_celsius"], 61)
            self.assertLess(gpu["age_seconds"], 60)
        self.assertRegex(" ".join(self.ask(address, "status").split()), r"gpu of w0, emulated GPU: 69\.0 GiB of 80\.0 GiB held")

    def test_gpus_that_are_asked_for_and_not_there_are_named(self):
        self.assertIn("--device cuda: no GPU may serve: EMULATED_GPUS", self.refused(0, "--device", "cuda"))
        self.assertIn("there is no cuda:5 among the 2 GPUs", self.refused(2, "--device", "cuda:5"))

    def test_a_second_worker_is_told_who_has_the_gpu(self):
        self.up(1)
        done = subprocess.run([WORKER, "--model", DEMO, "--worker-id", "other"], capture_output=True, text=True,
                              timeout=PATIENCE_S, env=environment(1, self.folder.name), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"every GPU that may serve is taken \(cuda:0: worker w0 \(process \d+\) has it\)")

    def test_a_worker_lists_the_gpus_without_any_other_flag(self):
        done = subprocess.run([WORKER, "--list-devices"], capture_output=True, text=True, timeout=PATIENCE_S,
                              env=environment(2, self.folder.name), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = json.loads(done.stdout)
        self.assertEqual([gpu["device"] for gpu in listed["gpus"]], ["cuda:0", "cuda:1"])
        self.assertGreater(listed["gpus"][0]["memory_bytes"], 64 * MIB)


if __name__ == "__main__":
    unittest.main()
