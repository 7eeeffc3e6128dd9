#!/usr/bin/env python3
"""The three ports of a cluster under clients that do not keep to the rules: others are served, now or at once."""
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

import attackers
import harness
from innocents import Innocent

# The cluster's own limit, lowered so that a test can exceed it: more than that are opened.
DESCRIPTORS = 512
CONNECTIONS = 900
SERVED_AGAIN_S = 2.0 * harness.SLOWNESS  # one second, and one for `tutti status` to start on a busy machine
# Attackers of HTTP/2, as many as there are threads of gRPC's on two cores; the longest time of a request beside them.
ATTACKERS = 2
ATTACK_S = 4
SERVED_BESIDE_S = 3.0 * harness.SLOWNESS


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def arguments_of(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read().split("\0")


def ports_of(cluster):
    """The public port, the coordinator's port for workers, and a worker's port for workers."""
    found = {"public": cluster.address}
    for name, pid in cluster.children().items():
        arguments = arguments_of(pid)
        flag = "--peer-listen" if name == "coordinator" else "--listen"
        found["coordinator" if name == "coordinator" else "worker"] = arguments[arguments.index(flag) + 1]
    return found


class PortsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (kept[1], kept[1]))
        popen = subprocess.Popen

        def limited(*arguments, **named):
            return popen(*arguments, preexec_fn=few_descriptors, **named)

        subprocess.Popen = limited
        try:
            cls.cluster = harness.Cluster()
        finally:
            subprocess.Popen = popen
        harness.wait_until(cls.cluster.serving, "the cluster serves")
        cls.before = cls.cluster.children()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop(signal.SIGTERM)
        cls.cluster.cleanup()

    def answer(self):
        return self.cluster.tutti("generate", "--max-tokens", "4", "--temperature", "0", "--prompt", "1+1=")

    def check_serves(self):
        begin = time.monotonic()
        status = harness.wait_until(self.cluster.status, "status answers")
        took = time.monotonic() - begin
        self.assertTrue(status["serving"], status)
        self.assertLess(took, SERVED_AGAIN_S)
        self.assertEqual(self.answer().returncode, 0)
        self.assertEqual(self.cluster.children(), self.before, "a process was lost")

    def test_ports_serve_again_after_more_connections_than_descriptors(self):
        for name, address in ports_of(self.cluster).items():
            for attack in (attackers.idle_connections, attackers.greeting_connections):
                with self.subTest(port=name, attack=attack.__name__):
                    counts = attack(*attackers.address_of(address), 3, CONNECTIONS)
                    self.assertGreater(counts["opened"], DESCRIPTORS, counts)
                    self.check_serves()

    def test_floods_before_hello_end_nobody_elses_link(self):
        ports = ports_of(self.cluster)
        for name in ("coordinator", "worker"):
            with self.subTest(port=name):
                counts = attackers.frame_flood(*attackers.address_of(ports[name]), 3)
                self.assertGreater(counts["connections"], 0, counts)
                self.check_serves()

    def check_others_are_served_beside(self, attack):
        """While several processes attack the public port, requests are served and no worker is lost."""
        epoch = self.cluster.status()["pipelines"][0]["epoch"]
        innocents = [Innocent(self.cluster.address), Innocent(self.cluster.address, anew=True)]
        attacks = [subprocess.Popen([sys.executable, attackers.__file__, attack, self.cluster.address, str(ATTACK_S)],
                                    stdout=subprocess.PIPE, text=True) for _ in range(ATTACKERS)]
        outputs = [one.communicate()[0] for one in attacks]
        for innocent in innocents:
            innocent.stop()
            self.assertEqual(innocent.failures, [], outputs)
            self.assertGreater(len(innocent.seconds), 0)
            self.assertLess(innocent.at(1), SERVED_BESIDE_S, outputs)
        self.assertTrue(all("'bytes'" in output for output in outputs), outputs)
        self.check_serves()
        self.assertEqual(self.cluster.status()["pipelines"][0]["epoch"], epoch, self.cluster.stderr())

    def test_rapid_resets(self):
        self.check_others_are_served_beside("rapid_reset")

    def test_continuations_without_end(self):
        self.check_others_are_served_beside("continuation")

    def test_header_bombs(self):
        self.check_others_are_served_beside("header_bomb")

    def test_header_bombs_behind_a_request_that_never_comes(self):
        self.check_others_are_served_beside("hidden_bomb")

    def test_settings_without_end(self):
        self.check_others_are_served_beside("settings")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(unittest.main())
