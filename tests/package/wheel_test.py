#!/usr/bin/env python3
"""The wheels of tools/make_wheel.py, and tools/install, used as somebody who has neither this tree nor Debian's libraries would.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/package/wheel_test.py
"""
import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from harness import DEMO, SOURCE, clean_environment  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TUTTI_BINARY_DIR") or os.path.join(SOURCE, "build", "release"))
PROGRAMS = ("tutti", "tutti-coordinator", "tutti-worker", "tutti-gateway")
ASK = ("up", "--workers", "2", "--threads-per-worker", "1", "--memory-per-worker", "512MiB", "--listen", "127.0.0.1:0", "--exec",
       'tutti chat --message "What is 12 + 30?" --temperature 0')
# What a wheel of this tag may need of the machine.
OF_MACHINE = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6",
              "ld-linux-x86-64.so.2"}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def make_wheels(case):
    """The path of tutti_server's."""
    folder = tempfile.TemporaryDirectory(prefix="tutti-wheel-")
    case.addClassCleanup(folder.cleanup)
    run(sys.executable, "-B", os.path.join(SOURCE, "tools", "make_wheel.py"), "--build", BUILD, "--out", folder.name)
    names = [name for name in os.listdir(folder.name) if name.startswith("tutti_server-")]
    assert len(names) == 1, names
    return os.path.join(folder.name, names[0])


def needed_of(path):
    """(libraries, path where they are looked for) of a program or library."""
    said = run("readelf", "-d", path)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said), re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]", said)


class Contents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = make_wheels(cls)
        folder = tempfile.TemporaryDirectory(prefix="tutti-unpacked-")
        cls.addClassCleanup(folder.cleanup)
        with zipfile.ZipFile(cls.wheel) as file:
            cls.modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in file.infolist()}
            file.extractall(folder.name)
        cls.root = folder.name

    def below(self, pattern):
        return {os.path.basename(name): os.path.join(self.root, name) for name in self.modes if re.search(pattern, name)}

    def test_every_library_is_there_or_of_every_machine(self):
        programs, libraries = self.below(r"\.data/scripts/"), self.below(r"\.data/data/lib/tutti/")
        self.assertEqual(set(programs), set(PROGRAMS))
        for name, path in {**programs, **libraries}.items():
            wanted, places = needed_of(path)
            self.assertEqual(set(wanted) - set(libraries) - OF_MACHINE, set(), name)
            # Libraries of libraries are found by what the program says.
            self.assertEqual(places, ["$ORIGIN/../lib/tutti"] if name in programs else [], name)
            if name in programs:
                self.assertIn("(RPATH)", run("readelf", "-d", path))

    def test_the_tag_is_true(self):
        major, minor = map(int, re.search(r"manylinux_(\d+)_(\d+)_x86_64\.whl$", self.wheel).groups())
        self.assertLessEqual((major, minor), (2, 36))  # of Debian 12
        newest = max(tuple(map(int, version.split("."))) for path in self.below(r"\.data/(scripts|data/lib)/").values()
                     for version in re.findall(r"Name: GLIBC_([\d.]+)", run("readelf", "-V", path)))
        self.assertLessEqual(newest[:2], (major, minor))

    def test_licenses(self):
        texts = [name for name in self.modes if ".dist-info/licenses/" in name]
        self.assertTrue(any(name.endswith("/LICENSE") for name in texts))
        for package in ("libgrpc29", "libprotobuf32", "libabsl20220623", "libssl3"):
            self.assertTrue(any(f"/{package}/copyright" in name for name in texts), package)
        with open(os.path.join(self.root, next(name for name in self.modes if name.endswith("/METADATA"))), encoding="utf-8") as file:
            told = re.findall(r"(?m)^License-File: (.+)$", file.read())
        self.assertEqual(sorted(told), sorted(name.split("/licenses/")[1] for name in texts))

    def test_record_and_modes(self):
        record = next(name for name in self.modes if name.endswith("/RECORD"))
        with open(os.path.join(self.root, record), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual({row[0] for row in rows}, set(self.modes))
        for name, digest, size in rows:
            if name == record:
                continue
            with open(os.path.join(self.root, name), "rb") as file:
                data = file.read()
            self.assertEqual((digest, int(size)), ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
                                                   len(data)), name)
            self.assertEqual(self.modes[name], 0o755 if ".data/scripts/" in name else 0o644, name)

    def test_the_same_again(self):
        again = make_wheels(type(self))
        with open(self.wheel, "rb") as one, open(again, "rb") as other:
            self.assertEqual(one.read(), other.read())


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = make_wheels(cls)
        folder = tempfile.TemporaryDirectory(prefix="tutti-venv-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.venv = os.path.join(folder.name, "venv")
        run(sys.executable, "-m", "venv", cls.venv)
        run(os.path.join(cls.venv, "bin", "pip"), "install", "--no-index", "--quiet", cls.wheel)

    def test_serves_from_a_venv(self):
        environment = {"PATH": os.path.join(self.venv, "bin") + ":/usr/bin:/bin"}
        self.assertEqual(run("tutti", *ASK, "--model", DEMO, "--http", "127.0.0.1:0", env=environment).strip(), "42")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, for chroot")
    def test_serves_where_the_c_library_is_alone(self):
        root = os.path.join(self.folder, "root")
        os.makedirs(root)
        listed = run("dpkg", "-L", "libc6", "libgcc-s1", "libstdc++6", "dash").split("\n")
        for path in (*listed, "/bin/sh"):
            if re.search(r"/(lib64|x86_64-linux-gnu)/[^/]+\.so(\.[0-9]+)*$|/bin/(da)?sh$", path):
                copy = os.path.join(root, os.path.realpath(os.path.dirname(path)).lstrip("/"), os.path.basename(path))
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(path, copy)
        for link in ("bin", "lib", "lib64"):
            os.makedirs(os.path.join(root, "usr", link), exist_ok=True)
            os.symlink(f"usr/{link}", os.path.join(root, link))
        for place in ("tmp", "proc", "dev"):
            os.makedirs(os.path.join(root, place))
        shutil.copytree(self.venv, os.path.join(root, "opt"), symlinks=True)
        shutil.copytree(DEMO, os.path.join(root, "model"))
        self.assertFalse([name for _, _, names in os.walk(os.path.join(root, "usr")) for name in names if "ssl" in name or "grpc" in name])
        # Mounts that end with the command.
        script = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot {root} /opt/bin/tutti \"$@\""
        said = run("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *ASK, "--model", "/model", "--http", "127.0.0.1:0",
                   env={"PATH": "/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
        self.assertEqual(said.strip(), "42")


class Prefix(unittest.TestCase):
    def test_a_prefix_of_ones_own(self):
        with tempfile.TemporaryDirectory(prefix="tutti-prefix-") as folder:
            for component in ("client", "server"):
                run("cmake", "--install", BUILD, "--prefix", folder, "--component", component, "--strip", env=clean_environment(TUTTI_UNITS="off"))
            self.assertEqual(sorted(os.listdir(folder)), ["bin", "share"])
            self.assertEqual(set(os.listdir(os.path.join(folder, "bin"))), set(PROGRAMS))
            said = run(os.path.join(folder, "bin", "tutti"), *ASK, "--model", DEMO, "--http", "127.0.0.1:0",
                       env=clean_environment(PATH=f"{folder}/bin:{os.environ['PATH']}"))
            self.assertEqual(said.strip(), "42")


if __name__ == "__main__":
    unittest.main()
