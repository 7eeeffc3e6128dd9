#!/usr/bin/env python3
"""What the documents tell people to type, typed as it stands, with a model in the place of DIR.

Machines are network namespaces, where the ports that the documents name are free.
By hand, as root:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/as_written_test.py
"""
import os
import re
import shutil
import sys
import unittest

import machines
from harness import BINARIES, DEMO, SOURCE, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "clients"))
import run as clients  # noqa: E402

# What CTest takes for "skipped".
SKIPPED = 77
QUESTION = "What is 12 + 30?"


def need_curl(test):
    if shutil.which("curl") is None:
        test.skipTest("curl is not installed")


def block_below(document, words, number=0):
    """The lines of a block of code (indented, or between fences) below the line that begins so; number: which of them."""
    with open(os.path.join(SOURCE, document), encoding="utf-8") as file:
        lines = file.read().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(words))
    blocks, fenced, inside = [], False, False
    for line in lines[start + 1:]:
        if line.startswith("#") and not fenced:
            break
        if line.startswith("```"):
            fenced = not fenced
            inside = False
            continue
        if fenced or (line.startswith("    ") and line.strip()):
            if not inside:
                blocks.append([])
            blocks[-1].append(line if fenced else line.strip())
        inside = fenced or (inside and not line.strip()) or line.startswith("    ")
    return blocks[number]


def commands(lines):
    """Without comments, and those that go on over a line as one."""
    text = "\n".join(re.sub(r"(^|\s+)# .*", "", line) for line in lines).replace("\\\n", " ")
    return [line for line in text.split("\n") if line.strip()]


def of_machine(lines, name):
    """The commands below the comment that names a machine, up to the next."""
    found, here = [], False
    for line in lines:
        if line.startswith("# "):
            here = line[2:].startswith(name)
        elif here:
            found.append(line)
    return commands(found)


class AsWritten(unittest.TestCase):
    def setUp(self):
        self.network = machines.Network(2)
        self.addCleanup(self.network.close)

    def replaced(self, command, **words):
        for word, value in {"DIR": DEMO, **words}.items():
            command = re.sub(rf"\b{re.escape(word)}\b", value, command)
        return command

    def shell(self, machine, command, **words):
        return ("bash", "-c", f"cd {machine.folder}; PATH={BINARIES}:$PATH; {self.replaced(command, **words)}")

    def typed(self, machine, command, stdin="", **words):
        done = machine.run(*self.shell(machine, command, **words), stdin=stdin)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def started(self, machine, command, **words):
        """Which goes on."""
        return machine.start(*self.shell(machine, command.rstrip("& "), **words))

    def answers(self, machine, command):
        def asked():
            return machine.run(*self.shell(machine, command), stdin=QUESTION + "\n").stdout.strip() == "42"
        wait_until(asked, f"{command} answers")

    def test_readme(self):
        """The commands of the README, and the clients of the API's document beside them."""
        need_curl(self)
        machine = self.network.machines[0]
        lines = commands(block_below("README.md", "## Five more"))
        plan, up, *others = lines
        self.assertIn("4 stages", self.typed(machine, plan))
        service = self.started(machine, up)
        service.says("API at http://127.0.0.1:8000")
        for command in others:
            said = self.typed(machine, command, stdin=QUESTION + "\n")
            wanted = {"tutti chat": "42", "tutti status": "demo: serving", "tutti bench": "answers right:"}
            self.assertIn(wanted[" ".join(command.split()[:2])], said)
        (curl,) = block_below("README.md", "## Five more", 1)
        self.assertIn('"content":"42"', self.typed(machine, curl))
        for number, packages in enumerate((["openai==3.54.0"], ["anthropic==2.14.0"])):
            with self.subTest(packages=packages):
                python = clients.install(packages[0].partition("=")[0], packages)
                if python is None:
                    return print(f"{packages[0]} cannot be had")  # nor can the others
                with open(os.path.join(machine.folder, "ask.py"), "w", encoding="utf-8") as file:
                    file.write("\n".join(block_below("docs/API.md", "# The API", number)))
                self.assertEqual(self.typed(machine, f"{python} ask.py").strip(), "42")

    def test_for_callers_of_other_machines(self):
        need_curl(self)
        server, other = self.network.machines
        key, up = commands(block_below("docs/OPERATIONS.md", "- For callers of other machines"))
        started = self.started(server, f"{key}; printenv TUTTI_API_KEY >key; exec {up} --ready-file ready")
        ready = os.path.join(server.folder, "ready")
        wait_until(lambda: os.path.exists(ready) or started.process.poll() is not None, "the service serves")
        self.assertIsNone(started.process.poll(), started.text())
        with open(os.path.join(server.folder, "key"), encoding="utf-8") as file:
            secret = file.read().strip()
        asked = ["curl", "--silent", "--fail", "http://node0:8000/metrics"]
        self.assertEqual(other.run(*asked).returncode, 22)
        told = other.run(*asked, "--header", f"Authorization: Bearer {secret}").stdout
        self.assertIn("tutti_gateway_coordinator_metrics 1", told)
        self.assertIn("tutti_serving 1", told)

    def test_several_machines(self):
        lines = block_below("docs/OPERATIONS.md", "### On several machines")
        node0, node1 = self.network.machines
        for command in commands(lines[:lines.index("# node0")]):
            if command.startswith("scp "):
                self.assertEqual(command, "scp -r certs/node1 node1:/etc/tutti/certs")
                command = f"cp -r certs/node1 {node1.folder}/certs"
            self.typed(node0, command)
        for command in of_machine(lines, "node0"):
            self.started(node0, command)
        for command in of_machine(lines, "node1"):
            self.assertIn("/etc/tutti/certs", command)
            self.started(node1, command.replace("/etc/tutti/certs", "certs"))
        (chat,) = of_machine(lines, "anywhere")
        # An operator from elsewhere has a folder of certificates too.
        shutil.copytree(os.path.join(node0.folder, "certs", "alice"), os.path.join(node1.folder, "certs", "certs", "alice"))
        self.answers(node1, f"cd certs; {chat}")

    def test_files_and_tables_by_hand(self):
        node0, node1 = self.network.machines
        for command in commands(block_below("docs/OPERATIONS.md", "### Who may do what")):
            self.typed(node0, command)
        certificate = commands(block_below("docs/OPERATIONS.md", "### Who may do what"))[1:]
        for command in certificate:
            self.typed(node0, command.replace("node0", "node1").replace("URI:tutti://coordinator,", "").replace("worker/w0", "worker/w1"))
        for name in ("ca.pem", "node1.pem", "node1.key"):
            shutil.copy(os.path.join(node0.folder, name), node1.folder)
        lines = block_below("docs/OPERATIONS.md", "### With files and tables by hand")
        for machine in (node0, node1):
            for command in of_machine(lines, machine.name):
                self.started(machine, command)
        self.answers(node0, "tutti chat")

    def test_with_a_secret(self):
        """Of the prose of OPERATIONS: the line that makes a secret, which the programs take."""
        with open(os.path.join(SOURCE, "docs", "OPERATIONS.md"), encoding="utf-8") as file:
            (line,) = re.findall(r"`(\(umask .*?> secret\))`", file.read())
        machine = self.network.machines[0]
        self.typed(machine, line)
        self.started(machine, "exec tutti-coordinator --model DIR --peer-listen 127.0.0.1:50052 --cluster-secret-file secret")
        self.started(machine, "exec tutti-worker --model DIR --coordinator 127.0.0.1:50052 --cluster-secret-file secret")
        self.answers(machine, "tutti chat")


if __name__ == "__main__":
    MISSING = machines.why_not()
    if MISSING:
        print("SKIPPED:", MISSING, file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
