#!/usr/bin/env python3
"""Mistakes that people make, each with the text that answers it: what is wrong, where it stands, and what to do.

The *.txt files beside this one hold them, a block each:

    # a remark
    + a shell command that makes the files, in an empty folder
    $ the mistake, in that folder
    2| its exit code, and what it says on stderr
     | further lines

Lines of a log, which begin with the time, and of progress are left out. "…" stands for anything within a line. Variables of the shell:
DEMO, a model; ADDRESS, a service that is there; NOBODY, an address without one; BUSY, a port that is taken.

    TUTTI_BINARY_DIR=build/release python3 tests/e2e/mistakes/mistakes_test.py            compares
    TUTTI_BINARY_DIR=build/release python3 tests/e2e/mistakes/mistakes_test.py --write    writes what is said now, to be read
"""
import concurrent.futures
import dataclasses
import glob
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import harness  # noqa: E402  (beside the folder of this file)

PARALLEL = 3
# A program that took the mistake for none would go on for ever.
PATIENCE_S = 30
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
# Of `tutti up`: whether it is seen is a matter of time.
PROGRESS = {"starting"}
NOBODY = "127.0.0.1:1"


@dataclasses.dataclass
class Mistake:
    file: str
    line: int
    remarks: list
    setup: list
    command: str
    told: list  # "2| text" and " | text"

    @property
    def place(self):
        return f"{os.path.basename(self.file)}:{self.line}"


def read(path):
    found, block = [], Mistake(path, 0, [], [], "", [])
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate([*lines, ""], 1):
        if not line:
            if block.command:
                found.append(block)
                block = Mistake(path, 0, [], [], "", [])
        elif line.startswith("#"):
            block.remarks.append(line)
        elif line.startswith("+ "):
            block.setup.append(line[2:])
        elif line.startswith("$ "):
            assert not block.command, f"{path}:{number}: two commands in a block"
            block.command, block.line = line[2:], number
        else:
            assert block.command and re.match(r"^( |\d+)\| ?", line), f"{path}:{number}: {line}"
            block.told.append(line)
    return found


def write(path, blocks):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join("\n".join([*one.remarks, *("+ " + line for line in one.setup), "$ " + one.command, *one.told])
                             + "\n" for one in blocks))


def run(mistake, variables):
    """What is said, in the form of the files."""
    with tempfile.TemporaryDirectory(prefix="tutti-mistake-") as folder:
        env = harness.clean_environment(
            **variables, HOME=folder, TMPDIR=folder, XDG_RUNTIME_DIR=folder, LC_ALL="C.UTF-8",
            PATH=harness.BINARIES + os.pathsep + os.environ.get("PATH", ""))
        # Under set -e, so that what cannot be prepared is no mistake of the program's.
        script = "\n".join(["set -e", *mistake.setup, "set +e", "exec 3>&-", mistake.command])
        try:
            done = subprocess.run(["/bin/sh", "-c", script], cwd=folder, env=env, text=True, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
            code, text = str(done.returncode), done.stderr
        except subprocess.TimeoutExpired as hung:
            code, text = "?", f"(still running) {(hung.stderr or b'').decode()}"
    for value, name in sorted([(folder, "$PWD"), *((value, "$" + name) for name, value in variables.items())],
                              key=lambda pair: -len(pair[0])):
        text = text.replace(value, name)
    lines = [line for line in text.split("\n") if line and line not in PROGRESS and not LOG_LINE.match(line)] or [""]
    return [f"{code}| {lines[0]}", *(f"{' ' * len(code)}| {line}" for line in lines[1:])]


def fits(told, said):
    pattern = "\n".join(told)
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("…")), "\n".join(said)) is not None


class Mistakes(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster(workers=1)
        cls.taken = socket.create_server(("127.0.0.1", 0))
        cls.variables = {"DEMO": os.path.realpath(harness.DEMO), "ADDRESS": cls.cluster.address, "NOBODY": NOBODY,
                         "BUSY": f"127.0.0.1:{cls.taken.getsockname()[1]}", "ADMIN": admin_of(cls.cluster)}
        cls.files = {path: read(path) for path in sorted(glob.glob(os.path.join(HERE, "*.txt")))}
        every = [one for blocks in cls.files.values() for one in blocks]
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            cls.said = list(zip(every, pool.map(lambda one: run(one, cls.variables), every)))

    @classmethod
    def tearDownClass(cls):
        cls.taken.close()
        cls.cluster.stop()
        cls.cluster.cleanup()

    def test_each_is_answered_by_its_text(self):
        for mistake, said in self.said:
            with self.subTest(mistake.place):
                if not fits(mistake.told, said):
                    self.assertEqual("\n".join(mistake.told), "\n".join(said), mistake.command)

    def test_none_is_taken_for_right_and_none_breaks_the_program(self):
        for mistake, said in self.said:
            with self.subTest(mistake.place):
                text = "\n".join(said)
                self.assertRegex(text, r"^[1-4]\| tutti", mistake.command)
                for sign in ("CHECK failed", "terminate called", "what():", "Traceback", "ssl_transport", ".cc:"):
                    self.assertNotIn(sign, text)

    def test_there_are_as_many_as_were_met(self):
        print(f"{len(self.said)} mistakes")
        self.assertGreaterEqual(len(self.said), 98)
        commands = [(tuple(one.setup), one.command) for one, _ in self.said]
        self.assertEqual(len(commands), len(set(commands)), "a mistake stands there twice")

    def test_the_service_is_still_there(self):
        self.assertTrue(self.cluster.serving())


def admin_of(cluster):
    with open(cluster.ready, encoding="utf-8") as file:
        return re.search(r'"admin": ?"([^"]+)"', file.read())[1]


def rewrite():
    Mistakes.setUpClass()
    try:
        for mistake, said in Mistakes.said:
            if not fits(mistake.told, said):
                mistake.told = said
        for path, blocks in Mistakes.files.items():
            write(path, blocks)
    finally:
        Mistakes.tearDownClass()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        rewrite()
    else:
        unittest.main()
