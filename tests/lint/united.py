"""Rule: what only one source has is named once in a CMake target.

gcc compiles several sources of a target as one (cmake/united.cmake), so the anonymous namespaces of a
target's sources, and what is `static` in them, are one. Aliases that say the same may be repeated.
Read are the CMake files: targets of tutti_library, tutti_binary and tutti_test, and those that ask
for a precompiled header by themselves. Sources that are compiled alone, because of flags of their own
or by SKIP_UNITY_BUILD_INCLUSION, are no business of this rule.
"""
import os
import re

from tree import Problem

_MAKERS = ("tutti_library", "tutti_testing_library", "tutti_binary", "tutti_test")
_PLAIN_MAKERS = ("add_library", "add_executable")
_ASKS = "tutti_wants_precompiled"
_ALONE = {"COMPILE_OPTIONS", "COMPILE_DEFINITIONS", "SKIP_UNITY_BUILD_INCLUSION"}
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*')
_FUNCTION = re.compile(r"^([ \t]*)function\(.*?^\1endfunction\(", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r'\b([a-z_]\w*)\s*\(((?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^()"])*)\)')
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s"]+')
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def check(tree):
    problems = []
    for path in tree.cmake_files():
        for target, sources in united_sources(path, tree.text(path)):
            unread = [source for source in sources if "$" in source]
            if unread:
                problems.append(Problem(path, 1, f"{target}: the lint cannot read the source {unread[0]}"))
            problems += _clashes(tree, target, [one for one in sources if one in tree.file_set])
    return problems


def united_sources(path, text):
    """[(target, sources)] of a CMake file, as far as they may be compiled as one."""
    folder, variables, targets, asked, alone = os.path.dirname(path), {}, {}, set(), set()
    for name, words in _calls(text):
        words = _expanded(words, variables)
        if name == "set":
            variables[words[0]] = words[1:]
        elif name in _MAKERS:
            targets[words[0]] = _after("SOURCES", words)
            asked.add(words[0])
        elif name in _PLAIN_MAKERS:
            targets[words[0]] = words[1:]
        elif name == _ASKS:
            asked.add(words[0])
        elif name == "set_source_files_properties" and _ALONE & set(words):
            alone |= set(words[:words.index("PROPERTIES")])
    for target in sorted(asked & set(targets)):
        sources = dict.fromkeys(targets[target])
        yield target, [os.path.normpath(os.path.join(folder, source)) for source in sources
                       if source.endswith(".cc") and source not in alone]


def _calls(text):
    """(name, words) of the calls outside of functions, without comments."""
    text = _COMMENT.sub(lambda match: match.group() if match.group()[0] == '"' else "", text)
    for match in _CALL.finditer(_FUNCTION.sub("", text)):
        words = [word.strip('"') for word in _WORD.findall(match.group(2))]
        if words:
            yield match.group(1), words


def _expanded(words, variables):
    """`words` with lists in the place of the variables that are known here."""
    found = []
    for word in words:
        whole = _VARIABLE.fullmatch(word)
        found += variables.get(whole.group(1), [word]) if whole else [word]
    return found


def _after(keyword, words):
    """The words behind `keyword`, up to the next one in capitals."""
    if keyword not in words:
        return []
    rest = words[words.index(keyword) + 1:]
    end = next((at for at, word in enumerate(rest) if re.fullmatch(r"[A-Z_]+", word)), len(rest))
    return rest[:end]


def _clashes(tree, target, sources):
    """What two sources have of their own; and what one has so and others see of the namespace around."""
    places = {}
    for path in sources:
        for one in tree.outline(path).definitions:
            if _is_own(one):
                places.setdefault(_key(one), []).append((path, one))
    for path in dict.fromkeys(_seen_by(tree, sources)):
        for one in tree.outline(path).definitions:
            if _key(one) in places and not _is_own(one) and not one.inside:
                places[_key(one)].append((path, one))
    for first, *others in places.values():
        for path, one in others:
            if path != first[0] and not _say_the_same(tree, first, (path, one)):
                yield Problem(*_where(first), f"{one.kind} {one.name} is also in {path}:{one.line}, "
                                              f"seen by the same target {target}")


def _seen_by(tree, sources):
    """The sources, and the headers that they include."""
    for path in sources:
        yield path
        yield from (header for _, header in tree.source(path).includes() if header in tree.file_set)


def _where(place):
    return place[0], place[1].line


def _is_own(one):
    return (("" in one.namespace or one.internal) and not one.inside
            and one.kind != "lambda" and not one.name.startswith("("))


def _say_the_same(tree, *places):
    """Whether these are one alias, word for word."""
    texts = {" ".join(" ".join(tree.text(path).split("\n")[one.line - 1:one.end_line]).split())
             for path, one in places}
    return len(texts) == 1 and all(one.kind == "alias" for _, one in places)


def _key(one):
    """Functions may be overloaded; two anonymous namespaces of one namespace are one."""
    names = tuple(name for name in one.namespace if name)
    return names, one.name, one.signature if one.kind == "function" else ""
