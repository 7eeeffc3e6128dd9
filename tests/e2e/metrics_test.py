#!/usr/bin/env python3
"""/metrics of all processes of a real cluster: every line is of the format, counts what happened, and has what the
dashboard and the rules ask for; vLLM's names have its types, labels and bounds; a Prometheus, where there is one, answers
every query of the dashboard with data."""
import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.parse

from harness import PATIENCE_S, SOURCE, wait_until
from http_client import Gateway
from metrics_cluster import MetricsCluster
from prometheus_text import names_in, series_names, value
from vllm_names import BOUNDS, COUNTERS, GAUGES, HISTOGRAMS

COMPLETION = "/v1/completions"
MONITORING = os.path.join(SOURCE, "deploy", "monitoring")
LONG = {"prompt": "Tell me something: ", "ignore_eos": True, "max_tokens": 300, "seed": 7}


def dashboard():
    with open(os.path.join(MONITORING, "dashboard.json"), encoding="utf-8") as file:
        return json.load(file)


def queries():
    """[(title, query)] of the dashboard, with all that its variables leave to choose."""
    return [(panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$namespace", ".*").replace("$instance", ".*"))
            for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def answered_queries():
    """Those that are answered on any machine, of GPUs only workers that have some tell, and without answers by a grammar."""
    return {query for _, query in queries() if "tutti_gpu_" not in query and "mask_seconds" not in query}


def rules():
    """[query] of the alert rules: Debian's Python reads no YAML, and the file's form is plain."""
    with open(os.path.join(MONITORING, "alerts.yaml"), encoding="utf-8") as file:
        folded = re.sub(r">-\n((?:\s{10}.*\n)+)", lambda m: " ".join(m.group(1).split()) + "\n", file.read())
    return [line.split("expr:", 1)[1].strip() for line in folded.splitlines() if line.strip().startswith("expr:")]


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = MetricsCluster("--metrics-alias", "vllm")
        cls.addClassCleanup(cls.cluster.stop)

    def generate(self, **fields):
        events = list(self.cluster.gateway.stream(COMPLETION, {**LONG, **fields}))
        self.assertEqual(events[-1], "[DONE]")

    def lose_a_worker(self):
        """While a stream runs, which goes on."""
        before = value(self.cluster.scrape("coordinator"), "tutti_sequences_recovered_total")
        stream = self.cluster.gateway.stream(COMPLETION, {**LONG, "max_tokens": 1500})
        next(stream)
        self.cluster.processes["w1"].kill()
        self.cluster.processes["w1"].wait()
        self.cluster.start_worker("w1")
        self.assertEqual(list(stream)[-1], "[DONE]")
        after = self.cluster.scrape("coordinator")
        self.assertEqual(value(after, "tutti_sequences_recovered_total"), before + 1)
        self.assertGreater(value(after, "tutti_last_recovery_seconds", part="recovered"), 0)
        self.assertGreater(value(after, "tutti_lost_workers_total"), 0)

    def test_1_count_what_happens(self):
        before = self.cluster.scrape("coordinator")
        self.generate(speculation={"mode": "off"})  # a step for each token
        self.generate(n=2, max_tokens=20)
        self.assertEqual(self.cluster.gateway.post(COMPLETION, {"prompt": "a", "max_tokens": 1 << 30}).status, 400)
        after = self.cluster.scrape("coordinator")
        for name, more in (("tutti_outputs_accepted_total", 3), ("tutti_generated_tokens_total", 340),
                           ("tutti_requests_invalid_total", 1), ("tutti_time_to_first_token_seconds_count", 3),
                           ("tutti_inter_token_seconds_count", 337), ("tutti_request_generated_tokens_sum", 340),
                           ("tutti_request_longest_output_tokens_sum", 320), ("tutti_request_outputs_sum", 3),
                           ("tutti_request_max_tokens_sum", 340)):
            self.assertEqual(value(after, name) - value(before, name), more, name)
        self.assertEqual(value(after, "tutti_outputs_finished_total", reason="length"), 3)
        self.assertGreater(value(after, "tutti_pipeline_kv_blocks_cached"), 0)
        self.assertEqual(value(after, "tutti_link_up"), len(after["tutti_link_up"].samples))
        for stage in ("0", "1"):
            self.assertGreater(value(after, "tutti_rank_compute_seconds_total", stage=stage), 0)
            self.assertGreater(value(after, "tutti_rank_steps_total", stage=stage), 300)
        # They count the row that goes round before a pipeline serves, too.
        for worker in ("w0", "w1"):
            self.assertGreater(value(self.cluster.scrape(worker), "tutti_worker_steps_total"), 300)
        self.assertGreater(value(after, "tutti_rank_activation_bytes_total", stage="0"), 0)

    def test_2_gateway_counts_answers(self):
        self.cluster.gateway.get("/nothing\"here")
        self.generate(max_tokens=5)
        found = self.cluster.scrape("gateway")
        self.assertGreater(value(found, "tutti_gateway_requests_total", path=COMPLETION, status="200"), 0)
        self.assertGreater(value(found, "tutti_gateway_requests_total", path="other", status="404"), 0)
        self.assertGreater(value(found, "tutti_gateway_time_to_first_event_seconds_count"), 0)
        self.assertEqual(value(found, "tutti_gateway_service_ready"), 1)
        self.assertEqual(self.cluster.gateway.get("/metrics", Host="evil.example").status, 403)

    def test_3_losses_are_counted_and_streams_go_on(self):
        self.lose_a_worker()

    def test_4_health_and_nothing_else_beside(self):
        for name in ("coordinator", "w0"):
            port = Gateway(self.cluster.address_of(name))
            self.assertEqual(port.get("/healthz").body, b"ok\n")
            self.assertEqual(port.get("/").status, 404)
            self.assertEqual(port.post("/metrics", {}).status, 405)

    def test_5_vllms_names_are_vllms(self):
        found = self.cluster.scrape("coordinator")
        theirs = {name: family for name, family in found.items() if name.startswith("vllm:")}
        expected = {**{name: ("gauge", labels) for name, labels in GAUGES.items()},
                    **{name + "_total": ("counter", labels) for name, labels in COUNTERS.items()},
                    **{name: ("histogram", {"model_name", "engine"}) for name in HISTOGRAMS}}
        self.assertEqual(set(theirs), set(expected))
        for name, (kind, labels) in expected.items():
            self.assertEqual(theirs[name].kind, kind, name)
            for sample, given, _ in theirs[name].samples:
                self.assertEqual(set(given) - {"le"}, labels, sample)
                self.assertEqual(given.get("model_name", "demo"), "demo")
                self.assertEqual(given.get("engine", "0"), "0")
        for name, bounds in HISTOGRAMS.items():
            self.assertEqual([given["le"] for sample, given, _ in theirs[name].samples if sample.endswith("_bucket")],
                             [*map(str, map(float, BOUNDS[bounds])), "+Inf"], name)
        self.assertEqual(value(theirs, "vllm:num_requests_running"), 0)
        self.assertGreater(value(theirs, "vllm:generation_tokens_total"), 0)

    def test_6_dashboard_and_rules_ask_for_what_is_there(self):
        found = self.cluster.scrape_all()
        there = set().union(*map(series_names, found.values()),
                            *({name for name in families if name.startswith("tutti_gpu_")} for families in found.values()))
        self.assertGreater(len(queries()), 30)
        self.assertGreater(len(rules()), 10)
        for title, query in [*queries(), *((query, query) for query in rules())]:
            names = names_in(query)
            self.assertTrue(names, query)
            self.assertLessEqual(names, there, title)

    def test_6_the_document_names_what_is_there(self):
        with open(os.path.join(SOURCE, "docs", "METRICS.md"), encoding="utf-8") as file:
            named = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", file.read(), re.MULTILINE))
        there = {name: family.kind for families in self.cluster.scrape_all().values()
                 for name, family in families.items() if not name.startswith("vllm:")}
        self.assertEqual(named, there)

    def test_7_dashboard_has_grafanas_form(self):
        board = dashboard()
        self.assertEqual(board["uid"], "tutti-overview")
        self.assertEqual({v["name"]: v["type"] for v in board["templating"]["list"]},
                         {"datasource": "datasource", "namespace": "query", "instance": "query"})
        asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
        for query in asked:
            chosen = query.count('namespace=~"$namespace",instance=~"$instance"}')
            self.assertEqual(chosen, len(re.findall(r"\b(?:tutti|process)_\w+", query)), query)
        self.assertGreaterEqual(board["schemaVersion"], 36)
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        taken = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            for target in panel.get("targets", ()):
                self.assertEqual(target["datasource"]["uid"], "${datasource}")

    def test_8_a_prometheus_answers_every_query(self):
        program, tool = shutil.which("prometheus"), shutil.which("promtool")
        if program is None or tool is None:
            self.skipTest("no prometheus is installed (Debian's package of that name)")
        checked = subprocess.run([tool, "check", "rules", os.path.join(MONITORING, "alerts.yaml")],
                                 capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        prometheus = self.start_prometheus(program)
        open_queries = answered_queries()

        def all_answered():
            self.generate(max_tokens=40)
            for query in sorted(open_queries):
                answer = prometheus.get("/api/v1/query?query=" + urllib.parse.quote(query)).json()
                self.assertEqual(answer["status"], "success", (query, answer))
                if any(result["value"][1] != "NaN" for result in answer["data"]["result"]):
                    open_queries.discard(query)
            return not open_queries

        try:
            wait_until(all_answered, "every query has data", 2 * PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"no data for {sorted(open_queries)}") from error
        state = prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
        self.assertEqual({target["health"] for target in state}, {"up"}, state)
        asked = prometheus.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]
        self.assertEqual(len(asked), len(rules()))
        self.assertEqual([rule["name"] for rule in asked if rule["health"] == "err"], [])

    def start_prometheus(self, program):
        folder = self.cluster.path("prometheus")
        os.mkdir(folder)
        shutil.copy(os.path.join(MONITORING, "alerts.yaml"), folder)
        targets = [self.cluster.address_of(name) for name in self.cluster.processes]
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["alerts.yaml"],
                       "scrape_configs": [{"job_name": "tutti", "static_configs": [{"targets": targets}]}]}, file)
        address = f"127.0.0.1:{20000 + os.getpid() % 10000}"
        log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={address}"], stdout=log, stderr=log)
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        prometheus = Gateway(address)

        def is_ready():
            assert process.poll() is None, open(log.name, encoding="utf-8").read()
            try:
                return prometheus.get("/-/ready").status == 200
            except OSError:
                return False

        wait_until(is_ready, "prometheus is ready")
        return prometheus


if __name__ == "__main__":
    unittest.main(verbosity=2)
