"""The rounds of a row: all sides do its work in turn."""
import programs
import readings
from report import Figure, Row


def _turn(side, work, number, probe, hold):
    """The values of one side in one round, and the probes before and after it."""
    with programs.held(hold):
        before = probe.take()
        values = side.measure(work, number)
        return values, [before, probe.take()]


def measure(work, rounds, sides, probe, say, hold=""):
    """All sides in turn, another one first in each round. A side that fails is left out from there on."""
    row = Row(work.name, [Figure(*figure) for figure in work.figures])
    for side in sides:
        reason = side.lacks(work)
        if reason:
            row.skipped[side.name] = reason
    for number in range(rounds):
        able = [side for side in sides if side.name not in row.skipped and side.name not in row.failed]
        first = number % len(able) if able else 0
        for side in able[first:] + able[:first]:
            try:
                values, probes = _turn(side, work, number, probe, hold)
            except (programs.ProgramError, readings.ReadingError) as error:
                row.failed[side.name] = str(error)
                say(f"{work.name}, round {number + 1} of {rounds}: {side.name} failed: {error}")
                continue
            row.probes += probes
            for figure, value in zip(row.figures, values):
                figure.add(side.name, number, value)
            say(f"{work.name}, round {number + 1} of {rounds}: {side.name}: " + "; ".join(
                f"{figure.name} {figure.values[side.name][number]:.4g} {figure.unit}" for figure in row.figures))
    return row
