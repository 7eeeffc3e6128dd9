#!/usr/bin/env python3
"""`tutti up` used from another machine, which is a network namespace: by OpenAI's own SDK with the key over TLS, and by a
Prometheus that scrapes the gateway and the workers and answers every query of the dashboard. Skipped by name where
namespaces, the SDK or a Prometheus are missing.

By hand, as root:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/afar_test.py
"""
import json
import os
import shutil
import signal
import sys
import unittest
import urllib.parse

import machines
from harness import DEMO, PATIENCE_S, SOURCE, children, tutti, wait_until
from metrics_test import MONITORING, answered_queries, rules

sys.path.insert(0, os.path.join(SOURCE, "tests", "clients"))
import run as clients  # noqa: E402

KEY = "a-long-random-key"
HTTP, METRICS, WORKER = 8000, 9090, 9101  # ports; the second worker's is the one after the first's
WORKERS = 2
PROMETHEUS = "127.0.0.1:9190"
# What CTest takes for "skipped".
SKIPPED = 77

# On the other machine: a line for each thing tried.
SDK = """
import ssl, sys
import openai
url, authority, key, what = sys.argv[1:]
def client(key):
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0,
                         http_client=openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=authority), trust_env=False))
ask = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}
good = client(key)
if what == "strangers":
    for wrong in ("none", key + "x", key[:-1]):
        try:
            client(wrong).chat.completions.create(**ask)
        except openai.AuthenticationError as error:
            print("refused", error.status_code)
    try:
        openai.OpenAI(base_url=url, api_key=key, max_retries=0, http_client=openai.DefaultHttpxClient(trust_env=False)).models.list()
    except openai.APIConnectionError:
        print("not trusted")
elif what == "user":
    print([model.id for model in good.models.list()])
    print(good.chat.completions.create(**ask).choices[0].message.content)
    print("".join(chunk.choices[0].delta.content or "" for chunk in good.chat.completions.create(**ask, stream=True)))
    print(good.responses.create(model="demo", input="What is 12 + 30?", temperature=0).output_text)
elif what == "stream":
    events = good.completions.create(model="demo", prompt="Tell me: ", max_tokens=1500, stream=True, extra_body={"ignore_eos": True})
    next(events)
    print("begun", flush=True)
    print("ended", [event.choices[0].finish_reason for event in events if event.choices][-1])
elif what == "load":
    for _ in range(4):
        good.completions.create(model="demo", prompt="Tell me: ", max_tokens=60, seed=7, extra_body={"ignore_eos": True})
    for event in good.completions.create(model="demo", prompt="Tell me: ", max_tokens=200, stream=True, extra_body={"ignore_eos": True}):
        pass
    try:
        good.chat.completions.create(**ask, max_tokens=1 << 30)
    except openai.BadRequestError as error:
        print("refused", error.status_code)
"""

# On the other machine: reads [path] and writes the JSON that a Prometheus has for each.
ASK_PROMETHEUS = """
import json, sys, urllib.error, urllib.request
answers = []
for path in json.load(sys.stdin):
    try:
        with urllib.request.urlopen("http://" + sys.argv[1] + path, timeout=30) as answer:
            answers.append(json.load(answer))
    except urllib.error.HTTPError as error:
        answers.append({"status": "error", "words": error.read().decode()})
json.dump(answers, sys.stdout)
"""


def need_curl(test):
    if shutil.which("curl") is None:
        test.skipTest("curl is not installed")


class Afar(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = machines.Network(2)
        cls.addClassCleanup(cls.network.close)
        cls.server, cls.other = cls.network.machines
        cls.authority = os.path.join(cls.network.folder, "certs")
        for arguments in (("init", cls.authority), ("issue", "node0", "--authority", cls.authority)):
            done = tutti("certs", *arguments)
            assert done.returncode == 0, done.stderr
        ready = os.path.join(cls.server.folder, "ready")
        certificate = os.path.join(cls.authority, "node0")
        cls.up = cls.server.start(
            "tutti", "up", "--model", DEMO, "--workers", str(WORKERS), "--listen", "127.0.0.1:0", "--threads-per-worker", "1",
            "--memory-per-worker", "256MiB", "--http", f"0.0.0.0:{HTTP}", "--tls-cert", os.path.join(certificate, "tls.crt"),
            "--tls-key", os.path.join(certificate, "tls.key"), "--metrics", f"127.0.0.1:{METRICS}", "--worker.metrics",
            f"0.0.0.0:{WORKER}", "--ready-file", ready, TUTTI_API_KEY=KEY)
        wait_until(lambda: os.path.exists(ready) or cls.up.process.poll() is not None, "the service serves")
        assert cls.up.process.poll() is None, cls.up.text()

    def path(self, name, text):
        path = os.path.join(self.other.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def sdk_command(self, what):
        python = clients.install("openai", ["openai==3.54.0"])
        if python is None:
            self.skipTest("openai cannot be installed")
        return [python, self.path("sdk.py", SDK), f"https://node0:{HTTP}/v1", os.path.join(self.authority, "ca.crt"), KEY, what]

    def sdk(self, what):
        """What the SDK's user says."""
        done = self.other.run(*self.sdk_command(what))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_1_the_sdk_of_another_machine(self):
        self.assertEqual(self.sdk("strangers"), ["refused 401"] * 3 + ["not trusted"])
        self.assertEqual(self.sdk("user"), ["['demo']", "42", "42", "42"])

    def test_2_nobody_else_is_let_in(self):
        """What is not for others is on loopback, or asks for the key."""
        need_curl(self)
        code = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert", os.path.join(self.authority, "ca.crt")]
        for path in ("/metrics", "/tutti/status", "/v1/models"):
            url = f"https://node0:{HTTP}{path}"
            self.assertEqual(self.other.run(*code, url).stdout, "401", path)
            self.assertEqual(self.other.run(*code, "--header", f"Authorization: Bearer {KEY}", url).stdout, "200", path)
        self.assertEqual(self.other.run(*code, f"http://node0:{METRICS}/metrics").stdout, "000")

    def ask(self, *paths):
        done = self.other.run(sys.executable, "-c", ASK_PROMETHEUS, PROMETHEUS, stdin=json.dumps(paths))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def lose_a_worker(self):
        """Beside a stream of the SDK, which goes on."""
        stream = self.other.start(*self.sdk_command("stream"))
        stream.says("begun")
        os.kill(children(self.up.process.pid)["w1"], signal.SIGKILL)
        stream.says("ended length")

    def start_prometheus(self):
        """On the other machine, as the documents have it: with the key, and the authority that it trusts."""
        shutil.copy(os.path.join(MONITORING, "alerts.yaml"), self.other.folder)
        jobs = [{"job_name": "tutti", "scheme": "https", "tls_config": {"ca_file": os.path.join(self.authority, "ca.crt")},
                 "authorization": {"credentials_file": self.path("key", KEY)}, "static_configs": [{"targets": [f"node0:{HTTP}"]}]},
                {"job_name": "workers",
                 "static_configs": [{"targets": [f"node0:{WORKER + number}" for number in range(WORKERS)]}]}]
        settings = self.path("prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["alerts.yaml"], "scrape_configs": jobs}))
        started = self.other.start("prometheus", f"--config.file={settings}", f"--storage.tsdb.path={self.other.folder}/data",
                                   f"--web.listen-address={PROMETHEUS}")
        started.says("Server is ready to receive web requests")

    def test_3_a_prometheus_of_another_machine_answers_every_query(self):
        if shutil.which("prometheus") is None:
            self.skipTest("no prometheus is installed (Debian's package of that name)")
        self.start_prometheus()
        self.lose_a_worker()
        left = answered_queries()
        self.assertGreater(len(left), 40)

        def all_answered():
            self.assertEqual(self.sdk("load"), ["refused 400"])
            asked = sorted(left)
            for query, answer in zip(asked, self.ask(*("/api/v1/query?query=" + urllib.parse.quote(query) for query in asked))):
                self.assertEqual(answer["status"], "success", (query, answer))
                if any(result["value"][1] != "NaN" for result in answer["data"]["result"]):
                    left.discard(query)
            return not left

        try:
            wait_until(all_answered, "every query has data", 2 * PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"no data for {sorted(left)}: {error}") from error
        targets, groups = self.ask("/api/v1/targets", "/api/v1/rules")
        self.assertEqual([target["health"] for target in targets["data"]["activeTargets"]], ["up"] * (1 + WORKERS))
        asked = groups["data"]["groups"][0]["rules"]
        self.assertEqual(len(asked), len(rules()))
        self.assertEqual([rule["name"] for rule in asked if rule["health"] == "err"], [])


if __name__ == "__main__":
    MISSING = machines.why_not()
    if MISSING:
        print("SKIPPED:", MISSING, file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
