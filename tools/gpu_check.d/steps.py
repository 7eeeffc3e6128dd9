"""The steps of gpu_check, each a method that returns what it found."""
import datetime
import json
import os
import sys

from session import NotRun, Session
from settings import KERNEL_TESTS, LIBRARY_ROWS, NEAR


class Check(Session):
    """Each step returns a dictionary for the results; `passed` is true unless it says otherwise."""

    def device(self):
        """Opens the plug-in, as a worker would. Everything after this depends on it."""
        if self.rehearse:
            raise NotRun("a rehearsal")
        done = self.run([self.program("kernels_conformance_test"), "--gtest_filter=CudaTest.*"], 60)
        if done.returncode != 0:
            self.no_device = "the plug-in could not be opened, see the step `device`"
            raise RuntimeError((done.stdout + done.stderr)[-2000:])
        skipped = done.stdout.partition("Skipped\n")[2].partition("[  SKIPPED ]")[0].strip()
        self.no_device = skipped
        self.need_device()
        return {}

    def facts(self):
        """Whatever of it can be had."""
        def ask(*command, environment=self.theirs):
            try:
                return self.run(list(command), 60, environment=environment).stdout.strip()
            except (OSError, TimeoutError) as error:
                return str(error)
        fields = "name,driver_version,memory.total,memory.used,compute_cap,clocks.max.sm,clocks.max.mem,power.limit"
        versions = "import torch, transformers; print(torch.__version__, torch.version.cuda, transformers.__version__)"
        facts = {"date": datetime.date.today().isoformat(), "processors": os.cpu_count(),
                 "gpu": ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"),
                 "torch, cuda, transformers": ask(sys.executable, "-c", versions),
                 "sanitizer": self.tool("compute-sanitizer"), "profiler": self.tool("ncu")}
        facts["build"] = ask(self.program("tutti-worker"), "--version", environment=self.environment)
        return facts

    def ceilings(self):
        """Copy bandwidth and matrix rate of this GPU, for the shares of the benches."""
        self.need_device(or_rehearse=True)
        return self.torch("measure_ceilings", 60, small=self.rehearse)

    def products(self):
        """The products of the 8B model with many rows, by wgmma where the device may use it (its remark says whether) and by
        mma.sync; PyTorch's are in price_of_one_voice."""
        self.need_device(or_rehearse=True)
        small = ["--hidden", "64", "--ffn", "96", "--heads", "4", "--kv-heads", "2", "--rows", "16", "32", "--repeat", "1"]
        result = {"remarks": {}, "rows": []}
        for kernels, flags in [("chosen", []), ("mma.sync", ["--without-wgmma"])]:
            done = self.run([self.program("products_bench"), "--device", self.place, *flags,
                             *(small if self.rehearse else [])], 60, check=True)
            first, *rows = [json.loads(line) for line in done.stdout.splitlines()]
            result["remarks"][kernels] = first["remark"]
            result["rows"] += [dict(row, kernels=kernels) for row in rows]
        remark = result["remarks"]["chosen"]
        result["wgmma"] = "multiplied by wgmma" in remark
        # Where the two instructions differ nothing is wrong, but the price is high enough to be seen.
        if "wgmma gave other bits" in remark or "wgmma could not be tried" in remark:
            result.update(passed=False, error=remark)
        return result

    def conformance(self):
        return self.suites(KERNEL_TESTS, "*cuda*", 150)

    def golden(self):
        """Logits of whole models against transformers."""
        return self.suites(["golden_test"], "*cuda_0*", 120)

    def graphs(self):
        """Steps of one shape are replayed, with the bits of kernels started one by one."""
        return self.suites(["graphs_test"], "GraphsTest.*", 120)

    def one_voice_steps(self):
        """Bits over batches, chunks, stages, ranks and block sizes, in one process."""
        return self.suites(["one_voice_test"], "*cuda_0*", 120)

    def plan_proof(self):
        """What a plan promises of this kind of device is what shards of every family hold, to the byte."""
        return self.suites(["plan_proof_test"], "*cuda_0*", 120)

    def sanitizer(self):
        """Out-of-bounds accesses, races through shared memory, barriers that some threads miss, memory read before it is
        written: over small cases."""
        self.need_device()
        tool = self.tool("compute-sanitizer")
        if tool is None:
            raise NotRun("compute-sanitizer is not on this machine")
        attention = ("kernels_attention_test", "*LaterInfinities*cuda*:*BlocksMayBeShared*cuda*:*ATileOfNothing*cuda*")
        products = ("kernels_matmul_test", "*LeavesAddUp*cuda*:*StacksParts*cuda*:*SomeClassesRound*cuda*")
        many = ("kernels_matmul_test", "*ManyRows*cuda*")
        rows = ("kernels_conformance_test", "*RmsNorm*cuda*:*TopCandidates*cuda*:*ArgMax*cuda*:*SelectExperts*cuda*")
        cases = [("memcheck", *attention), ("racecheck", *attention), ("memcheck", *products), ("racecheck", *products),
                 ("racecheck", *rows), ("memcheck", *rows), ("synccheck", *attention), ("initcheck", *products),
                 ("memcheck", *many), ("synccheck", *many)]
        # Every kernel that is loaded is rewritten, so only those that are used.
        environment = dict(self.environment, CUDA_MODULE_LOADING="LAZY")
        verdicts, failures = {}, {}
        for kind, test, wanted in cases:
            name = f"{kind} {test} {wanted.split('*')[1]} …"
            try:
                done = self.run([tool, "--tool", kind, "--error-exitcode", "9", self.program(test),
                                 f"--gtest_filter={wanted}"], 45, environment=environment)
                ran = "0 tests from 0 test suites" not in done.stdout
                verdicts[name] = "passed" if done.returncode == 0 and ran else "FAILED"
                if verdicts[name] == "FAILED":
                    failures[name] = (done.stdout + done.stderr)[:1500] + " … " + (done.stdout + done.stderr)[-1500:]
            except TimeoutError as late:
                verdicts[name] = "out of time"
                if "no time left" in str(late):
                    break
        passed = len(verdicts) == len(cases) and all(verdict == "passed" for verdict in verdicts.values())
        return {"passed": passed, "verdicts": verdicts, "failures": failures}

    def profile(self):
        """Time of the kernels of a step and their shares of the memory's and the multiprocessors' rates."""
        self.need_device()
        tool = self.tool("ncu")
        if tool is None:
            raise NotRun("ncu is not on this machine")
        metrics = ("gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,"
                   "sm__throughput.avg.pct_of_peak_sustained_elapsed,launch__registers_per_thread")
        rows = []
        # About 290 kernels make a step, 540 one of many rows, and 210 pack the weights. Skipped: a few steps of one sequence;
        # 64 prompts, which go one by one, and some steps of all; the weights and half a prompt.
        for prompt, batch, skip in [(64, 1, 3000), (64, 64, 22000), (2048, 1, 500)]:
            done = self.run([tool, "--clock-control", "none", "--metrics", metrics, "--csv", "--launch-skip", str(skip),
                             "--launch-count", "45", self.program("tutti-bench"), "local", "--model", self.model("0.6b"),
                             "--device", self.place, "--cuda-graphs", "off", "-p", str(prompt), "-b", str(batch), "-o", "40",
                             "--chunk-tokens", "2048", "--runs", "1"], 60)
            lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
            rows.append({"prompt": prompt, "batch": batch, "csv": lines, "error": "" if lines else done.stdout[-1000:]})
        return {"passed": all(row["csv"] for row in rows), "profiles": rows}

    def one_voice(self):
        self.need_device(or_rehearse=True)
        prompts = [[(7 * i + 13 * j) % 150000 for j in range(5 + 37 * i % 300)] for i in range(64)]
        first = self.ask("0.6b", 1, 1, prompts[:8], 24, 512)
        cases = {"64 at once": self.ask("0.6b", 1, 64, prompts, 24, 512),
                 "64 at once without graphs": self.ask("0.6b", 1, 64, prompts, 24, 512, graphs="off"),
                 "64 at once without early kernels": self.ask("0.6b", 1, 64, prompts, 24, 512, early="off"),
                 "steps of 64 rows": self.ask("0.6b", 1, 64, prompts, 24, 64),
                 "2 workers on the GPU": self.ask("0.6b", 2, 64, prompts, 24, 512)}
        different = [name for name, answers in cases.items() if answers[:8] != first]
        whole = cases["64 at once"]
        different += [name for name, answers in cases.items() if answers != whole]
        return {"passed": not different, "different": sorted(set(different)), "sequences": len(prompts)}

    def against_pytorch(self):
        self.need_device(or_rehearse=True)
        prompt = [(7 * j) % 150000 for j in range(200)]
        tokens, logprobs = self.ask("0.6b", 1, 1, [prompt], 16, 512)[0]
        return self.torch("compare_logprobs", 90, model=self.model("0.6b"), prompt=prompt, tokens=tokens, logprobs=logprobs)

    def bench_ours(self):
        self.need_device(or_rehearse=True)
        rows, errors = [], []
        first = self.loads[0]
        cases = [(load, "on", "on") for load in self.loads] + [(first, "on", "off"), (first, "off", "on"), (first, "off", "off")]
        for (prompt, batch, output), graphs, early in cases:
            command = [self.program("tutti-bench"), "local", "--model", self.model("8b"), "--device", self.place,
                       "-p", str(prompt), "-b", str(batch), "-o", str(output), "--chunk-tokens", "2048", "--runs", "2",
                       "--cuda-graphs", graphs, "--cuda-early-kernels", early, "--json"]
            try:
                rows.append(json.loads(self.run(command, 90, check=True).stdout))
            except (RuntimeError, TimeoutError, ValueError) as error:
                errors.append(str(error)[-1500:])
        return {"passed": not errors, "rows": rows, "error": "; ".join(errors)} if errors else {"rows": rows}

    def cublas_class(self):
        """The class that multiplies many rows by cuBLASLt: it serves where it is named, says that it is not exact, is near the
        exact class, and has the exact class's bits where rows are few; its products and its prompts beside the exact class's."""
        self.need_device(or_rehearse=True)
        environment, small = self.cublaslt(), ["--hidden", "64", "--ffn", "96", "--heads", "4", "--kv-heads", "2"]
        bench = [self.program("products_bench"), "--device", self.place, *(small if self.rehearse else [])]
        short = ["--rows", "16", "--repeat", "1"]
        exact = json.loads(self.run([*bench, *short], 60, check=True).stdout.splitlines()[0])["class"]
        named = "cpu-f32" if self.rehearse else exact + "-cublas"
        result = {"class": named, "rows": [], "prompts": []}
        bench += ["--numerics-class", named, *(short if self.rehearse else [])]
        first, *rows = [json.loads(line) for line in
                        self.run(bench, 60, check=True, environment=environment).stdout.splitlines()]
        result["remark"] = first["remark"]
        result["rows"] = [dict(row, kernels=named) for row in rows]
        prompts = [[(11 * i + 5 * j) % 150000 for j in range(2 * LIBRARY_ROWS + 9 * i)] for i in range(16)]
        ours = self.ask("0.6b", 1, 1, prompts, 8, 2048, numerics=exact)
        theirs = self.ask("0.6b", 1, 1, prompts, 8, 2048, numerics=named, environment=environment)
        result["exact"] = [one.get("exact") for one in self.status["pipelines"]]
        few = self.ask("0.6b", 1, 1, prompts[:4], 8, LIBRARY_ROWS // 2, numerics=named, environment=environment)
        result["same_tokens"] = sum(a[0] == b[0] for a, b in zip(ours, theirs)) / len(prompts)
        pairs = [(a[1][0], b[1][0]) for a, b in zip(ours, theirs) if a[0][0] == b[0][0]]
        result["worst_relative_difference"] = max((abs(a - b) / max(1, abs(a)) for a, b in pairs), default=None)
        # Greedy tokens of random weights may change places where two are as likely; of most prompts they do not.
        wrong = {"it is said to be exact": not self.rehearse and any(said is not False for said in result["exact"]),
                 "first tokens differ": len(pairs) < len(prompts) / 2,
                 "first tokens are not near": bool(pairs) and result["worst_relative_difference"] > NEAR,
                 "few rows have other bits": not self.rehearse and few != ours[:4]}
        for prompt, batch, output in [load for load in self.loads if load[0] >= LIBRARY_ROWS] or self.loads[:1]:
            for numerics in (exact, named):
                command = [self.program("tutti-bench"), "local", "--model", self.model("0.6b"), "--device", self.place, "-p",
                           str(prompt), "-b", str(batch), "-o", str(min(output, 16)), "--chunk-tokens", "2048", "--runs", "2",
                           "--numerics-class", numerics, "--json"]
                result["prompts"].append(json.loads(self.run(command, 60, check=True, environment=environment).stdout))
        result["error"] = "; ".join(what for what, is_so in wrong.items() if is_so)
        return dict(result, passed=not result["error"])

    def bench_transformers(self):
        self.need_device(or_rehearse=True)
        return self.torch("time_transformers", 180, model=self.model("8b"), loads=self.loads)

    def price_of_one_voice(self):
        """What the fastest product of cuBLASLt takes for the shapes of the 8B model, through PyTorch; ours are in bench_ours
        and in profile."""
        self.need_device()
        return self.torch("time_products", 60)
