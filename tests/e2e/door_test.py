"""What clients that behave badly can take from a real coordinator: time of others, memory, connections."""
import statistics
import struct
import threading
import time
import unittest

from harness import Cluster, running, wait_until
from http2 import Connection, field
from memory import resident

GENERATE = "/tutti.v1.Inference/Generate"
SAMPLING_4_TOKENS = field(6, b"\x08\x04")
# Sampling with 20 log-probabilities, past the end of the text.
SAMPLING_MUCH = field(6, b"\x68\x01\x88\x01\x14")
MIB = 1 << 20


class Door(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(workers=1)
        cls.pid = cls.cluster.children()["coordinator"]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.cleanup()

    def ask(self, connection):
        """Seconds that a small request takes; it must succeed."""
        began = time.monotonic()
        stream = connection.call(GENERATE, field(3, b"What is 12 + 30?") + SAMPLING_4_TOKENS)
        self.assertIsInstance(connection.wait_end(stream), bytes)
        self.assertGreater(connection.data[stream], 0)
        return time.monotonic() - began

    def beside(self, attackers, attack):
        """The median of small requests while so many threads attack, and the peak of the memory. `attack` sends requests, and
        returns their streams."""
        stop = threading.Event()
        begun, connections = [], []

        def run():
            while not stop.is_set():
                connection = Connection(self.cluster.address)
                connections.append(connection)
                streams = attack(connection)
                begun.append(1)
                for stream in streams:
                    connection.wait_end(stream)
                connection.close()

        threads = [threading.Thread(target=run) for _ in range(attackers)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(begun) >= attackers, "the attack")
        peak, times = 0, []
        connection = Connection(self.cluster.address, gives_credit=True)
        until = time.monotonic() + 3
        while len(times) < 15 or time.monotonic() < until:
            times.append(self.ask(connection))
            peak = max(peak, resident(self.pid))
        stop.set()
        # They do not wait for answers to messages that the door has not read: it takes half a minute to lose patience.
        while any(thread.is_alive() for thread in threads):
            for attacker in connections:
                attacker.closed = True
            time.sleep(0.05)
        connection.close()
        return statistics.median(times), peak

    def test_messages_of_many_fields_hold_up_nobody(self):
        empty_messages = field(5, b"\x0a\x00" * (4 * MIB - 16))
        before = resident(self.pid)

        def attack(connection):
            return [connection.call(GENERATE, empty_messages)]

        median, peak = self.beside(4, attack)
        self.assertLess(median, 2)
        self.assertLess(peak - before, 300 * MIB)

    def test_long_prompts_are_held_within_the_budget(self):
        prompt = field(3, b"hello world " * (4 * MIB // 12))
        before = resident(self.pid)

        def attack(connection):
            return [connection.call(GENERATE, prompt) for _ in range(8)]

        median, peak = self.beside(4, attack)
        self.assertLess(median, 2)
        self.assertLess(peak - before, 500 * MIB)
        wait_until(lambda: resident(self.pid) - before < 100 * MIB, "the memory goes back")

    def test_streams_that_are_not_read_cost_little(self):
        before = resident(self.pid)
        connection = Connection(self.cluster.address, window=0)
        streams = [connection.call(GENERATE, field(3, b"What is 12 + 30?") + SAMPLING_MUCH)
                   for _ in range(40)]

        def idle():
            connection.poll(0)
            pipeline = self.cluster.status()["pipelines"][0]
            return pipeline.get("running", 0) + pipeline.get("waiting", 0) == 0

        time.sleep(0.5)
        wait_until(idle, "the engine has nothing to do")
        self.assertLess((resident(self.pid) - before) / len(streams), 400 << 10)
        # They are reset, since nobody reads the reason.
        wait_until(lambda: connection.poll(0.1) or all(s in connection.ended for s in streams),
                   "the streams end")
        connection.close()

    def test_half_a_request_ends_and_a_client_that_has_vanished_is_noticed(self):
        """At the same time: each takes half a minute."""
        vanished, half = Connection(self.cluster.address), Connection(self.cluster.address)
        self.ask(vanished)
        vanished.answers_pings = False
        began = time.monotonic()
        stream = half.open(GENERATE)
        half.send(stream, b"\0" + struct.pack(">I", MIB) + b"abc")

        def noticed():
            half.poll(0)
            return vanished.poll(0.2) or vanished.closed

        wait_until(noticed, "the connection is closed")
        self.assertLess(time.monotonic() - began, 45)
        end = half.wait_end(stream, timeout=50)
        self.assertIsInstance(end, bytes)
        self.assertIn(b"not complete", end)
        self.assertLess(time.monotonic() - began, 50)
        self.ask(half)
        half.close()
        vanished.close()
        self.assertTrue(running(self.pid))


if __name__ == "__main__":
    unittest.main()
