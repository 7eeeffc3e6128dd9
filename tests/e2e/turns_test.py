#!/usr/bin/env python3
"""An address that asks a gateway for many answers takes turns with the rows of steps beside another that asks for one."""
import contextlib
import http.client
import json
import re
import unittest

from gateway_faults_test import COMPLETION, Machines
from harness import PATIENCE_S, wait_until
from http_client import Gateway
from prometheus_text import parse

GREEDY, MODEST = "127.0.0.2", "127.0.0.3"
REQUESTS, OUTPUTS, TOKENS = 8, 4, 100
# With a row for each request first, as one owner has it, every sequence of the greedy has two rows for five of the modest one.
PROGRESS_MAX = 0.3


class Turns(Machines):
    # Guesses bring as many tokens as are right, and not one for each row.
    coordinator_flags = ["--public-role", "gateway", "--metrics", "127.0.0.1:0", "--speculation", "off"]

    def setUp(self):
        super().setUp()
        process, self.gateway = self.start_gateway()
        wait_until(lambda: Gateway(self.gateway).get("/health").status == 200, "the gateway is healthy")
        with open(self.path("coordinator.log"), encoding="utf-8") as file:
            self.metrics = Gateway(re.search(r"metrics at http://(\S+)/metrics", file.read()).group(1))

    def generated(self):
        families = parse(self.metrics.get("/metrics").body.decode())
        return families["tutti_generated_tokens_total"].samples[0][2]

    def connect(self, source):
        host, port = self.gateway.rsplit(":", 1)
        return http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S, source_address=(source, 0))

    def ask(self, connection, **fields):
        body = {"prompt": "Tell me something: ", "ignore_eos": True, **fields}
        connection.request("POST", COMPLETION, json.dumps(body), {"Content-Type": "application/json"})

    def test_an_address_of_many_answers_takes_turns(self):
        with contextlib.ExitStack() as stack:
            # So that the time of a small step is known.
            few = self.connect(MODEST)
            stack.callback(few.close)
            self.ask(few, n=2, max_tokens=TOKENS)
            few.getresponse().read()
            for seed in range(REQUESTS):
                greedy = self.connect(GREEDY)
                stack.callback(greedy.close)
                self.ask(greedy, stream=True, n=OUTPUTS, max_tokens=400, seed=10 * seed)
            sequences = REQUESTS * OUTPUTS
            wait_until(lambda: self.generated() > 2 * sequences, "all of them generate")
            modest = self.connect(MODEST)
            stack.callback(modest.close)
            before = self.generated()
            self.ask(modest, max_tokens=TOKENS)
            answer = json.load(modest.getresponse())
            progress = (self.generated() - before - TOKENS) / sequences / TOKENS
        self.assertEqual(answer["usage"]["completion_tokens"], TOKENS)
        print(f"{sequences} sequences of one address went on by {progress:.2f} tokens for each of another's", flush=True)
        self.assertGreater(progress, 0, "they wait for nothing but their turns")
        self.assertLess(progress, PROGRESS_MAX)


if __name__ == "__main__":
    unittest.main(verbosity=2)
