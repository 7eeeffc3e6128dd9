"""Tiny random checkpoints, as the save_pretrained of today's transformers writes them.

Every family that transformers has, in each configuration that changes what is stored or computed. The lengths at which a
configuration switches are small, so that short prompts cross them.

Requirements (PyPI): torch, transformers, safetensors.
"""

import json
import math
import pathlib

import torch
import transformers

VOCAB = 131
TRAINED = 16  # where scaled rotary embeddings switch
SEED = 1
# As in tools/tiny_families.py: logits spread over several units, and layers that matter beside the embedding.
LOGIT_SPREAD = 6.0
OUTPUT_GAIN = 8.0
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "attn_implementation": "eager",
}


def scaled(rope_type, factor, **fields):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, "factor": factor, **fields}}


def llama(**fields):
    return transformers.LlamaConfig(**{**SIZES, **fields})


def qwen2(**fields):
    return transformers.Qwen2Config(**{**SIZES, **fields})


def qwen3(**fields):
    return transformers.Qwen3Config(**{**SIZES, "head_dim": 8, **fields})


def qwen3_moe(**fields):
    sizes = {"head_dim": 8, "moe_intermediate_size": 20, "num_experts": 5, "num_experts_per_tok": 2}
    return transformers.Qwen3MoeConfig(**{**SIZES, **sizes, "experts_implementation": "eager", **fields})


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": TRAINED}
SHORT = {"max_position_embeddings": TRAINED}
USUAL_HEAD_DIM = 128  # of Qwen3, where a configuration names none

# Name -> configuration. Names are those of the committed goldens too.
CONFIGS = {
    "llama": lambda: llama(),
    "llama-tied": lambda: llama(tie_word_embeddings=True, num_key_value_heads=4),
    "llama-attention-bias": lambda: llama(attention_bias=True),
    "llama-mlp-bias": lambda: llama(mlp_bias=True),
    "llama-biases": lambda: llama(attention_bias=True, mlp_bias=True, num_key_value_heads=1),
    "llama-linear": lambda: llama(**scaled("linear", 2.0)),
    "llama-llama3": lambda: llama(**scaled("llama3", 8.0, **LLAMA3)),
    "llama-yarn": lambda: llama(**scaled("yarn", 4.0, original_max_position_embeddings=2 * TRAINED)),
    "llama-dynamic": lambda: llama(**SHORT, **scaled("dynamic", 4.0)),
    "qwen2": lambda: qwen2(),
    "qwen2-tied": lambda: qwen2(tie_word_embeddings=True),
    "qwen2-dynamic": lambda: qwen2(**SHORT, **scaled("dynamic", 3.5)),
    "qwen3": lambda: qwen3(),
    "qwen3-tied": lambda: qwen3(tie_word_embeddings=True),
    "qwen3-attention-bias": lambda: qwen3(attention_bias=True),
    "qwen3-moe": lambda: qwen3_moe(norm_topk_prob=True),
    "qwen3-moe-step-2": lambda: qwen3_moe(decoder_sparse_step=2, attention_bias=True),
    "qwen3-moe-mlp-only": lambda: qwen3_moe(mlp_only_layers=[1], norm_topk_prob=True),
    "qwen3-moe-mixed": lambda: qwen3_moe(mlp_only_layers=[3], num_hidden_layers=5, decoder_sparse_step=2),
    "qwen3-moe-sharded": lambda: qwen3_moe(norm_topk_prob=True, tie_word_embeddings=True),
    "qwen3-moe-all-dense": lambda: qwen3_moe(mlp_only_layers=[0, 1]),
    # Files as people change them after save_pretrained: see EDITS.
    "llama-yarn-bare": lambda: llama(**SHORT, **scaled("yarn", 4.0)),
    "qwen2-widened": lambda: qwen2(),
    "qwen2-unsaid": lambda: qwen2(),
    "qwen3-narrowed": lambda: qwen3(),
    "qwen3-moe-older-names": lambda: qwen3_moe(norm_topk_prob=True),
    "llama-no-theta": lambda: llama(),
    "llama-no-head-dim": lambda: llama(),
    "llama-older-names": lambda: llama(**scaled("llama3", 8.0, **LLAMA3)),
    "qwen2-older-names": lambda: qwen2(**scaled("yarn", 4.0, original_max_position_embeddings=2 * TRAINED)),
    "qwen3-no-head-dim": lambda: qwen3(head_dim=USUAL_HEAD_DIM),
    "qwen3-no-theta": lambda: qwen3(),
}


def without(config, *names):
    return {name: value for name, value in config.items() if name not in names}


def bare_yarn(config):
    rope = without(config["rope_parameters"], "original_max_position_embeddings")
    return {**config, "rope_parameters": rope}


def older_names(config):
    """What transformers 4 writes."""
    older = without(config, "rope_parameters", "num_local_experts", "dtype")
    rope = config["rope_parameters"]
    experts = config.get("num_experts", config.get("num_local_experts"))
    return {
        **older,
        "rope_theta": rope["rope_theta"],
        "rope_scaling": None if rope["rope_type"] == "default" else without(rope, "rope_theta"),
        **({} if experts is None else {"num_experts": experts}),
        "torch_dtype": config["dtype"],
    }


# Name -> (change of config.json, type of the stored tensors).
EDITS = {
    "llama-yarn-bare": (bare_yarn, torch.float32),
    "qwen2-widened": (lambda config: {**config, "dtype": "float32"}, torch.bfloat16),
    "qwen2-unsaid": (lambda config: without(config, "dtype"), torch.bfloat16),
    "qwen3-narrowed": (lambda config: {**config, "dtype": "bfloat16"}, torch.float32),
    "qwen3-moe-older-names": (older_names, torch.float32),
    "llama-no-theta": (lambda config: without(config, "rope_parameters"), torch.float32),
    "llama-no-head-dim": (lambda config: without(config, "head_dim"), torch.float32),
    "llama-older-names": (older_names, torch.float32),
    "qwen2-older-names": (older_names, torch.float32),
    "qwen3-no-head-dim": (lambda config: without(config, "head_dim"), torch.float32),
    "qwen3-no-theta": (lambda config: without(config, "rope_parameters"), torch.float32),
}


def randomise(model, dtype):
    """Values of our own, biases too, rounded to what is stored: the same for any version of transformers."""
    generator = torch.Generator().manual_seed(SEED)
    for name, tensor in sorted(model.named_parameters(remove_duplicate=True)):
        values = torch.randn(*tensor.shape, generator=generator)
        if name.endswith("bias"):
            values = 0.5 * values
        elif tensor.dim() == 1:
            values = 1.0 + 0.3 * values
        else:
            gain = 1.0
            if "embed_tokens" in name or "lm_head" in name:
                gain = LOGIT_SPREAD
            elif "o_proj" in name or "down_proj" in name:
                gain = OUTPUT_GAIN
            values = values * (gain / math.sqrt(tensor.shape[-1]))
        tensor.data.copy_(values.to(dtype))


def save(directory, name):
    """Writes config.json and model.safetensors."""
    edit, dtype = EDITS.get(name, (None, torch.float32))
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    randomise(model, dtype)
    shards = {"max_shard_size": "20KB"} if name.endswith("-sharded") else {}
    model.to(dtype).save_pretrained(directory, **shards)
    directory = pathlib.Path(directory)
    path = directory / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    if edit is not None:
        config = edit(config)
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


class Reference:
    """What transformers computes from a directory, in the type that it chooses."""

    def __init__(self, directory):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype="auto", attn_implementation="eager", experts_implementation="eager"
        ).eval()
        self.dtype = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[self.model.dtype]

    def widened(self):
        """The same weights, rounded as they are, computed in f32."""
        self.model.to(torch.float32)
        return self

    def _forget(self):
        """Frequencies that grew with the prompt before would be kept."""
        rotary = self.model.model.rotary_emb
        rotary.inv_freq = rotary.original_inv_freq.clone()
        rotary.max_seq_len_cached = rotary.original_max_seq_len

    @torch.no_grad()
    def run(self, prompt, count):
        """(logits of the prompt's last position, `count` greedy tokens, their least margin); token by token behind the
        prompt, as `generate` does: dynamic rotary embeddings make a difference of it."""
        self._forget()
        out = self.model(torch.tensor([prompt]), use_cache=True)
        logits = out.logits[0, -1].float()
        first, ids, margin = logits, [], float("inf")
        while len(ids) < count:
            best = torch.topk(logits, 2)
            margin = min(margin, (best.values[0] - best.values[1]).item())
            ids.append(best.indices[0].item())
            out = self.model(torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True)
            logits = out.logits[0, -1].float()
        return first, ids, margin


def prompt_of(length, attempt=0):
    generator = torch.Generator().manual_seed(SEED * 1000 + length + 100000 * attempt)
    return torch.randint(VOCAB, (length,), generator=generator).tolist()


# On both sides of every switch, and so that outputs cross them.
PROMPT_LENGTHS = (5, TRAINED, TRAINED + 1, 2 * TRAINED + 1)
OUTPUT_TOKENS = 16
# A greedy comparison is fair only when no step is nearly a tie.
LEAST_MARGIN = 5e-3
PROMPTS_TRIED = 50


def fair_runs(reference):
    """A prompt of each length whose greedy path has no near tie: [(prompt, logits, ids, margin)]."""
    runs = []
    for length in PROMPT_LENGTHS:
        for attempt in range(PROMPTS_TRIED):
            prompt = prompt_of(length, attempt)
            logits, ids, margin = reference.run(prompt, OUTPUT_TOKENS)
            if margin >= LEAST_MARGIN:
                break
        else:
            raise SystemExit(f"no prompt of {length} tokens gives a least margin of {LEAST_MARGIN}")
        runs.append((prompt, logits, ids, margin))
    return runs
