#!/usr/bin/env python3
"""Real processes that are told to stop: all at once as in a pod, one by one, twice.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/leaving_test.py
"""
import json
import os
import signal
import subprocess
import time
import unittest

from harness import PATIENCE_S, SLOWNESS, TUTTI, Cluster, read_line, running, wait_until

KV = ["--kv-tokens", "32768"]
# As long as the model's context allows.
LONG = 2000


def stream(cluster, tokens):
    """A stream that has begun."""
    process = subprocess.Popen(
        [TUTTI, "generate", "--prompt", "12", "--max-tokens", str(tokens), "--ignore-eos", "--resume-within", "0",
         "--temperature", "1", "--seed", "1", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.env)
    process.first = read_line(process)
    return process


class Leaving(unittest.TestCase):
    def start(self, *arguments, workers=2):
        cluster = Cluster(*KV, *arguments, workers=workers)
        self.addCleanup(cluster.cleanup)
        return cluster

    def begin(self, cluster, tokens, count=3):
        streams = [stream(cluster, tokens) for _ in range(count)]
        for one in streams:
            self.assertTrue(one.first, "no first token")
        return streams

    def check_whole(self, streams, tokens):
        for one in streams:
            output, errors = one.communicate(timeout=PATIENCE_S)
            self.assertEqual(one.returncode, 0, errors)
            messages = [json.loads(line) for line in (one.first + output).splitlines()]
            self.assertEqual(messages[-1]["finish"]["usage"]["completion_tokens"], tokens)

    def ended(self, cluster, pids):
        cluster.process.wait(timeout=PATIENCE_S)
        wait_until(lambda: not any(running(pid) for pid in pids), "no process is left")

    def test_all_told_at_once_finish_what_runs(self):
        for with_parent in (True, False):
            with self.subTest(with_parent=with_parent):
                cluster = self.start("--drain-timeout", "40")
                pids = list(cluster.children().values())
                streams = self.begin(cluster, 1200)
                # The workers first: so it was in a pod.
                told = sorted(pids, reverse=True) + ([cluster.process.pid] if with_parent else [])
                for pid in told:
                    os.kill(pid, signal.SIGTERM)
                self.check_whole(streams, 1200)
                if not with_parent:
                    cluster.process.send_signal(signal.SIGTERM)
                self.ended(cluster, pids)

    def test_tutti_up_gives_what_runs_its_time(self):
        cluster = self.start("--drain-timeout", "40")
        pids = list(cluster.children().values())
        streams = self.begin(cluster, 1200)
        cluster.process.send_signal(signal.SIGTERM)
        # The signal goes from process to process; the coordinator says when it has come.
        wait_until(lambda: cluster.tutti("status").returncode == 3, "newcomers are refused")
        late = cluster.tutti("generate", "--prompt", "1", "--resume-within", "0")
        self.assertNotEqual(late.returncode, 0)
        self.check_whole(streams, 1200)
        self.ended(cluster, pids)
        self.assertEqual(cluster.process.returncode, 0)

    def test_when_the_time_is_over_the_reason_is_ours(self):
        cluster = self.start("--drain-timeout", "0.3")
        pids = list(cluster.children().values())
        streams = self.begin(cluster, LONG, count=8)
        began = time.monotonic()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        ends = [one.communicate(timeout=PATIENCE_S)[1] for one in streams]
        seconds = time.monotonic() - began
        for one, errors in zip(streams, ends):
            self.assertEqual(one.returncode, 3, errors)
            self.assertIn("the service is shutting down", errors)
        self.assertGreater(seconds, 0.25)
        cluster.process.send_signal(signal.SIGTERM)
        self.ended(cluster, pids)

    def test_a_second_signal_hurries(self):
        cluster = self.start("--drain-timeout", "60")
        pids = list(cluster.children().values())
        streams = self.begin(cluster, LONG, count=32)
        cluster.process.send_signal(signal.SIGTERM)
        time.sleep(1.2)  # signals closer than a second are one
        self.assertIsNone(cluster.process.poll())
        began = time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        for one in streams:
            _, errors = one.communicate(timeout=PATIENCE_S)
            self.assertIn("the service is shutting down", errors)
        self.ended(cluster, pids)
        self.assertLess(time.monotonic() - began, 5 * SLOWNESS)

    def test_a_worker_alone_finishes_and_a_spare_takes_its_place(self):
        cluster = self.start("--pipeline-parallel-size", "2", "--drain-timeout", "40", workers=3)
        streams = self.begin(cluster, 1000)
        victim = cluster.children()["w1"]
        os.kill(victim, signal.SIGTERM)
        self.check_whole(streams, 1000)
        wait_until(lambda: not running(victim), "the worker ends")
        wait_until(cluster.serving, "serving again")
        done = cluster.tutti("generate", "--prompt", "1+1=", "--temperature", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_idle_cluster_ends_at_once(self):
        cluster = self.start("--drain-timeout", "60")
        pids = list(cluster.children().values())
        began = time.monotonic()
        cluster.process.send_signal(signal.SIGTERM)
        self.ended(cluster, pids)
        self.assertLess(time.monotonic() - began, 5 * SLOWNESS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
