"""A packed folder of programs that do as they are told, for tests of tools/gpu_check."""
import json
import os
import stat
import sys

# A program of tests in gtest's words. TESTS: name and what it does.
GTEST = """#!{python} -S
import os, signal, sys, time
TESTS = {tests}
said = [a.partition("=")[2] for a in sys.argv if a.startswith("--gtest_filter=")]
wanted, _, without = (said[0] if said else "*").partition("-")
names = [name for name in TESTS if name not in without.split(":")]
if wanted.startswith("CudaTest"):
    names = [name for name in names if name.startswith("CudaTest")]
print("[==========] Running", len(names), "tests.", flush=True)
failed = 0
for name in names:
    print("[ RUN      ]", name, flush=True)
    act = TESTS[name]
    if act == "hang":
        time.sleep(600)
    if act == "crash":
        os.kill(os.getpid(), signal.SIGABRT)
    if act.startswith("skip"):
        print("x_test.cc:1: Skipped\\n" + act[5:] + "\\n")
    word = dict(ok="       OK", fail="  FAILED ").get(act, "  SKIPPED")
    failed += act == "fail"
    print("[" + word + " ] " + name + (", where GetParam() = 1" if act == "fail" else "") + " (1 ms)", flush=True)
print("[==========]", len(names), "tests from 1 test suite ran. (1 ms total)")
for name in names:
    if TESTS[name] == "fail":
        print("[  FAILED  ]", name)
sys.exit(1 if failed else 0)
"""

# Ends after two lines unless wgmma is switched off.
PRODUCTS = """#!{python} -S
import json, os, sys
print(json.dumps(dict(remark="many rows are multiplied by wgmma", **{{"class": "cuda-sm90"}})), flush=True)
row = dict(product="qkv", weights="bf16", out=6, k=4, leaves=1, rows=1, microseconds=2.0, flops_per_second=1e12, bytes_per_second=2e12)
print(json.dumps(row), flush=True)
if os.environ.get("TUTTI_WGMMA") != "off":
    os.abort()
print(json.dumps(dict(row, rows=2048)), flush=True)
"""

# A load of 7 prompt tokens ends it, one of 9 is never done.
BENCH = """#!{python} -S
import json, os, sys, time
for load in [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--load"]:
    prompt, batch, output, temperature = map(float, load.split(","))
    if prompt == 7:
        os.abort()
    if prompt == 9:
        time.sleep(600)
    print(json.dumps(dict(prompt_tokens=int(prompt), batch=int(batch), temperature=temperature, cuda_graphs="--cuda-graphs" not in sys.argv,
                          cuda_early_kernels="--cuda-early-kernels" not in sys.argv, kernels=10, kernels_by_graphs=9, graph_bytes=0,
                          prefill_tokens_per_second=100.0, prefill_flops_per_second=5e14, decode_tokens_per_second=10.0 * batch,
                          weight_bytes_per_step=2e11, kv_bytes_per_step=prompt * 1e7, load_seconds=1.0)), flush=True)
"""

# A cluster as far as it is asked: two workers share the one GPU only when they are told to.
TUTTI = """#!{python} -S
import json, os, shlex, subprocess, sys
words = sys.argv[1:]
def flag(name):
    return words[words.index(name) + 1]
if words[0] == "up":
    if flag("--workers") != "1" and "--share-devices" not in words:
        sys.exit("--device cuda:0 is one GPU: --share-devices has workers share it")
    if "off" in words[words.index("--cuda-graphs"):][:2] if "--cuda-graphs" in words else False:
        os.environ["OTHER_VOICE"] = "1"
    sys.exit(subprocess.run(shlex.split(flag("--exec")), check=False).returncode)
if words[0] == "generate":
    first = int(flag("--token-ids").split(",")[0]) + int(os.environ.get("OTHER_VOICE", "0"))
    print(json.dumps(dict(tokens=[dict(id=first, logprob=-1.5)])))
if words[0] == "status":
    print(json.dumps(dict(pipelines=[])))
"""

MODEL = """#!{python} -S
import os, sys
os.makedirs(sys.argv[sys.argv.index("--output") + 1], exist_ok=True)
"""


def write(path, text, **values):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.format(python=sys.executable, **values))
    os.chmod(path, stat.S_IRWXU)


def gtest(folder, name, **tests):
    """`tests`: Suite_Test="ok", "fail", "crash", "hang" or "skip why"."""
    write(os.path.join(folder, name), GTEST, tests=json.dumps({key.replace("_", ".", 1): act for key, act in tests.items()}))


def packed(folder, device="ok"):
    """All programs, well but for what tests replace."""
    for name in ("kernels_conformance_test", "kernels_matmul_test", "kernels_attention_test", "kernels_quantised_test",
                 "golden_test", "graphs_test", "one_voice_test", "plan_proof_test", "kernels_cuda_nccl_machine_test"):
        gtest(folder, name, CudaTest_Opens=device, Suite_First="ok", Suite_Second="ok")
    write(os.path.join(folder, "products_bench"), PRODUCTS)
    write(os.path.join(folder, "tutti-bench"), BENCH)
    write(os.path.join(folder, "tutti"), TUTTI)
    write(os.path.join(folder, "make_random_model"), MODEL)
    write(os.path.join(folder, "tutti-worker"), "#!{python}\nprint('0.1.0-fake')\n")
    return folder
