"""Gathers what `gpu_check run` needs on another machine."""
import os
import shutil
import subprocess
import tarfile

from settings import DATA, KERNEL_TESTS, MODEL_TESTS, PROGRAMS, SCRIPT

ROOT = os.path.dirname(os.path.dirname(SCRIPT))
# The other machine's own: with an older C++ library of ours in their way, its programs would not start.
SYSTEM_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "linux-vdso", "libstdc++.so",
                    "libgcc_s.so")


def carry_libraries(folder):
    """The shared libraries of everything in `folder`, into its lib/."""
    os.makedirs(os.path.join(folder, "lib"), exist_ok=True)
    files = [os.path.join(folder, name) for name in KERNEL_TESTS + MODEL_TESTS + PROGRAMS + ["libtutti_cuda.so"]]
    found = set()
    for file in filter(os.path.exists, files):
        for line in subprocess.run(["ldd", file], text=True, capture_output=True, check=True).stdout.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and not name.startswith(SYSTEM_LIBRARIES):
                found.add(path.split(" (")[0])
    for path in found:
        shutil.copy2(path, os.path.join(folder, "lib"))


def strip(folder):
    """Takes debugging symbols out of everything that has them; the bytes of the folder then."""
    total = 0
    for place, _, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            with open(path, "rb") as file:
                is_program = file.read(4) == b"\x7fELF"
            if is_program and shutil.which("strip"):
                subprocess.run(["strip", "--strip-unneeded", path], check=False)
            total += os.path.getsize(path)
    return total


def pack(folder, build, archive):
    os.makedirs(folder, exist_ok=True)
    shutil.copy2(os.path.join(build, "bin", "libtutti_cuda.so"), folder)
    for name in KERNEL_TESTS + MODEL_TESTS:
        shutil.copy2(os.path.join(build, "tests", name), folder)
    missing = []
    for name in PROGRAMS:
        program = os.path.join(build, "bin", name)
        if os.path.exists(program):
            shutil.copy2(program, folder)
        else:
            missing.append(name)
    for path in DATA:
        shutil.copytree(os.path.join(ROOT, path), os.path.join(folder, "source", path), dirs_exist_ok=True)
    carry_libraries(folder)
    shutil.copy2(SCRIPT, folder)
    shutil.copytree(SCRIPT + ".d", os.path.join(folder, "gpu_check.d"), dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))
    print(f"packed: {folder}, {strip(folder) / 2**20:.1f} MiB")
    if archive:
        with tarfile.open(archive, "w:xz", preset=3) as file:
            file.add(folder, arcname="")
        print(f"packed: {archive}, {os.path.getsize(archive) / 2**20:.1f} MiB")
    if missing:
        print("not built, so their steps will not run:", ", ".join(missing))
