"""A C++ or CUDA file without its comments and strings, and what those said.

`Source.code` has the same lines and columns as the text; comments, preprocessor lines and the
inside of strings are blanks there, so that braces and names can be counted in it.
"""
import bisect
import re

_LEX = re.compile(
    r"""
    (?P<raw>R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<char>(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')
  | (?P<line>//(?:[^\\\n]|\\.)*)
  | (?P<block>/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:[^\\\n]|\\.)*)
    """, re.VERBOSE | re.DOTALL | re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">\n]+)[">]', re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b", re.MULTILINE)
_NOT_NEWLINE = re.compile(r"[^\n]")
_COMMENT_MARK = re.compile(r"^\s*(?://+!?<?|/\*+|\*+/?)?[ ]?")


class Source:
    """One scanned file. Positions are offsets into `text` and `code` alike; lines count from 1."""

    def __init__(self, text):
        self.text = text
        self.comments = []  # (position, text with its marks)
        self.strings = []   # (position, text with its quotes); raw ones are data and not here
        self.code = _LEX.sub(self._blank, text)
        self._newlines = None

    def line(self, position):
        if self._newlines is None:
            self._newlines = [match.start() for match in re.finditer("\n", self.text)]
        return bisect.bisect_left(self._newlines, position) + 1

    def includes(self):
        """[(line, header)] of every include, in quotes or angle brackets."""
        return [(self.line(match.start(1)), match.group(1))
                for match in _INCLUDE.finditer(self.text)]

    def branches(self):
        """[(chain, first line, last line)] of every branch; a chain is an `#if` to its `#endif`."""
        found, open_branches, chains = [], [], 0
        for match in _CONDITION.finditer(self.text):
            word, line = match.group(1), self.line(match.start())
            if word.startswith("if"):
                open_branches.append((chains, line))
                chains += 1
            elif open_branches:
                chain, first = open_branches.pop()
                found.append((chain, first, line))
                if word != "endif":
                    open_branches.append((chain, line))
        return found

    def comment_lines(self):
        """[(line, text)] of every line of every comment, without the marks."""
        return [(self.line(position) + index,
                 _COMMENT_MARK.sub("", line).removesuffix("*/").rstrip())
                for position, comment in self.comments
                for index, line in enumerate(comment.split("\n"))]

    def _blank(self, match):
        kind, found = match.lastgroup, match.group()
        if kind in ("mark", "raw"):
            return '"' + _blanks(found[1:-1]) + '"'
        if kind == "string":
            self.strings.append((match.start(), found))
            return '"' + _blanks(found[1:-1]) + '"'
        if kind == "char":
            return "'" + _blanks(found[1:-1]) + "'"
        if kind == "directive":
            comment = found.find("//")
            if comment >= 0:
                self.comments.append((match.start() + comment, found[comment:]))
        else:
            self.comments.append((match.start(), found))
        return _blanks(found)


def _blanks(text):
    return _NOT_NEWLINE.sub(" ", text) if "\n" in text else " " * len(text)
