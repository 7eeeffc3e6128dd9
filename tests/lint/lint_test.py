#!/usr/bin/env python3
"""Keeps the shape of the tree: layers, cores without gRPC, line length, folder READMEs, no leftovers.

Run by ctest; by hand:  python3 tests/lint/lint_test.py
"""
import os
import re
import subprocess
import sys

ROOT = os.environ.get("TUTTI_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "..", "..")

# Folder -> folders whose headers it may include (itself and "tutti/v1" messages aside).
LAYERS = {
    "base": [],
    "proto": [],
    "kernels": ["base"],
    "model": ["base"],
    "transport": ["base"],
    "worker": ["base", "model", "kernels", "transport"],
    "coordinator": ["base", "model", "transport"],
    # client/plan.cc shows a placement before anything runs: pure arithmetic of these headers.
    # transport/grpc/grpc_runtime.h: the client shares the threads of gRPC with links in one process.
    "client": ["base", "model", "transport/grpc/grpc_runtime.h", "placement/cluster_plan.h",
               "placement/device_map.h", "placement/layout_flags.h", "placement/max_memory.h",
               "placement/placement.h",
               "placement/placement_prediction.h"],
}
MESSAGES_ALLOWED = {"transport", "worker", "coordinator", "client"}

# Files that may see gRPC. Everything else in these folders is core.
GRPC_SHELL = {
    "transport": re.compile(r"^(grpc_|frame_codec|frame_scan|close_frame)"),
    "worker": re.compile(r"^(worker|main|executor|peer_)"),
    "coordinator": re.compile(r"^(main|coordinator|admin_service|generation_service|generate_stream|message_parser)"),
    "client": re.compile(r""),
}

LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX)\b|not implemented", re.IGNORECASE)
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
COLUMNS = 100

problems = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                         capture_output=True, check=True)
    return [path for path in out.stdout.splitlines() if os.path.exists(os.path.join(ROOT, path))]


def is_test(name):
    return name.endswith(("_test.cc", "_fuzz.cc")) or "testing" in name


def check_include(path, folder, name, line, header):
    if header.startswith("tutti/v1/"):
        if folder not in MESSAGES_ALLOWED:
            problem(path, line, f"{folder} may not see messages ({header})")
        if header.endswith(".grpc.pb.h") and not GRPC_SHELL[folder].match(name):
            problem(path, line, f"a core may not see gRPC ({header})")
        return
    if header.startswith(("grpc/", "grpcpp/")):
        shell = GRPC_SHELL.get(folder)
        if (shell is None or not shell.match(name)) and not is_test(name):
            problem(path, line, f"a core may not see gRPC ({header})")
        return
    target = header.split("/")[0]
    if target not in LAYERS or target == folder or is_test(name):
        return
    if target not in LAYERS[folder] and header not in LAYERS[folder]:
        problem(path, line, f"{folder} may not include {header}")


def check_source(path, text):
    parts = path.split("/")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS and "http" not in line:
            problem(path, number, f"{len(line)} columns, the limit is {COLUMNS}")
        if LEFTOVER.search(line):
            problem(path, number, "a marker of unfinished work")
    if parts[0] in LAYERS and len(parts) > 1:
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            check_include(path, parts[0], parts[-1], line, match.group(1))
    if path.endswith(".h") and not text.lstrip().startswith("//"):
        problem(path, 1, "a header begins with what it is for")


def main():
    files = tracked()
    for path in files:
        if path.endswith((".h", ".cc", ".cu", ".proto")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                check_source(path, file.read())
    for folder in LAYERS:
        readme = os.path.join(ROOT, folder, "README.md")
        if not os.path.exists(readme):
            problem(folder, 0, "no README.md")
        elif sum(1 for _ in open(readme, encoding="utf-8")) > 40:
            problem(folder + "/README.md", 41, "longer than 40 lines")
    for text in problems:
        print(text)
    print(f"lint: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
