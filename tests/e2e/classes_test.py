#!/usr/bin/env python3
"""Machines of two kinds in real processes: the numerics class is one that all can compute, whoever comes first.

A machine that computes cpu-f32 alone is a worker with --numerics-class cpu-f32.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/classes_test.py
"""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, clean_environment, tutti, wait_until

ASK = ["generate", "--prompt", "12+30=", "--temperature", "0", "--max-tokens", "8", "--ignore-eos", "--logprobs", "--json"]


class Machines:
    """A coordinator, and workers that are started one by one."""

    def __init__(self, test, *flags):
        folder = tempfile.TemporaryDirectory(prefix="tutti-classes-")
        test.addCleanup(folder.cleanup)
        self.test, self.folder = test, folder.name
        self.service = ["--address", f"unix:{self.path('public.sock')}"]
        self.operator = [*self.service, "--admin", f"unix:{self.path('admin.sock')}"]
        self.start("coordinator", "tutti-coordinator", "--listen", f"unix:{self.path('public.sock')}", "--peer-listen",
                   f"unix:{self.path('peers.sock')}", "--admin-listen", f"unix:{self.path('admin.sock')}",
                   "--kv-tokens", "4096", "--drain-timeout", "0", *flags)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, program, *flags):
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([os.path.join(BINARIES, program), "--model", DEMO, *flags], stdout=log, stderr=log,
                                       env=clean_environment(TMPDIR=self.folder, XDG_RUNTIME_DIR=""))
        self.test.addCleanup(process.wait, PATIENCE_S)
        self.test.addCleanup(process.terminate)

    def worker(self, name, *flags):
        peers = [f"{other}=unix:{self.path(other)}.sock" for other in ("w0", "w1", "w2") if other != name]
        self.start(name, "tutti-worker", "--worker-id", name, "--coordinator", f"unix:{self.path('peers.sock')}",
                   "--listen", f"unix:{self.path(name)}.sock", "--threads", "1", "--memory", "256MiB", "--device", "cpu",
                   "--drain-timeout", "0", *[part for peer in peers for part in ("--peer", peer)], *flags)

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as file:
            return file.read()

    def status(self):
        done = tutti("status", *self.operator, "--json")
        return json.loads(done.stdout) if done.stdout else {}

    def wait_for(self, condition, what):
        """The first status for which it holds."""
        def look():
            status = self.status()
            return status if status and condition(status) else None
        try:
            return wait_until(look, what)
        except AssertionError as failed:
            logs = "\n".join(f"--- {name}\n{self.log(name[:-4])[-3000:]}" for name in sorted(os.listdir(self.folder))
                             if name.endswith(".log"))
            raise AssertionError(f"{failed}\n{self.status()}\n{logs}") from None

    def serves_in(self, numerics_class):
        return self.wait_for(lambda status: status["serving"] and any(
            one.get("numerics_class") == numerics_class for one in status["pipelines"]), f"it serves in {numerics_class}")

    def answer(self):
        done = tutti(*ASK, *self.service)
        self.test.assertEqual(done.returncode, 0, done.stderr)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        # How tokens are dealt out to messages is the moment's.
        return "".join(message.get("text", "") for message in messages), [
            (token["id"], token["logprob"]) for message in messages for token in message.get("tokens", [])]


class Classes(unittest.TestCase):
    def test_whoever_comes_first_all_compute_in_what_all_can(self):
        answers = []
        for order in (("w0", "w1"), ("w1", "w0")):
            with self.subTest(order):
                machines = Machines(self, "--pipeline-parallel-size", "2")
                for name in order:
                    machines.worker(name, *(["--numerics-class", "cpu-f32"] if name == "w1" else []))
                    machines.wait_for(lambda status, name=name: name in json.dumps(status), f"{name} has joined")
                status = machines.serves_in("cpu-f32")
                self.assertEqual(status["numerics"]["why"], "the only one that all 2 workers can compute")
                self.assertEqual([one["worker_id"] for one in status["numerics"]["workers"]], ["w0", "w1"])
                self.assertIn("numerics: cpu-f32, the only one", tutti("status", *machines.operator).stdout)
                answers.append(machines.answer())
        self.assertTrue(answers[0][1])
        self.assertEqual(answers[0], answers[1])

    def test_a_late_one_is_refused_with_what_to_do(self):
        machines = Machines(self)
        machines.worker("w0", "--numerics-class", "cpu-f32")
        machines.wait_for(lambda status: status["serving"] and status["numerics"]["settled"], "the class is settled")
        machines.worker("w1", "--numerics-class", "cpu-bf16dot")
        reason = 'numerics class of the worker is "cpu-bf16dot", of the pipeline "cpu-f32"'
        status = machines.wait_for(lambda status: status.get("refused_peers"), "the late one is refused")
        self.assertIn(reason, status["refused_peers"][0]["reason"])
        self.assertIn("no class in common", status["refused_peers"][0]["reason"])
        wait_until(lambda: reason in machines.log("coordinator"), "the coordinator's log says so")
        wait_until(lambda: reason in machines.log("w1"), "the worker's log says so")
        # One that can compute both serves in what is there.
        machines.worker("w2")
        machines.wait_for(lambda status: any("w2" in json.dumps(status[where]) for where in ("idle_workers", "pipelines")),
                          "w2 has joined")
        self.assertEqual(machines.status()["numerics"]["numerics_class"], "cpu-f32")

    def test_one_that_comes_within_the_settling_time_is_taken(self):
        machines = Machines(self)
        machines.worker("w0")
        machines.wait_for(lambda status: status["serving"], "one serves")
        machines.worker("w1", "--numerics-class", "cpu-f32")
        status = machines.wait_for(lambda status: status["serving"] and status["numerics"]["settled"], "it is settled")
        # Whether it came in time is the machine's business; what follows from it is ours.
        if any(one["worker_id"] == "w1" for one in status["numerics"]["workers"]):
            machines.serves_in("cpu-f32")
        self.assertTrue(machines.answer()[1])


if __name__ == "__main__":
    unittest.main()
