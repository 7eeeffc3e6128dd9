#!/usr/bin/env python3
"""Titles of commits: `folder: imperative`, at most 72 characters; why is in the body.

    tests/lint/commit_titles.py main..HEAD

Not part of the lint of the tree: a clone need not have the history. A folder is one that the commit
or its parent has (`kernels`, `kernels/cpu`); several stand with commas between; `root` is
what lies in no folder, and `all` a change everywhere.
"""
import re
import subprocess
import sys

TITLE_LENGTH = 72
EVERYWHERE = {"root", "all"}
_TITLE = re.compile(r"^([\w./-]+(?:, [\w./-]+)*): (\S.*)$")
# Past and present forms that are no imperative: "added", "adding", "adds".
_NOT_IMPERATIVE = re.compile(r"^\w{2,}(?:[^e]ed|ing)$|^\w{2,}[^\Wsuia]s$")
_SHORT_VERB = re.compile(r"^(?:bring|string|embed)$")


def wrong(title, folders):
    """What is wrong with a title, for a commit that knows `folders`; empty: nothing."""
    faults = []
    if len(title) > TITLE_LENGTH:
        faults.append(f"{len(title)} characters, the limit is {TITLE_LENGTH}")
    match = _TITLE.match(title)
    if not match:
        return faults + ["not of the form `folder: imperative`"]
    named, words = match.group(1).split(", "), match.group(2)
    faults += [f"{folder} is no folder" for folder in named
               if folder not in folders and folder not in EVERYWHERE]
    verb = words.split()[0]
    if not verb[0].islower():
        faults.append("what is done begins with a small letter")
    elif _NOT_IMPERATIVE.match(verb) and not _SHORT_VERB.match(verb):
        faults.append(f'"{verb}" is no imperative')
    if words.endswith("."):
        faults.append("a title ends without a full stop")
    return faults


def git(*arguments):
    return subprocess.run(["git", *arguments], text=True, capture_output=True, check=True).stdout


def folders_of(commit):
    """All folders of a commit and of its parents."""
    found = set()
    for one in git("rev-list", "--parents", "-n", "1", commit).split():
        found |= set(git("ls-tree", "-r", "-d", "--name-only", one).split("\n"))
    return found


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    problems = 0
    for line in git("log", "--no-merges", "--format=%h %s", sys.argv[1]).splitlines():
        commit, title = line.split(" ", 1)
        for fault in wrong(title, folders_of(commit)):
            print(f"{commit} {title}\n    {fault}")
            problems += 1
    print(f"commit titles: {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
