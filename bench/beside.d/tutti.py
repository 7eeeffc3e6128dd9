"""Tutti's side: its forward pass in one process, and its service over HTTP."""
import contextlib
import re

import load
import programs
import readings
import work as works


# tutti up starts those beside it.
PROGRAMS = ("tutti", "tutti-bench", "tutti-coordinator", "tutti-gateway", "tutti-worker")


class Tutti:
    """One numerics class of it; "": the one that it would choose."""

    def __init__(self, folder, model, threads, vocabulary, numerics_class=""):
        self.folder, self.model, self.threads, self.vocabulary = folder, model, threads, vocabulary
        self.numerics_class = numerics_class
        self.name = f"tutti {numerics_class}".strip()
        self.settings = {"numerics_class": numerics_class or "its own choice"}
        for program in PROGRAMS:
            if programs.find(folder, program) is None:
                raise programs.ProgramError(f"no {program} in {folder}: build it (tools/build release {program}) or name "
                                            f"the folder with --tutti")

    def start(self):
        version = re.match(r"\S.*", programs.output_of([programs.find(self.folder, "tutti"), "--version"]))
        self.settings["version"] = version.group(0) if version else "unknown"

    def end(self):
        pass

    def lacks(self, _work):
        return ""

    def measure(self, work, number):
        return getattr(self, work.kind)(work, number)

    def prompt(self, work, _number):
        return [self._local("prefill", work.prompt, 2, 1)]

    def answer(self, work, _number):
        return [self._local("decode", work.prompt, work.answer, 1)]

    def together(self, work, _number):
        return [self._local("decode", work.prompt, work.answer, work.count)]

    def server(self, work, number):
        with self._serving() as address:
            return load.ask_server(address, work, number, self.vocabulary, {})

    def layers(self, work, number):
        half = max(1, self.threads // 2)
        with self._serving(workers=2, threads=half) as address:
            load.ask(address, works.warm_up_prompts(self.vocabulary), works.WARM_UP_ANSWER, {})
            prompt = load.ask(address, work.prompts(number, self.vocabulary, count=1), 2, {})
            # Long enough that all generate together for most of the time.
            answers = load.ask(address, work.prompts(number, self.vocabulary, prompt=work.short_prompt), 2 * work.answer, {})
        if not answers["together"]:
            raise readings.ReadingError("some answers ended before others began")
        return [work.prompt / prompt["ttft"], answers["together"]]

    def _class_flags(self):
        return ["--numerics-class", self.numerics_class] if self.numerics_class else []

    def _local(self, field, prompt, output, batch):
        return readings.tutti_local(programs.output_of(
            [programs.find(self.folder, "tutti-bench"), "local", "--model", self.model, "--device", "cpu", "--threads",
             str(self.threads), "--prompt-tokens", str(prompt), "--output-tokens", str(output), "--batch", str(batch),
             "--runs", "1", "--json", *self._class_flags()]), field)

    @contextlib.contextmanager
    def _serving(self, workers=1, threads=None, kv_tokens=8192):
        address = f"127.0.0.1:{programs.free_port()}"
        command = [programs.find(self.folder, "tutti"), "up", "--model", self.model, "--device", "cpu", "--workers",
                   str(workers), "--threads-per-worker", str(threads or self.threads), "--kv-tokens", str(kv_tokens),
                   "--listen", "127.0.0.1:0", "--http", address, "--drain-timeout", "0", *self._class_flags()]
        with programs.running(command, programs.answers_http(address, "/ready")):
            yield address


class Probe:
    """Reads and register-only products of this machine, now."""

    def __init__(self, folder, threads):
        program = programs.find(folder, "kernels_bench")
        if program is None:
            raise programs.ProgramError(f"no kernels_bench in {folder}: build it (tools/build release kernels_bench) or "
                                        f"name the folder with --tutti")
        self.command = [program, "--threads", str(threads), "--filter", "the probes alone"]

    def take(self):
        return readings.probe(programs.output_of(self.command))
