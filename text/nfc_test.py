#!/usr/bin/env python3
"""Normalization form C beside Python's: every code point, every pair of a character that composes and a mark, and Hangul's
syllables with everything around their edges.

Ours is that of Unicode 9.0, as the tokenizers library has it; Python's is newer. So what differs is known beforehand: marks that
came later stay where they are and compose with nothing. Texts in which they stand between other marks are compared with the
tokenizers library alone, where it is installed (pip install tokenizers); with the module unicodedata2, where that is, instead of
Python's own tables, which may be older.
"""
import itertools
import os
import random
import subprocess
import unittest

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata
try:
    from tokenizers import normalizers
except ImportError:
    normalizers = None

# Characters that only compose since a version of Unicode after 9.0.
COMPOSED_SINCE = {0x105C9, 0x105E4, 0x11383, 0x11385, 0x1138E, 0x11391, 0x113C5, 0x113C7, 0x113C8, 0x11938, *range(0x16121, 0x16129),
                  0x16D68, 0x16D69, 0x16D6A}
# Marks of Unicode 9.0, of which characters that decompose have some; newer ones are elsewhere.
OLD_MARKS = {*range(0x300, 0x370), *range(0x483, 0x488), *range(0x591, 0x5C8), *range(0x610, 0x61B), *range(0x64B, 0x660)}
SURROGATES = range(0xD800, 0xE000)
L_JAMOS, V_JAMOS, T_JAMOS = range(0x10FF, 0x1115), range(0x1160, 0x1178), range(0x11A6, 0x11C4)
SYLLABLES = 0xAC00


def ours(texts):
    program = os.path.join(os.environ.get("TUTTI_BINARY_DIR", "build/release"), "tests", "nfc_lines")
    lines = "\n".join(" ".join(f"{ord(c):X}" for c in text) for text in texts) + "\n"
    ended = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=280, check=False)
    if ended.returncode != 0:
        raise AssertionError(f"nfc_lines ended with {ended.returncode}: {ended.stderr[-3000:]}")
    found = ["".join(chr(int(digits, 16)) for digits in line.split()) for line in ended.stdout.splitlines()]
    if len(found) != len(texts):
        raise AssertionError(f"{len(found)} lines for {len(texts)} texts")
    return found


def code_points(text):
    return " ".join(f"U+{ord(c):04X}" for c in text)


def all_code_points():
    return [chr(c) for c in range(0x110000) if c not in SURROGATES]


def marks():
    """All that combine, and the second halves of pairs that compose without."""
    found = {c for c in all_code_points() if unicodedata.combining(c)}
    found.update(text[1] for text in decompositions() if len(text) == 2)
    return sorted(found)


def decompositions():
    for c in all_code_points():
        fields = unicodedata.decomposition(c).split()
        if fields and not fields[0].startswith("<"):
            yield "".join(chr(int(digits, 16)) for digits in fields)


def starters():
    """The characters that compose with something and are no marks, and some that do not compose."""
    found = {text[0] for text in decompositions()} | set("ax~\u4e00\uac00\uac01\U0001f600")
    return sorted(c for c in found if not unicodedata.combining(c))


class NfcTest(unittest.TestCase):
    def compare(self, texts, reference, known=lambda text: False):
        wrong = [(text, mine, theirs) for text, mine, theirs in zip(texts, ours(texts), map(reference, texts))
                 if mine != theirs and not known(text)]
        shown = "; ".join(f"{code_points(t)} became {code_points(m)}, not {code_points(r)}" for t, m, r in wrong[:5])
        self.assertEqual(len(wrong), 0, f"of {len(texts)}: {shown}")
        print(f"{self.id().rsplit('.', maxsplit=1)[-1]}: {len(texts)} texts", flush=True)

    def python(self, text):
        return unicodedata.normalize("NFC", text)

    def composed_since(self, text):
        return any(ord(c) in COMPOSED_SINCE for c in self.python(text))

    def newer_mark_after_a_mark(self, text):
        """Some characters become a letter and a mark, and Python puts newer marks before it."""
        first = self.python(text[0])
        return self.composed_since(text) or (unicodedata.combining(first[-1]) > unicodedata.combining(text[1]) and
                                             ord(text[1]) not in OLD_MARKS)

    def test_every_code_point(self):
        self.compare(all_code_points(), self.python, self.composed_since)

    def test_every_pair_of_a_character_that_composes_and_a_mark(self):
        self.compare(["".join(pair) for pair in itertools.product(starters(), marks())], self.python,
                     self.newer_mark_after_a_mark)

    def test_hangul(self):
        texts = ["".join(map(chr, jamos)) for jamos in itertools.product(L_JAMOS, V_JAMOS, T_JAMOS)]
        texts += [chr(syllable) + chr(jamo) for syllable in range(SYLLABLES, SYLLABLES + 11172, 7) for jamo in T_JAMOS]
        texts += [chr(syllable) + chr(jamo) for syllable in range(SYLLABLES, SYLLABLES + 11172, 28) for jamo in T_JAMOS]
        texts += ["".join(map(chr, jamos)) for jamos in itertools.product((0x1100, 0xAC00), (0x1161, 0x11A7, 0x301), (0x11A7, 0x11A8),
                                                                         (0x11A7, 0x11A8, 0x301))]
        self.compare(texts, self.python)

    @unittest.skipIf(normalizers is None, "the module tokenizers is not installed")
    def test_everything_together_as_the_tokenizers_library_has_it(self):
        chosen = random.Random(7)
        pool = [*marks(), *starters(), *map(chr, (0x11A7, 0x11A8, 0x1161, 0x1100, 0xAC00))]
        texts = ["".join(chosen.choices(pool, k=chosen.randint(2, 8))) for _ in range(200_000)]
        texts += ["".join(pair) for pair in itertools.product(starters(), marks())]
        self.compare(texts, normalizers.NFC().normalize_str)


if __name__ == "__main__":
    unittest.main()
