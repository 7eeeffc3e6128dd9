#!/usr/bin/env python3
"""Hostile bytes at the gateway's HTTP port: each gets a clear status or a close, the gateway's memory stays bounded, and a
client that keeps to the rules, beside them, gets the same answers as before."""
import contextlib
import json
import re
import resource
import socket
import threading
import time
import unittest

from gateway_test import GatewayTest
from harness import PATIENCE_S, wait_until
from http_client import text_of
from memory import resident

COMPLETION = "/v1/completions"
STREAM = {"prompt": "Tell me something: ", "max_tokens": 60, "ignore_eos": True, "seed": 7}
MIB = 1 << 20
# Of kHeadTime and kBodyBytesMax (gateway/limits.h).
HEAD_S = 10
BODY_BYTES = 16 * MIB
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
# A request of its own in the body of another; whoever reads the other's end too early answers both.
HIDDEN = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Hostile(GatewayTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.address = tuple(cls.cluster.http.rsplit(":", 1))
        cls.expected = text_of(cls.gateway.stream(COMPLETION, STREAM))

    def connect(self):
        return socket.create_connection((self.address[0], int(self.address[1])), timeout=PATIENCE_S)

    @contextlib.contextmanager
    def beside_others(self, memory=64 * MIB):
        """While the block runs an innocent streams, without a pause; afterwards its answers and the memory are looked at."""
        over, texts, failures = threading.Event(), [], []

        def ask():
            while not over.is_set() or not texts:
                try:
                    texts.append(text_of(self.gateway.stream(COMPLETION, STREAM)))
                except Exception as error:  # whatever it is, the innocent has seen it
                    failures.append(repr(error))
                    return

        before = resident(self.pid)
        innocent = threading.Thread(target=ask)
        innocent.start()
        try:
            yield
        finally:
            over.set()
            innocent.join(PATIENCE_S)
        self.assertEqual(failures, [])
        self.assertEqual(set(texts), {self.expected})
        self.assertLess(resident(self.pid) - before, memory)

    def answers(self, data):
        """The statuses of all answers to these bytes; the gateway closes behind the last."""
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", self.gateway.raw(data))]

    def check_refused(self, data, statuses=(400,)):
        """Exactly one answer, a refusal, and a close."""
        found = self.answers(data)
        self.assertEqual(len(found), 1, (data[:200], found))
        self.assertIn(found[0], statuses, data[:200])

    def test_slow_heads(self):
        with self.beside_others():
            slow = [self.connect() for _ in range(200)]
            begin = time.monotonic()
            for i in range(40):
                for connection in slow:
                    with contextlib.suppress(OSError):
                        connection.sendall(POST[i:i + 1])
                time.sleep(max(0.0, begin + (i + 1) * HEAD_S / 30 - time.monotonic()))
            for connection in slow:
                with contextlib.suppress(ConnectionResetError):
                    self.assertIn(connection.recv(65536)[:12], (b"HTTP/1.1 408", b""))
                connection.close()

    def test_a_body_of_a_gigabyte(self):
        with self.beside_others():
            self.check_refused(POST + b"Content-Length: 1073741824\r\n\r\n" + b"a" * 200000, (413,))
            # It does not say how long it is.
            with self.connect() as connection:
                connection.sendall(POST + CHUNKED + b"\r\n")
                piece, sent = b"10000\r\n" + b"a" * 65536 + b"\r\n", 0
                with contextlib.suppress(OSError):
                    while sent < 1 << 30:
                        connection.sendall(piece)
                        sent += len(piece)
                self.assertLess(sent, 2 * BODY_BYTES)
                with contextlib.suppress(ConnectionResetError):
                    self.assertIn(connection.recv(65536)[:12], (b"HTTP/1.1 413", b""))

    def test_chunks_that_are_none(self):
        with self.beside_others():
            for body in (b"xyz\r\n", b"-1\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"\r\nhello",
                         b"5\r\nhelloXX0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"ffffffffffffffffff\r\n", b"5\nhello\r\n0\r\n\r\n",
                         b"1;" + b"x" * 40000):
                with self.subTest(body[:40]):
                    self.check_refused(POST + CHUNKED + b"\r\n" + body, (400, 413))

    def test_requests_that_two_readers_end_elsewhere(self):
        length = b"Content-Length: %d\r\n" % len(HIDDEN)
        with self.beside_others():
            for fields in (length + CHUNKED, CHUNKED + length, b"Content-Length: 0\r\n" + length, length + length,
                           b"Content-Length: 0, %d\r\n" % len(HIDDEN), b"Content-Length: +%d\r\n" % len(HIDDEN),
                           b"Content-Length : %d\r\n" % len(HIDDEN), CHUNKED + CHUNKED,
                           b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
                           b"Transfer-Encoding: identity, chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n",
                           b"Transfer-Encoding:\r\n chunked\r\n", b"X: a\r\n Transfer-Encoding: chunked\r\n" + length,
                           b"X: a\nTransfer-Encoding: chunked\r\n" + length, b"X: a\rTransfer-Encoding: chunked\r\n" + length,
                           b"Host: localhost\r\n" + length, b"Content-Length: 1e1\r\n"):
                with self.subTest(fields):
                    self.check_refused(POST + fields + b"\r\n0\r\n\r\n" + HIDDEN, (400, 413, 501, 505))
            old = POST.replace(b"1.1", b"1.0")
            self.check_refused(old + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN)

    def test_floods_of_header_fields(self):
        with self.beside_others():
            for head in (b"A: " + b"b" * 100000, b"\r\n".join(b"F%d: x" % i for i in range(20000)), b"a" * 100000):
                self.check_refused(POST + head + b"\r\n\r\n", (400, 431))
            self.check_refused(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 414, 431))

    def refused_body(self, body):
        answer = self.gateway.request("POST", COMPLETION, body)
        self.assertEqual(answer.status, 400, body[:60])
        self.assertIn("message", answer.json()["error"])

    def test_json_that_is_deep_or_has_many_parts(self):
        prompt = b'{"prompt": "a", "x": '
        with self.beside_others(memory=128 * MIB):
            for body in (b"[" * 1000000, b'{"a":' * 200000, prompt + b"[" * 100 + b"]" * 100 + b"}",
                         prompt + b"[" + b'"",' * 400000 + b'""]}', prompt + b"[" + b"{}," * 400000 + b"{}]}",
                         b'{"prompt": ' + b"9" * 100000 + b"}", b'{"prompt": "a", "temperature": 1e999999}',
                         b'{"prompt": "a", "seed": ' + b"1" * 400 + b"}", b'{"prompt": "a", "max_tokens": 1, "max_tokens": 2}',
                         b'{"prompt": "a"} {"prompt": "b"}', b'{"prompt": "a",}', b"NaN", b"\x00" * 1000):
                with self.subTest(body[:40]):
                    self.refused_body(body)

    def test_texts_that_are_no_utf8(self):
        with self.beside_others():
            for text in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\\ud800", b"\\udc00\\ud800",
                         b"\\x41", b"\n"):
                with self.subTest(text):
                    self.refused_body(b'{"prompt": "' + text + b'", "max_tokens": 1}')
            self.check_refused(b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", (400, 404))
            answer = self.gateway.raw(b"GET /live HTTP/1.1\r\nHost: localhost\r\nx-request-id: \xff\xfe\r\n"
                                      b"Connection: close\r\n\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
            self.assertNotIn(b"\xff", answer)

    def test_hosts_and_pages_of_others(self):
        with self.beside_others():
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "[::1].evil",
                         "localhost@evil.example", "0.0.0.0.evil"):
                with self.subTest(host):
                    answer = self.gateway.request("POST", COMPLETION, json.dumps(STREAM), host=host)
                    self.assertIn(answer.status, (400, 403))
            for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
                with self.subTest(origin):
                    self.assertEqual(self.gateway.post(COMPLETION, STREAM, origin=origin).status, 403)

    def test_thousands_of_idle_connections(self):
        """tests/e2e/crowd.py has 10,000."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        count = min(4000, hard - 256)
        with self.beside_others(memory=80 * MIB):
            idle = [self.connect() for _ in range(count)]
            for connection in idle[::2]:
                connection.sendall(HIDDEN)
            for connection in idle[::2]:
                self.assertEqual(connection.recv(4096)[:12], b"HTTP/1.1 200")
            self.assertEqual(self.gateway.get("/live").status, 200)
            for connection in idle:
                connection.close()

    def test_clients_that_go_at_every_place(self):
        body = json.dumps({**STREAM, "max_tokens": 1500, "stream": True}).encode()
        request = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
        with self.beside_others():
            for cut in range(1, len(request), 5):
                with self.connect() as connection:
                    connection.sendall(request[:cut])
            for _ in range(20):
                with self.connect() as connection:
                    connection.sendall(request)
                    connection.recv(1)
        wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] == 0, "all are cancelled")


if __name__ == "__main__":
    unittest.main(verbosity=2)
