#!/usr/bin/env python3
"""What a service does that is asked for more than it can give (fault matrix F15).

    tests/e2e/overload.py [--seconds 300] [--times 5] [--model DIR] [--workers 2]

Measures the capacity first, with as many clients at once as the service computes rows for; then asks for so many times
as many requests a second, at random moments, and does not wait for answers. Prints requests and good answers a second of
both (first token within 2 s), how soon refusals came, and the memory of every process before, at its most and afterwards.
Exit status 1: a process ended, something failed that was not a refusal, or nothing was answered.
"""
import argparse
import json
import subprocess
import sys
import time

import harness
from soak import Memory, resident_mib

SLO = ["--slo-ttft-ms", "2000"]
# Of every request.
REQUEST = ["--input-tokens", "64", "--max-tokens", "32"]
# With so many at once more clients would not be answered sooner.
AT_ONCE = 64
# What an overloaded service may say, and nothing else.
REFUSALS = {"RESOURCE_EXHAUSTED"}


def bench(address, *flags):
    done = subprocess.run([harness.TUTTI, "bench", "--address", address, "--back-off", "0", *REQUEST, *SLO, "--json", *flags],
                          capture_output=True, text=True, check=False, env=harness.clean_environment())
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"tutti bench ended with status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def show(name, report):
    print(f"{name}: {report['requests_per_second']:.1f} answered/s, {report['goodput_per_second']:.1f} good/s, first token "
          f"p50 {report['first_token_ms']['p50']:.0f} p99 {report['first_token_ms']['p99']:.0f} ms", flush=True)
    for code, failures in report["failures"].items():
        times = failures["ms"]
        print(f"  {failures['count']} ended with {code} after p50 {times['p50']:.1f} p99 {times['p99']:.1f} "
              f"max {times['max']:.1f} ms; the first: {failures['example']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300, help="of overload (default %(default)s)")
    parser.add_argument("--times", type=float, default=5, help="the capacity (default %(default)s)")
    parser.add_argument("--model", default=harness.DEMO)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("rest", nargs="*", help="more flags of tutti up, after --")
    flags = parser.parse_args()
    cluster = harness.Cluster(*flags.rest, model=flags.model, workers=flags.workers)
    try:
        calm = bench(cluster.address, "--concurrency", str(AT_ONCE), "--duration", str(max(5, flags.seconds // 10)))
        show(f"{AT_ONCE} at once", calm)
        pids = cluster.children()
        before = {name: resident_mib(pid) for name, pid in pids.items()}
        memory = Memory(pids)
        memory.start()
        rate = flags.times * calm["requests_per_second"]
        loaded = bench(cluster.address, "--rate", f"{rate:.1f}", "--duration", str(flags.seconds))
        memory.stop()
        time.sleep(5)
        show(f"{rate:.0f} a second for {flags.seconds} s", loaded)
        for name, pid in pids.items():
            print(f"{name}: {before[name]:.0f} MiB before, {memory.most[name]:.0f} at most, {resident_mib(pid):.0f} afterwards")
        lost = [name for name, pid in pids.items() if not harness.running(pid)]
        others = (set(loaded["failures"]) | set(calm["failures"])) - REFUSALS
        print(f"processes that ended: {lost or 'none'}; other failures: {sorted(others) or 'none'}; goodput "
              f"{loaded['goodput_per_second'] / max(1e-9, calm['goodput_per_second']):.2f} of that without overload")
        return 1 if lost or others or not loaded["answered"] else 0
    finally:
        cluster.cleanup()


if __name__ == "__main__":
    sys.exit(main())
