"""Locust with users as people write them, some seconds long, against the gateway at the URL given: every kind of request was
made, and none failed. A line for each kind: "ok NAME" or "FAILED NAME: why"."""
import csv
import os
import subprocess
import sys
import tempfile

KINDS = ("whole", "streamed", "wrong", "fast", "models")
USERS, SECONDS = 16, 8


def main():
    host = sys.argv[1].rsplit("/v1", 1)[0]
    with tempfile.TemporaryDirectory(prefix="tutti-locust-") as folder:
        run = subprocess.run(
            [sys.executable, "-m", "locust", "-f", os.path.join(os.path.dirname(os.path.abspath(__file__)), "locustfile.py"),
             "--headless", "--users", str(USERS), "--spawn-rate", str(USERS), "--run-time", f"{SECONDS}s", "--host", host,
             "--csv", os.path.join(folder, "run"), "--only-summary", "--exit-code-on-error", "0"],
            capture_output=True, text=True, timeout=120, check=False)
        try:
            with open(os.path.join(folder, "run_stats.csv"), encoding="utf-8") as file:
                rows = {row["Name"]: row for row in csv.DictReader(file)}
            with open(os.path.join(folder, "run_failures.csv"), encoding="utf-8") as file:
                failures = file.read()
        except OSError as error:
            print(f"FAILED run: {error}: {run.stderr[-2000:]}")
            return
    for kind in KINDS:
        row = rows.get(kind, {"Request Count": "0", "Failure Count": "0"})
        if int(row["Request Count"]) > 0 and int(row["Failure Count"]) == 0:
            print(f"ok {kind}")
        else:
            print(f"FAILED {kind}: {row} {failures[:1000]}")


main()
