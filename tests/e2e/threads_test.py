#!/usr/bin/env python3
"""Processes that may have few threads: each serves, or says which thread it lacks and ends with 1, and none aborts.

The limit is a user's and holds for no root, so the programs run as a user without a process of its own. Skipped without root.

By hand, as root:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/threads_test.py
"""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, clean_environment

# What CTest takes for "skipped".
SKIPPED = 77
# Nobody else's: a user may have so many threads in all.
USER = 64_731
# With so many each of them serves.
ENOUGH = 64
# A process that says nothing of a thread for so long after its port is there has all that it needs.
SETTLED_S = 0.5


class Threads(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-threads-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        # Private, as mkdtemp makes it, and the user's.
        os.chown(self.folder, USER, USER)

    def path(self, name):
        return os.path.join(self.folder, name)

    def become_user(self, threads):
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)

    def run_with(self, threads, port, *command):
        """(exit code or None where it serves, what it said)."""
        log = self.path("log")
        with open(log, "wb") as out:
            process = subprocess.Popen([os.path.join(BINARIES, command[0]), *command[1:]], stdout=out, stderr=out, cwd=self.folder,
                                       env=clean_environment(HOME=self.folder, XDG_RUNTIME_DIR=self.folder),
                                       preexec_fn=lambda: self.become_user(threads))
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and not os.path.exists(port) and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            code = process.wait(SETTLED_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
        if os.path.exists(port):
            os.unlink(port)
        with open(log, encoding="utf-8", errors="replace") as file:
            return code, file.read()

    def check(self, port, *command):
        """Of every number of threads up to the one with which the program serves."""
        refused = 0
        for threads in range(1, ENOUGH):
            code, said = self.run_with(threads, port, *command)
            if code is None:
                break
            with self.subTest(program=command[0], threads=threads):
                self.assertEqual(code, 1, said[-2000:])
                self.assertIn("no thread can be started for ", said)
                refused += 1
        else:
            self.fail(f"{command[0]} does not serve with {ENOUGH} threads: {said}")
        self.assertGreater(refused, 1, said)

    def test_a_worker(self):
        self.check(self.path("w0"), "tutti-worker", "--model", DEMO, "--coordinator", f"unix:{self.path('none')}", "--listen",
                   f"unix:{self.path('w0')}", "--worker-id", "w0", "--threads", "2", "--memory", "512MiB", "--speed", "off", "--tune", "off",
                   "--device", "cpu")

    def test_a_coordinator(self):
        self.check(self.path("public"), "tutti-coordinator", "--model", DEMO, "--listen", f"unix:{self.path('public')}",
                   "--peer-listen", f"unix:{self.path('peers')}", "--admin-listen", f"unix:{self.path('admin')}")

    def test_a_gateway(self):
        self.check(self.path("ready"), "tutti-gateway", "--coordinator", f"unix:{self.path('public')}", "--listen", "127.0.0.1:0",
                   "--ready-file", self.path("ready"))


if __name__ == "__main__":
    if os.getuid() != 0:
        print("SKIPPED: only root can be another user", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
