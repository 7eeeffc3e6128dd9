"""Prometheus' own parser for Python reads what every process says at /metrics.

prometheus_checks.py URL of a gateway's API
"""
import os
import sys
import traceback

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from http_client import Gateway  # noqa: E402
from metrics_cluster import MetricsCluster  # noqa: E402
from prometheus_text import parse  # noqa: E402


def check(name, text):
    """The same families and samples as our own parser finds."""
    theirs = list(text_string_to_metric_families(text))
    ours = parse(text)
    assert {f.name + ("_total" if f.type == "counter" else "") for f in theirs} == set(ours), name
    for family in theirs:
        assert family.type == ours[family.name + ("_total" if family.type == "counter" else "")].kind, family.name
    found = {(s.name, *sorted(s.labels.items())): s.value for f in theirs for s in f.samples}
    mine = {(sample, *sorted(labels.items())): value for f in ours.values() for sample, labels, value in f.samples}
    assert found == mine, name
    assert len(found) > 10, name


def main():
    address = sys.argv[1].split("://", 1)[1].split("/", 1)[0]
    texts = {"gateway of tutti up": Gateway(address).get("/metrics").body.decode()}
    cluster = MetricsCluster("--metrics-alias", "vllm")
    try:
        cluster.gateway.post("/v1/completions", {"prompt": "12+30=", "max_tokens": 8})
        texts.update({name: cluster.text(name) for name in cluster.processes})
    finally:
        cluster.stop()
    for name, text in texts.items():
        try:
            check(name, text)
            print(f"ok {name}")
        except Exception:  # whatever it is, the others are tried too
            print(f"FAILED {name}: {traceback.format_exc(limit=2)}")


main()
