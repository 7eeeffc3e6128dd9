"""The shape of the demo model, its first weights, and the optimizer for its matrices.

Requirements (PyPI): torch, transformers.
"""

import math

import torch
import transformers

import qwen_tokenizer

# Heads, KV heads and the intermediate size divide by 4 and by 8 leaves; queries are wider than
# hidden.
HIDDEN = 128
LAYERS = 4
HEADS = 8
KV_HEADS = 4
HEAD_DIM = 32
INTERMEDIATE = 384
CONTEXT = 2048
ROPE_THETA = 10000.0
VOCAB_MULTIPLE = 32


def config_json(tokenizer):
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": tokenizer.special[qwen_tokenizer.END_OF_TEXT],
        "eos_token_id": tokenizer.end,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": CONTEXT,
        "max_window_layers": LAYERS,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": ROPE_THETA,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": -(-tokenizer.size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE,
    }


def new_model(tokenizer):
    config = transformers.Qwen3Config(**config_json(tokenizer))
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    model = transformers.Qwen3ForCausalLM(config).float()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "embed" not in name:
            torch.nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[1]))
            if "o_proj" in name or "down_proj" in name:
                parameter.data *= 0.1
    return model


class Muon(torch.optim.Optimizer):
    """Momentum whose step is made orthogonal by five Newton-Schulz rounds; for matrices only."""

    def __init__(self, parameters, lr, momentum=0.95, decay=0.01):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                moment = state["momentum"]
                moment.lerp_(parameter.grad, 1 - group["momentum"])
                update = orthogonal(parameter.grad.lerp(moment, group["momentum"]))
                scale = math.sqrt(max(1, parameter.shape[0] / parameter.shape[1]))
                parameter.mul_(1 - group["lr"] * group["decay"])
                parameter.add_(update, alpha=-group["lr"] * scale)


def orthogonal(matrix):
    """About U V^T for matrix = U S V^T. The coefficients grow small singular values fastest."""
    x = matrix / (matrix.norm() + 1e-7)
    flipped = x.shape[0] > x.shape[1]
    x = x.T if flipped else x
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if flipped else x
