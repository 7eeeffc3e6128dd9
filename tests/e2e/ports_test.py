#!/usr/bin/env python3
"""The three ports of a cluster under clients that do not keep to the rules: they serve again at once."""
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

import attackers
import harness

# The cluster's own limit, lowered so that a test can exceed it: more than that are opened.
DESCRIPTORS = 512
CONNECTIONS = 900
SERVED_AGAIN_S = 2.0  # one second, and one for `tutti status` to start on a busy machine


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
        status = harness.wait_until(self.cluster.status, "status answers", 20)
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

    def test_floods_of_http2(self):
        for attack in (attackers.rapid_reset, attackers.continuation_flood):
            with self.subTest(attack=attack.__name__):
                counts = attack(*attackers.address_of(self.cluster.address), 3)
                self.assertGreater(counts["bytes"], 0, counts)
                self.check_serves()

    def test_after_a_header_bomb_it_serves_again(self):
        """gRPC's threads, which all ports share, read nothing else meanwhile: workers may be lost, but come back."""
        counts = attackers.header_bomb(*attackers.address_of(self.cluster.address), 3)
        self.assertGreater(counts["bytes"], 0, counts)
        harness.wait_until(self.cluster.serving, "it serves again")
        self.assertEqual(self.answer().returncode, 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(unittest.main())
