"""Rules: a folder includes only folders below it, only shells see gRPC, and a protocol of the
gateway is known to itself alone.

Folders, not file names, say what a file may see. Tests, benchmarks and tools may include anything;
nothing of the product includes them. The table of folders in docs/ARCHITECTURE.md says the same, and
so do the lines "May include: ..." of the folders' READMEs.
"""
import os
import re

from tree import Problem

# Folder -> the folders whose headers it may include, besides its own.
LAYERS = {
    "base": [],
    "program": ["base"],
    "proto": ["base"],
    "metrics": ["base"],
    "kernels": ["base", "program"],
    "text": ["base"],
    "grammar": ["base"],
    "transport": ["base", "proto"],
    "model": ["base", "program", "kernels", "text"],
    "quant": ["base", "kernels", "text", "model"],
    "placement": ["base", "kernels", "model"],
    "door": ["base", "program", "proto", "metrics", "text", "transport"],
    "coordinator": ["base", "program", "proto", "metrics", "text", "grammar", "model", "transport",
                    "placement", "door"],
    "worker": ["base", "program", "proto", "metrics", "kernels", "grammar", "model", "quant", "transport"],
    "client": ["base", "program", "proto", "kernels", "model", "quant", "transport", "placement"],
    "gateway": ["base", "program", "proto", "metrics", "transport", "door", "client"],
}
# Folders of the tree that are no part of the product and may include all of it.
AROUND = ["bench", "tools", "tests"]
# The shells: folders, with all below them, that may see gRPC. All else of the product is core.
SHELLS = ["transport/grpc", "door/grpc", "coordinator/service", "worker/service", "client",
          "gateway/service", "gateway/grpc", "gateway/openai/service", "gateway/kserve/grpc",
          "gateway/vllm/grpc", "gateway/vllm/service", "gateway/anthropic/service"]
# The protocols of the gateway: rooms that know nothing of each other.
PROTOCOLS = ["gateway/openai", "gateway/anthropic", "gateway/kserve", "gateway/vllm"]
# The files that name them all.
PROTOCOL_LISTS = ["gateway/document/documented.cc", "gateway/grpc/front_ends.cc",
                  "gateway/service/gateway.cc", "gateway/service/gateway.h",
                  "gateway/service/main.cc"]
# Where messages of proto/ are included from.
MESSAGES = "tutti/"
GRPC_HEADERS = ("grpc/", "grpcpp/")
GRPC_MESSAGES = ".grpc.pb.h"
ARCHITECTURE = "docs/ARCHITECTURE.md"
_MAY_INCLUDE = re.compile(r"^May include:? ([^.;]*)", re.MULTILINE)
_ASIDE = re.compile(r"\([^()]*\)")
_ROW = re.compile(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", re.MULTILINE)


def is_test(path):
    """Whether a file is a test or a helper of tests: it may see what it tests, above and below."""
    return os.path.splitext(path)[0].endswith(("_test", "_testing", "_fuzz"))


def in_shell(path):
    return any(path.startswith(shell + "/") for shell in SHELLS)


def folder_of(header):
    """The top folder of an included header; None for one of a library."""
    if header.startswith(MESSAGES):
        return "proto"
    top = header.split("/")[0]
    return top if "/" in header and (top in LAYERS or top in AROUND) else None


def check(tree):
    problems = []
    for path in tree.cpp_files():
        top = path.split("/")[0]
        if top in LAYERS and "/" in path and not is_test(path):
            for line, header in tree.source(path).includes():
                problems += [Problem(path, line, text) for text in _wrong(path, top, header)]
    return problems + list(_check_table(tree)) + list(_check_readmes(tree))


def _check_table(tree):
    """A row `| `folder` | what it is | folders it may include |` for every folder."""
    text = tree.text(ARCHITECTURE) if ARCHITECTURE in tree.file_set else ""
    rows = {match.group(1): (text.count("\n", 0, match.start()) + 1, match.group(2).split(","))
            for match in _ROW.finditer(text)}
    for folder in LAYERS if rows else []:
        line, named = rows.get(folder, (1, []))
        named = [name.strip() for name in named if name.strip()]
        if folder not in rows or named != LAYERS[folder]:
            yield Problem(ARCHITECTURE, line, f"{folder} may include "
                                              f"{', '.join(LAYERS[folder]) or 'nothing'}")


def _check_readmes(tree):
    """A line "May include: a, b (some), the system" of a folder's README, if it has one."""
    for folder, below in LAYERS.items():
        readme = f"{folder}/README.md"
        text = tree.text(readme) if readme in tree.file_set else ""
        for match in _MAY_INCLUDE.finditer(text):
            named = [name for name in re.findall(r"\w+", _ASIDE.sub("", match.group(1))) if name in LAYERS]
            if named != below:
                yield Problem(readme, text.count("\n", 0, match.start()) + 1,
                              f"{folder} may include {', '.join(below) or 'nothing'}")


def _protocol_of(path):
    return next((room for room in PROTOCOLS if path.startswith(room + "/")), None)


def _wrong(path, top, header):
    protocol = _protocol_of(header)
    if protocol and protocol != _protocol_of(path) and path not in PROTOCOL_LISTS:
        yield f"only {protocol} and the lists of protocols may include {header}"
    target = folder_of(header)
    if target and target != top and target not in LAYERS[top]:
        yield f"{top} may not include {header}"
    if in_shell(path):
        return
    if header.startswith(GRPC_HEADERS) or header.endswith(GRPC_MESSAGES):
        yield f"a core may not see gRPC ({header})"
    elif in_shell(header):
        yield f"a core may not include a shell, which sees gRPC ({header})"
