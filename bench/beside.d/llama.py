"""llama.cpp's side: its own measuring programs, and its server over HTTP."""
import contextlib
import os

import load
import programs
import readings

NEEDS = {"prompt": [("llama-bench",)], "answer": [("llama-bench",)], "together": [("llama-batched-bench",)],
         "server": [("llama-server",)],
         "layers": [("llama-bench",), ("llama-batched-bench",), ("rpc-server", "ggml-rpc-server")]}


class Llama:
    name = "llama.cpp"

    def __init__(self, folder, gguf, threads, vocabulary):
        self.folder, self.gguf, self.threads, self.vocabulary = folder, gguf, threads, vocabulary
        self.settings = {"gguf": os.path.basename(gguf)}
        for what, there in (("folder", os.path.isdir(folder)), ("file", os.path.isfile(gguf))):
            if not there:
                raise programs.ProgramError(f"no {what} {folder if what == 'folder' else gguf}")

    def start(self):
        pass

    def end(self):
        pass

    def lacks(self, work):
        """Why it cannot do this work; "": it can."""
        for names in NEEDS[work.kind]:
            if programs.find(self.folder, *names) is None:
                return f"no {' or '.join(names)} in {self.folder}"
        return ""

    def measure(self, work, number):
        return getattr(self, work.kind)(work, number)

    def prompt(self, work, _number):
        return [self._bench(prompt=work.prompt)]

    def answer(self, work, _number):
        return [self._bench(generated=work.answer, depth=work.depth)]

    def together(self, work, _number):
        return [self._batched(work.count, work.prompt, work.answer)]

    def server(self, work, number):
        with self._serving(work.count) as address:
            return load.ask_server(address, work, number, self.vocabulary, {"cache_prompt": False})

    def layers(self, work, _number):
        half = max(1, self.threads // 2)
        with self._rpc_workers(2, half) as addresses:
            more = ["--rpc", addresses, "-ngl", "99", "-ts"]
            return [self._bench(prompt=work.prompt, threads=half, more=[*more, "1/1"]),
                    self._batched(work.count, work.short_prompt, work.answer, threads=half, more=[*more, "1,1"])]

    def _program(self, *names):
        return programs.find(self.folder, *names)

    def _bench(self, prompt=0, generated=0, depth=0, threads=None, more=()):
        sizes = {"prompt": prompt, "generated": generated, "depth": depth}
        command = [self._program("llama-bench"), "-m", self.gguf, "-t", str(threads or self.threads), "-p", str(prompt),
                   "-n", str(generated), "-r", "1", "-o", "json", *more]
        return readings.llama_bench(programs.output_of(command + (["-d", str(depth)] if depth else [])), **sizes)

    def _batched(self, sequences, prompt, generated, threads=None, more=()):
        context = sequences * (prompt + generated) + 256
        return readings.llama_batched(programs.output_of(
            [self._program("llama-batched-bench"), "-m", self.gguf, "-t", str(threads or self.threads), "-tb",
             str(threads or self.threads), "-c", str(context), "-b", "2048", "-ub", "512", "-npp", str(prompt), "-ntg",
             str(generated), "-npl", str(sequences), *more]), sequences)

    @contextlib.contextmanager
    def _serving(self, parallel, kv_tokens=8192):
        port = programs.free_port()
        command = [self._program("llama-server"), "-m", self.gguf, "-t", str(self.threads), "-tb", str(self.threads), "-c",
                   str(kv_tokens), "--parallel", str(parallel), "--host", "127.0.0.1", "--port", str(port)]
        with programs.running(command, programs.answers_http(f"127.0.0.1:{port}", "/health")):
            yield f"127.0.0.1:{port}"

    @contextlib.contextmanager
    def _rpc_workers(self, count, threads):
        """Their addresses, as llama-bench's --rpc takes them."""
        with contextlib.ExitStack() as stack:
            ports = [programs.free_port() for _ in range(count)]
            for port in ports:
                command = [self._program("rpc-server", "ggml-rpc-server"), "-H", "127.0.0.1", "-p", str(port), "-t", str(threads)]
                stack.enter_context(programs.running(command, programs.answers_tcp(port)))
            yield ",".join(f"127.0.0.1:{port}" for port in ports)
