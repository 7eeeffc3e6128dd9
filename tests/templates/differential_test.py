#!/usr/bin/env python3
"""Renders templates with ours and with jinja2 as transformers sets it up, and compares.

    tests/templates/differential_test.py --probe build/release/tests/template_probe
        [--conversations N] [--combinations N] [--seed N] [--templates DIR]... [--quiet]

Templates: tools/chat_formats, those of $TUTTI_TESTDATA, those of DIR (*.jinja), and the constructs of
constructs.py, with N random combinations of them (600). Each file with N conversations (20), by seed. Where both fail it
is equal; what raise_exception says must be the same. Skipped (exit status 77) where jinja2 is not installed.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

try:
    import jinja2
except ImportError:
    print("SKIPPED: jinja2 is not installed")
    sys.exit(77)

import constructs
import conversations
import reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOW = 1_721_995_205
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
SHOWN_MAX = 3


class Probe:
    """Our engine, in a process of its own."""

    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def expected(template, messages, kwargs):
    try:
        return {"prompt": reference.render(template, messages, kwargs, TOKENS)}
    except reference.TemplateRaised as error:
        return {"error": str(error), "raised": True}
    except Exception as error:  # whatever Python raises, it is no prompt
        return {"error": f"{type(error).__name__}: {error}"}


def is_comparable(want):
    """Addresses in memory differ; ours refuses to print what has no text of its own."""
    return " object at 0x" not in want.get("prompt", "") and " at 0x" not in want.get("prompt", "")


def is_encodable(result):
    """Lone surrogates are no UTF-8: Python has them, a prompt has not."""
    try:
        result.get("prompt", "").encode()
    except UnicodeEncodeError:
        return False
    return True


def agree(want, got, any_value):
    if any_value and "cannot be written as text" in got.get("error", ""):
        return True  # where Python shows an address, or a part of one
    if not is_encodable(want) or not is_comparable(want):
        return "error" in got
    if "prompt" in want or "prompt" in got:
        return want.get("prompt") == got.get("prompt")
    return not want.get("raised") or want["error"] == got["error"]


class Comparison:
    def __init__(self, probe, quiet):
        self.probe = probe
        self.quiet = quiet
        self.rendered = self.raised = self.differ = self.unknown = self.templates = 0

    def load(self, name, source, may_fail_late=False):
        """The reference's template; None where either does not compile it. `may_fail_late`: ours
        may refuse it although jinja2 would only when it renders it, and the other way round."""
        self.templates += 1
        try:
            template = reference.compile_template(source, NOW)
        except (jinja2.TemplateError, SyntaxError) as error:
            template = None
            self.unknown += 1
            if not may_fail_late:
                print(f"{name}: not compiled by jinja2: {error}")
        reply = self.probe.ask({"template": source, "tokens": TOKENS})
        refused = "error" in reply
        if template is None and may_fail_late and not refused:
            refused = True
            if "prompt" in self.probe.ask({"messages": [], "kwargs": constructs.VARIABLES}):
                self.differ += 1
                print(f"FAILED {name}: rendered, jinja2 does not compile it")
        if template is not None and refused:
            want = expected(template, [], constructs.VARIABLES) if may_fail_late else {"prompt": ""}
            if "prompt" in want:
                self.differ += 1
                print(f"FAILED {name}: refused: {reply['error']}")
        return None if refused else template

    def compare(self, name, template, messages, kwargs, any_value=False):
        want = expected(template, messages, kwargs)
        got = self.probe.ask({"messages": messages, "kwargs": kwargs, "now": NOW})
        self.rendered += "prompt" in want
        self.raised += "prompt" not in want
        if agree(want, got, any_value):
            return True
        self.differ += 1
        print(f"FAILED {name}")
        if not self.quiet:
            print(f"  messages {json.dumps(messages)}\n  kwargs {json.dumps(kwargs)}")
        print(f"  jinja2 {json.dumps(want)[:1500]}\n  ours   {json.dumps(got)[:1500]}")
        return False

    def check_file(self, path, seed, count):
        template = self.load(path.name, path.read_text())
        if template is None:
            return
        source = random.Random(f"{seed} {path.name}")
        failures = 0
        for _ in range(count):
            messages, kwargs = conversations.conversation(source)
            failures += not self.compare(path.name, template, messages, kwargs)
            if failures >= SHOWN_MAX:
                print(f"  {path.name}: no more of it is compared")
                break

    def check_constructs(self, seed, combinations):
        source = random.Random(f"{seed} constructs")
        messages, kwargs = conversations.conversation(source)
        is_old = tuple(map(int, jinja2.__version__.split("."))) < (3, 1, 6)
        for text in constructs.all_templates(seed, combinations):
            if is_old and constructs.is_newer(text):
                print(f"{text}: not compared, jinja2 {jinja2.__version__} lacks it")
                continue
            template = self.load(text, text, may_fail_late=True)
            if template is not None:
                self.compare(text, template, messages, {**kwargs, **constructs.VARIABLES}, True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", required=True)
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--combinations", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", action="append", default=[])
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    folders = [ROOT / "tools" / "chat_formats", *map(pathlib.Path, options.templates)]
    if os.environ.get("TUTTI_TESTDATA"):
        folders.append(pathlib.Path(os.environ["TUTTI_TESTDATA"]) / "templates")
    comparison = Comparison(Probe(options.probe), options.quiet)
    comparison.check_constructs(options.seed, options.combinations)
    for folder in folders:
        for path in sorted(folder.glob("*.jinja*")):
            comparison.check_file(path, options.seed, options.conversations)
    print(
        f"{comparison.templates} templates, {comparison.rendered} rendered and {comparison.raised} "
        f"refused by jinja2 {jinja2.__version__}, {comparison.unknown} not compiled by it, "
        f"{comparison.differ} differ (seed {options.seed})"
    )
    return 1 if comparison.differ else 0


if __name__ == "__main__":
    sys.exit(main())
