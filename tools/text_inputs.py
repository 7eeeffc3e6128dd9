"""Texts for comparisons of tokenizers: lines of this repository, Chinese, and random mixtures.

Used by compare_text.py and make_family_text_goldens.py.
"""
import os
import random
import unicodedata

import make_text_goldens as goldens

CHINESE = ("人工智能模型可以回答问题。今天天气很好，我们去北京！请问你叫什么名字？数据、代码和文本："
           "１２３ＡＢＣ％　全角。語言模型將文字分成詞元。日本語のテキストも少しあります。")


def real_lines():
    """Lines of the code and the documents of this repository."""
    lines = []
    for folder, _, names in sorted(os.walk(goldens.ROOT)):
        parts = set(os.path.relpath(folder, goldens.ROOT).split(os.sep))
        if parts & {"build", ".git", "golden", "corpus", "demo"}:
            continue
        for name in sorted(names):
            if name.endswith((".cc", ".h", ".py", ".md", ".proto", ".txt")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    # The mark that ends a text in a built-in template is no text.
                    lines += [line for line in file if len(line) > 1 and "text_break" not in line]
    return lines


def texts(count, seed, specials):
    rng = random.Random(seed)
    lines = real_lines()
    pieces = specials + ["\u2581", "\u2581\u2581", " \u2581", "<0x41>", "<0x0A>", "\u00a8",
                         "\uff0c\uff1f", "\uff21\uff22", "\u3000", "\u00ad", "\ufdfa", "\u2460"]
    out = [""] + goldens.PIECES + pieces
    while len(out) < count:
        kind = rng.random()
        if kind < 0.5:
            out.append(goldens.make_text(rng))
        elif kind < 0.7:
            out.append("".join(rng.choice(lines) for _ in range(rng.choice([1, 1, 2, 4]))))
        elif kind < 0.85:
            start = rng.randrange(len(CHINESE))
            out.append(CHINESE[start:start + rng.randrange(1, 40)] + goldens.make_text(rng))
        else:
            out.append("".join(rng.choice(pieces + [" ", "a", "\n"]) for _ in range(
                rng.randrange(1, 6))) + goldens.make_text(rng))
    return out[:count]


def nfc(text):
    return unicodedata.normalize("NFC", text)
