#!/usr/bin/env python3
"""Compares ours with jinja2, as transformers sets it up, over the whole language.

    tests/templates/sweep_test.py --probe build/release/tests/template_probe [--share S] [--only TEXT]
        [--statements N] [--seed N]

Every operator, filter, test and method with values of every kind (sweeps.py), of which a share of S (0.025) is
chosen by seed, and N (300) templates of statements (statements.py). Where both fail it is equal. Skipped (exit
status 77) where jinja2 is not installed.
"""

import argparse
import random
import re
import sys

import differential_test  # first: it skips where jinja2 is not installed
import constructs
import jinja2
import reference
import statements
import sweeps

SHOWN_MAX = 5

# What ours refuses on purpose: numbers, sets and bytes that templates have no use for.
REFUSED = re.compile(r"[\[( ]-?[0-9.e+-]+j\)|^\[\{[^:]+\}\]$|set\(\)")


class Sweeps:
    def __init__(self, probe):
        self.probe = probe
        self.compared = self.rendered = self.differ = 0

    def ask(self, source):
        """The reference's template, with ours at the ready; None where both refuse it."""
        try:
            template = reference.compile_template(source, differential_test.NOW)
        except (jinja2.TemplateError, SyntaxError):
            template = None
        refused = "error" in self.probe.ask({"template": source, "tokens": {}})
        if (template is None) != refused:
            self.fail(source, "refused" if template is None else "accepted", "refused" if refused else "accepted")
            return None
        return template

    def fail(self, name, want, got):
        self.differ += 1
        print(f"FAILED {name}\n  jinja2 {str(want)[:700]}\n  ours   {str(got)[:700]}")

    def both(self, template, kwargs):
        try:
            want = {"prompt": template.render(messages=[], **kwargs)}
        except Exception as error:  # whatever Python raises, it is no prompt
            want = {"error": f"{type(error).__name__}: {error}"}
        got = self.probe.ask({"messages": [], "kwargs": kwargs, "now": differential_test.NOW})
        self.compared += 1
        self.rendered += "prompt" in want
        return want, got

    def sweep(self, expression, choices):
        """Those that have no text of their own, as lists."""
        template = self.ask(sweeps.template(expression))
        failures, many = 0, []
        for choice in choices if template is not None else []:
            want, got = self.both(template, self.variables(choice))
            if " at 0x" in want.get("prompt", ""):
                many.append(choice)
                if "error" in got:
                    continue
            failures += not self.agree(expression, choice, want, got, failures)
        if many:
            template = self.ask(sweeps.template(expression, many=True))
            for choice in many:
                want, got = self.both(template, self.variables(choice))
                failures += not self.agree(expression, choice, want, got, failures)
        if failures > SHOWN_MAX:
            print(f"  {failures - SHOWN_MAX} more of {expression}")

    @staticmethod
    def variables(choice):
        return {**constructs.VARIABLES, **dict(zip("ijk", (*choice, 0, 0, 0)))}

    def agree(self, expression, choice, want, got, failures):
        if differential_test.agree(want, got, True):
            return True
        if "error" in got and REFUSED.search(want.get("prompt", "")):
            return True
        if failures >= SHOWN_MAX:
            self.differ += 1
            return False
        named = [f"{name} = {sweeps.VALUES[at]}" for name, at in zip("abc", choice) if re.search(rf"\b{name}\b", expression)]
        self.fail(f"{expression}: {', '.join(named)}", want, got)
        return False

    def statements(self, name):
        source = statements.whole_template(random.Random(name))
        template = self.ask(source)
        if template is None:
            return
        want, got = self.both(template, constructs.VARIABLES)
        if not differential_test.agree(want, got, True):
            self.fail(f"{name}: {source!r}", want, got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", required=True)
    parser.add_argument("--share", type=float, default=0.025)
    parser.add_argument("--only", default="")
    parser.add_argument("--statements", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = Sweeps(differential_test.Probe(options.probe))
    chosen = random.Random(f"{options.seed} sweeps")
    for expression, choices in sweeps.all_sweeps():
        if options.only in expression:
            found.sweep(expression, [c for c in choices if chosen.random() < options.share])
    for i in range(options.statements):
        found.statements(f"{options.seed} statements {i}")
    print(
        f"{found.compared} compared with jinja2 {jinja2.__version__}, which rendered {found.rendered}; "
        f"{found.differ} differ (seed {options.seed})"
    )
    return 1 if found.differ else 0


if __name__ == "__main__":
    sys.exit(main())
