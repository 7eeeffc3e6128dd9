#!/usr/bin/env python3
"""Nobody pays for a neighbour at the gateway: what one caller holds, sends or leaves unread takes nothing from another, and
memory goes back.

Without keys callers are told apart by their address: the greedy and the modest have one each, all of this machine.
"""
import contextlib
import json
import resource
import socket
import threading
import time
import unittest

import memory
from gateway_test import GatewayTest
from harness import PATIENCE_S, SLOWNESS, running, wait_until
from http_attackers import forged
from memory import resident

COMPLETION = "/v1/completions"
MIB = 1 << 20
GREEDY, MODEST = "127.0.0.2", "127.0.0.3"
# Of kBodiesBytesMax (gateway/limits.h).
BODIES_BYTES = 256 * MIB


def head(path, length, *fields):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                        f"Content-Length: {length}", *fields, "", ""]).encode()


def prompt(size):
    """A body of a completion that is nearly as large."""
    return json.dumps({"prompt": ("hello world " * (size // 12 + 1))[:size], "max_tokens": 1}).encode()


class Callers(GatewayTest):
    """Callers at addresses of their own."""

    def connect(self, source):
        host, port = self.cluster.http.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(source, 0))

    def post(self, source, path, body, *fields):
        """(status, fields of the head, body) of an answer, and the seconds that it took."""
        begin = time.monotonic()
        with self.connect(source) as connection:
            connection.sendall(head(path, len(body), "Connection: close", *fields) + body)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        top, _, rest = received.partition(b"\r\n\r\n")
        return int(top.split()[1]), top.decode().lower(), rest, time.monotonic() - begin

    def flood(self, count, job):
        """Runs job(i) on threads; what they end with is told by the job."""
        threads = [threading.Thread(target=job, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        return threads


class Shares(Callers):
    def test_too_large_a_message_never_reaches_the_connection_of_all(self):
        stop, failures, answers = threading.Event(), [], []

        def neighbour():
            while not stop.is_set():
                status, _, body, _ = self.post(MODEST, COMPLETION, prompt(64))
                answers.append(status)
                if status != 200:
                    failures.append(body[:200])

        innocent = threading.Thread(target=neighbour)
        innocent.start()
        try:
            for _ in range(10):
                status, _, body, _ = self.post(GREEDY, COMPLETION, prompt(15 * MIB))
                self.assertEqual(status, 413, body[:200])
                message = json.loads(body)["error"]["message"]
                self.assertRegex(message, r"1572\d{4} bytes")
                self.assertIn(str(8 * MIB), message)
        finally:
            stop.set()
            innocent.join(PATIENCE_S)
        self.assertEqual(failures, [])
        self.assertGreater(len(answers), 0)

    def test_bodies_whose_senders_leave_are_let_go(self):
        before, most = resident(self.pid), 0
        body = prompt(15 * MIB)

        def leave(_):
            with contextlib.suppress(OSError), self.connect(GREEDY) as connection:
                connection.sendall(head(COMPLETION, len(body)) + body)

        for _ in range(4):
            for thread in self.flood(30, leave):
                thread.join(PATIENCE_S)
                most = max(most, resident(self.pid))
            self.assertEqual(self.post(MODEST, COMPLETION, prompt(20_000))[0], 400)  # longer than the context
        self.assertLess(most - before, 2 * BODIES_BYTES)
        wait_until(lambda: resident(self.pid) - before < 100 * MIB, "memory is given back")

    def test_half_bodies_of_one_keep_nobody_out(self):
        body = prompt(15 * MIB)
        with contextlib.ExitStack() as stack:
            held = 0
            for _ in range(20):
                connection = stack.enter_context(self.connect(GREEDY))
                connection.settimeout(0.5)  # of what is not read nobody waits for the end
                with contextlib.suppress(OSError):
                    connection.sendall(head(COMPLETION, len(body)) + body[:-1])
                    held += 1
            self.assertGreater(held, 4)
            for size in (1000, 100_000, 3 * MIB):
                status, _, answer, _ = self.post(MODEST, COMPLETION, prompt(size))
                self.assertIn(status, (200, 400), answer[:200])

    def test_long_texts_of_one_delay_nobody(self):
        text = json.dumps({"prompt": "the quick brown fox " * (MIB // 20)}).encode()
        chat = json.dumps({"messages": [{"role": "user", "content": "a b c d e " * 2000}], "max_tokens": 1}).encode()
        alone = max(self.post(MODEST, "/v1/chat/completions", chat)[3] for _ in range(5))
        statuses = []
        threads = self.flood(8, lambda _: statuses.append(self.post(GREEDY, "/tokenize", text)[0]))
        time.sleep(0.3)
        longest = max(self.post(MODEST, "/v1/chat/completions", chat)[3] for _ in range(10))
        for thread in threads:
            thread.join(PATIENCE_S)
        self.assertIn(200, statuses)
        self.assertTrue(set(statuses) <= {200, 429}, statuses)
        print(f"a chat of 20 KB took {alone * 1e3:.0f} ms at most alone, {longest * 1e3:.0f} ms beside", flush=True)
        self.assertLess(longest, 10 * alone + 2)

    def test_a_key_that_is_not_kept_is_told(self):
        stream = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        first = self.post(MODEST, COMPLETION, stream, "Idempotency-Key: one")
        again = self.post(MODEST, COMPLETION, stream, "Idempotency-Key: one")
        self.assertEqual(first[2], again[2])
        self.assertNotIn("idempotency-key-kept", first[1])
        # Under the same key another is another's.
        self.assertEqual(self.post(GREEDY, COMPLETION, prompt(64), "Idempotency-Key: one")[0], 200)

    def test_an_id_that_claims_too_much_is_refused_before_any_work(self):
        events = list(self.gateway.events(COMPLETION, {"prompt": "a", "max_tokens": 4, "seed": 1, "n": 2},
                                          accept="text/event-stream"))
        told = events[0][0]
        self.assertTrue(told)
        body = {"prompt": "a", "max_tokens": 4, "seed": 1, "n": 2, "stream": True}
        failed = lambda: self.gateway.get("/tutti/requests").json()["traffic"]["failed"]
        self.assertEqual(self.gateway.post(COMPLETION, body, accept="text/event-stream",
                                           last_event_id=forged(told, 4)).status, 400)  # once it is computed again
        wait_until(lambda: failed() == 1, "the second that runs is over")
        for claimed, status in ((10**9, 400), (5, 400), (0, 200)):
            with self.subTest(claimed):
                answer = self.gateway.post(COMPLETION, body, accept="text/event-stream", last_event_id=forged(told, claimed))
                self.assertEqual(answer.status, status, answer.body[:300])
        time.sleep(1.1)
        self.assertEqual(failed(), 1, "nothing was computed for those")

    def test_numbers_that_nobody_reads(self):
        body = b'{"prompt": "a", "max_tokens": 1, "x": [' + b"1," * 5_000_000 + b"1]}"
        status, _, answer, took = self.post(GREEDY, COMPLETION, body)
        self.assertEqual(status, 400)
        self.assertIn("numbers", json.loads(answer)["error"]["message"])
        self.assertLess(took, 1 * SLOWNESS)


@unittest.skipUnless(memory.IS_OURS, "a sanitizer ends the process where memory is refused")
class OutOfMemory(Callers):
    """A gateway with little room ends requests, and not itself."""

    def test_ends_the_request(self):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            size = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmSize"))
        most = resource.prlimit(self.pid, resource.RLIMIT_AS)[1]
        resource.prlimit(self.pid, resource.RLIMIT_AS, (size + 300 * MIB, most))
        bodies = [prompt(15 * MIB), b'{"prompt": [' + b"123456," * 2_000_000 + b"1]}",
                  b'{"prompt": "a", "x": [' + b'"a",' * 120_000 + b'"a"]}']
        statuses = []

        def ask(i):
            try:
                statuses.append(self.post(f"127.0.0.{2 + i % 8}", COMPLETION, bodies[i % len(bodies)])[0])
            except (OSError, IndexError):
                statuses.append(0)  # ended without a word

        for thread in self.flood(48, ask):
            thread.join(PATIENCE_S)
        self.assertEqual(len(statuses), 48)
        self.assertTrue(set(statuses) <= {0, 400, 413, 429, 503}, statuses)
        resource.prlimit(self.pid, resource.RLIMIT_AS, (most, most))
        self.assertTrue(running(self.pid))
        wait_until(lambda: self.gateway.get("/health").status == 200, "it serves on")
        self.assertEqual(self.post(MODEST, COMPLETION, prompt(64))[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
