#!/usr/bin/python3
"""What it costs, while nothing fails, that streams outlive workers: rows kept, and partial recompute.

    tests/faults/price.py [--model DIR] [--rounds 9] [--seconds 10] [--concurrency 8]

Two clusters of two stages stand side by side, one as it is by default and one with `--kept-rows 0 --partial-recompute
off`, and are asked in turn, so that a machine that changes its speed changes both. Prints the generated tokens a second of
each round, and the median over the rounds of the ratio within a round. Needs a quiet machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import harness  # noqa: E402

WITHOUT = ["--kept-rows", "0", "--partial-recompute", "off"]
REQUEST = ["--input-tokens", "128", "--max-tokens", "64"]


def tokens_per_second(cluster, flags):
    done = subprocess.run([harness.TUTTI, "bench", "--address", cluster.address, *REQUEST, "--concurrency",
                           str(flags.concurrency), "--duration", str(flags.seconds), "--json"],
                          capture_output=True, text=True, check=False, env=harness.clean_environment())
    if done.returncode != 0 or not done.stdout.startswith("{"):
        raise RuntimeError(f"tutti bench ended with status {done.returncode}: {done.stdout}{done.stderr}")
    report = json.loads(done.stdout)
    return report["output_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(prog="tests/faults/price.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=harness.DEMO, metavar="DIR")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    parser.add_argument("--seconds", type=int, default=10, metavar="S", help="of each cluster in each round")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N")
    flags = parser.parse_args()
    clusters = []
    try:
        clusters.append(harness.Cluster(model=flags.model, workers=2))
        clusters.append(harness.Cluster(*WITHOUT, model=flags.model, workers=2))
        for cluster in clusters:
            tokens_per_second(cluster, flags)  # the first of each is slower
        ratios = []
        for number in range(flags.rounds):
            # Who is asked first changes by round.
            speeds = [0.0, 0.0]
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                speeds[which] = tokens_per_second(clusters[which], flags)
            ratios.append(speeds[0] / speeds[1])
            print(f"round {number}: {speeds[0]:.1f} tokens/s, {speeds[1]:.1f} without, {ratios[-1]:.3f}", flush=True)
        print(f"median of {len(ratios)} ratios: {statistics.median(ratios):.4f}, from {min(ratios):.3f} to {max(ratios):.3f}")
    finally:
        for cluster in clusters:
            cluster.cleanup()


if __name__ == "__main__":
    main()
