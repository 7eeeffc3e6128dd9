"""The programs that are measured: how they are started, and ended."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import readings

COMMAND_PATIENCE_S = 900  # one measurement; the longest took 90 s on two cores
START_PATIENCE_S = 300    # until a server answers
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
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


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


class Tutti:
    name = "tutti"
    extra_fields = {}

    def __init__(self, folder, model, threads):
        self.folder, self.model, self.threads = folder, model, threads
        for program in ("tutti", "tutti-bench", "kernels_bench"):
            if find(folder, program) is None:
                raise ProgramError(f"no {program} in {folder}: build it (tools/build release {program}) or name the "
                                   f"folder with --tutti")
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            self.vocabulary = json.load(file)["vocab_size"]

    def probe(self):
        """Reads and register-only products of this machine, now."""
        return readings.probe(output_of([find(self.folder, "kernels_bench"), "--threads", str(self.threads),
                                         "--filter", "the probes alone"]))

    def local(self, field, prompt, output, batch):
        return readings.tutti_local(output_of(
            [find(self.folder, "tutti-bench"), "local", "--model", self.model, "--device", "cpu", "--threads",
             str(self.threads), "--prompt-tokens", str(prompt), "--output-tokens", str(output), "--batch", str(batch),
             "--runs", "1", "--json"]), field)

    @contextlib.contextmanager
    def server(self, workers=1, threads=None, kv_tokens=8192):
        address = f"127.0.0.1:{free_port()}"
        command = [find(self.folder, "tutti"), "up", "--model", self.model, "--device", "cpu", "--workers", str(workers),
                   "--threads-per-worker", str(threads or self.threads), "--kv-tokens", str(kv_tokens), "--listen",
                   "127.0.0.1:0", "--http", address, "--drain-timeout", "0"]
        with running(command, answers_http(address, "/ready")):
            yield address


class Llama:
    name = "llama.cpp"
    extra_fields = {"cache_prompt": False}

    def __init__(self, folder, gguf, threads):
        self.folder, self.gguf, self.threads = folder, gguf, threads
        if not os.path.isfile(gguf):
            raise ProgramError(f"no file {gguf}")

    def program(self, *names):
        path = find(self.folder, *names)
        if path is None:
            raise ProgramError(f"no {' or '.join(names)} in {self.folder}")
        return path

    def bench(self, prompt=0, generated=0, depth=0, threads=None, more=()):
        sizes = {"prompt": prompt, "generated": generated, "depth": depth}
        command = [self.program("llama-bench"), "-m", self.gguf, "-t", str(threads or self.threads), "-p", str(prompt),
                   "-n", str(generated), "-r", "1", "-o", "json", *more]
        return readings.llama_bench(output_of(command + (["-d", str(depth)] if depth else [])), **sizes)

    def batched(self, sequences, prompt, generated, threads=None, more=()):
        context = sequences * (prompt + generated) + 256
        return readings.llama_batched(output_of(
            [self.program("llama-batched-bench"), "-m", self.gguf, "-t", str(threads or self.threads), "-tb",
             str(threads or self.threads), "-c", str(context), "-b", "2048", "-ub", "512", "-npp", str(prompt), "-ntg",
             str(generated), "-npl", str(sequences), *more]), sequences)

    @contextlib.contextmanager
    def server(self, parallel, kv_tokens=8192):
        port = free_port()
        command = [self.program("llama-server"), "-m", self.gguf, "-t", str(self.threads), "-tb", str(self.threads), "-c",
                   str(kv_tokens), "--parallel", str(parallel), "--host", "127.0.0.1", "--port", str(port)]
        with running(command, answers_http(f"127.0.0.1:{port}", "/health")):
            yield f"127.0.0.1:{port}"

    @contextlib.contextmanager
    def rpc_workers(self, count, threads):
        """Their addresses, as llama-bench's --rpc takes them."""
        program = self.program("rpc-server", "ggml-rpc-server")
        with contextlib.ExitStack() as stack:
            ports = [free_port() for _ in range(count)]
            for port in ports:
                stack.enter_context(running([program, "-H", "127.0.0.1", "-p", str(port), "-t", str(threads)],
                                            answers_tcp(port)))
            yield ",".join(f"127.0.0.1:{port}" for port in ports)
