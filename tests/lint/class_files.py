"""Rule: a class has one source file, or its header says why.

A class whose functions several sources define has a header that says "in N files, because ..." in a
comment, and names each of these files but its own; N is their number, in words.
"""
import re

from tree import Problem

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_REASON = re.compile(r"\bin (\w+) files, because\b")
_COMMENT_BREAK = re.compile(r"\s*\n\s*//\s*")


def check(tree):
    headers = _headers(tree)
    problems = []
    for (namespace, name), sources in sorted(_sources(tree).items()):
        if len(sources) < 2:
            continue
        header = headers.get((namespace, name))
        if header is None:  # a class of no header: the second file is the one too many
            path, line = sorted(sources.items())[1]
            problems.append(Problem(path, line, f"another source of class {name}, which is in no header"))
            continue
        path, line = header
        problems += [Problem(path, line, f"class {name}: {fault}")
                     for fault in _faults(path, tree.text(path), sorted(sources))]
    return problems


def _faults(header, text, sources):
    words = NUMBERS[len(sources)] if len(sources) < len(NUMBERS) else str(len(sources))
    said = _REASON.findall(_COMMENT_BREAK.sub(" ", text))
    if words not in said:
        yield (f'{len(sources)} sources, and its header does not say why: "in {words} files, because ..." '
               f"({', '.join(sources)})")
        return
    for source in sources:
        if source.rsplit(".", 1)[0] != header.rsplit(".", 1)[0] and source.split("/")[-1] not in text:
            yield f"its header does not name {source}"


def _sources(tree):
    """{(namespace, class): {path: line of its first function}} of the sources of every class."""
    found = {}
    for path in tree.with_suffix(".cc", ".cu"):
        for definition in tree.outline(path).definitions:
            if definition.kind == "function" and not definition.inside and "::" in definition.name:
                owner = definition.name.split("::", 1)[0]
                found.setdefault((definition.namespace, owner), {}).setdefault(path, definition.line)
    return found


def _headers(tree):
    """{(namespace, class): (path, line)} of the classes that headers define."""
    return {(definition.namespace, definition.name): (path, definition.line)
            for path in tree.with_suffix(".h") for definition in tree.outline(path).definitions
            if definition.kind == "type" and not definition.inside}
