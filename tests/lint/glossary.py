"""Rules on docs/GLOSSARY.md: each word once, in order; and no second spelling of one elsewhere.

An entry is a paragraph that begins with its term; in parentheses stands what not to say instead:

    **plug-in** (not: add-on): a shared library that is opened at run time ...

A term of several words must not be written with other gaps or capitals either: `KV cache` is not
`KV-cache` or `kv cache`. Looked at are the prose of documents, comments, and string literals of
C++, which are messages. What stands in `backticks` or has a capital inside a word is a name.
"""
import re

import documents
from tree import Problem

PATH = "docs/GLOSSARY.md"
_ENTRY = re.compile(r"^\*\*(?P<term>[^*]+)\*\*(?: \(not: (?P<instead>[^)]+)\))?: (?P<text>\S.*)$")
_SPAN = re.compile(r"(`+).+?\1|\]\([^)]*\)")
_BEFORE, _AFTER = r"(?<![\w./`:-])", r"(?![\w`/]|-\w|\.\w)"


class Entry:
    """One term, the words not to use for it, and its line."""

    def __init__(self, line, term, instead):
        self.line, self.term, self.instead = line, term, instead


def check(tree):
    if PATH not in tree.file_set:
        return [Problem(PATH, 1, "there is no glossary")]
    entries, problems = _read(tree.text(PATH))
    problems += _check_entries(entries)
    pattern, terms = _pattern(entries)
    if pattern:
        for path, line, text in _prose(tree):
            problems += _check_prose(pattern, terms, path, line, text)
    return problems


def _read(text):
    entries, problems = [], []
    for number, line in enumerate(text.split("\n"), 1):
        match = _ENTRY.match(line)
        if match:
            instead = match.group("instead")
            entries.append(Entry(number, match.group("term"),
                                 instead.split(", ") if instead else []))
        elif line.startswith("**"):
            problems.append(Problem(PATH, number,
                                    "an entry is `**term** (not: word, word): meaning`"))
    return entries, problems


def _check_entries(entries):
    terms, before = {}, ""
    for entry in entries:
        key = entry.term.casefold()
        if key in terms:
            yield Problem(PATH, entry.line, f"{entry.term} is defined twice, see line {terms[key]}")
        elif key < before:
            yield Problem(PATH, entry.line, f"{entry.term} stands out of order")
        terms.setdefault(key, entry.line)
        before = max(before, key)
    for entry in entries:
        for word in entry.instead:
            if word.casefold() in terms:
                yield Problem(PATH, entry.line, f"{word} is a term of its own")


def _pattern(entries):
    """One pattern for all spellings, and {name of the group that matches: the term}."""
    parts, terms = [], {}
    for index, entry in enumerate(entries):
        words = re.split(r"[ -]", entry.term)
        forms = [r"[ -]?".join(map(re.escape, words))] if len(words) > 1 else []
        forms += [r"[ -]".join(map(re.escape, re.split(r"[ -]", word))) for word in entry.instead]
        if forms:
            parts.append(f"(?P<t{index}>{'|'.join(forms)})")
            terms[f"t{index}"] = entry.term
    if not parts:
        return None, {}
    return re.compile(f"{_BEFORE}(?:{'|'.join(parts)})(?:s|es)?{_AFTER}", re.IGNORECASE), terms


def _check_prose(pattern, terms, path, line, text):
    for match in pattern.finditer(text):
        term = terms[match.lastgroup]
        found = match.group(match.lastgroup)
        if not _is_spelled(found, term) and not re.search(r"[a-z][A-Z]", found):
            yield Problem(path, line, f'"{match.group()}": the glossary says {term}')


def _is_spelled(found, term):
    """The same letters; a small one may be a capital where a sentence or a title begins."""
    return len(found) == len(term) and all(
        one == other or one == other.upper() for one, other in zip(found, term))


def _prose(tree):
    for path in tree.with_suffix(".md"):
        in_block = False
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if line.lstrip().startswith("```"):
                in_block = not in_block
            elif not in_block:
                match = _ENTRY.match(line) if path == PATH else None
                yield path, number, _SPAN.sub("`", match.group("text") if match else line)
    for path in tree.cpp_files():
        source = tree.source(path)
        for number, comment in source.comment_lines():
            yield path, number, _SPAN.sub("`", comment)
        for position, string in source.strings:
            yield path, source.line(position), string[1:-1]
    for path, comments in documents.script_comments(tree):
        for number, comment in comments:
            yield path, number, _SPAN.sub("`", comment)
