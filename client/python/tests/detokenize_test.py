#!/usr/bin/env python3
"""Calls with one answer, of both clients: tried again as streams are, and ended as they are."""
import asyncio
import unittest

import grpc
from fake_service import Break, serving

from tutti import AsyncClient, Client, RetryPolicy, TuttiError

Code = grpc.StatusCode
QUICK = RetryPolicy(tries=3, total_s=20, first_delay_s=0.001, max_delay_s=0.02)
# One for all: gRPC 1.51 minds a loop that is closed before the process ends.
LOOP = asyncio.Runner()


def ask_blocking(addresses, *arguments, **options):
    with Client(addresses, retry=QUICK) as client:
        return client.detokenize(*arguments, **options)


def ask_asyncio(addresses, *arguments, **options):
    async def ask():
        async with AsyncClient(addresses, retry=QUICK) as client:
            return await client.detokenize(*arguments, **options)
    return LOOP.run(ask())


class Behaviour:
    """Of both clients."""

    def test_ids_have_a_text(self):
        with serving() as service:
            self.assertEqual(self.how(service.address, [3, 5]), "<3><5>")
            self.assertEqual(self.how(service.address, (7,), skip_special_tokens=False), "<7><end>")
            self.assertEqual(service.requests[0].ids, [3, 5])
            self.assertTrue(service.requests[0].skip_special_tokens)

    def test_tried_again_at_another_address(self):
        with serving(Break()) as first, serving() as second:
            self.assertEqual(self.how([first.address, second.address], [1]), "<1>")
            self.assertEqual((len(first.requests), len(second.requests)), (1, 1))

    def test_tries_end(self):
        with serving(*[Break()] * 9) as service:
            with self.assertRaisesRegex(TuttiError, "tries failed: 4"):
                self.how(service.address, [1])
            self.assertEqual(len(service.requests), 4)

    def test_what_cannot_succeed_is_not_tried_again(self):
        refused = Break(code=Code.INVALID_ARGUMENT, details="ids[0] is 9", metadata=(("grpc-retry-pushback-ms", "-1"),))
        with serving(refused) as service:
            with self.assertRaisesRegex(TuttiError, "ids.0. is 9"):
                self.how(service.address, [9])
            self.assertEqual(len(service.requests), 1)

    def test_ids_that_are_none(self):
        for ids in ([2**40], ["x"]):
            with self.assertRaises((ValueError, TypeError)):
                self.how("127.0.0.1:1", ids)


class Blocking(Behaviour, unittest.TestCase):
    how = staticmethod(ask_blocking)

    def test_a_closed_client(self):
        client = Client("127.0.0.1:1")
        client.close()
        with self.assertRaisesRegex(TuttiError, "CANCELLED"):
            client.detokenize([1])


class Asyncio(Behaviour, unittest.TestCase):
    how = staticmethod(ask_asyncio)


if __name__ == "__main__":
    unittest.main()
