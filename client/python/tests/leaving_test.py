#!/usr/bin/env python3
"""Callers that leave, wait, or share a client: calls end when nobody wants them, and no other call with them."""
import asyncio
import gc
import os
import subprocess
import tempfile
import threading
import time
import unittest

import fake_service
import grpc
from fake_service import Break, ids_of, serving

from tutti import AsyncClient, Client, RetryPolicy, Tls, TuttiError

Code = grpc.StatusCode
QUICK = RetryPolicy(tries=8, first_delay_s=0.001, max_delay_s=0.02)
# A back-off that no test sits out.
SLOW = RetryPolicy(tries=8, total_s=1000, first_delay_s=500, max_delay_s=500)
LONG = 1_000_000
PATIENCE_S = 20


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not within the patience of the test")
        time.sleep(0.005)


class BlockingTest(unittest.TestCase):
    def start(self, service, retry=QUICK, **request):
        client = Client(service.address, retry=retry)
        self.addCleanup(client.close)
        return client.generate("hello", **{"max_tokens": LONG, **request})

    def test_a_dropped_stream_is_cancelled(self):
        with serving() as service:
            stream = self.start(service)
            next(stream)
            del stream
            gc.collect()
            self.assertTrue(service.cancelled.wait(PATIENCE_S))

    def test_a_closed_stream_is_at_its_end(self):
        with serving() as service:
            stream = self.start(service)
            next(stream)
            stream.close()
            self.assertEqual(list(stream), [])
            stream.close()

    def close_while_waiting(self, service, retry):
        stream = self.start(service, retry)
        next(stream)
        closing = threading.Timer(0.05, stream.close)
        closing.start()
        with self.assertRaisesRegex(TuttiError, "CANCELLED: the stream was closed"):
            next(stream)
        self.assertEqual(list(stream), [])
        closing.join()

    def test_closed_by_another_thread_while_it_waits_for_a_token(self):
        silence = threading.Event()
        self.addCleanup(silence.set)
        with serving(Break(1, hold=silence)) as service:
            self.close_while_waiting(service, QUICK)
            self.assertTrue(service.cancelled.wait(PATIENCE_S))

    def test_closed_by_another_thread_while_it_waits_for_the_next_try(self):
        with serving(Break(1)) as service:
            self.close_while_waiting(service, SLOW)
            self.assertEqual(len(service.requests), 1)

    def test_a_closed_client_ends_its_streams(self):
        with serving() as service:
            client = Client(service.address, retry=QUICK)
            stream = client.generate("hello", max_tokens=LONG)
            next(stream)
            client.close()
            with self.assertRaisesRegex(TuttiError, "CANCELLED"):
                for _ in stream:
                    pass
            with self.assertRaisesRegex(TuttiError, "the client is closed"):
                client.complete("hello")

    def test_what_arrived_and_was_not_handed_on_is_asked_for_again(self):
        with serving(Break(8)) as service:
            stream = self.start(service, max_tokens=12)
            chunks = [next(stream)]
            wait_until(lambda: not service.plan and service.threads._work_queue.empty())
            time.sleep(0.1)  # the messages and the status arrive
            chunks += stream
            had = len(service.requests[1].resume.outputs[0].ids)
            self.assertLessEqual(had, 8)
            self.assertEqual([token.id for chunk in chunks for token in chunk.tokens],
                             ids_of(stream.started.seed, 0, 12))

    def test_a_stream_that_breaks_does_not_touch_its_neighbours(self):
        hold = threading.Event()
        with serving(Break(2, hold=hold), Break(2), Break(99), Break(2)) as service:
            client = Client(service.address, retry=QUICK)
            self.addCleanup(client.close)
            quiet = client.generate("hello", max_tokens=4)
            chunks = [next(quiet), next(quiet)]
            for _ in range(2):  # they make new channels
                self.assertEqual(len(client.complete("hello", max_tokens=4).outputs[0].tokens), 4)
            self.assertEqual(len(service.requests), 5)
            hold.set()
            chunks += quiet
            self.assertEqual([chunk.index for chunk in chunks], [0, 1, 2, 3])
            # Only the newest is kept for the next call.
            self.assertEqual(len(client._channels._alive), 1)

    def test_many_threads_share_a_client(self):
        with serving(*[Break(at % 5) for at in range(30)]) as service:
            client = Client(service.address, retry=QUICK)
            self.addCleanup(client.close)
            done = []
            threads = [threading.Thread(target=lambda seed=seed: done.append(
                (seed, client.complete("hello", seed=seed, max_tokens=10)))) for seed in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(done), 12)
            for seed, answer in done:
                self.assertEqual([token.id for token in answer.outputs[0].tokens], ids_of(seed, 0, 10))

    def test_complete(self):
        with serving(Break(3)) as service:
            with Client(service.address, retry=QUICK) as client:
                answer = client.complete("hello", n=2, max_tokens=4)
            ids = ids_of(answer.started.seed, 0, 4)
            self.assertEqual(answer.text, fake_service.text_of(ids))
            self.assertEqual([len(output.tokens) for output in answer.outputs], [4, 5])
            self.assertEqual(answer.outputs[1].finish.usage.completion_tokens, 5)


class AsyncioTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_cancelled_task_ends_its_call(self):
        silence = threading.Event()
        self.addCleanup(silence.set)
        with serving(Break(1, hold=silence)) as service:
            async with AsyncClient(service.address, retry=QUICK) as client:
                stream = client.generate("hello", max_tokens=LONG)
                await anext(stream)
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(anext(stream), 0.05)
                self.assertTrue(await asyncio.to_thread(service.cancelled.wait, PATIENCE_S))
                self.assertEqual([chunk async for chunk in stream], [])
                # Others of the client go on.
                self.assertEqual(len((await client.complete("hello", max_tokens=3)).outputs[0].tokens), 3)
            self.assertEqual(len(service.requests), 2)

    async def close_while_waiting(self, service, retry):
        async with AsyncClient(service.address, retry=retry) as client:
            stream = client.generate("hello", max_tokens=LONG)
            await anext(stream)
            waiting = asyncio.create_task(anext(stream))
            await asyncio.sleep(0.05)
            await stream.aclose()
            with self.assertRaisesRegex(TuttiError, "CANCELLED: the stream was closed"):
                await waiting

    async def test_closed_while_it_waits_for_a_token(self):
        silence = threading.Event()
        self.addCleanup(silence.set)
        with serving(Break(1, hold=silence)) as service:
            await self.close_while_waiting(service, QUICK)
            self.assertTrue(await asyncio.to_thread(service.cancelled.wait, PATIENCE_S))

    async def test_closed_while_it_waits_for_the_next_try(self):
        with serving(Break(1)) as service:
            await self.close_while_waiting(service, SLOW)
            self.assertEqual(len(service.requests), 1)

    async def test_a_closed_client_ends_its_streams(self):
        with serving() as service:
            client = AsyncClient(service.address, retry=QUICK)
            stream = client.generate("hello", max_tokens=LONG)
            await anext(stream)
            await client.close()
            with self.assertRaisesRegex(TuttiError, "CANCELLED"):
                async for _ in stream:
                    pass

    async def test_many_tasks_share_a_client(self):
        with serving(*[Break(at % 5) for at in range(30)]) as service:
            async with AsyncClient(service.address, retry=QUICK) as client:
                answers = await asyncio.gather(*[client.complete("hello", seed=seed, max_tokens=10)
                                                 for seed in range(12)])
            for seed, answer in enumerate(answers):
                self.assertEqual([token.id for token in answer.outputs[0].tokens], ids_of(seed, 0, 10))


class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-python-")
        cls.addClassCleanup(folder.cleanup)
        cls.certificate, cls.key = (os.path.join(folder.name, name) for name in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", cls.key, "-out", cls.certificate, "-subj", "/CN=test", "-days", "2",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        with open(cls.certificate, "rb") as certificate, open(cls.key, "rb") as key:
            cls.pem = certificate.read()
            cls.credentials = grpc.ssl_server_credentials([(key.read(), cls.pem)], cls.pem, True)

    def test_both_prove_who_they_are(self):
        with serving(Break(2), credentials=self.credentials) as service:
            ours = Tls(self.certificate, self.certificate, self.key)
            with Client(service.address, tls=ours, retry=QUICK) as client:
                self.assertEqual(len(client.complete("hello", max_tokens=4).outputs[0].tokens), 4)

            async def ask():
                async with AsyncClient(service.address, tls=ours, retry=QUICK) as client:
                    return await client.complete("hello", max_tokens=4)
            self.assertEqual(len(asyncio.run(ask()).outputs[0].tokens), 4)
            with Client(service.address, tls=Tls(self.certificate), retry=QUICK) as client:
                with self.assertRaisesRegex(TuttiError, "UNAVAILABLE"):
                    client.complete("hello")

    def test_files_that_are_missing_or_incomplete(self):
        with self.assertRaises(OSError):
            Client("localhost:1", tls=Tls("/nowhere/ca.pem"))
        with self.assertRaisesRegex(ValueError, "go together"):
            Tls(self.certificate, self.certificate)


if __name__ == "__main__":
    unittest.main()
