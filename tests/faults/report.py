"""What a run says: a line for each fault, why streams were lost or different, and the last line."""
import collections
import os

# Reasons shown of each kind.
SHOWN = 5
# Of what takes its time under a sanitizer; figures are promised without one.
SLOWNESS = float(os.environ.get("TUTTI_TEST_SLOWNESS", "1"))
PARTS = ("noticing", "forming", "loading", "linking", "recomputing")


def quantile(values, share):
    """The smallest value that `share` of them do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -(-len(ordered) * share // 100) - 1))] if ordered else 0.0


def parts_of(marks):
    """Milliseconds of each part of a recovery, from the moments at which they ended: the strike's and those of PARTS;
    None where a moment is not known, or where streams went on elsewhere before all was as it had been."""
    return [None if None in (earlier, later) or later < earlier else (later - earlier) * 1000
            for earlier, later in zip(marks, marks[1:])]


def shown(parts):
    return ", ".join(f"{name} {value:.0f}" for name, value in zip(PARTS, parts) if value is not None)


class Report:
    def __init__(self, scenario, seed, figure=()):
        self.figure = figure
        self.gaps = []
        self.first_tokens = []  # ms from a coordinator's first answer to the first token
        self.parts = []
        self.felt = []          # of these, of faults that streams have felt
        self.faults = 0
        self.struck = 0         # faults that struck something while streams were past their first token
        self.noticed = 0        # about which the cluster did something
        self.streams = []
        self.failures = []
        print(f"{scenario}, seed {seed}", flush=True)

    def fault(self, what, hit, gaps, parts, remark="", struck=True, noticed=True, felt=True):
        """One fault, with the gaps of the streams it hit, in seconds, and the milliseconds of each part; those of a fault
        that no stream has felt are not held to a figure."""
        self.faults += 1
        self.struck += bool(struck and hit)
        self.noticed += bool(noticed)
        self.gaps += gaps
        self.parts.append(parts)
        self.felt += [parts] if felt else []
        worst = f"gap p50 {quantile(gaps, 50) * 1000:.0f} max {max(gaps) * 1000:.0f} ms" if gaps else "no gap measured"
        print(f"fault {self.faults}: {what}, {hit} streams past their first token, {worst}; {shown(parts)}"
              f"{'; ' + remark if remark else ''}", flush=True)

    def fail(self, why):
        self.failures.append(why)
        print(f"FAILED: {why}", flush=True)

    def lost(self):
        return [stream for stream in self.streams if stream.verdict.lost]

    def different(self):
        return [stream for stream in self.streams if stream.verdict.different]

    def explain(self, name, streams, reason):
        counted = collections.Counter(reason(stream) for stream in streams)
        for why, count in counted.most_common(SHOWN):
            print(f"{name} ({count}): {why}")
        if len(counted) > SHOWN:
            print(f"{name}: {len(counted) - SHOWN} reasons more")

    def compare_figure(self):
        """The fault matrix' figure beside what was measured, which must not exceed it."""
        if not self.figure:
            return
        row, name, promised = self.figure
        if name == "gap":
            values = [gap * 1000 for gap in self.gaps]
        elif name == "first token":
            values = self.first_tokens
        else:
            values = [part for parts in self.felt for part in parts[PARTS.index(name):][:1] if part is not None]
        if not values:
            return
        measured = f"{row}: {name} p99 {quantile(values, 99):.0f} ms, promised {promised} ms"
        if quantile(values, 99) > promised * SLOWNESS:
            self.fail(measured)
        else:
            print(measured)

    def end(self, where="", notices=True):
        """The last lines; whether all is well. `where`: said before them where it is not. `notices`: some faults must have
        been noticed."""
        if self.faults and not self.struck:
            self.fail("no fault struck anything while a stream was past its first token")
        if self.faults and notices and not self.noticed:
            self.fail("no fault was noticed")
        lost, different = self.lost(), self.different()
        self.explain("lost", lost, lambda stream: stream.verdict.lost)
        self.explain("different", different, lambda stream: f"{stream.case.name}: {stream.verdict.different}")
        if lost:
            print(f"of the lost, {sum(stream.past_first for stream in lost)} were past their first token")
        resumed = sum(stream.resumed for stream in self.streams)
        if resumed:
            print(f"resumed {resumed} times")
        self.compare_figure()
        good = not (lost or different or self.failures)
        if where and not good:
            print(where)
        known = [[part for part in column if part is not None] for column in zip(*self.parts)]
        print("median ms of " + shown([quantile(column, 50) if column else None for column in known]))
        print("p99 ms of " + shown([quantile(column, 99) if column else None for column in known]))
        print(f"{self.faults} faults, {len(self.streams)} streams, {len(lost)} lost, {len(different)} different, "
              f"gap p50 {quantile(self.gaps, 50) * 1000:.0f} ms p99 {quantile(self.gaps, 99) * 1000:.0f} ms", flush=True)
        return good
