#!/usr/bin/env python3
"""Writes tests/golden/text/families/: small tokenizers of every make, and what the reference
libraries and the authors' own chat code make of texts and conversations with them.

Usage: make_family_text_goldens.py --testdata DIR
Requirements (PyPI): as compare_text.py, which compares far more; these run with every build.

  chatglm/   a sentencepiece model with a small normalization table, extra spaces removed
  llama2/    a sentencepiece model as Llama 2's: nothing normalized, spaces kept
  llama2-json/, llama3/  tokenizer.json, from characters and byte-level
  families.json  texts and ids, conversations and ids; those of Qwen 1 are of its real vocabulary
"""
import argparse
import io
import json
import os
import random
import tempfile

import sentencepiece
from tokenizers import AddedToken

import make_text_goldens as goldens
import reference_chats
import reference_tokenizers as reference
import text_inputs

RULES = [("ff0c", "2c"), ("3000", "20"), ("ff01", "21"), ("fb01", "66 69"), ("65 301", "e9"),
         ("ad", "")]


def train(size, rules, remove_spaces, seed):
    rng = random.Random(seed)
    lines = [line.strip("\n") for line in text_inputs.real_lines() if "model/" in line or
             rng.random() < 0.05] + [text_inputs.CHINESE] * 20
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as work:
        table = os.path.join(work, "rules.tsv")
        with open(table, "w", encoding="utf-8") as file:
            file.writelines(f"{source}\t{target}\n" for source, target in rules)
        how = {"normalization_rule_tsv": table} if rules else {"normalization_rule_name": "identity"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=size,
            byte_fallback=True, remove_extra_whitespaces=remove_spaces, split_digits=True,
            character_coverage=0.99, hard_vocab_limit=False, minloglevel=2, **how)
    return model.getvalue()


def shortened(ranks, size):
    return {token: rank for token, rank in ranks.items() if rank < size}


def save(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def conversations(seed, count):
    rng = random.Random(seed)
    return [goldens.conversation(rng) for _ in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--testdata", required=True)
    options = parser.parse_args()
    options.llama3_model = None
    out = os.path.join(goldens.ROOT, "tests", "golden", "text", "families")
    result = {}

    def texts(seed, specials):
        return text_inputs.texts(len(goldens.PIECES) + 140, seed, specials)

    glm = train(900, RULES, True, 1)
    save(os.path.join(out, "chatglm"), "tokenizer.model", glm)
    save(os.path.join(out, "chatglm"), "tokenizer_config.json",
         b'{"tokenizer_class": "ChatGLMTokenizer"}\n')
    processor = sentencepiece.SentencePieceProcessor(model_proto=glm)
    result["chatglm"] = [{"text": text, "plain": processor.encode(text)}
                         for text in texts(31, reference_chats.GLM_COMMANDS) if "\x00" not in text]
    result["chatglm_chats"] = [
        {"messages": messages, "kwargs": kwargs, "ids": reference_chats.glm_chat_ids(
            processor, messages, kwargs.get("tools"), kwargs.get("add_generation_prompt"))}
        for messages, kwargs in conversations(32, 30)]

    llama = train(900, [], False, 2)
    save(os.path.join(out, "llama2"), "tokenizer.model", llama)
    processor = sentencepiece.SentencePieceProcessor(model_proto=llama)
    result["llama2"] = [{"text": text, "plain": processor.encode(text)}
                        for text in texts(33, ["<s>", "</s>"]) if "\x00" not in text]

    plain, trusted = (reference.llama2_json(llama, False) for _ in range(2))
    trusted.add_special_tokens([AddedToken(token, normalized=False, special=True)
                                for token in ("<unk>", "<s>", "</s>")])
    save(os.path.join(out, "llama2-json"), "tokenizer.json", trusted.to_str().encode())
    result["llama2-json"] = [
        {"text": text, "plain": plain.encode(text, add_special_tokens=False).ids,
         "trusted": trusted.encode(text, add_special_tokens=False).ids}
        for text in texts(34, ["<s>", "</s>", "<unk>"])]

    ranks = shortened(reference.llama3_ranks(options), 900)
    specials = ["<|begin_of_text|>", "<|eot_id|>"]
    plain, trusted = reference.llama3_json(ranks, []), reference.llama3_json(ranks, specials)
    save(os.path.join(out, "llama3"), "tokenizer.json", trusted.to_str().encode())
    result["llama3"] = [{"text": text, "plain": plain.encode(text, add_special_tokens=False).ids,
                         "trusted": trusted.encode(text, add_special_tokens=False).ids}
                        for text in texts(35, specials)]

    encoding = reference.qwen1_encoding(options)
    result["qwen1"] = [
        {"text": text, "plain": encoding.encode(text_inputs.nfc(text), disallowed_special=()),
         "trusted": reference.qwen1_trusted_ids(encoding, text)}
        for text in texts(36, reference.QWEN_SPECIALS[:4])]
    result["qwen1_chats"] = [
        {"messages": messages, "kwargs": kwargs, "ids": reference_chats.qwen1_chat_ids(
            encoding, messages, kwargs.get("add_generation_prompt"))}
        for messages, kwargs in conversations(37, 90)
        if {message["role"] for message in messages[messages[0]["role"] == "system":]}
        <= {"user", "assistant"}]
    goldens.write(out, "families.json", result)


if __name__ == "__main__":
    main()
