#!/usr/bin/env python3
"""Long prompts beside processes that do nothing but compute: no worker may be called lost that is only slow.

    tests/e2e/burners.py --model DIR [--seconds 1800] [--burners 12] [--tokens 20000] [--cores 0,1]

Prompts of so many tokens, one after the other, by two workers of one thread each; the model's context must hold them.
`build/release/bin/make_random_model` makes a model of a real shape. Prints how far it came and what the coordinator said
of lost workers. Exit status 1: a worker was lost, a prompt failed, or nothing was computed.
"""
import argparse
import os
import subprocess
import sys
import threading
import time

import harness
from floods import lost

LOOK_S = 10


def prompt_ids(number, tokens):
    """No two alike from the beginning on."""
    return ",".join(str((number + place * 7) % 900 + 1) for place in range(tokens))


class Asker(threading.Thread):
    """Prompts one after the other, until end()."""

    def __init__(self, cluster, tokens):
        super().__init__(daemon=True)
        self.cluster, self.tokens = cluster, tokens
        self.done, self.failed, self.over = 0, [], False
        self.call = None
        self.start()

    def run(self):
        while not self.over:
            self.call = subprocess.Popen(
                [harness.TUTTI, "generate", "--token-ids", prompt_ids(self.done, self.tokens), "--max-tokens", "2",
                 "--ignore-eos", "--resume-within", "0"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.cluster.env)
            _, errors = self.call.communicate()
            if self.call.returncode == 0:
                self.done += 1
            elif not self.over:
                self.failed.append(errors.strip())
                time.sleep(1)

    def end(self):
        self.over = True
        if self.call:
            self.call.kill()
        self.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR")
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--burners", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=20000, help="of a prompt, about")
    parser.add_argument("--cores", help="processors for all of it, as 0,1 (default: all)")
    parser.add_argument("--memory", default="4GiB", help="of each worker")
    flags = parser.parse_args()
    if flags.cores:
        os.sched_setaffinity(0, {int(core) for core in flags.cores.split(",")})
    cluster = harness.Cluster("--kv-tokens", str(flags.tokens + 4096), model=flags.model, memory=flags.memory)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(flags.burners)]
    try:
        pids, before = cluster.children(), cluster.status()
        asker = Asker(cluster, flags.tokens)
        end = time.monotonic() + flags.seconds
        while time.monotonic() < end and not asker.failed:
            time.sleep(min(LOOK_S, max(0, end - time.monotonic())))
        asker.end()
        status = cluster.status() or {}
        epochs = [pipeline["epoch"] for pipeline in status.get("pipelines", [])]
        steps = sum(int(stage["steps_total"]) for one in status.get("pipelines", []) for stage in one["stages"])
        good = (not asker.failed and epochs == [one["epoch"] for one in before["pipelines"]]
                and cluster.children() == pids and not lost(cluster) and steps > 0)
        for line in [*asker.failed[:3], *lost(cluster)[:5]]:
            print(line)
        print(f"{flags.seconds} s beside {flags.burners} burners: {asker.done} prompts of {flags.tokens} tokens answered, "
              f"{steps} steps computed, {len(asker.failed)} failed, {'no worker lost' if good else 'NOT well'}")
        return 0 if good else 1
    finally:
        for burner in burners:
            burner.kill()
        cluster.cleanup()


if __name__ == "__main__":
    sys.exit(main())
