#!/usr/bin/env python3
"""Writes a small random Qwen3ForCausalLM checkpoint in the exact HuggingFace layout.

    tools/make_tiny_model.py --out DIR --hidden 32 --heads 4 --kv-heads 2 --head-dim 16 --dtype bf16

The weights are scaled so that logits spread over several units and attention looks at more than one
token: a wrong rotation, mask, norm or head grouping then moves the logits far more than rounding
does.

Requirements (PyPI): torch, safetensors.
"""

import argparse
import dataclasses
import math
import pathlib

import torch
from safetensors.torch import save_file

from qwen_tokenizer import (
    END_OF_TEXT,
    IM_END,
    special_ids,
    tokenizer_config_json,
    tokenizer_json,
    write_json,
)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
CONFIG_DTYPE_NAMES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

BYTE_TOKENIZER = tokenizer_json(merges=[])
SPECIAL_IDS = special_ids(BYTE_TOKENIZER)
LEAST_VOCAB = max(SPECIAL_IDS.values()) + 1


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of a dense Qwen3 model. Every size is a count of elements."""

    hidden: int = 32
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    intermediate: int = 100
    vocab: int = 259
    tie: bool = True
    rope_theta: float = 10000.0
    context: int = 512


def config_of(shape, dtype):
    """config.json as Qwen publishes it."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": SPECIAL_IDS[END_OF_TEXT],
        "eos_token_id": SPECIAL_IDS[IM_END],
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.context,
        "max_window_layers": shape.layers,
        "model_type": "qwen3",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": shape.rope_theta,
        "sliding_window": None,
        "tie_word_embeddings": shape.tie,
        "torch_dtype": CONFIG_DTYPE_NAMES[dtype],
        "transformers_version": "4.51.0",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": shape.vocab,
    }


def random_weights(shape, dtype, seed):
    """Tensors by their HuggingFace names, in the order of the layers."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows, columns, gain):
        values = torch.randn(rows, columns, generator=generator) * (gain / math.sqrt(columns))
        return values.to(DTYPES[dtype])

    def norm(size):
        return (1.0 + 0.3 * torch.randn(size, generator=generator)).to(DTYPES[dtype])

    queries = shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    logit_spread = 6.0
    # The layers' outputs must stand well above the embedding, or a tied model repeats its input.
    output_gain = 8.0
    weights = {"model.embed_tokens.weight": matrix(shape.vocab, shape.hidden, logit_spread)}
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = norm(shape.hidden)
        weights[prefix + "self_attn.q_proj.weight"] = matrix(queries, shape.hidden, 1.0)
        weights[prefix + "self_attn.k_proj.weight"] = matrix(keys, shape.hidden, 1.0)
        weights[prefix + "self_attn.v_proj.weight"] = matrix(keys, shape.hidden, 1.0)
        weights[prefix + "self_attn.o_proj.weight"] = matrix(shape.hidden, queries, output_gain)
        weights[prefix + "self_attn.q_norm.weight"] = norm(shape.head_dim)
        weights[prefix + "self_attn.k_norm.weight"] = norm(shape.head_dim)
        weights[prefix + "post_attention_layernorm.weight"] = norm(shape.hidden)
        weights[prefix + "mlp.gate_proj.weight"] = matrix(shape.intermediate, shape.hidden, 1.0)
        weights[prefix + "mlp.up_proj.weight"] = matrix(shape.intermediate, shape.hidden, 1.0)
        weights[prefix + "mlp.down_proj.weight"] = matrix(
            shape.hidden, shape.intermediate, output_gain
        )
    weights["model.norm.weight"] = norm(shape.hidden)
    if not shape.tie:
        weights["lm_head.weight"] = matrix(shape.vocab, shape.hidden, logit_spread)
    return weights


def save_tensors(path, tensors):
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors writes through a private temporary file


def save_sharded(directory, weights, shards):
    """Cuts the tensors, in order, into files of about equal size and writes the index."""
    total = sum(tensor.nbytes for tensor in weights.values())
    files = [{} for _ in range(shards)]
    weight_map = {}
    position = 0
    for name, tensor in weights.items():
        shard = min(position * shards // total, shards - 1)
        files[shard][name] = tensor
        weight_map[name] = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        position += tensor.nbytes
    for shard, tensors in enumerate(files):
        save_tensors(directory / f"model-{shard + 1:05d}-of-{shards:05d}.safetensors", tensors)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(directory / "model.safetensors.index.json", index)


def make_tiny_model(directory, shape, dtype, seed, shards=1, tokenizer=False):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("model*.safetensors*"):
        old.unlink()
    write_json(directory / "config.json", config_of(shape, dtype))
    weights = random_weights(shape, dtype, seed)
    if shards == 1:
        save_tensors(directory / "model.safetensors", weights)
    else:
        save_sharded(directory, weights, shards)
    if tokenizer:
        # One token a byte and the three specials: the smallest tokenizer of Qwen's kind.
        write_json(directory / "tokenizer.json", BYTE_TOKENIZER)
        config = tokenizer_config_json(BYTE_TOKENIZER, shape.context)
        write_json(directory / "tokenizer_config.json", config)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, help="directory to write")
    for field in dataclasses.fields(Shape):
        option = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=field.default
            )
        else:
            parser.add_argument(option, type=field.type, default=field.default)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1, help="files to cut the tensors into")
    parser.add_argument("--tokenizer", action="store_true", help="also write a byte tokenizer")
    options = vars(parser.parse_args())
    shape = Shape(**{field.name: options.pop(field.name) for field in dataclasses.fields(Shape)})
    if options["tokenizer"] and shape.vocab < LEAST_VOCAB:
        parser.error(f"--tokenizer needs --vocab {LEAST_VOCAB} or more")
    if shape.heads % shape.kv_heads != 0 or shape.head_dim % 2 != 0:
        parser.error("--heads must be a multiple of --kv-heads, and --head-dim even")
    make_tiny_model(options.pop("out"), shape, **options)


if __name__ == "__main__":
    main()
