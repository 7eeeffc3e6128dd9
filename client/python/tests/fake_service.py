"""A service whose answers are known, and whose streams break as a test wants.

Token i of output o of a seed is a digest of (seed + o, i), its log-probability another; so a client that goes on wrongly
gets other tokens. Text lags as a real one does: a token whose id is divisible by 3 shows its text with the next one.
"""
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from tutti import _messages

STOP, LENGTH = 1, 2
TOKEN = b"resume-token-"


def token_id(seed, output, index):
    return int.from_bytes(hashlib.sha256(f"{seed + output}/{index}".encode()).digest()[:2], "big")


def logprob(seed, output, index):
    return -token_id(seed + 1000, output, index) / 65536  # exact in a float


def ids_of(seed, output, count):
    return [token_id(seed, output, index) for index in range(count)]


def shown(ids, whole):
    """Of how many tokens the text is certain."""
    count = len(ids)
    while not whole and count and ids[count - 1] % 3 == 0:
        count -= 1
    return count


def text_of(ids):
    return "".join(f"<{token}>" for token in ids)


@dataclasses.dataclass
class Break:
    """What becomes of one call."""

    after: int = 0                       # messages with tokens that it sends before; none are left: the whole answer
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    details: str = "a worker was lost"
    metadata: tuple = ()
    stop: bool = False                   # the whole service goes, and says nothing
    hold: threading.Event | None = None  # it is silent until this is set, and breaks then


class Service:
    """Serves at an address until stop(). `plan`: the Break of each call, in order; after them nothing breaks."""

    def __init__(self, plan=(), *, every=None, per_message=1, tell=True, fingerprint="model-1", seed=7,
                 address="127.0.0.1:0", credentials=None):
        self.plan, self.every = list(plan), every
        self.per_message, self.tell, self.fingerprint, self.seed = per_message, tell, fingerprint, seed
        self.requests = []      # as they came
        self.keys = []          # the authorization of each, or None
        self.cancelled = threading.Event()
        self.distort = lambda number, message: [message]  # number: of the message among those with tokens, in a call
        self.after_last = None  # a Break after the last message
        self.threads = concurrent.futures.ThreadPoolExecutor(16)
        self.server = grpc.server(self.threads, options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "tutti.v1.Inference", {"Generate": grpc.unary_stream_rpc_method_handler(
                self.generate, request_deserializer=_messages.GenerateRequest.FromString,
                response_serializer=_messages.GenerateResponse.SerializeToString),
                "Detokenize": grpc.unary_unary_rpc_method_handler(
                    self.detokenize, request_deserializer=_messages.DetokenizeRequest.FromString,
                    response_serializer=_messages.DetokenizeResponse.SerializeToString)}),))
        port = (self.server.add_secure_port(address, credentials) if credentials
                else self.server.add_insecure_port(address))
        if not port:
            raise OSError(f"cannot listen at {address}")
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()
        self.threads.shutdown(wait=False)

    def generate(self, request, context):
        self.requests.append(request)
        self.keys.append(dict(context.invocation_metadata()).get("authorization"))
        context.add_callback(lambda: self.cancelled.set() if context.code() is None else None)
        breaking = self.plan.pop(0) if self.plan else self.every
        sent = 0
        for message in self.messages(request, context):
            if breaking and message.tokens and sent == breaking.after:
                self.do(breaking, context)
            yield from self.distort(sent, message) if message.tokens else [message]
            sent += bool(message.tokens)
        if self.after_last:
            self.do(self.after_last, context)

    def detokenize(self, request, context):
        self.requests.append(request)
        self.keys.append(dict(context.invocation_metadata()).get("authorization"))
        if self.plan:
            self.do(self.plan.pop(0), context)
        special = "" if request.skip_special_tokens else "<end>"
        return _messages.DetokenizeResponse(text=text_of(request.ids) + special)

    def do(self, breaking, context):
        if breaking.hold:
            breaking.hold.wait(30)
        if breaking.stop:
            ended = threading.Event()
            if context.add_callback(ended.set):
                self.server.stop(None)
                ended.wait(30)
        context.set_trailing_metadata(breaking.metadata)
        context.abort(breaking.code, breaking.details)

    def messages(self, request, context):
        """The whole answer, or the rest of it: the outputs take turns."""
        seed = request.sampling.seed if request.sampling.HasField("seed") else self.seed + len(self.requests)
        had = [[] for _ in range(request.n)]
        finished = [False] * request.n
        if request.HasField("resume"):
            if not request.resume.token.startswith(TOKEN) or len(request.resume.outputs) != request.n:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "resume: no token of this service")
            seed = int(request.resume.token[len(TOKEN):])
            for output, resumed in enumerate(request.resume.outputs):
                had[output], finished[output] = list(resumed.ids), resumed.finished
                if had[output] != ids_of(seed, output, len(had[output])):
                    context.abort(grpc.StatusCode.DATA_LOSS, "resume: other ids")
        first = _messages.GenerateResponse()
        if self.tell:
            first.started.resume_token = TOKEN + str(seed).encode()
            first.started.seed, first.started.prompt_tokens = seed, 3
            first.started.model_fingerprint, first.started.numerics_class = self.fingerprint, "cpu-f32"
            yield first
        while not all(finished):
            for output in range(request.n):
                if not finished[output]:
                    message = self.next_message(request, seed, output, had[output])
                    finished[output] = message.HasField("finish")
                    yield message

    def next_message(self, request, seed, output, had):
        # Outputs are of different lengths.
        last = request.sampling.max_tokens + output
        message = _messages.GenerateResponse(index=len(had), output=output)
        before = shown(had, False)
        for _ in range(min(self.per_message, last - len(had))):
            had.append(token_id(seed, output, len(had)))
            token = message.tokens.add(id=had[-1])
            if request.sampling.logprobs:
                token.logprob = logprob(seed, output, len(had) - 1)
                token.top.add(id=had[-1], token=b"x", logprob=token.logprob)
        message.text = text_of(had[before:shown(had, len(had) == last)])
        if len(had) == last:
            message.finish.reason, message.finish.seed = LENGTH, seed + output
            message.finish.usage.completion_tokens = last
        return message


@contextlib.contextmanager
def serving(*plan, **options):
    service = Service(plan, **options)
    try:
        yield service
    finally:
        service.stop()
