#!/usr/bin/env python3
"""Traces of gateway and coordinator: one trace over both processes, in a file and at a collector; no texts in it, nobody
waits for it, and a traceparent that is none changes nothing."""
import json
import os
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway_faults_test import Machines
from harness import PATIENCE_S, SLOWNESS, Cluster, wait_until
from http_client import Gateway
from prometheus_text import parse

CHAT = "/v1/chat/completions"
SECRET = "the-secret-of-this-prompt"
ASK = {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 4, "temperature": 0, "seed": 7}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER, CLIENT, INTERNAL = 2, 3, 1
HOSTILE = ["", "00", f"00-{TRACE}-{PARENT}", f"00-{TRACE}-{PARENT}-01-x", f"ff-{TRACE}-{PARENT}-01",
           f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01",
           f"00-{TRACE}-{PARENT}-0\"", "{}" * 2000, f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01"]


class Span:
    def __init__(self, service, fields):
        self.service = service
        self.trace, self.id, self.parent = fields["traceId"], fields["spanId"], fields.get("parentSpanId", "")
        self.name, self.kind = fields["name"], fields["kind"]
        self.begin, self.end = int(fields["startTimeUnixNano"]), int(fields["endTimeUnixNano"])
        self.attributes = {a["key"]: next(iter(a["value"].values())) for a in fields["attributes"]}
        self.failed = fields.get("status", {}).get("code") == 2


def spans_of(exports):
    found = []
    for export in exports:
        for resource in export["resourceSpans"]:
            names = {a["key"]: a["value"].get("stringValue") for a in resource["resource"]["attributes"]}
            found += [Span(names["service.name"], span) for scope in resource["scopeSpans"] for span in scope["spans"]]
    return found


def spans_in(path):
    with open(path, encoding="utf-8") as file:
        return spans_of([json.loads(line) for line in file if line.endswith("\n")])


class Collector:
    """Takes OTLP over HTTP; `pause_s` before each answer."""

    def __init__(self, pause_s=0):
        self.exports, collector = [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(pause_s)
                if self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json":
                    collector.exports.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class OneTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-traces-")
        cls.path = os.path.join(cls.folder.name, "spans.jsonl")
        cls.collector = Collector()
        cls.cluster = Cluster("--http", "127.0.0.1:0", "--traces", cls.path, "--otlp-endpoint", cls.collector.url)
        cls.gateway = Gateway(cls.cluster.http)
        wait_until(lambda: cls.gateway.get("/health").status == 200, "the gateway is healthy")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.cleanup()
        cls.collector.close()
        cls.folder.cleanup()

    def trace(self, trace_id, count):
        return wait_until(lambda: (lambda all_of: all_of if len(all_of) >= count else None)(
            [s for s in spans_in(self.path) if s.trace == trace_id]), f"{count} spans of {trace_id}")

    def check(self, spans, parent):
        """All of one request, with the right parents, one inside the other."""
        by_name = {(s.service, s.name): s for s in spans}
        self.assertEqual(len(by_name), 6, [(s.service, s.name) for s in spans])
        request = by_name["tutti-gateway", f"POST {CHAT}"]
        call = by_name["tutti-gateway", "chat demo"]
        served = by_name["tutti-coordinator", "tutti.v1.Inference/Generate"]
        phases = [by_name["tutti-coordinator", name] for name in ("queue", "prefill", "decode")]
        self.assertEqual([request.parent, call.parent, served.parent], [parent, request.id, call.id])
        self.assertEqual([s.parent for s in phases], [served.id] * 3)
        self.assertEqual([s.kind for s in (request, call, served, *phases)],
                         [SERVER, CLIENT, SERVER, INTERNAL, INTERNAL, INTERNAL])
        self.assertEqual([s.end for s in phases[:2]], [s.begin for s in phases[1:]])
        for outer, inner in ((request, call), (call, served)):
            self.assertLessEqual(outer.begin, inner.begin)
            self.assertLessEqual(inner.end - outer.end, 10_000_000)  # of two processes
        self.assertEqual(phases[0].begin, served.begin)
        self.assertGreater(phases[2].end, phases[0].begin)
        self.assertEqual(len({s.id for s in spans}), 6)
        return call, served

    def test_over_both_processes(self):
        answer = self.gateway.post(CHAT, ASK, traceparent=f"00-{TRACE}-{PARENT}-01")
        self.assertEqual(answer.status, 200, answer.body)
        spans = self.trace(TRACE, 6)
        call, served = self.check(spans, PARENT)
        usage = answer.json()["usage"]
        for span in (call, served):
            self.assertEqual(int(span.attributes["gen_ai.usage.input_tokens"]), usage["prompt_tokens"])
            self.assertEqual(int(span.attributes["gen_ai.usage.output_tokens"]), usage["completion_tokens"])
        self.assertEqual(call.attributes["gen_ai.operation.name"], "chat")
        self.assertEqual(int(call.attributes["gen_ai.request.max_tokens"]), 4)
        self.assertEqual(call.attributes["gen_ai.response.id"], served.attributes["tutti.request_id"])
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn(SECRET, text)
        said = answer.json()["choices"][0]["message"]["content"]
        if len(said) > 3:
            self.assertNotIn(json.dumps(said)[1:-1], text)
        wait_until(lambda: sum(s.trace == TRACE for s in spans_of(self.collector.exports)) == 6,
                   "the collector has them too")

    def test_without_a_context_it_has_one_of_its_own(self):
        for hostile in HOSTILE:
            before = {s.trace for s in spans_in(self.path)} if os.path.exists(self.path) else set()
            answer = self.gateway.post(CHAT, ASK, traceparent=hostile)
            self.assertEqual(answer.status, 200, (hostile, answer.body))

            def new_trace(known=before):
                new = [s for s in spans_in(self.path) if s.trace not in known]
                return new if len(new) >= 6 else None

            spans = wait_until(new_trace, f"spans after {hostile[:60]!r}")
            self.assertEqual(len({s.trace for s in spans}), 1)
            self.check(spans, "")

    def test_with_two_contexts_it_has_neither(self):
        known = {s.trace for s in spans_in(self.path)}
        body = json.dumps(ASK).encode()
        lines = "".join(f"traceparent: 00-{TRACE.replace('4bf9', digits)}-{PARENT}-01\r\n" for digits in ("3333", "4444"))
        answer = self.gateway.raw(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(body)}\r\n"
                                  f"Connection: close\r\n\r\n".encode() + body)
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        spans = wait_until(lambda: (lambda new: new if len(new) >= 6 else None)(
            [s for s in spans_in(self.path) if s.trace not in known]), "six spans")
        self.check(spans, "")

    def test_that_is_not_wanted_is_not_written(self):
        unwanted = TRACE.replace("4bf9", "0000")
        self.assertEqual(self.gateway.post(CHAT, ASK, traceparent=f"00-{unwanted}-{PARENT}-00").status, 200)
        wanted = TRACE.replace("4bf9", "1111")
        self.assertEqual(self.gateway.post(CHAT, ASK, traceparent=f"00-{wanted}-{PARENT}-01").status, 200)
        self.trace(wanted, 6)
        self.assertEqual([s for s in spans_in(self.path) if s.trace == unwanted], [])

    def test_of_a_request_that_is_refused_says_so(self):
        trace = TRACE.replace("4bf9", "2222")
        answer = self.gateway.post(CHAT, {**ASK, "temperature": 1001}, traceparent=f"00-{trace}-{PARENT}-01")
        self.assertEqual(answer.status, 400)
        for span in self.trace(trace, 3):
            self.assertTrue(span.failed)
            self.assertEqual(span.attributes["error.type"], "INVALID_ARGUMENT")


class BySeparateProcesses(Machines):
    def setUp(self):
        self.traces = os.path.join(tempfile.mkdtemp(prefix="tutti-traces-"), "spans.jsonl")
        self.coordinator_flags = ["--traces", self.traces]
        super().setUp()

    def test_a_gateway_that_writes_none_passes_the_context_on(self):
        _, gateway = self.healthy_gateway()
        self.assertEqual(gateway.post(CHAT, ASK, traceparent=f"00-{TRACE}-{PARENT}-01").status, 200)
        wait_until(lambda: os.path.exists(self.traces) and os.path.getsize(self.traces) > 0, "spans are written")
        spans = spans_in(self.traces)
        self.assertEqual({s.trace for s in spans}, {TRACE})
        self.assertEqual([s.parent for s in spans if s.kind == SERVER], [PARENT])

    def test_nobody_waits_for_a_collector(self):
        collector = Collector(pause_s=PATIENCE_S)
        self.addCleanup(collector.close)
        process, gateway = self.healthy_gateway("--otlp-endpoint", collector.url)

        def dropped():
            families = parse(gateway.get("/metrics").body.decode())
            return {s[1]["reason"]: s[2] for s in families["tutti_spans_dropped_total"].samples}["failed"]

        begin = time.monotonic()
        for _ in range(10):
            self.assertEqual(gateway.post(CHAT, ASK).status, 200)
        self.assertLess(time.monotonic() - begin, 10 * SLOWNESS)
        wait_until(lambda: dropped() >= 2, "what the collector did not take is counted")
        begin = time.monotonic()
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)
        self.assertLess(time.monotonic() - begin, 10 * SLOWNESS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
