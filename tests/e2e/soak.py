#!/usr/bin/env python3
"""A soak: a cluster of real processes under attack, watched from outside.

    tests/e2e/soak.py --seconds 600 [--model DIR] [--workers 2] [--burners 12] [--attacks wide,flood]

Prints what innocent clients saw alone, beside as many ordinary clients as there are attackers, and beside the
attackers; the memory of every process before, at its most and afterwards; and the workers that were lost. Needs the
release build (tools/build). Exit status 1: an innocent failed, an answer changed, or a worker was lost.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

import harness

SOAK = os.path.join(harness.BINARIES, "tutti-soak")


def resident_mib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024
    except (OSError, StopIteration):
        return 0.0


def peer_addresses(cluster):
    """Where the workers listen, as their command lines say."""
    found = []
    for name, pid in cluster.children().items():
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            arguments = file.read().split("\0")
        if name != "coordinator":
            found.append(arguments[arguments.index("--listen") + 1])
    return found


class Memory(threading.Thread):
    """The most memory that each process had, until stop()."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids = pids
        self.most = {name: 0.0 for name in pids}
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.2):
            for name, pid in self.pids.items():
                self.most[name] = max(self.most[name], resident_mib(pid))

    def stop(self):
        self.over.set()
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="of each of the three phases")
    parser.add_argument("--calm-seconds", type=int, default=0,
                        help="of the two phases without attackers (default: as --seconds)")
    parser.add_argument("--model", default=harness.DEMO)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--innocents", type=int, default=4)
    parser.add_argument("--burners", type=int, default=0, help="processes that do nothing but compute")
    parser.add_argument("--attacks", default="all")
    parser.add_argument("--attackers-nice", type=int,
                        help="attackers in a process of their own with this niceness: what they take by asking, "
                             "without the processor time that they take by running on the same machine")
    parser.add_argument("rest", nargs="*", help="more flags of tutti up, after --")
    flags = parser.parse_args()
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(flags.burners)]
    cluster = harness.Cluster(*flags.rest, model=flags.model, workers=flags.workers)
    try:
        pids = cluster.children()
        before = {name: resident_mib(pid) for name, pid in pids.items()}
        memory = Memory(pids)
        memory.start()
        command = [SOAK, "--address", cluster.address, "--peers", ",".join(peer_addresses(cluster)), "--seconds",
                   str(flags.seconds), "--calm-seconds", str(flags.calm_seconds), "--innocents", str(flags.innocents), "--attacks", flags.attacks]
        apart = flags.attackers_nice is not None
        attackers = subprocess.Popen(["nice", "-n", str(flags.attackers_nice), *command, "--role", "attackers"],
                                     stdout=subprocess.PIPE, text=True) if apart else None
        done = subprocess.run(command + ["--role", "innocents" if apart else "both"], stdout=subprocess.PIPE,
                              text=True, check=False)
        told = attackers.communicate()[0] if apart else ""
        memory.stop()
        time.sleep(5)
        for line in (done.stdout + told).splitlines():
            print(line)
        for name, pid in pids.items():
            print(json.dumps({"process": name, "before_mib": round(before[name]), "most_mib": round(memory.most[name]),
                              "after_mib": round(resident_mib(pid)), "alive": harness.running(pid)}))
        status = cluster.status()
        lost = [name for name, pid in pids.items() if not harness.running(pid)]
        print(json.dumps({"ended": lost, "serving": bool(status and status.get("serving")),
                          "epochs": [pipeline["epoch"] for pipeline in (status or {}).get("pipelines", [])]}))
        sys.exit(1 if done.returncode != 0 or lost else 0)
    finally:
        for burner in burners:
            burner.kill()
        cluster.cleanup()


if __name__ == "__main__":
    main()
