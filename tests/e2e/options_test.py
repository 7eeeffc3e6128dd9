#!/usr/bin/env python3
"""Every option of every program, read off its --help: it has a variable of the environment and a key in the file, and the
command line wins over the environment, which wins over the file, as --show-settings tells. A wrong value is refused with its
place, and nothing that is meant for another command is in the way."""
import collections
import os
import re
import subprocess
import tempfile
import unittest

from harness import BINARIES, DEMO, PATIENCE_S, clean_environment

PROGRAMS = ["tutti-coordinator", "tutti-worker", "tutti-gateway", "tutti"]
# Not set but done.
ACTIONS = {"--help", "--version", "--config", "--list-devices", "--show-settings"}
# Of these a word is no value.
KINDS = {"INT", "UINT", "FLOAT"}
CHECKED = re.compile(r"SIZE|ADDRESS|FILE|DIR|\{")

# An option: `kind` is None of a switch, `check` the values that it takes, `excludes` others that it cannot stand beside.
Option = collections.namedtuple("Option", "variable kind check excludes required")


def run(*command, **variables):
    done = subprocess.run([os.path.join(BINARIES, command[0]), *command[1:]], text=True, capture_output=True, timeout=PATIENCE_S,
                          env=clean_environment(**variables))
    return done.returncode, done.stdout + done.stderr


def help_of(command):
    code, text = run(*command, "--help")
    assert code == 0, text
    return text


def options_of(command):
    """{"--name": Option} as --help tells them."""
    found = {}
    for names, rest in re.findall(r"^  ((?:-\w,)?--[\w-]+(?:,--?[\w!{}-]+)*)((?:[^\n]|\n {6})*)", help_of(command), re.M):
        name = re.search(r"--[\w-]+", names)[0]
        variable = re.search(r"\(Env:(\w+)\)", rest)
        kind = re.match(r"\s+([A-Z]+)(?::([^=\n]*?))?(?:=| \.\.\.| REQUIRED| \(Env|$)", rest, re.M)
        excludes = re.search(r"Excludes:((?: -[\w,-]+)+)", rest)
        found[name] = Option(variable and variable[1], kind and kind[1], kind and kind[2] or "",
                             set(re.findall(r"--[\w-]+", excludes[1])) if excludes else set(),
                             bool(re.match(r"[^\n(]* REQUIRED", rest)))
    return found


def commands(of=None):
    for program in [of] if of else [[one] for one in PROGRAMS]:
        yield program
        text = help_of(program)
        names = re.findall(r"^  ([a-z]+)  ", text[text.find("Subcommands:"):], re.M) if "Subcommands:" in text else []
        for name in names:
            yield from commands([*program, name])


def required_by(command):
    """What must stand on the line: arguments without a name."""
    return ["x" for _ in re.findall(r"^  \w+ TEXT REQUIRED", help_of(command), re.M)]


def values_of(option, folder):
    """Three of an option's values, different where it has as many."""
    if option.kind is None:
        return ["false", "true", "false"]
    if option.check.startswith("{"):
        choices = option.check[1:option.check.index("}")].split(",")
        return [choices[0], choices[1 % len(choices)], choices[2 % len(choices)]]
    bounds = re.search(r"in \[(\S+) - (\S+)\]", option.check)
    if bounds:
        low = float(bounds[1])
        return [bounds[1], f"{low + 1:g}", bounds[2]]
    if option.kind == "INT" and "SIZE" in option.check:
        return ["1073741824", "20000000", "307200"]  # shown as the number that was read
    for sign, values in {"SIZE": ["1GiB", "20MB", "300KiB"], "ADDRESS": [f"127.0.0.1:{port}" for port in (5001, 5002, 5003)],
                         "FILE": [os.path.join(DEMO, name) for name in ("config.json", "tokenizer.json", "model.safetensors")],
                         "DIR": [folder, DEMO, "/"]}.items():
        if sign in option.check:
            return values
    return ["1", "2", "3"] if option.kind in KINDS else ["one", "two words", 'thr"ee']


def as_setting(option, value):
    if option.kind is None or re.fullmatch(r"0|-?[1-9]\d*", value):
        return value
    return '"' + value.replace('"', '\\"') + '"'


class OptionsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-options-")
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "flags.toml")

    def write(self, command, text):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write((f"[{'.'.join(command[1:])}]\n" if len(command) > 1 else "") + text + "\n")

    def settings(self, command, line, **variables):
        """{name: (value, source)} of what is set, as --show-settings tells it."""
        code, text = run(command[0], "--config", self.file, *command[1:], *line, "--show-settings", **variables)
        self.assertEqual(code, 0, text)
        return {found[1]: (found[2], found[3]) for found in re.finditer(r"^([\w-]+) = (.*?)  # (.*)$", text, re.M)}

    def check_sources(self, command, options):
        """Of options that may stand beside each other: each of the three places, and who wins."""
        values = {name: values_of(option, os.path.dirname(self.file)) for name, option in options.items()}
        first = 2 if len(command) > 1 else 1
        self.write(command, "\n".join(f"{name[2:]} = {as_setting(one, values[name][0])}" for name, one in options.items()))
        line = required_by(command)
        variables = {one.variable: values[name][1] for name, one in options.items()}
        on_line = [f"{name}={values[name][2]}" for name in options]
        from_file = self.settings(command, line)
        from_variables = self.settings(command, line, **variables)
        from_line = self.settings(command, [*line, *on_line], **variables)
        for number, (name, one) in enumerate(options.items()):
            with self.subTest(command=command, option=name):
                told = [as_setting(one, value) for value in values[name]]
                self.assertEqual(from_file.get(name[2:]), (told[0], f"{self.file}:{first + number}"))
                self.assertEqual(from_variables.get(name[2:]), (told[1], f"the environment's {one.variable}"))
                self.assertEqual(from_line.get(name[2:]), (told[2], "the command line"))

    def test_every_option_may_be_given_in_each_place(self):
        count = 0
        for command in commands():
            options = {name: one for name, one in options_of(command).items() if name not in ACTIONS}
            if "Subcommands:" in help_of(command) or not options:
                continue
            alone = {name for name, one in options.items() if one.excludes}
            alone |= {other for one in options.values() for other in one.excludes}
            needed = {name for name, one in options.items() if one.required}
            for group in [set(options) - alone, *({name} | needed for name in sorted(alone))]:
                count += len(group)
                self.check_sources(command, {name: one for name, one in options.items() if name in group})
        print(f"{count} options by file, variable and flag")
        self.assertGreater(count, 200)

    def test_every_option_has_a_variable(self):
        count = 0
        for command in commands():
            for name, option in options_of(command).items():
                if name in ACTIONS - {"--config"}:
                    continue
                count += 1
                with self.subTest(command=command, option=name):
                    self.assertIsNotNone(option.variable)
                    self.assertRegex(option.variable, r"^TUTTI_[A-Z0-9_]+$")
        print(f"{count} options")
        self.assertGreater(count, 150)

    def test_the_line_wins_over_the_environment_wins_over_the_file(self):
        tried = 0
        for command in commands():
            for name, option in options_of(command).items():
                if name in ACTIONS or (option.kind not in KINDS and not CHECKED.match(option.check)):
                    continue
                tried += 1
                variable, line = option.variable, 2 if len(command) > 1 else 1
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
        self.assertGreater(tried, 100)

    def test_what_is_meant_for_another_command_is_not_in_the_way(self):
        self.write(["tutti", "generate"], 'temperature = "warm"')
        code, text = run("tutti", "--config", self.file, "tokenize", "--show-settings", TUTTI_WORKERS="none", TUTTI_LISTEN="x")
        self.assertEqual(code, 0, text)
        code, text = run("tutti", "--config", self.file, "generate", "--show-settings")
        self.assertEqual(code, 2, text)
        self.assertIn(f'--temperature: "warm" is no number (from {self.file}:2)', text)

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
