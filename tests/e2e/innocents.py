"""A client that keeps to the rules, beside attackers: what it sees of them."""
import threading
import time

import http2

GENERATE = "/tutti.v1.Inference/Generate"
REQUEST = http2.field(3, b"What is 12 + 30?") + http2.field(6, b"\x08\x04")  # 4 tokens
PATIENCE_S = 20


class Innocent(threading.Thread):
    """Small requests, one after the other, until stop(); each on a connection of its own if `anew`."""

    def __init__(self, address, anew=False):
        super().__init__(daemon=True)
        self.address, self.anew = address, anew
        self.seconds, self.failures = [], []
        self.over = threading.Event()
        self.start()

    def run(self):
        connection = None
        while not self.over.is_set():
            began = time.monotonic()
            try:
                if connection is None:
                    connection = http2.Connection(self.address, gives_credit=True)
                stream = connection.call(GENERATE, REQUEST)
                end = connection.wait_end(stream, PATIENCE_S)
            except OSError as error:
                end = str(error)
            took = time.monotonic() - began
            if isinstance(end, bytes) and connection.data[stream] > 0:
                self.seconds.append(took)
            else:
                self.failures.append(f"after {took:.3f} s: {end!r}")
                self.over.wait(0.05)
            if connection is not None and (self.anew or connection.closed or not isinstance(end, bytes)):
                connection.close()
                connection = None
            self.over.wait(0.01)
        if connection is not None:
            connection.close()

    def stop(self):
        self.over.set()
        self.join(2 * PATIENCE_S)

    def at(self, share):
        """The time within which such a share of the requests was served, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")
