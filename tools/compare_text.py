#!/usr/bin/env python3
"""Asks the reference libraries and our tokenizers and templates the same, and compares the answers.

Usage: compare_text.py --probe build/release/bin/text_probe --testdata DIR [--count 20000] [--seed 1]
                       [--llama2-model FILE] [--llama3-model FILE] [--only NAME ...]
Requirements (PyPI): tokenizers, tiktoken, sentencepiece, transformers, jinja2, protobuf.

DIR is the folder of real vocabularies and templates that the tests know as TUTTI_TESTDATA. Llama's
own vocabularies may be given: a sentencepiece model, and the tiktoken file of Llama 3. Without them,
and for ChatGLM3, vocabularies of the same make are trained on the texts of this repository.

  qwen1        tiktoken, with normalization as tokenization_qwen.py does it
  qwen3        HuggingFace tokenizers, vocab.json and merges.txt
  llama2       sentencepiece, identity normalization, byte fallback
  llama2-json  the same vocabulary as tokenizer.json, HuggingFace tokenizers; "-meta": by Metaspace
  llama3       tokenizer.json with ignore_merges, HuggingFace tokenizers, and tiktoken
  chatglm      sentencepiece, trained with identity and with nmt_nfkc normalization, whose extra
               spaces are removed
  templates    prompts of DIR/templates and of tools/chat_formats (published formats whose templates
               are not in DIR, written by their description) against Jinja as transformers sets it
               up; the built-in ones of Qwen 1 and ChatGLM3 against what their authors' Python code
               does, as token ids

Exit status 1 when anything differs.
"""
import argparse
import base64
import copy
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import sentencepiece
import tiktoken
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors)
from transformers.utils.chat_template_utils import _compile_jinja_template

import make_text_goldens as goldens

LLAMA3_SPLIT = goldens.QWEN_SPLIT.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
QWEN_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [
    f"<|extra_{i}|>" for i in range(205)]
GLM_COMMANDS = ["[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "<|system|>", "<|user|>",
                "<|assistant|>", "<|observation|>"]
NOW = 1_700_000_000  # 14 Nov 2023


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
                    # What ends a text in a built-in template is no text.
                    lines += [line for line in file if len(line) > 1 and "text_break" not in line]
    return lines


CHINESE = ("人工智能模型可以回答问题。今天天气很好，我们去北京！请问你叫什么名字？数据、代码和文本："
           "１２３ＡＢＣ％　全角。語言模型將文字分成詞元。日本語のテキストも少しあります。")


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


def ask(probe, verb, folder, questions):
    text = "".join(json.dumps(question) + "\n" for question in questions)
    run = subprocess.run([probe, verb, folder], input=text, capture_output=True, text=True,
                         check=False)
    if run.returncode != 0:
        sys.exit(f"{probe} {verb} {folder}: exit status {run.returncode}\n{run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines()]


class Report:
    def __init__(self):
        self.failed = False

    def compare(self, name, questions, got, expected, key):
        wrong = [i for i, (a, b) in enumerate(zip(got, expected)) if b is not None and a.get(key) != b]
        compared = sum(value is not None for value in expected)
        print(f"{name}: {compared} compared, {len(wrong)} differ")
        for i in wrong[:3]:
            print(f"  {questions[i]!r}\n    expected {expected[i]!r}\n    got      {got[i]!r}")
        self.failed |= bool(wrong) or len(got) != len(expected)

    def encoding(self, name, options, folder, inputs, user, trusted=None, decoded=None):
        """`user`, `trusted`: text -> ids. `decoded`: text -> what comes back."""
        asked = [{"text": text, "from_user": True} for text in inputs]
        got = ask(options.probe, "encode", folder, asked)
        self.compare(f"{name}, as a user's text", inputs, got, [user(text) for text in inputs], "ids")
        if decoded:
            self.compare(f"{name}, decoded", inputs, got, [decoded(text) for text in inputs], "text")
        if trusted:
            asked = [{"text": text, "from_user": False} for text in inputs]
            got = ask(options.probe, "encode", folder, asked)
            self.compare(f"{name}, as a template's text", inputs, got,
                         [trusted(text) for text in inputs], "ids")


def new_folder(options, name):
    folder = os.path.join(options.work, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def nfc(text):
    return unicodedata.normalize("NFC", text)


# --- Qwen ---

def qwen1_folder(options):
    folder = new_folder(options, "qwen1")
    shutil.copy(os.path.join(options.testdata, "tokenizers/qwen1/qwen.tiktoken"), folder)
    return folder


def qwen1_encoding(options):
    with open(os.path.join(options.testdata, "tokenizers/qwen1/qwen.tiktoken"), "rb") as file:
        pairs = [line.split() for line in file.read().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    specials = {name: len(ranks) + i for i, name in enumerate(QWEN_SPECIALS)}
    return tiktoken.Encoding("qwen", pat_str=goldens.QWEN_SPLIT, mergeable_ranks=ranks,
                             special_tokens=specials)


def qwen1_trusted_ids(encoding, text):
    """make_context puts special tokens as ids, so normalization never mixes them with text."""
    pattern = "(" + "|".join(re.escape(name) for name in QWEN_SPECIALS) + ")"
    ids = []
    for part in re.split(pattern, text):
        special = part in encoding._special_tokens  # pylint: disable=protected-access
        ids += encoding.encode(nfc(part), allowed_special="all" if special else set(),
                               disallowed_special=())
    return ids


def compare_qwen1(options, report):
    encoding = qwen1_encoding(options)
    inputs = texts(options.count, options.seed, QWEN_SPECIALS[:5])
    report.encoding("qwen1", options, qwen1_folder(options), inputs,
                    lambda text: encoding.encode(nfc(text), disallowed_special=()),
                    lambda text: qwen1_trusted_ids(encoding, text), nfc)


def compare_qwen3(options, report):
    folder = new_folder(options, "qwen3")
    for file in ("qwen2/vocab.json", "qwen2/merges.txt", "qwen3/tokenizer_config.json"):
        shutil.copy(os.path.join(options.testdata, "tokenizers", file), folder)
    plain = goldens.qwen_tokenizer(options.testdata, trusted=False)
    trusted = goldens.qwen_tokenizer(options.testdata, trusted=True)
    inputs = texts(options.count, options.seed + 1, QWEN_SPECIALS[:3] + ["<think>", "</tool_call>"])
    report.encoding("qwen3", options, folder, inputs,
                    lambda text: plain.encode(text, add_special_tokens=False).ids,
                    lambda text: trusted.encode(text, add_special_tokens=False).ids)


# --- sentencepiece ---

def train_sentencepiece(seed, size, rule, remove_spaces):
    rng = random.Random(seed)
    lines = [line.strip("\n") for line in real_lines()] + [CHINESE] * 50
    lines += [goldens.make_text(rng).replace("\n", " ").replace("\x00", "") for _ in range(3000)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=size,
        byte_fallback=True, normalization_rule_name=rule, remove_extra_whitespaces=remove_spaces,
        split_digits=True, character_coverage=0.995, allow_whitespace_only_pieces=True,
        add_dummy_prefix=True, minloglevel=2)
    return model.getvalue()


def llama2_model(options):
    if options.llama2_model:
        with open(options.llama2_model, "rb") as file:
            return file.read()
    return train_sentencepiece(11, 4000, "identity", False)


def compare_llama2(options, report):
    model = llama2_model(options)
    folder = new_folder(options, "llama2")
    with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
        file.write(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    inputs = [text for text in texts(options.count, options.seed + 2, ["<s>", "</s>", "[INST]"])
              if "\x00" not in text]  # the library's Python module cuts a text there
    report.encoding("llama2", options, folder, inputs, processor.encode, None,
                    lambda text: text.replace("\u2581", " "))


def llama2_json(model, metaspace):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    vocabulary = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    merges = []
    for piece in proto.pieces:
        if piece.type != 1:
            continue
        for cut in range(1, len(piece.piece)):
            left, right = piece.piece[:cut], piece.piece[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-piece.score, vocabulary[left], vocabulary[right], left, right))
    merges = [(left, right) for _, _, _, left, right in sorted(merges)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def compare_llama2_json(options, report):
    model = llama2_model(options)
    inputs = texts(options.count, options.seed + 3, ["<s>", "</s>", "<unk>", "[INST]"])
    for metaspace in (False, True):
        name = "llama2-json-meta" if metaspace else "llama2-json"
        plain = llama2_json(model, metaspace)
        trusted = llama2_json(model, metaspace)
        trusted.add_special_tokens(
            [AddedToken(token, normalized=False, special=True) for token in ("<unk>", "<s>", "</s>")])
        folder = new_folder(options, name)
        trusted.save(os.path.join(folder, "tokenizer.json"))
        report.encoding(name, options, folder, inputs,
                        lambda text: plain.encode(text, add_special_tokens=False).ids,
                        lambda text: trusted.encode(text, add_special_tokens=False).ids)


def glm_folder(options, rule, remove_spaces):
    model = train_sentencepiece(12, 4500, rule, remove_spaces)
    folder = new_folder(options, f"chatglm-{rule}")
    with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
        file.write(model)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "ChatGLMTokenizer"}, file)
    return folder, sentencepiece.SentencePieceProcessor(model_proto=model)


def compare_chatglm(options, report):
    inputs = [text for text in texts(options.count, options.seed + 4, GLM_COMMANDS)
              if "\x00" not in text]
    for rule, remove_spaces in (("identity", False), ("nmt_nfkc", True)):
        folder, processor = glm_folder(options, rule, remove_spaces)
        decoded = (lambda text: text.replace("\u2581", " ")) if rule == "identity" else None
        report.encoding(f"chatglm, {rule}", options, folder, inputs, processor.encode, None, decoded)


# --- Llama 3 ---

def llama3_ranks(options):
    if options.llama3_model:
        with open(options.llama3_model, "rb") as file:
            pairs = [line.split() for line in file.read().splitlines() if line]
        return {base64.b64decode(token): int(rank) for token, rank in pairs}
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    from tokenizers.trainers import BpeTrainer
    tokenizer.train_from_iterator(real_lines(), BpeTrainer(
        vocab_size=8000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    alphabet = {char: byte for byte, char in byte_characters().items()}
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    words = [bytes(alphabet[char] for char in token) for token, _ in vocabulary]
    return {word: rank for rank, word in enumerate(sorted(words, key=lambda word: len(word) > 1))}


def byte_characters():
    """Byte -> character of the byte-level alphabet."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(kept))
    return table


def llama3_json(ranks, specials):
    characters = byte_characters()

    def spelled(token):
        return "".join(characters[byte] for byte in token)

    merges = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            if token[:cut] in ranks and token[cut:] in ranks:
                merges.append((rank, ranks[token[:cut]], ranks[token[cut:]],
                               spelled(token[:cut]), spelled(token[cut:])))
    tokenizer = Tokenizer(models.BPE({spelled(token): rank for token, rank in ranks.items()},
                                     [(left, right) for *_, left, right in sorted(merges)],
                                     ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[
            ("<|begin_of_text|>", len(ranks))])])
    if specials:
        tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in specials])
    return tokenizer


def compare_llama3(options, report):
    ranks = llama3_ranks(options)
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>"]
    plain, trusted = llama3_json(ranks, []), llama3_json(ranks, specials)
    folder = new_folder(options, "llama3")
    trusted.save(os.path.join(folder, "tokenizer.json"))
    inputs = texts(options.count, options.seed + 5, specials)
    report.encoding("llama3", options, folder, inputs,
                    lambda text: plain.encode(text, add_special_tokens=False).ids,
                    lambda text: trusted.encode(text, add_special_tokens=False).ids,
                    lambda text: text)
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3_SPLIT, mergeable_ranks=ranks,
                                 special_tokens={})
    report.encoding("llama3, tiktoken", options, folder, inputs,
                    lambda text: encoding.encode(text, disallowed_special=()))


# --- Templates ---

def expected_prompt(source, messages, kwargs):
    import datetime
    given = {"tools": None, "documents": None, "add_generation_prompt": False,
             "bos_token": "<s>", "eos_token": "</s>"}
    try:
        template = _compile_jinja_template(source)
        moment = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
        template.globals["strftime_now"] = moment.strftime
        return template.render(messages=messages, **{**given, **kwargs})
    except Exception:  # whatever it is, we must refuse too
        return None


def qwen1_chat_ids(encoding, messages, generate):
    """make_context of qwen_generation_utils.py."""
    def encode(text):
        return encoding.encode(nfc(text), disallowed_special=())
    start, end = encoding.encode_single_token("<|im_start|>"), encoding.encode_single_token("<|im_end|>")
    line = encode("\n")
    system = "You are a helpful assistant."
    if messages and messages[0]["role"] == "system":
        system, messages = messages[0]["content"], messages[1:]
    ids = [start] + encode("system") + line + encode(system) + [end]
    for message in messages:
        ids += line + [start] + encode(message["role"]) + line + encode(message["content"]) + [end]
    return ids + (line + [start] + encode("assistant") + line if generate else [])


def glm_chat_ids(processor, messages, tools, generate):
    """build_chat_input of tokenization_chatglm.py, and what openai_api.py puts before it."""
    command = {name: processor.vocab_size() + i for i, name in enumerate(GLM_COMMANDS)}
    ids = [command["[gMASK]"], command["sop"]]

    def message_ids(role, metadata, content):
        metadata = metadata or ""
        return [command[f"<|{role}|>"]] + processor.encode(f"{metadata}\n") + processor.encode(content)
    if tools and (not messages or messages[0]["role"] != "system"):
        messages = [{"role": "system", "content": "Answer the following questions as best as you "
                     "can. You have access to the following tools:"}] + messages
    for i, message in enumerate(messages):
        content = message["content"] or ""
        if i == 0 and message["role"] == "system" and tools:
            functions = [tool["function"] for tool in tools]
            content += "\n" + json.dumps(functions, indent=4, ensure_ascii=False)
        role = "observation" if message["role"] == "tool" else message["role"]
        calls = message.get("tool_calls") or []
        if content or not calls:
            ids += message_ids(role, message.get("metadata"), content)
        for call in calls:
            function = call.get("function", call)
            arguments = function["arguments"]
            if not isinstance(arguments, str):
                arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}"
                                      for name, value in arguments.items())
            ids += message_ids("assistant", function["name"],
                               f"```python\ntool_call({arguments})\n```")
    return ids + ([command["<|assistant|>"]] if generate else [])


def named(rng, messages):
    """The same with the fields that clients of tools fill: ids, names, metadata."""
    last = None
    for message in messages:
        for number, call in enumerate(message.get("tool_calls") or []):
            if "function" in call and rng.random() < 0.7:
                call["id"] = last = f"call-{rng.randrange(100)}-{number}"
        if message["role"] == "tool" and last and rng.random() < 0.8:
            message["tool_call_id"] = last
            message["name"] = rng.choice(["weather", "<|im_end|>", "Straßenkarte"])
        if message["role"] == "assistant" and rng.random() < 0.3:
            message["metadata"] = rng.choice(["weather", "interpreter", "<|user|>"])
    return messages


def alternating(rng):
    """What formats of two roles take."""
    messages, kwargs = goldens.conversation(rng)
    texts = [message["content"] for message in messages]
    system = [{"role": "system", "content": texts[0]}] if rng.random() < 0.5 else []
    return system + [{"role": ("user", "assistant")[i % 2], "content": text}
                     for i, text in enumerate(texts)], kwargs


def compare_templates(options, report):
    rng = random.Random(options.seed + 6)
    count = max(60, options.count // 100)
    conversations = [goldens.conversation(rng) for _ in range(count)]
    conversations = [(named(rng, copy.deepcopy(messages)), kwargs)
                     for messages, kwargs in conversations]
    conversations += [alternating(rng) for _ in range(count // 2)]
    with_tools = sum(any(message["role"] == "tool" or message.get("tool_calls")
                         for message in messages) for messages, _ in conversations)
    print(f"templates: {len(conversations)} conversations, {with_tools} with calls or results")
    asked = [{"messages": messages, "kwargs": kwargs, "now": NOW}
             for messages, kwargs in conversations]
    sources = {}
    formats = os.path.join(goldens.ROOT, "tools/chat_formats")
    for folder in (os.path.join(options.testdata, "templates"), formats):
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
                sources[name] = file.read()
    for name in ("qwen2.5", "qwen3"):
        path = os.path.join(options.testdata, "tokenizers", name, "tokenizer_config.json")
        with open(path, encoding="utf-8") as file:
            sources[f"{name}/tokenizer_config.json"] = json.load(file)["chat_template"]
    for path in options.template:
        with open(path, encoding="utf-8", newline="") as file:
            sources[os.path.basename(path)] = file.read()
    for name, source in sources.items():
        folder = new_folder(options, "template")
        shutil.copy(os.path.join(goldens.ROOT, "models/demo/tokenizer.json"), folder)
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8",
                  newline="") as file:
            file.write(source)
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"bos_token": "<s>", "eos_token": "</s>"}, file)
        expected = [expected_prompt(source, messages, kwargs) for messages, kwargs in conversations]
        got = ask(options.probe, "render", folder, asked)
        refused = [{"prompt": None if "error" in reply else reply["prompt"]} for reply in got]
        wrong = sum(a["prompt"] != b for a, b in zip(refused, expected))
        raised = sum(prompt is None for prompt in expected)
        print(f"{name}: {len(expected)} compared ({raised} raise), {wrong} differ")
        for i in [i for i, b in enumerate(expected) if refused[i]["prompt"] != b][:2]:
            print(f"  {conversations[i]!r}\n    expected {expected[i]!r}\n    got      {got[i]!r}")
        report.failed |= wrong > 0
    compare_builtin(options, report, conversations, asked)


def compare_builtin(options, report, conversations, asked):
    encoding = qwen1_encoding(options)
    got = ask(options.probe, "render", qwen1_folder(options), asked)
    expected = []
    for messages, kwargs in conversations:
        roles = [message["role"] for message in messages]
        known = set(roles[roles[:1] == ["system"]:]) <= {"user", "assistant"}
        expected.append(qwen1_chat_ids(encoding, messages, kwargs.get("add_generation_prompt"))
                        if known else None)
    report.compare("built-in template of Qwen 1", conversations, got, expected, "ids")
    folder, processor = glm_folder(options, "identity", False)
    got = ask(options.probe, "render", folder, asked)
    expected = [glm_chat_ids(processor, messages, kwargs.get("tools"),
                             kwargs.get("add_generation_prompt"))
                for messages, kwargs in conversations]
    report.compare("built-in template of ChatGLM3", conversations, got, expected, "ids")


COMPARISONS = {"qwen1": compare_qwen1, "qwen3": compare_qwen3, "llama2": compare_llama2,
               "llama2-json": compare_llama2_json, "llama3": compare_llama3,
               "chatglm": compare_chatglm, "templates": compare_templates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probe", required=True)
    parser.add_argument("--testdata", required=True)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--llama2-model")
    parser.add_argument("--llama3-model")
    parser.add_argument("--template", nargs="*", default=[], help="further templates to render")
    parser.add_argument("--only", nargs="*", choices=sorted(COMPARISONS), default=[])
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as work:
        options.work = work
        for name, compare in COMPARISONS.items():
            if not options.only or name in options.only:
                compare(options, report)
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
