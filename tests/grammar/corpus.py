#!/usr/bin/env python3
"""The engine, and others where pip has them, on a folder of schemas with instances.

    tests/grammar/corpus.py FOLDER [--probe …] [--model DIR] [--every 10] [--engine tutti|llguidance|xgrammar]

A file is {"schema": …, "tests": [{"valid": …, "data": …}]}, as MaskBench has them
(guidance-ai/jsonschemabench). Says what is served and refused, invalid instances that are accepted,
valid ones that are not, and the times: to make a grammar with its first mask, and of masks.
"""
import argparse
import collections
import json
import multiprocessing
import os
import queue
import subprocess
import sys
import time

import texts


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


class Tutti:
    """Through grammar_probe, which walks a vocabulary's tree for each mask."""

    def __init__(self, arguments):
        self._process = subprocess.Popen([arguments.probe] + ([arguments.model] if arguments.model else []),
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def judge(self, schema, instances):
        question = {"kind": "json_schema", "source": json.dumps(schema), "texts": instances}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            return {"error": answer["error"], "make": answer["us"]}
        return {"accepted": [text["accepted"] for text in answer.get("texts", [])],
                "broken": sum("broken" in text for text in answer.get("texts", [])),
                "make": answer["us"], "masks": answer["masks"], "forced": answer["forced"]}


class Llguidance:
    def __init__(self, arguments):
        import llguidance
        import llguidance.numpy
        self._l = llguidance
        self._tokenizer = llguidance.LLTokenizer(_tokenizer_json(arguments.model))
        self._mask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)

    def judge(self, schema, instances):
        begin = time.perf_counter()
        grammar = self._l.LLMatcher.grammar_from_json_schema(
            json.dumps(schema), defaults={"whitespace_flexible": False})
        error = self._l.LLMatcher.validate_grammar(grammar, self._tokenizer)
        if error:
            return {"error": error, "make": 1e6 * (time.perf_counter() - begin)}
        first = self._l.LLMatcher(self._tokenizer, grammar, log_level=0)
        self._l.numpy.fill_next_token_bitmask(first, self._mask)
        make = 1e6 * (time.perf_counter() - begin)
        accepted, masks = [], []
        for text in instances:
            matcher = self._l.LLMatcher(self._tokenizer, grammar, log_level=0)
            fine = True
            for token in self._tokenizer.tokenize_str(text):
                begin = time.perf_counter()
                self._l.numpy.fill_next_token_bitmask(matcher, self._mask)
                masks.append(1e6 * (time.perf_counter() - begin))
                fine = matcher.consume_token(token)
                if not fine:
                    break
            accepted.append(fine and matcher.is_accepting())
        return {"accepted": accepted, "broken": 0, "make": make, "masks": masks}


class Xgrammar:
    def __init__(self, arguments):
        import xgrammar
        self._x = xgrammar
        with open(os.path.join(arguments.model, "vocab.json"), encoding="utf-8") as file:
            vocabulary = json.load(file)
        pieces = sorted(vocabulary, key=vocabulary.get) + ["<|end|>"]
        info = xgrammar.TokenizerInfo(pieces, xgrammar.VocabType.BYTE_LEVEL, vocab_size=len(pieces),
                                      stop_token_ids=[len(pieces) - 1])
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._mask = xgrammar.allocate_token_bitmask(1, len(pieces))

    def judge(self, schema, instances):
        begin = time.perf_counter()
        try:
            grammar = self._compiler.compile_json_schema(json.dumps(schema), any_whitespace=False,
                                                         separators=(",", ":"), strict_mode=False)
            first = self._x.GrammarMatcher(grammar, terminate_without_stop_token=True)
            first.fill_next_token_bitmask(self._mask)
        except Exception as error:  # of many kinds
            return {"error": str(error)[:200], "make": 1e6 * (time.perf_counter() - begin)}
        make = 1e6 * (time.perf_counter() - begin)
        accepted = []
        for text in instances:
            matcher = self._x.GrammarMatcher(grammar, terminate_without_stop_token=True)
            accepted.append(matcher.accept_string(text) and matcher.is_terminated())
        return {"accepted": accepted, "broken": 0, "make": make, "masks": []}


def _tokenizer_json(model):
    """A tokenizer of HuggingFace's with the model's vocabulary, as text."""
    with open(os.path.join(model, "vocab.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)
    with open(os.path.join(model, "merges.txt"), encoding="utf-8") as file:
        merges = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#version")]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [{"id": len(vocabulary), "content": "<|endoftext|>", "single_word": False,
                          "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                          "use_regex": True},
        "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                                              "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": vocabulary, "merges": merges}})


def orders_of(value, schema):
    """Texts in which a value is asked for: in the schema's order, and as it is."""
    return [texts.texts_of(one)[0] for one in (texts.reordered(value, schema, schema), value)]


def within(engine, schema, instances, limit):
    """What the engine says, in a process of its own where that is ended after `limit` seconds."""
    if not limit:
        return engine.judge(schema, instances)
    verdicts = multiprocessing.Queue()
    process = multiprocessing.Process(target=lambda: verdicts.put(engine.judge(schema, instances)))
    process.start()
    try:
        return verdicts.get(timeout=limit)
    except queue.Empty:
        return {"error": f"not done after {limit} s", "make": 1e6 * limit}
    finally:
        process.kill()


def run(engine, arguments):
    counts = collections.Counter()
    refusals = collections.Counter()
    make, masks, slow = [], [], []
    names = sorted(os.listdir(arguments.folder))[::arguments.every]
    for name in names:
        with open(os.path.join(arguments.folder, name), encoding="utf-8") as file:
            case = json.load(file)
        tests = case.get("tests", [])
        wanted = [orders_of(test["data"], case["schema"]) if arguments.orders else
                  [json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))]
                  for test in tests]
        every = [text for some in wanted for text in some]
        verdict = within(engine, case["schema"], every, arguments.limit)
        make.append(verdict["make"])
        if "error" in verdict:
            counts["refused"] += 1
            refusals[verdict["error"].split(": ")[-1][:70]] += 1
            continue
        counts["served"] += 1
        masks += verdict["masks"]
        slow.append((max(verdict["masks"], default=0), name))
        counts["broken masks"] += verdict["broken"]
        counts["masks of one token"] += verdict.get("forced", 0)
        results = iter(verdict["accepted"])
        for test, some in zip(tests, wanted):
            accepted = any([next(results) for _ in some])
            kind = "valid" if test["valid"] else "invalid"
            counts[f"{kind} {'accepted' if accepted else 'refused'}"] += 1
            if accepted != test["valid"] and arguments.details:
                print("  ", kind, "accepted" if accepted else "refused", name,
                      json.dumps(test["data"])[:200])
    print(arguments.engine, dict(counts))
    for title, values in (("make", make), ("mask", masks)):
        print(f"{title} us: n {len(values)} p50 {percentile(values, .5):.0f} p90 {percentile(values, .9):.0f} "
              f"p99 {percentile(values, .99):.0f} max {max(values, default=0):.0f}")
    print("slowest", sorted(slow)[-5:])
    for refusal, count in refusals.most_common(25):
        print(f"   {count} × {refusal}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--probe", default="build/release/bin/grammar_probe")
    parser.add_argument("--model", help="folder with vocab.json and merges.txt")
    parser.add_argument("--every", type=int, default=1, help="take one file of so many")
    parser.add_argument("--orders", action="store_true", help="try members in the schema's order too")
    parser.add_argument("--engine", default="tutti", choices=["tutti", "llguidance", "xgrammar"])
    parser.add_argument("--limit", type=int, help="seconds for each schema")
    parser.add_argument("--details", action="store_true")
    arguments = parser.parse_args()
    engines = {"tutti": Tutti, "llguidance": Llguidance, "xgrammar": Xgrammar}
    run(engines[arguments.engine](arguments), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
