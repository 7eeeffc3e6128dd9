#!/usr/bin/env python3
"""Clients that go on with a stream by the id of the last event they have, on the same gateway and on another, and clients
that send the same request again under an Idempotency-Key."""
import http.client
import threading
import unittest

from gateway_faults_test import COMPLETION, LONG, STREAMS, Machines
from http_client import text_of

CHAT = "/v1/chat/completions"
EVENTS = "text/event-stream"


def choices_of(events):
    return [c for e in events if e != "[DONE]" for c in e["choices"]]


def logprobs_of(events):
    parts = [c["logprobs"] for c in choices_of(events) if c["logprobs"]]
    return {name: [item for part in parts for item in part[name]] for name in (parts[0] if parts else {})}


def folded(events):
    """What a client makes of the chunks, however they are cut."""
    chunks = [e for e in events if e != "[DONE]"]
    outputs = sorted({c["index"] for c in choices_of(events)})
    return {"heads": {(c["id"], c["created"], c["model"]) for c in chunks},
            "texts": [text_of(events, i) for i in outputs],
            "roles": [c["delta"]["role"] for c in choices_of(events) if "role" in c.get("delta", {})],
            "logprobs": logprobs_of(events),
            "ends": sorted((c["index"], c["finish_reason"], c["stop_reason"])
                           for c in choices_of(events) if c["finish_reason"]),
            "tokens": [c["usage"]["completion_tokens"] for c in chunks if not c["choices"]],
            "done": events.count("[DONE]")}


class Resume(Machines):
    def setUp(self):
        super().setUp()
        _, self.gateway = self.healthy_gateway()

    def refused(self, path, fields, **headers):
        answer = self.gateway.post(path, fields, **headers)
        self.assertEqual(answer.status, 400, answer.body)
        return answer.json()["error"]["param"]

    def first_events(self, path, fields, count):
        """The (id, event)s of a stream that is left after `count`."""
        stream = self.gateway.events(path, fields, accept=EVENTS)
        events = [next(stream) for _ in range(count)]
        stream.close()
        return events

    def test_gives_the_rest_after_every_event(self):
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        chat = {"messages": [{"role": "user", "content": "Tell me something"}], "max_tokens": 12, "seed": 3, **usage}
        text = {"prompt": "Tell me something: ", "max_tokens": 12, "seed": 3, **usage}
        for path, fields in [(CHAT, {**chat, "logprobs": True, "top_logprobs": 2}),
                             (COMPLETION, {**text, "logprobs": 1, "echo": False}),
                             (COMPLETION, {**text, "echo": True, "n": 2, "ignore_eos": True}),
                             (COMPLETION, {**text, "ignore_eos": True, "max_tokens": 40, "stop": ["e t", "zzz"]})]:
            whole = list(self.gateway.events(path, fields, accept=EVENTS))
            expected = folded([event for _, event in whole])
            self.assertEqual(expected["done"], 1)
            self.assertTrue(all(identity for identity, _ in whole))
            for at in range(len(whole) - 1):
                rest = list(self.gateway.stream(path, fields, Last_Event_ID=whole[at][0]))
                self.assertEqual(folded([event for _, event in whole[:at + 1]] + rest), expected, f"after event {at}")

    def test_is_only_for_who_accepts_events(self):
        self.assertEqual({identity for identity, _ in self.gateway.events(COMPLETION, {**LONG, "max_tokens": 5})}, {""})

    def test_refuses_what_is_not_of_this_answer(self):
        last = self.first_events(COMPLETION, LONG, 3)[-1][0]
        body = {**LONG, "stream": True}
        altered = last[:20] + ("A" if last[20] != "A" else "B") + last[21:]
        for identity, fields in [("foreign", body), (altered, body), (last, {**body, "max_tokens": 399}),
                                 (last, {**LONG}), (last, {**body, "prompt": ["a", "b"]})]:
            self.assertEqual(self.refused(COMPLETION, fields, Last_Event_ID=identity), "Last-Event-ID", fields)

    def test_goes_on_at_another_gateway_when_one_is_killed(self):
        _, other = self.healthy_gateway()
        undisturbed = [text for text, _, _ in self.ask_all(self.gateway, lambda: None)]
        # On a machine that is busy with other things all streams may have ended before the kill.
        for _ in range(5):
            texts, gone_on = self.ask_while_a_gateway_is_killed(other)
            self.assertEqual(texts, undisturbed)
            if gone_on:
                return
        self.fail("all streams had ended before the gateway was killed, five times")

    def ask_while_a_gateway_is_killed(self, other):
        """(texts, which of them came from both gateways)"""
        process, gateway = self.healthy_gateway()
        begun, texts, gone_on = threading.Barrier(STREAMS + 1), [""] * STREAMS, []

        def ask(i):
            fields = {**LONG, "seed": i}
            stream = gateway.events(COMPLETION, fields, accept=EVENTS)
            events = [next(stream)]
            begun.wait()
            try:
                for event in stream:
                    events.append(event)
            except (OSError, http.client.HTTPException):
                pass
            if events[-1][1] != "[DONE]":
                gone_on.append(i)
                events += other.events(COMPLETION, fields, Last_Event_ID=events[-1][0])
            texts[i] = text_of([event for _, event in events])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(STREAMS)]
        for thread in threads:
            thread.start()
        begun.wait()
        process.kill()
        for thread in threads:
            thread.join()
        return texts, gone_on


class IdempotencyKey(Machines):
    def setUp(self):
        super().setUp()
        _, self.gateway = self.healthy_gateway()

    def test_gives_the_same_answer_again(self):
        # Without a seed, so that another computation would give another text.
        fields = {"prompt": "Tell me something: ", "ignore_eos": True, "max_tokens": 20}
        first = self.gateway.post(COMPLETION, fields, Idempotency_Key="k1")
        again = self.gateway.post(COMPLETION, fields, Idempotency_Key="k1")
        self.assertEqual((first.status, first.body), (200, again.body))
        streams = [list(self.gateway.stream(COMPLETION, fields, Idempotency_Key="k2")) for _ in range(2)]
        self.assertEqual(streams[0][0]["id"], streams[1][0]["id"])
        self.assertEqual(*(text_of(stream) for stream in streams))
        self.assertNotEqual(streams[0][0]["id"], first.json()["id"])
        other = self.gateway.post(COMPLETION, {**fields, "max_tokens": 21}, Idempotency_Key="k1")
        self.assertEqual((other.status, other.json()["error"]["param"]), (400, "Idempotency-Key"))
        long = self.gateway.post(COMPLETION, fields, Idempotency_Key="k" * 256)
        self.assertEqual((long.status, long.json()["error"]["param"]), (400, "Idempotency-Key"))
        # An error is not kept.
        for _ in range(2):
            wrong = self.gateway.post(COMPLETION, {**fields, "temperature": -1}, Idempotency_Key="k3")
            self.assertEqual(wrong.json()["error"]["param"], "temperature")

    def test_finds_the_stream_that_its_client_has_lost(self):
        fields = {"prompt": "Tell me something: ", "ignore_eos": True, "max_tokens": 300}
        stream = self.gateway.events(COMPLETION, fields, Idempotency_Key="k4", accept=EVENTS)
        begun = [next(stream) for _ in range(3)]
        stream.close()
        again = list(self.gateway.events(COMPLETION, fields, Idempotency_Key="k4", Last_Event_ID=begun[-1][0]))
        whole = list(self.gateway.stream(COMPLETION, fields, Idempotency_Key="k4"))
        self.assertEqual(text_of([event for _, event in begun + again]), text_of(whole))
        self.assertEqual({chunk["id"] for chunk in whole[:-1]}, {begun[0][1]["id"]})

    def test_takes_the_answer_from_who_reads_it(self):
        fields = {"prompt": "Tell me something: ", "ignore_eos": True, "max_tokens": 1900}
        first = self.gateway.stream(COMPLETION, fields, Idempotency_Key="k5")
        events = [next(first)]
        second = self.gateway.stream(COMPLETION, fields, Idempotency_Key="k5")
        self.assertEqual(next(second)["id"], events[0]["id"])
        events += first
        self.assertEqual(events[-1], "[DONE]")
        if "error" in events[-2]:  # else it had all of it before the second came
            self.assertIn("taken the answer over", events[-2]["error"]["message"])
        second.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
