"""The steps of gpu_check that find out whether all is right, each a method that returns what it found."""
import datetime
import os

import processes
import settings
import suites
from benches import Benches
from processes import NotRun
from settings import KERNEL_TESTS, NCCL_TEST


class Check(Benches):
    """Each step returns a dictionary for the results; `passed` is true unless it says otherwise."""

    def device(self):
        """Opens the plug-in, as a worker would. Everything after this depends on it."""
        if self.rehearse == "cpu":
            raise NotRun("a rehearsal on the CPU")
        test = self.program("kernels_conformance_test")
        ended = self.attempt([test, "--gtest_filter=CudaTest.*"], settings.DEVICE_S * self.patience)
        if ended.why or ended.stuck:
            self.no_device = "the driver does not answer"
            raise TimeoutError(f"the driver does not answer: the first test of a GPU {ended.why}. {ended.stuck} {ended.text[-1000:]}")
        if ended.returncode != 0:
            self.no_device = "the plug-in could not be opened, see the step `device`"
            raise RuntimeError(f"{processes.how(ended.returncode)}: {ended.text[-2000:]}")
        self.no_device = ended.stdout.partition("Skipped\n")[2].partition("[  SKIPPED ]")[0].strip()
        self.need_device()
        return {}

    def facts(self):
        """Whatever of it can be had."""
        def ask(*command, environment=self.theirs):
            try:
                ended = self.attempt(list(command), 15, environment=environment)
                return ended.stdout.strip() or ended.why
            except (OSError, NotRun) as error:
                return str(error)
        fields = "name,driver_version,memory.total,memory.used,compute_cap,clocks.max.sm,clocks.max.mem,power.limit"
        facts = {"date": datetime.date.today().isoformat(), "processors": os.cpu_count(),
                 "gpu": ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"),
                 "wgmma": os.environ.get("TUTTI_WGMMA", "as the device says"), "rehearsal": self.rehearse}
        for name in ("compute-sanitizer", "ncu", "nvcc"):
            try:
                facts[name] = self.tool(name)
            except NotRun as reason:
                facts[name] = str(reason)
        facts["build"] = ask(os.path.join(self.folder, "tutti-worker"), "--version", environment=self.environment)
        return facts

    def suites(self, tests, wanted, seconds):
        """Runs the part of each test that `wanted` filters, which must not be empty."""
        self.need_device()
        found = {}
        # All kernels are there before the first test.
        environment = dict(self.environment, CUDA_MODULE_LOADING="EAGER")
        if self.rehearse:
            environment.update(GTEST_TOTAL_SHARDS=str(settings.REHEARSED_SHARDS), GTEST_SHARD_INDEX="0")
        for test in tests:
            try:
                program = self.program(test)
            except NotRun as reason:
                found[test] = {"passed": False, "problem": f"not run: {reason}"}
                continue
            found[test] = suites.run_suite(lambda command, limit: self.attempt(command, limit, environment, self.quiet),
                                           [program], wanted, seconds * self.patience)
        return {"passed": all(one["passed"] for one in found.values()), "suites": found}

    def conformance(self):
        return self.suites(KERNEL_TESTS, "*cuda*", 60)

    def golden(self):
        """Logits of whole models against transformers."""
        return self.suites(["golden_test"], "*cuda_0*", 60)

    def graphs(self):
        """Steps of one shape are replayed, with the bits of kernels started one by one."""
        return self.suites(["graphs_test"], "GraphsTest.*", 60)

    def one_voice_steps(self):
        """Bits over batches, chunks, stages, ranks and block sizes, in one process."""
        return self.suites(["one_voice_test"], "*cuda_0*", 75)

    def plan_proof(self):
        """What a plan promises of this kind of device is what shards of every family hold, to the byte."""
        return self.suites(["plan_proof_test"], "*cuda_0*", 75)

    def nccl(self):
        """The real library with the one GPU there is: a group of one rank, a gather, a send to itself, giving up."""
        self.need_device()
        environment = self.with_libraries()
        environment["TUTTI_TEST_NCCL_TWO_RANKS"] = "1"
        emulated = self.rehearse == "emulated"
        test = self.program(os.path.join(settings.EMULATED, settings.EMULATED_NCCL_TEST) if emulated else NCCL_TEST)
        found = suites.run_suite(lambda command, limit: self.attempt(command, limit, environment, self.quiet), [test], "*", 45)
        library = environment.get("TUTTI_NCCL_LIBRARY", "libnccl.so.2")
        return {"passed": found["passed"], "library": library, "suites": {NCCL_TEST: found}}

    def one_voice(self):
        """Answers of clusters are the same for any load, kernels and layout. Compared as far as they came."""
        self.need_device(or_cpu=True)
        count, tokens, vocabulary = (6, 4, 2000) if self.rehearse else (settings.VOICES, 24, 150000)
        length = 30 if self.rehearse else 300
        prompts = [[(7 * i + 13 * j) % vocabulary for j in range(5 + 37 * i % length)] for i in range(count)]
        errors, answers = {}, {}
        cases = {"8 one by one": (1, 1, prompts[:8], 512, []), "all at once": (1, count, prompts, 512, []),
                 "2 workers on the GPU": (2, count, prompts, 512, []),
                 "all at once without graphs": (1, count, prompts, 512, ["--cuda-graphs", "off"]),
                 "all at once without early kernels": (1, count, prompts, 512, ["--cuda-early-kernels", "off"]),
                 "steps of 64 rows": (1, count, prompts, 64, [])}
        for name, (workers, concurrency, wanted, rows, flags) in cases.items():
            said = self.collect(errors, name, self.ask, workers, concurrency, wanted, tokens, rows, flags)
            if said is not None:
                answers[name] = said
        different = []
        for number in range(count):
            said = {name: answer[number] for name, answer in answers.items() if number < len(answer)}
            first = next(iter(said.values()), None)
            different += [f"prompt {number}, {name}" for name, answer in said.items() if answer != first]
        return {"passed": not errors and not different, "compared": list(answers), "different": different[:20],
                "errors": errors, "sequences": count}

    def codes(self):
        """Weights of 4 and 8 bits: the bits of their products, one voice of a model whose codes are made while it loads, and
        the time of an 8B model's products."""
        self.need_device(or_cpu=True)
        result, errors = {"rows": []}, {}
        if self.rehearse != "cpu":
            result["suites"] = self.suites([settings.CODES_TEST], "*cuda*", 40)["suites"]
        scheme = settings.TINY_CODES_SCHEME if self.rehearse else settings.CODES_SCHEME
        prompts = [[(7 * i + 13 * j) % 2000 for j in range(5 + 37 * i % 30)] for i in range(4 if self.rehearse else 16)]
        said = [self.collect(errors, name, self.ask, workers, concurrency, prompts, 4, rows, ["--quantize", scheme])
                for name, workers, concurrency, rows in [("all at once", 1, len(prompts), 512), ("2 workers, one by one", 2, 1, 64)]]
        different = [number for number, (one, other) in enumerate(zip(*(answer or [] for answer in said))) if one != other]
        for codes in settings.CODES:
            rows = settings.TINY_ROWS if self.rehearse else settings.CODES_ROWS
            command = [self.program("products_bench"), "--device", self.place, "--codes", codes, "--rows", *map(str, rows),
                       *(settings.TINY_PRODUCTS if self.rehearse else [])]
            result["rows"] += self.bench_lines(command, 20, errors, codes)[1:]
        good = all(suite["passed"] for suite in result.get("suites", {}).values())
        return dict(result, different=different, errors=errors, passed=good and not errors and not different)

    def against_pytorch(self):
        self.need_device(or_cpu=True)
        prompt = [(7 * j) % (2000 if self.rehearse else 150000) for j in range(200)]
        tokens, logprobs = self.ask(1, 1, [prompt], 4 if self.rehearse else 16, 512)[0]
        return self.torch("compare_logprobs", 60, model=self.model("0.6b"), prompt=prompt, tokens=tokens, logprobs=logprobs)

    def sanitizer(self):
        """Out-of-bounds accesses, races through shared memory, barriers that some threads miss, memory read before it is
        written: over small cases."""
        self.need_device()
        tool = self.tool("compute-sanitizer")
        attention = ("kernels_attention_test", "*LaterInfinities*cuda*:*BlocksMayBeShared*cuda*:*ATileOfNothing*cuda*")
        products = ("kernels_matmul_test", "*LeavesAddUp*cuda*:*StacksParts*cuda*:*SomeClassesRound*cuda*")
        many = ("kernels_matmul_test", "*ManyRows*cuda*")
        codes = (settings.CODES_TEST, "*OneScale*cuda*:*StacksParts*cuda*")
        rows = ("kernels_conformance_test", "*RmsNorm*cuda*:*TopCandidates*cuda*:*ArgMax*cuda*:*SelectExperts*cuda*")
        cases = [("memcheck", *attention), ("racecheck", *attention), ("memcheck", *products), ("racecheck", *products),
                 ("racecheck", *rows), ("memcheck", *rows), ("synccheck", *attention), ("initcheck", *products),
                 ("memcheck", *many), ("synccheck", *many), ("memcheck", *codes), ("racecheck", *codes)]
        # Every kernel that is loaded is rewritten, so only those that are used; and the probe of wgmma has 400 million sums.
        lazy = dict(self.environment, CUDA_MODULE_LOADING="LAZY")
        verdicts, failures = {}, {}
        for kind, test, wanted in cases[:2] if self.rehearse else cases:
            name = f"{kind} {test} {wanted.split('*')[1]} …"
            environment = lazy if wanted == many[1] else dict(lazy, TUTTI_WGMMA="off")
            try:
                ended = self.attempt([tool, "--tool", kind, "--error-exitcode", "9", self.program(test),
                                      f"--gtest_filter={wanted}"], 40 * self.patience, environment=environment)
            except NotRun as reason:
                verdicts[name] = f"not run: {reason}"
                continue
            progress = suites.Progress(ended.stdout)
            good = not ended.why and ended.returncode == 0 and "OK" in progress.verdicts.values()
            verdicts[name] = "passed" if good else f"FAILED: {ended.why or processes.how(ended.returncode)}"
            if not good:
                failures[name] = ended.text[:1500] + " … " + ended.text[-1500:]
        return {"passed": all(verdict == "passed" for verdict in verdicts.values()), "verdicts": verdicts, "failures": failures}
