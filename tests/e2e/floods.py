#!/usr/bin/env python3
"""Floods of HTTP/2 against the public port, each for a while, and what they cost others.

    tests/e2e/floods.py [--seconds 60] [--attackers 2] [--attacks rapid_reset,continuation,header_bomb]

Two workers of the demo model and two innocent clients, one of which makes a connection for each request. Prints the
median, the 99th percentile and the longest time of a request, requests that failed, workers that were lost, and the
processor time and memory of the coordinator. Needs the release build.
"""
import argparse
import os
import subprocess
import sys
import time

import attackers
import harness
from innocents import Innocent

ATTACKS = "none,rapid_reset,continuation,header_bomb,hidden_bomb,settings,silent_calls,explained_resets"


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * 4096 / (1 << 20)


def lost(cluster):
    """Lines of the log that tell of workers or pipelines lost, and of the coordinator's own gaps."""
    words = ("lost", "stood still", "stuck", "no sign of life", "not serving")
    return [line for line in cluster.stderr().splitlines() if any(word in line for word in words)]


def measure(cluster, name, seconds, count):
    pid = cluster.children()["coordinator"]
    lines, processor, begun = len(lost(cluster)), processor_seconds(pid), time.monotonic()
    innocents = {"kept": Innocent(cluster.address), "anew": Innocent(cluster.address, anew=True)}
    attack = [sys.executable, os.path.join(harness.HERE, "attackers.py"), name, cluster.address, str(seconds)]
    attacks = [subprocess.Popen(attack, stdout=subprocess.PIPE, text=True) for _ in range(count if name != "none" else 0)]
    most = 0.0
    while time.monotonic() < begun + seconds or any(one.poll() is None for one in attacks):
        most = max(most, resident_mib(pid))
        time.sleep(0.2)
    results = [one.communicate()[0].strip() for one in attacks]
    share = (processor_seconds(pid) - processor) / (time.monotonic() - begun)
    for innocent in innocents.values():
        innocent.stop()
    print(f"{name}: coordinator {share:.2f} processors, {most:.0f} MiB at most; {' '.join(results)}")
    for kind, innocent in innocents.items():
        print(f"  {kind}: {len(innocent.seconds)} served, median {1e3 * innocent.at(.5):.0f} ms, p99 "
              f"{1e3 * innocent.at(.99):.0f} ms, longest {1e3 * innocent.at(1):.0f} ms; {len(innocent.failures)} "
              f"failed {innocent.failures[:3]}")
    for line in lost(cluster)[lines:][:8]:
        print(f"  log: {line}")
    harness.wait_until(cluster.serving, "it serves again")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--attackers", type=int, default=2)
    parser.add_argument("--attacks", default=ATTACKS)
    options = parser.parse_args()
    cluster = harness.Cluster()
    try:
        harness.wait_until(cluster.serving, "the cluster serves")
        for name in options.attacks.split(","):
            measure(cluster, name, options.seconds, options.attackers)
    finally:
        cluster.cleanup()


if __name__ == "__main__":
    main()
