#!/usr/bin/python3
"""Restarts a cluster under `tutti bench`, process by process and as whole pods: no request may fail.

    tests/faults/roll_bench.py [--requests 1000] [--concurrency 16] [--binaries DIR] [--keep-logs DIR]

2 pipelines of 2 stages and a coordinator. Each process in turn gets SIGTERM and is started again when it has ended and
the cluster is whole; after every round all get SIGTERM at once, as in a pod that is deleted, and are started again. The
load is one `tutti bench`, whose client goes on by itself. Ends when the load has ended, with one line:
R restarts, P pods, X requests, F failed, first token after W ms at most, longest gap G ms. Exit status 1: a request
failed, or its answer is not that of an undisturbed run, or no whole pod was restarted meanwhile.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import stubs
from cluster import COORDINATOR, Cluster, Shape, harness

PATIENCE_S = 60
SHAPE = Shape(workers=4, stages=2, pipelines=2)
REQUEST = ["--input-tokens", "64", "--max-tokens", "160", "--temperature", "1", "--seed", "7"]


class Bench:
    """`tutti bench` on its way."""

    def __init__(self, flags, cluster, *more):
        self.process = subprocess.Popen(
            [os.path.join(flags.binaries, "tutti"), "bench", "--address", cluster.address, "--concurrency",
             str(flags.concurrency), "--chats", str(flags.requests), *REQUEST, "--json", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=harness.clean_environment())

    def runs(self):
        return self.process.poll() is None

    def report(self):
        output, errors = self.process.communicate()
        if not output.startswith("{"):
            raise RuntimeError(f"tutti bench ended with status {self.process.returncode}: {errors}")
        return json.loads(output), errors, self.process.returncode


def restart(cluster, names):
    """Ends processes in peace, all at once, and starts them again; returns when the cluster is whole."""
    for name in names:
        cluster.signal(name, signal.SIGTERM)
    for name in names:
        status = cluster.processes[name].wait(timeout=PATIENCE_S)
        if status != 0:
            raise RuntimeError(f"{name} was asked to end and ended with status {status}")
        cluster.start(name)
    missing = cluster.wait_whole(PATIENCE_S)
    if missing:
        raise RuntimeError(f"{PATIENCE_S} s after {', '.join(names)} had ended: {missing}")


def roll(cluster, bench):
    """(restarts, pods) that were over before the load was."""
    every = [*cluster.names, COORDINATOR]
    restarts = pods = 0
    while True:
        for name in every:
            if not bench.runs():
                return restarts, pods
            restart(cluster, [name])
            restarts += bench.runs()
        if not bench.runs():
            return restarts, pods
        restart(cluster, every)
        pods += bench.runs()


def parse():
    parser = argparse.ArgumentParser(prog="tests/faults/roll_bench.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000, metavar="N")
    parser.add_argument("--concurrency", type=int, default=16, metavar="N")
    parser.add_argument("--binaries", default=harness.BINARIES, metavar="DIR", help="folder of the built programs")
    parser.add_argument("--keep-logs", metavar="DIR")
    return parser.parse_args()


def main():
    flags = parse()
    messages = stubs.load(stubs.proto_folder(flags.binaries))
    logs = flags.keep_logs or tempfile.mkdtemp(prefix="tutti-roll-logs-")
    os.makedirs(logs, exist_ok=True)
    recorded = os.path.join(logs, "undisturbed.jsonl")
    cluster = Cluster(SHAPE, messages, flags.binaries, logs)
    good = False
    try:
        missing = cluster.wait_whole(PATIENCE_S)
        if missing:
            raise RuntimeError(f"the cluster did not come up: {missing}")
        calm, _, _ = Bench(flags, cluster, "--record", recorded).report()
        print(f"undisturbed: {calm['answered']} answered in {calm['seconds']:.0f} s, first token after "
              f"{calm['first_token_ms']['max']:.0f} ms at most, longest gap {calm['token_gap_ms']['max']:.0f} ms", flush=True)
        bench = Bench(flags, cluster, "--compare", recorded)
        restarts, pods = roll(cluster, bench)
        report, errors, code = bench.report()
        failed = {name: one["count"] for name, one in report["failures"].items()}
        for name, one in report["failures"].items():
            print(f"{one['count']} ended with {name}, the first: {one['example']}")
        if not pods:
            print("FAILED: the load had ended before a whole pod was restarted: ask for more --requests")
        good = pods > 0 and code == 0 and not failed and report["answered"] == flags.requests and report["compared"]["equal"] == flags.requests
        print(errors if not good else "", end="")
        print(f"compared with the undisturbed run: {report['compared']}")
        print(f"{restarts} restarts, {pods} pods, {report['answered']} requests, {sum(failed.values())} failed, first token after "
              f"{report['first_token_ms']['max']:.0f} ms at most, longest gap {report['token_gap_ms']['max']:.0f} ms")
    finally:
        cluster.stop()
        if good and not flags.keep_logs:
            shutil.rmtree(logs)
        elif not good:
            print(f"logs are in {logs}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
