#!/usr/bin/env python3
"""Both clients against a service that breaks their streams: every answer is that of an undisturbed one."""
import asyncio
import unittest

import fake_service
import grpc
from fake_service import Break, ids_of, logprob, serving, text_of

from tutti import (AsyncClient, Client, FinishReason, Message, ProtocolError, RetryPolicy, ToolCall, TuttiError,
                   _messages)

Code = grpc.StatusCode
QUICK = RetryPolicy(tries=8, total_s=20, first_delay_s=0.001, max_delay_s=0.02)
# One for all: gRPC 1.51 minds a loop that is closed before the process ends.
LOOP = asyncio.Runner()
# Of the request or of the service's state: another try would get the same, or do harm.
FINAL = [code for code in Code if code not in (Code.OK, Code.UNAVAILABLE, Code.CANCELLED)]


class Asked:
    """What came of one call."""

    def __init__(self):
        self.chunks, self.error, self.started, self.resumed = [], None, None, 0

    def outputs(self):
        return 1 + max((chunk.output for chunk in self.chunks), default=-1)

    def ids(self, output=0):
        return [token.id for chunk in self.chunks if chunk.output == output for token in chunk.tokens]

    def text(self, output=0):
        return "".join(chunk.text for chunk in self.chunks if chunk.output == output)


def ask_blocking(addresses, options, request, most):
    asked = Asked()
    with Client(addresses, **options) as client, client.generate(**request) as stream:
        try:
            for chunk in stream:
                asked.chunks.append(chunk)
                if len(asked.chunks) == most:
                    break
        except TuttiError as error:
            asked.error = error
        asked.started, asked.resumed = stream.started, stream.resumed
    return asked


def ask_asyncio(addresses, options, request, most):
    async def ask():
        asked = Asked()
        async with AsyncClient(addresses, **options) as client, client.generate(**request) as stream:
            try:
                async for chunk in stream:
                    asked.chunks.append(chunk)
                    if len(asked.chunks) == most:
                        break
            except TuttiError as error:
                asked.error = error
            asked.started, asked.resumed = stream.started, stream.resumed
        return asked
    return LOOP.run(ask())


class Behaviour:
    """Of both clients."""

    def ask(self, *services, most=None, options=None, **request):
        addresses = [getattr(service, "address", service) for service in services]
        return self.how(addresses, {"retry": QUICK, **(options or {})},
                        {"prompt": "hello", "max_tokens": 12, **request}, most)

    def assert_whole(self, asked, *, n=1, count=12, seed=None):
        """The answer is that of an undisturbed call, each position once."""
        self.assertIsNone(asked.error)
        self.assertEqual(asked.outputs(), n)
        seed = asked.started.seed if seed is None else seed
        for output in range(n):
            ids = ids_of(seed, output, count + output)
            self.assertEqual(asked.ids(output), ids)
            self.assertEqual(asked.text(output), text_of(ids))
            mine = [chunk for chunk in asked.chunks if chunk.output == output]
            self.assertEqual([chunk.index for chunk in mine],
                             [sum(len(before.tokens) for before in mine[:at]) for at in range(len(mine))])
            self.assertEqual([chunk.finish is not None for chunk in mine], [False] * (len(mine) - 1) + [True])
            self.assertEqual(mine[-1].finish.reason, FinishReason.LENGTH)
            self.assertEqual(mine[-1].finish.seed, seed + output)

    def test_undisturbed(self):
        with serving() as service:
            asked = self.ask(service, logprobs=True, seed=3)
            self.assert_whole(asked, seed=3)
            self.assertEqual([chunk.tokens[0].logprob for chunk in asked.chunks],
                             [logprob(3, 0, index) for index in range(12)])
            self.assertEqual(asked.chunks[0].tokens[0].top[0].token, b"x")
            self.assertEqual((asked.started.prompt_tokens, asked.started.model_fingerprint), (3, "model-1"))
            self.assertIsNone(self.ask(service).chunks[0].tokens[0].logprob)

    def test_broken_after_every_number_of_messages(self):
        for after in range(13):
            with self.subTest(after=after), serving(Break(after)) as service:
                asked = self.ask(service, seed=5)
                self.assert_whole(asked, seed=5)
                broken = after < 12
                self.assertEqual(len(service.requests), 1 + broken)
                self.assertEqual(asked.resumed, int(0 < after < 12))
                self.assertEqual(service.requests[-1].HasField("resume"), 0 < after < 12)

    def test_broken_at_every_step(self):
        for per_message in (1, 2, 5):
            with self.subTest(per_message=per_message), serving(every=Break(1), per_message=per_message) as service:
                asked = self.ask(service)
                self.assert_whole(asked)
                self.assertEqual(asked.resumed, -(-12 // per_message) - 1)

    def test_several_outputs_go_on_each_from_its_place(self):
        for after in range(1, 40, 3):
            with self.subTest(after=after), serving(every=Break(after)) as service:
                self.assert_whole(self.ask(service, n=3, seed=9), n=3, seed=9)
        self.assertTrue(service.requests)

    def test_what_is_finished_is_told_so(self):
        with serving(Break(8)) as service:  # 2 + 3 + 4 tokens: the longest is alone at the end
            self.assert_whole(self.ask(service, n=3, max_tokens=2), n=3, count=2)
            first, second = service.requests
            self.assertEqual([output.finished for output in second.resume.outputs], [True, True, False])
            self.assertEqual([len(output.ids) for output in second.resume.outputs], [2, 3, 3])
            second.ClearField("resume")
            self.assertEqual(first, second)

    def test_before_the_first_token_the_same_request_again(self):
        with serving(Break(0), Break(0)) as service:
            asked = self.ask(service)
            self.assert_whole(asked)
            self.assertEqual(asked.resumed, 0)
            self.assertEqual(service.requests[0], service.requests[2])
            # No seed was asked for, and that of the last try counts.
            self.assertEqual(asked.started.seed, 7 + 3)

    def test_every_final_status(self):
        for code in FINAL:
            for after in (0, 4):
                with self.subTest(code=code, after=after), serving(Break(after, code, "why")) as service:
                    asked = self.ask(service)
                    self.assertEqual((asked.error.code, asked.error.details), (code, "why"))
                    self.assertEqual(asked.error.address, service.address)
                    self.assertEqual((len(service.requests), len(asked.chunks)), (1, after))

    def test_a_reset_stream_is_gone_on_with(self):
        for after in (0, 4):
            with self.subTest(after=after), serving(Break(after, Code.CANCELLED)) as service:
                self.assert_whole(self.ask(service))
                self.assertEqual(len(service.requests), 2)

    def test_full_and_come_again(self):
        for key in ("retry-after-ms", "grpc-retry-pushback-ms"):
            full = Break(0, Code.RESOURCE_EXHAUSTED, "full", ((key, "30"),))
            with self.subTest(key=key), serving(full, Break(3), full) as service:
                asked = self.ask(service)
                self.assert_whole(asked)
                self.assertEqual((len(service.requests), asked.resumed), (4, 1))
        with serving(Break(0, metadata=(("grpc-retry-pushback-ms", "-1"),))) as service:
            self.assertEqual(self.ask(service).error.code, Code.UNAVAILABLE)

    def test_a_long_prompt_is_sent_again_too(self):
        prompt = "x" * (400 << 10)  # gRPC's own retries keep 256 KiB; ours keep the request
        with serving(Break(0), Break(3)) as service:
            asked = self.ask(service, prompt=prompt)
            self.assert_whole(asked)
            self.assertEqual([len(request.text) for request in service.requests], [len(prompt)] * 3)

    def test_gives_up_and_says_when(self):
        with serving(Break(3), every=Break(0)) as service:
            asked = self.ask(service)
            self.assertRegex(str(asked.error), "UNAVAILABLE: a worker was lost; tries failed: 9, in .* s")
            self.assertEqual((len(service.requests), len(asked.chunks)), (9, 3))

    def test_the_call_has_a_deadline(self):
        with serving(every=Break(0)) as service:
            asked = self.ask(service, timeout_s=0.2, options={"retry": RetryPolicy(first_delay_s=0.05)})
            self.assertRegex(str(asked.error), "time ends before the next try|DEADLINE_EXCEEDED")

    def test_nobody_there(self):
        with serving() as service:
            address = service.address
        asked = self.ask(address)
        self.assertEqual((asked.error.code, asked.error.address, asked.error.tries), (Code.UNAVAILABLE, address, 9))

    def test_the_service_dies_and_another_goes_on(self):
        with serving(Break(5, stop=True)) as first, serving() as second:
            asked = self.ask(first, second)
            self.assert_whole(asked)
            self.assertEqual((len(first.requests), len(second.requests), asked.resumed), (1, 1, 1))

    def test_the_service_comes_back_at_its_address(self):
        with serving(Break(5, stop=True)) as first:
            def revive(service=first):
                service.server.wait_for_termination()
                self.second = fake_service.Service(address=service.address)
            waiting = fake_service.threading.Thread(target=revive)
            waiting.start()
            patient = RetryPolicy(tries=1000, total_s=20, first_delay_s=0.005, max_delay_s=0.05)
            asked = self.ask(first, options={"retry": patient})
            waiting.join()
            self.second.stop()
            self.assert_whole(asked)
            self.assertEqual(len(self.second.requests), 1)

    def test_the_first_address_is_dead(self):
        with serving() as dead:
            pass
        with serving() as service:
            self.assert_whole(self.ask(dead, service))

    def test_without_resume(self):
        with serving(Break(0), Break(4)) as service:
            asked = self.ask(service, options={"resume": False})
            self.assertRegex(str(asked.error), "UNAVAILABLE: a worker was lost; not resumed, as asked")
            self.assertEqual((len(asked.chunks), len(service.requests)), (4, 2))

    def test_a_service_that_knows_no_resume(self):
        with serving(Break(0), Break(4), tell=False) as service:
            asked = self.ask(service)
            self.assertRegex(str(asked.error), "has not said how to resume")
            self.assertIsNone(asked.started)
            self.assert_whole(self.ask(service, seed=2), seed=2)

    def test_broken_after_all_was_there(self):
        with serving() as service:
            service.after_last = Break()
            self.assert_whole(self.ask(service, n=2), n=2)
            self.assertEqual(len(service.requests), 1)

    def distorted(self, distort, *plan, **request):
        with serving(*plan) as service:
            service.distort = distort
            asked = self.ask(service, **request)
            self.assertIsInstance(asked.error, ProtocolError)
            return asked

    def test_an_index_that_is_skipped_or_repeated(self):
        asked = self.distorted(lambda number, message: [] if number == 4 else [message])
        self.assertRegex(str(asked.error), "token 5 of output 0 where token 4 was due")
        self.assertEqual(asked.ids(), ids_of(asked.started.seed, 0, 4))
        asked = self.distorted(lambda number, message: [message] * (2 if number == 4 else 1))
        self.assertRegex(str(asked.error), "token 4 of output 0 where token 5 was due")

    def test_a_service_that_begins_anew_instead_of_going_on(self):
        def forget(number, message):
            message.index -= 3 if service_calls[0] else 0
            service_calls[0] += message.index == 2
            return [message]
        service_calls = [0]
        asked = self.distorted(forget, Break(3))
        self.assertRegex(str(asked.error), "token 0 of output 0 where token 3 was due")

    def test_outputs_that_were_not_asked_for_or_are_over(self):
        def other(number, message):
            message.output += 1
            return [message]
        self.assertRegex(str(self.distorted(other).error), "sent output 1 where 1 were asked for")
        def more(number, message):
            return [message, message] if message.HasField("finish") else [message]
        self.assertRegex(str(self.distorted(more).error), "more of output 0 after its `finish`")

    def test_an_end_without_finish(self):
        def endless(number, message):
            return [] if message.HasField("finish") else [message]
        self.assertRegex(str(self.distorted(endless, n=2).error), "without `finish` of output 0")

    def test_another_model_goes_on(self):
        with serving(Break(4), every=Break()) as first, serving(fingerprint="model-2") as second:
            asked = self.ask(first, second)
            self.assertIsInstance(asked.error, ProtocolError)
            self.assertRegex(str(asked.error), "goes on with another answer: .*model-2.*, begun as .*model-1")
            self.assertEqual(asked.ids(), ids_of(asked.started.seed, 0, 4))

    def test_closing_cancels(self):
        with serving() as service:
            asked = self.ask(service, most=3, max_tokens=1_000_000)
            self.assertEqual(len(asked.chunks), 3)
            self.assertTrue(service.cancelled.wait(10))
            self.assertEqual(len(service.requests), 1)

    def test_what_a_request_says(self):
        with serving() as service:
            self.ask(service, prompt=None, token_ids=[1, 2], n=2, model="m", priority=-3, request_id="mine",
                     options={"tenant": "acme"}, temperature=0.5, top_k=4, stop="END", stop_token_ids=[7],
                     logit_bias={3: -1.5}, skip_special_tokens=False, seed=2**64 - 1, max_tokens=1, min_tokens=1,
                     bad_words="no", allowed_token_ids=[8, 9], cache_salt="s", truncate_prompt_tokens=1)
            self.assertEqual(service.requests[0], _messages.GenerateRequest(
                request_id="mine", model="m", token_ids={"ids": [1, 2]}, n=2, priority=-3, tenant=b"acme",
                sampling={"temperature": 0.5, "top_k": 4, "stop": ["END"], "stop_token_ids": [7],
                          "logit_bias": {3: -1.5}, "skip_special_tokens": False, "seed": 2**64 - 1,
                          "max_tokens": 1, "min_tokens": 1, "bad_words": ["no"], "allowed_token_ids": [8, 9]},
                cache_salt=b"s", truncate_prompt_tokens=1))

    def test_how_a_text_is_read(self):
        with serving() as service:
            self.ask(service, prompt="<s>hi", split_special_tokens=True, add_special_tokens=False)
            reading = service.requests[0].text_reading
            self.assertTrue(reading.split_special_tokens and reading.omit_special_tokens)
            self.ask(service, prompt="hi", split_special_tokens=False, add_special_tokens=True)
            self.assertFalse(service.requests[1].HasField("text_reading"))

    def test_what_the_answer_is(self):
        with serving() as service:
            for asked, grammar in (({"json_schema": {"type": "null"}}, {"json_schema": '{"type": "null"}'}),
                                   ({"json_schema": "true", "json_blanks": True}, {"json_schema": "true", "whitespace": 2}),
                                   ({"json_object": True}, {"json_object": {}}), ({"regex": "a+"}, {"regex": "a+"}),
                                   ({"choice": ["yes", "no"]}, {"choice": {"texts": ["yes", "no"]}}),
                                   ({"choice": "yes"}, {"choice": {"texts": ["yes"]}}),
                                   ({"grammar": 'root ::= "a"'}, {"ebnf": 'root ::= "a"'})):
                self.ask(service, **asked)
                wanted = _messages.GenerateRequest(grammar=grammar).grammar
                self.assertEqual(service.requests[-1].grammar, wanted, asked)
            self.ask(service, json_object=False)
            self.assertFalse(service.requests[-1].HasField("grammar"))

    def test_a_conversation(self):
        with serving() as service:
            self.ask(service, prompt=None, template_kwargs_json="{}", messages=[
                {"role": "user", "content": "hi"},
                Message("assistant", tool_calls=[ToolCall("f", '{"x": 1}', "c1")]),
                Message("tool", "2", tool_call_id="c1")])
            chat = service.requests[0].chat
            self.assertEqual([message.role for message in chat.messages], ["user", "assistant", "tool"])
            self.assertEqual(chat.messages[1].tool_calls[0].arguments_json, '{"x": 1}')
            self.assertEqual(len(service.requests[0].request_id), 32)
            self.assertFalse(chat.omit_generation_prompt)

    def test_a_message_that_goes_on(self):
        with serving() as service:
            self.ask(service, prompt=None, continue_final_message=True, messages=[{"role": "assistant", "content": "4"}])
            chat = service.requests[0].chat
            self.assertTrue(chat.continue_final_message and chat.omit_generation_prompt)

    def test_arguments_that_are_refused_here(self):
        for error, wrong in ((ValueError, {"token_ids": [1]}), (ValueError, {"prompt": None}),
                             (ValueError, {"n": 0}), (ValueError, {"regex": "a", "json_object": True}),
                             (ValueError, {"json_blanks": True}),
                             (TypeError, {"temprature": 1}),
                             (TypeError, {"prompt": None, "messages": [{"rôle": "user"}]})):
            with self.subTest(wrong), self.assertRaises(error):
                self.ask("localhost:1", **wrong)


class BlockingTest(Behaviour, unittest.TestCase):
    how = staticmethod(ask_blocking)


class AsyncioTest(Behaviour, unittest.TestCase):
    how = staticmethod(ask_asyncio)


if __name__ == "__main__":
    unittest.main()
