#!/usr/bin/python3
"""The clients, against a service that breaks off, falls silent and lies as told."""
import threading
import time
import unittest
from concurrent import futures

import clients  # before grpc: it sets how gRPC behaves
import grpc

import stubs
from judge import Answer, judge
from workload import Case

MESSAGES = stubs.load().generation
TOKENS = 12


def message_of(output, index):
    message = MESSAGES.GenerateResponse(index=index, output=output, text=f"{index},")
    message.tokens.add(id=100 * output + index, logprob=-0.5 - index)
    return message


def end_of(output):
    message = MESSAGES.GenerateResponse(index=TOKENS, output=output)
    message.finish.reason = MESSAGES.FINISH_REASON_LENGTH
    return message


def undisturbed(outputs):
    answer = Answer()
    for output in range(outputs):
        for index in range(TOKENS):
            answer.add(message_of(output, index))
        answer.add(end_of(output))
    return answer


class Service:
    """Says one token after the other; `calls` says of each call after how many messages it does what."""

    def __init__(self):
        self.calls = []      # of (messages, "break" | "hang" | "end"), for one call after the other
        self.skew = 0        # added to the first index of a resumed answer
        self.requests = []
        self.lock = threading.Lock()
        self.hung = threading.Event()
        handler = grpc.method_handlers_generic_handler("tutti.v1.Inference", {
            "Generate": grpc.unary_stream_rpc_method_handler(
                self.generate, request_deserializer=MESSAGES.GenerateRequest.FromString,
                response_serializer=MESSAGES.GenerateResponse.SerializeToString)})
        self.server = grpc.server(futures.ThreadPoolExecutor(8), handlers=(handler,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def generate(self, request, context):
        with self.lock:
            left, then = self.calls.pop(0) if self.calls else (1000, "end")
            self.requests.append(request)
        for message in self.messages(request):
            if left == 0:
                break
            left -= 1
            yield message
        if then == "break":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the process is gone")
        if then == "hang":
            self.hung.wait(20)

    def messages(self, request):
        has = [0] * max(1, request.n)
        finished = list(has)
        if stubs.has_field(MESSAGES.GenerateRequest, "resume"):
            for output, resumed in enumerate(request.resume.outputs):
                has[output], finished[output] = len(resumed.ids) + self.skew, resumed.finished
            yield MESSAGES.GenerateResponse(started=MESSAGES.Started(resume_token=b"token"))
        for index in range(TOKENS):
            for output, count in enumerate(has):
                if index >= count and not finished[output]:
                    yield message_of(output, index)
        for output, done in enumerate(finished):
            if not done:
                yield end_of(output)

    def stop(self):
        self.hung.set()
        self.server.stop(0).wait()


class ClientsTest(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)

    def ask(self, kind, outputs=1):
        case = Case("greedy-0", MESSAGES.GenerateRequest(n=outputs), undisturbed(outputs))
        case.request.token_ids.ids.append(1)
        client = kind(MESSAGES, self.service.address)
        self.addCleanup(client.close)
        stream = clients.Stream(case)
        client.run(stream, 2)
        return stream, judge(stream.answer, case.expected)

    def test_a_plain_client_gets_an_answer(self):
        stream, verdict = self.ask(clients.Plain, outputs=2)
        self.assertEqual((verdict.lost, verdict.different), ("", ""))
        self.assertTrue(stream.past_first)
        self.assertGreaterEqual(len(stream.arrivals), 2 * TOKENS)

    def cases(self, count):
        request = MESSAGES.GenerateRequest(n=2)
        request.token_ids.ids.append(1)
        return [Case(f"greedy-{number}", request, None) for number in range(count)]

    def test_every_case_is_asked_undisturbed(self):
        cases = self.cases(7)
        clients.ask_all(lambda: clients.Plain(MESSAGES, self.service.address), cases, 2)
        self.assertEqual([case.expected.is_whole(2) for case in cases], [True] * 7)

    def test_an_undisturbed_answer_that_is_not_whole_fails_the_run(self):
        self.service.calls = [(1000, "end"), (5, "end")]
        with self.assertRaisesRegex(RuntimeError, "greedy-1: not whole"):
            clients.ask_all(lambda: clients.Plain(MESSAGES, self.service.address), self.cases(3), 1)

    def test_a_slot_goes_on_after_a_stream_that_was_lost(self):
        self.service.calls = [(5, "break")] * 3
        cases = self.cases(1)
        cases[0].expected = undisturbed(2)
        running = clients.Clients(lambda: clients.Plain(MESSAGES, self.service.address), cases, 1, 2)
        until = time.monotonic() + 20
        while len(running.done) < 5 and time.monotonic() < until:
            time.sleep(0.01)
        lost = [bool(stream.verdict.lost) for stream in running.stop(0)]
        self.assertEqual(lost[:5], [True, True, True, False, False])

    def test_a_slot_that_the_harness_ends_fails_the_run(self):
        running = clients.Clients(lambda: clients.Plain(MESSAGES, self.service.address), self.cases(1), 1, 2)
        with self.assertRaisesRegex(RuntimeError, "AttributeError"):
            running.stop(time.monotonic() + 20)

    def test_a_plain_client_asks_once(self):
        self.service.calls = [(5, "break")]
        _, verdict = self.ask(clients.Plain)
        self.assertIn("the process is gone", verdict.lost)
        self.assertEqual(verdict.different, "")
        self.assertEqual(len(self.service.requests), 1)

    def test_an_answer_that_breaks_off_without_an_error_is_lost(self):
        self.service.calls = [(5, "end")]
        _, verdict = self.ask(clients.Plain)
        self.assertTrue(verdict.lost)

    def test_a_silent_stream_is_ended_and_lost(self):
        self.service.calls = [(5, "hang")]
        case = Case("greedy-0", MESSAGES.GenerateRequest(), undisturbed(1))
        slots = clients.Clients(lambda: clients.Plain(MESSAGES, self.service.address), [case], 1, patience_s=0.3)
        while not slots.done:
            slots.end_hung()
            time.sleep(0.01)
        self.service.hung.set()
        slots.stop(time.monotonic())
        self.assertIn("CANCELLED", slots.done[0].verdict.lost)
        self.assertEqual([stream.verdict.lost for stream in slots.done[1:] if stream.verdict.lost], [])

    def test_streams_that_began_late_are_dropped(self):
        self.service.calls = [(5, "hang")]
        case = Case("greedy-0", MESSAGES.GenerateRequest(), undisturbed(1))
        slots = clients.Clients(lambda: clients.Plain(MESSAGES, self.service.address), [case], 1, patience_s=20)
        while not slots.past_first():
            time.sleep(0.01)
        self.assertEqual(slots.stop(0), [])


@unittest.skipUnless(clients.Resuming.possible(MESSAGES), "the protocol has no field `resume`")
class ResumingTest(ClientsTest):
    def test_it_goes_on_with_what_it_has(self):
        self.service.calls = [(7, "break"), (0, "break"), (4, "break")]
        stream, verdict = self.ask(clients.Resuming, outputs=2)
        self.assertEqual((verdict.lost, verdict.different), ("", ""))
        self.assertEqual(stream.resumed, 3)
        resumed = self.service.requests[-1].resume
        self.assertEqual(resumed.token, b"token")
        self.assertEqual([len(output.ids) for output in resumed.outputs], [5, 4])

    def test_before_the_first_message_it_asks_as_before(self):
        self.service.calls = [(0, "break")]
        _, verdict = self.ask(clients.Resuming)
        self.assertEqual((verdict.lost, verdict.different), ("", ""))
        self.assertFalse(self.service.requests[1].HasField("resume"))

    def test_an_end_that_has_come_is_told(self):
        self.service.calls = [(1 + 2 * TOKENS + 1, "break")]
        _, verdict = self.ask(clients.Resuming, outputs=2)
        self.assertEqual((verdict.lost, verdict.different), ("", ""))
        self.assertEqual([output.finished for output in self.service.requests[-1].resume.outputs], [True, False])

    def test_a_whole_answer_needs_no_second_call(self):
        self.service.calls = [(1 + TOKENS + 1, "break")]
        _, verdict = self.ask(clients.Resuming)
        self.assertEqual((verdict.lost, verdict.different), ("", ""))
        self.assertEqual(len(self.service.requests), 1)

    def test_a_token_twice_or_missing_after_resuming(self):
        for skew in (-1, 1):
            with self.subTest(skew):
                self.service.calls, self.service.skew = [(7, "break")], skew
                _, verdict = self.ask(clients.Resuming)
                self.assertTrue(verdict.different)

    def test_its_patience_ends(self):
        self.service.calls = [(5, "break")] + [(0, "break")] * 1000
        _, verdict = self.ask(clients.Resuming)
        self.assertIn("the process is gone", verdict.lost)


if __name__ == "__main__":
    unittest.main(verbosity=2)
