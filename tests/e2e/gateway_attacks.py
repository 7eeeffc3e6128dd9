#!/usr/bin/env python3
"""The gateway under all attacks at once, and what innocents beside them notice.

    tests/e2e/gateway_attacks.py [--minutes 10] [--ordinary-minutes 2]

A coordinator and a worker of the demo model; one gateway without keys, with a port for gRPC, and one with keys and TLS. Beside
four innocents there are first as many ordinary clients, whose chats have 20 KB, as there are attackers then. Prints what each
innocent saw of both, what the attackers did, and the memory of every process. Exit status 1: an innocent was refused or got another
answer, the 99th percentile of a 20 KB chat was more than 1.5 times that beside ordinary clients, or 100 MB were not given back.
"""
import argparse
import hashlib
import http.client
import json
import multiprocessing
import os
import ssl
import sys
import threading
import time

import http_attackers
from gateway_faults_test import Machines
from harness import PATIENCE_S, running, wait_until
from http_client import Gateway, text_of
from memory import resident
from tls_test import Authority

OPEN_SOURCE, KEYED_SOURCE, GREEDY_SOURCE = "127.0.0.3", "127.0.0.4", "127.0.0.2"
STREAM = {"prompt": "Tell me something: ", "max_tokens": 20, "ignore_eos": True, "seed": 7}
MIB = 1 << 20
RATIO_MAX, LEFT_MAX = 1.5, 100 * MIB


class Service(Machines):
    """The processes, until close()."""

    coordinator_flags = ["--public-role", "gateway"]

    def runTest(self):
        """It is no test of its own."""

    def open(self):
        self.setUp()
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            for tenant in ("acme", "evil"):
                file.write(f"{tenant} {hashlib.sha256(f'key-of-{tenant}'.encode()).hexdigest()}\n")
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("gateway", "gateway/front")
        self.trust = ssl.create_default_context(cafile=authority.certificate)
        process, self.plain = self.start_gateway("--grpc", "127.0.0.1:0")
        with open(self.path("gateway1.log"), encoding="utf-8") as file:
            self.log = file.read()
        self.processes = {"coordinator": self.coordinator, "worker": self.worker, "gateway": process}
        self.processes["gateway with keys"], self.secure = self.start_gateway(
            "--api-keys", self.path("keys"), "--tls-cert", certificate, "--tls-key", key)
        wait_until(lambda: Gateway(self.plain).get("/health").status == 200, "the gateway is healthy")
        wait_until(lambda: self.ask("/health", None, True)[0] == 200, "the gateway with keys is healthy")

    def ready(self, name, process):
        path = self.path(name)
        wait_until(lambda: self.is_written(path) or process.poll() is not None, f"{name} is written")
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        self.grpc = told.get("grpc") or getattr(self, "grpc", None)
        return told["address"].split("//")[-1]

    @staticmethod
    def is_written(path):
        try:
            with open(path, encoding="utf-8") as file:
                return bool(json.load(file))
        except (OSError, ValueError):
            return False

    def close(self):
        self.doCleanups()

    def ask(self, path, body, is_keyed):
        """(status, body) of an answer on a connection of its own."""
        if is_keyed:
            host, port = self.secure.rsplit(":", 1)
            connection = http.client.HTTPSConnection(host, int(port), timeout=PATIENCE_S, context=self.trust,
                                                     source_address=(KEYED_SOURCE, 0))
        else:
            connection = http.client.HTTPConnection(self.plain, timeout=PATIENCE_S, source_address=(OPEN_SOURCE, 0))
        try:
            connection.request("GET" if body is None else "POST", path, body,
                               {"Content-Type": "application/json", **({"Authorization": "Bearer key-of-acme"} if is_keyed else {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def memory(self):
        return {name: resident(process.pid) for name, process in self.processes.items()}


class Innocent(threading.Thread):
    """Asks the same, one after the other, until stop()."""

    def __init__(self, service, is_keyed, streams):
        super().__init__(daemon=True)
        self.service, self.is_keyed, self.streams = service, is_keyed, streams
        self.name = f"{'stream' if streams else '20 KB chat'} {'with' if is_keyed else 'without'} a key"
        self.seconds, self.failures, self.over = [], [], threading.Event()
        self.start()

    def once(self, number):
        if self.streams:
            return self.service.ask(http_attackers.COMPLETION, json.dumps({**STREAM, "stream": True}), self.is_keyed)
        return self.service.ask(http_attackers.CHAT, http_attackers.chat(number), self.is_keyed)

    def run(self):
        texts, number = set(), 0
        while not self.over.is_set():
            begin = time.monotonic()
            try:
                status, body = self.once(number)
                why = body[:200] if status != 200 else None
                if self.streams and status == 200:
                    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
                    texts.add(text_of([json.loads(line) for line in lines] + ["[DONE]"]))
                    why = "another answer" if len(texts) > 1 else None
            except (OSError, http.client.HTTPException) as error:
                why = repr(error)
            self.seconds.append(time.monotonic() - begin)
            if why is not None:
                self.failures.append(f"after {self.seconds[-1]:.2f} s: {why}")
            number += 1
            self.over.wait(0.02)

    def stop(self):
        self.over.set()
        self.join(2 * PATIENCE_S)

    def at(self, share):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def work(function, attack, niceness, results):
    os.nice(niceness)
    http_attackers.raise_descriptor_limit()
    attack.until = time.monotonic() + attack.until
    function(attack)
    results.put((function.__name__, attack.counts))


def attacks_on(service, seconds, event_id):
    """(function, attack) of every attacker; `until` is set when it begins."""
    def attack(target, **more):
        made = http_attackers.Attack(target, GREEDY_SOURCE, 0, **more)
        made.until = seconds
        return made

    return ([(function, attack(service.plain, event_id=event_id)) for function in http_attackers.HTTP] +
            [(function, attack(service.secure, key="key-of-evil", over_tls=True)) for function in http_attackers.HTTPS] +
            [(function, attack(service.grpc)) for function in http_attackers.GRPC])


def ordinary_clients(service, seconds, count):
    made = []
    for number in range(count):
        attack = http_attackers.Attack(service.plain, f"127.0.2.{1 + number}", 0)
        attack.until = seconds
        made.append((http_attackers.chats, attack))
    return made


def phase(service, seconds, clients, niceness):
    """The innocents, and what the others did."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    others = [context.Process(target=work, args=(function, attack, niceness, results), daemon=True)
              for function, attack in clients]
    for other in others:
        other.start()
    innocents = [Innocent(service, is_keyed, streams) for is_keyed in (False, True) for streams in (False, True)]
    time.sleep(seconds)
    for innocent in innocents:
        innocent.stop()
    counts = {}
    for _ in others:
        name, counted = results.get(timeout=2 * PATIENCE_S)
        for what, number in counted.items():
            of_name = counts.setdefault(name, {})
            of_name[str(what)] = of_name.get(str(what), 0) + number
    for other in others:
        other.join()
    return innocents, counts


def given_back(service, before, patience):
    """How much more each process has than before, once that is little or the time is over."""
    until = time.monotonic() + patience
    while True:
        more = {name: memory - before[name] for name, memory in service.memory().items()}
        if max(more.values()) <= LEFT_MAX or time.monotonic() > until:
            return more
        time.sleep(0.5)


def measure(seconds, ordinary_seconds, niceness=10, names="", say=print):
    """{"failures", "ratio", "left"}: of innocents beside attackers, of their 20 KB chats, in bytes."""
    service = Service()
    try:
        service.open()
        event_id = next(iter(Gateway(service.plain).events(
            http_attackers.COMPLETION, {"prompt": "a", "max_tokens": 4, "seed": 1, "n": 2}, accept="text/event-stream")))[0]
        clients = [client for client in attacks_on(service, seconds, http_attackers.forged(event_id, 10**9))
                   if not names or client[0].__name__ in names.split(",")]
        phases = {"ordinary clients": phase(service, ordinary_seconds, ordinary_clients(service, ordinary_seconds, len(clients)), niceness)}
        before = service.memory()
        phases["attackers"] = phase(service, seconds, clients, niceness)
        most = service.memory()
        left = given_back(service, before, PATIENCE_S)
        for name, (innocents, counts) in phases.items():
            say(f"beside {len(clients)} {name}:")
            for innocent in innocents:
                say(f"  {innocent.name}: {len(innocent.seconds)} asked, {len(innocent.failures)} failed; p50 "
                    f"{innocent.at(0.5) * 1e3:.0f} p99 {innocent.at(0.99) * 1e3:.0f} max {innocent.at(1) * 1e3:.0f} ms")
            for other, counted in counts.items():
                say(f"    {other}: {counted}")
        for name in before:
            say(f"{name}: {before[name] // MIB} MiB before, {most[name] // MIB} at the end, {left[name] // MIB} more afterwards")
        chats = [[i for i in innocents if not i.streams] for innocents, _ in phases.values()]
        ratios = [attacked.at(0.99) / calm.at(0.99) for calm, attacked in zip(*chats)]
        failures = [f"{i.name}: {why}" for innocents, _ in phases.values() for i in innocents for why in i.failures]
        ended = [name for name, process in service.processes.items() if not running(process.pid)]
        return {"failures": failures + [f"{name} ended" for name in ended], "ratio": max(ratios), "left": max(left.values())}
    finally:
        service.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--ordinary-minutes", type=float, default=2)
    parser.add_argument("--nice", type=int, default=10,
                        help="the niceness of attackers and ordinary clients, so that they take by asking, and less by running on "
                             "the same machine (default %(default)s)")
    parser.add_argument("--attacks", default="", help="their names, with commas (default: all)")
    flags = parser.parse_args()
    found = measure(60 * flags.minutes, 60 * flags.ordinary_minutes, flags.nice, flags.attacks, lambda line: print(line, flush=True))
    print(f"{len(found['failures'])} innocent requests failed {found['failures'][:5]}; 99th percentile of 20 KB chats "
          f"{found['ratio']:.2f} times that beside ordinary clients; {found['left'] // MIB} MiB not given back", flush=True)
    sys.exit(1 if found["failures"] or found["ratio"] > RATIO_MAX or found["left"] > LEFT_MAX else 0)


if __name__ == "__main__":
    main()
