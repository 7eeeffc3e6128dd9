"""The messages in proto/ against buf: names and comments, and no change that breaks clients of the public API.

    buf_test.py            both checks; exits with 77 where buf is not installed and cannot be
    buf_test.py --accept   writes down the public API as it is now: it is what clients may rely on from here on

buf comes from the Python package index, into a virtual environment in the build folder.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.join(HERE, "..", "..")  # buf.yaml is there
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
# The public API as clients know it, as text: a reviewer sees what a change of it does.
ACCEPTED = os.path.join(HERE, "public_api.txtpb")
PUBLIC = os.path.join("proto", "tutti", "v1")
SKIPPED = 77
INSTALL_TIMEOUT_S = 120


def find_buf():
    """The path of the buf that is asked for, installed where it is missing; None: it cannot be had."""
    folder = os.path.join(os.environ.get("TUTTI_BINARY_DIR", tempfile.gettempdir()), "buf")
    path, stamp = os.path.join(folder, "bin", "buf"), os.path.join(folder, "requirements.txt")
    if os.path.exists(path) and os.path.exists(stamp) and _text(stamp) == _text(REQUIREMENTS):
        return path
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", folder],
                    [os.path.join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
                     "--retries", "1", "--timeout", "10", "--require-hashes", "-r", REQUIREMENTS]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"cannot install buf: {error}")
            return None
        if done.returncode != 0:
            print(f"cannot install buf: {' '.join(command)}:\n{done.stdout}{done.stderr}")
            return None
    shutil.copy(REQUIREMENTS, stamp)
    return path


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(*arguments, folder=TREE):
    """(exit status, output) of buf, which needs nothing from outside for our files."""
    done = subprocess.run([BUF, *arguments], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class BufTest(unittest.TestCase):
    def test_lint(self):
        self.assertEqual(run("lint"), (0, ""))

    def test_nothing_breaks_clients(self):
        status, output = run("breaking", "--against", ACCEPTED)
        self.assertEqual((status, output), (0, ""), "clients of the accepted API would break; before the first "
                         "release `buf_test.py --accept` takes the change, after it only a new package does")

    def test_what_was_added_is_accepted_too(self):
        with tempfile.TemporaryDirectory() as folder:
            now = os.path.join(folder, "now.txtpb")
            self.assertEqual(build(now), (0, ""))
            # Its spaces are another's with every build of buf, on purpose.
            self.assertEqual(_text(now).split(), _text(ACCEPTED).split(), "run tests/proto/buf_test.py --accept, and look at the diff")


class PlantedTest(unittest.TestCase):
    """Checks that find nothing prove nothing."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = self.folder.name
        shutil.copytree(os.path.join(TREE, "proto"), os.path.join(self.tree, "proto"))
        shutil.copy(os.path.join(TREE, "buf.yaml"), self.tree)

    def plant(self, old, new):
        path = os.path.join(self.tree, PUBLIC, "generation.proto")
        text = _text(path)
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new, 1))

    def test_a_field_without_a_comment(self):
        self.plant("message TokenIds {", "message TokenIds {\n  reserved 9;\n  int32 planted = 7;")
        status, output = run("lint", folder=self.tree)
        self.assertNotEqual(status, 0)
        self.assertIn('Field "planted" should have a non-empty comment', output)

    def test_a_field_of_another_type(self):
        self.plant("uint32 n = 7;", "string n = 7;")
        status, output = run("breaking", "--against", ACCEPTED, folder=self.tree)
        self.assertNotEqual(status, 0)
        self.assertIn('Field "7" with name "n" on message "GenerateRequest" changed type', output)


def build(path):
    return run("build", "--path", PUBLIC, "--exclude-source-info", "-o", path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--accept", action="store_true", help="write the public API down as it is now")
    parsed = parser.parse_args()
    BUF = find_buf()
    if BUF is None:
        print("skipped: the messages were not checked, for lack of buf")
        sys.exit(SKIPPED)
    if parsed.accept:
        code, said = build(ACCEPTED)
        print(said or f"written: {ACCEPTED}")
        sys.exit(code)
    unittest.main(argv=sys.argv[:1])
