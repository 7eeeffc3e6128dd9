#!/usr/bin/env python3
"""Answers by schemas that a service generates, judged by Python's jsonschema.

    tests/grammar/generations.py FOLDER --server http://127.0.0.1:8000 --model DIR [--schemas 200] [--outputs 50] [--tokens 64]

FOLDER has files {"schema": …} as MaskBench has them (guidance-ai/jsonschemabench); the service has a checkpoint with random
weights and the vocabulary of DIR, which is the hardest writer. Each schema is one request of so many outputs at
temperature 1. Every answer that ends by itself must be valid; every one that was cut must be the beginning of a valid
text, which grammar_probe ends by closing what is open. Exits with 1 where one is not.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

from walks import judge, validator_of

HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"


class Service:
    def __init__(self, address):
        self.address = address
        with urllib.request.urlopen(f"{address}/v1/models", timeout=30) as response:
            self.model = json.load(response)["data"][0]["id"]

    def answers(self, schema, arguments, seed):
        """The choices; or why there are none."""
        body = {"model": self.model, "prompt": "x", "n": arguments.outputs, "max_tokens": arguments.tokens, "temperature": 1,
                "seed": seed, "structured_outputs": {"json": schema}}
        request = urllib.request.Request(f"{self.address}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)["choices"], None
        except urllib.error.HTTPError as error:
            return None, (error.code, error.read().decode("utf-8", "replace"))


def run(arguments):
    service = Service(arguments.server)
    probe = subprocess.Popen([arguments.probe, arguments.model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    counts = collections.Counter()
    names = sorted(os.listdir(arguments.folder))
    for index, name in enumerate(names[::max(1, len(names) // (2 * arguments.schemas))]):
        if counts["schemas"] == arguments.schemas:
            break
        with open(os.path.join(arguments.folder, name), encoding="utf-8") as file:
            schema = json.load(file)["schema"]
        choices, refusal = service.answers(schema, arguments, index)
        if refusal and refusal[0] == 400:
            counts["refused"] += 1
            continue
        if refusal:
            counts["failed"] += 1
            print(name, *refusal, flush=True)
            continue
        counts["schemas"] += 1
        cut = []
        for choice in choices:
            ended = choice["finish_reason"] == "stop"
            counts["ended" if ended else "cut"] += 1
            if not ended:
                cut.append(choice["text"].rstrip(HALF_CHARACTER))
                continue
            wrong = judge(validator_of(schema), choice["text"])
            if wrong:
                counts["ended, bad"] += 1
                print(name, "ended", wrong, json.dumps(choice["text"])[:300], flush=True)
        probe.stdin.write(json.dumps({"kind": "json_schema", "source": json.dumps(schema), "texts": cut, "finish": 4000}) + "\n")
        probe.stdin.flush()
        for text, followed in zip(cut, json.loads(probe.stdout.readline()).get("texts", [])):
            if not followed["prefix"]:
                wrong = f"no beginning of a text from byte {followed['stop']} on"
            elif "finished" not in followed:
                counts["cut, no end found"] += 1
                continue
            else:
                wrong = judge(validator_of(schema), followed["finished"])
            if wrong:
                counts["cut, bad"] += 1
                print(name, "cut", wrong, json.dumps(text)[:300], flush=True)
    print(dict(counts))
    return 1 if counts["ended, bad"] + counts["cut, bad"] + counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--server", required=True)
    parser.add_argument("--model", required=True, help="folder with vocab.json and merges.txt")
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--outputs", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--probe", default="build/release/bin/grammar_probe")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
