#!/usr/bin/env python3
"""A whole cluster of real processes: answers, status, killed workers, and an end that leaves nothing.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/cluster_test.py
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import (BINARIES, DEMO, PATIENCE_S, SLOWNESS, TUTTI, Cluster, clean_environment, running, tutti, wait_until)

QUESTION = "What is 12 + 30?"
# Long enough that a worker can be killed in the middle.
LONG = ["generate", "--prompt", "12", "--max-tokens", "1900", "--ignore-eos", "--temperature", "1",
        "--seed", "1", "--json", "--resume-within", "0"]
KV = ["--kv-tokens", "16384"]
SAVED = os.path.join(os.path.dirname(__file__), "..", "golden", "families", "saved-qwen3-moe-step-2")


def gone(pids):
    return all(not running(pid) for pid in pids)


class Serving(unittest.TestCase):
    """One cluster for all of these."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*KV)
        cls.addClassCleanup(cls.cluster.cleanup)

    def ok(self, *arguments, **kwargs):
        done = self.cluster.tutti(*arguments, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_generate_streams_text_or_json_of_the_same_tokens(self):
        flags = ["--prompt", "12+30=", "--temperature", "0", "--max-tokens", "8"]
        text = self.ok("generate", *flags).stdout
        lines = self.ok("generate", *flags, "--json", "--logprobs").stdout.splitlines()
        messages = [json.loads(line) for line in lines]
        self.assertEqual("".join(message["text"] for message in messages), text)
        tokens = [token for message in messages for token in message["tokens"]]
        finish = messages[-1]["finish"]
        self.assertEqual(finish["usage"]["completion_tokens"], len(tokens))
        self.assertTrue(all(token["logprob"] <= 0 for token in tokens))
        self.assertIn(finish["reason"], ("FINISH_REASON_STOP", "FINISH_REASON_LENGTH"))

    def test_prompts_come_from_anywhere(self):
        flags = ["--temperature", "0", "--max-tokens", "4"]
        direct = self.ok("generate", "--prompt", "7+8=", *flags).stdout
        self.assertEqual(self.ok("generate", *flags, stdin="7+8=").stdout, direct)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("7+8=")
            file.flush()
            self.assertEqual(self.ok("generate", "--prompt-file", file.name, *flags).stdout, direct)
        ids = self.ok("tokenize", "--text", "7+8=", "--ids").stdout.strip()
        self.assertEqual(self.ok("generate", "--token-ids", ids, *flags).stdout, direct)

    def test_the_same_seed_gives_the_same_text(self):
        flags = ["generate", "--prompt", "abc", "--temperature", "1.5", "--max-tokens", "32",
                 "--ignore-eos"]
        first = self.ok(*flags, "--seed", "5").stdout
        self.assertEqual(self.ok(*flags, "--seed", "5").stdout, first)
        self.assertNotEqual(self.ok(*flags, "--seed", "6").stdout, first)

    def test_stats_go_to_stderr(self):
        done = self.ok("generate", "--prompt", "1", "--max-tokens", "3", "--ignore-eos", "--stats")
        self.assertIn("3 output tokens", done.stderr)
        self.assertIn("seed", done.stderr)

    def test_chat_keeps_the_conversation(self):
        once = self.ok("chat", "--message", QUESTION, "--temperature", "0").stdout.strip()
        talk = self.ok("chat", "--temperature", "0",
                       stdin=f"{QUESTION}\n/reset\n{QUESTION}\n/exit\nnever read\n").stdout
        self.assertEqual(talk.split("\n"), [once, once, ""])

    def test_tokenize_shows_ids_and_bytes(self):
        answer = json.loads(self.ok("tokenize", "--text", "hello", "--json").stdout)
        self.assertEqual(len(answer["ids"]), len(answer["tokens"]))
        self.assertIn("tokens", self.ok("tokenize", "--text", "hello").stdout)

    def test_detokenize_gives_the_text_back(self):
        ids = self.ok("tokenize", "--text", "7+8= ü", "--ids").stdout
        self.assertEqual(self.ok("detokenize", stdin=ids).stdout, "7+8= ü\n")
        self.assertEqual(self.ok("detokenize", "--ids", ids.strip()).stdout, "7+8= ü\n")
        done = self.cluster.tutti("detokenize", "--ids", "1,99999999")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("ids[1] is 99999999", done.stderr)

    def test_status_is_a_device_map(self):
        self.ok("generate", "--prompt", "1", "--max-tokens", "16", "--ignore-eos")
        status = self.cluster.status()
        self.assertTrue(status["serving"])
        stages = status["pipelines"][0]["stages"]
        with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(sum(stage["num_layers"] for stage in stages), config["num_hidden_layers"])
        self.assertEqual({stage["worker"]["worker_id"] for stage in stages}, {"w0", "w1"})
        self.assertGreater(stages[0]["activation_bytes_per_token"], 0)
        # Rows for the stage after it, as predicted.
        kept = [[int(stage[held]["kept_rows"]) for held in ("predicted", "actual")] for stage in stages]
        self.assertGreater(kept[0][0], 0)
        self.assertEqual(kept, [[kept[0][0]] * 2, [0, 0]])
        text = self.ok("status").stdout
        self.assertIn("w0", text)
        self.assertIn("serving", text)
        self.assertNotIn("\x1b", text)

    def test_refusals_name_the_field(self):
        for flags, naming in ((["--top-p", "2"], "--top-p is 2"), (["--max-tokens", "0"], "--max-tokens is 0"),
                              (["--model", "other"], "model"), (["--temperature", "-1"], "--temperature is -1")):
            with self.subTest(naming):
                done = self.cluster.tutti("generate", "--prompt", "x", *flags)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(naming, done.stderr)

    def test_a_reader_that_leaves_ends_the_request(self):
        done = subprocess.run(f"'{TUTTI}' {' '.join(LONG)} | head -n 1", shell=True, text=True,
                              capture_output=True, timeout=PATIENCE_S, env=self.cluster.env)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] == 0, "the request ends")

    def test_interrupt_cancels_and_a_deadline_ends(self):
        process = subprocess.Popen([TUTTI, *LONG], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, env=self.cluster.env)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        done = self.cluster.tutti(*LONG, "--timeout", "0.05")
        self.assertEqual(done.returncode, 4, done.stderr)
        wait_until(lambda: self.cluster.status()["pipelines"][0]["blocks_in_use"] == 0,
                   "all KV blocks are free")


class Layouts(unittest.TestCase):
    def test_the_text_does_not_depend_on_the_number_of_workers(self):
        command = " && ".join(
            [f"'{TUTTI}' generate --prompt '12+30=' --temperature 0 --max-tokens 24 --ignore-eos",
             f"'{TUTTI}' generate --prompt 'abc' --temperature 1 --seed 3 --max-tokens 24 --ignore-eos"])
        texts = set()
        for workers in (1, 3):
            done = tutti("up", "--model", DEMO, "--workers", str(workers), "--listen", "127.0.0.1:0",
                         "--threads-per-worker", "1", *KV, "--exec", command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("serving", done.stderr)
            texts.add(done.stdout)
        self.assertEqual(len(texts), 1, texts)


class NoTokenizer(unittest.TestCase):
    def test_a_checkpoint_without_tokenizer_files_serves_ids(self):
        # A mixture with a dense layer and biases, and its tokens by transformers.
        with open(os.path.join(SAVED, "golden.json"), encoding="utf-8") as file:
            golden = json.load(file)["prompts"][0]
        ids = ",".join(str(token) for token in golden["ids"])
        flags = ["--max-tokens", str(len(golden["greedy_ids"])), "--temperature", "0", "--ignore-eos", "--json"]
        cluster = Cluster("--kv-tokens", "1024", model=SAVED)
        self.addCleanup(cluster.cleanup)
        done = cluster.tutti("generate", "--token-ids", ids, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        tokens = [token["id"] for message in messages for token in message.get("tokens", [])]
        self.assertEqual(tokens, golden["greedy_ids"], done.stdout)
        refused = cluster.tutti("generate", "--prompt", "hello")
        self.assertIn("has no tokenizer files; send the prompt as token_ids", refused.stderr)


class Exec(unittest.TestCase):
    def test_the_exit_code_is_the_commands(self):
        done = tutti("up", "--model", DEMO, "--listen", "127.0.0.1:0", *KV, "--exec",
                     "echo $TUTTI_ADDRESS; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stdout, r"^127\.0\.0\.1:\d+\n$")


class BadModels(unittest.TestCase):
    def start(self, break_model):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(DEMO, model)
            break_model(model)
            return tutti("up", "--model", model, "--workers", "2", "--listen", "127.0.0.1:0")

    def refused(self, break_model, naming):
        done = self.start(break_model)
        self.assertNotIn(done.returncode, (0, 130), done.stdout)
        self.assertIn(naming, done.stderr)

    def test_a_truncated_checkpoint_is_named(self):
        def truncate(model):
            path = os.path.join(model, "model.safetensors")
            os.truncate(path, os.path.getsize(path) // 2)
        self.refused(truncate, "model.safetensors")

    def test_an_unknown_architecture_is_named(self):
        def rename(model):
            path = os.path.join(model, "config.json")
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
            config["architectures"] = ["MysteryForCausalLM"]
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
        self.refused(rename, "MysteryForCausalLM")

    def test_a_port_in_use_is_named(self):
        cluster = Cluster(*KV, workers=1)
        self.addCleanup(cluster.cleanup)
        done = tutti("up", "--model", DEMO, "--listen", cluster.address, *KV)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(cluster.address, done.stderr)


@unittest.skipUnless(shutil.which("openssl"), "no openssl program to make a certificate with")
class Tls(unittest.TestCase):
    def test_the_public_port_with_a_certificate(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        self.addCleanup(folder.cleanup)
        path = lambda name: os.path.join(folder.name, name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", path("key.pem"), "-out",
                        path("cert.pem")], check=True, capture_output=True)
        coordinator = subprocess.Popen(
            [os.path.join(BINARIES, "tutti-coordinator"), "--model", DEMO, "--listen", "localhost:0",
             "--peer-listen", f"unix:{path('peers.sock')}", "--ready-file", path("ready.json"),
             "--tls-cert", path("cert.pem"), "--tls-key", path("key.pem")],
            stderr=subprocess.DEVNULL, env=clean_environment())
        self.addCleanup(coordinator.wait)
        self.addCleanup(coordinator.kill)
        wait_until(lambda: os.path.exists(path("ready.json")), "the coordinator listens")
        with open(path("ready.json"), encoding="utf-8") as file:
            env = clean_environment(TUTTI_ADDRESS=json.load(file)["address"])
        tokenize = ["tokenize", "--text", "12", "--ids"]
        secure = tutti(*tokenize, "--tls-ca", path("cert.pem"), env=env)
        self.assertEqual(secure.returncode, 0, secure.stderr)
        self.assertEqual(tutti(*tokenize, env=env).returncode, 3)
        # Alive, but not serving: no worker has joined.
        status = tutti("status", "--tls-ca", path("cert.pem"), env=env)
        self.assertEqual(status.returncode, 3)
        self.assertIn("not serving", status.stdout)


class Failures(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(*KV)
        self.addCleanup(self.cluster.cleanup)

    def lose(self, name, number):
        """Breaks a worker while streams run through it; how they end."""
        victim = self.cluster.children()[name]
        streams = [subprocess.Popen([TUTTI, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env=self.cluster.env) for _ in range(4)]
        for stream in streams:
            self.assertTrue(stream.stdout.readline(), "no first token")
        os.kill(victim, number)
        lost_at = time.monotonic()
        ends = []
        for stream in streams:
            _, errors = stream.communicate(timeout=PATIENCE_S)
            ends.append((stream.returncode, errors, time.monotonic() - lost_at))
        return victim, ends

    def check_ends(self, ends):
        """Every stream has outlived the worker."""
        for code, errors, _ in ends:
            self.assertEqual(code, 0, errors)

    def check_serving_again(self):
        wait_until(self.cluster.serving, "serving again")
        done = self.cluster.tutti("generate", "--prompt", "1+1=", "--temperature", "0")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_streams_outlive_a_killed_worker_which_returns(self):
        for name in ("w1", "w0"):
            with self.subTest(name):
                before = self.cluster.tutti("generate", "--prompt", "5+6=", "--temperature", "0").stdout
                victim, ends = self.lose(name, signal.SIGKILL)
                self.check_ends(ends)
                wait_until(lambda: self.cluster.children().get(name, victim) != victim,
                           "the worker is started again")
                self.check_serving_again()
                after = self.cluster.tutti("generate", "--prompt", "5+6=", "--temperature", "0").stdout
                self.assertEqual(after, before)
                self.assertIn(f"{name} ended with signal 9", self.cluster.stderr())
        wait_until(lambda: "serving again" in self.cluster.stderr(), "told on stderr")

    def test_streams_outlive_a_stopped_worker(self):
        victim, ends = self.lose("w1", signal.SIGSTOP)
        self.check_ends(ends)
        os.kill(victim, signal.SIGCONT)
        self.check_serving_again()


class TheEnd(unittest.TestCase):
    def end(self, number, expected):
        cluster = Cluster(*KV)
        self.addCleanup(cluster.cleanup)
        pids = list(cluster.children().values())
        self.assertEqual(len(pids), 3)
        self.assertEqual(len(cluster.private_dirs()), 1)
        stream = subprocess.Popen([TUTTI, *LONG], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, env=cluster.env)
        stream.stdout.readline()
        self.assertEqual(cluster.stop(number), expected)
        stream.communicate(timeout=PATIENCE_S)
        wait_until(lambda: gone(pids), "no process is left", timeout=5 * SLOWNESS)
        return cluster

    def test_ctrl_c_and_sigterm_leave_nothing(self):
        for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
            with self.subTest(number):
                cluster = self.end(number, expected)
                self.assertEqual(cluster.private_dirs(), [])
                self.assertFalse(os.path.exists(cluster.ready))

    def test_even_kill_9_leaves_no_process(self):
        self.end(signal.SIGKILL, -signal.SIGKILL)

    def test_stopped_children_are_killed(self):
        cluster = Cluster(*KV)
        self.addCleanup(cluster.cleanup)
        pids = list(cluster.children().values())
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        self.assertEqual(cluster.stop(signal.SIGINT), 130)
        self.assertLess(time.monotonic() - started, 10 * SLOWNESS)
        self.assertTrue(gone(pids))


class Logs(unittest.TestCase):
    def test_every_request_leaves_a_line_and_every_line_is_json(self):
        with tempfile.TemporaryDirectory(prefix="tutti-logs-") as folder:
            cluster = Cluster(*KV, "--log-dir", folder, "--log-format", "json", "--public-role", "gateway")
            self.addCleanup(cluster.cleanup)
            ask = ["generate", "--prompt", "12+30=", "--max-tokens", "8", "--ignore-eos"]
            done = cluster.tutti(*ask, "--request-id", "mine", "--tenant", "a shop")
            self.assertEqual(done.returncode, 0, done.stderr)
            done = cluster.tutti(*ask, "--request-id", "wrong", "--top-p", "3")
            self.assertNotEqual(done.returncode, 0)
            cluster.stop()
            lines = []
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    lines += [json.loads(line) for line in file]
            for line in lines:
                self.assertLessEqual({"time", "level", "process", "message"}, line.keys())
            self.assertLessEqual({"coordinator", "w0", "w1"}, {line["process"] for line in lines})
            ends = {line["request_id"]: line for line in lines if line["message"] == "request ended"}
            self.assertEqual(ends.keys(), {"mine", "wrong"})
            mine = ends["mine"]
            self.assertEqual((mine["tokens"], mine["outputs"], mine["end"]), (8, 1, "length"))
            self.assertGreater(mine["total_ms"], 0)
            self.assertRegex(mine["tenant"], "^[0-9a-f]{16}$")
            self.assertEqual(ends["wrong"]["end"], "INVALID_ARGUMENT")
            self.assertIn("top_p", ends["wrong"]["why"])
            self.assertNotIn("a shop", json.dumps(lines), "the name of a tenant is never logged")


if __name__ == "__main__":
    unittest.main(verbosity=2)
