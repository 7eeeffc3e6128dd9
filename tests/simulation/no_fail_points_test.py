#!/usr/bin/env python3
"""The programs have no fail point (base/fail_point.h): neither a name nor the code that would arm one.

Reads the names from the sources, and the programs byte by byte. That names can be found at all is shown by the test
program that arms them.
"""
import os
import pathlib
import re
import sys

PLACE = re.compile(r'TUTTI_FAIL_POINT(?:_AT)?\(\s*"([^"]+)"')
REGISTRY = "ScopedFailPoint"  # in the mangled names of base/fail_point.cc


def fail_points(root):
    names = set()
    for path in root.rglob("*"):
        inside = path.relative_to(root).parts
        if (inside[0] in ("build", "tests", "base") or path.suffix not in (".cc", ".h")
                or path.stem.endswith("_test")):
            continue
        names.update(PLACE.findall(path.read_text()))
    return sorted(names)


def found_in(program, texts):
    content = program.read_bytes()
    return [text for text in texts if text.encode() in content]


def main():
    build = pathlib.Path(os.environ["TUTTI_BINARY_DIR"])
    names = fail_points(pathlib.Path(os.environ["TUTTI_SOURCE_DIR"]))
    texts = [*names, REGISTRY]
    problems = []
    if len(names) < 10:
        problems.append(f"only {len(names)} fail points in the sources")
    armed = set()
    for program in ("planted_bugs_test", "door_test"):
        armed.update(found_in(build / "tests" / program, texts))
    if missing := sorted(set(texts) - armed):
        problems.append(f"no test program that arms fail points has {missing}")
    programs = [path for path in sorted((build / "bin").iterdir()) if path.is_file()]
    for program in ("tutti", "tutti-coordinator", "tutti-worker"):
        if build / "bin" / program not in programs:
            problems.append(f"bin/{program} is not built")
    for program in programs:
        if found := found_in(program, texts):
            problems.append(f"bin/{program.name} has {found}")
    for problem in problems:
        print(problem)
    print(f"{len(names)} fail points, {len(programs)} programs, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
