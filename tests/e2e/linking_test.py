#!/usr/bin/env python3
"""Workers that cannot reach each other: the link is named, nobody is thrown out, a spare helps.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/linking_test.py
"""
import json
import os
import subprocess
import tempfile
import time
import unittest

from harness import BINARIES, DEMO, clean_environment, tutti, wait_until


class Linking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-link-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        ready = os.path.join(self.folder, "ready.json")
        self.run_program("coordinator", "tutti-coordinator", "--listen", "127.0.0.1:0",
                         "--peer-listen", self.socket("peers"), "--ready-file", ready,
                         "--kv-tokens", "2048", "--pipeline-parallel-size", "2",
                         "--drain-timeout", "0")
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            self.env = clean_environment(TUTTI_ADDRESS=json.load(file)["address"])

    def socket(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def run_program(self, name, program, *arguments):
        log = open(os.path.join(self.folder, name + ".log"), "w", encoding="utf-8")
        process = subprocess.Popen([os.path.join(BINARIES, program), "--model", DEMO, *arguments],
                                   stdout=log, stderr=log, env=clean_environment())
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def worker(self, name, **peers):
        """A worker whose table holds these peers, each with the name of a socket."""
        table = [flag for peer, socket in peers.items()
                 for flag in ("--peer", f"{peer}={self.socket(socket)}")]
        return self.run_program(name, "tutti-worker", "--worker-id", name, "--coordinator",
                                self.socket("peers"), "--listen", self.socket(name), "--threads",
                                "1", "--memory", "512MiB", "--speed", "off", *table)

    def log_of(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8") as file:
            return file.read()

    def status(self):
        done = tutti("status", "--json", env=self.env)
        return json.loads(done.stdout) if done.stdout else {}

    def serving(self):
        return self.status().get("serving")

    def why(self):
        return self.status().get("why_not_serving", "")

    def check_answers(self, *workers):
        wait_until(self.serving, "it serves")
        stages = self.status()["pipelines"][0]["stages"]
        self.assertEqual([stage["worker"]["worker_id"] for stage in stages], list(workers))
        done = tutti("chat", "--message", "What is 12 + 30?", "--temperature", "0", env=self.env)
        self.assertEqual(done.stdout.strip(), "42", done.stderr)

    def test_a_dead_port_is_named_and_a_spare_takes_the_place(self):
        self.worker("w0", w1="nobody", w2="w2")
        self.worker("w1", w0="w0", w2="w2")
        wait_until(lambda: "activation link from w0 to w1 failed" in self.why(), "the link is named")
        self.assertIn("nobody.sock", self.why())
        self.assertFalse(self.serving(), "a request would hang")
        text = tutti("status", env=self.env).stdout
        self.assertIn("activation link from w0 to w1", text)
        self.worker("w2", w0="w0", w1="w1")
        self.check_answers("w0", "w2")
        self.assertNotIn("was lost", self.log_of("coordinator"))

    def test_a_peer_that_the_table_lacks_throws_nobody_out(self):
        self.worker("w0", w1="w1", w3="w3")
        victim = self.worker("w1", w0="w0")
        self.check_answers("w0", "w1")
        # A spare that w0 does not know, then one that it knows.
        self.worker("w2", w0="w0")
        wait_until(lambda: self.status().get("idle_workers"), "the spare has joined")
        victim.kill()
        wait_until(lambda: "not in this worker's peer table" in self.why(), "the entry is named")
        self.assertIn("\"w2\"", self.why())
        time.sleep(1)
        self.assertEqual(self.log_of("w0").count("joined the coordinator"), 1)
        self.worker("w3", w0="w0")
        self.check_answers("w0", "w3")


if __name__ == "__main__":
    unittest.main(verbosity=2)
