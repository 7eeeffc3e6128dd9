#!/usr/bin/env python3
"""Every option of every program, read off its --help: it has a variable of the environment and a key in the file, and the
command line wins over the environment, which wins over the file. A wrong value is refused with its place."""
import os
import re
import subprocess
import tempfile
import unittest

from harness import BINARIES, clean_environment

PROGRAMS = ["tutti-coordinator", "tutti-worker", "tutti"]
# Not set but done.
ACTIONS = {"--help", "--version", "--config", "--list-devices"}
# Of these a word is no value.
KINDS = {"INT", "UINT", "FLOAT", "SIZE"}


def run(*command, **variables):
    done = subprocess.run([os.path.join(BINARIES, command[0]), *command[1:]], text=True, capture_output=True, timeout=60,
                          env=clean_environment(**variables))
    return done.returncode, done.stdout + done.stderr


def options_of(command):
    """{"--name": (variable, kind)} as --help tells them."""
    code, text = run(*command, "--help")
    assert code == 0, text
    found = {}
    for names, rest in re.findall(r"^  ((?:-\w,)?--[\w-]+(?:,--?[\w!{}-]+)*)((?:[^\n]|\n {6})*)", text, re.M):
        name = re.search(r"--[\w-]+", names)[0]
        variable = re.search(r"\(Env:(\w+)\)", rest)
        kind = re.match(r"\s+([A-Z]+)\b", rest)
        found[name] = (variable and variable[1], kind and kind[1])
    return found


def commands():
    for program in PROGRAMS:
        _, text = run(program, "--help")
        names = re.findall(r"^  ([a-z]+)  ", text[text.find("Subcommands:"):], re.M) if "Subcommands:" in text else []
        yield [program]
        for name in names:
            yield [program, name]


class OptionsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-options-")
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "flags.toml")

    def write(self, command, text):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write((f"[{command[1]}]\n" if len(command) > 1 else "") + text + "\n")

    def test_every_option_has_a_variable(self):
        count = 0
        for command in commands():
            for name, (variable, _) in options_of(command).items():
                if name in ACTIONS - {"--config"}:
                    continue
                count += 1
                with self.subTest(command=command, option=name):
                    self.assertIsNotNone(variable)
                    self.assertRegex(variable, r"^TUTTI_[A-Z0-9_]+$")
        print(f"{count} options")
        self.assertGreater(count, 150)

    def test_the_line_wins_over_the_environment_wins_over_the_file(self):
        tried = 0
        for command in commands():
            for name, (variable, kind) in options_of(command).items():
                if kind not in KINDS or name in ACTIONS:
                    continue
                tried += 1
                line = 2 if len(command) > 1 else 1
                program = [command[0], "--config", self.file, *command[1:]]
                with self.subTest(command=command, option=name):
                    self.write(command, f'{name[2:]} = "wrong"')
                    code, text = run(*program)
                    self.assertEqual(code, 2, text)
                    self.assertIn(f"{name}", text)
                    self.assertIn(f"(from {self.file}:{line})", text)
                    code, text = run(*program, **{variable: "wrong"})
                    self.assertEqual(code, 2, text)
                    self.assertIn(f"(from the environment's {variable})", text)
                    code, text = run(*program, f"{name}=wrong", **{variable: "wrong"})
                    self.assertEqual(code, 2, text)
                    self.assertIn(name, text)
                    self.assertNotIn("(from", text)
        print(f"{tried} options with values of a kind, 3 places each")
        self.assertGreater(tried, 60)

    def test_a_key_or_option_that_there_is_not_is_named_with_what_was_meant(self):
        for command in commands():
            options = [name for name in options_of(command) if name not in ACTIONS and len(name) > 6]
            if not options:
                continue
            with self.subTest(command):
                name = options[0]
                misspelt = name[:4] + name[5:]
                self.write(command, f'{misspelt[2:]} = "x"')
                code, text = run(command[0], "--config", self.file, *command[1:])
                self.assertEqual(code, 2, text)
                self.assertIn(f"{self.file}:{2 if len(command) > 1 else 1}: {command[-1]} has no option", text)
                self.assertIn(f"did you mean {name[2:]}?", text)
                code, text = run(*command, f"{misspelt}=x")
                self.assertEqual(code, 2, text)
                self.assertIn(f"there is no option {misspelt}; did you mean {name}?", text)


if __name__ == "__main__":
    unittest.main()
