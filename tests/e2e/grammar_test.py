#!/usr/bin/env python3
"""Answers by grammars from real processes: what is printed is of the grammar, and workers that are killed while it
streams change nothing of it.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/grammar_test.py
"""
import json
import os
import signal
import threading
import unittest

from harness import Cluster, wait_until

SCHEMA = {"type": "object", "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 20}, "legs": {"type": "integer", "minimum": 0, "maximum": 8},
    "tags": {"type": "array", "items": {"enum": ["tame", "wild", "small"]}, "minItems": 1, "maxItems": 4}},
    "required": ["name", "legs", "tags"], "additionalProperties": False}
KILLS = 6


class Grammars(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.cleanup)
        cls.schema = os.path.join(cls.cluster.dir.name, "schema.json")
        with open(cls.schema, "w", encoding="utf-8") as file:
            json.dump(SCHEMA, file)

    def generate(self, *arguments, stdin=None):
        done = self.cluster.tutti("generate", "--prompt", "An animal: ", "--temperature", "1", "--max-tokens", "900",
                                  *arguments, **({} if stdin is None else {"stdin": stdin}))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def check(self, text):
        animal = json.loads(text)
        self.assertEqual(list(animal), ["name", "legs", "tags"])
        self.assertTrue(0 <= animal["legs"] <= 8 and 1 <= len(animal["tags"]) <= 4 and 1 <= len(animal["name"]) <= 20)

    def test_json_by_a_schema(self):
        for seed in range(5):
            self.check(self.generate("--json-schema", self.schema, "--seed", str(seed)))
        self.check(self.generate("--json-schema", self.schema, "--json-blanks", "--seed", "7"))

    def test_the_other_kinds(self):
        self.assertRegex(self.generate("--regex", "[A-Z]{2}[0-9]{3}"), r"^[A-Z]{2}\d{3}$")
        self.assertIn(self.generate("--choice", "yes", "--choice", "no, never"), ("yes", "no, never"))
        rules = os.path.join(self.cluster.dir.name, "rules")
        with open(rules, "w", encoding="utf-8") as file:
            file.write('root ::= pair ("," pair){1,2}\npair ::= [a-c] [0-9]\n')
        self.assertRegex(self.generate("--grammar", rules), r"^[a-c]\d(,[a-c]\d){1,2}$")
        self.assertTrue(self.generate("--json-object").startswith("{"))

    def test_what_is_refused_is_named_by_its_flag(self):
        for words, arguments in (("--regex: ", ("--regex", "a(")), ("--json-schema: /: |--json-schema: ", ("--json-schema", "-")),
                                 ("--json-blanks is of JSON", ("--json-blanks",)),
                                 ("--regex", ("--regex", "a", "--choice", "b"))):
            done = self.cluster.tutti("generate", "--prompt", "x", *arguments, stdin='{"not": {}}')
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, words)

    def test_workers_that_die_change_nothing(self):
        arguments = ("--json-schema", self.schema, "--outputs", "8", "--seed", "3")
        whole = self.generate(*arguments)
        ended = threading.Event()

        def kill():
            for _ in range(KILLS):
                workers = sorted(name for name in self.cluster.children() if name != "coordinator")
                if workers and not ended.is_set():
                    os.kill(self.cluster.children()[workers[-1]], signal.SIGKILL)
                ended.wait(0.3)
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            self.assertEqual(self.generate(*arguments), whole)
        finally:
            ended.set()
            killer.join()
        wait_until(self.cluster.serving, "it serves again")


if __name__ == "__main__":
    unittest.main(verbosity=2)
