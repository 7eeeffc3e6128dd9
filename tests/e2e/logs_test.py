#!/usr/bin/env python3
"""Processes whose log nobody takes: they serve, and end when they are told to.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/logs_test.py
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, SLOWNESS, clean_environment, full_pipe, tutti, wait_until
from http2 import Connection, field

# A process waits for its log at the end, but not longer than this, with room for a busy machine.
END_S = 5 * SLOWNESS


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-logs-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o700)
        self.ready = os.path.join(self.folder, "ready.json")

    def start(self, program, *arguments, stderr):
        process = subprocess.Popen([os.path.join(BINARIES, program), *arguments, "--log-level", "debug"],
                                   stdout=subprocess.DEVNULL, stderr=stderr, env=clean_environment())

        def end():
            process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def serve(self, stderr):
        """A coordinator and a worker, which log to `stderr`, and an answer of theirs."""
        peers = f"unix:{self.folder}/peers"
        processes = [
            self.start("tutti-coordinator", "--model", DEMO, "--listen", "127.0.0.1:0", "--peer-listen", peers,
                       "--admin-listen", f"unix:{self.folder}/admin", "--ready-file", self.ready, stderr=stderr),
            self.start("tutti-worker", "--model", DEMO, "--worker-id", "w0", "--coordinator", peers, "--listen",
                       f"unix:{self.folder}/w0", "--memory", "512MiB", "--threads", "1", stderr=stderr)]
        wait_until(lambda: os.path.exists(self.ready), "the coordinator is ready")
        with open(self.ready, encoding="utf-8") as file:
            self.address = json.load(file)["address"]
        wait_until(self.answers, "an answer")
        for _ in range(20):  # each is a line of the log
            self.assertTrue(self.answers())
        return processes

    def answers(self):
        return tutti("generate", "--address", self.address, "--prompt", "12", "--max-tokens", "3",
                     timeout=PATIENCE_S).returncode == 0

    def check_end(self, processes):
        for process in processes:
            process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        for process in processes:
            self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        self.assertLess(time.monotonic() - began, END_S)

    def test_a_pipe_that_nobody_reads(self):
        reader, writer = full_pipe()
        processes = self.serve(writer)
        os.close(writer)
        self.check_end(processes)
        os.close(reader)

    def test_libraries_write_nothing_past_the_log(self):
        """Protobuf has a line for every text that is not UTF-8, which would stop the thread where nobody reads."""
        reader, writer = full_pipe()
        processes = self.serve(writer)
        os.close(writer)
        connection = Connection(self.address)
        for _ in range(50):
            stream = connection.call("/tutti.v1.Inference/Tokenize", field(2, b"ab\xff"))
            self.assertIsInstance(connection.wait_end(stream, PATIENCE_S), bytes)  # not reset, and not forgotten
        connection.close()
        self.assertTrue(self.answers())
        for process in processes:
            process.send_signal(signal.SIGTERM)
        with open(reader, "rb") as file:
            text = file.read().decode()
        for process in processes:
            self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        self.assertIn("[debug] protobuf, ", text)
        self.assertNotIn("[libprotobuf", text)

    def test_whoever_reads_in_the_end_finds_everything(self):
        reader, writer = full_pipe()
        processes = self.serve(writer)
        os.close(writer)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        with open(reader, "rb") as file:
            text = file.read().lstrip(b"-").decode()
        for process in processes:
            self.assertEqual(process.wait(timeout=PATIENCE_S), 0)
        self.assertGreaterEqual(text.count("request ended"), 20)
        self.assertIn("SIGTERM: draining", text)
        self.assertIn("SIGTERM: leaving", text)

    def test_a_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.check_end(self.serve(full))

    def test_a_reader_that_has_gone(self):
        reader, writer = os.pipe()
        os.close(reader)
        processes = self.serve(writer)
        os.close(writer)
        self.check_end(processes)


if __name__ == "__main__":
    unittest.main()
