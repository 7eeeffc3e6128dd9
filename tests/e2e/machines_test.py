#!/usr/bin/env python3
"""A cluster over machines, which are network namespaces: certificates by two commands, then one command for each
process and no table of addresses. Who may not be dialled, or is not who it says, is refused by name.

By hand, as root:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/machines_test.py
"""
import json
import os
import sys
import time
import unittest

import machines
from harness import DEMO, tutti, wait_until

QUESTION = ["chat", "--message", "What is 12 + 30?", "--temperature", "0"]
MACHINES = 5
# What CTest takes for "skipped".
SKIPPED = 77


class Machines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = machines.Network(MACHINES)
        cls.addClassCleanup(cls.network.close)
        cls.nodes = cls.network.machines
        cls.authority = os.path.join(cls.network.folder, "certs")
        cls.certs("init", cls.authority)
        cls.issue("node0", "--role", "coordinator", "--role", "worker")
        for number in range(1, MACHINES):
            cls.issue(f"node{number}")
        cls.issue("alice", "--role", "client")

    def setUp(self):
        self.addCleanup(self.network.end_all)

    @classmethod
    def certs(cls, *arguments):
        done = tutti("certs", *arguments)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    @classmethod
    def issue(cls, name, *arguments, authority=None):
        cls.certs("issue", name, "--authority", authority or cls.authority, *arguments)

    def folder(self, name):
        return os.path.join(self.authority, name)

    def coordinator(self, stages, *more):
        return self.nodes[0].start("tutti-coordinator", "--model", DEMO, "--certs", self.folder("node0"),
                                   "--pipeline-parallel-size", str(stages), *more)

    def worker(self, number, *more, certs=None, coordinator="node0"):
        return self.nodes[number].start("tutti-worker", "--model", DEMO, "--coordinator", coordinator, "--certs",
                                        certs or self.folder(f"node{number}"), *more)

    def ask(self):
        return self.nodes[MACHINES - 1].run("tutti", *QUESTION, "--address", "node0:50051",
                                            "--certs", self.folder("alice"), "--timeout", "20")

    def answers(self):
        done = self.ask()
        return done.returncode == 0 and done.stdout.strip() == "42"

    def status(self):
        done = self.nodes[0].run("tutti", "status", "--json")
        return json.loads(done.stdout) if done.stdout else {}

    def serving_workers(self):
        status = self.status()
        return [stage["worker"]["worker_id"] for pipeline in status.get("pipelines", ())
                for stage in pipeline["stages"]] if status.get("serving") else []

    def status_says(self, *texts):
        """Waits until `tutti status`, as people see it, has all of these."""
        shown = {}

        def look():
            shown["text"] = self.nodes[0].run("tutti", "status").stdout
            return all(text in shown["text"] for text in texts)
        try:
            wait_until(look, f"{texts}", timeout=30)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {shown['text']}") from None

    def test_one_command_each_and_a_fifth_in_the_place_of_one_that_is_killed(self):
        begin = time.monotonic()
        self.coordinator(4)
        workers = [self.worker(number) for number in range(4)]
        wait_until(self.answers, "an answer")
        print(f"first command to the end of the first answer: {time.monotonic() - begin:.2f} s",
              file=sys.stderr)
        self.assertEqual(self.serving_workers(), ["node0", "node1", "node2", "node3"])
        self.worker(4)
        wait_until(lambda: "node4" in str(self.status().get("idle_workers")), "the fifth stands by")
        workers[2].kill()
        wait_until(lambda: "node4" in self.serving_workers(), "the fifth serves")
        self.assertNotIn("node2", self.serving_workers())
        self.assertTrue(self.answers())

    def test_a_peer_outside_of_the_operators_networks_is_not_dialled(self):
        self.coordinator(2)
        self.worker(1)
        refusing = self.worker(0, "--peer-network", "10.99.0.0/16", "--peer-name", "*.workers.svc")
        self.status_says("node1", "10.80.1.2:50060", "10.99.0.0/16, *.workers.svc", "--peer-network")
        refusing.says("node1", "10.80.1.2:50060", "--peer-network")
        self.assertNotEqual(self.ask().returncode, 0)

    def test_an_address_where_nobody_listens_is_named_with_who_announced_it(self):
        self.coordinator(2)
        self.worker(1, "--advertise", "10.80.1.2:1")
        self.worker(0)
        self.status_says("node1", "10.80.1.2:1: UNAVAILABLE")
        self.assertNotEqual(self.ask().returncode, 0)

    def test_a_worker_at_anothers_address_is_no_other_worker(self):
        # node1 announces where node2 listens (for another cluster, so that it takes no place in this
        # one), whose certificate is good, and may even have the host name "node1".
        self.issue("node2-as-node1", "--host", "node1")
        self.coordinator(2)
        listener = self.worker(2, coordinator="node4")
        listener.says("listens on")
        self.worker(1, "--advertise", "10.80.2.2:50060")
        self.worker(0)
        self.status_says("node1", "10.80.2.2:50060")
        listener.kill()
        self.worker(2, certs=self.folder("node2-as-node1"), coordinator="node4")
        self.status_says("node1", "10.80.2.2:50060", "does not have the URI tutti://worker/node1")
        self.assertNotEqual(self.ask().returncode, 0)

    def test_certificates_of_another_authority_or_role_join_nothing(self):
        others = os.path.join(self.network.folder, "others")
        self.certs("init", others)
        self.issue("node1", authority=others)
        self.coordinator(1)
        stranger = self.worker(1, certs=os.path.join(others, "node1"))
        stranger.says("the coordinator at node0:50052", "certificate verify failed")
        client = self.worker(2, certs=self.folder("alice"))
        client.says("does not have the URI tutti://worker/", "it has tutti://client/alice")
        self.assertEqual(client.process.wait(timeout=30), 2)
        other = self.worker(3, "--worker-id", "node1")
        other.says("does not have the URI tutti://worker/node1", "it has tutti://worker/node3")
        self.assertEqual(self.status()["idle_workers"], [])
        self.assertFalse(self.status()["serving"])
        # And a coordinator that is none.
        impostor = self.nodes[4].start("tutti-coordinator", "--model", DEMO, "--certs", self.folder("node4"))
        impostor.says("does not have the URI tutti://coordinator")

    def test_a_table_is_strict(self):
        self.coordinator(2)
        self.worker(1)
        self.worker(0, "--peer", "node7=10.80.1.2:50060")
        self.status_says("\"node1\" is not in this worker's peer table; it has node7")


if __name__ == "__main__":
    MISSING = machines.why_not()
    if MISSING:
        print("SKIPPED:", MISSING, file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
