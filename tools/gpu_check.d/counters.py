"""Counters of kernels by ncu: which unit of the GPU a product or an attention waits for."""
import csv
import io
import re

import kernel_times

# What is asked, and its name in the table. Shares are of what the unit can do.
METRICS = {
    "gpu__time_duration.sum": "us",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 cache",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "tensor cores",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed": "shared memory",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "MB from the L2 cache",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "waits for memory",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "for barriers",
    "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": "for wgmma",
}
# Kernels that take the time of a layer.
KERNELS = "regex:^(RingProduct|WideProduct|StreamLeaves|AttendWide|AttendFew)$"
# Of these, behind a chunk that is no measurement and the first layer of the next, as many as two layers have at most.
SKIPPED_LAYERS, COUNTED = 1, 10


def command(tool, program, load, layers):
    """ncu sees a graph as one piece, and would bring memory and clocks into states that nobody serves in."""
    of_layer = 5
    # A chunk is some layers and the logits' product.
    skipped = layers * of_layer + 1 + SKIPPED_LAYERS * of_layer
    return [tool, "--clock-control", "none", "--cache-control", "none", "--csv", "--kernel-name-base", "function", "--kernel-name",
            KERNELS, "--launch-skip", str(skipped), "--launch-count", str(COUNTED), "--metrics", ",".join(METRICS), *program,
            "--cuda-graphs", "off", "--runs", "1", "--load", ",".join(f"{value:g}" for value in load)]


def number(text):
    return float(text.replace(",", ""))


def rows(text):
    """Of what ncu wrote among other lines: a dictionary for each kernel, with `kernel`, `grid` and METRICS' names."""
    found, names = {}, None
    for line in csv.reader(io.StringIO(text)):
        if line[:1] == ["ID"]:
            names = line
        elif names and len(line) == len(names) and line[0].isdigit():
            value = dict(zip(names, line))
            # Its names have lost what stood before "unnamed".
            row = found.setdefault(value["ID"], {"kernel": kernel_times.plain(value["Kernel Name"]).replace("unnamed>::", ""), "grid": value["Grid Size"].strip("()")})
            if value["Metric Name"] in METRICS and re.fullmatch(r"[\d.,]+", value["Metric Value"]):
                row[METRICS[value["Metric Name"]]] = number(value["Metric Value"])
    for row in found.values():
        if "us" in row:
            row["us"] /= 1000
        if "MB from the L2 cache" in row:
            row["MB from the L2 cache"] /= 1e6
    return list(found.values())


def table(found):
    """Markdown."""
    names = list(METRICS.values())
    lines = ["", "| counters by ncu, kernels alone | grid | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    return lines + ["| {} | {} | {} |".format(row["kernel"], row["grid"],
                                            " | ".join(f"{row[name]:.1f}" if name in row else "" for name in names)) for row in found]
