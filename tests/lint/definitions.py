"""Rule: one name means one thing in a namespace.

A type, alias, constant or function that two files define in one namespace is an error: linked
together they break the one-definition rule without a word from compiler or linker. Anonymous
namespaces are each file's own; so is what is `static`. Definitions in one branch of an `#if` and in
a header that another branch of it includes are two forms of one thing, of which a program sees one.
"""
from tree import Problem

# The entry point is named by the language; every program has one.
ENTRY = "main"


def check(tree):
    found = {}
    for path in tree.cpp_files():
        for definition in tree.outline(path).definitions:
            if _is_shared(definition):
                found.setdefault(_key(definition), []).append((path, definition))
    problems = []
    for places in found.values():
        first = places[0]
        others = [place for place in places[1:]
                  if place[0] != first[0] and not _are_alternatives(tree, first, place)]
        if others:
            problems.append(_problem(first, others))
    return problems


def _are_alternatives(tree, one, other):
    return _includes_instead(tree, one, other[0]) or _includes_instead(tree, other, one[0])


def _includes_instead(tree, place, header):
    """Whether the file of `place` includes `header` in another branch of the `#if` it is in."""
    path, definition = place
    source = tree.source(path)
    lines = [line for line, included in source.includes() if included == header]
    branches = source.branches() if lines else []
    for chain, first, last in branches:
        if first < definition.line < last:
            if any(other == chain and (start, end) != (first, last) and start < line < end
                   for other, start, end in branches for line in lines):
                return True
    return False


def _is_shared(definition):
    return ("" not in definition.namespace and not definition.inside and not definition.internal
            and definition.kind != "lambda"
            and (definition.namespace or definition.name != ENTRY))


def _key(definition):
    """Functions may be overloaded; any other two things of one name are one too many."""
    if definition.kind == "function":
        return definition.namespace, definition.name, definition.signature
    return definition.namespace, definition.name


def _problem(first, others):
    path, definition = first
    name = "::".join(definition.namespace + (definition.name,))
    also = sorted({f"{other}:{second.line} ({second.kind})" for other, second in others})
    return Problem(path, definition.line,
                   f"{definition.kind} {name} is also defined in {', '.join(also)}")
