#!/usr/bin/env python3
"""Scripts for `tutti-bench speculation`, from texts of this tree: an edit of a file that is quoted, an extract, JSON
whose keys repeat, and prose.

    bench/speculation_scripts.py > scripts.jsonl
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def edit():
    text = read("coordinator/steps/backlog.cc")
    return (f"Rename the method CountTokens of this file to AddToSum, and tokens_ to sum_.\n\n```\n{text}```\n\nThe file:\n",
            text.replace("CountTokens", "AddToSum").replace("tokens_", "sum_"))


def extract():
    text = read("CHANGELOG.md")[:4000]
    lines = [line for line in text.splitlines() if "`" in line]
    return f"{text}\n\nThe lines of this text that name code, as they stand:\n\n", "\n".join(lines) + "\n"


def rows():
    table = re.findall(r"^\| `(tutti_\w+)` \| (\w+) \| (.+) \|$", read("docs/METRICS.md"), re.M)[:24]
    text = "\n".join(" | ".join(row) for row in table)
    answer = [{"name": name, "kind": kind, "description": words} for name, kind, words in table]
    return f"{text}\n\nThis table as JSON with name, kind and description:\n\n", json.dumps(answer, indent=2) + "\n"


def prose():
    text = read("docs/decisions/0042-streams-outlive-pipelines.md")
    half = len(text) // 2
    return f"{text[:half]}", text[half:half + 2500]


def main():
    for make in (edit, extract, rows, prose):
        prompt, answer = make()
        print(json.dumps({"name": make.__name__, "prompt": prompt, "answer": answer}))


if __name__ == "__main__":
    sys.exit(main())
