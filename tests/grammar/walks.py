#!/usr/bin/env python3
"""Texts drawn token by token from the engine's masks, judged by Python's jsonschema.

    tests/grammar/walks.py FOLDER --model DIR [--ids 151936] [--schemas 200] [--walks 50] [--tokens 100] [--probe …]

FOLDER has files {"schema": …} as MaskBench has them (guidance-ai/jsonschemabench). Random choices are the hardest
writer. Every text that ends must be valid; every text that was cut is ended by closing what is open, and must
be valid then: so it was the beginning of a valid text. Exits with 1 where one is not.
"""
import argparse
import collections
import json
import os
import subprocess
import sys

import jsonschema

DRAFTS = {"draft-04": jsonschema.Draft4Validator, "draft-06": jsonschema.Draft6Validator,
          "draft-07": jsonschema.Draft7Validator, "2019-09": jsonschema.Draft201909Validator}


def validator_of(schema):
    name = schema.get("$schema", "") if isinstance(schema, dict) else ""
    kind = next((kind for draft, kind in DRAFTS.items() if draft in name), jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def judge(validator, text):
    """What is wrong with a text; nothing where it is valid."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    error = next(validator.iter_errors(value), None)
    return error and error.message[:200]


def run(arguments):
    probe = subprocess.Popen([arguments.probe, arguments.model, str(arguments.ids)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    counts = collections.Counter()
    names = sorted(os.listdir(arguments.folder))
    for index, name in enumerate(names[::max(1, len(names) // (2 * arguments.schemas))]):
        if counts["schemas"] == arguments.schemas:
            break
        with open(os.path.join(arguments.folder, name), encoding="utf-8") as file:
            schema = json.load(file)["schema"]
        question = {"kind": "json_schema", "source": json.dumps(schema), "walks": arguments.walks, "seed": index,
                    "tokens": arguments.tokens, "finish": 4000}
        probe.stdin.write(json.dumps(question) + "\n")
        probe.stdin.flush()
        answer = json.loads(probe.stdout.readline())
        if "error" in answer:
            counts["refused"] += 1
            continue
        counts["schemas"] += 1
        for walk in answer["walks"]:
            kind = "ended" if walk["ended"] else "cut"
            counts[kind] += 1
            text = walk["text"] if walk["ended"] else walk.get("finished")
            wrong = walk.get("error") or ("not ended within 4000 tokens" if text is None else
                                          judge(validator_of(schema), text))
            if wrong:
                counts[f"{kind}, bad"] += 1
                print(name, kind, wrong, json.dumps(text or walk["text"])[:300], flush=True)
    print(dict(counts))
    return 1 if counts["ended, bad"] + counts["cut, bad"] else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--model", required=True, help="folder with vocab.json and merges.txt")
    parser.add_argument("--ids", type=int, default=151936, help="ids that the model computes")
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--walks", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--probe", default="build/release/bin/grammar_probe")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
