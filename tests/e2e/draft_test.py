#!/usr/bin/env python3
"""A draft model in real processes: whatever it says, answers are those of a service without one, bit for bit; it is held where
the plan says, to the byte; and one that cannot be right is refused before anything is loaded.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/draft_test.py
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import DEMO, TUTTI, Cluster, read_line, tutti, wait_until

ASK = ["generate", "--prompt", "Tell me about Bogota and four other places. ", "--max-tokens", "160", "--ignore-eos",
       "--top-logprobs", "2", "--json"]
WAYS = ([], ["--temperature", "0.9", "--seed", "11"],
        ["--temperature", "1.2", "--seed", "3", "--top-p", "0.9", "--repetition-penalty", "1.1", "--outputs", "2"])


def tokens_of(text):
    """Every token with all that is reported of it, by output."""
    outputs = {}
    for line in text.splitlines():
        message = json.loads(line)
        outputs.setdefault(message.get("output", 0), []).extend(message.get("tokens", ()))
    return outputs


def answers(cluster, *flags):
    found = []
    for way in WAYS:
        done = cluster.tutti(*ASK, *way, *flags)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        found.append(tokens_of(done.stdout))
    return found


def guessed_by_draft(cluster):
    guessed = right = 0
    for pipeline in cluster.status()["pipelines"]:
        for source in pipeline.get("guess_sources", ()):
            if source["source"] == "draft":
                guessed += int(source.get("guessed_tokens", 0))
                right += int(source.get("right_tokens", 0))
    return guessed, right


class Draft(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        cls.addClassCleanup(cls.folder.cleanup)
        # Often right, and not always.
        cls.coarse = os.path.join(cls.folder.name, "coarse")
        done = tutti("quantize", DEMO, cls.coarse, "--scheme", "int4-g32")
        assert done.returncode == 0, done.stderr
        plain = Cluster("--kv-tokens", "8192", "--speculation", "off", workers=1)
        try:
            cls.plain = answers(plain)
        finally:
            plain.stop()
            plain.cleanup()

    def serve(self, *flags, draft=DEMO, workers=1):
        cluster = Cluster("--kv-tokens", "8192", "--draft-model", draft, *flags, workers=workers)
        self.addCleanup(cluster.cleanup)
        self.addCleanup(cluster.stop)
        return cluster

    def test_answers_are_the_same_and_memory_is_as_planned(self):
        for draft, layout, workers in ((DEMO, (), 1), (self.coarse, (), 1),
                                       (self.coarse, ("--pipeline-parallel-size", "2"), 2),
                                       (self.coarse, ("--tensor-parallel-size", "2"), 2)):
            with self.subTest(draft=draft, layout=layout):
                cluster = self.serve(*layout, draft=draft, workers=workers)
                self.assertEqual(answers(cluster), self.plain)
                for pipeline in cluster.status()["pipelines"]:
                    for stage in pipeline["stages"]:
                        for kind in ("weights", "kv", "activations"):
                            self.assertEqual(stage["actual"][kind], stage["predicted"][kind], (kind, stage))
                guessed, right = guessed_by_draft(cluster)
                # A model as large as this one is hardly worth its time: it may be asked only to learn what that is.
                self.assertGreater(right, 0)
                # One that is the model itself draws as the model does: what it says is wrong only where penalties count.
                if draft == DEMO:
                    self.assertGreater(right / guessed, 0.8)
                # A request that wants none has none, and one that wants the text's own has those alone.
                for mode in ("off", "lookup"):
                    self.assertEqual(answers(cluster, "--speculation", mode), self.plain)
                self.assertEqual(guessed_by_draft(cluster)[0], guessed)

    def test_the_worker_that_holds_it_is_killed_and_nothing_changes(self):
        cluster = self.serve("--pipeline-parallel-size", "2", draft=self.coarse, workers=2)
        stages = cluster.status()["pipelines"][0]["stages"]
        last = max(stages, key=lambda stage: int(stage.get("stage", 0)))["worker"]["worker_id"]
        with subprocess.Popen([TUTTI, *ASK, *WAYS[1]], env=cluster.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as asking:
            first = read_line(asking)
            os.kill(cluster.children()[last], signal.SIGKILL)
            rest, errors = asking.communicate()
        self.assertEqual(asking.returncode, 0, errors)
        self.assertEqual(tokens_of(first + rest.decode()), self.plain[1])
        wait_until(cluster.serving, "it serves again")
        before = guessed_by_draft(cluster)[0]
        self.assertEqual(answers(cluster), self.plain)
        self.assertGreater(guessed_by_draft(cluster)[0], before, "the worker that came back drafts")

    def test_what_cannot_be_right_is_refused_at_start(self):
        other = os.path.join(self.folder.name, "other")
        shutil.copytree(DEMO, other)
        with open(os.path.join(other, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["added_tokens"][0]["content"] = "<|another|>"
        with open(os.path.join(other, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        bare = os.path.join(self.folder.name, "bare")
        os.mkdir(bare)
        shutil.copy(os.path.join(DEMO, "config.json"), bare)
        for flags, words in ((("--draft-model", other), "a draft model has the model's own vocabulary"),
                             (("--draft-model", bare), "--draft-model: "),
                             (("--draft-model", "/nowhere"), "--draft-model: "),
                             (("--draft-model", "Nobody/Nothing"), "hf download Nobody/Nothing"),
                             (("--speculation", "draft"), "needs a --draft-model")):
            with self.subTest(flags):
                done = tutti("up", "--model", DEMO, "--workers", "1", "--listen", "127.0.0.1:0", "--http", "off", *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)

    def test_a_request_for_drafts_is_refused_where_there_are_none(self):
        cluster = Cluster("--kv-tokens", "4096", workers=1)
        self.addCleanup(cluster.cleanup)
        self.addCleanup(cluster.stop)
        done = cluster.tutti(*ASK, "--speculation", "draft")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("draft", done.stderr)
        self.assertIn("--draft-model", done.stderr)

    def test_the_plan_counts_it(self):
        plans = []
        for flags in ((), ("--draft-model", self.coarse)):
            done = tutti("plan", "--model", DEMO, "--devices", "2x64MiB", "--max-num-seqs", "4", "--json", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            plans.append(json.loads(done.stdout)["pipelines"][0]["stages"])
        of_last = [plan[-1]["ranks"][0] for plan in plans]
        self.assertGreater(of_last[1]["weight_bytes"], of_last[0]["weight_bytes"])
        done = tutti("plan", "--model", DEMO, "--devices", "1x1MiB", "--draft-model", "/nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--draft-model", done.stderr)


if __name__ == "__main__":
    unittest.main()
