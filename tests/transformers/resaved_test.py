#!/usr/bin/env python3
"""Checkpoints as today's transformers saves them: what it computes from each, and what we compute.

    resaved_test.py --probe build/release/tests/transformers/logits_probe [NAME...]
    resaved_test.py --write-goldens [NAME...]

The second writes goldens into tests/golden/families, for machines without torch; the first compares.

f32: logits within 1e-3, greedy tokens equal, over one stage and two, and over ranks. Other types: within twice the
distance of transformers' own run from f32. Ends with 77 where torch or transformers are not installed.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import checkpoints

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "families"
# The others add nothing to tests/golden that is not there.
COMMITTED = (
    "llama-biases",
    "llama-dynamic",
    "llama-yarn-bare",
    "qwen2-unsaid",
    "qwen2-widened",
    "qwen3-attention-bias",
    "qwen3-moe-mlp-only",
    "qwen3-moe-step-2",
    "qwen3-narrowed",
)
F32_TOLERANCE = 1e-3
OWN_DISTANCES = 2
# (layers of each stage but the last, ranks)
LAYOUTS = ((0, 1), (1, 1), (0, 2), (1, 4), (0, 8))


class Expected:
    def __init__(self, directory):
        own = checkpoints.Reference(directory)
        self.dtype = own.dtype
        exact = checkpoints.Reference(directory).widened()
        f32 = self.dtype == "f32"
        if f32:
            self.runs = checkpoints.fair_runs(exact)
        else:
            prompts = [checkpoints.prompt_of(length) for length in checkpoints.PROMPT_LENGTHS]
            self.runs = [(prompt, exact.run(prompt, 0)[0], None, None) for prompt in prompts]
        self.distances = [
            (own.run(prompt, 0)[0] - logits).abs().max().item() for prompt, logits, _, _ in self.runs
        ]
        self.own_distance = max(self.distances)
        self.tolerance = F32_TOLERANCE if f32 else OWN_DISTANCES * self.own_distance


def ask(probe, directory, layers, ranks, runs):
    """Our (logits, tokens) of every prompt, the type we compute in, and the bits of all that was answered; None where the
    model takes no such layout."""
    question = {
        "model": str(directory),
        "first_stage_layers": layers,
        "ranks": ranks,
        "prompts": [prompt for prompt, _, _, _ in runs],
        "output_tokens": checkpoints.OUTPUT_TOKENS,
    }
    done = subprocess.run([probe], input=json.dumps(question), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{probe} ended with {done.returncode}: {done.stderr}{done.stdout}")
    answer = json.loads(done.stdout)
    return None if answer.get("refused_layout") else answer


def check(probe, name, directory):
    checkpoints.save(directory, name)
    expected = Expected(directory)
    largest, bits, faults, layouts = 0.0, None, [], 0
    for layers, ranks in LAYOUTS:
        answer = ask(probe, directory, layers, ranks, expected.runs)
        if answer is None:
            continue
        layouts += 1
        if answer["dtype"] != expected.dtype:
            faults.append(f"computed in {answer['dtype']}, transformers in {expected.dtype}")
        if bits is not None and bits != answer["bits"]:
            faults.append(f"other bits with {layers} layers on a first stage, {ranks} ranks")
        bits = answer["bits"]
        for (_, logits, ids, _), ours in zip(expected.runs, answer["answers"]):
            if ours["logits"]:  # of one rank only
                largest = max(largest, (torch.tensor(ours["logits"]) - logits).abs().max().item())
            if ids is not None and ours["ids"] != ids:
                faults.append(f"tokens {ours['ids']}, expected {ids}")
    if largest > expected.tolerance:
        faults.append(f"logits differ by {largest:g}")
    print(f"{name}: {expected.dtype}, {largest:.2e} of {expected.tolerance:.2e}, {layouts} layouts", *faults, flush=True)
    return not faults


def write_golden(name):
    from base64 import b64encode

    saved = f"saved-{name}"
    directory = GOLDEN / saved
    shutil.rmtree(directory, ignore_errors=True)
    checkpoints.save(directory, name)
    (directory / "generation_config.json").unlink(missing_ok=True)
    expected = Expected(directory)
    prompts = []
    for (prompt, logits, ids, margin), distance in zip(expected.runs, expected.distances):
        values = b64encode(logits.contiguous().numpy().astype("<f4").tobytes()).decode("ascii")
        entry = {"ids": prompt, "logits": values, "own_max_abs_distance": distance}
        if ids is not None:
            entry |= {"greedy_ids": ids, "greedy_min_margin": margin}
        prompts.append(entry)
    golden = {
        "format": 1,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "attention": "eager",
        "computed_by": "transformers",
        "family": saved,
        "dtype": expected.dtype,
        "seed": checkpoints.SEED,
        "vocab_size": checkpoints.VOCAB,
        "own_max_abs_distance": expected.own_distance,
        "prompts": prompts,
    }
    (directory / "golden.json").write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    print(f"{saved}: {expected.dtype}, own distance {expected.own_distance:g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", help="the program logits_probe")
    parser.add_argument("--write-goldens", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.write_goldens:
        for name in arguments.names or COMMITTED:
            write_golden(name)
        return 0
    good = 0
    names = arguments.names or list(checkpoints.CONFIGS)
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            good += check(arguments.probe, name, pathlib.Path(root) / name)
    print(f"transformers {transformers.__version__}: {good} of {len(names)} checkpoints agree")
    return 0 if good == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
