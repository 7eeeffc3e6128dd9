"""Runs test files of others under pytest, unchanged, and says of each what became of its tests."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILE_S = 600


def run(root, path, plugins, arguments=(), **settings):
    """[(test, outcome, what was said)] of a file below `root`; `plugins`: modules beside this one, or of the settings' PYTHONPATH."""
    with tempfile.TemporaryDirectory(prefix="tutti-suite-") as aside:
        outcomes, log = os.path.join(aside, "outcomes"), os.path.join(aside, "log")
        environment = {**os.environ, **settings, "OUTCOMES": outcomes,
                       "PYTHONPATH": os.pathsep.join([HERE, root, settings.get("PYTHONPATH", "")])}
        named = [word for plugin in ["outcomes", *plugins] for word in ("-p", plugin)]
        with open(log, "w", encoding="utf-8") as said:
            ended = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *named, "-c", os.devnull, "--rootdir", root,
                                    *arguments, path], cwd=root, env=environment, stdout=said, stderr=said, check=False, timeout=FILE_S)
        if not os.path.exists(outcomes):
            with open(log, encoding="utf-8") as said:
                return [(path, "wrong", f"pytest ended with {ended.returncode}: {said.read()[-2000:]}")]
        if os.environ.get("TUTTI_SUITE_LOG"):
            with open(log, encoding="utf-8") as said, open(os.environ["TUTTI_SUITE_LOG"], "a", encoding="utf-8") as kept:
                kept.write(said.read())
        with open(outcomes, encoding="utf-8") as file:
            return [tuple(json.loads(line)) for line in file]


def report(name, found, elsewhere=()):
    """Prints the line of a file; whether nothing in it was wrong.

    `elsewhere`: [(pattern of tests, why they are not about us)], looked at for those that failed.
    """
    counts, named, others, wrong = collections.Counter(), collections.Counter(), collections.Counter(), []
    for test, outcome, said in found:
        failed = outcome in ("wrong", "refused")
        reason = next((why for pattern, why in elsewhere if failed and re.search(pattern, test)), None)
        outcome = "elsewhere" if reason else outcome
        counts[outcome] += 1
        if reason:
            others[reason] += 1
        elif outcome == "refused":
            named[said if said.startswith("path ") else said.split(".")[0].split("[")[0]] += 1
        elif outcome == "wrong":
            wrong.append(f"{test.split('::', 1)[-1]}: {said}".replace("\n", " "))
    told = f"{name}: {counts['passed']} passed, {counts['refused']} refused{listed(named)}"
    if counts["elsewhere"]:
        told += f", {counts['elsewhere']} not about the service{listed(others)}"
    if counts["skipped"]:
        told += f", {counts['skipped']} skipped by themselves"
    good = not wrong and sum(counts.values()) > 0
    print(f"ok {told}" if good else f"FAILED {told}, {len(wrong)} wrong: {wrong[:30]}", flush=True)
    return good


def listed(counter):
    return f" ({', '.join(f'{what} {count}' for what, count in sorted(counter.items()))})" if counter else ""
