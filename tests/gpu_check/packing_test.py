#!/usr/bin/env python3
"""tools/gpu_check pack refuses what must not be carried, and says what it is.

By hand:  python3 tests/gpu_check/packing_test.py
"""
import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu_check.d"))
import fakes  # noqa: E402
import packing  # noqa: E402
import settings  # noqa: E402

# With a search for sources, as CMake writes it: a dry run of ninja's says that this file would be made again, and no more.
NINJA = """rule search
  command = true
  generator = 1
  restat = 1
build never: phony
build searched: search | never
build build.ninja: search | searched
rule copy
  command = mkdir -p $$(dirname $out) && cp $in $out
build bin/libtutti_cuda.so: copy sources/libtutti_cuda.so
build tutti_cuda: phony bin/libtutti_cuda.so
"""


@unittest.skipUnless(shutil.which("ninja"), "no ninja")
class Packing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpu_check_pack_")
        self.addCleanup(folder.cleanup)
        # Of the tree's data nothing is needed here, and compressing it takes its time.
        data = mock.patch.object(packing, "DATA", ["tests/gpu_check"])
        data.start()
        self.addCleanup(data.stop)
        self.build = os.path.join(folder.name, "build")
        self.sources = os.path.join(self.build, "sources")
        os.makedirs(self.sources)
        fakes.packed(self.sources, device="skip this machine has no NVIDIA driver; the plug-in needs one")
        self.write(settings.PLUGIN, "a plug-in")
        rules = NINJA
        for target, path, _ in packing.WANTED:
            if target != "tutti_cuda" and os.path.exists(os.path.join(self.sources, target)):
                rules += f"build {path}: copy sources/{target}\nbuild {target}: phony {path}\n"
        with open(os.path.join(self.build, "build.ninja"), "w", encoding="utf-8") as file:
            file.write(rules)
        self.make()
        self.packed = os.path.join(folder.name, "packed")
        self.archive = os.path.join(folder.name, "packed.tar.xz")

    def write(self, name, text):
        with open(os.path.join(self.sources, name), "w", encoding="utf-8") as file:
            file.write(text)

    def make(self):
        self.assertEqual(os.system(f"ninja -C {self.build} >/dev/null"), 0)

    def pack(self, rehearsed=False):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = packing.pack(self.packed, self.build, self.archive, rehearsed)
        return status, said.getvalue()

    def test_what_is_up_to_date_is_packed(self):
        status, said = self.pack()
        self.assertEqual(status, 0, said)
        self.assertIn("a packed test, started by itself: this machine has no NVIDIA driver", said)
        self.assertTrue(os.path.exists(self.archive))

    def test_a_plug_in_older_than_its_sources_is_refused_by_name(self):
        self.write(settings.PLUGIN, "another plug-in")
        os.utime(os.path.join(self.sources, settings.PLUGIN), (2e9, 2e9))
        status, said = self.pack()
        self.assertEqual(status, 1)
        self.assertIn("tutti_cuda: ", said)
        self.assertIn("older than most recent input", said)
        self.assertNotIn("golden_test", said)
        self.assertFalse(os.path.exists(self.packed) or os.path.exists(self.archive))
        self.make()

    def test_a_program_that_is_not_built_is_named(self):
        os.remove(os.path.join(self.build, "tests", "kernels_matmul_test"))
        status, said = self.pack()
        self.assertEqual((status, "not built: kernels_matmul_test" in said), (1, True), said)

    def test_a_plug_in_of_another_build_is_refused(self):
        fakes.gtest(self.sources, "kernels_conformance_test",
                    CudaTest_Opens="skip the worker is build 1-a, the plug-in build 1-b; both must come from one build")
        self.make()
        status, said = self.pack()
        self.assertEqual(status, 1)
        self.assertIn("a packed test does not run from the packed folder", said)
        self.assertIn("the plug-in build 1-b", said)

    def test_an_archive_that_failed_its_rehearsal_is_none(self):
        with mock.patch.object(packing.calls, "run", lambda *_, **__: 1):
            status, said = self.pack(rehearsed=True)
        self.assertEqual(status, 1)
        self.assertIn("the rehearsal of the first call failed (cpu)", said)
        self.assertFalse(os.path.exists(self.archive))

    def test_what_cannot_be_carried_is_refused(self):
        with mock.patch.object(settings, "CARRIED_MAX", 1 << 20):
            status, said = self.pack()
        self.assertEqual(status, 1)
        self.assertIn("more than 1", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
