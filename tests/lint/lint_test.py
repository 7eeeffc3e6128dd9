#!/usr/bin/env python3
"""Keeps the shape of the tree: every rule of this folder, over every file, without exceptions.

    tests/lint/lint_test.py               all rules
    tests/lint/lint_test.py sizes layers  some of them

Run by ctest; needs Python 3 alone, no compiler and no build.
"""
import argparse
import os
import sys
import time

import class_files
import definitions
import documents
import form
import glossary
import include_graph
import layers
import locks
import namespaces
import prose
import sizes
import test_files
import united
from tree import Tree

RULES = {module.__name__: module for module in
         (layers, include_graph, test_files, namespaces, definitions, united, class_files, locks, form, sizes,
          documents, prose, glossary)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rules", nargs="*", help=f"of {', '.join(RULES)}")
    parser.add_argument("--root", default=os.environ.get("TUTTI_SOURCE_DIR")
                        or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    options = parser.parse_args()
    began = time.monotonic()
    tree = Tree(options.root)
    total = 0
    for name in options.rules or RULES:
        problems = RULES[name].check(tree)
        total += len(problems)
        for problem in problems:
            print(f"{problem}  [{name}]")
    print(f"lint: {len(tree.files)} files, {total} problems, {time.monotonic() - began:.1f} s")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
