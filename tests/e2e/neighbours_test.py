#!/usr/bin/env python3
"""Innocents at the address of a flood, as behind a NAT: several large texts at once on one connection of the coordinator's public
port, beside small requests, while others at the same address flood it with HTTP/2."""
import contextlib
import os
import struct
import subprocess
import sys
import time
import unittest

import harness
import http2
from innocents import GENERATE, Innocent

# Three quarters of what a prompt may have (door/limits.h), and longer than the demo's context: it is refused when it was read.
TEXT = http2.field(3, b"hello world " * (3_900_000 // 12))
REFUSAL = b"has more than 2048 tokens"
TEXTS, PATIENCE_S, FLOOD_S = 6, 60, 40
PRIORITY = 2
# The first is a flood of its own; the second hides behind the headers of a call, the third never ends them.
FLOODS = ("rapid_reset", "hidden_bomb", "header_bomb", "settings")


def upload(connection, messages):
    """Sends the messages side by side, a frame of each in turn; their streams."""
    frames = [b"\0" + struct.pack(">I", len(message)) + message for message in messages]
    left = {connection.open(GENERATE): memoryview(frame) for frame in frames}
    streams = list(left)
    try:
        send_in_turn(connection, left)
    except OSError:
        connection.closed = True
    return streams


def send_in_turn(connection, left):
    deadline = time.monotonic() + PATIENCE_S
    while left and not connection.closed and time.monotonic() < deadline:
        connection.poll(0)
        sent = False
        for stream, rest in list(left.items()):
            room = min(connection.window, connection.windows[stream], connection.frame_max, len(rest))
            if stream in connection.ended:
                del left[stream]
            elif room > 0:
                last = room == len(rest)
                connection.socket.sendall(http2.frame(http2.DATA, http2.END_STREAM if last else 0, stream, bytes(rest[:room])))
                connection.window -= room
                connection.windows[stream] -= room
                left[stream] = rest[room:]
                sent = True
                if last:
                    del left[stream]
        if not sent:
            connection.poll(0.05)


class BesideAFlood(unittest.TestCase):
    def setUp(self):
        self.cluster = harness.Cluster(workers=1)
        self.addCleanup(self.cluster.cleanup)

    def be_cut(self):
        """From then on the address is known for its floods."""
        connection = http2.Connection(self.cluster.address)
        with contextlib.suppress(OSError):
            while not connection.closed:
                connection.socket.sendall(http2.frame(PRIORITY, 0, 1, bytes(5)) * 4000)
                connection.poll(0.02)
        connection.close()

    def test_large_texts_are_heard_to_their_end(self):
        floods = [subprocess.Popen([sys.executable, os.path.join(harness.HERE, "attackers.py"), name, self.cluster.address,
                                    str(FLOOD_S)], stdout=subprocess.PIPE, text=True) for name in FLOODS]
        try:
            kept = Innocent(self.cluster.address)
            self.be_cut()
            ends = []
            for _ in range(2):
                connection = http2.Connection(self.cluster.address)
                streams = upload(connection, [TEXT] * TEXTS)
                ends += [connection.wait_end(stream, PATIENCE_S) for stream in streams]
                connection.close()
            kept.stop()
        finally:
            for flood in floods:
                flood.terminate()
                flood.communicate()
        heard = [end for end in ends if isinstance(end, bytes) and REFUSAL in end]
        print(f"{len(heard)} of {len(ends)} texts of {len(TEXT)} bytes were read; small requests: {len(kept.seconds)} served, "
              f"{len(kept.failures)} failed, the longest took {max(kept.seconds):.2f} s", flush=True)
        self.assertEqual(len(heard), 2 * TEXTS, ends)
        self.assertEqual(kept.failures, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
