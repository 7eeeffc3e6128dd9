#!/usr/bin/env python3
"""Lets clients from the Python package index talk to a gateway, each unchanged and in a virtual environment of its own.

    tests/clients/run.py             the light ones
    tests/clients/run.py --all       all
    tests/clients/run.py NAME...     these, such as suites

The last line is "N passed, N failed"; exit status 0 if none failed, 1 if some did, 77 if no client could be installed.
"""
import argparse
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from harness import BINARIES, Cluster, clean_environment, wait_until  # noqa: E402
from http_client import Gateway  # noqa: E402

# Tests of others themselves: of openai-python, llama.cpp and vLLM.
SUITES = ["openai[aiohttp]==3.54.0", "anthropic==2.14.0", "pytest==8.4.2", "pytest-asyncio==1.2.0", "rich==15.0.0", "filelock==4.3.1",
          "wget==3.2", "requests==2.34.2", "grpcio-tools==1.85.1", "jsonschema==4.26.0", "regex==2026.11.19", "fastapi==0.165.0", "httpx==0.28.1",
          "pybase64==1.5.1", "numpy==2.4.6"]
# (name, what pip installs, script, whether it is light)
CLIENTS = [("openai", ["openai==3.54.0"], "openai_checks.py", True),
           ("openai", ["openai==3.54.0"], "structured_checks.py", True),
           ("langchain", ["langchain-openai==1.7.4"], "langchain_checks.py", True),
           ("instructor", ["instructor==1.17.0"], "instructor_checks.py", True),
           ("anthropic", ["anthropic==2.14.0"], "anthropic_checks.py", True),
           ("litellm", ["litellm==1.110.2"], "litellm_checks.py", True),
           ("prometheus-client", ["prometheus-client==0.26.0"], "prometheus_checks.py", True),
           ("locust", ["locust==2.47.0"], "locust_checks.py", True),
           ("vllm", ["aiohttp", "regex", "tqdm"], "vllm_checks.py", True),
           ("tritonclient", ["tritonclient[grpc]==2.73.0"], "triton_checks.py", True),
           ("grpcio-tools", ["grpcio-tools==1.85.1"], "engine_checks.py", True),
           ("lm-eval", ["lm-eval[api]==0.4.13", "transformers==5.19.0"], "lm_eval_checks.py", False),
           ("suites", SUITES, "openai_suite.py", False),
           ("suites", SUITES, "llama_suite.py", False),
           ("suites", SUITES, "vllm_suite.py", False),
           ("suites", SUITES, "vllm_served_suite.py", False),
           ("aiperf", ["aiperf==0.13.0"], "aiperf_checks.py", False)]
# Names that tests of others ask for.
NAMES = ",".join(["demo", "gpt-6-astra", "gpt-3.5-turbo-instruct", "model", "test", "codellama70b", "gpt-3.5-turbo", "gpt-4.1", "davinci-002",
                  "Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2-1.5B-Instruct", "Qwen/Qwen3-8B",
                  "HuggingFaceH4/zephyr-7b-beta", "HuggingFaceTB/SmolLM2-135M-Instruct", "claude-3-7-sonnet-latest"])
# Of these one module is taken, without what the package needs: (package, its file).
MODULES = {"vllm": ("vllm==0.33.0", "vllm/benchmarks/lib/endpoint_request_func.py")}
INSTALL_S = 300
MODULE_S = 60
CHECKS_S = 240
SUITE_S = 1800
SKIPPED = 77


def install(name, packages):
    """The Python of an environment with the packages; None where they cannot be had."""
    folder = os.path.join(os.path.dirname(os.path.abspath(BINARIES)), "clients", name)
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "installed-" + hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16])
    if os.path.exists(done):
        return python
    for command in ([sys.executable, "-m", "venv", "--clear", folder],
                    [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]):
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"clients: {name} skipped: {error}")
            return None
        if run.returncode != 0:
            said = (run.stderr or run.stdout).strip().splitlines() or ["no reason given"]
            print(f"clients: {name} skipped: {' '.join(command[1:4])} failed: {said[-1]}")
            return None
    if name in MODULES and not take_module(python, folder, *MODULES[name]):
        print(f"clients: {name} skipped: {MODULES[name][0]} could not be had within {MODULE_S} s")
        return None
    with open(done, "w", encoding="utf-8"):
        return python


def take_module(python, folder, package, member):
    """Puts one file of a package's wheel into the folder."""
    with tempfile.TemporaryDirectory(prefix="tutti-wheel-") as aside:
        command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary", ":all:", "--dest", aside, package]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=MODULE_S, check=False)
        except subprocess.TimeoutExpired:
            return False
        wheels = glob.glob(os.path.join(aside, "*.whl"))
        if run.returncode != 0 or not wheels:
            return False
        with zipfile.ZipFile(wheels[0]) as wheel, open(os.path.join(folder, os.path.basename(member)), "wb") as file:
            file.write(wheel.read(member))
    return True


def start_gateway(cluster):
    """(process, its addresses for gRPC and for HTTP) of a gateway that speaks gRPC and looks for calls of functions."""
    ready = os.path.join(cluster.dir.name, "grpc.json")
    process = subprocess.Popen([os.path.join(BINARIES, "tutti-gateway"), "--coordinator", cluster.address, "--listen",
                                "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--tool-parser", "hermes", "--ready-file",
                                ready],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    wait_until(lambda: os.path.exists(ready), "the gateway for gRPC listens")
    with open(ready, encoding="utf-8") as file:
        said = json.load(file)
    return process, said["grpc"], said["address"]


def check(name, python, script, address, grpc, caller, core):
    """(passed, failed) of a client's checks; `caller`: the gateway that looks for calls, `core`: the coordinator."""
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    run = subprocess.run([python, os.path.join(HERE, script), f"http://{address}/v1", grpc, f"http://{caller}/v1", core,
                          os.path.join(BINARIES, "tutti-gateway")], capture_output=True, text=True,
                         timeout=SUITE_S if script.endswith("_suite.py") else CHECKS_S, env=environment, check=False)
    lines = run.stdout.splitlines()
    for line in lines:
        print(f"{name}: {line}")
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("FAILED ") for line in lines)
    if run.returncode != 0 and failed == 0:
        print(f"{name}: FAILED to run: {run.stderr.strip()}")
        failed = 1
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the heavy ones too")
    parser.add_argument("names", nargs="*", choices=[[], *{client[0] for client in CLIENTS}], help="these alone")
    wanted = parser.parse_args()
    ready = []
    for name, packages, script, light in CLIENTS:
        if name in wanted.names if wanted.names else light or wanted.all:
            python = install(name, packages)
            if python is not None:
                ready.append((name, python, script))
    if not ready:
        print("clients: SKIPPED, because no client could be installed; is there a network?\n0 passed, 0 failed")
        return SKIPPED
    cluster = Cluster("--http", "127.0.0.1:0", "--served-model-name", NAMES)
    passed = failed = 0
    gateway = None
    try:
        gateway, grpc, caller = start_gateway(cluster)
        wait_until(lambda: Gateway(cluster.http).get("/health").status == 200, "the gateway is healthy")
        for client in ready:
            good, bad = check(*client, cluster.http, grpc, caller, cluster.address)
            passed, failed = passed + good, failed + bad
    finally:
        if gateway is not None:
            gateway.kill()
            gateway.wait()
        cluster.cleanup()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
