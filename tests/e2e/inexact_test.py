#!/usr/bin/env python3
"""The class of cuBLASLt in real processes, on emulated GPUs and with a library of ours in the place of NVIDIA's: it serves
where it is named, says everywhere that it is not exact, and an answer goes on elsewhere only where its client agrees.

By hand:  TUTTI_BINARY_DIR=build/release /usr/bin/python3 tests/e2e/inexact_test.py
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from harness import (BINARIES, DEMO, EMULATED, HAS_EMULATED_GPUS, PATIENCE_S, SOURCE, Cluster, clean_environment, read_line,
                     wait_until)

sys.path[:0] = [os.path.join(SOURCE, "client", "python"), os.path.join(SOURCE, "tests", "faults")]
import stubs
import tutti as client_package

CLASS = "cuda-emulated-cublas"
LIBRARY = os.path.join(EMULATED, "libtutti_cublaslt_testing.so")
INFERENCE = "/tutti.v1.Inference/"
# An emulated GPU is slow, and slower beside other work.
PATIENT = client_package.RetryPolicy(tries=1000, total_s=5 * PATIENCE_S, max_delay_s=0.2)
TOKENS = 60
LONG = {"prompt": "Tell me something: ", "max_tokens": TOKENS, "temperature": 0.0, "seed": 1, "ignore_eos": True}
LONG_COMMAND = ["generate", "--prompt", LONG["prompt"], "--max-tokens", str(TOKENS), "--temperature", "0", "--ignore-eos",
                "--json"]


def settings(library):
    return {"TUTTI_PLUGIN_DIR": EMULATED, "EMULATED_GPUS": "3", "TUTTI_CUBLASLT_LIBRARY": library}


@unittest.skipUnless(HAS_EMULATED_GPUS, "this preset has no emulated GPUs")
class Inexact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.messages = stubs.load().generation
        logs = tempfile.TemporaryDirectory(prefix="tutti-inexact-")
        cls.addClassCleanup(logs.cleanup)
        cls.logs = logs.name
        cls.cluster = Cluster("--device", "cuda", "--numerics-class", CLASS, "--pipeline-parallel-size", "2", "--kv-tokens",
                              "4096", "--log-dir", cls.logs, settings=settings(LIBRARY))
        cls.addClassCleanup(cls.cluster.cleanup)
        cls.channel = grpc.insecure_channel(cls.cluster.address)
        cls.addClassCleanup(cls.channel.close)

    def setUp(self):
        wait_until(self.cluster.serving, "the cluster serves")

    def begin(self, request):
        call = self.channel.unary_stream(INFERENCE + "Generate", self.messages.GenerateRequest.SerializeToString,
                                         self.messages.GenerateResponse.FromString)
        return call(request, timeout=5 * PATIENCE_S)

    def kill_coordinator(self):
        os.kill(self.cluster.children()["coordinator"], signal.SIGKILL)

    def test_everybody_is_told(self):
        ask = self.channel.unary_unary(INFERENCE + "GetModel", self.messages.GetModelRequest.SerializeToString,
                                       self.messages.GetModelResponse.FromString)
        model = ask(self.messages.GetModelRequest(), timeout=PATIENCE_S, wait_for_ready=True)
        self.assertEqual(model.numerics_class, CLASS)
        self.assertTrue(model.HasField("exact"))
        self.assertFalse(model.exact)
        for pipeline in self.cluster.status()["pipelines"]:
            self.assertEqual((pipeline["numerics_class"], pipeline.get("exact")), (CLASS, False))
        text = " ".join(self.cluster.tutti("status").stdout.split())
        self.assertIn(f"numerics: {CLASS}, the operator's word (--numerics-class); not exact", text)
        for worker in ("w0", "w1"):
            with open(os.path.join(self.logs, worker + ".log"), encoding="utf-8") as file:
                self.assertRegex(file.read(), r"cuBLASLt \d+\.\d+")

    def test_prompts_of_many_rows_are_answered(self):
        with client_package.Client(self.cluster.address, retry=PATIENT) as client:
            answer = client.complete(token_ids=[(7 * i) % 500 for i in range(200)], max_tokens=4, ignore_eos=True)
            self.assertEqual(len(answer.outputs[0].tokens), 4)
            self.assertEqual(answer.started.numerics_class, CLASS)

    def test_a_resume_asks_for_consent(self):
        request = self.messages.GenerateRequest(text=LONG["prompt"])
        request.sampling.max_tokens = TOKENS
        request.sampling.ignore_eos = True
        request.sampling.temperature = 0
        call, ids, token = self.begin(request), [], b""
        for message in call:
            token = token or message.started.resume_token
            ids += [one.id for one in message.tokens]
            if len(ids) >= 5:
                break
        call.cancel()
        request.resume.token = token
        request.resume.outputs.add(ids=ids)
        with self.assertRaises(grpc.RpcError) as refused:
            list(self.begin(request))
        self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        for words in (CLASS, "not exact", "resume.allow_inexact"):
            self.assertIn(words, refused.exception.details())
        request.resume.allow_inexact = True
        rest = list(self.begin(request))
        self.assertEqual([m.index for m in rest if m.tokens][0], len(ids))
        self.assertEqual(sum(len(m.tokens) for m in rest), TOKENS - len(ids))
        self.assertEqual(rest[-1].finish.usage.completion_tokens, TOKENS)

    def read_over_a_kill(self, **agreed):
        tokens = []
        with client_package.Client(self.cluster.address, retry=PATIENT, **agreed) as client:
            with client.generate(**LONG) as stream:
                for chunk in stream:
                    if not tokens:
                        self.kill_coordinator()
                    tokens += chunk.tokens
        return tokens

    def test_the_python_client_goes_on_only_when_it_agrees(self):
        with self.assertRaisesRegex(client_package.TuttiError, "FAILED_PRECONDITION: .*not exact"):
            self.read_over_a_kill()
        wait_until(self.cluster.serving, "the cluster serves again")
        self.assertEqual(len(self.read_over_a_kill(allow_inexact=True)), TOKENS)

    def test_the_command_goes_on_only_when_it_agrees(self):
        for agreed in ([], ["--allow-inexact"]):
            wait_until(self.cluster.serving, "the cluster serves")
            call = subprocess.Popen([os.path.join(BINARIES, "tutti"), *LONG_COMMAND, *agreed], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env=self.cluster.env)
            lines = [read_line(call)]
            self.kill_coordinator()
            out, err = call.communicate(timeout=5 * PATIENCE_S)
            if not agreed:
                self.assertNotEqual(call.returncode, 0)
                self.assertIn("not exact", err.decode())
                continue
            self.assertEqual(call.returncode, 0, err.decode())
            lines += out.decode().splitlines()
            self.assertEqual(sum(len(json.loads(line)["tokens"]) for line in lines), TOKENS)

    def test_a_worker_without_a_library_that_will_do_says_so(self):
        for library, why in ((os.path.join(EMULATED, "none.so"), "cuBLASLt cannot be opened"),
                             (LIBRARY.replace("_testing", "_old_testing"), "or newer is needed"),
                             (LIBRARY.replace("_testing", "_broken_testing"), "has no function cublasLtMatmul")):
            done = subprocess.run([os.path.join(BINARIES, "tutti-worker"), "--model", DEMO, "--worker-id", "other", "--device",
                                   "cuda", "--numerics-class", CLASS], capture_output=True, text=True, timeout=PATIENCE_S,
                                  env=clean_environment(TMPDIR=self.logs, XDG_RUNTIME_DIR="", **settings(library)),
                                  check=False)
            self.assertNotEqual(done.returncode, 0, library)
            self.assertIn(why, done.stderr)
            self.assertIn(f'numerics class "{CLASS}"', done.stderr)


if __name__ == "__main__":
    unittest.main()
