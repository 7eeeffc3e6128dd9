"""The original Qwen and ChatGLM3 as plain PyTorch functions over a checkpoint's tensors.

HuggingFace transformers does not have these two: their code was published beside the weights. This
is an independent implementation by description, for goldens; it shares nothing with ours.

Sources of the descriptions:
  Qwen      modeling_qwen.py of Qwen/Qwen-7B-Chat on huggingface.co: the fused c_attn, the MLP
            c_proj(w1(x) * silu(w2(x))), `get_ntk_alpha` (the prompt's length decides, later tokens
            keep it), `logn_tensor`.
  ChatGLM3  modeling_chatglm.py of THUDM/chatglm3-6b and chatglm3-6b-128k: fused query_key_value with
            KV groups, `apply_rotary_pos_emb` on neighbouring pairs of the first half of a head,
            base 10000 * rope_ratio, swiglu over the halves of dense_h_to_4h.

Weights and activations have the dtype asked for; norms, softmax and rotary embedding are computed in
f32 and rounded to it, as the published code does.

Requirements (PyPI): torch, safetensors.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import load_file


def rms_norm(x, weight, epsilon):
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return normed.to(x.dtype) * weight


def causal_attention(q, k, v):
    """q [rows, heads, dim], k and v [rows, kv heads, dim]; every row sees itself and those before."""
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
    rows = q.shape[0]
    later = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.float().masked_fill(later, float("-inf")), -1).to(q.dtype)
    return torch.einsum("hqk,khd->qhd", weights, v).reshape(rows, -1)


class Model:
    """Everything is computed anew for every call: no cache that could be wrong."""

    def __init__(self, directory, dtype):
        directory = pathlib.Path(directory)
        self.config = json.loads((directory / "config.json").read_text())
        tensors = load_file(directory / "model.safetensors")
        self.weights = {name: tensor.to(dtype) for name, tensor in tensors.items()}

    def linear(self, x, name):
        return torch.nn.functional.linear(
            x, self.weights[name + ".weight"], self.weights.get(name + ".bias")
        )

    @torch.no_grad()
    def logits(self, ids, prompt_length):
        """[vocab] f32, of the last of `ids`, whose first `prompt_length` are the prompt."""
        return self.forward(torch.tensor(ids), prompt_length)[-1].float()


class Qwen(Model):
    def rotate(self, x, alpha):
        dim = x.shape[-1]
        base = self.config["rotary_emb_base"] * alpha ** (dim / (dim - 2))
        inverse = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        angles = torch.outer(torch.arange(x.shape[0]).float(), inverse)[:, None, :]
        cosine, sine = angles.cos(), angles.sin()
        first, second = x.float().chunk(2, dim=-1)
        turned = (first * cosine - second * sine, second * cosine + first * sine)
        return torch.cat(turned, -1).to(x.dtype)

    def forward(self, ids, prompt_length):
        config = self.config
        trained = config["seq_length"]
        alpha = 1
        if config["use_dynamic_ntk"]:
            alpha = max(2 ** math.ceil(math.log2(prompt_length / trained) + 1) - 1, 1)
        heads, dim = config["num_attention_heads"], config["kv_channels"]
        epsilon = config["layer_norm_epsilon"]
        x = self.weights["transformer.wte.weight"][ids]
        for layer in range(config["num_hidden_layers"]):
            name = f"transformer.h.{layer}."
            h = rms_norm(x, self.weights[name + "ln_1.weight"], epsilon)
            qkv = self.linear(h, name + "attn.c_attn").reshape(len(ids), 3, heads, dim)
            q, k, v = qkv.unbind(1)
            q, k = self.rotate(q, alpha), self.rotate(k, alpha)
            if config["use_logn_attn"]:
                scale = [max(math.log(i, trained), 1.0) for i in range(1, len(ids) + 1)]
                q = q * torch.tensor(scale).to(q.dtype)[:, None, None]
            x = x + self.linear(causal_attention(q, k, v), name + "attn.c_proj")
            h = rms_norm(x, self.weights[name + "ln_2.weight"], epsilon)
            gate = torch.nn.functional.silu(self.linear(h, name + "mlp.w2"))
            x = x + self.linear(self.linear(h, name + "mlp.w1") * gate, name + "mlp.c_proj")
        x = rms_norm(x, self.weights["transformer.ln_f.weight"], epsilon)
        return self.linear(x, "lm_head")


class ChatGlm3(Model):
    def rotate(self, x):
        turning = x.shape[-1] // 2
        base = 10000 * self.config.get("rope_ratio", 1)
        inverse = 1.0 / (base ** (torch.arange(0, turning, 2).float() / turning))
        angles = torch.outer(torch.arange(x.shape[0]).float(), inverse)[:, None, :]
        cosine, sine = angles.cos(), angles.sin()
        if x.dtype != torch.float32:
            cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
        pairs = x[..., :turning].reshape(*x.shape[:-1], turning // 2, 2)
        even, odd = pairs[..., 0], pairs[..., 1]
        turned = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
        return torch.cat([turned.flatten(-2), x[..., turning:]], -1)

    def forward(self, ids, prompt_length):
        config = self.config
        heads, groups = config["num_attention_heads"], config["multi_query_group_num"]
        dim, epsilon = config["kv_channels"], config["layernorm_epsilon"]
        x = self.weights["transformer.embedding.word_embeddings.weight"][ids]
        for layer in range(config["num_layers"]):
            name = f"transformer.encoder.layers.{layer}."
            h = rms_norm(x, self.weights[name + "input_layernorm.weight"], epsilon)
            fused = self.linear(h, name + "self_attention.query_key_value")
            q, k, v = fused.split([heads * dim, groups * dim, groups * dim], dim=-1)
            q = self.rotate(q.reshape(len(ids), heads, dim))
            k = self.rotate(k.reshape(len(ids), groups, dim))
            v = v.reshape(len(ids), groups, dim)
            x = x + self.linear(causal_attention(q, k, v), name + "self_attention.dense")
            h = rms_norm(x, self.weights[name + "post_attention_layernorm.weight"], epsilon)
            gate, up = self.linear(h, name + "mlp.dense_h_to_4h").chunk(2, dim=-1)
            x = x + self.linear(torch.nn.functional.silu(gate) * up, name + "mlp.dense_4h_to_h")
        x = rms_norm(x, self.weights["transformer.encoder.final_layernorm.weight"], epsilon)
        return self.linear(x, "transformer.output_layer")


BY_ARCHITECTURE = {"QWenLMHeadModel": Qwen, "ChatGLMModel": ChatGlm3}
