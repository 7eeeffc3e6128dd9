"""Medians, ratios, and the probes beside them, as a table in Markdown and as JSON."""
import json
import statistics


def ratio(better, ours, theirs):
    """How many times as good as theirs ours is."""
    return ours / theirs if better == "more" else theirs / ours


class Figure:
    """One figure of a row: the values of both programs, round by round."""

    def __init__(self, name, unit, better):
        self.name, self.unit, self.better = name, unit, better
        self.ours, self.theirs = [], []
        self.shares = []  # of the limit, where ours comes with one

    def add(self, ours, theirs):
        """ours: the value, or (value, share of the limit)."""
        if isinstance(ours, tuple):
            ours, share = ours
            self.shares.append(share)
        self.ours.append(ours)
        self.theirs.append(theirs)

    def summary(self):
        """Medians, and the median of the ratios within each round, with the least and the most of them."""
        ratios = [ratio(self.better, a, b) for a, b in zip(self.ours, self.theirs)]
        return {"figure": self.name, "unit": self.unit, "better": self.better, "rounds": len(ratios),
                "tutti": statistics.median(self.ours), "llama.cpp": statistics.median(self.theirs),
                "ratio": statistics.median(ratios), "ratio_least": min(ratios), "ratio_most": max(ratios),
                "share": statistics.median(self.shares) if self.shares else None,
                "tutti_all": self.ours, "llama.cpp_all": self.theirs, "share_all": self.shares}


class Row:
    """A row of the table, its figures, and the probes taken right before and after each program in it."""

    def __init__(self, name, figures):
        self.name, self.figures = name, figures
        self.probes = []
        self.skipped = ""

    def summary(self):
        done = [figure.summary() for figure in self.figures if figure.ours]
        return {"row": self.name, "skipped": self.skipped, "figures": done, "probes": self.probes}


def probe_text(probes, name):
    values = [probe[name] for probe in probes if name in probe]
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def markdown(rows):
    lines = ["| row | figure | tutti | of the limit | llama.cpp | ratio, median (least to most) | rounds | reads, GB/s | "
             "dot or f32 peak, GFLOP/s |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        if row.skipped:
            lines.append(f"| {row.name} | skipped: {row.skipped} | | | | | | | |")
        peak = "bf16 dot" if any("bf16 dot" in probe for probe in row.probes) else "f32"
        for one in (figure.summary() for figure in row.figures if figure.ours):
            share = "-" if one["share"] is None else f"{100 * one['share']:.0f} %"
            lines.append(f"| {row.name} | {one['figure']}, {one['unit']} | {one['tutti']:.4g} | {share} | "
                         f"{one['llama.cpp']:.4g} | {one['ratio']:.2f} ({one['ratio_least']:.2f} to {one['ratio_most']:.2f}) | {one['rounds']} | "
                         f"{probe_text(row.probes, 'read')} | {probe_text(row.probes, peak)} |")
    return "\n".join(lines)


def write_json(path, about, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"about": about, "rows": [row.summary() for row in rows]}, file, indent=1)
        file.write("\n")
