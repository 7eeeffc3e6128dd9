#!/usr/bin/env python3
"""Gateways whose coordinator dies or is full, that are told to end, that want keys and speak TLS. Each process is started
by itself, as on several machines."""
import contextlib
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from harness import BINARIES, DEMO, PATIENCE_S, SLOWNESS, clean_environment, tutti, wait_until
from http_client import Gateway, text_of
from memory import resident
from tls_test import Authority

COMPLETION = "/v1/completions"
# Without guesses: right ones could end it before anything is done to it.
LONG = {"prompt": "Tell me something: ", "ignore_eos": True, "max_tokens": 400, "speculation": {"mode": "off"}}
STREAMS = 32


class Machines(unittest.TestCase):
    """A coordinator and a worker; gateways as tests want them."""

    coordinator_flags = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-gateway-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.secret = os.path.join(self.folder, "secret")
        with open(os.open(self.secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.address, self.gateways = "127.0.0.1:0", 0
        self.start_coordinator()
        self.start_worker()
        wait_until(lambda: self.status().get("serving"), "it serves")

    def path(self, name):
        return os.path.join(self.folder, name)

    def socket(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def start(self, name, program, *arguments):
        log = open(self.path(name + ".log"), "a", encoding="utf-8")
        process = subprocess.Popen([os.path.join(BINARIES, program), *arguments], stdout=log, stderr=log,
                                   env=clean_environment())
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ready(self, name, process):
        path = self.path(name)
        wait_until(lambda: os.path.exists(path) or process.poll() is not None, f"{name} is written")
        with open(path, encoding="utf-8") as file:
            address = json.load(file)["address"]
        os.unlink(path)
        return address

    def start_coordinator(self):
        self.coordinator = self.start(
            "coordinator", "tutti-coordinator", "--model", DEMO, "--cluster-secret-file", self.secret, "--listen",
            self.address, "--peer-listen", self.socket("peers"), "--ready-file", self.path("ready"), "--kv-tokens",
            "16384", "--drain-timeout", "0", *self.coordinator_flags)
        self.address = self.ready("ready", self.coordinator)

    def start_worker(self):
        self.worker = self.start(
            "w0", "tutti-worker", "--model", DEMO, "--cluster-secret-file", self.secret, "--worker-id", "w0",
            "--coordinator", self.socket("peers"), "--listen", self.socket("w0"), "--threads", "1", "--memory", "512MiB",
            "--speed", "off")

    def start_gateway(self, *arguments):
        """(process, host:port) of one that knows its model."""
        self.gateways += 1
        name = f"gateway{self.gateways}"
        process = self.start(name, "tutti-gateway", "--coordinator", self.address, "--listen", "127.0.0.1:0",
                             "--ready-file", self.path(name), *arguments)
        return process, self.ready(name, process)

    def healthy_gateway(self, *arguments):
        process, address = self.start_gateway(*arguments)
        gateway = Gateway(address)
        wait_until(lambda: gateway.get("/health").status == 200, "the gateway is healthy")
        return process, gateway

    def status(self):
        done = tutti("status", "--json", env=clean_environment(TUTTI_ADDRESS=self.address))
        return json.loads(done.stdout) if done.stdout else {}

    def ask_all(self, gateway, between):
        """The text and the chunks' ids of STREAMS streams; between() is called when all have begun."""
        begun, results = threading.Barrier(STREAMS + 1), [None] * STREAMS

        def ask(i):
            stream = gateway.stream(COMPLETION, {**LONG, "seed": i})
            events = [next(stream)]
            begun.wait(PATIENCE_S)
            events += stream
            results[i] = (text_of(events), events[-1], events[-2]["choices"][0]["finish_reason"])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(STREAMS)]
        for thread in threads:
            thread.start()
        begun.wait(PATIENCE_S)
        between()
        for thread in threads:
            thread.join()
        return results


class Killed(Machines):
    """What dies while clients stream is a pause for them, and no other bit."""

    def setUp(self):
        super().setUp()
        _, self.gateway = self.healthy_gateway()
        self.undisturbed = self.ask_all(self.gateway, lambda: None)
        self.assertEqual([end for _, end, _ in self.undisturbed], ["[DONE]"] * STREAMS)

    def kill_coordinator(self):
        self.coordinator.kill()
        self.coordinator.wait()
        self.start_coordinator()

    def kill_worker(self):
        self.worker.kill()
        self.worker.wait()
        self.start_worker()

    def test_coordinator(self):
        self.assertEqual(self.ask_all(self.gateway, self.kill_coordinator), self.undisturbed)
        self.assertGreater(int(self.status()["requests"]["resumed"]), 0)

    def test_worker(self):
        self.assertEqual(self.ask_all(self.gateway, self.kill_worker), self.undisturbed)
        self.assertGreater(len(self.status()["recoveries"]), 0)

    def test_both(self):
        def kill():
            self.worker.kill()
            self.kill_coordinator()
            self.worker.wait()
            self.start_worker()

        self.assertEqual(self.ask_all(self.gateway, kill), self.undisturbed)


class CoordinatorDies(Machines):
    def test_newcomers_wait_for_one_that_served(self):
        _, gateway = self.healthy_gateway()
        short = {**LONG, "max_tokens": 4}
        self.assertEqual(gateway.post(COMPLETION, short).status, 200)
        self.coordinator.kill()
        self.coordinator.wait()
        wait_until(lambda: gateway.get("/health").status == 503, "the gateway is not healthy")
        _, other = self.start_gateway()
        self.assertEqual(Gateway(other).post(COMPLETION, short).status, 503, "it has never been served")
        answers = [None] * 4

        def ask(i):
            answers[i] = gateway.post(COMPLETION, short).status
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        wait_until(lambda: gateway.get("/load").json()["server_load"] == len(answers), "they wait")
        self.start_coordinator()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * len(answers))

    def test_for_good_is_told_in_the_stream(self):
        _, gateway = self.healthy_gateway("--resume-within", "0")
        stream = gateway.stream(COMPLETION, {**LONG, "max_tokens": 1900})
        next(stream)
        self.coordinator.kill()
        events = list(stream)
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["error"]["type"], "server_error")
        wait_until(lambda: gateway.get("/health").status == 503, "the gateway is not healthy")
        refused = gateway.post(COMPLETION, LONG)
        self.assertEqual(refused.status, 503)
        self.assertEqual(gateway.get("/live").status, 200)


class Full(Machines):
    coordinator_flags = ["--max-num-seqs", "1", "--max-waiting", "1"]

    def test_is_429_with_a_time_to_come_back(self):
        _, gateway = self.healthy_gateway()
        streams = [gateway.stream(COMPLETION, {**LONG, "max_tokens": 1900})]
        next(streams[0])
        waiting = threading.Thread(target=lambda: gateway.post(COMPLETION, {"prompt": "a", "max_tokens": 1}))
        waiting.start()
        wait_until(lambda: self.status()["waiting"] == 1, "one waits")
        refused = gateway.post(COMPLETION, {"prompt": "b", "max_tokens": 1})
        streams[0].close()
        waiting.join()
        self.assertEqual(refused.status, 429, refused.body)
        self.assertGreaterEqual(int(refused.headers["retry-after"]), 1)
        self.assertGreaterEqual(int(refused.headers["retry-after-ms"]), 1)
        self.assertEqual(refused.json()["error"]["code"], "rate_limit_exceeded")


class ToldToEnd(Machines):
    def test_finishes_what_runs_and_takes_nothing_new(self):
        process, gateway = self.healthy_gateway()
        stream = gateway.stream(COMPLETION, {**LONG, "max_tokens": 1900})
        first = next(stream)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: gateway.get("/ready").status == 503, "the gateway says that it is about to end")
        self.assertEqual(gateway.get("/live").status, 200)
        refused = gateway.post(COMPLETION, LONG)
        self.assertEqual((refused.status, refused.headers["retry-after"]), (503, "1"))
        self.assertEqual([first, *stream][-1], "[DONE]")
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_at_once_ends_streams_with_a_reason(self):
        process, gateway = self.healthy_gateway("--drain-timeout", "0")
        stream = gateway.stream(COMPLETION, {**LONG, "max_tokens": 1900})
        next(stream)
        process.send_signal(signal.SIGTERM)
        events = list(stream)
        self.assertEqual(events[-1], "[DONE]")
        self.assertIn("ending", events[-2]["error"]["message"])
        self.assertEqual(process.wait(PATIENCE_S), 0)


class KeysAndTls(Machines):
    coordinator_flags = ["--public-role", "gateway"]

    def test_only_holders_of_keys_are_answered_over_tls(self):
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            for tenant in ("acme", "beta"):
                file.write(f"{tenant} {hashlib.sha256(f'key-of-{tenant}'.encode()).hexdigest()}\n")
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("gateway", "gateway/front")
        _, address = self.start_gateway("--api-keys", self.path("keys"), "--tls-cert", certificate, "--tls-key", key)
        trust = ssl.create_default_context(cafile=authority.certificate)

        def ask(path, bearer=None, body=None):
            headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
            request = urllib.request.Request(f"https://{address}{path}", body, headers)
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trust) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        wait_until(lambda: ask("/health")[0] == 200, "the gateway is healthy")
        body = json.dumps({"prompt": "12+30=", "max_tokens": 4, "temperature": 0}).encode()
        self.assertEqual(ask("/v1/models")[0], 401)
        self.assertEqual(ask(COMPLETION, "wrong", body)[1]["error"]["code"], "invalid_api_key")
        for tenant in ("acme", "beta"):
            status, answer = ask(COMPLETION, f"key-of-{tenant}", body)
            self.assertEqual(status, 200, answer)
        self.assertEqual(ask("/version")[0], 200)

    def test_handshakes_that_never_end_keep_nobody_out(self):
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("gateway", "gateway/front")
        process, address = self.start_gateway("--tls-cert", certificate, "--tls-key", key)
        trust = ssl.create_default_context(cafile=authority.certificate)
        host, port = address.rsplit(":", 1)

        def live(source):
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(source, 0)) as plain:
                with trust.wrap_socket(plain, server_hostname=host) as secure:
                    secure.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    return b" 200 " in secure.recv(4096)

        self.assertTrue(live("127.0.0.3"))
        before = resident(process.pid)
        with contextlib.ExitStack() as stack:
            for _ in range(800):
                half = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_S,
                                                                    source_address=("127.0.0.2", 0)))
                half.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            begin = time.monotonic()
            self.assertTrue(live("127.0.0.3"))
            self.assertLess(time.monotonic() - begin, 2 * SLOWNESS)
            self.assertTrue(live("127.0.0.2"))
            self.assertLess(resident(process.pid) - before, 40 << 20)

    def test_a_renewed_certificate_is_shown_without_a_restart(self):
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("gateway", "gateway/front")
        _, address = self.start_gateway("--tls-cert", certificate, "--tls-key", key)
        trust = ssl.create_default_context(cafile=authority.certificate)
        host, port = address.rsplit(":", 1)

        def shown():
            with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain:
                with trust.wrap_socket(plain, server_hostname=host) as secure:
                    return secure.getpeercert()["serialNumber"]

        first = shown()
        kept = trust.wrap_socket(socket.create_connection((host, int(port)), timeout=PATIENCE_S), server_hostname=host)
        self.addCleanup(kept.close)
        newer, newer_key = authority.sign("newer", "gateway/front")
        os.replace(newer_key, key)
        self.assertEqual(shown(), first, "a key without its certificate was taken")
        os.replace(newer, certificate)
        self.assertNotEqual(shown(), first)
        with open(certificate, "w", encoding="utf-8") as file:
            file.write("no certificate")
        self.assertNotEqual(shown(), first)
        # Whoever came before is served by what it was shown.
        kept.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn(b" 200 ", kept.recv(4096))


if __name__ == "__main__":
    unittest.main(verbosity=2)
