"""The revision in the build stamp (cmake/revision.cmake), with and without git."""
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SCRIPT = "include(${MODULE})\ntutti_find_revision(${FOLDER} found)\nmessage(STATUS \"found=${found}\")\n"


class RevisionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = os.path.join(folder.name, "tree")
        self.script = os.path.join(folder.name, "find.cmake")
        self.write("a/a.cc", "int a;\n")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(SCRIPT)

    def write(self, path, text):
        path = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def find(self, *flags, **environment):
        """(the revision, or None; what cmake said)."""
        kept = {name: value for name, value in os.environ.items() if name != "TUTTI_REVISION"}
        done = subprocess.run(["cmake", f"-DMODULE={ROOT}/cmake/revision.cmake", f"-DFOLDER={self.tree}", *flags,
                               "-P", self.script], capture_output=True, text=True, env={**kept, **environment})
        said = " ".join((done.stdout + done.stderr).split())
        found = re.search(r"found=(\S*)", said)
        return (found.group(1) if found and done.returncode == 0 else None), said

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@e", *arguments], cwd=self.tree, check=True,
                       capture_output=True)

    def test_given_is_taken(self):
        self.assertEqual(self.find("-DTUTTI_REVISION=v1.2-3-gabc-dirty")[0], "v1.2-3-gabc-dirty")
        self.assertEqual(self.find(TUTTI_REVISION="4f2c9aa01d")[0], "4f2c9aa01d")
        self.assertEqual(self.find("-DTUTTI_REVISION=a", TUTTI_REVISION="b")[0], "a")
        self.git("init", "-q")
        self.assertEqual(self.find(TUTTI_REVISION="4f2c9aa01d")[0], "4f2c9aa01d")

    def test_given_is_checked(self):
        self.assertEqual(self.find("-DTUTTI_REVISION=" + "a" * 64)[0], "a" * 64)
        revision, said = self.find("-DTUTTI_REVISION=" + "a" * 65)
        self.assertIsNone(revision)
        self.assertIn("has 65 characters, the limit is 64", said)
        for bad in ('a"b', "a b", "$(x)", "ä"):
            revision, said = self.find(TUTTI_REVISION=bad)
            self.assertIsNone(revision, bad)
            self.assertIn("must be of letters, digits", said)

    def test_git_is_asked(self):
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "m")
        self.assertRegex(self.find()[0], "^[0-9a-f]{10}$")
        self.write("a/a.cc", "int b;\n")
        self.assertRegex(self.find()[0], "^[0-9a-f]{10}-dirty$")

    def test_without_git_it_is_that_of_the_sources(self):
        first = self.find()[0]
        self.assertRegex(first, "^tree-[0-9a-f]{10}$")
        self.write("build/release/made.cc", "int made;\n")
        self.write("a/README.md", "words\n")
        self.assertEqual(self.find()[0], first)
        self.write("a/a.cc", "int b;\n")
        second = self.find()[0]
        self.assertNotEqual(second, first)
        self.write("b/a.cc", "int b;\n")
        self.assertNotEqual(self.find()[0], second)


if __name__ == "__main__":
    unittest.main()
