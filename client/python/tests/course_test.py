#!/usr/bin/env python3
"""When a call is tried again, where and how often: pure, under a clock of the test's."""
import unittest

import fake_service  # finds the package
import grpc

from tutti import RetryPolicy, TuttiError, _messages
from tutti._answer import Answer
from tutti._course import Addresses, Course, Failure

Code = grpc.StatusCode
POLICY = RetryPolicy(tries=5, total_s=10, first_delay_s=0.1, max_delay_s=1)
LOST = Failure(Code.UNAVAILABLE, "lost")


class CourseTest(unittest.TestCase):
    def course(self, addresses="a:1", policy=POLICY, timeout_s=None, resume=True, draw=1.0):
        self.now = 100.0
        self.answer = Answer(_messages.GenerateRequest(n=1))
        self.addresses = Addresses(addresses)
        return Course(self.addresses, policy, self.answer, resume=resume, timeout_s=timeout_s,
                      now=lambda: self.now, draw=lambda: draw)

    def fail(self, course, failure=LOST):
        """(delay, address of the next try); the clock goes on by the delay."""
        delay_s = course.after(failure)
        self.now += delay_s
        return round(delay_s, 6), course.address

    def hand_on(self, token=b"t"):
        message = _messages.GenerateResponse(text="x", tokens=[{"id": 1}])
        message.started.resume_token = token
        self.answer.take(message)

    def test_delays_double_to_the_longest_and_begin_anew_after_progress(self):
        course = self.course()
        self.assertEqual([self.fail(course)[0] for _ in range(5)], [0.1, 0.2, 0.4, 0.8, 1.0])
        course.progress()
        self.assertEqual(self.fail(course)[0], 0.1)

    def test_delays_are_drawn_from_the_upper_half(self):
        self.assertEqual(self.fail(self.course(draw=0.0))[0], 0.05)
        self.assertEqual(self.fail(self.course(draw=0.5))[0], 0.075)

    def test_tries_are_bounded(self):
        course = self.course()
        for _ in range(5):
            self.fail(course)
        with self.assertRaisesRegex(TuttiError, "UNAVAILABLE: lost; tries failed: 6, in 2.5 s") as caught:
            course.after(LOST)
        self.assertEqual(caught.exception.tries, 6)

    def test_time_without_progress_is_bounded(self):
        course = self.course()
        self.fail(course)
        self.now += 9.9
        with self.assertRaisesRegex(TuttiError, "in 10.0 s"):
            course.after(LOST)
        course = self.course()
        self.fail(course)
        course.progress()
        self.now += 9.9
        self.assertEqual(self.fail(course)[0], 0.1)

    def test_no_tries_are_no_tries(self):
        with self.assertRaises(TuttiError):
            self.course(policy=RetryPolicy(tries=0)).after(LOST)

    def test_the_calls_own_time_is_not_waited_for(self):
        course = self.course(timeout_s=0.25)
        self.assertEqual(self.fail(course)[0], 0.1)
        self.assertAlmostEqual(course.remaining_s(), 0.15)
        with self.assertRaisesRegex(TuttiError, "time ends before the next try"):
            course.after(LOST)

    def test_another_address_is_next_and_each_has_its_own_delay(self):
        course = self.course(["a:1", "b:1"])
        self.assertEqual([self.fail(course) for _ in range(4)],
                         [(0.1, "b:1"), (0.1, "a:1"), (0.2, "b:1"), (0.2, "a:1")])

    def test_what_answered_last_is_where_the_next_call_begins(self):
        course = self.course("a:1, b:1")
        self.fail(course)
        course.progress()
        later = Course(self.addresses, POLICY, self.answer, resume=True, timeout_s=None, now=lambda: 0,
                       draw=lambda: 0)
        self.assertEqual(later.address, "b:1")

    def test_the_services_delay_is_for_the_address_that_asked(self):
        full = Failure(Code.RESOURCE_EXHAUSTED, "full", delay_s=5)
        self.assertEqual(self.fail(self.course(), full), (5, "a:1"))
        course = self.course(["a:1", "b:1"])
        self.assertEqual(self.fail(course, full), (0.1, "b:1"))
        self.assertEqual(self.fail(course, full), (4.9, "a:1"))

    def test_an_answer_that_has_begun_waits_for_no_service_but_a_full_one(self):
        ends = Failure(Code.UNAVAILABLE, "shuts down", delay_s=5)
        self.assertEqual(self.fail(self.course(), ends), (5, "a:1"))
        course = self.course()
        self.hand_on()
        self.assertEqual(self.fail(course, ends), (0.1, "a:1"))
        self.assertEqual(self.fail(course, Failure(Code.RESOURCE_EXHAUSTED, "full", delay_s=5)), (5, "a:1"))

    def test_a_delay_longer_than_the_patience_ends_it_now(self):
        with self.assertRaisesRegex(TuttiError, "RESOURCE_EXHAUSTED"):
            self.course().after(Failure(Code.RESOURCE_EXHAUSTED, "full", delay_s=11))
        with self.assertRaisesRegex(TuttiError, "RESOURCE_EXHAUSTED: full; the call's time"):
            self.course(timeout_s=3).after(Failure(Code.RESOURCE_EXHAUSTED, "full", delay_s=4))

    def test_a_begun_answer_needs_leave_and_a_token(self):
        course = self.course(resume=False)
        self.fail(course)
        self.hand_on()
        with self.assertRaisesRegex(TuttiError, "not resumed, as asked"):
            course.after(LOST)
        course = self.course()
        self.hand_on(token=b"")
        with self.assertRaisesRegex(TuttiError, "has not said how to resume"):
            course.after(LOST)

    def test_resumed_counts_what_was_gone_on_with(self):
        course = self.course()
        self.fail(course)
        self.hand_on()
        course.progress()
        self.assertEqual(course.resumed, 0)
        self.fail(course)
        self.fail(course)
        self.assertEqual(course.resumed, 0)
        course.progress()
        course.progress()
        self.assertEqual(course.resumed, 1)


class FailureTest(unittest.TestCase):
    def test_statuses_that_are_tried_again(self):
        retried = {code for code in Code if Failure(code, "said by the service").retried}
        self.assertEqual(retried, {Code.UNAVAILABLE, Code.CANCELLED})

    def test_a_lost_connection_by_grpcs_other_names(self):
        self.assertTrue(Failure(Code.UNKNOWN, "Stream removed").retried)
        self.assertTrue(Failure(Code.INTERNAL, "Received RST_STREAM with error code 2").retried)

    def of(self, *metadata, code=Code.RESOURCE_EXHAUSTED):
        return Failure.of(code, "full", metadata)

    def test_the_services_delay(self):
        self.assertEqual(self.of(("retry-after-ms", "1500")).delay_s, 1.5)
        self.assertEqual(self.of(("grpc-retry-pushback-ms", b"250")).delay_s, 0.25)
        both = self.of(("retry-after-ms", "100"), ("grpc-retry-pushback-ms", "200"))
        self.assertEqual((both.delay_s, both.retried), (0.2, True))
        self.assertFalse(self.of().retried)
        self.assertIsNone(Failure.of(Code.UNAVAILABLE, None, None).delay_s)

    def test_a_delay_that_is_none(self):
        for value in ("", "soon", "-1", "3600001", "1.5"):
            self.assertFalse(self.of(("retry-after-ms", value)).retried, value)
            self.assertTrue(self.of(("retry-after-ms", value), code=Code.UNAVAILABLE).retried, value)

    def test_a_push_back_that_forbids(self):
        for value in ("-1", "no"):
            self.assertFalse(self.of(("grpc-retry-pushback-ms", value), code=Code.UNAVAILABLE).retried)


class ArgumentsTest(unittest.TestCase):
    def test_addresses(self):
        self.assertEqual(Addresses("a:1,unix:/x, [::1]:2").all, ["a:1", "unix:/x", "[::1]:2"])
        for wrong in ("", "host", "host:", "host:http", "host:0", "host:65536", "http://host:1", [], ["a:1", ""]):
            with self.assertRaises(ValueError, msg=wrong):
                Addresses(wrong)

    def test_a_policy_that_cannot_be(self):
        for wrong in ({"tries": -1}, {"total_s": -1}, {"first_delay_s": 0}, {"first_delay_s": 2}):
            with self.assertRaises(ValueError, msg=wrong):
                RetryPolicy(**wrong)


if __name__ == "__main__":
    unittest.main()
