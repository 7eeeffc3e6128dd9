"""Rule: the standard library's mutexes, locks and condition variables are named in one file.

Everything else takes base/mutex.h, whose types clang's thread-safety analysis understands, so that
a guarded member can be declared so and is checked.
"""
import re

from tree import Problem

WRAPPER = "base/mutex.h"
_STANDARD = re.compile(r"\bstd::((?:recursive_|shared_)?(?:timed_)?mutex"
                       r"|condition_variable(?:_any)?"
                       r"|(?:lock_guard|unique_lock|scoped_lock|shared_lock))\b")


def check(tree):
    return [Problem(path, tree.source(path).line(match.start()),
                    f"std::{match.group(1)}: take {WRAPPER}")
            for path in tree.cpp_files() if path != WRAPPER
            for match in _STANDARD.finditer(tree.source(path).code)]
