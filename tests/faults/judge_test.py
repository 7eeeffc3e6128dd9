#!/usr/bin/python3
"""The harness believes nobody: each planted lie in an answer must be counted, and an honest one never."""
import io
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

import own_clients
import scenarios
import stubs
from clients import Stream
from judge import Answer, judge
from obedience import disobedience
from report import Report, parts_of, quantile
from workload import Case, draw_cases, forget_guesses, with_stops
from tutti import _answer, _messages, _request

HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGES = stubs.load().generation
TEXT = "ab cd ef gh ij kl mn op"


def next_float(value):
    """The next 32 bit float: one bit away."""
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", value))[0] ^ 1))[0]


def honest(outputs=2, tokens=8):
    """The messages of a good stream."""
    messages = []
    for index in range(tokens):
        for output in range(outputs):
            message = MESSAGES.GenerateResponse(index=index, output=output, text=TEXT[3 * index:3 * index + 3])
            token = message.tokens.add(id=100 * output + index, logprob=-0.5 - index)
            token.top.add(id=index, token=b"x", logprob=-0.25 - index)
            messages.append(message)
    for output in range(outputs):
        end = MESSAGES.GenerateResponse(index=tokens, output=output)
        end.finish.reason = MESSAGES.FINISH_REASON_LENGTH
        end.finish.usage.prompt_tokens = 5
        end.finish.usage.completion_tokens = tokens
        end.finish.seed = 7 + output
        messages.append(end)
    return messages


def put_together(messages, error=""):
    answer = Answer(error=error)
    for message in messages:
        answer.add(message)
    return answer


class Lies(unittest.TestCase):
    def verdict(self, messages, error=""):
        return judge(put_together(messages, error), put_together(honest()))

    def check(self, messages, lost=False, different=False, error=""):
        verdict = self.verdict(messages, error)
        self.assertEqual(bool(verdict.lost), lost, verdict)
        self.assertEqual(bool(verdict.different), different, verdict)

    def test_an_honest_answer_is_neither(self):
        self.check(honest())

    def test_other_messages_of_the_same_answer_are_the_same(self):
        messages = honest(outputs=1)
        joined = MESSAGES.GenerateResponse()
        for message in messages[:3]:
            joined.tokens.extend(message.tokens)
            joined.text += message.text
        verdict = judge(put_together([joined, *messages[3:]]), put_together(messages))
        self.assertEqual((verdict.lost, verdict.different), ("", ""))

    def test_a_dropped_token(self):
        for at in (0, 6, 15):
            messages = honest()
            del messages[at]
            self.check(messages, different=True)

    def test_a_dropped_token_with_indices_that_hide_it(self):
        messages = honest()
        dropped = messages.pop(6)
        for message in messages[6:]:
            if message.output == dropped.output:
                message.index -= 1
        self.check(messages, different=True)

    def test_a_token_twice(self):
        messages = honest()
        self.check(messages[:5] + messages[4:], different=True)

    def test_another_token(self):
        messages = honest()
        messages[7].tokens[0].id += 1
        self.check(messages, different=True)

    def test_a_flipped_bit_of_a_logprob(self):
        messages = honest()
        messages[9].tokens[0].logprob = next_float(messages[9].tokens[0].logprob)
        self.check(messages, different=True)

    def test_a_flipped_bit_of_an_alternative(self):
        messages = honest()
        messages[9].tokens[0].top[0].logprob = next_float(messages[9].tokens[0].top[0].logprob)
        self.check(messages, different=True)

    def test_the_sign_of_zero(self):
        one, other = honest(), honest()
        one[0].tokens[0].logprob, other[0].tokens[0].logprob = 0.0, -0.0
        self.assertTrue(judge(put_together(one), put_together(other)).different)

    def test_another_character(self):
        messages = honest()
        messages[3].text = messages[3].text.upper()
        self.check(messages, different=True)

    def test_text_after_the_end(self):
        self.check(honest() + [MESSAGES.GenerateResponse(index=8, text="more")], different=True)

    def test_another_end(self):
        for name, value in (("reason", MESSAGES.FINISH_REASON_STOP), ("stop", "x"), ("seed", 1)):
            messages = honest()
            setattr(messages[-1].finish, name, value)
            self.check(messages, different=True)
        messages = honest()
        messages[-1].finish.usage.completion_tokens += 1
        self.check(messages, different=True)

    def test_an_end_that_comes_early(self):
        messages = honest()
        messages = messages[:4] + messages[-2:]
        self.check(messages, different=True)

    def test_a_stream_that_ends_without_an_end(self):
        self.check(honest()[:4], lost=True)
        self.check([], lost=True)

    def test_an_output_without_an_end(self):
        self.check(honest()[:-1], lost=True)

    def test_an_output_that_nobody_asked_for(self):
        verdict = judge(put_together(honest(3)), put_together(honest(2)))
        self.assertTrue(verdict.different)

    def test_an_error(self):
        self.check(honest()[:4], lost=True, error="UNAVAILABLE: gone")
        self.check([], lost=True, error="UNAVAILABLE: gone")
        self.check(honest(), lost=True, error="CANCELLED: hung")

    def test_an_error_after_a_lie(self):
        messages = honest()[:6]
        messages[5].tokens[0].id += 1
        self.check(messages, lost=True, different=True, error="UNAVAILABLE: gone")


class Counting(unittest.TestCase):
    def report(self, *verdict_of):
        case = Case("greedy-0", None, put_together(honest()))
        with redirect_stdout(io.StringIO()) as said:
            report = Report("kill-spare", 1)
            for messages, error in verdict_of:
                stream = Stream(case)
                stream.verdict = judge(put_together(messages, error), case.expected)
                report.streams.append(stream)
            report.fault("kill w0", 16, [0.010, 0.020, 0.040], [1.0, None])
            good = report.end()
        return good, said.getvalue().splitlines()[-1]

    def test_the_last_line_and_the_status(self):
        good, line = self.report((honest(), ""))
        self.assertTrue(good)
        self.assertEqual(line, "1 faults, 1 streams, 0 lost, 0 different, gap p50 20 ms p99 40 ms")
        flipped = honest()
        flipped[0].tokens[0].logprob = next_float(flipped[0].tokens[0].logprob)
        good, line = self.report((honest(), ""), (honest()[:4], ""), (honest()[:4], "UNAVAILABLE: x"), (flipped, ""))
        self.assertFalse(good)
        self.assertEqual(line, "1 faults, 4 streams, 2 lost, 1 different, gap p50 20 ms p99 40 ms")
        self.assertFalse(self.report((flipped, ""))[0])

    def test_a_run_that_struck_or_noticed_nothing_failed(self):
        for hit, struck, noticed, notices, good in ((16, True, True, True, True), (0, True, True, True, False),
                                                    (16, False, True, True, False), (16, True, False, True, False),
                                                    (16, True, False, False, True)):
            with redirect_stdout(io.StringIO()):
                report = Report("kill-spare", 1)
                report.fault("kill w0", hit, [], [1.0, None], struck=struck, noticed=noticed)
                self.assertEqual(report.end(notices=notices), good, (hit, struck, noticed, notices))

    def test_a_run_that_exceeds_its_figure_failed(self):
        for name, first, last, good in (("noticing", 1.0, 2.9, True), ("noticing", 1.0, 9.9, False), ("gap", 1.0, 2.9, True),
                                        ("gap", 1.0, 3.1, False)):
            # Also where the tests run under a sanitizer, of which nothing is promised.
            with redirect_stdout(io.StringIO()) as said, mock.patch("report.SLOWNESS", 1):
                report = Report("half-open-control", 1, ("F04", name, 3000))
                for seconds in (first, last):
                    report.fault("cut", 16, [seconds], [1000 * seconds])
                self.assertEqual(report.end(), good, (name, last))
            self.assertIn(f"F04: {name} p99 {1000 * last:.0f} ms, promised 3000 ms", said.getvalue())

    def test_a_fault_that_no_stream_felt_may_be_noticed_late(self):
        with redirect_stdout(io.StringIO()) as said:
            report = Report("half-open-workers", 1, ("F04", "noticing", 3000))
            report.fault("cut there", 16, [2.6], [2600])
            report.fault("cut back", 16, [0.03], [6200], felt=False)
            self.assertTrue(report.end())
        self.assertIn("F04: noticing p99 2600 ms, promised 3000 ms", said.getvalue())

    def test_an_answer_without_an_end_is_not_whole(self):
        self.assertTrue(put_together(honest()).is_whole(2))
        self.assertFalse(put_together(honest()).is_whole(3))
        self.assertFalse(put_together(honest()[:-1]).is_whole(2))
        self.assertTrue(put_together(honest(outputs=1)).is_whole(0))
        self.assertFalse(put_together(honest(tokens=0)).is_whole(2))
        self.assertFalse(put_together([]).is_whole(1))

    def test_a_failure_of_the_run_is_one(self):
        with redirect_stdout(io.StringIO()):
            report = Report("kill-spare", 1)
            report.fail("not whole")
            self.assertFalse(report.end())

    def test_quantiles_and_parts(self):
        self.assertEqual(quantile([], 50), 0)
        self.assertEqual(quantile([3, 1, 2], 50), 2)
        self.assertEqual(quantile(range(1, 101), 99), 99)
        self.assertEqual(parts_of([0, 0.5, None, 2.0, 2.5, 1.0]), [500, None, None, 500, None])

    def test_gaps_lie_around_the_fault(self):
        stream = Stream(None)
        stream.arrivals = [0.0, 5.0, 5.1, 6.0, 6.1, 9.0]
        self.assertAlmostEqual(stream.longest_gap(5.5, 6.05), 0.9)
        self.assertAlmostEqual(stream.longest_gap(1.0, 2.0), 5.0)
        self.assertIsNone(stream.longest_gap(9.5, 10.0))


class Obedience(unittest.TestCase):
    LOG = ("--- start 1 ---\n[info] joined the coordinator at unix:a, which leads as number 70\n"
           "[info] epoch 70.1: stage 0 of 2, rank 0 of 1\n[info] epoch 70.1: ready\n"
           "[warn] refusing the coordinator at unix:a: it is coordinator number 69\n"
           "[info] joined the coordinator at unix:b, which leads as number 71\n[info] epoch 71.1: ready\n")

    def test_a_worker_that_obeys_later_ones_only(self):
        self.assertEqual(disobedience("w0", self.LOG), "")
        self.assertEqual(disobedience("w0", self.LOG + "--- start 2 ---\n[info] epoch 70.9: ready\n"), "")

    def test_a_log_that_tells_nothing(self):
        self.assertIn("w0 does not say whom it obeyed", disobedience("w0", "[info] joined\n"))

    def test_a_worker_that_goes_back(self):
        for lie in ("[info] epoch 70.4: stage 1 of 2", "joined the coordinator at unix:a, which leads as number 70"):
            self.assertIn("obeyed coordinator number 70 after number 71", disobedience("w0", f"{self.LOG}{lie}\n"))


class Command(unittest.TestCase):
    """run.py itself, with programs that do nothing."""

    def run_with(self, scenario, script):
        with tempfile.TemporaryDirectory(prefix="tutti-faults-test-") as folder:
            for name in ("tutti-coordinator", "tutti-worker"):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(path, 0o700)
            return subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--scenario", scenario, "--count", "1",
                                   "--binaries", folder, "--keep-logs", os.path.join(folder, "logs")], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def test_the_last_line_comes_whatever_goes_wrong(self):
        # Programs that end at once, and those of which not even --help can be had.
        for script, why in (("exit 0", "ended by itself: coordinator"), ("exit 1", "CalledProcessError")):
            done = self.run_with("kill-spare", script)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(why, done.stdout)
            self.assertEqual(done.stdout.splitlines()[-1],
                             "0 faults, 0 streams, 0 lost, 0 different, gap p50 0 ms p99 0 ms", done.stdout)

    def test_programs_that_cannot_do_it_are_named(self):
        done = self.run_with("poison", "exit 0")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("failing_worker", done.stdout)

    def test_every_scenario_is_listed_with_a_sentence(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--list"], text=True, capture_output=True,
                              check=True)
        lines = [line.split(None, 1) for line in done.stdout.splitlines()]
        self.assertEqual([name for name, _ in lines], list(scenarios.ALL))


class OwnClients(unittest.TestCase):
    """What the harness asks for is what the clients of the product ask for."""

    def test_the_package_asks_for_the_same(self):
        package = own_clients.Package(MESSAGES, "unix:/nowhere")
        self.addCleanup(package.close)
        for case in (*draw_cases(MESSAGES, 1, 14), *draw_cases(MESSAGES, 1, 14, guesses=True)):
            asked = _request.build(None, {**package.arguments(case.request), "request_id": ""})
            wanted = type(asked).FromString(case.request.SerializeToString())
            wanted.n = max(1, wanted.n)
            self.assertEqual(asked, wanted, case.name)

    def test_its_chunks_are_judged_as_messages(self):
        package = own_clients.Package(MESSAGES, "unix:/nowhere")
        self.addCleanup(package.close)
        request = _messages.GenerateRequest(n=2)
        request.sampling.logprobs = True
        answer, chunks = _answer.Answer(request), []
        for message in honest():
            chunks.append(answer.take(_messages.GenerateResponse.FromString(message.SerializeToString())))
        told = [package.message(chunk) for chunk in chunks]
        self.assertEqual(judge(put_together(told), put_together(honest())).different, "")
        told[3].tokens[0].logprob = next_float(told[3].tokens[0].logprob)
        self.assertIn("logprobs differ", judge(put_together(told), put_together(honest())).different)

    def test_the_command_is_told_every_field(self):
        command = own_clients.Command(MESSAGES, "host:1", "bin")
        request = MESSAGES.GenerateRequest(n=3)
        request.token_ids.ids[:] = [1, 2]
        request.sampling.seed, request.sampling.temperature, request.sampling.ignore_eos = 2**63, 0.7, True
        request.sampling.stop[:] = ["a b", "c"]
        request.sampling.allowed_token_ids[:] = [7, 8]
        request.speculation.mode = request.speculation.MODE_OFF
        self.assertEqual(command.arguments(request)[2:], [
            "--json", "--address", "host:1", "--outputs", "3", "--token-ids", "1,2", "--temperature", "0.699999988079071",
            "--seed", str(2**63), "--stop", "a b", "--stop", "c", "--ignore-eos",
            "--allowed-token", "7", "--allowed-token", "8", "--speculation", "off"])


class Requests(unittest.TestCase):
    def test_a_seed_gives_the_same_requests(self):
        first, second, other = (draw_cases(MESSAGES, seed, 21) for seed in (1, 1, 2))
        self.assertEqual([case.request for case in first], [case.request for case in second])
        self.assertNotEqual([case.request for case in first], [case.request for case in other])
        self.assertEqual(len({case.name for case in first}), 21)

    def test_nothing_is_guessed_of_undisturbed_answers(self):
        cases = draw_cases(MESSAGES, 1, 7, guesses=True)
        for case in cases:
            self.assertEqual(case.request.speculation.mode, case.request.speculation.MODE_OFF, case.name)
            self.assertTrue(case.request.sampling.allowed_token_ids, case.name)
        forget_guesses(cases)
        self.assertFalse(any(case.request.HasField("speculation") for case in cases))

    def test_a_stop_string_comes_late_in_the_answer(self):
        cases = draw_cases(MESSAGES, 1, 7)
        for case in cases:
            case.expected = put_together(honest(1))
        with_stops(cases)
        asked = [case for case in cases if case.request.sampling.stop]
        self.assertEqual([case.name.split("-")[0] for case in asked], ["stop"])
        self.assertGreater(TEXT.index(asked[0].request.sampling.stop[0]), len(TEXT) // 2)
        self.assertIsNone(asked[0].expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
