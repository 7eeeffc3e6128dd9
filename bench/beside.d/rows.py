"""The rows of the comparison: what each program does in a round. A measurement returns one value for each figure."""
import load
import programs
import readings
from report import Figure, Row

ANSWER_TOKENS = 64
BATCH_PROMPT = 128
PARALLEL = 8
SERVER_PROMPT = 512


def _one(value):
    return [value]


class Prefill:
    """One prompt, nothing generated."""

    def __init__(self, tokens):
        self.name, self.tokens = f"prefill-{tokens}", tokens

    def figures(self):
        return [Figure("prompt", "tokens/s", "more")]

    def tutti(self, tutti):
        return _one(tutti.local("prefill", self.tokens, 2, 1))

    def llama(self, llama):
        return _one(llama.bench(prompt=self.tokens))


class Decode:
    """One stream, after so many tokens."""

    def __init__(self, depth):
        self.name, self.depth = f"decode-{depth}", depth

    def figures(self):
        return [Figure("answer", "tokens/s", "more")]

    def tutti(self, tutti):
        return _one(tutti.local("decode", max(self.depth, 1), ANSWER_TOKENS, 1))

    def llama(self, llama):
        return _one(llama.bench(generated=ANSWER_TOKENS, depth=self.depth))


class Streams:
    """Several streams that decode together, after short prompts."""

    def __init__(self, count):
        self.name, self.count = f"streams-{count}", count

    def figures(self):
        return [Figure("answers together", "tokens/s", "more")]

    def tutti(self, tutti):
        return _one(tutti.local("decode", BATCH_PROMPT, ANSWER_TOKENS, self.count))

    def llama(self, llama):
        return _one(llama.batched(self.count, BATCH_PROMPT, ANSWER_TOKENS))


def _server_values(address, program, vocabulary, seed):
    """One request to warm up, then PARALLEL at once."""
    load.ask(address, [load.prompt_of(seed, 32, vocabulary)], 4, program.extra_fields)
    prompts = [load.prompt_of(seed * 100 + i + 1, SERVER_PROMPT, vocabulary) for i in range(PARALLEL)]
    got = load.ask(address, prompts, ANSWER_TOKENS, program.extra_fields)
    return [got["ttft"], got["gap"], got["tokens/s"]]


class Server:
    """Prompts at once over HTTP, the same client for both."""

    name = "server"

    def __init__(self):
        self.asked = 0
        self.vocabulary = 0

    def figures(self):
        return [Figure("first token, median", "s", "less"), Figure("longest gap", "s", "less"),
                Figure("answers together", "tokens/s", "more")]

    def tutti(self, tutti):
        self.vocabulary = tutti.vocabulary
        self.asked += 1
        with tutti.server() as address:
            return _server_values(address, tutti, self.vocabulary, self.asked)

    def llama(self, llama):
        with llama.server(PARALLEL) as address:
            return _server_values(address, llama, self.vocabulary, max(self.asked, 1))


class Layers:
    """Two processes of half the threads, the layers split between them."""

    name = "layers-2"

    def figures(self):
        return [Figure("prompt of 512", "tokens/s", "more"), Figure(f"{PARALLEL} answers together", "tokens/s", "more")]

    def tutti(self, tutti):
        half = max(1, tutti.threads // 2)
        with tutti.server(workers=2, threads=half) as address:
            load.ask(address, [load.prompt_of(1, 32, tutti.vocabulary)], 4, {})
            prompt = load.ask(address, [load.prompt_of(2, SERVER_PROMPT, tutti.vocabulary)], 2, {})
            # Long enough that all generate together for most of the time.
            prompts = [load.prompt_of(100 + i, BATCH_PROMPT, tutti.vocabulary) for i in range(PARALLEL)]
            answers = load.ask(address, prompts, 2 * ANSWER_TOKENS, {})
        if not answers["together"]:
            raise readings.ReadingError("some answers ended before others began")
        return [SERVER_PROMPT / prompt["ttft"], answers["together"]]

    def llama(self, llama):
        half = max(1, llama.threads // 2)
        with llama.rpc_workers(2, half) as addresses:
            more = ["--rpc", addresses, "-ngl", "99", "-ts", "1,1"]
            return [llama.bench(prompt=SERVER_PROMPT, threads=half, more=[*more[:-1], "1/1"]),
                    llama.batched(PARALLEL, BATCH_PROMPT, ANSWER_TOKENS, threads=half, more=more)]


def needs(row):
    """The programs of llama.cpp without which the row is skipped, each by any of its names."""
    if isinstance(row, Streams):
        return [("llama-batched-bench",)]
    if isinstance(row, Server):
        return [("llama-server",)]
    if isinstance(row, Layers):
        return [("llama-bench",), ("llama-batched-bench",), ("rpc-server", "ggml-rpc-server")]
    return [("llama-bench",)]


def all_rows():
    return [Prefill(512), Prefill(2048), Decode(0), Decode(512), Decode(2048), Streams(8), Streams(16), Server(), Layers()]


def measure(row, rounds, tutti, llama, say):
    """Both programs in turn, the order changing from round to round; probes before, between and after."""
    done = Row(row.name, row.figures())
    for names in needs(row):
        if programs.find(llama.folder, *names) is None:
            done.skipped = f"no {' or '.join(names)} in {llama.folder}"
            return done
    for number in range(rounds):
        values = {}
        sides = [("tutti", lambda: row.tutti(tutti)), ("llama.cpp", lambda: row.llama(llama))]
        # The server row asks both the same: who is first decides the prompts.
        for name, side in sides if number % 2 == 0 else sides[::-1]:
            done.probes.append(tutti.probe())
            values[name] = side()
        done.probes.append(tutti.probe())
        for figure, ours, theirs in zip(done.figures, values["tutti"], values["llama.cpp"]):
            figure.add(ours, theirs)
        say(f"{row.name}, round {number + 1} of {rounds}: " + "; ".join(
            f"{figure.name} {figure.ours[-1]:.4g} against {figure.theirs[-1]:.4g} {figure.unit}"
            for figure in done.figures))
    return done
