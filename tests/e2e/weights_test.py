#!/usr/bin/env python3
"""Workers with checkpoints of their own: one that differs from the coordinator's never serves.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/weights_test.py
"""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, clean_environment, tutti, wait_until

CHANGED_BYTES = 20_000


def tensors(path):
    """(name, first byte in the file, past the last), by size, the largest first."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    found = [(name, 8 + length + entry["data_offsets"][0], 8 + length + entry["data_offsets"][1])
             for name, entry in header.items() if name != "__metadata__"]
    return sorted(found, key=lambda tensor: tensor[1] - tensor[2])


class Weights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = clean_environment(TUTTI_ADDRESS=f"unix:{self.path('api')}")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def copy(self, name):
        shutil.copytree(DEMO, self.path(name))
        return self.path(name, "model.safetensors")

    def start(self, program, name, *arguments):
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([os.path.join(BINARIES, program), *arguments], stdout=log,
                                       stderr=log, env=clean_environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def coordinator(self):
        return self.start("tutti-coordinator", "coordinator", "--model", DEMO, "--listen",
                          f"unix:{self.path('api')}", "--peer-listen", f"unix:{self.path('peers')}",
                          "--pipeline-parallel-size", "2", "--kv-tokens", "4096")

    def worker(self, name, model):
        peers = []
        for peer in ("w0", "w1", "w2"):
            if peer != name:
                peers += ["--peer", f"{peer}=unix:{self.path(peer)}"]
        return self.start("tutti-worker", name, "--model", model, "--worker-id", name, "--threads", "1",
                          "--memory", "512MiB", "--coordinator", f"unix:{self.path('peers')}",
                          "--listen", f"unix:{self.path(name)}", *peers)

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as file:
            return file.read()

    def status(self):
        done = tutti("status", "--json", env=self.env)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def joined(self):
        status = self.status()
        stages = [stage["worker"]["worker_id"] for pipeline in status.get("pipelines", [])
                  for stage in pipeline.get("stages", [])]
        return set(stages + [worker["worker_id"] for worker in status.get("idle_workers", [])])

    def answer(self):
        done = tutti("chat", "--message", "What is 12 + 30?", "--temperature", "0", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_worker_with_other_bytes_is_refused_by_name_and_comes_back_mended(self):
        path = self.copy("damaged")
        name, begin, end = tensors(path)[0]
        middle = (begin + end - CHANGED_BYTES) // 2
        with open(path, "r+b") as file:
            file.seek(middle)
            file.write(bytes(CHANGED_BYTES))
        self.coordinator()
        self.worker("w0", DEMO)
        self.worker("w1", self.path("damaged"))
        wait_until(lambda: "is refused" in self.log("coordinator"), "w1 is refused")
        refusal = next(line for line in self.log("coordinator").splitlines() if "is refused" in line)
        self.assertIn("w1", refusal)
        self.assertIn("model.safetensors, bytes", refusal)
        self.assertIn(f'"{name}"', refusal)
        self.assertIn("sha256sum", refusal)
        self.assertFalse(self.status().get("serving"))
        wait_until(lambda: "read other bytes" in self.log("w1"), "w1 says so itself")

        # Another takes its place, and the answers are right.
        self.worker("w2", DEMO)
        wait_until(lambda: self.status().get("serving"), "w0 and w2 serve")
        self.assertIn("42", self.answer())

        # Mended, without a new start.
        shutil.copy(os.path.join(DEMO, "model.safetensors"), path)
        wait_until(lambda: "w1" in self.joined(), "w1 may join again")

    def test_times_and_folders_do_not_matter(self):
        path = self.copy("older")
        os.utime(path, (1_000_000_000, 1_000_000_000))
        self.coordinator()
        self.worker("w0", self.path("older"))
        self.worker("w1", DEMO)
        wait_until(lambda: self.status().get("serving"), "both serve")
        self.assertIn("42", self.answer())
        self.assertNotIn("refused", self.log("coordinator"))

    def test_a_worker_whose_checkpoint_shrinks_says_so_and_lives(self):
        path = self.copy("short")
        worker = self.worker("w1", self.path("short"))
        wait_until(lambda: "listens on" in self.log("w1"), "w1 has looked at its checkpoint")
        os.truncate(path, os.path.getsize(path) // 2)
        self.worker("w0", DEMO)
        self.coordinator()
        wait_until(lambda: "model.safetensors" in self.status().get("why_not_serving", ""),
                   "the status names the file")
        self.assertIsNone(worker.poll())
        shutil.copy(os.path.join(DEMO, "model.safetensors"), path)
        wait_until(lambda: self.status().get("serving"), "serving once it is whole")


if __name__ == "__main__":
    unittest.main(verbosity=2)
