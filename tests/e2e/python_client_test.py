#!/usr/bin/env python3
"""The Python client against real processes: connections that are cut and coordinators that are killed while it streams,
every answer held to that of an undisturbed call.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/python_client_test.py
"""
import asyncio
import json
import os
import signal
import socket
import sys
import threading
import unittest

from harness import PATIENCE_S, SOURCE, Cluster, wait_until

sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import tutti as client_package

Client, AsyncClient = client_package.Client, client_package.AsyncClient
PATIENT = client_package.RetryPolicy(tries=1000, total_s=PATIENCE_S, max_delay_s=0.2)
# Greedy and drawn, one output and several, with penalties, alternatives and a stop string.
REQUESTS = [
    {"prompt": "12+30=", "max_tokens": 300, "temperature": 0.0, "seed": 1, "ignore_eos": True},
    {"prompt": "12", "max_tokens": 300, "temperature": 1.0, "seed": 4, "n": 2, "ignore_eos": True,
     "logprobs": True, "top_logprobs": 3},
    {"prompt": "7+8=", "max_tokens": 300, "temperature": 1.2, "seed": 9, "ignore_eos": True,
     "repetition_penalty": 1.1, "frequency_penalty": 0.3, "logprobs": True},
    {"prompt": "5", "max_tokens": 300, "temperature": 1.0, "seed": 2, "ignore_eos": True, "stop": ["99", "never"]},
]


class Relay:
    """Stands before an address; cut() resets every connection that goes through it."""

    def __init__(self, address):
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                ours, _ = self.listener.accept()
            except OSError:
                return
            try:
                theirs = socket.create_connection((self.host, self.port))
            except OSError:
                ours.close()
                continue
            with self.lock:
                self.sockets += [ours, theirs]
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self.carry, args=(source, target), daemon=True).start()

    @staticmethod
    def carry(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            cutting, self.sockets = self.sockets, []
        for end in cutting:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def close(self):
        self.listener.close()
        self.cut()


def whole(chunks):
    """What may not differ: per output ids, log-probabilities, text and end."""
    outputs = {}
    for chunk in chunks:
        tokens, texts, ends = outputs.setdefault(chunk.output, ([], [], []))
        tokens += chunk.tokens
        texts.append(chunk.text)
        if chunk.finish:
            ends.append((chunk.finish.reason, chunk.finish.stop, chunk.finish.seed,
                         chunk.finish.usage.completion_tokens))
    return {output: (tokens, "".join(texts), ends) for output, (tokens, texts, ends) in outputs.items()}


class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--kv-tokens", "16384")
        cls.addClassCleanup(cls.cluster.cleanup)
        with Client(cls.cluster.address) as client:
            with client.generate("1", max_tokens=1) as stream:
                list(stream)
            cls.can_resume = stream.started is not None
            cls.expected = [whole(client.generate(**request)) for request in REQUESTS]

    def setUp(self):
        wait_until(self.cluster.serving, "the cluster serves")

    def need_resume(self):
        if not self.can_resume:
            self.skipTest("this build's service does not send `started`, so no stream can be gone on with")

    def stream_all(self, client, harm):
        """All requests at once, one thread each; harm(number) after each 60 tokens of the first. Times resumed."""
        streams = [client.generate(**request) for request in REQUESTS]
        results = [None] * len(streams)

        def read(number):
            chunks, count = [], 0
            try:
                for chunk in streams[number]:
                    chunks.append(chunk)
                    before, count = count // 60, count + len(chunk.tokens)
                    if number == 0 and count // 60 > before and count < 240:
                        harm(count // 60)
                results[number] = whole(chunks)
            except client_package.TuttiError as error:
                results[number] = error

        threads = [threading.Thread(target=read, args=(number,)) for number in range(len(streams))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(results == self.expected, self.differences(results))
        return sum(stream.resumed for stream in streams)

    def differences(self, results):
        """Short, unlike the lists of tokens themselves."""
        said = []
        for number, (result, expected) in enumerate(zip(results, self.expected)):
            if not isinstance(result, dict):
                said.append(f"request {number}: {result}")
            elif result != expected:
                said += [f"request {number} output {output}: tokens {result.get(output, '?')[0] == expected[output][0]}, "
                         f"text {result.get(output, '??')[1] == expected[output][1]}, "
                         f"ends {result.get(output, '???')[2]}, due {expected[output][2]}" for output in expected]
        return "; ".join(said)

    def kill_coordinator(self, *_):
        os.kill(self.cluster.children()["coordinator"], signal.SIGKILL)

    def test_the_same_answer_as_the_command(self):
        done = self.cluster.tutti("generate", "--prompt", "12+30=", "--max-tokens", "300", "--temperature", "0",
                                  "--ignore-eos", "--json")
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        tokens, text, ends = self.expected[0][0]
        self.assertEqual("".join(message.get("text", "") for message in messages), text)
        self.assertEqual([token["id"] for message in messages for token in message.get("tokens", [])],
                         [token.id for token in tokens])
        self.assertEqual(ends[0][3], 300)

    def test_a_request_outlives_the_coordinator_that_it_was_sent_to(self):
        with Client(self.cluster.address, retry=PATIENT) as client:
            stream = client.generate(**REQUESTS[0])
            self.kill_coordinator()
            result = whole(stream)
            self.assertTrue(result == self.expected[0], self.differences([result]))

    def test_ids_have_their_text(self):
        with Client(self.cluster.address, retry=PATIENT) as client:
            answer = client.complete("12+30=", max_tokens=5, temperature=0, ignore_eos=True)
            ids = [token.id for token in answer.outputs[0].tokens]
            self.assertEqual(client.detokenize(ids), answer.outputs[0].text)
            with self.assertRaisesRegex(client_package.TuttiError, r"INVALID_ARGUMENT: ids\[5\] is -1"):
                client.detokenize([*ids, -1])

    def test_a_mistake_is_told_at_once(self):
        with Client(self.cluster.address, retry=PATIENT) as client:
            with self.assertRaisesRegex(client_package.TuttiError, "INVALID_ARGUMENT: .*temperature") as caught:
                client.complete("1", temperature=-1.0)
            self.assertEqual(caught.exception.tries, 1)

    def test_cut_connections(self):
        self.need_resume()
        relay = Relay(self.cluster.address)
        self.addCleanup(relay.close)
        with Client(relay.address, retry=PATIENT) as client:
            self.assertGreater(self.stream_all(client, lambda number: relay.cut()), 2)

    def test_killed_coordinators(self):
        self.need_resume()
        with Client(self.cluster.address, retry=PATIENT) as client:
            self.assertGreater(self.stream_all(client, self.kill_coordinator), 2)

    def test_asyncio(self):
        self.need_resume()

        async def read(client, number):
            chunks = []
            async for chunk in client.generate(**REQUESTS[number]):
                chunks.append(chunk)
                if number == 0 and chunk.index == 100:
                    self.kill_coordinator()
            return whole(chunks)

        async def read_all():
            async with AsyncClient([self.cluster.address], retry=PATIENT) as client:
                return await asyncio.gather(*[read(client, number) for number in range(len(REQUESTS))])
        results = asyncio.run(read_all())
        self.assertTrue(results == self.expected, self.differences(results))


if __name__ == "__main__":
    unittest.main()
