"""Rule: a file's namespace is that of its folder. Types of others may be declared ahead in theirs.

`base` and `program` are `tutti`; every other folder `x` is `tutti::x`. A room `x/y` may add a level,
`tutti::x::y`, and need not. Inside may be `internal`, for what a header shows and others must not
use. In `proto` are the namespaces of the messages' packages. Tests and tools may stand in the namespace they are about.
"""
from tree import Problem

PROJECT = "tutti"
UNNAMED_FOLDERS = ("base", "program", "proto")
PACKAGES = {"proto": ("v1",)}
FREE_FOLDERS = ("tests", "tools")
INNER = ("internal",)


def check(tree):
    problems = []
    for path in tree.cpp_files():
        parts = path.split("/")[:-1]
        outline = tree.outline(path)
        if not outline.balanced:
            problems.append(Problem(path, 1, "its braces do not pair up: the lint cannot read it"))
        if parts and parts[0] not in FREE_FOLDERS:
            problems += _check_file(path, parts, outline)
    return problems


def _check_file(path, parts, outline):
    told = set()
    for namespace in outline.namespaces:
        names = tuple(name for name in namespace.names if name)
        if namespace.used and names not in told and not fits(parts, names):
            told.add(names)
            yield Problem(path, namespace.line,
                          f"namespace {'::'.join(names) or '(anonymous)'} in {'/'.join(parts)}, "
                          f"which is {'::'.join(expected(parts))}")
    for definition in outline.definitions:
        if not (definition.namespace or definition.inside or definition.internal
                or definition.name == "main" or definition.name.startswith("std::")):
            yield Problem(path, definition.line,
                          f"{definition.kind} {definition.name} is in no namespace")


def expected(parts):
    return (PROJECT,) if parts[0] in UNNAMED_FOLDERS else (PROJECT, parts[0])


def fits(parts, names):
    """Whether a file in the folder `parts` may define something in namespace `names`."""
    whole = expected(parts)
    if names[:len(whole)] != whole:
        return False
    rooms = iter(parts[1:])
    inner = INNER + PACKAGES.get(parts[0], ())
    return all(name in rooms or name in inner for name in names[len(whole):])
