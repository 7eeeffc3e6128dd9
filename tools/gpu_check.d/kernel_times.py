"""Tables of what bench/kernel_times.cc recorded: the steps of each kind, kernel by kernel."""
import json
import re
import statistics
import struct
import sys

RUN = struct.Struct("<dfi")
# A step begins with it.
FIRST = "Embed"
# Kinds of steps that are shown, and kernels of each.
KINDS_MAX = 16
# Kinds that came less often, and have fewer rows, are the ends of something.
STEPS_MIN, ROWS_MANY = 3, 64


def plain(name):
    """Attend<1, 128> of a name with its namespaces, types and arguments."""
    name = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").replace("tutti::kernels::cuda::", "")
    name = re.sub(r"\((bool|int)\)", "", name.removeprefix("void "))
    return name.split("(")[0]


def read(path):
    """[(name, shape)], [(start, µs, number)]"""
    with open(path, "rb") as file:
        head = json.loads(file.readline())
        data = file.read()
    kernels = [(plain(kernel[0]), tuple(kernel[1:])) for kernel in head["kernels"]]
    return kernels, list(RUN.iter_unpack(data[:len(data) // RUN.size * RUN.size]))


def steps_of(kernels, runs):
    """Runs of one step each, with the start of the next."""
    begins = [i for i, run in enumerate(runs) if kernels[run[2]][0] == FIRST]
    return [(runs[a:b], runs[b][0]) for a, b in zip(begins, begins[1:])]


def kind_of(kernels, step):
    """What two steps have in common that do the same: their kernels, and by powers of two their grids."""
    return tuple((kernels[run[2]][0], kernels[run[2]][1][0].bit_length()) for run in step)


def kinds(kernels, runs):
    found = {}
    for step, end in steps_of(kernels, runs):
        found.setdefault(kind_of(kernels, step), []).append((step, end))
    return found


def rows_of_table(kernels, steps):
    """(name, shape, times a step, median µs, median gap before, median µs that it adds, µs a step that it adds), in order of
    appearance. A kernel that begins early adds only what it ends later than all before it."""
    table = {}
    for step, _ in steps:
        ended = step[0][0]
        for number_in_step, (start, took, number) in enumerate(step):
            name, shape = kernels[number]
            row = table.setdefault((name, *shape[1:3]), [shape, [], [], []])
            row[1].append(took)
            if number_in_step > 0:
                row[2].append(start - ended)
            row[3].append(max(0, start + took - ended))
            ended = max(ended, start + took)
    return [(key[0], shape, len(times) / len(steps), statistics.median(times), statistics.median(gaps) if gaps else 0,
             statistics.median(added), sum(added) / len(steps)) for key, (shape, times, gaps, added) in table.items()]


def tables(path):
    """Markdown."""
    kernels, runs = read(path)
    found = [(kind, steps) for kind, steps in kinds(kernels, runs).items()
             if len(steps) >= STEPS_MIN or kernels[steps[0][0][0][2]][1][0] >= ROWS_MANY]
    found.sort(key=lambda one: -sum(end - step[0][0] for step, end in one[1]))
    lines = []
    for _, steps in found[:KINDS_MAX]:
        took = statistics.median(end - step[0][0] for step, end in steps)
        lines += ["", f"{len(steps)} steps of {len(steps[0][0])} kernels, {took:.0f} µs each", "",
                  "| kernel | grid | threads | registers | times a step | µs | gap before, µs | adds, µs | adds a step, µs | share |",
                  "|---|---|---|---|---|---|---|---|---|---|"]
        lines += [f"| {name} | {shape[0]} x {shape[1]} x {shape[2]} | {shape[3]} | {shape[4]} | {times:.1f} | {each:.1f} | "
                  f"{gap:.1f} | {added:.1f} | {whole:.0f} | {100 * whole / took:.0f} % |"
                  for name, shape, times, each, gap, added, whole in rows_of_table(kernels, steps)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(tables(sys.argv[1]))
