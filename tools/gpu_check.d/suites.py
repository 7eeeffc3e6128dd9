"""Tests of one program: each is accounted for, also where one ends the program or never ends."""
import re

import processes
import settings

# A line of gtest's for one test: "[  FAILED  ] Suite.Test/0, where GetParam() = ... (3 ms)".
LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,()]+)")
TEXT_MAX = 1500
TEXTS_MAX = 8


class Progress:
    """What a program of tests has said so far."""

    def __init__(self, output):
        self.verdicts = {}  # test: "OK", "FAILED" or "SKIPPED"
        self.texts = {}  # of those that failed
        self.running = None
        self.finished = False
        begin = 0
        place = 0
        for line in output.splitlines(keepends=True):
            found = LINE.match(line)
            if self.finished:
                break  # the names again
            if line.startswith("[==========]") and " ran." in line:
                self.finished = True
            elif found and found[1] == "RUN":
                self.running, begin = found[2], place
            elif found and found[2] == self.running:
                verdict = found[1]
                self.verdicts[self.running] = verdict
                if verdict == "FAILED":
                    self.texts[self.running] = output[begin:place][:TEXT_MAX]
                self.running = None
            place += len(line)


class Suite:
    """Runs the tests that `wanted` names, again without those that ended the program or hung it."""

    def __init__(self, run, command, wanted, seconds):
        self.run, self.command, self.wanted, self.left = run, command, wanted, seconds
        self.verdicts, self.texts = {}, {}
        self.culprits = {}  # test: how it ended the program
        self.problem = ""  # of the program, which no test has

    def attempt(self):
        """Whether there may be more to run."""
        done = list(self.verdicts) + list(self.culprits)
        filtered = f"--gtest_filter={self.wanted}" + ("-" + ":".join(done) if done else "")
        try:
            ended = self.run([*self.command, filtered], self.left)
        except processes.NotRun as reason:
            self.problem = f"not run{' without those that ended it' if self.culprits else ''}: {reason}"
            return False
        progress = Progress(ended.stdout)
        self.verdicts.update(progress.verdicts)
        self.texts.update(progress.texts)
        if progress.finished and not ended.why:
            if ended.returncode != 0 and "FAILED" not in progress.verdicts.values():
                self.problem = f"{processes.how(ended.returncode)} behind its last test: {ended.text[-TEXT_MAX:]}"
            return False
        what = ended.why or processes.how(ended.returncode)
        if progress.running is None:
            self.problem = f"{what} outside of any test: {ended.text[-TEXT_MAX:]}"
            return False
        self.culprits[progress.running] = what
        begin = ended.stdout.rfind(progress.running)
        self.texts[progress.running] = (ended.stdout[begin:][:TEXT_MAX] + ended.stderr[-TEXT_MAX:])
        if len(self.culprits) >= settings.CULPRITS_MAX:
            self.problem = f"given up after {len(self.culprits)} tests that ended it; those behind them did not run"
            return False
        return True

    def result(self):
        failed = [name for name, verdict in self.verdicts.items() if verdict == "FAILED"]
        ran = [name for name, verdict in self.verdicts.items() if verdict != "SKIPPED"]
        skipped = len(self.verdicts) - len(ran)
        problem = self.problem
        if not problem and not ran and not self.culprits:
            problem = f"nothing ran: {skipped} tests of {self.wanted} were skipped"
        return {"passed": not (failed or self.culprits or problem), "ran": len(ran), "skipped": skipped, "failed": failed,
                "ended_the_program": self.culprits, "problem": problem,
                "texts": dict(list(self.texts.items())[:TEXTS_MAX])}


def run_suite(run, command, wanted, seconds):
    """`run(command, seconds)` gives processes.Ended."""
    suite = Suite(run, command, wanted, seconds)
    while suite.attempt():
        pass
    return suite.result()
