#!/usr/bin/env python3
"""Counts the operations of the engine, the directory and the door beside a thousand and ten thousand others.

Instructions are counted by Valgrind, allocations by the program itself (main.cc): both are the same on every machine and beside
any other work, where a time is not. A case fails where one unit of its work costs more beside ten times as many, or more in all
than it has been found to cost with half as much again.

  costs_test.py [CASE…]      the cases named; all without. Prints what it counts. "planted": a walk and memory that must be found.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

FEW, MANY = 1_000, 10_000
# Trees are deeper among ten times as many; walks would be ten times as long.
GROWTH_MAX = 1.3

# The most that a unit of each case may cost beside MANY: instructions, allocations. A unit of a burst is a request that finds its
# way past 64 pipelines; of a directory, a block.
CEILINGS = {
    "burst-of-one-tenant": (140_000, 80),
    "burst-of-many-tenants": (125_000, 80),
    "burst-of-outputs": (34_000, 40),
    "burst-of-waiting": (40_000, 35),
    "generate": (7_000, 13),
    "generate-in-turns": (12_000, 13),
    "generate-while-others-wait": (60_000, 30),
    "cancel": (170_000, 45),
    "deadlines": (320_000, 80),
    "lose-worker": (310_000, 65),
    "status": (1_200_000, 4_400),
    "directory-changes": (1_060, 1),
    "directory-lookups": (1_300, 2),
    "fair-turns": (6_400, 18),
    "budget-charges": (4_700, 2),
}
PLANTED = "planted"


def program():
    return os.path.join(os.environ.get("TUTTI_BINARY_DIR", "build/release"), "tests", "counted_costs")


def count(case, members):
    """Instructions and allocations for each unit of work."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=Counted",
                   "--callgrind-out-file=" + os.path.join(scratch, "out"), program(), case, str(members)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    counted = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode != 0 or counted is None:
        raise AssertionError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    said = json.loads(ended.stdout)
    return int(counted.group(1)) / said["units"], said["allocations"] / said["units"]


def complaints(case, ceilings):
    few, many = count(case, FEW), count(case, MANY)
    print(f"{case}: {few[0]:.0f} instructions, {few[1]:.2f} allocations beside {FEW}; "
          f"{many[0]:.0f}, {many[1]:.2f} beside {MANY}", flush=True)
    found = []
    for what, before, after, ceiling in zip(("instructions", "allocations"), few, many, ceilings):
        # A tenth of an allocation: of what grows by doubling.
        if after > before * GROWTH_MAX + 0.1:
            found.append(f"{case}: {what} of a unit grew from {before:.1f} to {after:.1f}, as ten times as many were there")
        if after > ceiling:
            found.append(f"{case}: {after:.1f} {what} of a unit, above {ceiling}")
    return found


class CostsTest(unittest.TestCase):
    def test_grows_with_nobody(self):
        for case in CASES:
            if case == PLANTED:
                continue
            with self.subTest(case=case):
                self.assertEqual(complaints(case, CEILINGS[case]), [])

    def test_a_planted_walk_and_planted_memory_are_found(self):
        if PLANTED not in CASES:
            self.skipTest("not asked for")
        for case, what in (("planted-walk", "instructions"), ("planted-memory", "allocations")):
            self.assertTrue(any(what in one and "grew" in one for one in complaints(case, (1e9, 1e9))), case)


if __name__ == "__main__":
    KNOWN = [*CEILINGS, PLANTED]
    CASES = sys.argv[1:] or KNOWN
    if unknown := [case for case in CASES if case not in KNOWN]:
        sys.exit(f"costs_test.py: no case {', '.join(unknown)}; there are {', '.join(KNOWN)}")
    unittest.main(argv=sys.argv[:1])
