#!/usr/bin/env python3
"""Steps of tools/gpu_check with the real programs on the emulated GPU: whatever the script asks of a GPU's programs, it asks here.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/gpu_check/rehearsal_test.py
"""
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu_check.d"))
import calls  # noqa: E402
import packing  # noqa: E402
import settings  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TUTTI_BINARY_DIR", os.path.join(ROOT, "build", "release")))
# Those that start programs in other ways than others do. Tests of kernels run on the emulated GPU by themselves.
STEPS = ["nccl", "bench_ours", "switches", "profile", "counters", "one_voice"]
NOT_WANTED = (settings.PLUGIN, settings.KERNEL_TIMES, *settings.MODEL_TESTS, *settings.KERNEL_TESTS[1:], settings.NCCL_TEST)
WANTED = [one for one in packing.WANTED if one[2] not in NOT_WANTED]


@unittest.skipUnless(all(os.path.exists(os.path.join(BUILD, path)) for _, path, _ in WANTED), "this preset has no emulated GPU")
class Rehearsal(unittest.TestCase):
    def test_a_call_on_the_emulated_gpu(self):
        with tempfile.TemporaryDirectory(prefix="gpu_check_rehearsal_") as folder:
            packed, out = os.path.join(folder, "packed"), os.path.join(folder, "out")
            packing.gather(packed, BUILD, WANTED)
            calls.run(packed, out, only=STEPS, minutes=8, rehearse=settings.EMULATED)
            with open(os.path.join(out, "gpu_check.json"), encoding="utf-8") as file:
                results = json.load(file)
        for step in ["device", *STEPS]:
            self.assertTrue(results[step]["passed"], json.dumps(results[step], indent=1)[:3000])
        self.assertIn("2 workers on the GPU", results["one_voice"]["compared"])
        self.assertEqual(len(results["bench_ours"]["rows"]), len(settings.TINY_LOADS))
        self.assertEqual(len(results["switches"]["rows"]), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
