"""Programs that end with their time: no wait here is without end, also not for a process that nobody can end."""
import dataclasses
import os
import signal
import subprocess
import tempfile
import time

import settings

# Of each output. Tests print their names first and what failed last.
KEPT_BYTES = 4 << 20
POLL_S = 0.02


class NotRun(Exception):
    """A step cannot run here; the text says why."""


@dataclasses.dataclass
class Ended:
    """How a command ended. `why` is empty where it ended by itself, however that was."""
    pid: int
    returncode: int
    stdout: str
    stderr: str
    why: str
    stuck: str  # what is left of it that could not be ended

    @property
    def text(self):
        return self.stdout + self.stderr


def state_of(pid):
    """The kernel's letter for the state of a process; "" where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def end_group(process):
    """Ends what is left of a process that leads a session of its own, and of all it started. What could not be ended, or "":
    a process in an uninterruptible call, state D, hears no signal, and whoever waits for it waits with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        process.wait(settings.END_S)
    except subprocess.TimeoutExpired:
        return f"process {process.pid} could not be ended (state {state_of(process.pid)}), and is left behind"
    return ""


def how(returncode):
    """The end of a process in words."""
    if returncode is None:
        return "did not end"
    if returncode < 0:
        try:
            return f"ended by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"ended by signal {-returncode}"
    return f"ended with {returncode}"


def _read(file):
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= 2 * KEPT_BYTES:
        return file.read().decode(errors="replace")
    head = file.read(KEPT_BYTES)
    file.seek(size - KEPT_BYTES)
    return (head + b"\n ... \n" + file.read()).decode(errors="replace")


def _wait(process, files, seconds, quiet):
    """Why the process must be ended, or ""."""
    deadline = time.monotonic() + seconds
    said, heard_at = 0, time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        size = sum(os.fstat(file.fileno()).st_size for file in files)
        if size != said:
            said, heard_at = size, now
        if quiet is not None and now - heard_at > quiet:
            return f"said nothing for {quiet:.0f} s"
        if now > deadline:
            return f"did not end within {seconds:.0f} s"
        time.sleep(POLL_S)
    return ""


def run(command, seconds, environment, quiet=None):
    """The command, ended after `seconds` or after `quiet` seconds without output. When it is over, everything that it started
    is ended with it, so that nothing keeps the GPU's memory."""
    # Files, not pipes: a grandchild that lives on would keep a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)
        stuck = ""
        try:
            why = _wait(process, (out, err), seconds, quiet)
        finally:
            stuck = end_group(process)
        return Ended(process.pid, process.returncode, _read(out), _read(err), why, stuck)
