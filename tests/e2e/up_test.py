#!/usr/bin/env python3
"""`tutti up` as the whole of its parts: what it passes on, what it starts, and what it says when it cannot.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/up_test.py
"""
import os
import shutil
import socket
import sys
import tempfile
import unittest

from harness import DEMO, PATIENCE_S, clean_environment, tutti

KEY = "a-long-random-key"
SMALL = ("--threads-per-worker", "1", "--listen", "127.0.0.1:0")
COMMIT = "0123456789abcdef0123456789abcdef01234567"

# Run by --exec: asks the gateway by its address, and prints a line for each request.
CALLER = """
import json, os, sys, urllib.request
def get(path, key="", host=""):
    request = urllib.request.Request("http://" + (host or os.environ["TUTTI_HTTP"]) + path)
    if key:
        request.add_header("Authorization", "Bearer " + key)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
"""


def address_of_machine():
    """An address of this machine that is not loopback, or None."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return probe.getsockname()[0]
    except OSError:
        return None
    finally:
        probe.close()


class Up(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-up-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_up(self, *arguments, script="", model=DEMO, **environment):
        """Its end, after the script has run beside it."""
        if script:
            arguments = (*arguments, "--exec", f"{sys.executable} {self.path('caller.py', CALLER + script)}")
        return tutti("up", "--model", model, *SMALL, *arguments, env=clean_environment(**environment), timeout=2 * PATIENCE_S)

    def good(self, *arguments, **options):
        done = self.run_up(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def refusal(self, code, *arguments, **options):
        done = self.run_up(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_a_key_a_host_and_the_figures_of_all(self):
        lines = self.good("--http", "0.0.0.0:0", "--http-plaintext", "--metrics", "127.0.0.1:0", "--allow-host", "any", script="""
host = ADDRESS + ":" + os.environ["TUTTI_HTTP"].rsplit(":", 1)[1]
for key in ("", "wrong", os.environ["TUTTI_API_KEY"]):
    print(get("/v1/models", key, host)[0], get("/metrics", key, host)[0])
text = get("/metrics", os.environ["TUTTI_API_KEY"], host)[1]
families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
print(len(families), len(set(families)), "tutti_gateway_requests_total" in families, "tutti_build_info" in families)
print([line for line in text.splitlines() if line.startswith("tutti_gateway_coordinator_metrics")])
""".replace("ADDRESS", repr(address_of_machine() or "127.0.0.1")), TUTTI_API_KEY=KEY)
        self.assertEqual(lines[:3], ["401 401", "401 401", "200 200"])
        number, different, *named = lines[3].split()
        self.assertEqual((number, named[0]), (different, "True"))
        self.assertGreater(int(number), 100)
        self.assertEqual(lines[4], "['tutti_gateway_coordinator_metrics 1']")

    def test_a_key_in_a_file(self):
        key = self.path("key", KEY + "\n")
        lines = self.good("--http", "127.0.0.1:0", "--api-key-file", key,
                          script=f"print(get('/v1/models')[0], get('/v1/models', '{KEY}')[0], get('/tutti/status', '{KEY}')[0])")
        self.assertEqual(lines, ["401 200 200"])
        self.assertIn("--metrics nonsense", self.refusal(2, "--http", "127.0.0.1:0", "--metrics", "nonsense"))

    def test_others_options_and_variables_reach_them(self):
        self.assertIn("/nowhere.jinja", self.refusal(2, "--http", "off", "--chat-template", "/nowhere.jinja"))
        self.assertIn("/nowhere.jinja", self.refusal(2, "--http", "off", TUTTI_CHAT_TEMPLATE="/nowhere.jinja"))
        self.assertIn("certificate file /nowhere.pem", self.refusal(2, "--http", "127.0.0.1:0", "--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"))

    def test_what_nobody_has_is_an_error(self):
        self.assertIn("there is no option --no-such", self.refusal(2, "--no-such", "1"))
        self.assertIn("did you mean --workers?", self.refusal(2, "--worker", "1"))
        self.assertIn("sets it itself", self.refusal(2, "--cluster-id", "x"))
        self.assertIn("--http off starts none", self.refusal(2, "--http", "off", "--cors-origin", "*"))
        said = self.run_up("--http", "off", TUTTI_CLUSTER_ID="x", TUTTI_CHAT_TEMPLATE="/nowhere.jinja").stderr
        self.assertIn("TUTTI_CLUSTER_ID is left out", said)

    def test_starts_the_workers_that_the_sizes_need(self):
        lines = self.good("--device", "cpu", "--tensor-parallel-size", "2", "--http", "127.0.0.1:0",
                          script="import re; print(sorted(set(re.findall(r'\"worker_id\": *\"(w\\d+)\"', get('/tutti/status')[1]))))")
        self.assertEqual(lines, ["['w0', 'w1']"])
        self.assertIn("need 4 workers, and there are 2; give --workers 4", self.refusal(
            2, "--device", "cpu", "--workers", "2", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"))

    def test_ends_where_no_pipeline_can_form(self):
        for memory, words in (("1MiB", "the worker offers 1.0 MiB of memory"), ("12MiB", "the model does not fit")):
            said = self.refusal(1, "--device", "cpu", "--memory-per-worker", memory, "--http", "off")
            self.assertIn("no pipeline can be formed", said)
            self.assertIn(words, said)

    def test_is_healthy_when_it_says_that_it_serves(self):
        for _ in range(3):
            self.assertEqual(self.good("--http", "127.0.0.1:0", script="print(get('/health')[0], get('/ready')[0])"), ["200 200"])

    def test_says_what_of_texts_the_model_cannot_do(self):
        model = os.path.join(self.folder, "model")
        shutil.copytree(DEMO, model)
        os.remove(os.path.join(model, "tokenizer_config.json"))
        self.assertIn("no chat template", self.run_up("--http", "off", "--exec", "true", model=model).stderr)
        os.remove(os.path.join(model, "tokenizer.json"))
        self.assertIn("no tokenizer", self.run_up("--http", "off", "--exec", "true", model=model).stderr)
        self.assertNotIn("no tokenizer", self.run_up("--http", "off", "--exec", "true").stderr)


class Named(unittest.TestCase):
    """Models by their names on the hub."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-hub-")
        self.addCleanup(folder.cleanup)
        repository = os.path.join(folder.name, "hub", "models--tutti--demo")
        shutil.copytree(DEMO, os.path.join(repository, "snapshots", COMMIT))
        os.makedirs(os.path.join(repository, "refs"))
        with open(os.path.join(repository, "refs", "main"), "w", encoding="utf-8") as file:
            file.write(COMMIT)
        self.environment = clean_environment(HF_HOME=folder.name, HF_HUB_CACHE="")

    def test_is_found_and_served_under_it(self):
        asked = ("--model", "tutti/demo", "--message", "What is 12 + 30?", "--temperature", "0")
        done = tutti("up", "--model", "tutti/demo", *SMALL, "--http", "off", "--exec",
                     f"{os.path.join(os.environ.get('TUTTI_BINARY_DIR', 'build/release'), 'bin', 'tutti')} chat " + " ".join(map(repr, asked)),
                     env=self.environment)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "42"), done.stderr)
        done = tutti("plan", "--model", "tutti/demo", "--revision", COMMIT, "--devices", "1x1GiB", env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_line_that_fetches_it(self):
        for command in ("up", "plan"):
            done = tutti(command, "--model", "tutti/other", *(("--devices", "1x1GiB") if command == "plan" else ()), env=self.environment)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertTrue(done.stderr.strip().endswith("This fetches it: hf download tutti/other"), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
