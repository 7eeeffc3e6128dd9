#!/usr/bin/env python3
"""The engine on JSON-Schema-Test-Suite: what is served by keyword, and whether that is right.

    tests/grammar/suite.py SUITE_DIR [--probe build/release/bin/grammar_probe] [--details]

SUITE_DIR is that suite, with its folder of tests. A schema that the engine refuses must be refused
with a reason; of one that it serves no invalid value may be accepted in any text, and every valid
one must be in some. Exits with 1 where that is not so.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys

import texts

DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#",
          "draft2020-12": "https://json-schema.org/draft/2020-12/schema"}
# Files whose tests say what the engine does otherwise on purpose.
OTHERWISE = {
    "format": "formats are enforced, not annotations",
    "optional/content": "contents are annotations",
    "optional/ecmascript-regex": r"\s is what ECMA-262 and Python agree on, without U+FEFF",
    "optional/format/date-time": "leap seconds are left out, which most readers refuse",
    "optional/format/time": "leap seconds are left out, which most readers refuse",
}


class Probe:
    def __init__(self, path):
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)

    def ask(self, question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def schema_text(schema, draft):
    if isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": DRAFTS[draft], **schema}
    return json.dumps(schema)


def encodable(value):
    try:
        return [text for text in texts.texts_of(value) if text.encode()]
    except UnicodeEncodeError:
        return []


def run_file(probe, path, draft, row, details):
    for case in json.load(open(path, encoding="utf-8")):
        tests = [(test, encodable(test["data"])) for test in case["tests"]]
        answer = probe.ask({"kind": "json_schema", "source": schema_text(case["schema"], draft),
                            "texts": [text for _, some in tests for text in some]})
        unsatisfiable = "no text satisfies" in answer.get("error", "")
        if "error" in answer and not unsatisfiable:
            row["refused"] += len(tests)
            details("refused", draft, path, case["description"], answer["error"])
            continue
        results = iter(answer.get("texts") or [])
        for test, some in tests:
            accepted = any([next(results)["accepted"] for _ in some]) if not unsatisfiable else False
            row["served"] += 1
            if accepted == test["valid"]:
                continue
            wrong = "invalid accepted" if accepted else "valid refused"
            row[wrong] += 1
            details(wrong, draft, path, case["description"], test["description"],
                    json.dumps(test["data"]), json.dumps(case["schema"])[:300])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite")
    parser.add_argument("--probe", default="build/release/bin/grammar_probe")
    parser.add_argument("--details", action="store_true")
    arguments = parser.parse_args()
    probe = Probe(arguments.probe)

    def details(*words):
        if arguments.details:
            print("  ", *words)

    bad = 0
    total = collections.Counter()
    for draft in DRAFTS:
        rows = collections.defaultdict(collections.Counter)
        root = os.path.join(arguments.suite, "tests", draft)
        for path in sorted(glob.glob(root + "/**/*.json", recursive=True)):
            name = os.path.relpath(path, root)[:-len(".json")]
            run_file(probe, path, draft, rows[name], details)
        print(f"\n| {draft} | served | refused | invalid accepted | valid refused |")
        print("|---|---|---|---|---|")
        for name, row in sorted(rows.items()):
            print(f"| {name} | {row['served']} | {row['refused']} | {row['invalid accepted']} | "
                  f"{row['valid refused']} |" + (f" {OTHERWISE[name]}" if name in OTHERWISE else ""))
            total.update(row)
            if name not in OTHERWISE:
                bad += row["invalid accepted"] + row["valid refused"]
    print("\ntotal", dict(total))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
