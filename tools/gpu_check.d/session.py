"""A run of gpu_check: its programs and their environment, checkpoints, clusters, and what is kept of each step."""
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

import processes
import report
import settings
from checkpoints import Checkpoints
from processes import NotRun

# Where containers have the driver, when nothing else says so.
DRIVER = "/usr/local/nvidia"
# Texts of commands that did not do what they should.
LOG_MAX = 8 << 20
# The libraries that PyTorch brings along, and the variables by which our programs find them.
PIP_LIBRARIES = {"libcublasLt.so.*": "TUTTI_CUBLASLT_LIBRARY", "libnccl.so.2": "TUTTI_NCCL_LIBRARY",
                 "libcupti.so.*": "TUTTI_CUPTI_LIBRARY"}
WARM = """import json, time
begin = time.monotonic()
import torch, transformers
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "transformers": transformers.__version__,
                  "import_seconds": round(time.monotonic() - begin, 1)}))"""
# A tool that is not here starts the program behind its own options, so that a rehearsal sees the program's.
STAND_IN = """#!{python}
import os, sys
at = next(i for i, word in enumerate(sys.argv[1:], 1) if os.path.isabs(word) and os.access(word, os.X_OK))
print('"a stand-in for {name}, which is not on this machine"', flush=True)
os.execv(sys.argv[at], sys.argv[at:])
"""


class Session:
    """One run. `rehearse`: None, "cpu" or "emulated"."""

    def __init__(self, folder, out, minutes, rehearse=None):
        self.started = time.monotonic()
        self.deadline = self.started + 60 * minutes
        self.rehearse = rehearse
        self.place, self.torch_place = ("cpu", "cpu") if rehearse == "cpu" else ("cuda:0", "cpu" if rehearse else "cuda")
        self.loads = settings.TINY_LOADS if rehearse else settings.LOADS
        self.quiet = settings.QUIET_REHEARSED_S if rehearse else settings.QUIET_S
        self.patience = settings.PATIENCE_REHEARSED if rehearse else 1
        # Not in the results' folder: only files to be kept go there.
        self.scratch = tempfile.mkdtemp(prefix="gpu_check_")
        self.folder = os.path.abspath(folder)
        if os.path.isfile(self.folder):
            with tarfile.open(self.folder) as archive:
                self.folder = os.path.join(self.scratch, "packed")
                archive.extractall(self.folder, filter="data")
        self.out = os.path.abspath(out)
        os.makedirs(self.out, exist_ok=True)
        self.results = {}
        self.stuck = []  # processes that could not be ended, in words
        self.left_behind = []  # and by number
        self.status = {}  # of the cluster that was asked last
        self.no_device = "nobody has looked yet"
        # Of programs of this machine; and of ours, behind whose libraries the driver's must still be found.
        self.theirs = dict(os.environ, PATH=os.environ["PATH"] + f":/usr/local/cuda/bin:{DRIVER}/bin")
        libraries = [os.path.join(self.folder, "lib"), os.environ.get("LD_LIBRARY_PATH", ""), DRIVER + "/lib64"]
        plugins = os.path.join(self.folder, settings.EMULATED) if rehearse == "emulated" else self.folder
        self.environment = dict(self.theirs, TUTTI_PLUGIN_DIR=plugins, EMULATED_GPUS="1",
                                PATH=self.folder + ":" + self.theirs["PATH"],
                                LD_LIBRARY_PATH=":".join(filter(None, libraries)),
                                TUTTI_SOURCE_DIR=os.path.join(self.folder, "source"))
        self.checkpoints = Checkpoints(os.path.join(self.folder, "make_random_model"), self.environment, self.scratch,
                                       os.path.join(self.folder, "source", "models", "demo"), bool(rehearse))
        self.warm = None

    def left(self):
        return self.deadline - time.monotonic()

    def attempt(self, command, seconds, environment=None, quiet=None):
        """How the command ended, whatever it did; never beyond the time that is left."""
        if self.left() < settings.TOO_LATE_S:
            raise NotRun("no time is left")
        ended = processes.run(command, min(seconds, self.left()), environment or self.environment, quiet)
        name = os.path.basename(command[0])
        if ended.stuck:
            self.stuck.append(f"{name}: {ended.stuck}")
            self.left_behind.append(ended.pid)
        if ended.why or ended.returncode != 0:
            self.log(f"{' '.join(command)[:600]}\n{ended.why or processes.how(ended.returncode)}\n{ended.text}")
        return ended

    def run(self, command, seconds, environment=None, quiet=None):
        """The same of a command that must end well."""
        ended = self.attempt(command, seconds, environment, quiet)
        name = os.path.basename(command[0])
        if ended.why:
            raise TimeoutError(f"{name} {ended.why}: {ended.text[-1500:]}")
        if ended.returncode != 0:
            raise RuntimeError(f"{name} {processes.how(ended.returncode)}: {ended.text[-1500:]}")
        return ended

    def log(self, text):
        path = os.path.join(self.out, "gpu_check.log")
        room = LOG_MAX - (os.path.getsize(path) if os.path.exists(path) else 0)
        if room > 0:
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(f"=== {time.monotonic() - self.started:.0f} s: {text[:room]}\n")

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
        print(f"{self.passed():5.0f} s: {name}: {report.verdict(result)} in {result['seconds']} s", flush=True)
        self.write()

    def passed(self):
        return time.monotonic() - self.started

    def write(self):
        results = dict(self.results, stuck=self.stuck) if self.stuck else self.results
        with open(os.path.join(self.out, "gpu_check.json"), "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
        try:
            text = report.markdown(results)
        except Exception as error:  # a figure that is not where it is expected must not end the run
            text = f"no table: {type(error).__name__}: {error}\n"
        with open(os.path.join(self.out, "gpu_check.md"), "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            raise NotRun(f"{name} was not packed")
        return path

    def need_device(self, or_cpu=False):
        """A step of clusters or benches can be rehearsed on the CPU, one that runs kernels by themselves cannot."""
        if self.rehearse == "cpu" and not or_cpu:
            raise NotRun("a rehearsal on the CPU")
        if self.rehearse != "cpu" and self.no_device:
            raise NotRun(f"no device: {self.no_device}")
        held = [pid for pid in self.left_behind if processes.state_of(pid) == "D"]
        if held:
            raise NotRun(f"no device: process {held[0]} hangs in a call of the driver (state D)")

    def start_warming(self):
        """Imports PyTorch in the background, so that its files are in memory when a step wants them."""
        path = os.path.join(self.scratch, "warm")
        with open(path, "wb") as out:
            self.warm = (subprocess.Popen([sys.executable, "-c", WARM], env=self.theirs, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=out, start_new_session=True), path)

    def torch_facts(self, seconds=0):
        """What the import said, waited for as long; {"error": ...} where there is none, {} where nobody knows yet."""
        if self.warm is None:
            self.start_warming()
        process, path = self.warm
        try:
            process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            return {}
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        try:
            return json.loads(text.splitlines()[-1])
        except (ValueError, IndexError):
            return {"error": (text.strip().splitlines() or [processes.how(process.returncode)])[-1][-300:]}

    def torch(self, job, seconds, **values):
        """What one of TORCH_JOBS reported, which runs in a process of its own."""
        facts = self.torch_facts(min(60, self.left() - settings.TOO_LATE_S))
        if "error" in facts:
            raise NotRun("no PyTorch here: " + facts["error"])
        path = os.path.join(self.scratch, job + ".json")
        values.update(place=self.torch_place, report=path + ".report")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)
        ended = self.attempt([sys.executable, settings.SCRIPT, "torch", job, path], seconds, environment=self.theirs)
        # Its report before it ended counts.
        result = {}
        if os.path.exists(values["report"]):
            with open(values["report"], encoding="utf-8") as file:
                result = json.load(file)
        if ended.why or ended.returncode != 0:
            result.update(passed=False, error=f"{ended.why or processes.how(ended.returncode)}: {ended.stderr[-1500:]}")
        return result

    def tool(self, name):
        """Path of one of CUDA's tools; of a stand-in in a rehearsal."""
        path = shutil.which(name, path=self.theirs["PATH"] + ":/usr/local/cuda/compute-sanitizer")
        if path is None and self.rehearse:
            path = os.path.join(self.scratch, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(STAND_IN.format(python=sys.executable, name=name))
            os.chmod(path, stat.S_IRWXU)
        if path is None:
            raise NotRun(f"{name} is not on this machine")
        return path

    def with_libraries(self):
        """The environment in which programs of ours find cuBLASLt and NCCL: the system's, or PyTorch's own. No kernel is
        loaded before it is used: all of the library's would be."""
        environment = dict(self.environment, CUDA_MODULE_LOADING="LAZY")
        code = ("import glob, site, sys; print(*[path for folder in [*site.getsitepackages(), site.getusersitepackages()] "
                "for path in sorted(glob.glob(folder + '/nvidia/*/lib/' + sys.argv[1]))], sep='\\n')")
        for name, variable in PIP_LIBRARIES.items():
            if variable in environment:
                continue
            found = self.attempt([sys.executable, "-c", code, name], 20, environment=self.theirs).stdout.split("\n")
            # The newest, as the plug-in prefers it. None: it finds the system's by its name, or says what is missing.
            paths = [path for path in found if path]
            if paths:
                environment[variable] = paths[-1]
        return environment

    def start_models(self, steps):
        for shape in dict.fromkeys(settings.MODELS[step] for step in steps if step in settings.MODELS):
            try:
                self.checkpoints.start(shape)
            except OSError as error:  # the steps that want it will say so too
                print(f"model {shape}: {error}", flush=True)

    def model(self, shape):
        """Folder of a checkpoint."""
        return self.checkpoints.folder(shape, self.left() - settings.TOO_LATE_S)

    def clean(self):
        self.checkpoints.clean()
        if self.warm is not None:
            processes.end_group(self.warm[0])
        shutil.rmtree(self.scratch, ignore_errors=True)

    def ask(self, workers, concurrency, prompts, tokens, batch_tokens, flags=(), environment=None):
        """Answers of a cluster of the small model on this GPU: [(token ids, log-probabilities)] in order of `prompts`. What
        its status says then is in self.status."""
        answers = os.path.join(self.scratch, "answers.json")
        questions = os.path.join(self.scratch, "questions.json")
        if os.path.exists(answers):
            os.remove(answers)
        with open(questions, "w", encoding="utf-8") as file:
            json.dump(dict(prompts=prompts, tokens=tokens, concurrency=concurrency, out=answers), file)
        memory = "1GiB" if self.rehearse else f"{60 // workers}GiB"
        # Workers have a GPU each unless they are told to share one.
        shared = ["--share-devices", "--pipeline-parallel-size", str(workers)] if workers > 1 else []
        command = [self.program("tutti"), "up", "--listen", "127.0.0.1:0", "--http", "off", "--model", self.model("0.6b"),
                   "--device", self.place, "--workers", str(workers), "--memory-per-worker", memory, "--kv-tokens",
                   "8192" if self.rehearse else "65536", "--max-batch-tokens", str(batch_tokens), *shared, *flags,
                   "--exec", f"{sys.executable} {settings.SCRIPT} ask {questions}"]
        self.run(command, 150 if self.rehearse else 75, environment=environment)
        with open(answers, encoding="utf-8") as file:
            said = json.load(file)
        self.status = said["status"]
        return said["answers"]
