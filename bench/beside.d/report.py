"""Medians, ratios, and the probes beside them, as tables in Markdown and as JSON."""
import json
import statistics


def ratio(better, ours, theirs):
    """How many times as good as theirs ours is."""
    return ours / theirs if better == "more" else theirs / ours


class Figure:
    """One figure of a row: the values of all sides by their names, each by round."""

    def __init__(self, name, unit, better):
        self.name, self.unit, self.better = name, unit, better
        self.values, self.shares = {}, {}

    def add(self, side, number, value):
        """value: a number, or (number, share of the limit)."""
        if isinstance(value, tuple):
            value, share = value
            self.shares.setdefault(side, {})[number] = share
        self.values.setdefault(side, {})[number] = value

    def ratios(self, ours, theirs):
        """Of ours over theirs in the rounds that have both: {"median", "least", "most", "rounds"}; None: no round has."""
        a, b = self.values.get(ours, {}), self.values.get(theirs, {})
        found = [ratio(self.better, a[number], b[number]) for number in sorted(a.keys() & b.keys())]
        if not found:
            return None
        return {"median": statistics.median(found), "least": min(found), "most": max(found), "rounds": len(found)}

    def median(self, side):
        return statistics.median(self.values[side].values()) if side in self.values else None

    def share(self, side):
        return statistics.median(self.shares[side].values()) if side in self.shares else None

    def summary(self, ours, theirs):
        """Medians and all values, those of a round that has none as null, and the ratios."""
        rounds = 1 + max((number for of_side in self.values.values() for number in of_side), default=-1)
        sides = {}
        for side, values in self.values.items():
            sides[side] = {"median": self.median(side), "all": [values.get(number) for number in range(rounds)]}
            if side in self.shares:
                sides[side]["share"] = self.share(side)
                sides[side]["share_all"] = [self.shares[side].get(number) for number in range(rounds)]
        pairs = {f"{a} / {b}": self.ratios(a, b) for a in ours for b in theirs}
        return {"figure": self.name, "unit": self.unit, "better": self.better, "sides": sides,
                "ratios": {pair: found for pair, found in pairs.items() if found is not None}}


class Row:
    """A row of the table, its figures, the probes right before and after each side in it, and who is left out of it and why:
    skipped: it cannot do this work; failed: it did not."""

    def __init__(self, name, figures):
        self.name, self.figures = name, figures
        self.probes, self.skipped, self.failed = [], {}, {}

    def summary(self, ours, theirs):
        done = [figure.summary(ours, theirs) for figure in self.figures if figure.values]
        return {"row": self.name, "skipped": self.skipped, "failed": self.failed, "figures": done, "probes": self.probes}


def _spread(values, form=".1f"):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})" if values else "-"


def _peak(probes):
    """The fastest kind of product that was probed."""
    kinds = {kind for probe in probes for kind in probe if kind != "read"}
    of_kind = {kind: [probe[kind] for probe in probes if kind in probe] for kind in sorted(kinds)}
    best = max(of_kind, key=lambda kind: statistics.median(of_kind[kind]), default=None)
    return "-" if best is None else f"{best} {_spread(of_kind[best], '.0f')}"


def _cell(figure, side):
    median, share = figure.median(side), figure.share(side)
    if median is None:
        return "-"
    return f"{median:.4g}" + (f", {100 * share:.0f} %" if share is not None else "")


def _ratio_cell(found):
    return "-" if found is None else f"{found['median']:.2f} ({found['least']:.2f} to {found['most']:.2f})"


def _table(heads, lines):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *("| " + " | ".join(line) + " |" for line in lines)]


def markdown(rows, ours, theirs):
    """Medians of all sides, with the share of the limit where one is known; then how often ours are as good as theirs."""
    figures = [(row, figure) for row in rows for figure in row.figures if figure.values]
    pairs = [(a, b) for b in theirs for a in ours]
    speeds = [[row.name, f"{figure.name}, {figure.unit}", *(_cell(figure, side) for side in ours + theirs),
               _spread([probe["read"] for probe in row.probes]), _peak(row.probes)] for row, figure in figures]
    ratios = [[row.name, figure.name, *(_ratio_cell(figure.ratios(*pair)) for pair in pairs)] for row, figure in figures]
    lines = _table(["row", "figure", *ours, *theirs, "reads, GB/s", "products, GFLOP/s"], speeds) + [""]
    lines += _table(["row", "median of ratios (least to most)", *(f"{a} over {b}" for a, b in pairs)], ratios)
    left_out = [f"- {row.name}: {side} {what}: {' '.join(reason.split())}" for row in rows
                for what, sides in (("skipped", row.skipped), ("failed", row.failed)) for side, reason in sides.items()]
    return "\n".join(lines + ([""] + left_out if left_out else []))


def write_json(path, about, rows, ours, theirs):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"about": about, "rows": [row.summary(ours, theirs) for row in rows]}, file, indent=1)
        file.write("\n")
