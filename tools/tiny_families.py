"""Small random checkpoints of every family, in the layouts and under the names of real ones.

Sizes are odd on purpose: queries wider than hidden, groups of heads, widths no vector divides. The
lengths at which a family switches (trained length, original context) are small, so that short
prompts cross them.

Requirements (PyPI): torch, safetensors.
"""

import math
import pathlib

import torch

from make_tiny_model import CONFIG_DTYPE_NAMES, DTYPES, save_tensors
from qwen_tokenizer import write_json

VOCAB = 163
TRAINED = 16  # of Qwen's seq_length and of scaled rotary embeddings


def decoder(architecture, model_type, **fields):
    """config.json of a Llama-shaped family."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": 40,
        "intermediate_size": 52,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCAB,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        **fields,
    }


def qwen3_moe(**fields):
    return decoder(
        "Qwen3MoeForCausalLM",
        "qwen3_moe",
        head_dim=12,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        moe_intermediate_size=20,
        num_experts=7,
        num_experts_per_tok=3,
        attention_bias=False,
        **fields,
    )


def qwen1(**fields):
    return {
        "architectures": ["QWenLMHeadModel"],
        "model_type": "qwen",
        "hidden_size": 48,
        "intermediate_size": 88,
        "kv_channels": 16,
        "layer_norm_epsilon": 1e-06,
        "max_position_embeddings": 128,
        "no_bias": True,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "rotary_emb_base": 10000,
        "rotary_pct": 1.0,
        "scale_attn_weights": True,
        "seq_length": TRAINED,
        "tie_word_embeddings": False,
        "use_dynamic_ntk": True,
        "use_logn_attn": True,
        "vocab_size": VOCAB,
        **fields,
    }


def chatglm3(**fields):
    return {
        "architectures": ["ChatGLMModel"],
        "model_type": "chatglm",
        "add_bias_linear": False,
        "add_qkv_bias": True,
        "apply_query_key_layer_scaling": True,
        "apply_residual_connection_post_layernorm": False,
        "ffn_hidden_size": 44,
        "fp32_residual_connection": False,
        "hidden_size": 48,
        "kv_channels": 12,
        "layernorm_epsilon": 1e-05,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "num_attention_heads": 4,
        "num_layers": 2,
        "original_rope": True,
        "padded_vocab_size": VOCAB,
        "post_layer_norm": True,
        "rmsnorm": True,
        "seq_length": 128,
        "tie_word_embeddings": False,
        "eos_token_id": 2,
        **fields,
    }


def scaling(rope_type, factor, **fields):
    return {"rope_type": rope_type, "factor": factor, **fields}


CONFIGS = {
    "qwen2-tied": decoder("Qwen2ForCausalLM", "qwen2", tie_word_embeddings=True, rope_theta=1e6),
    "qwen2-yarn": decoder(
        "Qwen2ForCausalLM",
        "qwen2",
        max_position_embeddings=32,
        rope_scaling=scaling("yarn", 4.0, original_max_position_embeddings=32),
    ),
    "llama2-linear": decoder(
        "LlamaForCausalLM",
        "llama",
        num_attention_heads=5,
        num_key_value_heads=5,
        max_position_embeddings=64,
        rope_scaling=scaling("linear", 2.0),
    ),
    "llama3": decoder(
        "LlamaForCausalLM",
        "llama",
        head_dim=16,
        tie_word_embeddings=True,
        rope_theta=500000.0,
        rope_scaling=scaling(
            "llama3",
            8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=TRAINED,
        ),
    ),
    "qwen3-moe": qwen3_moe(norm_topk_prob=True),
    "qwen3-moe-unscaled": qwen3_moe(norm_topk_prob=False, tie_word_embeddings=True),
    "qwen1": qwen1(),
    "qwen1-plain": qwen1(use_dynamic_ntk=False, use_logn_attn=False),
    "chatglm3": chatglm3(),
    "chatglm3-32k": chatglm3(rope_ratio=50),
    "chatglm3-128k": chatglm3(rope_ratio=500),
}


def decoder_shapes(config):
    """(name, shape) of every tensor of a Llama-shaped family."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    dim = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    family = config["model_type"]
    yield "model.embed_tokens.weight", (VOCAB, hidden)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", (hidden,)
        for part, rows in (("q", queries), ("k", keys), ("v", keys)):
            yield name + f"self_attn.{part}_proj.weight", (rows, hidden)
            if family == "qwen2":
                yield name + f"self_attn.{part}_proj.bias", (rows,)
        if family == "qwen3_moe":
            yield name + "self_attn.q_norm.weight", (dim,)
            yield name + "self_attn.k_norm.weight", (dim,)
        yield name + "self_attn.o_proj.weight", (hidden, queries)
        yield name + "post_attention_layernorm.weight", (hidden,)
        prefixes = ["mlp."]
        if family == "qwen3_moe":
            yield name + "mlp.gate.weight", (config["num_experts"], hidden)
            prefixes = [f"mlp.experts.{e}." for e in range(config["num_experts"])]
            inner = config["moe_intermediate_size"]
        for prefix in prefixes:
            yield name + prefix + "gate_proj.weight", (inner, hidden)
            yield name + prefix + "up_proj.weight", (inner, hidden)
            yield name + prefix + "down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (VOCAB, hidden)


def qwen1_shapes(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"] // 2
    yield "transformer.wte.weight", (VOCAB, hidden)
    for layer in range(config["num_hidden_layers"]):
        name = f"transformer.h.{layer}."
        yield name + "ln_1.weight", (hidden,)
        yield name + "attn.c_attn.weight", (3 * hidden, hidden)
        yield name + "attn.c_attn.bias", (3 * hidden,)
        yield name + "attn.c_proj.weight", (hidden, hidden)
        yield name + "ln_2.weight", (hidden,)
        yield name + "mlp.w1.weight", (inner, hidden)
        yield name + "mlp.w2.weight", (inner, hidden)
        yield name + "mlp.c_proj.weight", (hidden, inner)
    yield "transformer.ln_f.weight", (hidden,)
    yield "lm_head.weight", (VOCAB, hidden)


def chatglm3_shapes(config):
    hidden, inner = config["hidden_size"], config["ffn_hidden_size"]
    dim, groups = config["kv_channels"], config["multi_query_group_num"]
    queries = config["num_attention_heads"] * dim
    fused = queries + 2 * groups * dim
    yield "transformer.embedding.word_embeddings.weight", (VOCAB, hidden)
    # Every real checkpoint carries it; nothing reads it.
    yield "transformer.rotary_pos_emb.inv_freq", (dim // 4,)
    for layer in range(config["num_layers"]):
        name = f"transformer.encoder.layers.{layer}."
        yield name + "input_layernorm.weight", (hidden,)
        yield name + "self_attention.query_key_value.weight", (fused, hidden)
        yield name + "self_attention.query_key_value.bias", (fused,)
        yield name + "self_attention.dense.weight", (hidden, queries)
        yield name + "post_attention_layernorm.weight", (hidden,)
        yield name + "mlp.dense_h_to_4h.weight", (2 * inner, hidden)
        yield name + "mlp.dense_4h_to_h.weight", (hidden, inner)
    yield "transformer.encoder.final_layernorm.weight", (hidden,)
    yield "transformer.output_layer.weight", (VOCAB, hidden)


SHAPES = {"qwen": qwen1_shapes, "chatglm": chatglm3_shapes}

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight")
HEADS = ("lm_head.weight", "output_layer.weight")
# The layers' outputs must stand well above the embedding, or a tied model repeats its input.
OUTPUTS = ("o_proj.weight", "down_proj.weight", "c_proj.weight", "dense.weight", "4h_to_h.weight")
LOGIT_SPREAD = 6.0
OUTPUT_GAIN = 8.0


def random_tensor(name, shape, generator):
    values = torch.randn(*shape, generator=generator)
    if name.endswith(".bias"):
        return 0.5 * values
    if len(shape) == 1:
        return 1.0 + 0.3 * values
    gain = 1.0
    if name.endswith(EMBEDDINGS) or name.endswith(HEADS):
        gain = LOGIT_SPREAD
    elif name.endswith(OUTPUTS):
        gain = OUTPUT_GAIN
    return values * (gain / math.sqrt(shape[1]))


def make_tiny_family(directory, name, dtype, seed):
    """Writes config.json and model.safetensors; returns the configuration."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = {**CONFIGS[name], "torch_dtype": CONFIG_DTYPE_NAMES[dtype]}
    write_json(directory / "config.json", config)
    generator = torch.Generator().manual_seed(seed)
    shapes = SHAPES.get(config["model_type"], decoder_shapes)(config)
    tensors = {
        tensor: random_tensor(tensor, shape, generator).to(DTYPES[dtype])
        for tensor, shape in shapes
    }
    save_tensors(directory / "model.safetensors", tensors)
    return config
