#!/usr/bin/env python3
"""What scrapes of a coordinator with many pipelines cost, by hand: how long one takes, and the gaps between tokens of streams
without scrapes and beside them, in turn.

    tests/e2e/scrape_cost.py [--pipelines 64] [--per-second 4] [--rounds 4] [--json]

Every pipeline is a worker of its own with the demo model, so that the machine's processors are what steps wait for; the two
kinds of rounds differ in the scrapes only.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time

import harness
from harness import BINARIES, DEMO, clean_environment, wait_until
from http_client import Gateway

STREAMS = 16
# Long enough for many scrapes, whatever the machine.
ASK = ["--concurrency", str(STREAMS), "--duration", "5", "--input-tokens", "16", "--max-tokens", "64", "--ignore-eos", "--json"]
# Of each worker: the demo model and some sequences.
MEMORY = "96MiB"


class Service:
    """A coordinator with /metrics and `pipelines` workers."""

    def __init__(self, pipelines):
        self.dir = tempfile.TemporaryDirectory(prefix="tutti-scrape-")
        folder, self.processes = self.dir.name, []
        peers, self.log = f"unix:{folder}/peers", os.path.join(folder, "coordinator.log")
        ready = os.path.join(folder, "ready")
        self.start("tutti-coordinator", "--model", DEMO, "--listen", "127.0.0.1:0", "--peer-listen", peers, "--admin-listen",
                   f"unix:{folder}/admin", "--ready-file", ready, "--pipelines", str(pipelines), "--pipeline-parallel-size",
                   "1", "--kv-tokens", "4096", "--metrics", "127.0.0.1:0", "--metrics-alias", "vllm", "--lease-ms", "60000")
        for i in range(pipelines):
            self.start("tutti-worker", "--model", DEMO, "--worker-id", f"w{i}", "--coordinator", peers, "--listen",
                       f"unix:{folder}/w{i}", "--memory", MEMORY, "--threads", "1", "--speed", "off", "--tune", "off")
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            told = json.load(file)
        self.address, self.metrics = told["address"], Gateway(told["metrics"])
        wait_until(lambda: self.serving() == pipelines, "all pipelines serve", 300)

    def start(self, program, *arguments):
        with open(os.path.join(self.dir.name, f"{len(self.processes)}.log"), "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen([os.path.join(BINARIES, program), *arguments], stdout=log, stderr=log,
                                                   env=clean_environment()))

    def scrape(self):
        answer = self.metrics.get("/metrics")
        assert answer.status == 200, answer.status
        return answer.body

    def serving(self):
        return len(re.findall(rb"^tutti_pipeline_serving\{.*\} 1$", self.scrape(), re.MULTILINE))

    def bench(self):
        done = subprocess.run([harness.TUTTI, "bench", "--address", self.address, *ASK], capture_output=True, text=True,
                              check=True, env=clean_environment())
        report = json.loads(done.stdout)
        assert report["failures"] == {}, report["failures"]
        return report["token_gap_ms"]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.dir.cleanup()


class Scraper(threading.Thread):
    """Scrapes so often, until stop()."""

    def __init__(self, service, per_second):
        super().__init__(daemon=True)
        self.service, self.period, self.over = service, 1 / per_second, threading.Event()
        self.took_ms, self.bytes, self.error = [], 0, None
        self.start()

    def run(self):
        try:
            while not self.over.wait(self.period):
                begin = time.perf_counter()
                self.bytes = len(self.service.scrape())
                self.took_ms.append((time.perf_counter() - begin) * 1e3)
        except Exception as error:  # raised where it is seen
            self.error = error

    def stop(self):
        self.over.set()
        self.join()
        if self.error:
            raise self.error
        return self.took_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=64)
    parser.add_argument("--per-second", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    service = Service(wanted.pipelines)
    try:
        service.bench()  # to warm up
        # Of one that nothing else delays.
        alone = Scraper(service, 20)
        time.sleep(3)
        quiet, scrapes = alone.stop(), []
        gaps = {"without": [], "with": []}
        for _ in range(wanted.rounds):
            gaps["without"].append(service.bench())
            scraper = Scraper(service, wanted.per_second)
            gaps["with"].append(service.bench())
            scrapes += scraper.stop()
        row = {"pipelines": wanted.pipelines, "bytes": alone.bytes, "scrape_ms": statistics.median(quiet),
               "scrape_most_ms": max(quiet), "scrapes_beside_streams": len(scrapes),
               "scrape_beside_streams_ms": statistics.median(scrapes)}
        for kind, reports in gaps.items():
            for quantile in ("p50", "p99"):
                row[f"gap_{quantile}_ms_{kind}"] = statistics.median(report[quantile] for report in reports)
    finally:
        service.stop()
    if wanted.json:
        print(json.dumps(row))
        return
    print(f"{row['pipelines']} pipelines, {row['bytes']} bytes: a scrape takes {row['scrape_ms']:.2f} ms, at most "
          f"{row['scrape_most_ms']:.2f}; beside {STREAMS} streams {row['scrape_beside_streams_ms']:.2f} "
          f"({row['scrapes_beside_streams']} of them)\ngaps between tokens, p50 and p99: without scrapes "
          f"{row['gap_p50_ms_without']:.2f} and {row['gap_p99_ms_without']:.2f} ms, with them {row['gap_p50_ms_with']:.2f} and "
          f"{row['gap_p99_ms_with']:.2f}")


if __name__ == "__main__":
    main()
