"""The steps of gpu_check that measure. Each case is on its own: what came before one that fails is kept."""
import json
import os

import counters
import kernel_times
import processes
import settings
from processes import NotRun
from session import Session
from settings import KERNEL_TIMES, LIBRARY_ROWS, NEAR


def json_lines(text):
    """The objects of a program that may have been ended within a line."""
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


class Benches(Session):
    """Each step returns a dictionary for the results; `passed` is true unless it says otherwise."""

    def collect(self, errors, name, function, *arguments, **named):
        """The function's value; None, and its error under the name, when it fails."""
        try:
            return function(*arguments, **named)
        except (RuntimeError, TimeoutError, ValueError, OSError, KeyError, IndexError) as error:
            errors[name] = f"{type(error).__name__}: {error}"[-1500:]
        except NotRun as reason:
            errors[name] = f"not run: {reason}"
        return None

    def bench_lines(self, command, seconds, errors, name, environment=None):
        """What a bench printed before it ended, and its error under the name."""
        ended = self.attempt(command, seconds * self.patience, environment, quiet=2 * self.quiet)
        if ended.why or ended.returncode != 0:
            errors[name] = f"{ended.why or processes.how(ended.returncode)}: {ended.stderr[-1000:]}"
        return json_lines(ended.stdout)

    def ceilings(self):
        """Copy bandwidth and matrix rate of this GPU, for the shares of the benches."""
        self.need_device(or_cpu=True)
        return self.torch("measure_ceilings", 40, small=bool(self.rehearse))

    def products(self):
        """The products of the 8B model: of few rows, and of many by wgmma where the device may use it (its remark says
        whether) and by mma.sync; PyTorch's are in price_of_one_voice. Where wgmma ends or hangs its program and mma.sync does
        not, every step behind this one does without it."""
        self.need_device(or_cpu=True)
        rows = [settings.TINY_ROWS] * 2 if self.rehearse else [settings.FEW_ROWS + settings.MANY_ROWS, settings.MANY_ROWS]
        result, errors = {"remarks": {}, "rows": []}, {}
        for kernels, wanted in zip(("chosen", "mma.sync"), rows):
            environment = dict(self.environment, **({"TUTTI_WGMMA": "off"} if kernels == "mma.sync" else {}))
            command = [self.program("products_bench"), "--device", self.place, "--rows", *map(str, wanted),
                       *(settings.TINY_PRODUCTS if self.rehearse else [])]
            lines = self.bench_lines(command, 60, errors, kernels, environment)
            if not lines and kernels not in errors:
                errors[kernels] = "it said nothing"
            result["remarks"][kernels] = lines[0].get("remark", "") if lines else ""
            result["rows"] += [dict(row, kernels=kernels) for row in lines[1:]]
        remark = result["remarks"]["chosen"]
        result["wgmma"] = "multiplied by wgmma" in remark
        if "chosen" in errors and "mma.sync" not in errors and "TUTTI_WGMMA" not in self.environment:
            self.environment["TUTTI_WGMMA"] = "off"
            result["switched_off"] = "TUTTI_WGMMA=off for all that follows, as products failed with wgmma and not without"
        # Where the two instructions differ nothing is wrong, but the price is high enough to be seen.
        if "wgmma gave other bits" in remark or "wgmma could not be tried" in remark:
            errors["remark"] = remark
        return dict(result, errors=errors, passed=not errors)

    def local_loads(self, loads, seconds, flags, errors, name, environment=None):
        """Rows of `tutti-bench local`, which has the model once for all loads; again with those behind one that ends it."""
        rows = []
        while loads:
            named = [word for load in loads for word in ("--load", ",".join(f"{value:g}" for value in load))]
            command = [self.program("tutti-bench"), "local", "--model", self.model("8b"), "--device", self.place,
                       "--chunk-tokens", "2048", "--runs", "2", *flags, *named, "--json"]
            failed = {}
            lines = self.bench_lines(command, seconds, failed, name, environment)
            rows += lines
            loads = loads[len(lines):]
            if not failed:
                break
            # The one that had no report is the one that ended it.
            errors[f"{name}, load {loads[0] if loads else 'behind the last'}"] = failed[name]
            loads = loads[1:]
        return rows

    def bench_ours(self):
        self.need_device(or_cpu=True)
        errors = {}
        rows = self.local_loads(list(self.loads), 100, [], errors, "all on")
        return {"passed": not errors, "rows": rows, "errors": errors}

    def switches(self):
        """What graphs, early starts and wgmma bring: the first load without each, of wgmma that of several sequences too."""
        self.need_device(or_cpu=True)
        errors, rows = {}, []
        for name, flags in [("no early kernels", ["--cuda-early-kernels", "off"]), ("no graphs", ["--cuda-graphs", "off"])]:
            rows += self.local_loads(self.loads[:1], 45, flags, errors, name)
        found = self.local_loads(self.loads[:2], 45, [], errors, "no wgmma", dict(self.environment, TUTTI_WGMMA="off"))
        rows += [dict(row, wgmma=False) for row in found]
        return {"passed": not errors, "rows": rows, "errors": errors}

    def profile(self):
        """Every kernel of the loads as they are served, with graphs and early starts: how long it took, and the gap before it."""
        self.need_device(or_cpu=True)
        environment = self.with_libraries()
        environment["TUTTI_KERNEL_TIMES"] = os.path.join(self.scratch, "kernel_times")
        if not self.rehearse:
            environment["CUDA_INJECTION64_PATH"] = self.program(KERNEL_TIMES)
            folders = [os.path.dirname(environment.get("TUTTI_CUPTI_LIBRARY", "")), "/usr/local/cuda/extras/CUPTI/lib64"]
            environment["LD_LIBRARY_PATH"] = ":".join([environment["LD_LIBRARY_PATH"], *filter(None, folders)])
        named = [word for load in self.loads for word in ("--load", ",".join(f"{value:g}" for value in load))]
        command = [self.program("tutti-bench"), "local", "--model", self.model("8b"), "--device", self.place, "--chunk-tokens",
                   "2048", "--runs", "1", *named, "--json"]
        errors = {}
        rows = self.bench_lines(command, 90, errors, "the loads", environment)
        if os.path.exists(environment["TUTTI_KERNEL_TIMES"]):
            text = kernel_times.tables(environment["TUTTI_KERNEL_TIMES"])
            with open(os.path.join(self.out, "kernels.md"), "w", encoding="utf-8") as file:
                file.write(f"# Kernels of a step, by tools/gpu_check\n\nLoads in order: {self.loads}\n{text}")
        elif not self.rehearse:
            errors["kernels"] = "CUPTI recorded nothing: see gpu_check.log"
        return {"passed": not errors, "rows": rows, "errors": errors}

    def counters(self):
        """What the kernels of a layer wait for, by ncu: of 64 rows and of a long prompt."""
        self.need_device(or_cpu=True)
        tool, errors, found = self.tool("ncu"), {}, []
        program = [self.program("tutti-bench"), "local", "--model", self.model("8b"), "--device", self.place, "--chunk-tokens", "2048"]
        layers = (settings.TINY if self.rehearse else settings.SHAPES["8b"])["num_hidden_layers"]
        for load in settings.TINY_COUNTED if self.rehearse else settings.COUNTED:
            ended = self.attempt(counters.command(tool, program, load, layers), 45 * self.patience, self.with_libraries(),
                                 quiet=2 * self.quiet)
            rows = counters.rows(ended.stdout)
            found += [dict(row, load=list(load)) for row in rows]
            if ended.why or ended.returncode != 0:
                errors[f"load {load}"] = f"{ended.why or processes.how(ended.returncode)}: {ended.text[-600:]}"
            elif not rows and not self.rehearse:
                errors[f"load {load}"] = f"ncu counted nothing: {ended.text[-600:]}"
        return {"passed": not errors, "rows": found, "errors": errors}

    def cublas_class(self):
        """The class that multiplies many rows by cuBLASLt: it serves where it is named, says that it is not exact, is near the
        exact class, and has the exact class's bits where rows are few; its products and its prompts beside the exact class's."""
        self.need_device(or_cpu=True)
        environment, errors = self.with_libraries(), {}
        if self.rehearse == "emulated":
            environment["TUTTI_CUBLASLT_LIBRARY"] = os.path.join(self.folder, settings.EMULATED, settings.EMULATED_CUBLASLT)
        bench = [self.program("products_bench"), "--device", self.place, *(settings.TINY_PRODUCTS if self.rehearse else [])]
        lines = self.bench_lines([*bench, "--rows", "16"], 40, errors, "the exact class")
        if not lines:
            return {"passed": False, "errors": errors}
        exact = lines[0]["class"]
        named = "cpu-f32" if self.rehearse == "cpu" else exact + "-cublas"
        rows = settings.TINY_ROWS if self.rehearse else [1, 64, *settings.MANY_ROWS]
        lines = self.bench_lines([*bench, "--rows", *map(str, rows), "--numerics-class", named], 60, errors, "its products",
                                 environment)
        result = {"class": named, "remark": lines[0]["remark"] if lines else "",
                  "rows": [dict(row, kernels=named) for row in lines[1:]]}
        self.compare_classes(exact, named, environment, result, errors)
        result["prompts"] = self.prompts_of(exact, named, environment, errors)
        return dict(result, errors=errors, passed=not errors)

    def compare_classes(self, exact, named, environment, result, errors):
        """What clusters of both classes answer, as far as it comes."""
        count, vocabulary = (2, 2000) if self.rehearse else (16, 150000)
        prompts = [[(11 * i + 5 * j) % vocabulary for j in range(2 * LIBRARY_ROWS + 9 * i)] for i in range(count)]
        few_rows = LIBRARY_ROWS // 2

        def asked(name, wanted, numerics, batch_tokens):
            return self.collect(errors, name, self.ask, 1, 1, wanted, 4, batch_tokens, ["--numerics-class", numerics], environment)

        ours = asked("a cluster of the exact class", prompts, exact, 2048)
        theirs = asked("a cluster of the class", prompts, named, 2048)
        if theirs is not None:
            result["exact"] = [one.get("exact") for one in self.status["pipelines"]]
            if self.rehearse != "cpu" and any(said is not False for said in result["exact"]):
                errors["it is said to be exact"] = str(result["exact"])
        few = asked("few rows", prompts[:4], named, few_rows)
        if few is not None and ours is not None and self.rehearse != "cpu" and few != ours[:4]:
            errors["few rows have other bits"] = "than those of the exact class"
        if ours is None or theirs is None:
            return
        # Greedy tokens of random weights may change places where two are as likely; of most prompts they do not.
        result["same_tokens"] = sum(a[0] == b[0] for a, b in zip(ours, theirs)) / len(prompts)
        pairs = [(a[1][0], b[1][0]) for a, b in zip(ours, theirs) if a[0][0] == b[0][0]]
        result["worst_relative_difference"] = max((abs(a - b) / max(1, abs(a)) for a, b in pairs), default=None)
        if len(pairs) < len(prompts) / 2:
            errors["first tokens differ"] = f"only {len(pairs)} of {len(prompts)} are the same"
        if pairs and result["worst_relative_difference"] > NEAR:
            errors["first tokens are not near"] = str(result["worst_relative_difference"])

    def prompts_of(self, exact, named, environment, errors):
        found = []
        load = "40,1,4" if self.rehearse else "2048,1,16"
        for numerics in (exact, named):
            command = [self.program("tutti-bench"), "local", "--model", self.model("0.6b"), "--device", self.place, "--load",
                       load, "--chunk-tokens", "2048", "--runs", "2", "--numerics-class", numerics, "--json"]
            found += self.bench_lines(command, 45, errors, f"prompts of {numerics}", environment)
        return found

    def bench_transformers(self):
        self.need_device(or_cpu=True)
        return self.torch("time_transformers", 120, model=self.model("8b"), loads=[load[:3] for load in self.loads if not load[3]])

    def price_of_one_voice(self):
        """What the fastest product of cuBLASLt takes for the shapes of the 8B model, through PyTorch; ours are in products."""
        self.need_device(or_cpu=True)
        return self.torch("time_products", 50, small=bool(self.rehearse))
