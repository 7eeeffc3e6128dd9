#!/usr/bin/env python3
"""A cluster over machines, which are network namespaces: certificates by two commands, then one command for each
process and no table of addresses. Who may not be dialled, or is not who it says, is refused by name.

By hand, as root:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/machines_test.py
"""
import json
import os
import re
import subprocess
import sys
import time
import unittest

import machines
import memory
from harness import DEMO, PATIENCE_S, SLOWNESS, tutti, wait_until
from weights_link_test import split_checkpoint

QUESTION = ["chat", "--message", "What is 12 + 30?", "--temperature", "0"]
MACHINES = 5
# An answer comes within a second of the first token; a cluster that has said why it does not serve gives none for so long.
REFUSED_S = 3 * SLOWNESS
# What a worker reads of files beside its shard: libraries, configuration, index, the headers of all files of weights, and what
# the system says of the machine.
READ_BESIDE = 192 << 10
# What CTest takes for "skipped".
SKIPPED = 77


class Machines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = machines.Network(MACHINES)
        cls.addClassCleanup(cls.network.close)
        cls.nodes = cls.network.machines
        # A file for each layer, so that bytes of other shards are other files.
        cls.model = os.path.join(cls.network.folder, "model")
        cls.files = split_checkpoint(DEMO, cls.model)
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
        return self.nodes[0].start("tutti-coordinator", "--model", self.model, "--certs", self.folder("node0"),
                                   "--pipeline-parallel-size", str(stages), *more)

    def worker(self, number, *more, certs=None, coordinator="node0", model=True):
        return self.nodes[number].start("tutti-worker", *(["--model", self.model] if model else []), "--coordinator", coordinator,
                                        "--certs", certs or self.folder(f"node{number}"), *more)

    def ask(self, seconds=20 * SLOWNESS):
        return self.nodes[MACHINES - 1].run("tutti", *QUESTION, "--address", "node0:50051",
                                            "--certs", self.folder("alice"), "--timeout", str(seconds))

    def answers(self):
        done = self.ask()
        return done.returncode == 0 and done.stdout.strip() == "42"

    def first_token(self):
        """When the first byte of an answer came; None: there was none."""
        asking = subprocess.Popen(self.nodes[MACHINES - 1].command("tutti", *QUESTION, "--address", "node0:50051", "--certs",
                                                                   self.folder("alice")),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.nodes[MACHINES - 1].environment)
        first = asking.stdout.read(1)
        came = time.monotonic()
        answer = first + asking.communicate(timeout=PATIENCE_S)[0]
        return came if asking.returncode == 0 and answer.strip() == b"42" else None

    def shard_bytes(self, stage):
        """Of the files that hold a tensor of the stage."""
        begin = int(stage.get("first_layer", 0))
        names = [f"part-{layer}.safetensors" for layer in range(begin, begin + int(stage["num_layers"]))]
        if stage.get("has_embedding") or stage.get("has_head"):
            names.append("part-ends.safetensors")
        self.assertLess(len(names), len(self.files))
        return sum(os.path.getsize(os.path.join(self.model, name)) for name in names)

    def stages(self):
        return {stage["worker"]["worker_id"]: stage for pipeline in self.status()["pipelines"] for stage in pipeline["stages"]}

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
            wait_until(look, f"{texts}", timeout=30 * SLOWNESS)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {shown['text']}") from None

    def test_one_command_each_and_a_fifth_in_the_place_of_one_that_is_killed(self):
        begin = time.monotonic()
        self.coordinator(4)
        workers = [self.worker(number) for number in range(4)]
        came = wait_until(self.first_token, "an answer")
        print(f"first command to the first token: {came - begin:.2f} s", file=sys.stderr)
        self.assertEqual(self.serving_workers(), ["node0", "node1", "node2", "node3"])
        # Each has read its shard, and nothing of the others'.
        for worker, stage in zip(workers, self.stages().values()):
            shard, read = self.shard_bytes(stage), worker.bytes_read()
            print(f"{stage['worker']['worker_id']} has read {read} bytes, its shard has {shard}", file=sys.stderr)
            self.assertGreaterEqual(read, shard)
            if memory.IS_OURS:  # a sanitizer reads the process's map again and again
                self.assertLess(read, shard + READ_BESIDE)
        self.worker(4)
        wait_until(lambda: "node4" in str(self.status().get("idle_workers")), "the fifth stands by")
        workers[2].kill()
        wait_until(lambda: "node4" in self.serving_workers(), "the fifth serves")
        self.assertNotIn("node2", self.serving_workers())
        self.assertTrue(self.answers())

    def test_one_machine_without_the_checkpoint_gets_its_shard_and_no_more(self):
        self.coordinator(4)
        for number in (0, 1, 3):
            self.worker(number)
        self.worker(2, "--metrics", "127.0.0.1:9101", "--model-cache", os.path.join(self.network.folder, "cache"), model=False)
        wait_until(self.answers, "an answer")
        self.assertEqual(self.serving_workers(), ["node0", "node1", "node2", "node3"])
        page = self.nodes[2].run("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9101; printf 'GET /metrics HTTP/1.1\\r\\nHost: "
                                 "localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3").stdout
        fetched = int(float(re.search(r"^tutti_worker_fetched_bytes_total (\S+)$", page, re.M).group(1)))
        texts = sum(os.path.getsize(os.path.join(self.model, name)) for name in ("config.json", "model.safetensors.index.json"))
        self.assertEqual(fetched, self.shard_bytes(self.stages()["node2"]) + texts)

    def test_a_group_of_a_leaderworkerset_needs_no_names_in_flags(self):
        # Its controller sets the variables; the second pod dials the first by the name of the group's leader.
        self.issue("w0", "--role", "coordinator", "--role", "worker", "--host", "node0")
        self.issue("w1")
        group = {"LWS_LEADER_ADDRESS": "node0", "LWS_GROUP_SIZE": "2"}
        self.nodes[0].start("tutti-coordinator", "--model", self.model, "--certs", self.folder("w0"), **group)
        for number in (0, 1):
            self.nodes[number].start("tutti-worker", "--model", self.model, "--certs", self.folder(f"w{number}"),
                                     LWS_WORKER_INDEX=str(number), **group)
        wait_until(lambda: self.serving_workers() == ["w0", "w1"], "both serve")
        self.assertTrue(self.answers())
        # What is no size is refused by the variable's name.
        wrong = self.nodes[2].run("tutti-coordinator", "--model", self.model, "--certs", self.folder("w0"), LWS_GROUP_SIZE="two")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("LWS_GROUP_SIZE", wrong.stderr)

    def test_inside_a_mesh_the_public_port_speaks_without_tls(self):
        self.coordinator(1, "--public-plaintext", "--public-role", "gateway")
        self.worker(1)
        asking = ["tutti", *QUESTION, "--address", "node0:50051", "--timeout", "20"]
        wait_until(lambda: self.nodes[4].run(*asking).stdout.strip() == "42", "an answer without TLS")
        gateway = ["tutti-gateway", "--coordinator", "node0:50051", "--listen", "127.0.0.1:8000", "--grpc", "0.0.0.0:50055"]
        refused = self.nodes[3].run(*gateway)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--grpc", refused.stderr)
        self.nodes[3].start(*gateway, "--grpc-plaintext", "--without-keys", "--allow-host", "node3")
        asking[asking.index("node0:50051")] = "node3:50055"
        wait_until(lambda: self.nodes[4].run(*asking).stdout.strip() == "42", "an answer through the gateway")

    def test_a_peer_outside_of_the_operators_networks_is_not_dialled(self):
        self.coordinator(2)
        self.worker(1)
        refusing = self.worker(0, "--peer-network", "10.99.0.0/16", "--peer-name", "*.workers.svc")
        self.status_says("node1", "10.80.1.2:50060", "10.99.0.0/16, *.workers.svc", "--peer-network")
        refusing.says("node1", "10.80.1.2:50060", "--peer-network")
        self.assertNotEqual(self.ask(REFUSED_S).returncode, 0)

    def test_an_address_where_nobody_listens_is_named_with_who_announced_it(self):
        self.coordinator(2)
        self.worker(1, "--advertise", "10.80.1.2:1")
        self.worker(0)
        self.status_says("node1", "10.80.1.2:1: UNAVAILABLE")
        self.assertNotEqual(self.ask(REFUSED_S).returncode, 0)

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
        self.assertNotEqual(self.ask(REFUSED_S).returncode, 0)

    def test_certificates_of_another_authority_or_role_join_nothing(self):
        others = os.path.join(self.network.folder, "others")
        self.certs("init", others)
        self.issue("node1", authority=others)
        self.coordinator(1)
        stranger = self.worker(1, certs=os.path.join(others, "node1"))
        stranger.says("the coordinator at node0:50052", "certificate verify failed")
        client = self.worker(2, certs=self.folder("alice"))
        client.says("does not have the URI tutti://worker/", "it has tutti://client/alice")
        self.assertEqual(client.process.wait(timeout=PATIENCE_S), 2)
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
