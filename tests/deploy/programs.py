"""What the programs take, as they say themselves: flags, variables of the environment, paths that their ports serve."""
import functools
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import BINARIES, clean_environment  # noqa: E402

DAEMONS = ("tutti-coordinator", "tutti-worker", "tutti-gateway")
PROGRAMS = (*DAEMONS, "tutti")
# Flags of ports over TCP, and what a GET finds there.
SERVED = {"--metrics": {"/metrics", "/healthz"}, "--peer-listen": set(), "--admin-listen": set(),
          ("tutti-gateway", "--listen"): {"/live", "/ready", "/health", "/ping", "/metrics"}}
# Flags that say where another process is.
DIALLED = ("--coordinator", "--address", "--admin", "--other-coordinator", "--peer")


class Takes:
    """flags: {flag: whether a value follows}; variables: {variable: flag}; required: flags that must be given; drain_s: the
    default of --drain-timeout."""

    def __init__(self, text):
        self.flags, self.variables, self.required, self.drain_s = {}, {}, set(), 0.0
        for line in text.splitlines():
            found = re.match(r"  (-\S+)( [A-Z]+\S*(?: in \[.*?\])?(?:=\S*)?)?(.*)$", line)
            if not found:
                continue
            names = [name for name in found.group(1).split(",") if name.startswith("-")]
            for name in names:
                self.flags[name] = bool(found.group(2)) or name == "--config"
            if "--drain-timeout" in names:
                self.drain_s = float(found.group(2).rpartition("=")[2])
            for variable in re.findall(r"\(Env:(\w+)\)", line):
                self.variables[variable] = names[-1]
            if " REQUIRED" in line:
                self.required.add(names[-1])


@functools.cache
def takes(program, *command):
    said = subprocess.run([os.path.join(BINARIES, program), *command, "--help"], capture_output=True, text=True, check=False,
                          env=clean_environment())
    if said.returncode != 0:
        raise ValueError(f"{' '.join((program, *command))} --help: {said.stderr.strip()}")
    return Takes(said.stdout)


@functools.cache
def commands():
    """Of `tutti`."""
    said = subprocess.run([os.path.join(BINARIES, "tutti"), "--help"], capture_output=True, text=True, check=True,
                          env=clean_environment()).stdout
    return set(re.findall(r"(?m)^  ([a-z]+) ", said.split("Subcommands:")[1]))


def served_by(program, flag):
    return SERVED.get((program, flag), SERVED.get(flag, set()))


class CommandLine:
    """A program's name and arguments: problems, and the values of its flags."""

    def __init__(self, words):
        self.program = os.path.basename(words[0]) if words else ""
        self.problems, self.values, self.takes = [], [], None
        if self.program not in PROGRAMS:
            self.problems.append(f"there is no program {self.program!r}")
            return
        rest = list(words[1:])
        command = []
        if self.program == "tutti":
            if not rest or rest[0] not in commands():
                self.problems.append(f"tutti has no command {rest[:1]}")
                return
            command = [rest.pop(0)]
        self.takes = takes(self.program, *command)
        self.read(rest, bool(command))

    def read(self, rest, lenient):
        while rest:
            word = rest.pop(0)
            flag, _, value = word.partition("=")
            if not flag.startswith("--"):
                self.problems.append(f"{self.program}: {word!r} is no flag")
            elif flag not in self.takes.flags:
                self.problems.append(f"{self.program} has no flag {flag}")
                if rest and not rest[0].startswith("--"):
                    rest.pop(0)
            elif value:
                self.values.append((flag, value))
            elif (self.takes.flags[flag] or lenient) and rest and not rest[0].startswith("--"):
                self.values.append((flag, rest.pop(0)))
            elif self.takes.flags[flag]:
                self.problems.append(f"{self.program}: {flag} has no value")
            else:
                self.values.append((flag, ""))

    def value(self, flag, otherwise=""):
        return dict(self.values).get(flag, otherwise)
