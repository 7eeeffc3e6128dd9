#!/usr/bin/env python3
"""The gateway's port for gRPC, asked of `tutti up`.

By hand:  TUTTI_BINARY_DIR=build/release /usr/bin/python3 tests/e2e/gateway_up_test.py
"""
import os
import signal
import unittest

from gateway_grpc_test import Caller, Grpc
from harness import DEMO, Cluster, read_line, tutti, wait_until


class Up(unittest.TestCase):
    def test_serves_grpc_where_it_is_told_to(self):
        cluster = Cluster("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", workers=1)
        self.addCleanup(cluster.cleanup)
        caller = Caller(cluster.grpc)
        self.addCleanup(caller.close)
        wait_until(lambda: Grpc.health(caller, b"inference.GRPCInferenceService") == b"\x08\x01", "the gateway serves")
        self.assertEqual(len(caller.whole({"text": "a", "sampling": {"max_tokens": 2}})[0][0]), 2)
        lines = [read_line(cluster.process) for _ in range(3)]
        self.assertIn(f"gRPC (tutti.v1.Inference, KServe, VllmEngine) at {cluster.grpc}", lines[2])
        # One that is started again is where clients know it to be.
        os.kill(cluster.children()["gateway"], signal.SIGKILL)
        wait_until(lambda: "gateway" not in cluster.children(), "the gateway is gone")
        wait_until(lambda: Grpc.health(caller) == b"\x08\x01", "the gateway serves again")

    def test_has_none_unasked_and_none_without_a_gateway(self):
        cluster = Cluster("--http", "127.0.0.1:0", workers=1)
        self.addCleanup(cluster.cleanup)
        self.assertEqual(cluster.grpc, "")
        for arguments, words in ((("--http", "off", "--grpc", "127.0.0.1:0"), "--http off starts none"),
                                 (("--grpc", "nonsense"), "nonsense")):
            done = tutti("up", "--model", DEMO, *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
