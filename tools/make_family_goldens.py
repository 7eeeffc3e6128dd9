#!/usr/bin/env python3
"""Makes tests/golden/families: one tiny checkpoint per family and dtype, and what others compute
from it.

    tools/make_family_goldens.py [NAME...]

HuggingFace transformers computes the families it has; tools/reference_models.py the original Qwen
and ChatGLM3, whose code transformers does not carry. One CPU thread, eager attention.
tests/golden/README.md describes the fields.

Requirements (PyPI): torch, transformers, safetensors, numpy.
"""

import shutil
import sys

import torch
import transformers

from make_goldens import (
    DTYPES,
    GOLDEN,
    encode,
    provenance,
    write_golden,
)
from reference_models import BY_ARCHITECTURE
from tiny_families import CONFIGS, TRAINED, VOCAB, make_tiny_family

OUTPUT_TOKENS = 32
# Below, at and above every switch, and so that outputs cross them: the trained length, its double.
PROMPT_LENGTHS = (5, TRAINED, TRAINED + 1, 2 * TRAINED + 1)
# As in make_goldens.py, but for models so small that they soon repeat themselves.
LEAST_MARGIN = 5e-3
LEAST_DISTINCT = 4
PROMPTS_TRIED = 200
SEED = 1


class TransformersModel:
    def __init__(self, directory, dtype):
        # The faster ways of multiplying experts need widths that these models do not have.
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
        ).eval()

    @torch.no_grad()
    def logits(self, ids, prompt_length):
        return self.model(torch.tensor([ids]), use_cache=False).logits[0, -1].float()


def open_model(directory, config, dtype):
    return BY_ARCHITECTURE.get(config["architectures"][0], TransformersModel)(directory, dtype)


def greedy(model, prompt):
    """(output ids, least gap between the best two logits), or None at the first near tie."""
    ids = list(prompt)
    margin = float("inf")
    for _ in range(OUTPUT_TOKENS):
        best = torch.topk(model.logits(ids, len(prompt)), 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        if margin < LEAST_MARGIN:
            return None
        ids.append(best.indices[0].item())
    output = ids[len(prompt) :]
    return (output, margin) if len(set(output)) >= LEAST_DISTINCT else None


def fair_prompt(model, length):
    """(prompt, output, margin); the output only of f32 checkpoints, whose tokens are compared."""
    generator = torch.Generator().manual_seed(SEED * 1000 + length)
    for _ in range(PROMPTS_TRIED):
        prompt = torch.randint(VOCAB, (length,), generator=generator).tolist()
        run = greedy(model, prompt)
        if run is not None:
            return prompt, *run
    raise SystemExit(f"no prompt of {length} tokens gives a least margin of {LEAST_MARGIN}")


def random_prompt(length):
    generator = torch.Generator().manual_seed(SEED * 1000 + length)
    return torch.randint(VOCAB, (length,), generator=generator).tolist(), None, None


def make_family(name, dtype):
    directory = GOLDEN / "families" / f"{name}-{dtype}"
    shutil.rmtree(directory, ignore_errors=True)
    config = make_tiny_family(directory, name, dtype, SEED)
    exact = open_model(directory, config, torch.float32)
    own = open_model(directory, config, DTYPES[dtype])
    prompts = []
    for length in PROMPT_LENGTHS:
        f32 = dtype == "f32"
        ids, output, margin = fair_prompt(exact, length) if f32 else random_prompt(length)
        logits = exact.logits(ids, length)
        distance = (own.logits(ids, length) - logits).abs().max().item()
        prompt = {"ids": ids, "logits": encode(logits), "own_max_abs_distance": distance}
        if f32:
            prompt |= {"greedy_ids": output, "greedy_min_margin": margin}
        prompts.append(prompt)
    ours = config["architectures"][0] in BY_ARCHITECTURE
    golden = {
        **provenance(),
        "computed_by": "tools/reference_models.py" if ours else "transformers",
        "family": name,
        "dtype": dtype,
        "seed": SEED,
        "vocab_size": VOCAB,
        "own_max_abs_distance": max(prompt["own_max_abs_distance"] for prompt in prompts),
        "prompts": prompts,
    }
    write_golden(directory, golden)
    print(f"{name}-{dtype}: own distance {golden['own_max_abs_distance']:.6f}", flush=True)


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CONFIGS:
        for dtype in DTYPES:
            make_family(name, dtype)


if __name__ == "__main__":
    main()
