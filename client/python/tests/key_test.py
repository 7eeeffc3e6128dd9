#!/usr/bin/env python3
"""The key of a gateway: told with every call, and to no other machine in the clear."""
import asyncio
import os
import tempfile
import unittest
import unittest.mock

from fake_service import serving

from tutti import ApiKey, AsyncClient, Client, Tls


class KeyTest(unittest.TestCase):
    def test_is_told_with_every_call(self):
        with serving() as service:
            with Client(service.address, api_key=ApiKey("secret-1")) as client:
                client.complete("hello", max_tokens=4)
                client.detokenize([3])

            async def ask():
                async with AsyncClient(service.address, api_key=ApiKey("secret-1")) as client:
                    await client.complete("hello", max_tokens=4)
                    await client.detokenize([3])
            asyncio.run(ask())
            with Client(service.address) as client:
                client.complete("hello", max_tokens=4)
            self.assertEqual(service.keys, ["Bearer secret-1"] * 4 + [None])

    def test_may_come_from_the_environment_or_a_file(self):
        with serving() as service, unittest.mock.patch.dict(os.environ, {"TUTTI_API_KEY": "of-the-environment"}):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("of-the-file\n")
                file.flush()
                for key in (None, ApiKey.read(file.name)):
                    with Client(service.address, api_key=key) as client:
                        client.detokenize([3])
            self.assertEqual(service.keys, ["Bearer of-the-environment", "Bearer of-the-file"])

    def test_goes_to_no_other_machine_in_the_clear(self):
        both = ["127.0.0.1:1", "gateway.example:1"]
        with self.assertRaisesRegex(ValueError, "gateway.example:1 in the clear") as refused:
            Client(both, api_key=ApiKey("secret-1"))
        self.assertNotIn("secret-1", str(refused.exception))
        Client(both, api_key=ApiKey("secret-1", in_clear=True)).close()
        with tempfile.NamedTemporaryFile() as authority:
            Client(both, tls=Tls(authority.name), api_key=ApiKey("secret-1")).close()

    def test_is_shown_by_nothing(self):
        self.assertNotIn("secret-1", repr(ApiKey("secret-1")))
        for key in ("", "a b", "a\n", "\u00e9"):
            with self.assertRaises(ValueError):
                ApiKey(key)
        for content in (b"secr\xc3\xa9t-1", b"secr\xc3\xa9t-1" * 1000):
            with tempfile.NamedTemporaryFile() as file:
                file.write(content)
                file.flush()
                with self.assertRaises(ValueError) as refused:
                    ApiKey.read(file.name)
                self.assertNotIn("secr", repr(refused.exception))

    def test_goes_through_no_proxy_of_the_environment(self):
        with serving() as service, unittest.mock.patch.dict(os.environ, {"http_proxy": "http://127.0.0.1:1",
                                                                         "grpc_proxy": "http://127.0.0.1:1"}):
            port = service.address.rpartition(":")[2]
            with Client(f"localhost:{port}", api_key=ApiKey("secret-1")) as client:
                client.detokenize([3], timeout_s=20)
            self.assertEqual(service.keys, ["Bearer secret-1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
