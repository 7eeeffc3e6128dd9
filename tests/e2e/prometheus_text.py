"""Prometheus' text format, read as strictly as its description has it, and the names in a query.

In this package because the tests need it without a network; tests/clients lets Prometheus' own parser read the same.
"""
import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SAMPLE = re.compile(rf"^({_NAME})(?:\{{(.*)\}})? (\S+)$")
_KINDS = {"counter", "gauge", "histogram"}
# Words of the query language that the dashboard and the rules use.
_WORDS = {"sum", "by", "rate", "increase", "changes", "histogram_quantile", "min", "max", "time", "absent", "on"}


class Family:
    """.kind, and .samples: (name, labels as a dictionary, value)."""

    def __init__(self, kind):
        self.kind, self.samples = kind, []


def parse(text):
    """{name: Family}. Fails on anything that the format does not allow."""
    families, helped, current = {}, set(), None
    assert text.endswith("\n"), "the last line has no end"
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped, f"{name} begins twice"
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert kind in _KINDS and current not in families and current in helped, line
            assert kind != "counter" or current.endswith("_total"), f"{current} is no name of a counter"
            families[current] = Family(kind)
        else:
            families[current].samples.append(_sample(line, current, families[current].kind))
    for name, family in families.items():
        _check_family(name, family)
    return families


def _sample(line, family, kind):
    match = _SAMPLE.match(line)
    assert match, f"no sample: {line}"
    name, labels, value = match.groups()
    suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    assert name in {family + suffix for suffix in suffixes}, f"{line} is not of {family}"
    return name, _labels(labels or "", line), float(value)


def _labels(text, line):
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match and match.group(1) not in labels, f"labels of {line}"
        labels[match.group(1)] = re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), match.group(2))
        at = match.end()
    return labels


def _check_family(name, family):
    keys = [(sample, *sorted(labels.items())) for sample, labels, _ in family.samples]
    assert len(set(keys)) == len(keys), f"{name} has a sample twice"
    if family.kind != "histogram":
        return
    series = {}
    for sample, labels, value in family.samples:
        rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(rest, {}).setdefault(sample, []).append((labels.get("le"), value))
    for samples in series.values():
        buckets = samples[name + "_bucket"]
        bounds, counts = [float(le) for le, _ in buckets], [count for _, count in buckets]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), f"bounds of {name}"
        assert counts == sorted(counts) and counts[-1] == samples[name + "_count"][0][1], f"counts of {name}"
        assert len(samples[name + "_sum"]) == 1, f"sum of {name}"


def series_names(families):
    """All names of samples."""
    return {sample for family in families.values() for sample, _, _ in family.samples}


def value(families, name, **labels):
    """The sum of the samples of this name with these labels."""
    family = families[re.sub("_(sum|count)$", "", name) if name not in families else name]
    return sum(number for sample, given, number in family.samples
               if sample == name and all(given.get(k) == v for k, v in labels.items()))


def names_in(query):
    """The metrics that a query is about."""
    bare = re.sub(r'\{[^}]*\}|\[[^\]]*\]|\b(?:by|on) *\([^)]*\)|"[^"]*"', " ", query)
    return {word for word in re.findall(_NAME, re.sub(r"\d[\d.e]*", " ", bare)) if word not in _WORDS}
