"""Checks of a client: functions, each by itself. A line for each: "ok NAME" or "FAILED NAME: why"."""
import traceback

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def main():
    """Runs all that were marked, in order; the exit status."""
    failed = 0
    for function in CHECKS:
        try:
            function()
            print(f"ok {function.__name__}", flush=True)
        except Exception as error:  # each check by itself
            failed += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAILED {function.__name__}: line {place.lineno}: {type(error).__name__} {error}".replace("\n", " "),
                  flush=True)
    return 1 if failed else 0
