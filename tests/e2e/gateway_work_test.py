#!/usr/bin/env python3
"""What the gateway does first: keys are looked at before bodies, and short work does not wait behind long."""
import hashlib
import json
import resource
import socket
import tempfile
import threading
import time
import unittest

from gateway_faults_test import COMPLETION, Machines
from harness import PATIENCE_S, SLOWNESS, Cluster, wait_until
from http_client import Gateway
from memory import resident
from prometheus_text import parse

MIB = 1 << 20
# The gateway reads so much of what follows a refusal, and no more.
FAREWELL_BYTES = MIB
LONG_JOBS = 12
# Connections, of more than one address may have, and bodies: below what counts, and above.
HALF_BODIES, HALF_BODY_BYTES = 5000, (12 << 10, 200 << 10)


class KeysBeforeBodies(Machines):
    coordinator_flags = ["--public-role", "gateway"]

    def setUp(self):
        super().setUp()
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            for name, word in (("acme", ""), ("ops", "operator")):
                file.write(f"{name} {hashlib.sha256(f'key-of-{name}'.encode()).hexdigest()} {word}\n")

    def read_bytes(self, gateway):
        families = parse(gateway.get("/metrics", authorization="Bearer key-of-ops").body.decode())
        return families["tutti_gateway_read_bytes_total"].samples[0][2]

    def send(self, gateway, path, key, size, chunked):
        """The status line for a body of `size` bytes, of which as much is sent as goes."""
        host, port = gateway.address.rsplit(":", 1)
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: {gateway.address}\r\nAuthorization: Bearer {key}\r\n"
                               f"{length}\r\n\r\n".encode())
            if chunked:
                connection.sendall(f"{size:x}\r\n".encode())

            def rest():
                try:
                    connection.sendall(bytes(size))
                except OSError:
                    pass  # it has closed

            sends = threading.Thread(target=rest)
            sends.start()
            status = connection.recv(4096).split(b"\r\n")[0].decode()
            sends.join()
            return status

    def test_who_has_no_key_sends_none(self):
        _, gateway = self.healthy_gateway("--api-keys", self.path("keys"))
        size = 12 * MIB
        for path in (COMPLETION, "/tokenize", "/ping", "/", "/tutti/status", "/nowhere"):
            for chunked in (False, True):
                before = self.read_bytes(gateway)
                self.assertIn("401", self.send(gateway, path, "wrong", size, chunked), path)
                read = self.read_bytes(gateway) - before
                self.assertLess(read, FAREWELL_BYTES + 64 * 1024, (path, chunked))
        # Who has one is read to the end: this is no JSON.
        before = self.read_bytes(gateway)
        self.assertIn("400", self.send(gateway, COMPLETION, "key-of-acme", size, False))
        self.assertGreater(self.read_bytes(gateway) - before, size)

    def test_half_bodies_under_one_key_keep_nobody_out(self):
        process, gateway = self.healthy_gateway("--api-keys", self.path("keys"))
        before = resident(process.pid)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        host, port = gateway.address.rsplit(":", 1)
        closed = 0
        for number in range(min(HALF_BODIES, hard - 512)):
            # From many addresses: one may not have all of a port.
            connection = socket.socket()
            self.addCleanup(connection.close)
            connection.settimeout(PATIENCE_S)
            connection.bind((f"127.0.1.{1 + number % 8}", 0))
            connection.connect((host, int(port)))
            size = HALF_BODY_BYTES[number % len(HALF_BODY_BYTES)]
            try:
                connection.sendall(f"POST {COMPLETION} HTTP/1.1\r\nHost: {gateway.address}\r\nAuthorization: Bearer key-of-acme\r\n"
                                   f"Content-Length: {size}\r\n\r\n".encode() + bytes(size // 2))
            except OSError:
                closed += 1  # they have as much as they may
        took = []
        for size in (10, 100, 20_000, 200_000) * 5:
            begin = time.monotonic()
            answer = gateway.post(COMPLETION, {"prompt": "a b c d e " * (size // 10), "max_tokens": 1},
                                  authorization="Bearer key-of-ops")
            took.append(time.monotonic() - begin)
            self.assertEqual(answer.status, 200 if size < 1000 else 400, answer.body[:200])
        print(f"beside {HALF_BODIES} half bodies, of which {closed} were refused while they came, others were answered within "
              f"{max(took):.2f} s; the gateway grew by {(resident(process.pid) - before) >> 20} MiB", flush=True)
        self.assertLess(max(took), 10 * SLOWNESS)
        self.assertLess(resident(process.pid) - before, 512 * MIB)

    def test_operators_have_theirs_in_the_same_file(self):
        _, gateway = self.healthy_gateway("--api-keys", self.path("keys"))
        for path in ("/metrics", "/tutti/requests"):
            self.assertEqual([gateway.get(path, **headers).status for headers in
                              ({}, {"authorization": "Bearer key-of-acme"}, {"authorization": "Bearer key-of-ops"})],
                             [401, 403, 200], path)


class Lanes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--http", "127.0.0.1:0")
        cls.gateway = Gateway(cls.cluster.http)
        wait_until(lambda: cls.gateway.get("/health").status == 200, "the gateway is healthy")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.cleanup()

    def beside(self, path, body):
        """Sends LONG_JOBS of these at once, and meanwhile what is short, again and again; how often all of that was
        answered while some of the long ones were not."""
        connections = []
        host, port = self.gateway.address.rsplit(":", 1)
        head = (f"POST {path} HTTP/1.1\r\nHost: {self.gateway.address}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode()
        for _ in range(LONG_JOBS):
            connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
            self.addCleanup(connection.close)
            connection.sendall(head + body)
            connections.append(connection)
        done = []

        def wait(connection):
            while connection.recv(1 << 16):
                pass
            done.append(time.monotonic())

        threads = [threading.Thread(target=wait, args=(connection,)) for connection in connections]
        for thread in threads:
            thread.start()
        rounds = 0
        while True:
            self.assertEqual(self.gateway.get("/health").status, 200)
            self.assertEqual(self.gateway.get("/v1/models").status, 200)
            self.assertEqual(self.gateway.get("/metrics").status, 200)
            self.assertEqual(self.gateway.post("/tokenize", {"prompt": "12 + 30"}).status, 200)
            chat = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "max_tokens": 1}
            self.assertEqual(self.gateway.post("/v1/chat/completions", chat).status, 200)
            if len(done) == LONG_JOBS:
                break
            rounds += 1
        for thread in threads:
            thread.join()
        return rounds

    def test_short_work_passes_long_tokenizing(self):
        text = json.dumps({"prompt": "a word and another " * 40000}).encode()  # 760 KB
        self.assertGreaterEqual(self.beside("/tokenize", text), 2)

    def test_short_work_passes_large_bodies(self):
        # Parsed, and refused for its last field. All together fit into the half of the bytes that one address may have.
        body = json.dumps({"prompt": list(range(1_000_000)), "zzz": 1}).encode()
        self.assertGreaterEqual(self.beside("/v1/completions", body), 2)


class PassedOn(unittest.TestCase):
    def test_up_tells_its_gateway(self):
        with tempfile.TemporaryDirectory(prefix="tutti-up-") as folder:
            cluster = Cluster("--http", "127.0.0.1:0", "--tool-parser", "hermes", "--reasoning-parser", "think",
                              "--reasoning-content", "--log-dir", folder)
            try:
                pid = cluster.children()["gateway"]
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    arguments = file.read().split("\0")
                for flag, value in (("--tool-parser", "hermes"), ("--reasoning-parser", "think")):
                    self.assertEqual(arguments[arguments.index(flag) + 1], value)
                self.assertIn("--reasoning-content", arguments)
            finally:
                cluster.cleanup()


if __name__ == "__main__":
    unittest.main(verbosity=2)
