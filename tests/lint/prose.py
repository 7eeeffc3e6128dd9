#!/usr/bin/env python3
"""Rules on lines of documents and of CMake files: at most 140 characters, one sentence a line.

A sentence that is longer goes on in the next line, one that fits is not broken. So a changed
sentence is a changed line, and nothing is reflowed. Comments of CMake files are prose where one
space follows the `#`; with more they are laid out by hand, as blocks of code are. Rows of tables
cannot be broken: sentences share them, and they have at most 320 characters; what needs more stands
below the table.

    tests/lint/prose.py PATH…    mends these files
"""
import re
import sys

from tree import Problem

LINE, ROW = 140, 320
_CODE = re.compile(r"(`+).+?\1(?!`)")
_LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?=\S)")
_COMMENT = re.compile(r"\s*# (?=\S)")
# Lines that are no prose and end a paragraph: headings, rows, quotations, rules, link targets.
_OTHER = re.compile(r"[#|<>]|---|===|\[[^\]]+\]: ")
_FULL_STOP = r"\.[\"')*_\]”]*(?= \S)"
_OTHER_STOP = r"[?!][\"')*_\]”]*(?= [^a-z])"
_END = re.compile(f"{_FULL_STOP}|{_OTHER_STOP}")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|cf|vs|resp|approx|incl|[A-Z])\.$")
# `**Context.**` or `*Price.*` stands on the line of the sentence that it leads.
_LEAD = re.compile(r"(\*{1,2})[^*]+\1")
# Beginnings of a line that would make it a block of another kind.
_OPENS_BLOCK = re.compile(r"[-*+] |\d+[.)] |[#>|=]|\*\*|```")
_WORTH = {";": 0.5, ":": 0.45, ",": 0.35, ")": 0.2}


class Paragraph:
    """Lines that are one text: `opening` stands before the first, `indent` before the others."""

    def __init__(self, line, opening, indent, text):
        self.line, self.opening, self.indent, self.lines = line, opening, indent, [text.strip()]

    def sentences(self):
        return sentences(" ".join(self.lines))

    def mended(self):
        """The paragraph's lines as they should be."""
        found = [line for sentence in self.sentences()
                 for line in _broken(sentence, LINE - len(self.indent))]
        return [(self.indent if index else self.opening) + line for index, line in enumerate(found)]


def check(tree):
    problems = []
    for path in tree.with_suffix(".md") + tree.cmake_files():
        lines = tree.text(path).split("\n")
        problems += _check_lines(path, lines)
        for paragraph in paragraphs(path, lines):
            problems += _check_paragraph(path, paragraph)
    return problems


def _check_lines(path, lines):
    for number, line in enumerate(lines, 1):
        row = path.endswith(".md") and _is_row(line)
        limit = ROW if row else LINE
        if len(line) > limit and "http" not in line:
            yield Problem(path, number, f"{len(line)} characters, the limit is {limit}")
        if row and number < len(lines) and lines[number].strip() and not _is_row(lines[number]):
            yield Problem(path, number + 1, "text right below a table becomes a row of it")


def _check_paragraph(path, paragraph):
    """The first line that is neither sentences' end nor part of one that fits on no line."""
    at = 0
    for sentence in paragraph.sentences():
        begin, length = at, -1
        while length < len(sentence):
            length += len(paragraph.lines[at]) + 1
            at += 1
        if length > len(sentence):
            yield Problem(path, paragraph.line + at - 1, "a sentence ends within the line")
            return
        if at - begin > 1 and len(paragraph.indent) + length <= LINE:
            yield Problem(path, paragraph.line + begin, "this sentence would fit on one line")
            return


def paragraphs(path, lines):
    return _prose(lines) if path.endswith(".md") else _comments(lines)


def _comments(lines):
    """The comments of a CMake file that stand alone on their lines."""
    found, last = [], None
    for number, line in enumerate(lines, 1):
        match = _COMMENT.match(line)
        if match and last and last.indent == match.group():
            last.lines.append(line[match.end():].strip())
        else:
            last = match and Paragraph(number, match.group(), match.group(), line[match.end():])
            found += [last] if last else []
    return found


def _prose(lines):
    """Paragraphs and items of lists of a document; no headings, tables and blocks of code."""
    found, last, fenced, width = [], None, False, 0
    for number, line in enumerate(lines, 1):
        text, item = line.strip(), _ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        fence = text.startswith("```")
        fenced ^= fence
        code = not last and indent >= width + 4
        if fence or fenced or not text or code or _OTHER.match(text):
            last = None
        elif last and not item:
            last.lines.append(text)
        else:
            width = item.end() if item else indent and width
            last = Paragraph(number, item.group() if item else line[:indent],
                             " " * (width if item else indent), line[width if item else indent:])
            found.append(last)
    return found


def _is_row(line):
    return line.lstrip().startswith("|")


def sentences(text):
    masked = _masked(text)
    begin, found = 0, []
    for match in _END.finditer(masked):
        sentence = masked[begin:match.end()]
        if not (_LEAD.fullmatch(sentence) or masked[match.start() - 1] == "."
                or _ABBREVIATION.search(masked[begin:match.start() + 1])):
            found.append(text[begin:match.end()])
            begin = match.end() + 1
    return found + [text[begin:]]


def _masked(text):
    """`text` with another letter for all that is code or a link, which nothing may part."""
    for kind in (_CODE, _LINK):
        text = kind.sub(lambda match: "x" * len(match.group()), text)
    return text


def _broken(sentence, room):
    """Lines of at most `room` characters, where there is such a way."""
    masked, lines, begin = _masked(sentence), [], 0
    while len(sentence) - begin > room:
        near = _gaps(masked, begin, room) or _gaps(sentence, begin, room)
        if not near:
            break
        cut = max(near, key=lambda gap: _worth(masked, begin, gap, room))
        lines.append(sentence[begin:cut])
        begin = cut + 1
    return lines + [sentence[begin:]]


def _gaps(text, begin, room):
    return [match.start() for match in re.finditer(" ", text[:begin + room + 1])
            if match.start() > begin and not _OPENS_BLOCK.match(text[match.start() + 1:])]


def _worth(text, begin, cut, room):
    """How good a line from `begin` to `cut` is: full, behind a mark, and no few words left over."""
    few_left = len(text) - cut < room / 4
    return (cut - begin) / room + _WORTH.get(text[cut - 1], 0) - (0.5 if few_left else 0)


def mended(path, text):
    lines = text.split("\n")
    for paragraph in reversed(paragraphs(path, lines)):
        begin = paragraph.line - 1
        lines[begin:begin + len(paragraph.lines)] = paragraph.mended()
    return "\n".join(lines)


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if mended(path, text) != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(mended(path, text))
            print(path)


if __name__ == "__main__":
    main()
