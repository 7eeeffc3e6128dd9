#!/usr/bin/env python3
"""tools/gpu_check with planted faults: each is named, and the others' results are there.

By hand:  python3 tests/gpu_check/gpu_check_test.py
"""
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu_check.d"))
import calls  # noqa: E402
import fakes  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
import settings  # noqa: E402
import verdicts  # noqa: E402

# What comes back from a machine that is lent.
FILES_MAX = 8


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpu_check_test_")
        self.addCleanup(folder.cleanup)
        self.folder = fakes.packed(os.path.join(folder.name, "packed")) if self.make(folder.name, "packed") else ""
        self.out = self.make(folder.name, "out")
        for name, value in dict(QUIET_S=4, DEVICE_S=4, END_S=0.3, VOICES=3).items():
            patch = mock.patch.object(settings, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    @staticmethod
    def make(*parts):
        path = os.path.join(*parts)
        os.makedirs(path, exist_ok=True)
        return path

    def call(self, *only, **options):
        """Runs the steps: their results, what was printed, and the exit status."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = calls.run(self.folder, self.out, only=only, **options)
        with open(os.path.join(self.out, "gpu_check.json"), encoding="utf-8") as file:
            results = json.load(file)
        self.assertLessEqual(len(os.listdir(self.out)), FILES_MAX)
        return results, said.getvalue(), status

    def test_codes_are_checked_and_timed(self):
        results, said, _ = self.call("codes")
        found = results["codes"]
        self.assertTrue(found["suites"]["kernels_quantised_test"]["passed"], said)
        self.assertEqual(found["different"], [])
        # The planted bench says one row of each and ends.
        self.assertEqual(sorted(found["errors"]), sorted(settings.CODES))
        self.assertEqual([row["rows"] for row in found["rows"]], [1] * len(settings.CODES))
        self.assertFalse(found["passed"])

    def test_all_is_well(self):
        results, said, status = self.call("conformance", "golden", "nccl", "plan_proof")
        self.assertEqual(status, 0, said)
        self.assertTrue(all(result["passed"] for result in results.values()))
        self.assertIn("gpu_check: failed: nothing", said.splitlines()[-1])

    def test_a_test_that_ends_its_program_is_named_and_the_rest_runs(self):
        fakes.gtest(self.folder, "kernels_matmul_test", S_First="ok", S_Ends="crash", S_Wrong="fail", S_EndsToo="crash",
                    S_Last="ok")
        results, said, status = self.call("conformance", "golden")
        suite = results["conformance"]["suites"]["kernels_matmul_test"]
        self.assertEqual(suite["ended_the_program"], {"S.Ends": "ended by SIGABRT", "S.EndsToo": "ended by SIGABRT"})
        self.assertEqual((suite["ran"], suite["failed"]), (3, ["S.Wrong"]))
        self.assertTrue(results["conformance"]["suites"]["kernels_attention_test"]["passed"])
        self.assertTrue(results["golden"]["passed"])
        self.assertIn("kernels_matmul_test: S.Ends ended by SIGABRT; the rest ran without it", said)
        self.assertIn("gpu_check: failed: conformance", said.splitlines()[-1])
        self.assertEqual(status, 1)

    def test_a_test_that_hangs_is_named_and_the_rest_runs(self):
        fakes.gtest(self.folder, "golden_test", S_First="ok", S_Hangs="hang", S_Last="ok")
        results, _, _ = self.call("golden", "graphs")
        suite = results["golden"]["suites"]["golden_test"]
        self.assertIn("said nothing for", suite["ended_the_program"]["S.Hangs"])
        self.assertEqual(suite["ran"], 2)
        self.assertTrue(results["graphs"]["passed"])

    def test_a_program_of_tests_that_end_it_is_given_up(self):
        fakes.gtest(self.folder, "golden_test", **{f"S_T{i}": "crash" for i in range(20)})
        results, _, _ = self.call("golden")
        suite = results["golden"]["suites"]["golden_test"]
        self.assertEqual(len(suite["ended_the_program"]), settings.CULPRITS_MAX)
        self.assertIn("given up", suite["problem"])

    def test_nothing_that_ran_is_no_success(self):
        fakes.gtest(self.folder, "golden_test", S_First="skip no GPU")
        results, _, _ = self.call("golden")
        self.assertIn("nothing ran", results["golden"]["suites"]["golden_test"]["problem"])

    def test_a_driver_that_does_not_answer_is_named(self):
        fakes.packed(self.folder, device="hang")
        started = time.monotonic()
        results, said, _ = self.call("facts", "conformance", "products")
        self.assertLess(time.monotonic() - started, 30)
        self.assertIn("the driver does not answer", results["device"]["error"])
        self.assertEqual(results["facts"]["build"], "0.1.0-fake")
        for step in ("conformance", "products"):
            self.assertEqual(results[step]["not_run"], "no device: the driver does not answer")
        self.assertIn("gpu_check: failed: device", said.splitlines()[-1])

    def test_a_machine_without_a_gpu_says_why(self):
        fakes.packed(self.folder, device="skip there is no NVIDIA driver")
        results, _, _ = self.call("conformance")
        self.assertEqual(results["conformance"]["not_run"], "no device: there is no NVIDIA driver")

    def test_a_process_that_cannot_be_ended_is_left_behind_and_named(self):
        fakes.gtest(self.folder, "golden_test", S_First="hang")
        left = []

        def deaf(group, number):
            left.append(group)

        started = time.monotonic()
        with mock.patch("os.killpg", deaf):
            results, said, status = self.call("golden", "graphs")
            with mock.patch.object(processes, "state_of", lambda pid: "D"):
                in_a_call, _, _ = self.call("golden", "facts", "graphs")
        for group in set(left):
            with contextlib.suppress(ProcessLookupError):
                os.kill(group, signal.SIGKILL)
        self.assertLess(time.monotonic() - started, 30)
        self.assertTrue(results["graphs"]["passed"])
        # In a call of the driver's nobody else has the GPU.
        self.assertIn("hangs in a call of the driver (state D)", in_a_call["graphs"]["not_run"])
        self.assertTrue(in_a_call["facts"]["passed"])
        self.assertIn("golden_test: process", results["stuck"][0])
        self.assertIn("could not be ended (state S)", results["stuck"][0])
        self.assertIn("LEFT BEHIND: golden_test", said)
        self.assertEqual(status, 1)

    def test_products_that_fail_by_wgmma_switch_it_off_for_the_rest(self):
        results, said, _ = self.call("products")
        products = results["products"]
        self.assertEqual([(row["kernels"], row["rows"]) for row in products["rows"]],
                         [("chosen", 1), ("mma.sync", 1), ("mma.sync", 2048)])
        self.assertIn("ended by SIGABRT", products["errors"]["chosen"])
        self.assertIn("TUTTI_WGMMA=off for all that follows", said)

    def test_a_load_that_ends_the_bench_is_named_and_the_others_are_measured(self):
        loads = [(64, 1, 4, 0), (7, 1, 4, 0), (2048, 1, 4, 0), (9, 1, 4, 0), (64, 8, 4, 0.7)]
        with mock.patch.object(settings, "LOADS", loads):
            results, said, _ = self.call("bench_ours")
        rows = [(row["prompt_tokens"], row["batch"]) for row in results["bench_ours"]["rows"]]
        self.assertEqual(rows, [(64, 1), (2048, 1), (64, 8)])
        self.assertEqual(len(results["bench_ours"]["errors"]), 2)
        self.assertIn("load (7, 1, 4, 0): ended by SIGABRT", said)
        self.assertIn("load (9, 1, 4, 0): said nothing for", said)

    def test_clusters_are_compared_as_far_as_they_came(self):
        results, _, _ = self.call("one_voice")
        found = results["one_voice"]
        self.assertIn("2 workers on the GPU", found["compared"])  # they are told to share it
        self.assertEqual(found["errors"], {})
        # The fake has another voice without graphs.
        self.assertTrue(found["different"] and all("without graphs" in one for one in found["different"]), found)
        fakes.write(os.path.join(self.folder, "tutti"), fakes.TUTTI.replace('"--share-devices" not in words', "True"))
        results, said, _ = self.call("one_voice")
        self.assertIn("--share-devices has workers share it", results["one_voice"]["errors"]["2 workers on the GPU"])
        self.assertEqual(len(results["one_voice"]["compared"]), 5)
        self.assertIn("2 workers on the GPU", said)

    def test_a_call_ends_with_its_minutes(self):
        fakes.gtest(self.folder, "golden_test", S_Hangs="hang")
        started = time.monotonic()
        with mock.patch.object(settings, "TOO_LATE_S", 1), mock.patch.object(settings, "QUIET_S", 60):
            results, said, _ = self.call("golden", "graphs", "plan_proof", minutes=10 / 60)
        self.assertLess(time.monotonic() - started, 30)
        self.assertIn("did not end within", results["golden"]["suites"]["golden_test"]["ended_the_program"]["S.Hangs"])
        self.assertIn("no time is left", results["graphs"]["suites"]["graphs_test"]["problem"])
        self.assertIn("gpu_check: failed: golden", said)

    def test_what_failed_before_comes_first(self):
        before = os.path.join(self.out, "before.json")
        with open(before, "w", encoding="utf-8") as file:
            json.dump({"device": {"passed": True}, "graphs": {"passed": False, "error": "x"},
                       "golden": {"passed": False, "not_run": "no time"}, "conformance": {"passed": True}}, file)
        self.assertEqual(calls.order("second", [], ["sanitizer"], calls.failed_before(before))[:4],
                         ["device", "graphs", "facts", "against_pytorch"])


class Processes(unittest.TestCase):
    def test_a_grandchild_ends_with_its_command(self):
        ended = processes.run(["/bin/sh", "-c", "sleep 300 & echo $!"], 10, dict(os.environ))
        self.assertEqual((ended.returncode, ended.why, ended.stuck), (0, "", ""))
        deadline = time.monotonic() + 10
        while processes.state_of(int(ended.stdout)) not in ("", "Z") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIn(processes.state_of(int(ended.stdout)), ("", "Z"))

    def test_pytorch_that_is_never_imported_keeps_nobody_waiting(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(session, "WARM", "import time; time.sleep(300)"):
            fakes.packed(folder)
            one = session.Session(folder, os.path.join(folder, "out"), 1, "cpu")
            self.assertEqual(one.torch_facts(0.1), {})
            one.clean()
            self.assertIsNotNone(one.warm[0].poll())


class Verdicts(unittest.TestCase):
    @staticmethod
    def row(prompt, batch, temperature, seconds, bytes_of_step, flops=0.0):
        return dict(prompt_tokens=prompt, batch=batch, temperature=temperature, decode_tokens_per_second=batch / seconds,
                    weight_bytes_per_step=bytes_of_step, kv_bytes_per_step=0, prefill_tokens_per_second=1, prefill_flops_per_second=flops)

    def test_speeds_are_set_beside_the_goals(self):
        results = {"ceilings": {"passed": True, "seconds": 1, "copy_bytes_per_second": 3e12, "read_bytes_per_second": 4e12, "flops_per_second": 8e14},
                   "bench_ours": {"passed": True, "seconds": 1, "rows": [self.row(64, 1, 0, 0.004, 15e9), self.row(256, 64, 0, 0.01, 20e9),
                                           self.row(2048, 1, 0, 0.004, 15e9, 5e14), self.row(8192, 1, 0, 0.0048, 16.2e9),
                                           self.row(64, 1, 0.7, 0.0041, 15e9)]},
                   "products": {"passed": True, "seconds": 1, "rows": [dict(product="down", rows=1, kernels="chosen", bytes_per_second=3.6e12, flops_per_second=1),
                                         dict(product="down", rows=16, kernels="chosen", bytes_per_second=1e12, flops_per_second=1)]}}
        found = {one["what"]: (one["value"], one["met"]) for one in verdicts.all_of(results)}
        self.assertEqual(found, {"decode of 1, of memory's speed": (0.9375, True), "decode of 64, of memory's speed": (0.5, False),
                                 "prompt of 2048, of the matrix rate": (0.625, False),
                                 "a step at depth 8192, of what its bytes say": (1.1111, False),
                                 "a step at temperature 0.7, of what its bytes say": (1.025, True),
                                 "product down, 1 rows, of memory's speed": (0.9, True)})
        text = report.summary(results, [])
        self.assertIn("a step at depth 8192, of what its bytes say: 111 %, wanted at most 105 %: MISSED", text)

    def test_a_summary_fits_the_end_of_an_output(self):
        suite = dict(passed=False, ran=1, ended_the_program={f"S.T{i}": "ended by SIGABRT" for i in range(300)}, failed=["x" * 5000])
        results = {f"step{i}": dict(passed=False, seconds=1, suites={"t": suite}) for i in range(30)}
        self.assertLess(len(report.summary(results, [])), settings.SUMMARY_MAX + 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
