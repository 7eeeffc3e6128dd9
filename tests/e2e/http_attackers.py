"""Clients of the gateway that do not keep to the rules, each a function of an Attack that works until its time is over.

An attack ends early only by its time: what is refused or closed is counted, and comes again.
"""
import base64
import contextlib
import json
import os
import resource
import socket
import ssl
import time

import attackers

COMPLETION, CHAT = "/v1/completions", "/v1/chat/completions"
MIB = 1 << 20
LARGE = 15 * MIB


class Attack:
    """Where to, from where, with which key, until when, and what came of it."""

    def __init__(self, target, source, seconds, key="", event_id="", over_tls=False):
        self.host, port = target.rsplit(":", 1)
        self.port, self.source, self.key, self.event_id = int(port), source, key, event_id
        self.over_tls = over_tls
        self.until = time.monotonic() + seconds
        self.counts = {}

    def over(self):
        return time.monotonic() >= self.until

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def connect(self, secure=True, receive_buffer=0):
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(10)
        sock.bind((self.source, 0))
        sock.connect((self.host, self.port))
        if secure and self.over_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context.wrap_socket(sock)
        return sock

    def head(self, path, length, *fields):
        key = [f"Authorization: Bearer {self.key}"] if self.key else []
        return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
                            f"Content-Length: {length}", *key, *fields, "", ""]).encode()

    def ask(self, path, body, *fields):
        """The status of an answer that is read to its end; 0: there was none."""
        status = 0
        try:
            with self.connect() as sock:
                sock.sendall(self.head(path, len(body), "Connection: close", *fields) + body)
                received = sock.recv(65536)
                status = int(received[9:12] or 0)
                while sock.recv(65536):
                    pass
        except (OSError, ValueError):
            pass
        self.count(status)

    def hold(self, count, seconds, first, receive_buffer=0, secure=True):
        """Opens so many connections, sends each what it takes of `first`, and keeps them."""
        until = min(self.until, time.monotonic() + seconds)
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                with contextlib.suppress(OSError):
                    sock = stack.enter_context(self.connect(secure, receive_buffer))
                    self.count("opened")
                    sock.settimeout(0.2)
                    sock.sendall(first)
                if self.over():
                    break
            time.sleep(max(0.0, until - time.monotonic()))


def prompt(size):
    return json.dumps({"prompt": ("hello world " * (size // 12 + 1))[:size], "max_tokens": 1}).encode()


def large_prompts(attack):
    body = prompt(LARGE)
    while not attack.over():
        attack.ask(COMPLETION, body)


def senders_that_leave(attack):
    body = prompt(LARGE)
    while not attack.over():
        with contextlib.suppress(OSError), attack.connect() as sock:
            sock.sendall(attack.head(COMPLETION, len(body)) + body)
            attack.count("left")


def readers_that_do_not(attack):
    while not attack.over():
        attack.hold(100, 5, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300, receive_buffer=4096)


def half_bodies(attack):
    while not attack.over():
        attack.hold(18, 10, attack.head(COMPLETION, LARGE) + bytes(LARGE // 2))


def many_half_bodies(attack):
    while not attack.over():
        attack.hold(1500, 10, attack.head(COMPLETION, 8000) + bytes(4000))


def long_texts(attack):
    body = json.dumps({"prompt": "the quick brown fox " * (4 * MIB // 20)}).encode()
    while not attack.over():
        attack.ask("/tokenize", body)


def keys_of_requests(attack):
    while not attack.over():
        attack.ask(COMPLETION, prompt(20), f"Idempotency-Key: {os.urandom(12).hex()}")


def claims(attack):
    body = json.dumps({"prompt": "a", "max_tokens": 4, "seed": 1, "n": 2, "stream": True}).encode()
    while not attack.over():
        attack.ask(COMPLETION, body, f"Last-Event-ID: {attack.event_id}")


def bombs(attack):
    bodies = [b'{"prompt": "a", "x": [' + b"1," * 5_000_000 + b"1]}", b"[" * MIB, b'{"a":' * 200_000,
              b'{"prompt": "a", "x": [' + b'"a",' * 120_000 + b'"a"]}', b'{"prompt": [' + b"123456," * 2_000_000 + b"1]}"]
    while not attack.over():
        for body in bodies:
            attack.ask(COMPLETION, body)


def bursts(attack):
    body = json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}).encode()
    while not attack.over():
        with contextlib.ExitStack() as stack:
            socks = []
            for _ in range(50):
                with contextlib.suppress(OSError):
                    socks.append(stack.enter_context(attack.connect()))
                    socks[-1].sendall(attack.head(COMPLETION, len(body), "Connection: close") + body)
            for sock in socks:
                with contextlib.suppress(OSError):
                    while sock.recv(65536):
                        pass
                    attack.count("read")


def streams_unread(attack):
    body = json.dumps({"prompt": "a", "max_tokens": 1000, "ignore_eos": True, "n": 4, "logprobs": 5, "stream": True}).encode()
    while not attack.over():
        attack.hold(20, 5, attack.head(COMPLETION, len(body)) + body, receive_buffer=4096)


def half_handshakes(attack):
    while not attack.over():
        attack.hold(500, 5, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", secure=False)


def of_http2(name):
    def run(attack):
        attack.counts = attackers.ALL[name](attack.host, attack.port, attack.until - time.monotonic())
    run.__name__ = name
    return run


# By the port that they are for.
HTTP = (large_prompts, senders_that_leave, readers_that_do_not, half_bodies, many_half_bodies, long_texts, keys_of_requests,
        claims, bombs, bursts, streams_unread)
HTTPS = (half_handshakes, half_bodies, long_texts)
GRPC = tuple(of_http2(name) for name in ("rapid_reset", "header_bomb", "settings"))


def chats(attack):
    """No attack: an ordinary client, for comparison."""
    body = chat(0)
    while not attack.over():
        attack.ask(CHAT, body)


def chat(number):
    """A chat of 20 KB, most of which is a variable of the template's that no template knows: any model has room for it."""
    return json.dumps({"messages": [{"role": "user", "content": f"What is {number} + 30?"}], "max_tokens": 4,
                       "chat_template_kwargs": {"noise": "a word and another " * 1050}}).encode()


def forged(event_id, tokens):
    """The id with a claim of so many tokens of its first output, by its own rules (gateway/event_id.h)."""
    first, _ = event_id.split(".")
    decode = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    def varint(number):
        out = b""
        while number >= 0x80:
            out += bytes([number & 0x7f | 0x80])
            number >>= 7
        return out + bytes([number])

    def fnv(data, value=0xcbf29ce484222325):
        for byte in data:
            value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
        return value

    of_one = lambda count: varint(count << 1) + varint(0) + (b"\0" * 8 if count else b"")
    tail = varint(2) + of_one(tokens) + of_one(0) + varint(0) + varint(0)
    check = fnv(decode(first) + tail).to_bytes(8, "little")[:4]
    return first + "." + base64.urlsafe_b64encode(tail + check).decode()


def raise_descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
