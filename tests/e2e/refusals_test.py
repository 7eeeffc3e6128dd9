#!/usr/bin/env python3
"""A worker that is turned away is seen, with the reason, by whoever looks: in `tutti status`, its --json, the
coordinator's log and what `tutti up` prints, within 2 s.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/refusals_test.py
"""
import contextlib
import datetime
import glob
import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, SLOWNESS, TUTTI, clean_environment, tutti, wait_until
from tls_test import Authority

SEEN_WITHIN_S = 2.0 * SLOWNESS
STAMP = re.compile(r"^(\S+[+-]\d\d:\d\d) ")


class LostTime:
    """Seconds in which this machine let nobody run: a thread that sleeps is woken too late by them."""

    TICK_S = 0.02

    def __enter__(self):
        self.seconds, self.ends = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        at = time.monotonic()
        while not self.ends.wait(self.TICK_S):
            now = time.monotonic()
            self.seconds += max(0.0, now - at - 2 * self.TICK_S)
            at = now

    def __exit__(self, *error):
        self.ends.set()
        self.thread.join()


def stamps(path, text):
    """When the lines with this text were written."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        return [datetime.datetime.fromisoformat(STAMP.match(line)[1]) for line in file
                if text in line and STAMP.match(line)]
    return []


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-refused-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, name, *command):
        log = open(self.path(name + ".out"), "w", encoding="utf-8")
        process = subprocess.Popen(command, stdout=log, stderr=log,
                                   env=clean_environment(TMPDIR=self.folder, XDG_RUNTIME_DIR=""))
        log.close()

        def end():
            process.terminate()
            process.wait(timeout=PATIENCE_S)

        self.addCleanup(end)

    def wait_for(self, condition, what):
        """As wait_until, with all that was said when it fails."""
        try:
            return wait_until(condition, what)
        except AssertionError as failed:
            said = "\n".join(f"--- {path}\n{text_of(path)[-2000:]}" for path in
                             glob.glob(self.path("*.out")) + glob.glob(self.path("logs", "*.log")))
            raise AssertionError(f"{failed}\n{said}") from None

    def status(self, *flags):
        return tutti("status", *self.service, *flags).stdout

    def check_seen(self, begin, reason, seen_in_status, log, up=None):
        """`begin`: () -> the log and the text of the moment from which the time counts."""
        with LostTime() as lost:
            own_log, first = begin()
            self.wait_for(lambda: stamps(log, reason), f"{reason!r} is in the coordinator's log")
            at = stamps(log, reason)[0]
            self.wait_for(lambda: stamps(own_log, first), f"{first!r} was said")
            took = (at - stamps(own_log, first)[0]).total_seconds()
            status = self.wait_for(lambda: [s for s in [self.status()] if reason in " ".join(s.split())],
                                   f"{reason!r} is in tutti status")[0]
            self.assertTrue(all(len(line) <= 80 for line in status.split("\n")), status)
            told = json.loads(self.status("--json"))
            self.assertTrue([one for one in seen_in_status(told) if reason in one], told)
            if up is not None:
                self.wait_for(lambda: reason in text_of(up), f"{reason!r} is in what tutti up prints")
        self.assertLess(took - lost.seconds, SEEN_WITHIN_S, "in the coordinator's log")


def refused(status):
    return [one["reason"] for one in status["refused_peers"]]


class BesideUp(Test):
    """Strangers at the door of what `tutti up` has started."""

    def begin_up(self, *flags, memory="256MiB"):
        os.mkdir(self.path("logs"))
        self.start("up", TUTTI, "up", "--model", DEMO, "--workers", "1", "--listen", "127.0.0.1:0", "--log-dir",
                   self.path("logs"), "--threads-per-worker", "1", "--memory-per-worker", memory, *flags)
        ready = self.wait_for(lambda: glob.glob(self.path("tutti-*", "ready")), "the coordinator listens")[0]
        self.private = os.path.dirname(ready)
        told = json.loads(text_of(ready))
        self.service = ["--address", told["address"], "--admin", told["admin"]]
        self.log = self.path("logs", "coordinator.log")

    def worker(self, name, *flags, model=DEMO):
        """Starts one; see check_seen."""
        given = {"--cluster-id": os.path.basename(self.private), "--cluster-secret-file": f"{self.private}/secret",
                 "--memory": "256MiB"}
        given.update(zip(flags[::2], flags[1::2]))
        self.start(name, os.path.join(BINARIES, "tutti-worker"), "--model", model, "--worker-id", name, "--coordinator",
                   f"unix:{self.private}/coordinator.sock", "--listen", f"unix:{self.path(name)}.sock", "--threads", "1",
                   "--speed", "off", *[part for pair in given.items() for part in pair])
        return self.path(name + ".out"), "listens on"

    def another_class(self):
        """A numerics class that is not the pipeline's, once that is settled."""
        def classes():
            numerics = json.loads(self.status("--json")).get("numerics", {})
            return [numerics["numerics_class"]] if numerics.get("settled") else []
        own = self.wait_for(classes, "the class is settled")[0]
        return "cpu-bf16dot" if own == "cpu-f32" else "cpu-f32"

    def another_model(self):
        folder = self.path("model")
        shutil.copytree(DEMO, folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["rms_norm_eps"] = config["rms_norm_eps"] * 2
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return folder

    def another_secret(self):
        with open(self.path("secret"), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(secrets.token_hex(32))
        return self.path("secret")

    def test_whoever_is_turned_away_is_seen_with_the_reason(self):
        self.begin_up()
        for name, reason, begin in [
                ("w10", "of memory; the smallest stage of this model needs",
                 lambda: self.worker("w10", "--memory", "100KiB")),
                ("w11", "numerics class of the worker is",
                 lambda: self.worker("w11", "--numerics-class", self.another_class())),
                ("w12", "model fingerprint of the worker is", lambda: self.worker("w12", model=self.another_model())),
                ("", "no proof of the cluster's secret",
                 lambda: self.worker("w13", "--cluster-secret-file", self.another_secret())),
                ("w14", "cluster id of the worker is", lambda: self.worker("w14", "--cluster-id", "another")),
                ("w0", "is connected and alive; worker ids must be unique", lambda: self.worker("w0"))]:
            with self.subTest(reason):
                self.check_seen(begin, reason, refused, self.log, self.path("up.out"))
                self.assertTrue([one for one in json.loads(self.status("--json"))["refused_peers"]
                                 if one["worker_id"] == name and reason in one["reason"]])

    def test_a_peer_that_a_table_lacks_is_seen(self):
        self.begin_up("--pipeline-parallel-size", "2", "--min-workers", "2")
        self.check_seen(lambda: self.worker("w9"), "not in this worker's peer table", lambda told: [told["why_not_serving"]],
                        self.log, self.path("up.out"))


class TooLittleMemory(BesideUp):
    """What `tutti up` was given does not hold the model."""

    test_whoever_is_turned_away_is_seen_with_the_reason = test_a_peer_that_a_table_lacks_is_seen = None

    def own_worker(self):
        return self.path("logs", "w0.log"), "listens on"

    def test_a_worker_that_holds_nothing_is_refused(self):
        self.begin_up(memory="100KiB")
        self.check_seen(self.own_worker, "offers 100.0 KiB of memory; the smallest stage of this model needs", refused,
                        self.log, self.path("up.out"))

    def test_workers_that_hold_a_part_are_told_how_much_is_missing(self):
        self.begin_up("--pipeline-parallel-size", "2", "--min-workers", "2", memory="3800KiB")
        self.check_seen(lambda: self.worker("w1", "--memory", "3800KiB"), "the model does not fit",
                        lambda told: [told["why_not_serving"]], self.log, self.path("up.out"))
        why = json.loads(self.status("--json"))["why_not_serving"]
        self.assertRegex(why, r"\(w\d, [\d.]+ MiB\) lacks \d+ bytes .* What would fit: 2 devices of [\d.]+ MiB")


class Certificates(Test):
    def test_a_certificate_of_another_authority_is_seen(self):
        ours, theirs = Authority(self.folder, "ours"), Authority(self.folder, "theirs")
        port = 30000 + os.getpid() % 10000
        certificate, key = ours.sign("coordinator", "coordinator")
        self.log = self.path("coordinator.out")
        self.start("coordinator", os.path.join(BINARIES, "tutti-coordinator"), "--model", DEMO, "--listen",
                   f"unix:{self.path('public.sock')}", "--peer-listen", f"127.0.0.1:{port}", "--admin-listen",
                   f"unix:{self.path('admin.sock')}", "--peer-tls-cert", certificate, "--peer-tls-key", key,
                   "--peer-tls-ca", ours.certificate, "--drain-timeout", "0")
        self.service = ["--address", f"unix:{self.path('public.sock')}", "--admin", f"unix:{self.path('admin.sock')}"]

        def worker(name, authority, identity):
            signed = authority.sign(name, identity)
            self.start(name, os.path.join(BINARIES, "tutti-worker"), "--model", DEMO, "--worker-id", name, "--coordinator",
                       f"127.0.0.1:{port}", "--listen", f"unix:{self.path(name)}.sock", "--tls-cert", signed[0],
                       "--tls-key", signed[1], "--tls-ca", ours.certificate, "--memory", "256MiB", "--threads", "1",
                       "--speed", "off")
            return self.path(name + ".out"), "listens on"

        self.wait_for(lambda: "waiting for workers" in text_of(self.log), "the coordinator listens")
        self.check_seen(lambda: worker("w1", theirs, "worker/w1"), "its certificate was not signed by our authority",
                        refused, self.log)


if __name__ == "__main__":
    unittest.main()
