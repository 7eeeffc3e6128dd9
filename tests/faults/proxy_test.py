#!/usr/bin/python3
"""The fault proxy does to bytes what it says, and nothing else."""
import socket
import threading
import time
import unittest

from ports import free_port
from proxy import Proxies

PATIENCE_S = 20


class Echo:
    """A server that sends back what comes."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def stop(self):
        self.socket.close()


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.stop)
        self.listen = f"127.0.0.1:{free_port()}"
        self.proxies = self.start(7)

    def start(self, seed):
        proxies = Proxies(seed)
        proxies.add("link", self.listen, self.echo.address)
        self.addCleanup(lambda: proxies.loop.is_closed() or proxies.stop())
        return proxies

    def dial(self):
        host, port = self.listen.split(":")
        connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.addCleanup(connection.close)
        return connection

    def read(self, connection, count):
        taken = b""
        while len(taken) < count:
            data = connection.recv(count - len(taken))
            self.assertTrue(data, f"closed after {len(taken)} of {count} bytes")
            taken += data
        return taken

    def echoed(self, connection, data):
        connection.sendall(data)
        return self.read(connection, len(data))

    def check_silent(self, connection):
        connection.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE_S)

    def test_it_is_a_wire(self):
        data = bytes(range(256)) * 4096
        connection = self.dial()
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        self.assertEqual(self.read(connection, len(data)), data)
        sender.join()

    def test_an_end_is_passed_on(self):
        connection = self.dial()
        self.echoed(connection, b"x")
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(connection.recv(1), b"")

    def test_held_bytes_arrive_after_healing(self):
        for directions in (("there",), ("back",), ("there", "back")):
            with self.subTest(directions):
                connection = self.dial()
                self.echoed(connection, b"before")
                self.proxies.hold(["link"], directions)
                connection.sendall(b"held")
                self.check_silent(connection)
                self.proxies.heal()
                self.assertEqual(self.read(connection, 4), b"held")

    def test_swallowed_bytes_never_arrive(self):
        for direction in ("there", "back"):
            with self.subTest(direction):
                connection = self.dial()
                self.echoed(connection, b"before")
                self.proxies.swallow(["link"], [direction])
                connection.sendall(b"gone")
                self.check_silent(connection)
                self.proxies.heal()
                with self.assertRaises(ConnectionResetError):
                    connection.recv(1)
                self.assertEqual(self.echoed(self.dial(), b"after"), b"after")

    def test_a_flip_changes_one_bit_by_seed(self):
        changed = []
        for _ in range(2):
            connection = self.dial()
            self.proxies.flip("link", "there")
            got = self.echoed(connection, bytes(1000))
            self.assertEqual(sum(bin(byte).count("1") for byte in got), 1)
            self.assertEqual(self.proxies.flipped("link"), 1)
            self.assertEqual(self.echoed(connection, bytes(1000)), bytes(1000))
            changed.append(got)
            self.proxies.stop()
            self.proxies = self.start(7)
        self.assertEqual(changed[0], changed[1])

    def test_a_reset_is_one(self):
        connection = self.dial()
        self.echoed(connection, b"before")
        self.proxies.reset(["link"])
        with self.assertRaises(ConnectionResetError):
            connection.recv(1)
        self.assertEqual(self.echoed(self.dial(), b"after"), b"after")

    def test_delay_and_throttle_take_their_time_and_keep_the_order(self):
        connection = self.dial()
        self.proxies.delay(["link"], 0.01, 0.05)
        began = time.monotonic()
        for number in range(10):
            connection.sendall(bytes([number]))
            time.sleep(0.001)
        self.assertEqual(self.read(connection, 10), bytes(range(10)))
        self.assertGreater(time.monotonic() - began, 0.02)
        self.proxies.heal()
        self.proxies.throttle(["link"], 100_000)
        began = time.monotonic()
        self.echoed(connection, bytes(10_000))
        self.assertGreater(time.monotonic() - began, 0.1)

    def test_nobody_listens(self):
        self.echo.stop()
        self.proxies.add("dead", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
        self.listen = self.proxies.all["dead"].listen
        with self.assertRaises((ConnectionResetError, AssertionError)):
            self.read(self.dial(), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
