"""A tree of a few files in a temporary folder, and what a rule finds in it."""
import os
import tempfile
import unittest

from tree import Tree


class PlantedTest(unittest.TestCase):
    """Tests of rules: a violation planted in a tree is found, and its clean variant is not."""

    def problems(self, rule, files):
        """What `rule.check` says of a tree of `files`, {path: text}."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                target = os.path.join(root, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8") as file:
                    file.write(text)
            return [str(problem) for problem in rule.check(Tree(root))]

    def assert_found(self, rule, files, *expected):
        """Exactly these problems, each given by a part of its text, in order."""
        problems = self.problems(rule, files)
        self.assertEqual(len(problems), len(expected), problems)
        for problem, part in zip(problems, expected):
            self.assertIn(part, problem)

    def assert_clean(self, rule, files):
        self.assertEqual(self.problems(rule, files), [])


def in_namespace(name, body):
    """A source file that is nothing but `body` in a namespace."""
    return f"// A file.\nnamespace {name} {{\n\n{body}\n\n}}  // namespace {name}\n"
