"""A folder of programs that print what was recorded, for the tests of bench/beside; brings its modules within reach."""
import contextlib
import io
import json
import os
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "beside.d"))

PROBE = """class cpu-bf16dot, 2 threads
probe: read 33.4 GB/s, f32 94.9 GFLOP/s, this class 447.2 GFLOP/s, best 3175.0 GFLOP/s
"""
LOCAL = json.dumps({"model": "m", "prefill_tokens_per_second": 301.5, "prefill_share": 0.71,
                    "decode_tokens_per_second": 26.75, "decode_share": 0.93})


class Fakes:
    """Tutti's programs and a checkpoint's configuration in a folder that ends with the test."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = os.path.join(self.folder, "model")
        os.mkdir(self.model)
        self.write("model/config.json", json.dumps({"vocab_size": 5000}))
        for name, output in (("tutti", "tutti 0.9\n"), ("tutti-coordinator", ""), ("tutti-gateway", ""), ("tutti-worker", ""),
                             ("tutti-bench", LOCAL), ("kernels_bench", PROBE)):
            self.program(name, output)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def script(self, name, text):
        path = self.write(name, text)
        os.chmod(path, 0o755)
        return path

    def program(self, name, output, status=0):
        """Prints this, tells its arguments to NAME.asked, and ends so."""
        self.write(name + ".txt", output)
        return self.script(name, f'#!/bin/sh\necho "$@" >>"$0.asked"\ncat "$0.txt"\necho cause >&2\nexit {status}\n')

    def asked(self, name):
        with open(os.path.join(self.folder, name + ".asked"), encoding="utf-8") as file:
            return file.read().splitlines()

    def run(self, *flags):
        """bench/beside with these flags: (status, stdout, stderr)."""
        loader = SourceFileLoader("beside", os.path.join(HERE, "beside"))
        command = module_from_spec(spec_from_loader("beside", loader))
        loader.exec_module(command)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command.main([self.model, "--tutti", self.folder, *flags])
        return status, out.getvalue(), err.getvalue()
