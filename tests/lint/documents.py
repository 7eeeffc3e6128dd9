"""Rule: every path that a document or a comment names exists.

In documents (*.md) the targets of links, with their headings. In documents and in comments the
words that look like a path: those that begin with a folder of the tree, and names of sources. A
path may be a file, a folder, a file without its suffix, a decision's number, or a pattern that
matches one (with `*`, `{cpu,cuda}`, `<name>`); it counts from the root, from proto/ or from its
document's own folder. What has no slash may be a file of any folder. A name that a document gives
beside a source, as `file`: `Name` or in the next cell of a table, is in that source; so is a name
in parentheses (`Name`) of a numbered item that begins with a source. A member, as `A::B`, is named by
some source; decisions may name what was there at their time. Every decision has a number
of its own and is linked in the index of decisions; one that another replaces says so.
"""
import fnmatch
import io
import os
import re
import tokenize

from tree import CPP, Problem

# The suffixes of a word that is taken for a file of ours when no known folder begins it.
_SOURCE = r"(?:h|cc|cu|py|proto|cmake|md)"
# Folders that are made, not kept.
MADE = {"build", ".cache"}
DECISIONS = "docs/decisions/"
_DECISION = re.compile(r"\]\((\d{4}-[\w-]+\.md)\)")
_TOP_LINES = 8
_WORD = re.compile(r"(?<![\w/.~$%@:\-{<>*])(?:\.{1,2}/)*[\w{<*.][\w./*{},<>+-]*")
_NAMED_FILE = re.compile(rf"^[\w./*{{}},<>+-]*\w(?:\.{_SOURCE}|\.{{[a-z,]+}})$")
_NAME_IN_SOURCE = re.compile(r"`([\w./-]+\.(?:h|cc|cu|proto))`(?:: | \| )`([\w:~]+)(?:\(\))?`")
_ITEM_OF_SOURCE = re.compile(r"^\d+\. (?:and )?`([\w./-]+\.(?:h|cc|cu))`")
_NAME_IN_ITEM = re.compile(r"\(`([\w:~]+)`\)")
_MEMBER = re.compile(r"`((?:[A-Za-z_]\w*::)+[A-Za-z_]\w*)(?:\(\))?`")
_LINK = re.compile(r"(?<!!)!?\[[^\]\n]*\]\(([^)\s]+)[^)\n]*\)|^\[[^\]\n]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)


def check(tree):
    index = _Index(tree)
    problems = list(_check_decisions(tree))
    for path in tree.with_suffix(".md"):
        problems += _check_document(index, path, tree.text(path))
    for path in tree.cpp_files():
        for line, comment in tree.source(path).comment_lines():
            problems += _check_words(index, path, line, comment)
    for path, comments in script_comments(tree):
        for line, comment in comments:
            problems += _check_words(index, path, line, comment)
    return problems


def _check_decisions(tree):
    index, numbers = DECISIONS + "README.md", set()
    linked = tree.text(index) if index in tree.file_set else ""
    for path in tree.with_suffix(".md"):
        name = path.removeprefix(DECISIONS)
        if path.startswith(DECISIONS) and path != index:
            if name[:4] in numbers:
                yield Problem(path, 1, f"number {name[:4]} is another decision's")
            if f"({name})" not in linked:
                yield Problem(path, 1, f"{index} has no link to it")
            numbers.add(name[:4])
            yield from _check_replaced(tree, path)


def _check_replaced(tree, path):
    """Every decision of which this one says that it replaces it, in whole or in part, answers so."""
    for line, text in enumerate(tree.text(path).split("\n"), 1):
        for other in _DECISION.findall(text) if text.startswith("Replaces ") else ():
            answers = [one for one in tree.text(DECISIONS + other).split("\n")[:_TOP_LINES]
                       if "eplaced by " in one] if DECISIONS + other in tree.file_set else []
            if not any(f"({os.path.basename(path)})" in one for one in answers):
                yield Problem(path, line, f"{other} does not say at its top that this replaces it")


class _Index:
    """The names that exist."""

    def __init__(self, tree):
        self.tree = tree
        self.paths = tree.file_set | tree.folders
        stems = {os.path.splitext(path)[0] for path in tree.files}
        self.known = self.paths | stems
        self._words = None
        self.names = {os.path.basename(path) for path in self.known}
        self.tops = {folder.split("/")[0] for folder in tree.folders} - MADE
        self.libraries = {header.split("/")[0] for path in tree.cpp_files()
                          for _, header in tree.source(path).includes()} - self.tops

    def words(self):
        """All words of C++, CUDA and proto files."""
        if self._words is None:
            self._words = {word for path in self.tree.cpp_files() + self.tree.with_suffix(".proto")
                           for word in re.findall(r"\w+", self.tree.text(path))}
        return self._words

    def exists(self, word, path):
        """Whether `word`, named in the file `path`, is a path of the tree."""
        return all(self._form_exists(form, path) for form in _forms(word.rstrip("/")))

    def _form_exists(self, form, path):
        bases = ("", "proto", os.path.dirname(path))
        return (any(self._matches(os.path.normpath(os.path.join(base, form))) for base in bases)
                or "/" not in form and self._is_name(form))

    def _matches(self, form):
        if "*" in form:
            return bool(fnmatch.filter(self.known, form))
        return form in self.known

    def _is_name(self, form):
        return bool(fnmatch.filter(self.names, form)) if "*" in form else form in self.names


def _forms(word):
    """The patterns of a word: braces opened, <placeholders> and single letters as *."""
    word = re.sub(r"<[^<>]*>|(?<![A-Za-z0-9])[A-Za-z](?=[._][A-Za-z])", "*", word)
    if re.search(r"/\d{4}$", word):  # a decision by its number
        word += "-*"
    match = re.search(r"\{([^{}]*)\}", word)
    if not match:
        return [word]
    return [form for part in match.group(1).split(",")
            for form in _forms(word[:match.start()] + part + word[match.end():])]


def _check_document(index, path, text):
    for match in _LINK.finditer(text):
        target = match.group(1) or match.group(2)
        line = text.count("\n", 0, match.start()) + 1
        if not re.match(r"[a-z]+:", target) and not _link_exists(index, path, target):
            yield Problem(path, line, f"the link's target {target} does not exist")
    item = None
    for number, line in enumerate(text.split("\n"), 1):
        yield from _check_words(index, path, number, _LINK.sub(" ", line))
        if not line.startswith("  "):
            begun = _ITEM_OF_SOURCE.match(line)
            item = begun and begun.group(1)
        named = _NAME_IN_SOURCE.findall(line)
        named += [(item, name) for name in _NAME_IN_ITEM.findall(line)] if item else []
        yield from _check_names(index, path, number, named)
        members = set() if path.startswith(DECISIONS) else set(_MEMBER.findall(line))
        for member in sorted(members - {name for _, name in named}):
            if not index.words().issuperset(member.split("::")):
                yield Problem(path, number, f"no source has {member}")


def _check_names(index, path, number, named):
    for source, name in named:
        if source in index.tree.file_set and not all(
                re.search(rf"\b{part}\b", index.tree.text(source))
                for part in re.findall(r"\w+", name)):
            yield Problem(path, number, f"{source} has no {name}")


def _link_exists(index, path, target):
    file, _, heading = target.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
    if file not in index.paths:
        return False
    if heading and file.endswith(".md"):
        return heading in {_anchor(title) for title in _HEADING.findall(index.tree.text(file))}
    return True


def _anchor(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _check_words(index, path, line, text):
    for match in _WORD.finditer(text):
        word = match.group().rstrip(".,-")
        if _looks_like_path(index, word, path) and not index.exists(word, path):
            yield Problem(path, line, f"names {word}, which does not exist")


def _looks_like_path(index, word, path):
    top, slash, _ = word.partition("/")
    if not slash:  # comments may name scripts of others
        return bool(_NAMED_FILE.match(word)) and (path.endswith(".md") or word.endswith(CPP))
    if top in MADE or top in index.libraries or top.isupper():
        return False  # made, a library's, or in a folder that a VARIABLE names
    return top in index.tops or bool(_NAMED_FILE.match(word))


def script_comments(tree):
    """(path, [(line, comment)]) of Python, shell, CMake and proto files."""
    for path in tree.with_suffix(".py", ".proto") + tree.cmake_files() + tree.scripts():
        text = tree.text(path)
        if tree.is_python(path):
            yield path, _python_comments(text)
        else:
            mark = r"//" if path.endswith(".proto") else r"(?:^|\s)#"
            yield path, [(number, match.group(1)) for number, line in enumerate(text.split("\n"), 1)
                         if (match := re.search(mark + r"(.*)", line))]


def _python_comments(text):
    """Comments and the lines of strings that stand alone: docstrings."""
    comments, begins = [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string.lstrip("#! ")))
        elif token.type == tokenize.STRING and begins:
            comments += [(token.start[0] + index, line) for index, line in
                         enumerate(token.string.strip("\"'").split("\n"))]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return comments
