#!/usr/bin/env python3
"""What `cmake --install` lays down, and the Debian packages made of it.

    tests/package/package_test.py          all of it that this machine can show; run by ctest
    tests/package/bare.py                  the packages, and the wheel, in a system that has nothing else; by hand, as root

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/package/package_test.py
"""
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from installed import BUILD, COMPONENTS, UNITS, Installed  # noqa: E402
from harness import SOURCE, TUTTI, clean_environment, wait_until  # noqa: E402
from http_client import Gateway  # noqa: E402

PROGRAMS = ("tutti", "tutti-coordinator", "tutti-worker", "tutti-gateway")
QUESTION = "What is 12 + 30?"
# Of `systemd-analyze security`, times ten: 100 is no protection at all. Network services of Debian have 20 to 96.
EXPOSURE_MAX = 20
# Above an undisturbed build of the example by far: the machine may be busy.
BUILD_S = 200


def flags_of(installed, program, *command):
    said = installed.run(program, *command, "--help").stdout
    return {flag for line in said.splitlines() if line.startswith("  -")
            for flag in re.findall(r"--[a-z][a-z0-9-]*", line.split(" (Env:")[0].split()[0])}


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.cleanup)

    def test_everything_is_there(self):
        found = self.installed.files()
        wanted = {*(f"usr/bin/{name}" for name in PROGRAMS), *(f"usr/lib/systemd/system/{unit}" for unit in UNITS),
                  "usr/lib/sysusers.d/tutti.conf", "usr/share/man/man1/tutti.1.gz", "usr/share/man/man1/tutti-up.1.gz",
                  *(f"usr/share/man/man8/{name}.8.gz" for name in PROGRAMS[1:]),
                  "usr/share/bash-completion/completions/tutti", "usr/lib/cmake/Tutti/TuttiConfig.cmake",
                  "usr/lib/pkgconfig/tutti.pc", "usr/include/tutti/client/client.h", "usr/include/tutti/base/retry_delay.h",
                  "usr/include/tutti/tutti/v1/generation.pb.h", "usr/lib/tutti/libtutti_client.a",
                  *(f"etc/tutti/{name}.toml" for name in ("coordinator", "worker", "gateway"))}
        self.assertEqual(wanted - found, set())
        # Nothing of the tests, of the cores, or of gRPC's own names.
        self.assertEqual({path for path in found if "testing" in path or "coordinator/" in path.replace("tutti-", "")}, set())
        self.assertEqual({path for path in found if path.split("/")[0] not in ("usr", "etc")}, set())

    def test_programs_are_of_this_build(self):
        stamp = subprocess.run([TUTTI, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(stamp, r"^\d+\.\d+\.\d+-\S+\n$")
        for program in PROGRAMS:
            self.assertEqual(self.installed.run(program, "--version").stdout, stamp, program)

    def test_settings_exist(self):
        for program in ("coordinator", "worker", "gateway"):
            settings = tomllib.loads(self.installed.read("etc/tutti", program + ".toml"))
            self.assertTrue(settings)
            unknown = {"--" + key for key in settings} - flags_of(self.installed, "tutti-" + program)
            self.assertEqual(unknown, set(), program)

    def test_settings_of_an_operator_stay(self):
        path = self.installed.path("etc/tutti/worker.toml")
        with open(path, "a", encoding="utf-8") as file:
            file.write('device = "cpu"\n')
        subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr", "--component", "server"], check=True,
                       capture_output=True, env=clean_environment(DESTDIR=self.installed.root))
        self.assertIn('device = "cpu"', self.installed.read("etc/tutti/worker.toml"))

    def test_pages_name_every_flag(self):
        for program in PROGRAMS:
            section = 1 if program == "tutti" else 8
            with gzip.open(self.installed.path(f"usr/share/man/man{section}/{program}.{section}.gz"), "rt") as file:
                page = file.read().replace("\\-", "-")
            for flag in flags_of(self.installed, program):
                self.assertRegex(page, rf"(?m)^\\fB(?:-\w,)?(?:--[\w-]+,)*{flag}\b", program)
            # Of no machine and of no user.
            self.assertNotIn(os.uname().nodename + "\\fR", page)
            self.assertNotRegex(page, r"/tmp/tutti-\d|/tmp/tmp")

    def test_pages_have_whole_texts(self):
        with gzip.open(self.installed.path("usr/share/man/man1/tutti-up.1.gz"), "rt") as file:
            page = file.read().replace("\\-", "-")
        for words in ("Memory for weights, KV cache and work", "or 90 % of what its GPU has free"):
            self.assertIn(words, page)

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_pages_are_good_roff(self):
        pages = [path for path in self.installed.files() if "/man/" in path]
        self.assertGreater(len(pages), 10)
        for path in pages:
            with gzip.open(self.installed.path(path)) as file:
                text = file.read()
            # Terminals of the C locale know ASCII alone.
            for terminal in ("-Tutf8", "-Tascii"):
                done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", terminal, "-z"], input=text, capture_output=True, check=True)
                self.assertEqual(done.stderr, b"", path)

    def test_completion(self):
        script = self.installed.path("usr/share/bash-completion/completions/tutti")

        def complete(*words):
            line = " ".join(f"'{word}'" for word in words)
            return subprocess.run(["bash", "-c", f". {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tutti; "
                                   'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(complete("tutti", "stat"), ["status"])
        self.assertEqual(complete("tutti", "status", "--wat"), ["--watch"])
        self.assertEqual(set(complete("tutti", "up", "--")), flags_of(self.installed, "tutti", "up"))


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.cleanup)

    def analyze(self, *arguments):
        done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def copies(self, change=lambda text: text):
        """The units in a folder, with programs that exist under the names in them."""
        folder = tempfile.TemporaryDirectory(prefix="tutti-units-")
        self.addCleanup(folder.cleanup)
        for unit in UNITS:
            text = self.installed.read("usr/lib/systemd/system", unit).replace("/usr/bin/", self.installed.path("usr/bin/"))
            # Read for itself: a page of the manual is looked for on this machine.
            text = re.sub(r"(?m)^Documentation=.*\n", "", text)
            with open(os.path.join(folder.name, unit.replace("@.", "@w0.")), "w", encoding="utf-8") as file:
                file.write(change(text))
        return sorted(os.path.join(folder.name, name) for name in os.listdir(folder.name))

    def problems(self, paths):
        # Of other units of this machine it may say what it likes.
        names = "|".join(re.escape(os.path.basename(path)) for path in paths)
        return [line for line in self.analyze("verify", *paths)[1].splitlines() if re.search(names, line)]

    def test_units_verify(self):
        self.assertEqual(self.problems(self.copies()), [])

    def test_mistakes_in_units_are_seen(self):
        for wrong in (lambda text: text.replace("ProtectSystem=strict", "ProtectSytem=strict"),
                      lambda text: text.replace("Restart=on-failure", "Restart=sometimes"),
                      lambda text: text.replace("bin/tutti-", "bin/tuttti-")):
            self.assertNotEqual(self.problems(self.copies(wrong)), [])

    def test_units_are_hardened(self):
        for path in self.copies():
            code, said = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", path)
            self.assertEqual(code, 0, said[-400:])


class Service(unittest.TestCase):
    """The installed tree serves, and programs of others are built against it."""

    @classmethod
    def setUpClass(cls):
        cls.installed = Installed()
        cls.addClassCleanup(cls.installed.cleanup)
        cls.address, cls.http = cls.installed.serve()
        wait_until(lambda: Gateway(cls.http).get("/ready").status == 200, "the service is ready")

    def test_command_and_gateway_answer(self):
        done = self.installed.run("tutti", "chat", "--message", QUESTION, "--temperature", "0", "--address", self.address)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "42"), done.stderr)
        answer = Gateway(self.http).post("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}],
                                                                  "temperature": 0})
        self.assertEqual(answer.json()["choices"][0]["message"]["content"], "42")

    def test_programs_of_others(self):
        with tempfile.TemporaryDirectory(prefix="tutti-example-") as folder:
            source, build = os.path.join(folder, "source"), os.path.join(folder, "build")
            shutil.copytree(os.path.join(HERE, "example"), source)
            self.build("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.installed.path('usr')}")
            self.build("cmake", "--build", build)
            self.check(os.path.join(build, "ask"))
            # The same object, linked as pkg-config says, in another order of tools.
            made = os.path.join(build, "CMakeFiles", "ask.dir", "ask.cc.o")
            said = subprocess.run(["pkg-config", "--libs", "tutti"], capture_output=True, text=True, env=clean_environment(
                PKG_CONFIG_PATH=self.installed.path("usr/lib/pkgconfig")), check=True).stdout.split()
            self.build("c++", made, "-o", os.path.join(folder, "ask"), *said)
            self.check(os.path.join(folder, "ask"))

    def build(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, env=clean_environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check(self, program):
        done = subprocess.run([program, self.address, QUESTION], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "42"), done.stderr)
        nobody = subprocess.run([program, "unix:/nowhere/at.all", QUESTION], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(nobody.returncode, 1)


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("dpkg-deb"), "needs dpkg-dev")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-deb-")
        cls.addClassCleanup(folder.cleanup)
        done = subprocess.run(["cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", folder.name,
                               "-D", "CPACK_COMPONENTS_ALL=" + ";".join(COMPONENTS), "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"],
                              capture_output=True, text=True, env=clean_environment(), check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.paths = {name.split("_")[0]: os.path.join(folder.name, name)
                     for name in os.listdir(folder.name) if name.endswith(".deb")}

    def say(self, *arguments):
        return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout

    def test_packages(self):
        self.assertEqual(set(self.paths), {"tutti-client", "tutti-server", "libtutti-dev"})
        for name, path in self.paths.items():
            self.assertEqual(self.say("-f", path, "Package").strip(), name)
            self.assertRegex(self.say("-f", path, "Version"), r"^\d+\.\d+\.\d+\+[A-Za-z0-9.]+\n$")
            self.assertIn(f"./usr/share/doc/{name}/copyright", self.say("-c", path))

    def test_what_they_need(self):
        for name in ("tutti-client", "tutti-server"):
            self.assertRegex(self.say("-f", self.paths[name], "Depends"), r"libgrpc\+\+1\.51.*\blibprotobuf32\b")
        self.assertIn("libgrpc++-dev", self.say("-f", self.paths["libtutti-dev"], "Depends"))

    def test_where_files_go(self):
        listed = {name: self.say("-c", path) for name, path in self.paths.items()}
        self.assertIn("./usr/bin/tutti\n", listed["tutti-client"])
        self.assertNotIn("./usr/bin/tutti\n", listed["tutti-server"])
        self.assertIn("./etc/tutti/coordinator.toml\n", listed["tutti-server"])
        self.assertIn("./usr/lib/systemd/system/tutti-worker@.service\n", listed["tutti-server"])
        for text in listed.values():
            self.assertNotIn("root/", text.replace("root/root", ""))
            for line in text.splitlines():
                self.assertNotRegex(line, r"^.....w|^........w", "others may write it")

    def test_settings_are_conffiles(self):
        with tempfile.TemporaryDirectory() as folder:
            self.say("-e", self.paths["tutti-server"], folder)
            with open(os.path.join(folder, "conffiles"), encoding="utf-8") as file:
                named = set(file.read().split())
            listed = self.say("-c", self.paths["tutti-server"])
            self.assertEqual(named, {line.split()[-1][1:] for line in listed.splitlines() if re.search(r" \./etc/\S*[^/]$", line)})
            for script in ("postinst", "prerm", "postrm"):
                path = os.path.join(folder, script)
                self.assertTrue(os.access(path, os.X_OK), script)
                subprocess.run(["sh", "-n", path], check=True)

    def test_programs_are_stripped(self):
        with tempfile.TemporaryDirectory() as folder:
            self.say("-x", self.paths["tutti-client"], folder)
            said = subprocess.run(["readelf", "-S", os.path.join(folder, "usr/bin/tutti")], capture_output=True, text=True,
                                  check=True).stdout
            self.assertNotIn(".debug_info", said)


if __name__ == "__main__":
    os.chdir(SOURCE)
    unittest.main()
