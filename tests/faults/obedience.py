"""Whom workers obeyed, by their logs: some coordinator, and never one of a lower number than one before."""
import re

_NUMBER = re.compile(r"leads as number (\d+)|\bepoch (\d+)\.\d+: (?:stage|ready|stands by)")


def disobedience(name, log):
    """What of a worker's log shows that it obeyed a coordinator after a later one; "": nothing."""
    highest = 0
    for line in log.splitlines():
        if line.startswith("--- start "):
            highest = 0  # a new process knows of nobody
        found = _NUMBER.search(line)
        if not found:
            continue
        number = int(found.group(1) or found.group(2))
        if number < highest:
            return f"{name} obeyed coordinator number {number} after number {highest}: {line}"
        highest = number
    # So no change of the lines makes this agree to everything.
    return "" if _NUMBER.search(log) else f"the log of {name} does not say whom it obeyed"
