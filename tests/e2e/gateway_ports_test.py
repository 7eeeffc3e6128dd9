#!/usr/bin/env python3
"""A gateway whose two ports are flooded with connections: together they stay within the descriptors that the process may
have, so that it still opens what it needs and answers.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/gateway_ports_test.py
"""
import json
import os
import resource
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from harness import BINARIES, PATIENCE_S, clean_environment, wait_until

DESCRIPTORS = 512
# What a process keeps for all but its ports, as PortDescriptors of transport/connection_table.h has it.
OF_PORTS = DESCRIPTORS - DESCRIPTORS // 2
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty settings
HEAD = b"GET /v1/models HTTP/1.1\r\n"  # of a request that does not go on


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Doors(unittest.TestCase):
    """A port that others reach says aloud what it does without."""

    def start(self, *flags):
        """The log of a gateway that does not start, or None of one that does."""
        with tempfile.TemporaryDirectory(prefix="tutti-doors-") as folder:
            ready = os.path.join(folder, "ready")
            gateway = subprocess.Popen(
                [os.path.join(BINARIES, "tutti-gateway"), "--coordinator", "127.0.0.1:1", "--ready-file", ready,
                 "--drain-timeout", "0", *flags], stderr=subprocess.PIPE, text=True, env=clean_environment())
            wait_until(lambda: gateway.poll() is not None or os.path.exists(ready), "the gateway starts or ends")
            started = gateway.poll() is None
            gateway.terminate()
            log = gateway.communicate(timeout=PATIENCE_S)[1]
            self.assertEqual(gateway.returncode == 0, started, log)
            return log, started

    def test_an_outside_address_needs_keys_and_tls_or_a_word(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("acme " + "0" * 64 + "\n")
            keys.flush()
            refusals = (("--without-keys", ["--listen", "0.0.0.0:0"]),
                        ("--without-keys", ["--listen", "[::]:0", "--http-plaintext"]),
                        ("--http-plaintext", ["--listen", "0.0.0.0:0", "--api-keys", keys.name]),
                        ("--http-plaintext", ["--listen", "0.0.0.0:0", "--without-keys"]),
                        ("--without-keys", ["--listen", "127.0.0.1:0", "--grpc", "0.0.0.0:0", "--grpc-plaintext"]),
                        ("contradict", ["--listen", "127.0.0.1:0", "--api-keys", keys.name, "--without-keys"]))
            for word, flags in refusals:
                with self.subTest(flags):
                    log, started = self.start(*flags)
                    self.assertFalse(started)
                    self.assertIn(word, log)
            for flags in (["--listen", "127.0.0.1:0"], ["--listen", "0.0.0.0:0", "--api-keys", keys.name, "--http-plaintext"]):
                with self.subTest(flags):
                    self.assertTrue(self.start(*flags)[1])
        log, started = self.start("--listen", "0.0.0.0:0", "--without-keys", "--http-plaintext")
        self.assertTrue(started)
        self.assertIn("whoever reaches", log)


class Ports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-ports-")
        self.addCleanup(folder.cleanup)
        ready = os.path.join(folder.name, "ready")

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

        # Nobody is there to pass requests on to: this is about connections only.
        self.log = open(os.path.join(folder.name, "log"), "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        self.gateway = subprocess.Popen(
            [os.path.join(BINARIES, "tutti-gateway"), "--coordinator", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--grpc",
             "127.0.0.1:0", "--ready-file", ready, "--drain-timeout", "0"],
            preexec_fn=limit, stdout=self.log, stderr=self.log, env=clean_environment())
        self.addCleanup(self.end)
        wait_until(lambda: os.path.exists(ready), "the gateway listens")
        with open(ready, encoding="utf-8") as file:
            told = json.load(file)
        self.http, self.grpc = told["address"].removeprefix("http://"), told["grpc"]

    def end(self):
        self.gateway.terminate()
        self.gateway.wait(timeout=PATIENCE_S)

    def flood(self, address, first, count=DESCRIPTORS):
        """Connections that stay as long as the gateway lets them."""
        host, port = address.rsplit(":", 1)
        for number in range(count):
            # From many addresses: one may not have all of a port.
            source = f"127.0.{number % 8}.{1 + number // 8 % 250}"
            connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(source, 0))
            self.addCleanup(connection.close)
            try:
                connection.sendall(first)
            except OSError:
                pass  # it was full

    def settled(self):
        """Its descriptors, when it has taken all connections that it takes."""
        seen = []

        def same():
            seen.append(descriptors(self.gateway.pid))
            return len(seen) > 20 and len(set(seen[-20:])) == 1

        wait_until(same, "the gateway has taken what it takes")
        return max(seen)

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://{self.http}/health", timeout=PATIENCE_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_both_ports_have_one_budget(self):
        own = descriptors(self.gateway.pid)
        self.flood(self.grpc, PREFACE)
        most = self.settled()
        self.flood(self.http, HEAD)
        most = max(most, self.settled())
        self.assertGreater(most - own, OF_PORTS // 2, "the flood came through")
        self.assertLessEqual(most - own, OF_PORTS + 8, "and left the rest to others")
        self.assertIn(self.answers(), (200, 503))
        self.log.seek(0)
        self.assertNotIn("no descriptor", self.log.read())
        self.assertIsNone(self.gateway.poll())


    def test_one_that_does_not_read_shuts_no_port(self):
        for number in range(DESCRIPTORS):
            connection = socket.socket()
            self.addCleanup(connection.close)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(0.2)
            connection.bind(("127.0.0.2", 0))
            try:
                connection.connect((self.http.rsplit(":", 1)[0], int(self.http.rsplit(":", 1)[1])))
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300)
            except OSError:
                pass  # it was full, or takes no more
        self.settled()
        until = time.monotonic() + 0.5  # they have not read for longer than any reader
        wait_until(lambda: time.monotonic() > until, "they have what they take")
        for _ in range(20):
            self.assertIn(self.answers(), (200, 503))


if __name__ == "__main__":
    unittest.main()
