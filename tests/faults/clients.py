"""Clients of a run: each slot streams one answer after the other, notes when each message came, and has it judged."""
import itertools
import os
import threading
import time

# Without a call that waits nobody looks at a channel's sockets but gRPC's own thread, every 5 s unless told otherwise.
os.environ.setdefault("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "20")
# Of a process that ends with calls under way it says nothing that anybody needs.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from judge import Answer, judge
from stubs import GENERATE, has_field

# A dead coordinator's port is dialled again this often.
RECONNECT_MS = 50
# What a client waits after a failure before it asks again.
BACK_OFF_S = 0.05
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0),
           ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS), ("grpc.max_reconnect_backoff_ms", RECONNECT_MS),
           ("grpc.max_receive_message_length", -1)]


class Stream:
    """One answer on its way. Written by its slot's thread, read by the driver's."""

    def __init__(self, case):
        self.case = case
        self.began = time.monotonic()
        self.arrivals = []        # when each message came
        self.past_first = False   # a token has come
        self.ended = None         # when
        self.answer = Answer()
        self.resumed = 0
        self.verdict = None
        self.call = None
        self.dropped = False      # its end is not waited for, and it is not counted

    def silent_since(self):
        return self.arrivals[-1] if self.arrivals else self.began

    def longest_gap(self, begin, end):
        """Between consecutive messages, of the gaps that lie in the time from begin to end at least in part; None:
        none does."""
        marks = itertools.pairwise(list(self.arrivals))
        gaps = [later - earlier for earlier, later in marks if later > begin and earlier < end]
        return max(gaps, default=None)


class Plain:
    """A client as anybody writes it: one call, no second attempt."""

    needs = None

    def __init__(self, messages, address, binaries=None):
        self.messages = messages
        # Until something came over it. gRPC 1.51 now and then takes an errno that is not connect's for its failure
        # ("No such file or directory"), which says nothing of the service: a first connection is waited for.
        self.is_new = True
        self.channel = grpc.insecure_channel(address, options=OPTIONS)
        self.generate = self.channel.unary_stream(
            GENERATE, request_serializer=messages.GenerateRequest.SerializeToString,
            response_deserializer=messages.GenerateResponse.FromString)

    def run(self, stream, patience_s):
        self.attempt(stream, stream.case.request)

    def attempt(self, stream, request):
        """One call; whether it ended well."""
        stream.call = self.generate(request, wait_for_ready=self.is_new)
        try:
            for message in stream.call:
                self.is_new = False
                stream.arrivals.append(time.monotonic())
                stream.past_first = stream.past_first or bool(message.tokens)
                stream.answer.add(message)
                self.note(message)
            return True
        except grpc.RpcError as error:
            stream.answer.error = f"{error.code().name}: {error.details()}"
            return False

    def note(self, message):
        """For clients that keep what they need to go on."""

    def close(self):
        self.channel.close()


class Resuming(Plain):
    """A client that goes on with a broken answer, with what it has of it, until its patience ends."""

    needs = "resume"
    # How a connection's end is told. ABORTED is not: another call has taken the stream over.
    AGAIN = ("UNAVAILABLE", "UNKNOWN: Stream removed", "INTERNAL: Received RST_STREAM")

    def __init__(self, messages, addresses, binaries=None):
        first, *others = addresses.split(",")
        super().__init__(messages, first)
        self.token = b""
        # The other coordinators'; the next one is asked where the last did not answer well.
        self.clients = [Plain(messages, address) for address in others]
        self.calls = [self.generate, *(client.generate for client in self.clients)]

    def close(self):
        super().close()
        for client in self.clients:
            client.close()

    @classmethod
    def possible(cls, messages):
        return has_field(messages.GenerateRequest, "resume")

    def note(self, message):
        if message.HasField("started"):
            self.token = message.started.resume_token

    def run(self, stream, patience_s):
        self.token = b""
        wait_s = BACK_OFF_S / 5
        while not self.attempt(stream, self.request(stream)):
            if (stream.dropped or not stream.answer.error.startswith(self.AGAIN) or
                    time.monotonic() > stream.silent_since() + patience_s):
                return
            if stream.past_first and not self.token:
                stream.answer.error += " (and the service gave nothing to resume with)"
                return
            if all(output.end for output in stream.answer.outputs.values()) and self.complete(stream):
                stream.answer.error = ""
                return
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, BACK_OFF_S)
            stream.answer.error = ""
            stream.resumed += 1
            self.calls.append(self.calls.pop(0))
            self.generate = self.calls[0]

    def complete(self, stream):
        return len(stream.answer.outputs) == max(1, stream.case.request.n)

    def request(self, stream):
        if not self.token:
            return stream.case.request
        request = self.messages.GenerateRequest()
        request.CopyFrom(stream.case.request)
        request.resume.token = self.token
        for index in range(max(1, request.n)):
            output = stream.answer.outputs.get(index)
            resumed = request.resume.outputs.add()
            if output is not None:
                resumed.ids.extend(output.ids)
                resumed.finished = output.end is not None
        return request


class Clients:
    """Slots that stream without a pause, through the cases in turn, until stop()."""

    def __init__(self, make, cases, slots, patience_s):
        self.make, self.cases, self.patience_s = make, cases, patience_s
        self.next = itertools.count()
        self.lock = threading.Lock()
        self.over = False
        self.current = [None] * slots
        self.done = []
        self.broken = []  # why slots have ended by themselves
        self.threads = [threading.Thread(target=self.try_to_serve, args=(slot,), daemon=True) for slot in range(slots)]
        for thread in self.threads:
            thread.start()

    def try_to_serve(self, slot):
        try:
            self.serve(slot)
        except Exception as error:  # of this harness, which asks less from here on
            self.broken.append(f"a client's thread ended: {type(error).__name__}: {error}")
            self.current[slot] = None

    def serve(self, slot):
        client = self.make()
        while not self.over:
            with self.lock:
                case = self.cases[next(self.next) % len(self.cases)]
            stream = Stream(case)
            self.current[slot] = stream
            try:
                client.run(stream, self.patience_s)
            except Exception as error:  # of this harness: the stream is lost all the same
                stream.answer.error = f"{type(error).__name__}: {error}"
            stream.ended = time.monotonic()
            stream.verdict = judge(stream.answer, case.expected)
            # What has been judged is not needed any more; the arrivals are, for the gaps.
            failed = stream.answer.error
            stream.answer = stream.call = None
            if not stream.dropped:
                with self.lock:
                    self.done.append(stream)
            if failed:
                time.sleep(BACK_OFF_S)
        self.current[slot] = None
        client.close()

    def running(self):
        return [stream for stream in list(self.current) if stream is not None and stream.ended is None]

    def past_first(self):
        return [stream for stream in self.running() if stream.past_first]

    def end_hung(self):
        """Cancels streams that have been silent for longer than a client's patience."""
        for stream in self.running():
            if time.monotonic() > stream.silent_since() + self.patience_s and stream.call is not None:
                stream.call.cancel()

    def stop(self, since):
        """Lets streams that began before `since` come to their end, and drops the others; all streams. RuntimeError where
        a slot has ended before."""
        self.over = True
        for stream in self.running():
            if stream.began > since and stream.call is not None:
                stream.dropped = True
                stream.call.cancel()
        while any(thread.is_alive() for thread in self.threads):
            self.end_hung()
            for thread in self.threads:
                thread.join(0.05)
        if self.broken:
            raise RuntimeError("; ".join(self.broken))
        return self.done


def ask_all(make, cases, at_once):
    """The undisturbed answers of cases, which must end well."""
    waiting = iter(cases)
    lock, failures = threading.Lock(), []

    def work():
        client = make()
        while True:
            with lock:
                case = next(waiting, None)
            if case is None or failures:
                break
            stream = Stream(case)
            try:
                client.run(stream, 60)
            except Exception as error:  # of this harness
                stream.answer.error = f"{type(error).__name__}: {error}"
            case.expected = stream.answer
            if stream.answer.error or stream.answer.faults or not stream.answer.is_whole(case.request.n):
                failures.append(f"{case.name}: {stream.answer.error or 'not whole'} {stream.answer.faults}")
        client.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("undisturbed requests failed: " + "; ".join(failures))
