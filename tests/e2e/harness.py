"""The parts that the end-to-end tests share: running `tutti`, and a cluster for as long as a test needs it."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("TUTTI_SOURCE_DIR") or os.path.join(HERE, "..", "..")
BINARIES = os.path.join(os.environ.get("TUTTI_BINARY_DIR") or os.path.join(SOURCE, "build", "release"),
                        "bin")
TUTTI = os.path.join(BINARIES, "tutti")
DEMO = os.path.join(SOURCE, "models", "demo")
# Libraries of GPUs that are emulated, and whether they are all there: presets with sanitizers have no plug-in.
EMULATED = os.path.join(os.path.dirname(BINARIES), "emulated_gpus")
HAS_EMULATED_GPUS = os.path.exists(os.path.join(EMULATED, "libtutti_cuda.so"))
TESTDATA = os.environ.get("TUTTI_TESTDATA")

# So many times as long as without a sanitizer may what a test measures take.
SLOWNESS = float(os.environ.get("TUTTI_TEST_SLOWNESS", "1"))
# Longest a step of a test may take before it counts as hung. Generous: the machine may be busy.
PATIENCE_S = 60 * SLOWNESS


def clean_environment(**added):
    """The environment without the settings of the person running the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return {**kept, **added}


def tutti(*arguments, env=None, stdin="", timeout=PATIENCE_S):
    """Runs the command to its end; .returncode, .stdout, .stderr."""
    return subprocess.run([TUTTI, *arguments], text=True, capture_output=True, input=stdin,
                          timeout=timeout, env=env or clean_environment())


def read_line(process):
    """A line of its output and not a byte more: communicate() does not see what a buffered read took ahead."""
    taken = b""
    while not taken.endswith(b"\n"):
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            break
        taken += byte
    return taken.decode()


def wait_until(condition, what, timeout=PATIENCE_S):
    """The first true value of condition(); fails the test naming `what`."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {timeout} s")


def full_pipe():
    """The two ends of a pipe that takes no byte more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"-" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)  # as a shell makes them
    return reader, writer


def running(pid):
    """Whether a process runs; one that ended but was not reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    """Direct children, by the name that follows --worker-id, or 'coordinator'."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or not running(entry):
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/cmdline", encoding="utf-8", errors="replace") as file:
                arguments = file.read().split("\0")
        except OSError:
            continue
        if parent != pid:
            continue
        name = os.path.basename(arguments[0])
        if "--worker-id" in arguments:
            name = arguments[arguments.index("--worker-id") + 1]
        found[name.replace("tutti-", "")] = int(entry)
    return found


class Cluster:
    """`tutti up` on a free port, until stop(). `settings`: of its environment."""

    def __init__(self, *arguments, model=DEMO, workers=2, memory="512MiB", settings=None):
        self.dir = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        self.ready = os.path.join(self.dir.name, "ready.json")
        self.errors = open(os.path.join(self.dir.name, "stderr"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [TUTTI, "up", "--model", model, "--workers", str(workers), "--listen", "127.0.0.1:0",
             "--threads-per-worker", "1", "--memory-per-worker", memory, "--ready-file", self.ready,
             *([] if "--http" in arguments else ["--http", "off"]), *arguments],
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env=clean_environment(TMPDIR=self.dir.name, XDG_RUNTIME_DIR="", **(settings or {})))
        wait_until(lambda: os.path.exists(self.ready) or self.process.poll() is not None,
                   "the cluster serves")
        if self.process.poll() is not None:
            raise AssertionError(f"tutti up ended: {self.stderr()}")
        with open(self.ready, encoding="utf-8") as file:
            ready = json.load(file)
        self.address, self.http, self.grpc = ready["address"], ready["http"], ready["grpc"]
        # Not TUTTI_ADMIN: `tutti status` finds the operator's socket by the address.
        self.env = clean_environment(TUTTI_ADDRESS=self.address)

    def stderr(self):
        with open(self.errors.name, encoding="utf-8") as file:
            return file.read()

    def children(self):
        return children(self.process.pid)

    def private_dirs(self):
        return [name for name in os.listdir(self.dir.name) if re.fullmatch(r"tutti-\w{6}", name)]

    def tutti(self, *arguments, **kwargs):
        return tutti(*arguments, env=self.env, **kwargs)

    def status(self):
        done = self.tutti("status", "--json")
        return json.loads(done.stdout) if done.stdout else None

    def serving(self):
        status = self.status()
        return status is not None and status["serving"]

    def stop(self, number=signal.SIGINT):
        """Ends the cluster with a signal; the exit code of `tutti up`."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE_S)
        self.process.stdout.close()
        self.errors.close()
        return code

    def cleanup(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()
        self.dir.cleanup()
