#!/usr/bin/env python3
"""Scripts for `tutti-bench speculation`, from texts of this tree: an edit of a file that is quoted, an extract, JSON
whose keys repeat, and prose; then answers that come behind others: a file that was written before and is written anew with a
change, which the prompt does not quote, JSON of the same keys, and prose behind other prose.

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


def rewrite():
    text = read("coordinator/steps/backlog.cc")
    return ("Write the scheduler's backlog in C++, with AddToSum for CountTokens and sum_ for tokens_.\n\n",
            text.replace("CountTokens", "AddToSum").replace("tokens_", "sum_"), text)


def rows_again():
    table = re.findall(r"^\| `(tutti_\w+)` \| (\w+) \| (.+) \|$", read("docs/METRICS.md"), re.M)[:48]
    answers = [json.dumps([{"name": name, "kind": kind, "description": words} for name, kind, words in part], indent=2) + "\n"
               for part in (table[:24], table[24:])]
    return "The second half of the metrics as JSON with name, kind and description:\n\n", answers[1], answers[0]


def prose_again():
    prompt, answer = prose()
    return prompt, answer, read("docs/decisions/0007-router-and-admission.md")


def main():
    for make in (edit, extract, rows, prose, rewrite, rows_again, prose_again):
        prompt, answer, *before = make()
        script = {"name": make.__name__, "prompt": prompt, "answer": answer}
        if before:
            script["before"] = before[0]
        print(json.dumps(script))


if __name__ == "__main__":
    sys.exit(main())
