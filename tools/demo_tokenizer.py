"""The tokenizer of the demo model, and chats rendered as token ids.

Requirements (PyPI): tokenizers.
"""

import json
import os
import re

# Read by the library when it first encodes: one thread, no warning after a fork.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import Tokenizer  # noqa: E402

import demo_questions as questions
import qwen_tokenizer


def learn_merges():
    """Merges that build each known word from its beginning.

    Ordinary BPE would also learn pairs such as "at" and hide the letters of unknown words inside
    tokens. Here every merge starts at the space or the capital a word begins with, so a word to be
    spelled keeps its letters, but for a beginning it shares with a known word. The role names of
    ChatML are the exception.
    """
    alphabet = qwen_tokenizer.byte_alphabet()
    words = {}
    for text in questions.all_phrasings():
        text = re.sub(r"\{[a-z]+\}", " ", text)
        for word in re.findall(r" ?[^\W\d_]+", text):
            words[word] = words.get(word, 0) + 1
    ordered = sorted((w for w in words if not w[0].islower()), key=lambda w: (-words[w], w))
    merges = {}
    for word in [*ordered, "user", "system", "assistant"]:
        pieces = [alphabet[byte] for byte in word.encode()]
        for end in range(1, len(pieces)):
            merges.setdefault(("".join(pieces[:end]), pieces[end]), None)
    return list(merges)


class DemoTokenizer:
    def __init__(self):
        self.json = qwen_tokenizer.tokenizer_json(learn_merges())
        self.fast = Tokenizer.from_str(json.dumps(self.json))
        self.special = qwen_tokenizer.special_ids(self.json)
        self.size = max(self.special.values()) + 1
        self.end = self.special[qwen_tokenizer.IM_END]
        self.newline = self.fast.encode("\n").ids
        self.roles = {role: self.message_start(role) for role in ("system", "user", "assistant")}

    def message_start(self, role):
        return [self.special[qwen_tokenizer.IM_START], *self.fast.encode(role).ids, *self.newline]

    def text(self, text):
        return self.fast.encode(text).ids

    def prompt(self, question, system=None):
        """The ids of the chat template's rendering with add_generation_prompt."""
        ids = []
        if system:
            ids += [*self.roles["system"], *self.text(system), self.end, *self.newline]
        ids += [*self.roles["user"], *self.text(question), self.end, *self.newline]
        return ids + self.roles["assistant"]

    def answer(self, question):
        """A spelled word comes letter by letter, even where one token would hold several."""
        if question.task == "spell":
            return [self.fast.token_to_id(letter) for letter in question.answer] + [self.end]
        return [*self.text(question.answer), self.end]
