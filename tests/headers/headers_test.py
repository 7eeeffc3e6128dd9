"""What the sources say of the interfaces of libraries that are opened at run time, against the makers' headers.

NVML's come in wheels from the Python package index, which are looked into and not installed; cuBLASLt's is the CUDA
toolkit's. Exits with 77 where none can be had.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.join(HERE, "..", "..")
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
COMPILER = os.environ.get("TUTTI_COMPILER", "c++")
SKIPPED = 77
TIMEOUT_S = 120


def fetched():
    """The folder with the wheels' contents, one folder each; None: they cannot be had."""
    folder = os.path.join(os.environ.get("TUTTI_BINARY_DIR", tempfile.gettempdir()), "headers")
    with open(REQUIREMENTS, encoding="utf-8") as file:
        wanted = file.read()
    stamp = os.path.join(folder, "requirements.txt")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == wanted:
                return folder
    os.makedirs(folder, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1",
               "--timeout", "10", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-d", folder, "-r",
               REQUIREMENTS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"cannot fetch the headers: {error}")
        return None
    if done.returncode != 0:
        print(f"cannot fetch the headers: {done.stdout}{done.stderr}")
        return None
    for name in os.listdir(folder):
        if name.endswith(".whl"):
            with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
                wheel.extractall(os.path.join(folder, name.split("-")[0]))
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
    return folder


def folders_of(name):
    """The folders that hold the header."""
    return [where for where, _, files in os.walk(HEADERS) if name in files]


def compiled(source, *flags):
    done = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-Wno-deprecated-declarations", f"-I{TREE}", *flags,
                           source], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


class NvmlTest(unittest.TestCase):
    def setUp(self):
        if HEADERS is None:
            self.skipTest("its headers cannot be fetched")

    def test_each_header_declares_what_is_called(self):
        folders = folders_of("nvml.h")
        self.assertEqual(len(folders), 2, folders)
        for folder in folders:
            with self.subTest(folder=folder):
                self.assertEqual(compiled(os.path.join(HERE, "nvml.cc"), f"-I{folder}"), (0, ""))

    def test_a_difference_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folders_of("nvml.h")[0], "nvml.h"), encoding="utf-8") as file:
                header = file.read()
            changed = re.sub(r"NVML_ERROR_GPU_IS_LOST\s*= 15", "NVML_ERROR_GPU_IS_LOST = 16", header)
            self.assertNotEqual(changed, header)
            with open(os.path.join(folder, "nvml.h"), "w", encoding="utf-8") as file:
                file.write(changed)
            status, said = compiled(os.path.join(HERE, "nvml.cc"), f"-I{folder}")
            self.assertNotEqual(status, 0)
            self.assertIn("NVML_ERROR_GPU_IS_LOST", said)


class CublasLtTest(unittest.TestCase):
    # In a wheel of its own of some 400 MB: the toolkit's is taken, where there is one.
    CUDA = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")

    def setUp(self):
        if not os.path.exists(os.path.join(self.CUDA, "cublasLt.h")):
            self.skipTest(f"no cublasLt.h in {self.CUDA}")

    def test_the_header_declares_what_is_called(self):
        self.assertEqual(compiled(os.path.join(HERE, "cublaslt.cc"), f"-I{self.CUDA}"), (0, ""))

    def test_a_difference_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(self.CUDA, "cublasLt.h"), encoding="utf-8") as file:
                header = file.read()
            changed = re.sub(r"CUBLASLT_MATMUL_DESC_TRANSA\s*= 3", "CUBLASLT_MATMUL_DESC_TRANSA = 33", header)
            self.assertNotEqual(changed, header)
            with open(os.path.join(folder, "cublasLt.h"), "w", encoding="utf-8") as file:
                file.write(changed)
            status, said = compiled(os.path.join(HERE, "cublaslt.cc"), f"-I{folder}", f"-I{self.CUDA}")
            self.assertNotEqual(status, 0)
            self.assertIn("CUBLASLT_MATMUL_DESC_TRANSA", said)


if __name__ == "__main__":
    HEADERS = fetched()
    ran = unittest.main(exit=False).result
    if ran.wasSuccessful() and len(ran.skipped) == ran.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not ran.wasSuccessful())
