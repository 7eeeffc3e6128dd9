#!/usr/bin/env python3
"""Makes tests/golden with HuggingFace transformers, an implementation independent of ours.

    tools/make_goldens.py              the tiny random checkpoints and their golden.json
    tools/make_goldens.py --demo      tests/golden/demo/golden.json for models/demo

Everything is computed on one CPU thread with eager attention. tests/golden/README.md describes the
fields.

Requirements (PyPI): torch, transformers, safetensors, numpy.
"""

import argparse
import base64
import json
import pathlib
import shutil

import torch
import transformers

from make_tiny_model import DTYPES, Shape, make_tiny_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
DEMO_MODEL = ROOT / "models" / "demo"

OUTPUT_TOKENS = 64
# Positions of a prompt's end whose logits are kept. Prompts up to this length keep all of them.
KEPT_POSITIONS = 5
PROMPT_LENGTHS = (1, 2, 5, 16, 17, 70)
# A greedy comparison is fair only when no step is nearly a tie: the f32 tolerance on logits is
# 1e-3.
LEAST_MARGIN = 2e-2
# A model that repeats one token says little about its cache.
LEAST_DISTINCT = 12
FIRST_SEED = 1
SEEDS_TRIED = 20
PROMPTS_TRIED = 100

SHAPES = {
    # Grouped heads, queries wider than hidden, an intermediate size and a vocabulary that no vector
    # width divides.
    "grouped-tied": Shape(
        hidden=32, layers=3, heads=4, kv_heads=2, head_dim=16, intermediate=100, vocab=259
    ),
    # Queries narrower than hidden, groups of three, an own head.
    "narrow-untied": Shape(
        hidden=48,
        layers=2,
        heads=6,
        kv_heads=2,
        head_dim=4,
        intermediate=72,
        vocab=301,
        tie=False,
        rope_theta=1e6,
    ),
    # One KV head for all, a head size that is no power of two, hidden no multiple of 16.
    "single-kv-tied": Shape(
        hidden=40, layers=5, heads=3, kv_heads=1, head_dim=24, intermediate=68, vocab=277
    ),
    # No grouping, one layer.
    "one-layer-untied": Shape(
        hidden=64,
        layers=1,
        heads=4,
        kv_heads=4,
        head_dim=32,
        intermediate=132,
        vocab=320,
        tie=False,
    ),
}
# This shape is kept once more, cut into three files with an index.
SHARDED_SHAPE = "grouped-tied"
SHARDS = 3

DEMO_TOP = 32
DEMO_OUTPUT_TOKENS = 64


def load(directory, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager"
    )
    return model.eval()


@torch.no_grad()
def last_logits(model, ids, positions):
    """Logits of the last `positions` positions, [positions, vocab], as f32."""
    return model(torch.tensor([ids]), use_cache=False).logits[0, -positions:].float()


@torch.no_grad()
def greedy(model, ids, count, stop_ids=()):
    """(token ids, least gap between the best and the second logit on the way)."""
    cache = transformers.DynamicCache()
    feed = list(ids)
    output = []
    margin = float("inf")
    while len(output) < count:
        logits = (
            model(torch.tensor([feed]), past_key_values=cache, use_cache=True).logits[0, -1].float()
        )
        top = torch.topk(logits, 2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        output.append(top.indices[0].item())
        if output[-1] in stop_ids:
            break
        feed = output[-1:]
    return output, margin


def encode(tensor):
    """Little-endian f32, row by row, in base64."""
    return base64.b64encode(tensor.contiguous().numpy().astype("<f4").tobytes()).decode("ascii")


def fair_prompt(model, vocab, length, seed):
    """(ids, output, margin) of a random prompt continued without near ties and not dully."""
    generator = torch.Generator().manual_seed(seed * 1000 + length)
    for _ in range(PROMPTS_TRIED):
        ids = torch.randint(vocab, (length,), generator=generator).tolist()
        output, margin = greedy(model, ids, OUTPUT_TOKENS)
        if margin >= LEAST_MARGIN and len(set(output)) >= LEAST_DISTINCT:
            return ids, output, margin
    return None


def make_tiny(name, dtype):
    directory = GOLDEN / f"{name}-{dtype}"
    shutil.rmtree(directory, ignore_errors=True)
    shape = SHAPES[name]
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_TRIED):
        make_tiny_model(directory, shape, dtype, seed, tokenizer=True)
        exact = load(directory, torch.float32)
        runs = [fair_prompt(exact, shape.vocab, length, seed) for length in PROMPT_LENGTHS]
        if None not in runs:
            break
    else:
        raise SystemExit(f"{name} {dtype}: no seed gives a least margin of {LEAST_MARGIN}")

    own = load(directory, DTYPES[dtype])
    entries = []
    for ids, output, margin in runs:
        positions = min(len(ids), KEPT_POSITIONS)
        logits = last_logits(exact, ids, positions)
        own_logits = last_logits(own, ids, positions)
        entries.append(
            {
                "ids": ids,
                "positions": positions,
                "logits": encode(logits),
                "own_max_abs_distance": (own_logits - logits).abs().max().item(),
                "greedy_ids": output,
                "greedy_min_margin": margin,
                "own_greedy_ids": greedy(own, ids, OUTPUT_TOKENS)[0],
            }
        )
    golden = {
        **provenance(),
        "shape": name,
        "dtype": dtype,
        "seed": seed,
        "vocab_size": shape.vocab,
        "own_max_abs_distance": max(entry["own_max_abs_distance"] for entry in entries),
        "greedy_min_margin": min(entry["greedy_min_margin"] for entry in entries),
        "prompts": entries,
    }
    write_golden(directory, golden)
    print(
        f"{name}-{dtype}: seed {seed}, margin {golden['greedy_min_margin']:.4f}, "
        f"own distance {golden['own_max_abs_distance']:.6f}",
        flush=True,
    )
    return seed


def make_sharded(dtype, seed):
    source = GOLDEN / f"{SHARDED_SHAPE}-{dtype}"
    directory = GOLDEN / f"{SHARDED_SHAPE}-{dtype}-sharded"
    shutil.rmtree(directory, ignore_errors=True)
    make_tiny_model(directory, SHAPES[SHARDED_SHAPE], dtype, seed, shards=SHARDS, tokenizer=True)
    shutil.copy(source / "golden.json", directory / "golden.json")
    print(f"{directory.name}: the same weights in {SHARDS} files", flush=True)


def make_demo():
    """Goldens of the demo model: its answers to the first questions of every task."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(DEMO_MODEL)
    eos = json.loads((DEMO_MODEL / "generation_config.json").read_text())["eos_token_id"]
    exact = load(DEMO_MODEL, torch.float32)
    own = load(DEMO_MODEL, torch.bfloat16)
    entries = []
    for question in demo_questions():
        ids = tokenizer.apply_chat_template(
            question["messages"], add_generation_prompt=True, return_dict=False
        )
        logits = last_logits(exact, ids, 1)[0]
        own_logits = last_logits(own, ids, 1)[0]
        top = torch.topk(logits, DEMO_TOP)
        output, margin = greedy(own, ids, DEMO_OUTPUT_TOKENS, eos)
        entries.append(
            {
                "messages": question["messages"],
                "ids": ids,
                "top_ids": top.indices.tolist(),
                "top_logits": encode(top.values),
                "max_abs_logit": logits.abs().max().item(),
                "own_max_abs_distance": (own_logits - logits).abs().max().item(),
                "own_top_max_abs_distance": (own_logits - logits)[top.indices].abs().max().item(),
                "own_greedy_ids": output,
                "own_greedy_min_margin": margin,
                "text": tokenizer.decode(output, skip_special_tokens=True),
                "answer": question["answer"],
            }
        )
        if entries[-1]["text"] != question["answer"]:
            raise SystemExit(
                f"the demo model answers {entries[-1]['text']!r}, expected {question['answer']!r}"
            )
    golden = {
        **provenance(),
        "model": "models/demo",
        "dtype": "bf16",
        "vocab_size": exact.config.vocab_size,
        "own_max_abs_distance": max(entry["own_max_abs_distance"] for entry in entries),
        "own_top_max_abs_distance": max(entry["own_top_max_abs_distance"] for entry in entries),
        "own_greedy_min_margin": min(entry["own_greedy_min_margin"] for entry in entries),
        "prompts": entries,
    }
    directory = GOLDEN / "demo"
    directory.mkdir(parents=True, exist_ok=True)
    write_golden(directory, golden)
    print(
        f"demo: {len(entries)} prompts, own distance {golden['own_max_abs_distance']:.4f}, "
        f"margin {golden['own_greedy_min_margin']:.4f}"
    )


def demo_questions():
    """The first two questions of every task in the demo model's smoke list."""
    taken = {}
    chosen = []
    for question in json.loads((DEMO_MODEL / "questions.json").read_text()):
        taken[question["task"]] = taken.get(question["task"], 0) + 1
        if taken[question["task"]] <= 2:
            chosen.append(question)
    return chosen


def provenance():
    return {
        "format": 1,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "attention": "eager",
    }


def write_golden(directory, golden):
    (directory / "golden.json").write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--demo", action="store_true", help="only the goldens of models/demo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if options.demo:
        make_demo()
        return
    for name in SHAPES:
        for dtype in DTYPES:
            seed = make_tiny(name, dtype)
            if name == SHARDED_SHAPE and dtype == "bf16":
                make_sharded(dtype, seed)


if __name__ == "__main__":
    main()
