#!/usr/bin/env python3
"""A cluster whose every connection is encrypted and authenticated; strangers are refused.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/tls_test.py
"""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, clean_environment, tutti, wait_until

QUESTION = ["chat", "--message", "What is 12 + 30?", "--temperature", "0"]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """Signs certificates for 127.0.0.1 in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        self.certificate, self.key = self.path("ca.pem"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", self.key, "-out", self.certificate, "-subj", f"/CN={name}", "-days", "2")

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name):
        """(certificate, key)"""
        certificate, key = self.path(name + ".pem"), self.path(name + ".key")
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write("subjectAltName=IP:127.0.0.1,DNS:localhost")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", key, "-out", self.path("request"), "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", self.path("request"), "-CA", self.certificate, "-CAkey",
                self.key, "-CAcreateserial", "-out", certificate, "-days", "2", "-extfile",
                self.path("extensions"))
        return certificate, key


class Process:
    """A coordinator or worker with its log in a file."""

    def __init__(self, folder, name, program, *arguments):
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                [os.path.join(BINARIES, program), "--model", DEMO, *arguments], stdout=file,
                stderr=file, env=clean_environment())

    def said(self, text):
        with open(self.log, encoding="utf-8") as file:
            return text in file.read()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)


class MutualTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.ours = Authority(cls.folder, "ours")
        cls.theirs = Authority(cls.folder, "theirs")
        certificate, key = cls.ours.sign("coordinator")
        ready = os.path.join(cls.folder, "ready.json")
        # The public port of the system's choice; workers need one known before.
        cls.peer_port = 20000 + os.getpid() % 10000
        cls.start("coordinator", "tutti-coordinator", "--listen", "127.0.0.1:0", "--peer-listen",
                  f"127.0.0.1:{cls.peer_port}", "--ready-file", ready,
                  "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", cls.ours.certificate,
                  "--peer-tls-cert", certificate, "--peer-tls-key", key,
                  "--peer-tls-ca", cls.ours.certificate, "--kv-tokens", "2048",
                  "--pipeline-parallel-size", "2")
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            cls.address = json.load(file)["address"]
        for number in range(2):
            cls.worker(number, cls.ours)
        cls.client = ["--tls-ca", cls.ours.certificate, *cls.client_flags(cls.ours)]
        wait_until(lambda: cls.ask("status").returncode == 0, "the cluster serves")

    @classmethod
    def start(cls, name, *command):
        process = Process(cls.folder, name, *command)
        cls.addClassCleanup(process.end)
        return process

    @classmethod
    def worker(cls, number, authority):
        certificate, key = authority.sign(f"w{number}")
        ports = [cls.peer_port + 1 + i for i in range(3)]
        others = [flag for i, port in enumerate(ports) if i != number
                  for flag in ("--peer", f"w{i}=127.0.0.1:{port}")]
        return cls.start(f"w{number}", "tutti-worker", "--worker-id", f"w{number}", "--coordinator",
                         f"127.0.0.1:{cls.peer_port}", "--listen", f"127.0.0.1:{ports[number]}",
                         "--tls-cert", certificate, "--tls-key", key, "--tls-ca",
                         cls.ours.certificate, "--threads", "1", "--memory", "512MiB", *others)

    @classmethod
    def client_flags(cls, authority):
        certificate, key = authority.sign("client")
        return ["--tls-cert", certificate, "--tls-key", key]

    @classmethod
    def ask(cls, *arguments, flags=None):
        return tutti(*arguments, "--address", cls.address, *(cls.client if flags is None else flags))

    def test_answers_over_encrypted_links(self):
        done = self.ask(*QUESTION)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), "42")

    def test_clients_without_our_certificate_stay_outside(self):
        for flags in ([], ["--tls-ca", self.ours.certificate],
                      ["--tls-ca", self.ours.certificate, *self.client_flags(self.theirs)]):
            done = self.ask(*QUESTION, "--timeout", "5", flags=flags)
            self.assertNotEqual(done.returncode, 0, flags)
            self.assertNotIn("42", done.stdout)

    def test_a_client_does_not_talk_to_a_service_it_cannot_check(self):
        done = self.ask(*QUESTION, "--timeout", "5",
                        flags=["--tls-ca", self.theirs.certificate, *self.client_flags(self.ours)])
        self.assertNotEqual(done.returncode, 0)

    def test_a_stranger_among_the_workers_disturbs_nobody(self):
        stranger = self.worker(2, self.theirs)
        wait_until(lambda: stranger.said(f"127.0.0.1:{self.peer_port}"), "the stranger tries to join")
        self.assertEqual(self.ask(*QUESTION).stdout.strip(), "42")
        self.assertFalse(stranger.said("joined the coordinator"))
        stranger.end()


if __name__ == "__main__":
    unittest.main()
