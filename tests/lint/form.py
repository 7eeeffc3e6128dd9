"""Rules on form: line length, a header's first comment, READMEs, markers of unfinished work and of merges."""
import os
import re

import layers
from tree import CPP, Problem

COLUMNS = 100
README_WORDS = 800  # not lines, which would only become longer
# Spelled in pieces, so that this file has none of them.
_LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b|not imple" r"mented", re.IGNORECASE)
# What a merge leaves where two sides differ.
_CONFLICT = re.compile(r"^(<{7} |>{7} )", re.MULTILINE)


def check(tree):
    problems = list(_check_merges(tree))
    for path in tree.with_suffix(*CPP, ".proto"):
        problems += _check_lines(path, tree.text(path))
    for path in tree.with_suffix(".h"):
        if not tree.text(path).lstrip().startswith("//"):
            problems.append(Problem(path, 1, "a header begins with what it is for"))
    return problems + list(_check_readmes(tree))


def _check_merges(tree):
    for path in tree.files:
        found = _CONFLICT.search(tree.text(path))
        if found:
            yield Problem(path, tree.text(path).count("\n", 0, found.start()) + 1, "a conflict of a merge")


def _check_lines(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and "http" not in line:
            yield Problem(path, number, f"{len(line)} columns, the limit is {COLUMNS}")
        if _LEFTOVER.search(line):
            yield Problem(path, number, "a marker of unfinished work")


def _check_readmes(tree):
    """Every folder of the product has a README.md, and those of folders and rooms are short."""
    for folder in layers.LAYERS:
        if f"{folder}/README.md" not in tree.file_set and folder in tree.folders:
            yield Problem(folder, 1, "no README.md")
    for path in tree.with_suffix("/README.md"):
        words = len(tree.text(path).split())
        if path.split("/")[0] in layers.LAYERS and words > README_WORDS:
            yield Problem(path, 1, f"{words} words, the limit is {README_WORDS}")
