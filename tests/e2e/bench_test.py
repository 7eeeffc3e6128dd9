#!/usr/bin/env python3
"""tutti bench against real clusters: answers are the same on every layout, and what one turn computed
the next one finds.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/bench_test.py
"""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, TUTTI, Cluster, clean_environment, tutti, wait_until

CHATS = 32
# Chats that are long enough for whole KV blocks to be most of them, and short enough for a test.
ASK = ["--chats", str(CHATS), "--turns", "2", "--history", "8", "--max-tokens", "16"]
NOBODY = "127.0.0.1:1"


def found_again(report):
    """Of the tokens that first turns computed and second turns repeat, the share found in the cache."""
    second = report["turns"][1]
    return second["cached_tokens"] / second["repeated_tokens"]


class OneVoice(unittest.TestCase):
    def test_two_pipelines_of_two_stages_answer_as_one_process_does(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "one.jsonl")
            alone = Cluster(workers=1)
            self.addCleanup(alone.cleanup)
            done = alone.tutti("bench", "--concurrency", "8", *ASK, "--record", recording, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["answered"], 2 * CHATS)
            self.assertGreaterEqual(found_again(report), 0.9)
            alone.stop()

            # A busy machine must not lose a worker here: its cache would be lost with it.
            cluster = Cluster("--pipelines", "2", "--lease-ms", "60000", workers=4)
            self.addCleanup(cluster.cleanup)
            status = cluster.status()
            self.assertEqual([len(pipeline["stages"]) for pipeline in status["pipelines"]], [2, 2])
            # All at once: conversations move where that is quicker, and no answer may change by it.
            done = cluster.tutti("bench", "--rate", "200", *ASK, "--compare", recording, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["failures"], {})
            self.assertEqual(report["compared"],
                             {"equal": 2 * CHATS, "different": 0, "missing": 0, "unknown": 0})
            for pipeline in cluster.status()["pipelines"]:
                self.assertGreater(int(pipeline["steps"]), 0, "one pipeline did all the work")
            # With room to spare a conversation goes back to where it is held.
            done = cluster.tutti("bench", "--concurrency", "1", "--chats", "6", "--turns", "2",
                                 "--history", "8", "--max-tokens", "16", "--seed", "2", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreaterEqual(found_again(json.loads(done.stdout)), 0.9)
            wait_until(lambda: all(pipeline["blocks_in_use"] == 0
                                   for pipeline in cluster.status()["pipelines"]),
                       "no block is in use")
            cluster.stop()


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(workers=1)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.cleanup()

    def test_the_demo_model_knows_its_answers(self):
        questions = os.path.join(DEMO, "questions.json")
        done = self.cluster.tutti("bench", "--concurrency", "8", "--chats", "40", "--questions",
                                  questions, "--verify", "--verify-share", "1")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("answers right: 40 of 40", done.stdout)
        done = self.cluster.tutti("bench", "--concurrency", "8", "--chats", "40", "--max-tokens", "1",
                                  "--questions", questions, "--verify")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--verify wants 90.0 %", done.stderr)

    def test_other_answers_than_recorded_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "answers.jsonl")
            ask = ["bench", "--concurrency", "4", "--chats", "6"]
            self.assertEqual(self.cluster.tutti(*ask, "--record", recording).returncode, 0)
            self.assertEqual(self.cluster.tutti(*ask, "--compare", recording).returncode, 0)
            with open(recording, encoding="utf-8") as file:
                lines = file.read().splitlines()
            answer = json.loads(lines[3])
            answer["ids"][0] += 1
            with open(recording, "w", encoding="utf-8") as file:
                file.write("\n".join([*lines[:3], json.dumps(answer), *lines[4:]]) + "\n")
            done = self.cluster.tutti(*ask, "--compare", recording)
            self.assertEqual(done.returncode, 1)
            self.assertIn("chat 2, turn 1, position 0", done.stderr)
            done = self.cluster.tutti(*ask, "--seed", "2", "--compare", recording)
            self.assertEqual(done.returncode, 2)
            self.assertIn("answers other requests", done.stderr)

    def test_random_tokens_and_traces(self):
        done = self.cluster.tutti("bench", "--rate", "100", "--chats", "10", "--turns", "2",
                                  "--input-tokens", "40", "--shared-tokens", "32", "--max-tokens", "4",
                                  "--slo-ttft-ms", "60000", "--slo-itl-ms", "60000", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual([turn["prompt_tokens"] for turn in report["turns"]], [400, 840])
        self.assertEqual(report["output_tokens"], 80)
        self.assertEqual(report["good"], 20)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for at in (0, 5, 9):
                file.write(json.dumps({"timestamp": at, "input_length": 1024, "output_length": 96,
                                       "hash_ids": [1, 2 + at]}) + "\n")
            file.flush()
            replay = ["bench", "--trace", file.name, "--trace-block", "32", "--json"]
            done = self.cluster.tutti(*replay)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(report["prompts"]["prompt_tokens"], 3 * 64)
            self.assertEqual(report["output_tokens"], 3 * 6)
            file.write('{"timestamp": 8}\n')
            file.flush()
            done = self.cluster.tutti(*replay)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{file.name}:4: input_length is missing", done.stderr)

    def test_an_interrupt_prints_what_there_is(self):
        process = subprocess.Popen(
            [TUTTI, "bench", "--address", self.cluster.address, "--concurrency", "2", "--duration",
             "3600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=clean_environment())
        wait_until(lambda: int(self.cluster.status()["requests"]["generated_tokens"]) > 0,
                   "the load begins")
        accepted = int(self.cluster.status()["requests"]["accepted"])
        wait_until(lambda: int(self.cluster.status()["requests"]["accepted"]) > accepted + 3,
                   "the load goes on")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted; ", out)
        self.assertIn("first token, ms", out)

    def test_several_outputs_are_told_apart(self):
        done = self.cluster.tutti("generate", "--prompt", "x", "--outputs", "2", "--max-tokens", "2",
                                  "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--- output 0, seed 7\n", done.stdout)
        self.assertIn("--- output 1, seed 8\n", done.stdout)


    def test_conversations_of_others_are_asked_and_told_as_vllm_does(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for number in range(3):
                file.write(json.dumps({"conversations": [{"from": "human", "value": f"What is 12 + {number}?"},
                                                         {"from": "gpt", "value": "?"}]}) + "\n")
            file.flush()
            done = self.cluster.tutti("bench", "--concurrency", "2", "--chats", "6", "--questions", file.name,
                                      "--max-tokens", "4", "--as-vllm")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = dict(line.split(":") for line in done.stdout.splitlines() if ":" in line)
        self.assertEqual(told["Successful requests"].strip(), "6")
        self.assertEqual(told["Maximum request concurrency"].strip(), "2")
        self.assertEqual(float(told["Peak concurrent requests"]), 2)
        self.assertGreater(float(told["Peak output token throughput (tok/s)"]), 0)


class Refusals(unittest.TestCase):
    def test_are_asked_again_when_the_service_says(self):
        cluster = Cluster("--max-waiting", "1", "--max-num-seqs", "1", workers=1)
        self.addCleanup(cluster.cleanup)
        ask = ["bench", "--concurrency", "8", "--chats", "16", "--max-tokens", "24", "--ignore-eos", "--json"]
        done = cluster.tutti(*ask, "--back-off", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(set(report["failures"]), {"RESOURCE_EXHAUSTED"})
        self.assertEqual(report["refusals"], 0)
        done = cluster.tutti(*ask)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["answered"], report["failures"]), (16, {}))
        self.assertGreater(report["refusals"], 0)
        self.assertEqual(report["most_at_once"], 8)


class Waiting(unittest.TestCase):
    def test_for_a_service_that_starts_later(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        bench = subprocess.Popen([TUTTI, "bench", "--address", address, "--ready-within", str(PATIENCE_S), "--concurrency", "1",
                                  "--chats", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
        self.addCleanup(bench.kill)
        self.assertEqual(bench.stderr.readline(), "waiting for the service to be reached\n")
        up = subprocess.Popen([TUTTI, "up", "--model", DEMO, "--threads-per-worker", "1", "--listen", address, "--http", "off"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
        try:
            out, err = bench.communicate(timeout=PATIENCE_S)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait()
        self.assertEqual(bench.returncode, 0, err)
        self.assertIn("1 requests answered", out)


class Speculation(unittest.TestCase):
    def test_counts_what_the_text_says_and_times_those_beside_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as script:
            text = "12 + 30 is 42, and 12 + 31 is 43, and 12 + 32 is 44; "
            script.write(json.dumps({"name": "again", "prompt": text, "answer": text + text}) + "\n")
            script.flush()
            done = subprocess.run([os.path.join(BINARIES, "tutti-bench"), "speculation", "--model", DEMO, "--script", script.name,
                                   "--any-time", "--beside", "3", "--rounds", "1"], capture_output=True, text=True,
                                  timeout=PATIENCE_S, env=clean_environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        right, alone = re.search(r", (\d+) of \d+ guesses right \(by the text alone (\d+) of", done.stdout).groups()
        self.assertEqual(right, alone)
        self.assertGreater(int(right), 10)
        gaps = re.search(r"3 beside them: ms between tokens ([\d.]+) without, ([\d.]+) with, .* ratio of medians ([\d.]+)", done.stdout)
        self.assertIsNotNone(gaps, done.stdout)
        self.assertGreater(float(gaps[3]), 0)


class BadFlags(unittest.TestCase):
    def test_are_named_before_anybody_is_asked(self):
        for arguments, words in (
                ([], "--rate, --concurrency and --trace"),
                (["--rate", "1", "--concurrency", "1"], "--rate, --concurrency and --trace"),
                (["--rate", "1"], "--chats or --duration"),
                (["--rate", "0", "--chats", "1"], "--rate"),
                (["--trace", "x", "--turns", "2"], "--turns"),
                (["--rate", "1", "--chats", "1", "--input-tokens", "5", "--shared-tokens", "6"],
                 "--shared-tokens"),
                (["--rate", "1", "--chats", "1", "--input-tokens", "5", "--verify"], "--verify"),
                (["--rate", "1", "--chats", "1", "--verify-share", "2"],
                 "--verify-share")):
            with self.subTest(arguments):
                done = tutti("bench", "--address", NOBODY, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)

    def test_missing_files_and_services_are_named(self):
        for arguments, words, code in (
                (["--trace", "/nonexistent.jsonl"], "/nonexistent.jsonl", 2),
                (["--rate", "1", "--chats", "1", "--compare", "/nonexistent"], "/nonexistent", 2),
                (["--rate", "1", "--chats", "1"], NOBODY, 3)):
            with self.subTest(arguments):
                done = tutti("bench", "--address", NOBODY, *arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
