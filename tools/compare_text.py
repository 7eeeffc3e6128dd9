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
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import sentencepiece
import tiktoken
from tokenizers import AddedToken

import make_text_goldens as goldens
from reference_chats import (GLM_COMMANDS, NOW, alternating, expected_prompt, glm_chat_ids,
                            named, qwen1_chat_ids)
from reference_tokenizers import (LLAMA3_SPLIT, QWEN_SPECIALS, llama2_json, llama2_model,
                                 llama3_json, llama3_ranks, qwen1_encoding, qwen1_trusted_ids,
                                 train_sentencepiece)
from text_inputs import nfc, texts


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


def qwen1_folder(options):
    folder = new_folder(options, "qwen1")
    shutil.copy(os.path.join(options.testdata, "tokenizers/qwen1/qwen.tiktoken"), folder)
    return folder


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
