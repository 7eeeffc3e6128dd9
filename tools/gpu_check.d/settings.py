"""Programs, models and loads of gpu_check, and the order of its steps."""
import os

# The script itself, which starts itself once more inside clusters and for PyTorch.
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu_check")

PROGRAMS = ["tutti", "tutti-coordinator", "tutti-worker", "tutti-bench", "products_bench", "make_random_model"]
KERNEL_TESTS = ["kernels_conformance_test", "kernels_matmul_test", "kernels_attention_test"]
MODEL_TESTS = ["golden_test", "graphs_test", "one_voice_test", "plan_proof_test"]
# The data of the model tests, below TUTTI_SOURCE_DIR.
DATA = ["tests/golden", "models/demo"]

# The shapes of Qwen3-0.6B and Qwen3-8B; the weights are random.
SHAPES = {
    "0.6b": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                 num_key_value_heads=8, tie_word_embeddings=True),
    "8b": dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32,
               num_key_value_heads=8, tie_word_embeddings=False),
}
COMMON = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", head_dim=128, vocab_size=151936,
              max_position_embeddings=40960, rms_norm_eps=1e-6, rope_theta=1000000.0, hidden_act="silu",
              attention_bias=False, torch_dtype="bfloat16", bos_token_id=151643, eos_token_id=151645)

# The loads measured: prompt tokens, batch, output tokens.
LOADS = [(64, 1, 128), (1024, 64, 64), (2048, 1, 16), (8192, 1, 16)]

# Rows of one step from which on the class of cuBLASLt asks the library; and by how much the log-probability of a first token
# may differ from the exact class's, of its own size.
LIBRARY_ROWS = 128
NEAR = 2e-2

# Of --rehearse.
TINY = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, tie_word_embeddings=True)
TINY_LOADS = [(16, 1, 4), (32, 2, 4)]


# Steps that decide first, steps that only measure last.
STEPS = ["device", "facts", "conformance", "golden", "graphs", "one_voice_steps", "plan_proof", "one_voice", "against_pytorch",
         "ceilings", "products", "bench_ours", "cublas_class", "price_of_one_voice", "profile", "sanitizer", "bench_transformers"]
# Steps that need a checkpoint, and which.
MODELS = {"one_voice": "0.6b", "against_pytorch": "0.6b", "profile": "0.6b", "bench_ours": "8b", "cublas_class": "0.6b",
          "bench_transformers": "8b"}
