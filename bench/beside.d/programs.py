"""How programs are started, asked, and ended."""
import contextlib
import os
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

COMMAND_PATIENCE_S = 900  # one measurement; the longest took 90 s on two cores
START_PATIENCE_S = 900    # until a server or a peer answers: one that compiles at start took 125 s on two cores
HOLD_PATIENCE_S = 1800    # until a shared machine is quiet
END_PATIENCE_S = 30
TAIL = 600                # characters of a log that an error quotes


class ProgramError(Exception):
    """A program is missing, failed, or took too long."""


def find(folder, *names):
    """The first of these programs that is in the folder; None: none is."""
    for name in names:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def output_of(command, patience_s=COMMAND_PATIENCE_S):
    """What it prints on stdout. ProgramError says what it printed on stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=patience_s)
    except subprocess.TimeoutExpired:
        raise ProgramError(f"took longer than {patience_s} s: {' '.join(command)}") from None
    except OSError as error:
        raise ProgramError(f"cannot start {command[0]}: {error}") from None
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-TAIL:].strip()}")
    return done.stdout


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def signal_group(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def end_group(process, tell=True):
    """Of a program that leads its group, stopped ones too."""
    if tell:
        signal_group(process, signal.SIGTERM)
        signal_group(process, signal.SIGCONT)
    try:
        process.wait(END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        process.wait()


class Conversation:
    """A program that is told lines and answers with lines. Its whole group ends with it."""

    def __init__(self, command, environment=None):
        self.command, self.read = command, b""
        self.log = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                            env=environment, bufsize=0, start_new_session=True)
        except OSError as error:
            self.log.close()
            raise ProgramError(f"cannot start {command[0]}: {error}") from None

    def tell(self, line):
        try:
            # A pipe takes less than a long line at once.
            rest = memoryview(line.encode() + b"\n")
            while rest:
                rest = rest[self.process.stdin.write(rest):]
        except OSError:
            raise self._ended() from None

    def answer(self, patience_s):
        deadline = time.monotonic() + patience_s
        while b"\n" not in self.read:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                # What it still says would answer the next line.
                signal_group(self.process, signal.SIGKILL)
                raise ProgramError(f"no answer within {patience_s} s: {' '.join(self.command)}")
            piece = self.process.stdout.read(1 << 16)
            if not piece:
                raise self._ended()
            self.read += piece
        line, self.read = self.read.split(b"\n", 1)
        return line.decode("utf-8", "replace")

    def _ended(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_PATIENCE_S)
        self.log.seek(0)
        said = self.log.read().decode("utf-8", "replace")[-TAIL:].strip()
        return ProgramError(f"{' '.join(self.command)} ended with {self.process.poll()}: {said}")

    def signal(self, number):
        signal_group(self.process, number)

    def end(self, tell=True):
        """Once. tell: False lets the program end by itself, once its stdin is closed."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        end_group(self.process, tell)
        self.process.stdout.close()
        self.log.close()


@contextlib.contextmanager
def held(command):
    """While the command keeps other work off the machine: it prints back the line it is told once it does, as cat would,
    and ends with its stdin. "": there is none. Gives its process."""
    if not command:
        yield None
        return
    hold, holds = Conversation(shlex.split(command)), False
    try:
        hold.tell("quiet")
        hold.answer(HOLD_PATIENCE_S)
        holds = True
        yield hold.process
        if hold.process.poll() is not None:
            raise ProgramError(f"the hold ended before the measurement did: {command}")
    finally:
        # One that still waits for its turn does not see its stdin.
        hold.end(tell=not holds)


@contextlib.contextmanager
def running(command, answers):
    """The program, from when `answers()` is true until it is told to end. Its whole group ends with it."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            deadline = time.monotonic() + START_PATIENCE_S
            while not answers():
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    said = log.read().decode("utf-8", "replace")[-TAIL:].strip()
                    raise ProgramError(f"{' '.join(command)} does not serve: {said}")
                time.sleep(0.1)
            yield process
        finally:
            end_group(process)


def answers_http(address, path):
    def ask():
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False
    return ask


def answers_tcp(port):
    def ask():
        with socket.socket() as peer:
            peer.settimeout(1)
            return peer.connect_ex(("127.0.0.1", port)) == 0
    return ask
