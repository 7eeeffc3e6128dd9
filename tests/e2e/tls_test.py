#!/usr/bin/env python3
"""A cluster whose every connection is encrypted and authenticated: who may do what by its certificate, strangers
that are refused, and the same proved by a secret where there are no certificates.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/tls_test.py
"""
import json
import os
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, clean_environment, tutti, wait_until

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

    def sign(self, name, identity):
        """(certificate, key) with the URI of an identity: its role and, after a slash, its name."""
        certificate, key = self.path(name + ".pem"), self.path(name + ".key")
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write(f"subjectAltName=IP:127.0.0.1,DNS:localhost,URI:tutti://{identity}")
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
            self.process.wait(timeout=PATIENCE_S)


class MutualTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.ours = Authority(cls.folder, "ours")
        cls.theirs = Authority(cls.folder, "theirs")
        certificate, key = cls.ours.sign("coordinator", "coordinator")
        ready = os.path.join(cls.folder, "ready.json")
        # The public port of the system's choice; workers need one known before.
        cls.peer_port = 20000 + os.getpid() % 10000
        cls.start("coordinator", "tutti-coordinator", "--listen", "127.0.0.1:0", "--peer-listen",
                  f"127.0.0.1:{cls.peer_port}", "--admin-listen", "127.0.0.1:0", "--ready-file", ready,
                  "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", cls.ours.certificate,
                  "--peer-tls-cert", certificate, "--peer-tls-key", key,
                  "--peer-tls-ca", cls.ours.certificate, "--kv-tokens", "2048",
                  "--pipeline-parallel-size", "2")
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            ready = json.load(file)
            cls.address, cls.admin = ready["address"], ready["admin"]
        for number in range(2):
            cls.worker(number, cls.ours)
        cls.client = ["--tls-ca", cls.ours.certificate, *cls.caller(cls.ours, "client/acme")]
        cls.operator = ["--tls-ca", cls.ours.certificate, *cls.caller(cls.ours, "operator/op")]
        wait_until(lambda: cls.look("status").returncode == 0, "the cluster serves")

    @classmethod
    def start(cls, name, *command):
        process = Process(cls.folder, name, *command)
        cls.addClassCleanup(process.end)
        return process

    @classmethod
    def worker(cls, number, authority, identity=None):
        certificate, key = authority.sign(f"w{number}", identity or f"worker/w{number}")
        ports = [cls.peer_port + 1 + i for i in range(3)]
        others = [flag for i, port in enumerate(ports) if i != number
                  for flag in ("--peer", f"w{i}=127.0.0.1:{port}")]
        return cls.start(f"w{number}", "tutti-worker", "--worker-id", f"w{number}", "--coordinator",
                         f"127.0.0.1:{cls.peer_port}", "--listen", f"127.0.0.1:{ports[number]}",
                         "--tls-cert", certificate, "--tls-key", key, "--tls-ca",
                         cls.ours.certificate, "--threads", "1", "--memory", "512MiB", *others)

    @classmethod
    def caller(cls, authority, identity):
        certificate, key = authority.sign(identity.replace("/", "-"), identity)
        return ["--tls-cert", certificate, "--tls-key", key]

    @classmethod
    def look(cls, *arguments, flags=None):
        return tutti(*arguments, "--address", cls.address, "--admin", cls.admin,
                     *(cls.operator if flags is None else flags))

    @classmethod
    def ask(cls, *arguments, flags=None):
        return tutti(*arguments, "--address", cls.address, *(cls.client if flags is None else flags))

    def test_answers_over_encrypted_links(self):
        done = self.ask(*QUESTION)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), "42")

    def test_clients_without_our_certificate_stay_outside(self):
        for flags in ([], ["--tls-ca", self.ours.certificate],
                      ["--tls-ca", self.ours.certificate, *self.caller(self.theirs, "client/acme")]):
            done = self.ask(*QUESTION, "--timeout", "5", flags=flags)
            self.assertNotEqual(done.returncode, 0, flags)
            self.assertNotIn("42", done.stdout)

    def test_a_client_does_not_talk_to_a_service_it_cannot_check(self):
        done = self.ask(*QUESTION, "--timeout", "5",
                        flags=["--tls-ca", self.theirs.certificate, *self.caller(self.ours, "client/x")])
        self.assertNotEqual(done.returncode, 0)

    def test_a_stranger_among_the_workers_disturbs_nobody(self):
        stranger = self.worker(2, self.theirs)
        wait_until(lambda: stranger.said(f"127.0.0.1:{self.peer_port}"), "the stranger tries to join")
        self.assertEqual(self.ask(*QUESTION).stdout.strip(), "42")
        self.assertFalse(stranger.said("joined the coordinator"))
        stranger.end()

    def test_a_clients_certificate_joins_nothing(self):
        stranger = self.worker(2, self.ours, "client/w2")
        wait_until(lambda: stranger.process.poll() is not None, "it does not start")
        self.assertTrue(stranger.said("does not have the URI tutti://worker/w2"))

    def test_the_operators_port_is_the_operators(self):
        for identity in ("client/acme", "gateway/front", "worker/w0"):
            done = self.look("status", flags=["--tls-ca", self.ours.certificate, *self.caller(self.ours, identity)])
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertNotIn("w0", done.stdout + done.stderr)
        done = self.ask(*QUESTION, flags=["--tls-ca", self.ours.certificate, *self.caller(self.ours, "worker/w0")])
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_client_asks_for_itself_and_a_gateway_for_others(self):
        gateway = ["--tls-ca", self.ours.certificate, *self.caller(self.ours, "gateway/front")]
        for flags in (["--tenant", "other"], ["--priority", "-1"]):
            done = self.ask(*QUESTION, *flags)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("gateway", done.stderr)
            self.assertEqual(self.ask(*QUESTION, *flags, flags=gateway).stdout.strip(), "42")
        # The name of its certificate is its tenant: another client does not find what it has left.
        prompt = ["--text", "12+30=" * 40]
        ask = ["generate", "--prompt", prompt[1], "--max-tokens", "1", "--temperature", "0"]
        self.assertEqual(self.ask(*ask).returncode, 0)
        found = json.loads(self.look("lookup", *prompt, "--tenant", "acme", "--json").stdout)
        self.assertTrue(found["holdings"])
        found = json.loads(self.look("lookup", *prompt, "--json").stdout)
        self.assertFalse(found["holdings"])


class Secret(unittest.TestCase):
    """Workers over TCP without certificates."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-secret-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = 30000 + os.getpid() % 10000
        self.ready = os.path.join(self.folder, "ready.json")

    def secret(self, name):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(32))
        return path

    def start(self, name, *command):
        process = Process(self.folder, name, *command)
        self.addCleanup(process.end)
        return process

    def coordinator(self, *flags):
        return self.start("coordinator", "tutti-coordinator", "--listen", "127.0.0.1:0", "--peer-listen",
                          f"127.0.0.1:{self.port}", "--ready-file", self.ready, "--kv-tokens", "2048", *flags)

    def worker(self, name, *flags):
        return self.start(name, "tutti-worker", "--worker-id", name, "--coordinator", f"127.0.0.1:{self.port}",
                          "--listen", "127.0.0.1:0", "--threads", "1", "--memory", "512MiB", *flags)

    def test_tcp_without_a_secret_is_refused_with_a_remedy(self):
        for process in (self.coordinator(), self.worker("w0")):
            wait_until(lambda: process.process.poll() is not None, "it ends")
            self.assertTrue(process.said("--cluster-secret-file"))
            self.assertTrue(process.said("head -c 32 /dev/urandom"))

    def test_only_who_knows_it_joins(self):
        ours = self.secret("ours")
        self.coordinator("--cluster-secret-file", ours)
        wait_until(lambda: os.path.exists(self.ready), "the coordinator listens")
        with open(self.ready, encoding="utf-8") as file:
            address = json.load(file)["address"]
        stranger = self.worker("stranger", "--cluster-secret-file", self.secret("theirs"))
        wait_until(lambda: stranger.said("has not proved"), "the stranger's log says why")
        self.assertFalse(stranger.said("joined the coordinator"))
        status = tutti("status", "--address", address, "--json")
        self.assertEqual(json.loads(status.stdout)["idle_workers"], [])
        self.worker("w0", "--cluster-secret-file", ours)
        wait_until(lambda: tutti("status", "--address", address).returncode == 0, "the worker serves")
        self.assertEqual(tutti(*QUESTION, "--address", address).stdout.strip(), "42")


if __name__ == "__main__":
    unittest.main()
