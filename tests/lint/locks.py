"""Rules: the standard library's mutexes, locks and condition variables are named in one file, and threads of the product
are started in one.

Everything else takes base/mutex.h, whose types clang's thread-safety analysis understands, so that
a guarded member can be declared so and is checked; and base/thread.h, because std::thread throws
where the system allows no further one.
"""
import re

import layers
from tree import Problem

STARTER = "base/thread.h"
# A thread that is made with something to run; members, parameters and moved ones are not.
_STARTED = re.compile(r"\bstd::(j?thread)(?:\s+\w+)?\s*[({]\s*[^){}\s]")
WRAPPER = "base/mutex.h"
_STANDARD = re.compile(r"\bstd::((?:recursive_|shared_)?(?:timed_)?mutex"
                       r"|condition_variable(?:_any)?"
                       r"|(?:lock_guard|unique_lock|scoped_lock|shared_lock))\b")


def check(tree):
    return [Problem(path, tree.source(path).line(match.start()),
                    f"std::{match.group(1)}: take {WRAPPER}")
            for path in tree.cpp_files() if path != WRAPPER
            for match in _STANDARD.finditer(tree.source(path).code)] + [
        Problem(path, tree.source(path).line(match.start()), f"std::{match.group(1)}: take {STARTER}")
        for path in tree.cpp_files()
        if path not in (STARTER, "base/thread.cc") and path.split("/")[0] in layers.LAYERS and not layers.is_test(path)
        for match in _STARTED.finditer(tree.source(path).code)]
