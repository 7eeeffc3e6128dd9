#!/usr/bin/env python3
"""Answers outlive the coordinator: it is killed with SIGKILL while `tutti generate` streams, again and again, and every
answer is that of an undisturbed run, no token twice and none missing."""
import json
import os
import random
import signal
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, TUTTI, clean_environment, read_line, tutti, wait_until

KILLS = int(os.environ.get("TUTTI_RESUME_KILLS", "10"))
QUESTION = ["generate", "--prompt", "Tell me something: ", "--max-tokens", "400", "--ignore-eos", "--json",
            "--top-logprobs", "2"]


def describe(lines):
    """What a cut must not change: ids and log-probabilities by output, text, and how each ended."""
    outputs = {}
    for line in lines:
        message = json.loads(line)
        output = outputs.setdefault(message["output"], {"tokens": [], "text": "", "finish": None})
        if message["tokens"]:
            assert message["index"] == len(output["tokens"]), f"index {message['index']} of {len(output['tokens'])}"
        output["tokens"] += [(t["id"], t["logprob"], str(t["top"])) for t in message["tokens"]]
        output["text"] += message["text"]
        finish = message.get("finish")
        if finish:
            output["finish"] = (finish["reason"], finish["stop"], finish["seed"],
                                finish["usage"]["prompt_tokens"], finish["usage"]["completion_tokens"])
    return outputs


class ResumeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-resume-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        secret = os.path.join(self.folder, "secret")
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.common = ["--model", DEMO, "--cluster-secret-file", secret]
        self.address = "127.0.0.1:0"
        self.coordinator = None
        self.start_coordinator()
        for name, peer in (("w0", "w1"), ("w1", "w0")):
            self.run_program(name, "tutti-worker", "--worker-id", name, "--coordinator", self.socket("peers"),
                             "--listen", self.socket(name), "--peer", f"{peer}={self.socket(peer)}", "--threads", "1",
                             "--memory", "512MiB", "--speed", "off")
        wait_until(self.serving, "it serves")

    def socket(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def run_program(self, name, program, *arguments):
        log = open(os.path.join(self.folder, name + ".log"), "a", encoding="utf-8")
        process = subprocess.Popen([os.path.join(BINARIES, program), *self.common, *arguments], stdout=log, stderr=log,
                                   env=clean_environment())
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_coordinator(self):
        """The first one chooses a port, those after it take the same."""
        ready = os.path.join(self.folder, "ready.json")
        if os.path.exists(ready):
            os.unlink(ready)
        self.coordinator = self.run_program(
            "coordinator", "tutti-coordinator", "--listen", self.address, "--peer-listen", self.socket("peers"),
            "--ready-file", ready, "--kv-tokens", "8192", "--pipeline-parallel-size", "2", "--drain-timeout", "0")
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            self.address = json.load(file)["address"]
        self.env = clean_environment(TUTTI_ADDRESS=self.address)

    def status(self):
        done = tutti("status", "--json", env=self.env)
        return json.loads(done.stdout) if done.stdout else {}

    def serving(self):
        return self.status().get("serving")

    def begin(self, *arguments):
        return subprocess.Popen([TUTTI, *QUESTION, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.env)

    def end(self, process, lines):
        out, err = process.communicate(timeout=1.5 * PATIENCE_S)
        self.assertEqual(process.returncode, 0, err.decode())
        return lines + out.decode().splitlines()

    def undisturbed(self, *arguments):
        return describe(self.end(self.begin(*arguments), []))

    def kill_coordinator(self):
        self.coordinator.send_signal(signal.SIGKILL)
        self.coordinator.wait()

    def test_the_coordinator_dies_and_every_answer_is_the_undisturbed_one(self):
        seed = int(os.environ.get("TUTTI_SEED", "1"))
        draw = random.Random(seed)
        kinds = [("--temperature", "0", "--seed", "4"), ("--temperature", "2", "--seed", "5", "--frequency-penalty", "0.5"),
                 ("--temperature", "2", "--seed", "6", "--outputs", "3")]
        expected = [self.undisturbed(*kind) for kind in kinds]
        different = 0
        for kill in range(KILLS):
            calls = [self.begin(*kind) for kind in kinds]
            # All are past their first token, some far.
            lines = [[read_line(call).strip() for _ in range(draw.randrange(1, 60))] for call in calls]
            self.kill_coordinator()
            self.start_coordinator()
            for call, kind, got, right in zip(calls, kinds, lines, expected):
                if describe(self.end(call, got)) != right:
                    different += 1
                    print(f"kill {kill} (TUTTI_SEED={seed}): {kind} differs")
        print(f"{KILLS} kills, {KILLS * len(kinds)} streams, 0 lost, {different} different")
        self.assertEqual(different, 0)
        self.assertGreater(int(self.status()["requests"]["resumed"]), 0)

    def test_without_it_the_answer_ends_with_the_coordinator(self):
        call = self.begin("--resume-within", "0")
        read_line(call)
        self.kill_coordinator()
        _, err = call.communicate(timeout=1.5 * PATIENCE_S)
        self.assertEqual(call.returncode, 3, err.decode())


if __name__ == "__main__":
    unittest.main()
