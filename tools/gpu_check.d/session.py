"""A run of gpu_check: programs that end with their time, checkpoints, clusters, and what is kept of each step."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import report
from settings import COMMON, LOADS, MODELS, SCRIPT, SHAPES, TINY, TINY_LOADS

# Where containers have the driver, when nothing else says so.
DRIVER = "/usr/local/nvidia"


def end_group(process):
    """Ends what is left of a process that leads a session of its own, and of all it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class NotRun(Exception):
    """A step cannot run here; the text says why."""


class Session:
    """One run: its programs and their environment, the time that is left, and the results of its steps."""

    def __init__(self, folder, out, minutes, rehearse):
        self.rehearse = rehearse
        self.place, self.torch_place = ("cpu", "cpu") if rehearse else ("cuda:0", "cuda")
        self.loads = TINY_LOADS if rehearse else LOADS
        # Not in the results' folder: only files to be kept go there.
        self.scratch = tempfile.mkdtemp(prefix="gpu_check_")
        self.folder = os.path.abspath(folder)
        if os.path.isfile(self.folder):
            with tarfile.open(self.folder) as archive:
                self.folder = os.path.join(self.scratch, "packed")
                archive.extractall(self.folder, filter="data")
        self.out = os.path.abspath(out)
        os.makedirs(self.out, exist_ok=True)
        self.deadline = time.monotonic() + 60 * minutes
        self.results = {}
        self.made = {}  # shape of a model, the process that makes it
        self.status = {}  # of the cluster that was asked last
        self.no_device = "nobody has looked yet"
        # Of programs of this machine; and of ours, behind whose libraries the driver's must still be found.
        self.theirs = dict(os.environ, PATH=os.environ["PATH"] + f":/usr/local/cuda/bin:{DRIVER}/bin")
        libraries = [os.path.join(self.folder, "lib"), os.environ.get("LD_LIBRARY_PATH", ""), DRIVER + "/lib64"]
        self.environment = dict(self.theirs, TUTTI_PLUGIN_DIR=self.folder, PATH=self.folder + ":" + self.theirs["PATH"],
                                LD_LIBRARY_PATH=":".join(filter(None, libraries)),
                                TUTTI_SOURCE_DIR=os.path.join(self.folder, "source"))

    def run(self, command, seconds, check=False, environment=None):
        """The finished process with its output as text. Never beyond the time that is left; when it is over, everything
        that the command started is ended with it, so that nothing keeps the GPU's memory."""
        left = self.deadline - time.monotonic()
        if left < 5:
            raise TimeoutError("no time left")
        limit = min(seconds, left)
        # Files, not pipes: a grandchild that lives on would keep a pipe open.
        with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
            process = subprocess.Popen(command, env=environment or self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, start_new_session=True)
            late = False
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                end_group(process)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        name = os.path.basename(command[0])
        if late:
            raise TimeoutError(f"{name} did not end within {limit:.0f} s: " + "".join(texts)[-1500:])
        if check and process.returncode != 0:
            raise RuntimeError(f"{name} ended with {process.returncode}: " + "".join(texts)[-1500:])
        return subprocess.CompletedProcess(command, process.returncode, *texts)

    def step(self, name, function):
        started = time.monotonic()
        try:
            result = function()
            result.setdefault("passed", True)
        except NotRun as reason:
            result = {"passed": False, "not_run": str(reason)}
        except Exception as error:  # a step must not end the others
            result = {"passed": False, "error": f"{type(error).__name__}: {error}"[-2000:]}
        result["seconds"] = round(time.monotonic() - started, 1)
        self.results[name] = result
        verdict = "not run: " + result["not_run"] if "not_run" in result else "passed" if result["passed"] else "FAILED"
        print(f"{name}: {verdict} in {result['seconds']} s", flush=True)
        if not result["passed"] and "not_run" not in result:
            print(str({k: v for k, v in result.items() if k != "rows"})[-1500:], flush=True)
        self.write()

    def write(self):
        with open(os.path.join(self.out, "gpu_check.json"), "w", encoding="utf-8") as file:
            json.dump(self.results, file, indent=1)
        try:
            text = report.markdown(self.results)
        except Exception as error:  # a figure that is not where it is expected must not end the run
            text = f"no table: {type(error).__name__}: {error}\n"
        with open(os.path.join(self.out, "gpu_check.md"), "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            raise NotRun(f"{name} was not packed")
        return path

    def need_device(self, or_rehearse=False):
        """A step of clusters or benches can be rehearsed, one that runs kernels by themselves cannot."""
        if self.rehearse and or_rehearse:
            return
        if self.rehearse:
            raise NotRun("a rehearsal")
        if self.no_device:
            raise NotRun(f"no device: {self.no_device}")

    def suites(self, tests, wanted, seconds):
        """Runs the part of each test that `wanted` filters, which must not be empty."""
        self.need_device()
        failures = {}
        for test in tests:
            try:
                done = self.run([self.program(test), f"--gtest_filter={wanted}"], seconds)
            except TimeoutError as late:
                failures[test] = str(late)
                continue
            if done.returncode != 0 or "0 tests from 0 test suites" in done.stdout:
                failures[test] = report.failed_tests(done.stdout) + (done.stdout + done.stderr)[-3000:]
        return {"passed": not failures, "failures": failures}

    def torch(self, job, seconds, **values):
        """What one of TORCH_JOBS reported, which runs in a process of its own."""
        path = os.path.join(self.scratch, job + ".json")
        values.update(place=self.torch_place, report=path + ".report")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        error = None
        try:
            done = self.run([sys.executable, SCRIPT, "torch", job, path], seconds,
                            environment=self.theirs)
            if done.returncode != 0:
                error = f"ended with {done.returncode}: {done.stderr[-1500:]}"
        except TimeoutError as late:
            error = str(late)
        # Its report before it ended counts.
        result = {}
        if os.path.exists(values["report"]):
            with open(values["report"], encoding="utf-8") as file:
                result = json.load(file)
        if error is not None:
            result.update(passed=False, error=error)
        return result

    def tool(self, name):
        """Path of one of CUDA's tools, or None."""
        return shutil.which(name, path=self.theirs["PATH"] + ":/usr/local/cuda/compute-sanitizer")

    def cublaslt(self):
        """The environment in which programs of ours find cuBLASLt: the system's, or PyTorch's own."""
        if "TUTTI_CUBLASLT_LIBRARY" in self.environment or self.rehearse:
            return self.environment
        code = ("import glob, site; print(*[path for folder in [*site.getsitepackages(), site.getusersitepackages()] "
                "for path in glob.glob(folder + '/nvidia/*/lib/libcublasLt.so.*')], sep='\\n')")
        found = self.run([sys.executable, "-c", code], 30, environment=self.theirs).stdout.split("\n")
        # The newest, as the plug-in prefers it. None: it finds the system's by its name, or says what is missing.
        paths = sorted(path for path in found if path)
        return dict(self.environment, TUTTI_CUBLASLT_LIBRARY=paths[-1]) if paths else self.environment

    def start_model(self, shape):
        """Begins to make a checkpoint, in the background: it takes only the processor."""
        if self.rehearse:
            shape = "tiny"
        if shape in self.made:
            return shape
        # Twice the largest model, or the disk.
        in_memory = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 36 << 30
        folder = tempfile.mkdtemp(prefix=f"gpu_check_{shape}_", dir="/dev/shm" if in_memory else None)
        config = os.path.join(self.scratch, f"config-{shape}.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({**COMMON, **(TINY if self.rehearse else SHAPES[shape])}, file)
        # A cluster wants some tokenizer; prompts here are token ids, and the text is not read.
        tokenizer = os.path.join(self.folder, "source", "models", "demo")
        with open(os.path.join(self.scratch, f"make-{shape}.log"), "wb") as log:
            process = subprocess.Popen([self.program("make_random_model"), "--config", config, "--output", folder, "--seed",
                                        "1", "--copy-tokenizer", tokenizer], env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.made[shape] = (process, folder)
        return shape

    def start_models(self, steps):
        for shape in dict.fromkeys(MODELS[step] for step in steps if step in MODELS):
            try:
                self.start_model(shape)
            except (OSError, NotRun) as error:  # the steps that want it will say so too
                print(f"model {shape}: {error}", flush=True)

    def model(self, shape):
        """Folder of a checkpoint; waits until it is made."""
        shape = self.start_model(shape)
        process, folder = self.made[shape]
        process.wait(max(1, self.deadline - time.monotonic()))
        if process.returncode != 0:
            with open(os.path.join(self.scratch, f"make-{shape}.log"), errors="replace", encoding="utf-8") as log:
                raise RuntimeError(f"make_random_model ended with {process.returncode}: {log.read()[-1000:]}")
        return folder

    def clean(self):
        for process, folder in self.made.values():
            end_group(process)
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def ask(self, shape, workers, concurrency, prompts, tokens, batch_tokens, graphs="on", early="on", numerics=None,
            environment=None):
        """Answers of a cluster on this GPU: [(token ids, log-probabilities)] in order of `prompts`. What its status says then
        is in self.status."""
        answers = os.path.join(self.scratch, "answers.json")
        questions = os.path.join(self.scratch, "questions.json")
        with open(questions, "w", encoding="utf-8") as file:
            json.dump(dict(prompts=prompts, tokens=tokens, concurrency=concurrency, out=answers), file)
        memory = "1GiB" if self.rehearse else f"{60 // workers}GiB"
        command = [self.program("tutti"), "up", "--listen", "127.0.0.1:0", "--http", "off", "--model", self.model(shape),
                   "--device", self.place, "--workers", str(workers), "--memory-per-worker", memory, "--kv-tokens", "65536",
                   "--max-batch-tokens", str(batch_tokens), "--cuda-graphs", graphs, "--cuda-early-kernels", early,
                   *(["--numerics-class", numerics] if numerics else []), "--exec", f"{sys.executable} {SCRIPT} ask {questions}"]
        done = self.run(command, 90, environment=environment)
        if done.returncode != 0:
            raise RuntimeError((done.stdout + done.stderr)[-2000:])
        with open(answers, encoding="utf-8") as file:
            said = json.load(file)
        self.status = said["status"]
        return said["answers"]
