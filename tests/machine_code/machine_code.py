#!/usr/bin/env python3
"""What nvcc made of the kernels, held against a table, so that a kernel that grew worse is seen without a GPU.

  machine_code.py LIBRARY                compares the plug-in LIBRARY with the table beside this file
  machine_code.py LIBRARY --write        writes the table anew
  machine_code.py LIBRARY --kernel TEXT  prints the figures of kernels whose names contain TEXT, and of each of their loops

One line of the table is one kernel:

  registers   of a thread
  local       bytes of memory that each thread has for what found no register
  spills      instructions that store to that memory or load from it
  shared      bytes that are known when it is compiled
  code        KiB of instructions
  divisions   reciprocals: a division by what is not constant takes one and some twenty instructions more
  copying     instructions for each KiB that a warp fetches from memory, in the loop that fetches most of those in which no other
              one fetches; 0: no such loop. Bulk copies, which one thread begins for all, are not counted.

Code depends on the compiler, so the table names its version, and another one's code is not judged. The disassembler comes from the
Python package index. Exit status: 0, 1 for a kernel that is worse, 77 where there is no disassembler or another compiler.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import astuple, dataclass, fields

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "machine_code.txt")
REQUIREMENTS = ["nvidia-cuda-cuobjdump==13.2.51", "nvidia-cuda-nvdisasm==13.2.51"]
INSTALL_S = 240
SKIPPED = 77

# How much worse a figure may be: edits of a kernel move a few instructions here and there.
CODE_SHARE_MAX = 1.05
COPYING_SHARE_MAX = 1.05

# Loops that fetch less each time round, of a warp, follow lists and are not copying.
LOOP_BYTES_MIN = 512

LANES = 32
BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
INSTRUCTION_BYTES = 16


@dataclass
class Figures:
    registers: int
    local: int
    spills: int
    shared: int
    code: float
    divisions: int
    copying: int


@dataclass
class Loop:
    begin: int
    end: int
    instructions: int
    fetched: int  # bytes, of a warp

    @property
    def copying(self):
        return round(self.instructions * 1024 / self.fetched)


def fetched_bytes(opcode):
    """Of a thread: what an instruction fetches from the GPU's memory."""
    name, *parts = opcode.split(".")
    if name not in ("LDG", "LDGSTS"):
        return 0
    return next((BYTES[part] for part in parts if part in BYTES), 4)


def fetching_loops(code):
    """Loops that fetch, with no other such loop inside. `code`: (address, opcode, operands) of each instruction of a kernel."""
    loops = []
    for address, opcode, operands in code:
        target = re.search(r"0x([0-9a-f]+)", operands)
        if opcode.split(".")[0] == "BRA" and target and int(target.group(1), 16) < address:
            begin = int(target.group(1), 16)
            inside = [opcode for at, opcode, _ in code if begin <= at <= address]
            fetched = LANES * sum(map(fetched_bytes, inside))
            if fetched >= LOOP_BYTES_MIN:
                loops.append(Loop(begin, address, len(inside), fetched))
    return [loop for loop in loops
            if not any(loop.begin <= other.begin and other.end <= loop.end and other is not loop for other in loops)]


def kernel_name(mangled):
    """As the source writes it, without the anonymous namespace, whose name changes with every edit."""
    name = re.sub(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}", "", mangled)
    name = subprocess.run(["c++filt", "--no-params", name], capture_output=True, text=True, check=True).stdout.strip()
    return name.removeprefix("void ").replace("tutti::kernels::cuda::", "").replace("tutti::kernels::", "") \
        .replace("(tutti::DType)", "DType").replace(" ", "")


def read_code(sass):
    """{kernel's mangled name: [(address, opcode, operands)]} from the disassembler's lines."""
    kernels, code = {}, None
    for line in sass:
        if "Function : " in line:
            code = kernels.setdefault(line.split("Function : ")[1].strip(), [])
        elif code is not None and (found := INSTRUCTION.match(line)):
            code.append((int(found.group(1), 16), found.group(2), found.group(3)))
    return kernels


def read_resources(text):
    """{kernel's mangled name: (registers, bytes of local memory, bytes of shared memory)}."""
    found = re.findall(r"Function (\S+):\n\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", text)
    return {name: (int(registers), int(stack) + int(local), int(shared)) for name, registers, stack, shared, local in found}


def figures_of(code, resources):
    registers, local, shared = resources
    opcodes = [opcode for _, opcode, _ in code]
    most = max(fetching_loops(code), key=lambda loop: loop.fetched, default=None)
    return Figures(registers=registers, local=local, shared=shared,
                   spills=sum(opcode.split(".")[0] in ("STL", "LDL") for opcode in opcodes),
                   code=round(len(code) * INSTRUCTION_BYTES / 1024, 1),
                   divisions=sum(opcode.startswith("MUFU.RCP") for opcode in opcodes),
                   copying=most.copying if most else 0)


def read_table(text):
    """(the compiler's version, {kernel: Figures})."""
    compiler, kernels = None, {}
    for line in text.splitlines():
        if line.startswith("# compiler: "):
            compiler = line.removeprefix("# compiler: ")
        elif line and not line.startswith("#"):
            *figures, name = line.split()
            kernels[name] = Figures(*(field.type(value) for field, value in zip(fields(Figures), figures, strict=True)))
    return compiler, kernels


def write_table(compiler, kernels):
    rows = [[field.name for field in fields(Figures)] + ["kernel"]]
    rows += [[str(value) for value in astuple(figures)] + [name] for name, figures in sorted(kernels.items())]
    lines = ["".join(cell.rjust(11) for cell in row[:-1]) + "  " + row[-1] for row in rows]
    return f"# What tests/machine_code/machine_code.py says of each kernel.\n# compiler: {compiler}\n#{lines[0][1:]}\n" + \
        "\n".join(lines[1:]) + "\n"


def complaints(expected, found):
    """What is worse than the table, or not in it; each with both figures."""
    said = [f"{name}: is in the table and not in the library" for name in sorted(expected.keys() - found.keys())]
    said += [f"{name}: is not in the table" for name in sorted(found.keys() - expected.keys())]
    for name in sorted(expected.keys() & found.keys()):
        before, now = expected[name], found[name]
        worse = {"registers": now.registers > before.registers, "local": now.local > before.local,
                 "spills": now.spills > before.spills, "shared": now.shared > before.shared,
                 "code": now.code > before.code * CODE_SHARE_MAX + 0.1, "divisions": now.divisions > before.divisions,
                 "copying": now.copying > before.copying * COPYING_SHARE_MAX + 1}
        said += [f"{name}: {what} {getattr(before, what)} -> {getattr(now, what)}" for what, is_so in worse.items() if is_so]
    return said


def compiler_version():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    ended = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True)
    return re.search(r"V\d+(?:\.\d+)+", ended.stdout).group()


def disassembler():
    """The folder of cuobjdump and nvdisasm; None: they cannot be had, which is said."""
    folder = os.path.join(os.environ.get("TUTTI_BINARY_DIR", tempfile.gettempdir()), "disassembler")
    programs, stamp = os.path.join(folder, "nvidia", "cu13", "bin"), os.path.join(folder, "requirements")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == str(REQUIREMENTS):
                return programs
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps",
               "--target", folder, *REQUIREMENTS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"no disassembler: {error}")
        return None
    if done.returncode != 0:
        print(f"no disassembler: {(done.stderr or done.stdout).strip()[-300:]}")
        return None
    for name in os.listdir(programs):
        os.chmod(os.path.join(programs, name), 0o755)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(str(REQUIREMENTS))
    return programs


def run_disassembler(programs, library, what):
    environment = dict(os.environ, PATH=programs + os.pathsep + os.environ["PATH"])
    with subprocess.Popen([os.path.join(programs, "cuobjdump"), what, library], stdout=subprocess.PIPE, text=True,
                          env=environment) as process:
        yield from process.stdout
    if process.returncode != 0:
        raise RuntimeError(f"cuobjdump {what} {library} ended with {process.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--kernel", metavar="TEXT")
    asked = parser.parse_args()
    with open(TABLE, encoding="utf-8") as file:
        expected_compiler, expected = read_table(file.read())
    compiler = compiler_version()
    if compiler != expected_compiler and not asked.write and not asked.kernel:
        print(f"the table is of nvcc {expected_compiler}, this is {compiler}: not judged")
        return SKIPPED
    programs = disassembler()
    if programs is None:
        return SKIPPED
    code = read_code(run_disassembler(programs, asked.library, "-sass"))
    resources = read_resources("".join(run_disassembler(programs, asked.library, "-res-usage")))
    names = {mangled: kernel_name(mangled) for mangled in code}
    found = {names[mangled]: figures_of(code[mangled], resources[mangled]) for mangled in code}
    if len(found) != len(code):
        raise RuntimeError("two kernels have one name")
    if asked.kernel:
        for mangled, name in names.items():
            if asked.kernel in name:
                print(name, found[name], *fetching_loops(code[mangled]), sep="\n  ")
        return 0
    if asked.write:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(write_table(compiler, found))
        return 0
    said = complaints(expected, found)
    print(*said, f"{len(found)} kernels, {len(said)} complaints", sep="\n")
    if said:
        print(f"on purpose? {sys.argv[0]} {asked.library} --write")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
