"""Programs, models, loads, goals and limits of gpu_check, and the order of its steps."""
import os

# The script itself, which starts itself once more inside clusters and for PyTorch.
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu_check")

PROGRAMS = ["tutti", "tutti-coordinator", "tutti-worker", "tutti-bench", "products_bench", "attention_bench", "make_random_model"]
PLUGIN = "libtutti_cuda.so"
# Records kernels for the step `profile`; built where CUPTI's header is found.
KERNEL_TIMES = "libkernel_times.so"
KERNEL_TESTS = ["kernels_conformance_test", "kernels_matmul_test", "kernels_attention_test"]
CODES_TEST = "kernels_quantised_test"
MODEL_TESTS = ["golden_test", "graphs_test", "one_voice_test", "plan_proof_test"]
NCCL_TEST = "kernels_cuda_nccl_machine_test"
# Of a rehearsal on the emulated GPU: a plug-in in a folder of its own, and the test that cannot do with that.
EMULATED = "emulated"
EMULATED_NCCL_TEST = "kernels_cuda_emulated_nccl_machine_test"
EMULATED_CUBLASLT = "libtutti_cublaslt_testing.so"
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

# Makes a few tokens as likely at the temperature 0.7 as trained models do; at 3 all are nearly alike again.
HEAD_SCALE = 4
# The loads measured: prompt tokens, sequences, output tokens, temperature. The first is the one that others are beside.
LOADS = [(64, 1, 128, 0), (256, 8, 64, 0), (256, 64, 64, 0), (2048, 1, 16, 0), (8192, 1, 64, 0), (64, 1, 128, 0.7), (64, 1, 128, 3)]
# Those whose kernels are counted: 64 rows, as a decode step of so many sequences has them, and a long prompt.
COUNTED = [(64, 1, 2), (2048, 1, 2)]
# Rows of the products measured.
FEW_ROWS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256]
MANY_ROWS = [2048, 8192]
# Products with codes: rows, as of so many streams, and which codes.
CODES_ROWS = [1, 8, 64]
CODES = ["int4", "fp8"]
# What a cluster makes codes of while it loads.
CODES_SCHEME = "int4-g128"
TINY_CODES_SCHEME = "int4-g32"

# What is wanted of the speeds: of what memory was measured to give, by sequences of a short prompt; of the matrix rate, of a
# prompt; and by how much a step at depth, or of drawn tokens, may take longer than its bytes say.
GOAL_DECODE = {1: 0.85, 8: 0.80, 64: 0.70}
GOAL_PROMPT_TOKENS, GOAL_PROMPT = 2048, 0.65
GOAL_DEPTH, GOAL_BESIDE_BYTES = 8192, 1.05
# Above it no model is asked for tokens: what such a row costs is told, and not judged.
GOAL_TEMPERATURE_MAX = 1
# Rows whose products only read weights: as one stream's.
GOAL_PRODUCT_ROWS = 8

# Prompts that clusters are asked at once.
VOICES = 64

# Rows of one step from which on the class of cuBLASLt asks the library; and by how much the log-probability of a first token
# may differ from the exact class's, of its own size.
LIBRARY_ROWS = 128
NEAR = 2e-2

# Of a rehearsal.
TINY = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, vocab_size=2048, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True)
TINY_COUNTED = [(16, 1, 2)]
TINY_LOADS = [(16, 1, 4, 0), (32, 2, 4, 0), (40, 1, 4, 0), (16, 1, 4, 0.7)]
TINY_PRODUCTS = ["--hidden", "64", "--ffn", "96", "--heads", "4", "--kv-heads", "2", "--head-dim", "16",
                 "--vocabulary", "128", "--repeat", "1"]
TINY_ROWS = [1, 4, 130]
# A GPU of fibers is slow: one test of so many is run on it, and none on the CPU.
REHEARSED_SHARDS = 25

# The steps by news for each minute. Those that a call has no time for are in the other one.
CALLS = {
    "first": ["device", "facts", "products", "conformance", "golden", "codes", "graphs", "nccl", "ceilings", "bench_ours",
              "one_voice_steps", "plan_proof", "profile", "one_voice"],
    "second": ["device", "facts", "against_pytorch", "ceilings", "bench_ours", "switches", "cublas_class", "price_of_one_voice",
               "counters", "bench_transformers", "sanitizer"],
    # Figures by kernel are what cannot be had elsewhere.
    "last": ["device", "facts", "ceilings", "bench_ours", "profile"],
}
STEPS = list(dict.fromkeys(step for steps in CALLS.values() for step in steps))
# Steps that need a checkpoint, and which.
MODELS = {"one_voice": "0.6b", "codes": "0.6b", "against_pytorch": "0.6b", "profile": "8b", "bench_ours": "8b", "switches": "8b",
          "cublas_class": "0.6b", "counters": "8b", "bench_transformers": "8b"}
# Steps that need PyTorch, which is imported beside the steps before.
TORCH_STEPS = ["against_pytorch", "ceilings", "price_of_one_voice", "bench_transformers"]

# Seconds. Half a minute less than the five that a command of a loan has beside its start.
MINUTES = 4.5
# The driver answers within these, or does not.
DEVICE_S = 40
# A test that has said nothing for so long hangs: its kernels take milliseconds, what it compares them with some seconds. A
# bench, which brings a model to the GPU first, has twice as long.
QUIET_S = 30
QUIET_REHEARSED_S = 200
# A GPU of fibers, on a processor with other work, takes so many times the seconds of each limit.
PATIENCE_REHEARSED = 5
# After SIGKILL. A process in state D, in a call of the driver's that does not return, is left behind.
END_S = 8
# Tests of one program that may end or hang it before it is given up.
CULPRITS_MAX = 4
# Of what is left of a call nothing more can be expected.
TOO_LATE_S = 5

# Bytes that travel to the other machine: the tree and what it carries.
CARRIED_MAX = 60 << 20

# Characters of the summary: only the end of an output may come back.
SUMMARY_MAX = 7000
