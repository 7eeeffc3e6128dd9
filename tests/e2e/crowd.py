#!/usr/bin/env python3
"""A crowd at the gateway, by hand: 10,000 idle connections and 1,000 readers that read slowly. How long chats take beside
them, and what a connection costs in memory.

    tests/e2e/crowd.py [--idle 10000] [--slow 1000]
"""
import argparse
import json
import resource
import socket
import statistics
import threading
import time

from harness import Cluster, wait_until
from http_client import Gateway
from memory import resident

CHAT = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}
CHATS = 100


def open_connections(address, count, data=b""):
    """From several addresses of loopback: one has too few ports."""
    host, port = address.rsplit(":", 1)
    connections = []
    for i in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((f"127.0.1.{1 + i % 64}", 0))
        connection.connect((host, int(port)))
        if data:
            connection.sendall(data)
        connections.append(connection)
    return connections


def chats(gateway):
    """Milliseconds of each of CHATS chats; none may fail."""
    took = []
    for _ in range(CHATS):
        begin = time.perf_counter()
        answer = gateway.post("/v1/chat/completions", CHAT)
        assert answer.status == 200 and answer.json()["choices"][0]["message"]["content"] == "42", answer.body
        took.append((time.perf_counter() - begin) * 1e3)
    return sorted(took)


def say(what, took, memory, before, connections):
    each = f", {(memory - before) / connections / 1024:.1f} KiB for each" if connections else ""
    print(f"{what}: chat median {statistics.median(took):.1f} ms, 99th percentile {took[-2]:.1f} ms; gateway "
          f"{memory / 2**20:.1f} MiB{each}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=10000)
    parser.add_argument("--slow", type=int, default=1000)
    wanted = parser.parse_args()
    needed = wanted.idle + wanted.slow + 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(needed, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                                                max(needed, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    cluster = Cluster("--http", "127.0.0.1:0", workers=1)
    try:
        gateway = Gateway(cluster.http)
        wait_until(lambda: gateway.get("/health").status == 200, "the gateway is healthy")
        pid = cluster.children()["gateway"]
        chats(gateway)
        alone, before = chats(gateway), resident(pid)
        say("alone", alone, before, before, 0)

        # Each has made a request, as connections of a pool have.
        idle = open_connections(cluster.http, wanted.idle, b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for connection in idle:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        say(f"{wanted.idle} idle connections", chats(gateway), resident(pid), before, wanted.idle)
        for connection in idle:
            connection.close()

        # They read some bytes a second of an answer that is larger than what the system keeps for them.
        body = json.dumps({"prompt": "a word and another " * 4000, "return_token_strs": True})
        request = (f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
        before_slow, slow = resident(pid), []
        while len(slow) < wanted.slow:
            batch = open_connections(cluster.http, min(32, wanted.slow - len(slow)), request)
            for connection in batch:
                assert connection.recv(64).startswith(b"HTTP/1.1 200")
            slow += batch
        ending = threading.Event()

        def read_slowly():
            while not ending.wait(1):
                for connection in slow:
                    try:
                        connection.recv(512, socket.MSG_DONTWAIT)
                    except OSError:
                        pass  # nothing there, or ended for being slow

        reader = threading.Thread(target=read_slowly)
        reader.start()
        try:
            say(f"{wanted.slow} slow readers", chats(gateway), resident(pid), before_slow, wanted.slow)
        finally:
            ending.set()
            reader.join()
    finally:
        cluster.cleanup()


if __name__ == "__main__":
    main()
