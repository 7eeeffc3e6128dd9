"""Checks of the compose file and of systemd's units against the programs."""
import os
import re
import shlex
import tomllib

import yaml

from programs import CommandLine, takes


def seconds(text):
    """Of compose's "45s" or "10m"."""
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def check_compose(text):
    document = yaml.safe_load(text)
    problems = []
    known = {address: name for name, service in document["services"].items()
             for flag, address in CommandLine(service["entrypoint"]).values if flag.endswith("listen")}
    for name, service in document["services"].items():
        line = CommandLine(service["entrypoint"])
        found = list(line.problems)
        if "healthcheck" in service:
            found += CommandLine(service["healthcheck"]["test"][1:]).problems
        if line.takes is not None:
            found += [f"it needs {flag}" for flag in line.takes.required - set(dict(line.values))]
            variables = {**line.takes.variables, **takes("tutti", "status").variables}
            found += [f"no program reads {variable}" for variable in service.get("environment", {}) if variable not in variables]
            drain = float(line.value("--drain-timeout", line.takes.drain_s))
            if seconds(service["stop_grace_period"]) <= drain:
                found.append(f"stop_grace_period {service['stop_grace_period']} is not above its drain of {drain:g} s")
        for flag, value in line.values:
            if flag in ("--coordinator", "--peer") and value.rpartition("=")[2] not in known:
                found.append(f"{flag} {value}: nobody listens there")
        problems += [f"compose: {name}: {problem}" for problem in found]
    return problems


def check_unit(name, text, folder):
    """A template of a unit; its settings lie in the folder."""
    settings = [line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w*=", line)]
    said = dict(settings)
    line = CommandLine(shlex.split(said["ExecStart"].replace("@bin@/", "")))
    problems = list(line.problems)
    path = os.path.join(folder, os.path.basename(line.value("--config", "none")))
    if not os.path.exists(path):
        return [f"{name}: its --config is not installed"]
    with open(path, "rb") as file:
        keys = tomllib.load(file)
    if line.takes is not None:
        problems += [f"{os.path.basename(path)}: {line.program} has no {key}" for key in keys if "--" + key not in line.takes.flags]
        missing = line.takes.required - set(dict(line.values)) - {"--" + key for key in keys}
        problems += [f"it needs {flag}" for flag in sorted(missing)]
        if float(said["TimeoutStopSec"]) <= float(keys.get("drain-timeout", line.takes.drain_s)):
            problems.append("TimeoutStopSec is not above drain-timeout")
    if said.get("KillSignal", "SIGTERM") != "SIGTERM":
        problems.append("only SIGTERM lets what runs finish")
    return [f"{name}: {problem}" for problem in problems]
