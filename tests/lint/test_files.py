"""Rule: a file's name says whether it is a test.

A test is `*_test`, a helper of tests `*_testing`, a fuzz target `*_fuzz`; all under tests/ is one
of these by its place. What includes googletest is one of them, and the product includes none.
"""
import layers
from tree import Problem

GOOGLETEST = ("gtest/", "gmock/")


def check(tree):
    problems = []
    for path in tree.cpp_files():
        if path.startswith("tests/") or layers.is_test(path):
            continue
        for line, header in tree.source(path).includes():
            if header.startswith(GOOGLETEST):
                problems.append(Problem(path, line, f"includes {header}, and its name does not end "
                                                    "in _test, _testing or _fuzz"))
            elif path.split("/")[0] in layers.LAYERS and layers.is_test(header):
                problems.append(Problem(path, line, f"the product may not include {header}"))
    return problems
