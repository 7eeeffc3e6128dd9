#!/usr/bin/env python3
"""tutti.v1.Inference served by a gateway, held to what the coordinator itself says: answers, refusals and their details, a
coordinator that is killed, keys over TLS, callers that do not read or send nonsense, and the gateway's end.

By hand:  TUTTI_BINARY_DIR=build/release /usr/bin/python3 tests/e2e/gateway_grpc_test.py
"""
import hashlib
import json
import os
import signal
import sys
import threading
import unittest

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from gateway_faults_test import STREAMS, Machines
from harness import PATIENCE_S, SOURCE, clean_environment, running, tutti, wait_until
from http2 import Connection, field
from http_client import Gateway
from memory import resident
from tls_test import Authority

sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
import tutti as client_package
from tutti import _messages as messages

INFERENCE = "/tutti.v1.Inference/"
MIB = 1 << 20
# Greedy and drawn, one output and several, with alternatives, penalties and a stop string.
REQUESTS = [
    {"text": "12+30=", "sampling": {"max_tokens": 60, "temperature": 0.0, "seed": 1}},
    {"text": "12", "n": 2, "sampling": {"max_tokens": 80, "temperature": 1.0, "seed": 4, "ignore_eos": True,
                                        "logprobs": True, "top_logprobs": 3}},
    {"text": "7+8=", "sampling": {"max_tokens": 80, "temperature": 1.2, "seed": 9, "ignore_eos": True,
                                  "repetition_penalty": 1.1, "logprobs": True}},
    {"chat": {"messages": [{"role": "user", "content": "What is 12 + 30?"}]},
     "sampling": {"max_tokens": 30, "temperature": 0.0, "seed": 1, "stop": ["2"]}},
]
# Each wrong in another way.
MISTAKES = [
    {"text": "a", "sampling": {"temperature": -1.0}},
    {"text": "a", "n": 65},
    {"text": "a", "model": "other"},
    {"text": "word " * 4000},
    {},
    {"token_ids": {"ids": [1, -7]}},
    {"text": "a", "request_id": "x" * 129},
    {"text": "a", "resume": {"token": b"none of ours", "outputs": [{}]}},
]
LONG = {"text": "Tell me something: ", "sampling": {"max_tokens": 400, "ignore_eos": True, "logprobs": True}}


def as_is(value):
    return value


class Caller:
    """Calls of one port by hand."""

    def __init__(self, address, credentials=None, key=None):
        # A connection of its own: one that is cut for what it sent must not be another's.
        own = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = (grpc.secure_channel(address, credentials, own) if credentials
                        else grpc.insecure_channel(address, own))
        self.metadata = [("authorization", f"Bearer {key}")] if key else []

    def close(self):
        self.channel.close()

    def generate(self, fields, timeout=PATIENCE_S, metadata=()):
        call = self.channel.unary_stream(INFERENCE + "Generate", messages.GenerateRequest.SerializeToString,
                                         messages.GenerateResponse.FromString)
        return call(messages.GenerateRequest(**fields), timeout=timeout, metadata=[*self.metadata, *metadata])

    def unary(self, method, request=b"", timeout=PATIENCE_S):
        """The answer's bytes."""
        return self.channel.unary_unary(method, as_is, as_is)(request, timeout=timeout, metadata=self.metadata)

    def whole(self, fields, **how):
        return whole(self.generate(fields, **how))

    def error(self, stream):
        """The error of a stream, or of a function that calls."""
        try:
            list(stream() if callable(stream) else stream)
        except grpc.RpcError as error:
            return error
        raise AssertionError("it was not refused")


def whole(stream):
    """What may not differ: per output ids with their log-probabilities as they came, text and end."""
    outputs = {}
    for message in stream:
        tokens, texts, ends = outputs.setdefault(message.output, ([], [], []))
        assert message.index == len(tokens) or not message.tokens, "a token came twice or is missing"
        tokens += [token.SerializeToString() for token in message.tokens]
        texts.append(message.text)
        if message.HasField("finish"):
            finish = message.finish
            ends.append((finish.reason, finish.stop, finish.seed, finish.usage.completion_tokens))
    return {output: (tokens, "".join(texts), ends) for output, (tokens, texts, ends) in sorted(outputs.items())}


def facts_of(error):
    """Code, words and details of an error; without the delay, which is drawn."""
    return error.code(), error.details(), dict(error.trailing_metadata()).get("grpc-status-details-bin")


class Grpc(Machines):
    def start_grpc(self, *arguments, tls=None, key=None):
        """(process, address for gRPC) of a gateway that serves."""
        self.gateways += 1
        name = f"gateway{self.gateways}"
        process = self.start(name, "tutti-gateway", "--coordinator", self.address, "--listen", "127.0.0.1:0",
                             "--grpc", "127.0.0.1:0", "--ready-file", self.path(name), *arguments)
        wait_until(lambda: os.path.exists(self.path(name)) or process.poll() is not None, f"{name} is written")
        with open(self.path(name), encoding="utf-8") as file:
            ready = json.load(file)
        self.http = ready["address"]
        caller = Caller(ready["grpc"], tls)
        self.addCleanup(caller.close)
        wait_until(lambda: self.health(caller) == b"\x08\x01", "the gateway serves")
        return process, ready["grpc"]

    def caller(self, address, *more):
        caller = Caller(address, *more)
        self.addCleanup(caller.close)
        return caller

    @staticmethod
    def health(caller, service=b"tutti.v1.Inference"):
        try:
            return caller.unary("/grpc.health.v1.Health/Check", field(1, service))
        except grpc.RpcError as error:
            return error.code()


class IsTheCoordinators(Grpc):
    """One cluster for all of these: nothing is harmed."""

    def test_everything(self):
        process, address = self.start_grpc()
        theirs, ours = self.caller(self.address), self.caller(address)
        for fields in REQUESTS:
            with self.subTest(fields):
                self.assertEqual(ours.whole(fields), theirs.whole(fields))
        for fields in MISTAKES:
            with self.subTest(str(fields)[:60]):
                self.assertEqual(facts_of(ours.error(ours.generate(fields))),
                                 facts_of(theirs.error(theirs.generate(fields))))
        self.methods_say_the_same(ours, theirs)
        self.nobody_says_what_only_a_gateway_may(ours)
        self.hostile_messages_are_refused(process, address, ours)
        self.a_caller_that_goes_or_has_no_time_frees_everything(ours)
        self.our_client_goes_on_over_it(address)
        self.metrics_tell()

    def methods_say_the_same(self, ours, theirs):
        for method, request in (("Tokenize", field(2, b"What is 12 + 30?")), ("Tokenize", b""),
                                ("Detokenize", field(2, b"\x01\x05\x07")), ("Detokenize", field(2, b"\xff\xff\x7f")),
                                ("GetModel", b"")):
            with self.subTest(method, request=request):
                said = []
                for caller in (ours, theirs):
                    try:
                        said.append(caller.unary(INFERENCE + method, request))
                    except grpc.RpcError as error:
                        said.append(facts_of(error))
                self.assertEqual(*said)
        self.assertEqual(self.health(ours, b""), b"\x08\x01")
        for version in ("v1", "v1alpha"):
            method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            answers = [b"".join(caller.channel.stream_stream(method, as_is, as_is)(iter([field(7, b"")])))
                       for caller in (ours, theirs)]
            for name in (b"grpc.health.v1.Health", b"tutti.v1.Inference"):
                self.assertTrue(all(name in answer for answer in answers), name)
            for name in (b"inference.GRPCInferenceService", b"vllm.grpc.engine.VllmEngine"):
                self.assertEqual([name in answer for answer in answers], [True, False], name)
                self.assertEqual(self.health(ours, name), b"\x08\x01")
        for method in ("/tutti.v1.Admin/GetStatus", "/tutti.v1.Admin/LookupPrefix", "/tutti.v1.Admin/DrainWorker"):
            self.assertEqual(ours.error(lambda m=method: ours.unary(m)).code(), grpc.StatusCode.PERMISSION_DENIED)

    def nobody_says_what_only_a_gateway_may(self, ours):
        denied = grpc.StatusCode.PERMISSION_DENIED
        short = {"text": "a", "sampling": {"max_tokens": 1}}
        self.assertEqual(ours.error(ours.generate({**short, "priority": -1})).code(), denied)
        self.assertEqual(ours.error(ours.generate({**short, "tenant": b"acme"})).code(), denied)
        named = ours.generate(short, metadata=[("x-tutti-tenant", "acme")])
        self.assertEqual(ours.error(named).code(), denied)
        self.assertEqual(len(ours.whole({**short, "priority": 7})[0][0]), 1)
        refused = Gateway(self.http).post("/v1/completions", {"prompt": "a", "max_tokens": 1, "priority": -1})
        self.assertEqual((refused.status, refused.json()["error"]["param"]), (403, "priority"))

    def hostile_messages_are_refused(self, process, address, ours):
        before = resident(process.pid)
        generate = self.caller(address).channel.unary_stream(INFERENCE + "Generate", as_is, as_is)
        for request in (b"\xff" * 100, field(3, b"\xff\xfe"), field(5, b"\x0a\x00" * (2 * MIB))):
            self.assertEqual(ours.error(generate(request)).code(), grpc.StatusCode.INVALID_ARGUMENT, request[:10])
        too_large = ours.error(generate(field(3, b"a" * (9 * MIB))))
        self.assertEqual(too_large.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        # Who does not read: each is given up, and costs little.
        slow = Connection(address, window=0)
        streams = [slow.call(INFERENCE + "Generate", field(3, b"What is 12 + 30?") + field(6, b"\x68\x01\x88\x01\x14"))
                   for _ in range(20)]
        wait_until(lambda: slow.poll(0.1) or all(stream in slow.ended for stream in streams), "the streams end")
        slow.close()
        self.assertLess(resident(process.pid) - before, 200 * MIB)
        self.assertEqual(ours.whole(REQUESTS[0]), ours.whole(REQUESTS[0]))
        self.assertTrue(running(process.pid))

    def a_caller_that_goes_or_has_no_time_frees_everything(self, ours):
        gone = ours.generate({**LONG, "sampling": {"max_tokens": 1900, "ignore_eos": True}})
        next(gone)
        gone.cancel()
        # The answer was given before: guessed from that it could be there in time.
        late = ours.generate({**LONG, "sampling": {"max_tokens": 1900, "ignore_eos": True},
                              "speculation": {"mode": "MODE_OFF"}}, timeout=0.2)
        self.assertEqual(ours.error(late).code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        wait_until(lambda: self.status()["pipelines"][0].get("running", 0) == 0, "nothing runs any more")

    def our_client_goes_on_over_it(self, address):
        """With what it has of an answer, by ids: the rest is the same."""
        with client_package.Client(address) as client:
            chunks = list(client.generate("5", max_tokens=40, temperature=1.0, seed=3, ignore_eos=True))
        ids = [token.id for chunk in chunks for token in chunk.tokens]
        asked = {"text": "5", "sampling": {"max_tokens": 40, "temperature": 1.0, "seed": 3, "ignore_eos": True}}
        ours = self.caller(address)
        token = next(iter(ours.generate(asked))).started.resume_token
        rest = ours.generate({**asked, "resume": {"token": token, "outputs": [{"ids": ids[:25]}]}})
        self.assertEqual([t.id for message in rest for t in message.tokens], ids[25:])

    def metrics_tell(self):
        text = Gateway(self.http).get("/metrics").body.decode()
        calls = next(line for line in text.splitlines() if line.startswith("tutti_gateway_grpc_calls_total "))
        self.assertGreater(float(calls.split()[1]), 20)


class CoordinatorDies(Grpc):
    def test_is_a_pause(self):
        _, address = self.start_grpc()
        ours = self.caller(address)

        def ask_all(between):
            begun, results = threading.Barrier(STREAMS + 1), [None] * STREAMS

            def ask(i):
                sampling = {**LONG["sampling"], "seed": i, "temperature": 1.0}
                stream = ours.generate({**LONG, "sampling": sampling})
                first = next(stream)
                begun.wait(PATIENCE_S)
                results[i] = whole(iter([first, *stream]))

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(STREAMS)]
            for thread in threads:
                thread.start()
            begun.wait(PATIENCE_S)
            between()
            for thread in threads:
                thread.join()
            return results

        def kill():
            self.coordinator.send_signal(signal.SIGKILL)
            self.coordinator.wait()
            self.start_coordinator()

        undisturbed = ask_all(lambda: None)
        self.assertNotIn(None, undisturbed)
        self.assertEqual(ask_all(kill), undisturbed)
        self.assertGreater(int(self.status()["requests"]["resumed"]), 0)

    def test_for_good_is_told_without_its_address(self):
        _, address = self.start_grpc("--resume-within", "0")
        ours = self.caller(address)
        stream = ours.generate({**LONG, "sampling": {"max_tokens": 1900, "ignore_eos": True}})
        next(stream)
        self.coordinator.kill()
        self.assertEqual(ours.error(stream).code(), grpc.StatusCode.UNAVAILABLE)
        wait_until(lambda: self.health(ours) == b"\x08\x02", "the gateway says that it does not serve")
        refused = ours.error(ours.generate(LONG))
        self.assertEqual(refused.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertNotIn(self.address, refused.details())


class KeysOverTls(Grpc):
    coordinator_flags = ["--public-role", "gateway"]

    def test_say_who_asks(self):
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            for tenant in ("acme", "beta"):
                file.write(f"{tenant} {hashlib.sha256(f'key-of-{tenant}'.encode()).hexdigest()}\n")
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("gateway", "gateway/front")
        with open(authority.certificate, "rb") as file:
            trust = grpc.ssl_channel_credentials(file.read())
        _, address = self.start_grpc("--api-keys", self.path("keys"), "--tls-cert", certificate, "--tls-key", key,
                                     "--log-format", "json", tls=trust)
        short = {"text": "a", "sampling": {"max_tokens": 2}}
        for wrong in (None, "key-of-nobody"):
            stranger = self.caller(address, trust, wrong)
            refused = stranger.error(stranger.generate(short))
            self.assertEqual(refused.code(), grpc.StatusCode.UNAUTHENTICATED)
            self.assertIn(b"NO_KEY", facts_of(refused)[2])
            self.assertEqual(stranger.error(lambda s=stranger: s.unary(INFERENCE + "GetModel")).code(),
                             grpc.StatusCode.UNAUTHENTICATED)
        acme = self.caller(address, trust, "key-of-acme")
        self.assertEqual(len(acme.whole(short)[0][0]), 2)
        self.assertEqual(len(acme.whole({**short, "tenant": b"acme"})[0][0]), 2)
        self.assertEqual(acme.error(acme.generate({**short, "tenant": b"beta"})).code(),
                         grpc.StatusCode.PERMISSION_DENIED)
        # The same name of two tenants is two requests.
        beta = self.caller(address, trust, "key-of-beta")
        named = {**LONG, "request_id": "mine", "sampling": {"max_tokens": 400, "ignore_eos": True, "seed": 1}}
        first = acme.generate(named)
        head = next(first)
        self.assertEqual(len(beta.whole({**named, "text": "another"})[0][0]), 400)
        self.assertEqual(len(whole(iter([head, *first]))[0][0]), 400)
        self.commands_tell_a_key(address, authority)
        self.log_has_marks()
        # Without TLS nobody is answered.
        plain = self.caller(address)
        self.assertEqual(plain.error(plain.generate(short)).code(), grpc.StatusCode.UNAVAILABLE)


    def log_has_marks(self):
        """Of a tenant its mark, always the same, and never its name."""
        with open(self.path("gateway1.log"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        ended = [line for line in lines if line["message"] == "request ended"]
        marks = {line["tenant"] for line in ended if line["request_id"] == "mine"}
        self.assertEqual(len(marks), 2, ended)
        for mark in marks:
            self.assertRegex(mark, "^[0-9a-f]{16}$")
        self.assertLessEqual({line["tenant"] for line in ended}, marks)
        for name in ("acme", "beta"):
            self.assertNotIn(name, json.dumps(ended))

    def commands_tell_a_key(self, address, authority):
        with open(self.path("key"), "w", encoding="utf-8") as file:
            file.write("key-of-beta\n")
        named = address.replace("127.0.0.1", "localhost")
        ask = ["--address", named, "--tls-ca", authority.certificate]
        for more, env, code in (([], {}, 1), (["--api-key-file", self.path("key")], {}, 0),
                                ([], {"TUTTI_API_KEY": "key-of-acme"}, 0), ([], {"TUTTI_API_KEY": "key-of-nobody"}, 1)):
            done = tutti("tokenize", *ask, *more, "--text", "12 + 30", env=clean_environment(**env))
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertNotIn("key-of", done.stderr)
            done = tutti("generate", *ask, *more, "--prompt", "a", "--max-tokens", "2", env=clean_environment(**env))
            self.assertEqual(done.returncode, code, done.stderr)
        done = tutti("tokenize", "--address", "gateway.example:1", "--text", "a", env=clean_environment(TUTTI_API_KEY="key-of-acme"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("in the clear", done.stderr)


class ToldToEnd(Grpc):
    def test_finishes_what_runs_and_says_unavailable(self):
        process, address = self.start_grpc()
        ours = self.caller(address)
        stream = ours.generate({**LONG, "sampling": {"max_tokens": 1900, "ignore_eos": True}})
        first = next(stream)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.health(ours) == b"\x08\x02", "the gateway says that it is about to end")
        codes, over = set(), threading.Event()

        def come_late():
            while not over.is_set():
                codes.add(ours.error(ours.generate({"text": "a", "sampling": {"max_tokens": 1}})).code())

        late = threading.Thread(target=come_late)
        late.start()
        self.assertEqual(len(whole(iter([first, *stream]))[0][0]), 1900)
        self.assertEqual(process.wait(PATIENCE_S), 0)
        over.set()
        late.join()
        self.assertEqual(codes, {grpc.StatusCode.UNAVAILABLE})

    def test_at_once_ends_streams_with_a_reason(self):
        process, address = self.start_grpc("--drain-timeout", "0")
        ours = self.caller(address)
        stream = ours.generate({**LONG, "sampling": {"max_tokens": 1900, "ignore_eos": True}})
        next(stream)
        process.send_signal(signal.SIGTERM)
        end = ours.error(stream)
        self.assertEqual(end.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("ending", end.details())
        self.assertEqual(process.wait(PATIENCE_S), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
