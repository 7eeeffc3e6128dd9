#!/usr/bin/env python3
"""The command line without a cluster: help, flags, plan, and the errors when no service is there.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/cli_test.py
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import memory
from harness import BINARIES, DEMO, PATIENCE_S, TESTDATA, TUTTI, clean_environment, tutti

COMMANDS = ["up", "generate", "chat", "status", "plan", "tokenize", "detokenize", "bench", "lookup", "drain"]
NOBODY = "127.0.0.1:1"

# Runs a command; what it took, as JSON. In a process of its own: the largest of all children counts.
MEASURED = """
import json, resource, subprocess, sys, time
begin = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(json.dumps({"code": done.returncode, "stderr": done.stderr, "seconds": time.monotonic() - begin,
                  "kib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))
"""


class Help(unittest.TestCase):
    def test_every_command_explains_itself_with_examples(self):
        for command in COMMANDS:
            with self.subTest(command):
                done = tutti(command, "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("Examples:", done.stdout)
                self.assertIn(f"tutti {command}", done.stdout)
                self.assertRegex(done.stdout, "Exit codes: 0 ")
                self.assertNotIn("\x1b", done.stdout)
        for daemon in ["tutti-coordinator", "tutti-worker"]:
            done = subprocess.run([os.path.join(BINARIES, daemon), "--help"], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, "Exit codes: 0 ")

    def test_root_lists_the_commands(self):
        done = tutti("--help")
        self.assertEqual(done.returncode, 0)
        for command in COMMANDS:
            self.assertIn(command, done.stdout)
        self.assertIn('tutti chat --message "', done.stdout)
        self.assertNotIn("12+30=", done.stdout)

    def test_version(self):
        done = tutti("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^\d+\.\d+\.\d+")


class BadFlags(unittest.TestCase):
    def refused(self, *arguments, naming, stdin=""):
        done = tutti(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(naming, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_are_named(self):
        self.refused(naming="a command is required")
        self.refused("frobnicate", naming="frobnicate")
        self.refused("generate", "--temprature", "1", naming="--temprature")
        self.refused("generate", "--prompt", "x", "--temperature", "warm", naming="--temperature")
        self.refused("generate", "--prompt", "x", "--token-ids", "1", naming="--token-ids")
        self.refused("generate", "--token-ids", "1,x", naming='"x" is not a token id')
        self.refused("generate", "--prompt", "x", "--logit-bias", "7", naming="--logit-bias")
        self.refused("generate", "--prompt", "x", "--address", "nohost", naming="no port")
        self.refused("up", naming="--model")
        self.refused("up", "--model", "/nonexistent", naming='"/nonexistent" is no folder')
        self.refused("up", "--model", DEMO, "--workers", "0", naming="--workers")
        self.refused("up", "--model", DEMO, "--memory-per-worker", "2 parsecs", naming="parsecs")
        self.refused("plan", "--model", DEMO, naming="--devices")
        self.refused("plan", "--model", DEMO, "--devices", "2x24Gib,x", naming='"x"')
        self.refused("plan", "--model", DEMO, "--devices", "1x24Gibberish", naming="Gibberish")

    def test_a_config_file_with_an_unknown_key_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("[generate]\ntemprature = 1\n")
            file.flush()
            self.refused("--config", file.name, "generate", "--prompt", "x", naming="temprature")
        self.refused("--config", "/nonexistent.toml", "generate", "--prompt", "x",
                     naming="/nonexistent.toml")

    def test_too_large_a_prompt_is_refused(self):
        self.refused("generate", "--address", NOBODY, stdin="x" * (17 << 20), naming="larger than")


class Certificates(unittest.TestCase):
    def test_a_secret_for_kubernetes(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = os.path.join(folder, "certs")
            self.assertEqual(tutti("certs", "init", authority).returncode, 0)
            done = tutti("certs", "issue", "tutti", "--role", "coordinator", "--host", "tutti-0.tutti-pods", "--authority", authority,
                         "--kubernetes", "tutti-tls")
            self.assertEqual(done.returncode, 0, done.stderr)
            secret = json.loads(done.stdout)
            self.assertEqual([secret["kind"], secret["metadata"], secret["type"]], ["Secret", {"name": "tutti-tls"}, "kubernetes.io/tls"])
            self.assertEqual(sorted(secret["stringData"]), ["ca.crt", "tls.crt", "tls.key"])
            for name, text in secret["stringData"].items():
                with open(os.path.join(authority, "tutti", name), encoding="utf-8") as file:
                    self.assertEqual(text, file.read(), name)


class NobodyServes(unittest.TestCase):
    def test_the_address_is_named(self):
        for arguments in (["generate", "--prompt", "x"], ["chat", "--message", "x"], ["status"],
                          ["tokenize", "--text", "x"]):
            with self.subTest(arguments[0]):
                done = tutti(*arguments, "--address", NOBODY)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(NOBODY, done.stderr)

    def test_the_environment_and_the_file_name_it_too(self):
        done = tutti("status", env=clean_environment(TUTTI_ADDRESS=NOBODY))
        self.assertIn(NOBODY, done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(f'[status]\naddress = "{NOBODY}"\n')
            file.flush()
            done = tutti("--config", file.name, "status")
            self.assertIn(NOBODY, done.stderr)
            done = tutti("--config", file.name, "status",
                         env=clean_environment(TUTTI_ADDRESS="127.0.0.1:2"))
            self.assertIn("127.0.0.1:2", done.stderr)


class Plan(unittest.TestCase):
    def plan(self, *arguments):
        done = tutti("plan", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_demo_from_config_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(DEMO, "config.json"), folder)
            plan = self.plan("--model", folder, "--devices", "2x64MiB")
        self.assertEqual([stage["first_layer"] for stage in plan["pipelines"][0]["stages"]][0], 0)
        self.assertEqual(sum(stage["num_layers"] for stage in plan["pipelines"][0]["stages"]), plan["num_layers"])
        for stage in plan["pipelines"][0]["stages"]:
            for rank in stage["ranks"]:
                self.assertLessEqual(rank["peak_bytes"], rank["budget_bytes"])
                self.assertEqual(rank["peak_bytes"], rank["weight_bytes"] + rank["kv_bytes"] +
                                 rank["activation_bytes"])

    def test_layers_can_be_given(self):
        plan = self.plan("--model", DEMO, "--devices", "2x64MiB", "--layers", "1,3")
        self.assertEqual([stage["num_layers"] for stage in plan["pipelines"][0]["stages"]], [1, 3])
        done = tutti("plan", "--model", DEMO, "--devices", "2x64MiB", "--layers", "1,30")
        self.assertEqual(done.returncode, 2, done.stdout)

    def test_what_cannot_fit_is_refused_with_what_would(self):
        done = tutti("plan", "--model", DEMO, "--devices", "2x256KiB")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"device \d")
        self.assertEqual(done.stdout, "")

    def test_exit_codes_are_those_of_its_help(self):
        with tempfile.TemporaryDirectory() as folder:
            for config, code in ((None, 2), ("{", 2), ('{"architectures": ["MambaForCausalLM"]}', 2)):
                if config is not None:
                    pathlib.Path(folder, "config.json").write_text(config, encoding="utf-8")
                done = tutti("plan", "--model", folder, "--devices", "2x64MiB")
                self.assertEqual(done.returncode, code, done.stderr)
            shutil.copy(os.path.join(DEMO, "config.json"), folder)
            small = ("--devices", "1x6MiB", "--max-num-seqs", "1")
            plan = self.plan("--model", folder, *small)
            self.assertIn("one full context", " ".join(plan["notes"]))
            asked = ("--max-model-len", str(plan["context_length"]))
            done = tutti("plan", "--model", folder, *small, *asked)
            self.assertEqual(done.returncode, 1, "a context that is asked for is demanded: " + done.stderr)

    def test_an_index_of_five_million_names_is_refused_within_bounds(self):
        with tempfile.TemporaryDirectory() as folder:
            # Without a type of its own, the configuration has it looked up in the checkpoint.
            config = json.loads(pathlib.Path(DEMO, "config.json").read_text(encoding="utf-8"))
            for name in ("dtype", "torch_dtype"):
                config.pop(name, None)
            pathlib.Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
            with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as index:
                index.write('{"weight_map":{' + ",".join(f'"{i:x}":"a"' for i in range(5_000_000)) + "}}")
                self.assertLess(index.tell(), 100_000_000)
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, TUTTI, "plan", "--model", folder,
                 "--devices", "2x64MiB"], capture_output=True, text=True, check=False, env=clean_environment())
        told = json.loads(done.stdout)
        self.assertEqual(told["code"], 2, told)
        self.assertIn("weight_map has more tensors than the limit of 524288", told["stderr"])
        print(f"an index of 5,000,000 names: {told['seconds']:.1f} s, {told['kib'] / 1024:.0f} MiB")
        # The text itself has 75 MiB.
        if memory.IS_OURS:
            self.assertLess(told["kib"], 400 * 1024)

    @unittest.skipUnless(TESTDATA, "TUTTI_TESTDATA is not set: no real configurations here")
    def test_real_models(self):
        configs = os.path.join(TESTDATA, "configs")
        plan = self.plan("--model", os.path.join(configs, "Qwen3-32B"), "--devices", "4x24GiB")
        self.assertEqual(sum(stage["num_layers"] for stage in plan["pipelines"][0]["stages"]), 64)
        self.assertGreater(plan["kv_tokens"], 0)
        done = tutti("plan", "--model", os.path.join(configs, "Qwen3-32B"), "--devices", "2x24GiB")
        self.assertEqual(done.returncode, 1)
        done = tutti("plan", "--model", os.path.join(configs, "Qwen3-4B-AWQ"), "--devices", "1x24GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = tutti("plan", "--model", os.path.join(configs, "Qwen3-4B-AWQ"), "--devices", "1x2GiB")
        self.assertEqual(done.returncode, 1, "its codes alone take more")

    def test_unknown_families_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, file)
            done = tutti("plan", "--model", folder, "--devices", "1x24GiB")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("MambaForCausalLM", done.stderr)

    @unittest.skipUnless(TESTDATA, "TUTTI_TESTDATA is not set: no real configurations here")
    def test_uneven_devices_all_get_their_share(self):
        model = os.path.join(TESTDATA, "configs", "Qwen3-8B")
        plan = self.plan("--model", model, "--devices", "1x8GiB,1x24GiB", "--max-model-len", "8192")
        layers = {stage["ranks"][0]["device"]: stage["num_layers"]
                  for stage in plan["pipelines"][0]["stages"]}
        self.assertLess(layers["device 0"], layers["device 1"])
        done = tutti("plan", "--model", model, "--devices", "1x8GiB,1x24GiB")
        self.assertIn("KV room", done.stdout)


@unittest.skipUnless(os.path.exists(os.path.join(BINARIES, "tutti-bench")), "tutti-bench is not built")
class Bench(unittest.TestCase):
    def bench(self, *arguments):
        return subprocess.run([os.path.join(BINARIES, "tutti-bench"), *arguments], text=True,
                              capture_output=True, timeout=PATIENCE_S, env=clean_environment())

    def test_local_reports_speeds_beside_the_machines(self):
        done = self.bench("local", "--model", DEMO, "--threads", "1", "--prompt-tokens", "32",
                          "--output-tokens", "8", "--batch", "2", "--runs", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for name in ("prefill_tokens_per_second", "decode_tokens_per_second",
                     "machine_read_bytes_per_second", "machine_flops_per_second"):
            self.assertGreater(report[name], 0, name)

    def test_local_reports_each_load_when_it_is_measured(self):
        done = self.bench("local", "--model", DEMO, "--threads", "1", "--runs", "1", "--json", "--load", "16,1,4",
                          "--load", "8,3,5,0.7")
        self.assertEqual(done.returncode, 0, done.stderr)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(r["prompt_tokens"], r["batch"], r["output_tokens"], round(r["temperature"], 3)) for r in reports],
                         [(16, 1, 4, 0), (8, 3, 5, 0.7)])
        for report in reports:
            self.assertGreater(report["decode_tokens_per_second"], 0)

    def test_local_refuses_what_the_model_cannot(self):
        done = self.bench("local", "--model", DEMO, "--prompt-tokens", "1000000")
        self.assertEqual(done.returncode, 2)
        self.assertIn("context", done.stderr)
        for wrong in ("16,1", "16,1,4,0.7,1", "a,1,4", "16,5000,4", "16,1,4,-1"):
            done = self.bench("local", "--model", DEMO, "--load", wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(f'--load: "{wrong}" is no load', done.stderr)

    @unittest.skipUnless(os.path.exists(os.path.join(BINARIES, "products_bench")), "products_bench is not built")
    def test_products_of_few_rows_and_many(self):
        done = subprocess.run([os.path.join(BINARIES, "products_bench"), "--device", "cpu", "--rows", "1", "130", "--hidden", "64",
                               "--ffn", "96", "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--vocabulary", "128",
                               "--repeat", "1"],
                              text=True, capture_output=True, timeout=PATIENCE_S, env=clean_environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn("class", first)
        self.assertEqual([(row["product"], row["rows"]) for row in rows],
                         [(name, count) for name in ("qkv", "attention_out", "gate_up", "down", "lm_head") for count in (1, 130)])
        for row in rows:
            self.assertGreater(row["bytes_per_second"], 0)

    @unittest.skipUnless(os.path.exists(os.path.join(BINARIES, "attention_bench")), "attention_bench is not built")
    def test_attention_of_streams_and_of_prompts(self):
        def run(*flags):
            return subprocess.run([os.path.join(BINARIES, "attention_bench"), "--device", "cpu", "--heads", "4", "--kv-heads", "2",
                                   "--head-dim", "16", "--repeat", "1", "--cache-mib", "1", *flags],
                                  text=True, capture_output=True, timeout=PATIENCE_S, env=clean_environment(), check=False)
        done = run("--decode", "1x20", "3x130", "--prompts", "40", "--memory-speed", "1e9")
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn("class", first)
        self.assertEqual([(line["attention"], line["streams"], line["depth"], line["rows"]) for line in lines],
                         [("decode", 1, 20, 1), ("decode", 3, 130, 1), ("prompt", 1, 40, 40)])
        for line in lines:
            self.assertAlmostEqual(line["memory_share"], line["bytes_per_second"] / 1e9)
            self.assertNotIn("matrix_share", line)
        done = run("--decode", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--decode 3 is not STREAMSxDEPTH", done.stderr)

    def test_engine_and_link_run(self):
        done = self.bench("engine", "--sequences", "1,8", "--seconds", "0.05", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)
        done = self.bench("link", "--round-trips", "10", "--chunks", "2", "--frames", "10")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
