#!/usr/bin/env python3
"""The package as it is installed: built offline, complete, and typed."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

PACKAGE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
ROOT = os.path.abspath(os.path.join(PACKAGE, "..", ".."))


# What users write, with the types they may rely on.
CALLER = """
import tutti

def text(client: tutti.Client) -> list[str]:
    with client.generate(messages=[{"role": "user", "content": "hi"}], temperature=0.5, stop=["x"]) as stream:
        return [chunk.text for chunk in stream if chunk.finish is None or chunk.finish.stop == ""]

async def ids(client: tutti.AsyncClient) -> list[int]:
    return [token.id async for chunk in client.generate(token_ids=[1], n=2) for token in chunk.tokens]

def wrong(client: tutti.Client) -> tutti.Completion:
    client.generate("x", temprature=1.0)  # type: ignore[call-arg]
    client.generate("x", top_k=0.5)  # type: ignore[arg-type]
    return client.complete("x", timeout_s=1)
"""


def run(*command, **options):
    done = subprocess.run(command, text=True, capture_output=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def need(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise unittest.SkipTest(f"{sys.executable} has no {', '.join(missing)}")


class PackageTest(unittest.TestCase):
    def test_the_wheel_has_all_that_it_takes(self):
        need("pip", "setuptools", "wheel")
        with tempfile.TemporaryDirectory(prefix="tutti-wheel-") as folder:
            # A copy: setuptools builds inside of the tree.
            for part in ("client/python", "proto"):
                shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, "tree", part),
                                ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
                "--no-cache-dir", "--wheel-dir", folder, os.path.join(folder, "tree", "client", "python"))
            (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
            installed = os.path.join(folder, "installed")
            with zipfile.ZipFile(wheel) as archive:
                names = set(archive.namelist())
                archive.extractall(installed)
            self.assertLessEqual({"tutti/py.typed", "tutti/generation.binpb", "tutti/client.py"}, names)
            self.assertFalse([name for name in names if "test" in name or "setup" in name])
            # Without protoc on the path: nothing is made any more.
            said = run(sys.executable, "-c", "import tutti; tutti.Client('localhost:1').close(); print(tutti.__file__)",
                       cwd=folder, env={"PYTHONPATH": installed, "PATH": "/nowhere"})
            self.assertEqual(said.strip(), os.path.join(installed, "tutti", "__init__.py"))

    def test_types(self):
        need("mypy")
        from mypy.version import __version__ as version
        if tuple(map(int, version.split(".")[:2])) < (1, 5):
            raise unittest.SkipTest(f"mypy {version} does not know Unpack, 1.5 does")
        with tempfile.TemporaryDirectory(prefix="tutti-mypy-") as folder:
            mypy = (sys.executable, "-m", "mypy", "--cache-dir", os.path.join(folder, "cache"))
            run(*mypy, cwd=PACKAGE)
            caller = os.path.join(folder, "caller.py")
            with open(caller, "w", encoding="utf-8") as file:
                file.write(CALLER)
            run(*mypy, "--strict", "--ignore-missing-imports", caller, cwd=folder, env={**os.environ, "MYPYPATH": PACKAGE})


if __name__ == "__main__":
    unittest.main()
