"""Gathers what `gpu_check run` needs on another machine, and shows that it is what the sources say and that it runs."""
import os
import shutil
import subprocess
import tarfile
import tempfile

import calls
import processes
import settings
from settings import DATA, EMULATED, KERNEL_TESTS, KERNEL_TIMES, MODEL_TESTS, NCCL_TEST, PLUGIN, PROGRAMS, SCRIPT

ROOT = os.path.dirname(os.path.dirname(SCRIPT))
# The other machine's own: with an older C++ library of ours in their way, its programs would not start.
SYSTEM_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "linux-vdso", "libstdc++.so",
                    "libgcc_s.so", "libcupti.so")
# What is packed: the target that makes it, where it lies below the build, and where in the packed folder.
WANTED = [("tutti_cuda", f"bin/{PLUGIN}", PLUGIN), ("kernel_times", f"bin/{KERNEL_TIMES}", KERNEL_TIMES)]
WANTED += [(name, f"tests/{name}", name) for name in KERNEL_TESTS + [settings.CODES_TEST] + MODEL_TESTS + [NCCL_TEST]]
WANTED += [(name, f"bin/{name}", name) for name in PROGRAMS]
WANTED += [("tutti_cuda_emulated_plugin", f"emulated_gpus/{PLUGIN}", f"{EMULATED}/{PLUGIN}"),
           ("tutti_cublaslt_testing", f"emulated_gpus/{settings.EMULATED_CUBLASLT}", f"{EMULATED}/{settings.EMULATED_CUBLASLT}"),
           (settings.EMULATED_NCCL_TEST, f"tests/{settings.EMULATED_NCCL_TEST}", f"{EMULATED}/{settings.EMULATED_NCCL_TEST}")]
# Without these a call shows nothing.
NEEDED = [PLUGIN, *KERNEL_TESTS]
# What a test says that could not open its plug-in, unlike one that finds no GPU (kernels/plugin_loader.cc, plugin_abi.h).
MISMATCHES = ("cannot open plug-in", "both must come from one build", "speaks plug-in version", "has no symbol", f"no {PLUGIN} in")


class Refused(Exception):
    """What is there must not be carried; the text says why."""


def configure(build):
    """Has ninja look whether the build folder is as the CMake files say, as it does before it builds."""
    done = subprocess.run(["ninja", "-C", build, "build.ninja"], text=True, capture_output=True, check=False)
    if done.returncode != 0 and "unknown target" not in done.stderr + done.stdout:
        raise Refused(f"{build} cannot be configured: {(done.stdout + done.stderr)[-1000:]}")


def would_make(build, *arguments):
    """What ninja would do. Its file has another name than the one that it remembers: of its own file it says in a dry run that
    it would be made again, wherever folders are searched for sources, and nothing else."""
    file = os.path.join(os.path.abspath(build), "build.ninja")
    return subprocess.run(["ninja", "-C", build, "-f", file, "-n", *arguments], text=True, capture_output=True, check=False)


def stale(build, wanted):
    """The targets that ninja would make again, each with the reason that it gives."""
    configure(build)
    if would_make(build, *[target for target, _, _ in wanted]).stdout.rstrip().endswith("no work to do."):
        return {}
    found = {}
    for target, _, _ in wanted:
        done = would_make(build, "-d", "explain", target)
        if done.stdout.rstrip().endswith("no work to do."):
            continue
        reasons = [line.partition("explain: ")[2] for line in (done.stderr + done.stdout).splitlines() if "explain: " in line]
        found[target] = reasons[0] if reasons else (done.stderr + done.stdout).strip()[-300:]
    return found


def refuse_stale(build, wanted):
    found = stale(build, wanted)
    if found:
        raise Refused("these are not what the sources would make, so nothing is packed; build them:\n" +
                      "\n".join(f"  {target}: {reason}" for target, reason in found.items()))


def gather(folder, build, wanted):
    for _, source, place in wanted:
        target = os.path.join(folder, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(build, source), target)
    for path in DATA:
        shutil.copytree(os.path.join(ROOT, path), os.path.join(folder, "source", path), dirs_exist_ok=True)
    shutil.copy2(SCRIPT, folder)
    shutil.copytree(SCRIPT + ".d", os.path.join(folder, "gpu_check.d"), dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))


def carry_libraries(folder, wanted):
    """The shared libraries of everything in `folder`, into its lib/."""
    os.makedirs(os.path.join(folder, "lib"), exist_ok=True)
    found = set()
    for _, _, place in wanted:
        done = subprocess.run(["ldd", os.path.join(folder, place)], text=True, capture_output=True, check=False)
        for line in done.stdout.splitlines():
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


def start_one(folder):
    """Starts one of the packed tests with nothing but what was packed: it runs, and its plug-in is of its build."""
    environment = {"PATH": "/usr/bin:/bin", "TUTTI_PLUGIN_DIR": folder, "LD_LIBRARY_PATH": os.path.join(folder, "lib")}
    test = os.path.join(folder, KERNEL_TESTS[0])
    ended = processes.run([test, "--gtest_filter=CudaTest.*"], settings.DEVICE_S, environment)
    said = ended.stdout.partition("Skipped\n")[2].partition("[  SKIPPED ]")[0].strip()
    if ended.why or ended.returncode != 0 or any(word in said for word in MISMATCHES):
        how = ended.why or processes.how(ended.returncode)
        raise Refused(f"a packed test does not run from the packed folder: {how}: {said or ended.text[-1000:]}")
    return said or "it found a GPU"


def tree_bytes():
    """Of the files that travel beside what is carried."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], text=True,
                          capture_output=True, check=False)
    return sum(os.path.getsize(os.path.join(ROOT, name)) for name in done.stdout.split("\0")
               if name and os.path.isfile(os.path.join(ROOT, name)))


def write_archive(folder, path):
    # Programs share most of their code: found again only in a window as long as several of them.
    with tarfile.open(path, "w:xz", preset=9) as file:
        file.add(folder, arcname="")
    size, tree = os.path.getsize(path), tree_bytes()
    print(f"packed: {path}, {size / 2**20:.1f} MiB; the tree has {tree / 2**20:.1f} MiB")
    if size + tree > settings.CARRIED_MAX:
        raise Refused(f"the archive and the tree have {(size + tree) / 2**20:.1f} MiB, more than {settings.CARRIED_MAX >> 20}")


def rehearse(archive):
    """Both calls, from the archive as it would be carried, on the CPU and on the emulated GPU."""
    for call in ("first", "second"):
        for place in ("cpu", EMULATED):
            with tempfile.TemporaryDirectory(prefix="gpu_check_rehearsal_") as out:
                print(f"rehearsal of the {call} call, {place}:", flush=True)
                if calls.run(archive, out, call, minutes=20, rehearse=place) != 0:
                    raise Refused(f"the rehearsal of the {call} call failed ({place})")


def pack(folder, build, archive, rehearsed=True):
    """The exit status."""
    wanted = [one for one in WANTED if os.path.exists(os.path.join(build, one[1]))]
    missing = [place for target, path, place in WANTED if (target, path, place) not in wanted]
    try:
        if any(place in missing for place in NEEDED):
            raise Refused("not built: " + ", ".join(place for place in missing if place in NEEDED))
        refuse_stale(build, wanted)
        gather(folder, build, wanted)
        carry_libraries(folder, wanted)
        print(f"packed: {folder}, {strip(folder) / 2**20:.1f} MiB")
        if missing:
            print("not built, so their steps will not run:", ", ".join(missing))
        print("a packed test, started by itself:", start_one(folder))
        if archive:
            # Under its own name only when it is good.
            write_archive(folder, archive + ".new")
            if rehearsed:
                rehearse(archive + ".new")
            os.replace(archive + ".new", archive)
            print(f"packed: {archive}" + ("" if rehearsed else ", not rehearsed"))
    except Refused as reason:
        print(f"gpu_check pack: {reason}")
        return 1
    return 0
