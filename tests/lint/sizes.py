"""Rules: no function over 70 lines, no file over 400; tests, scripts and build files included.

A function is counted from its signature to its closing brace. Data (goldens, corpora) is no code.
"""
import ast
import re

from tree import CPP, Problem

FUNCTION_LINES = 70
FILE_LINES = 400
_SHELL_FUNCTION = re.compile(r"^([ \t]*)(?:function[ \t]+)?([\w-]+)[ \t]*\(\)[ \t]*[{(]",
                             re.MULTILINE)
_CMAKE_FUNCTION = re.compile(r"^([ \t]*)(function|macro)\s*\(\s*(\w+)",
                             re.MULTILINE | re.IGNORECASE)


def check(tree):
    problems = []
    for path in code_files(tree):
        lines = tree.text(path).count("\n")
        if lines > FILE_LINES:
            problems.append(Problem(path, FILE_LINES + 1,
                                    f"{lines} lines, the limit is {FILE_LINES}"))
        for name, line, length in functions(tree, path):
            if length > FUNCTION_LINES:
                problems.append(Problem(path, line, f"{name} has {length} lines, the limit of a "
                                                    f"function is {FUNCTION_LINES}"))
    return problems


def code_files(tree):
    return sorted(tree.with_suffix(*CPP, ".py", ".proto") + tree.cmake_files() + tree.scripts())


def functions(tree, path):
    """(name, first line, lines) of every function of a file."""
    if path.endswith(CPP):
        return [("::".join(definition.inside + (definition.name,)) + _test_name(definition),
                 definition.line, definition.lines)
                for definition in tree.outline(path).definitions
                if definition.kind in ("function", "lambda")]
    text = tree.text(path)
    if tree.is_python(path):
        return _python_functions(text)
    if path in tree.cmake_files():
        return _block_functions(text, _CMAKE_FUNCTION, r"end{2}\b", 3)
    if text.startswith("#!"):
        return _block_functions(text, _SHELL_FUNCTION, r"[})]", 2)
    return []


def _test_name(definition):
    return definition.signature if re.match(r"TEST(_F|_P)?$|TYPED_TEST", definition.name) else ""


def _python_functions(text):
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def _block_functions(text, opening, closing, name_group):
    """Functions that end with `closing` ({2}: the opening word) indented as their first line."""
    for match in opening.finditer(text):
        pattern = "^" + match.group(1) + closing.replace("{2}", match.group(2))
        end = re.compile(pattern, re.MULTILINE | re.IGNORECASE).search(text, match.end())
        if end:
            line = text.count("\n", 0, match.start()) + 1
            yield match.group(name_group), line, text.count("\n", match.start(), end.start()) + 1
