#!/usr/bin/env python3
"""Both images, built by a container engine from this build's packages, and the manifests' pods as containers of them.

    containers_test.py      exits with 77 where no engine runs, or the base image is not there

By hand, for a base image without a registry (as root):

    debootstrap --variant=minbase bookworm root && tar -C root -c . | podman import - debian:12-slim
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "deploy", "k8s", "rehearse.d"))
from engine import settings, why_not  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TUTTI_BINARY_DIR") or os.path.join(SOURCE, "build", "release"))
SKIPPED = 77
BASE = "debian:12-slim"
QUESTION = ("up", "--model", "/model", "--workers", "2", "--threads-per-worker", "1", "--http", "off", "--listen", "127.0.0.1:0", "--exec",
            'tutti chat --message "What is 12 + 30?" --temperature 0')


def run(*command, **options):
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"FAILED {' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout.strip(), time.monotonic() - began


def make_packages(folder):
    """The images that they are for."""
    components = ["client", "server"]
    if os.path.exists(os.path.join(BUILD, "bin", "libtutti_cuda.so")):
        components.append("cuda")
    run("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", folder, "-D", "CPACK_COMPONENTS_ALL=" + ";".join(components),
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
    return ["cpu", "cuda"][:len(components) - 1]


def serve(image, environment):
    """A read-only container without capabilities answers."""
    said, took = run("podman", "run", "--rm", "--read-only", "--user", "65532:65532", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
                     "--network", "none", "--volume", os.path.join(SOURCE, "models", "demo") + ":/model:ro", "--tmpfs", "/tmp:mode=1777",
                     image, *QUESTION, env=environment)
    if said != "42":
        raise SystemExit(f"FAILED {image} says {said}")
    return took


def main():
    if why := why_not(BASE):
        print(f"SKIPPED: {why}")
        return SKIPPED
    if os.geteuid() != 0:
        print("SKIPPED: needs root")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="tutti-containers-") as folder:
        environment = settings(folder)
        environment["REVISION"] = run(os.path.join(BUILD, "bin", "tutti"), "--version")[0].partition("-")[2]
        for target in make_packages(folder):
            image = {"cpu": "tutti", "cuda": "tutti-cuda"}[target]
            _, took = run(os.path.join(SOURCE, "tools", "image"), target, folder, env={**environment, "ENGINE": "podman"})
            size = int(run("podman", "image", "inspect", "--format", "{{.Size}}", image, env=environment)[0])
            print(f"{image}: built in {took:.0f} s, {size / 1e6:.0f} MB, answers {serve(image, environment):.1f} s after its start", flush=True)
    return subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "deploy", "k8s", "rehearse"), "--short", "--containers"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
