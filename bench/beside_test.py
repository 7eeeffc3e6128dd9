#!/usr/bin/env python3
"""What bench/beside reads of both programs' outputs, and what it makes of it. Outputs recorded by hand."""
import http.server
import json
import os
import threading
import unittest

import beside_testing
import llama
import load
import programs
import readings
import report
import token_times
import work
from beside_testing import LOCAL, PROBE

BENCH = """warning: asserts enabled, performance may be affected
[
  {
    "build_commit": "unknown",
    "n_threads": 2,
    "n_prompt": 512,
    "n_gen": 0,
    "n_depth": 0,
    "avg_ns": 2100000000,
    "avg_ts": 243.809524,
    "samples_ns": [ 2100000000 ],
    "samples_ts": [ 243.81 ]
  },
  {
    "n_prompt": 0,
    "n_gen": 64,
    "n_depth": 512,
    "avg_ts": 17.9,
    "samples_ts": [ 17.9 ]
  }
]
"""
BATCHED = """
main: n_kv_max = 1792, n_batch = 2048, n_ubatch = 512, n_threads = 2

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |     64 |    8 |   1536 |    3.710 |   276.01 |    6.176 |    82.90 |    9.886 |   155.37 |
|   128 |     64 |   16 |   3072 |    8.063 |   254.00 |    9.855 |   103.91 |   17.918 |   171.45 |

llama_perf_context_print:        load time =     812.11 ms
"""


class Readings(unittest.TestCase):
    def test_reads_what_the_programs_print(self):
        self.assertEqual(readings.probe(PROBE), {"read": 33.4, "f32": 94.9, "this class": 447.2, "best": 3175.0})
        self.assertEqual(readings.probe("probe: read 9 GB/s, f32 190.1 GFLOP/s\n"), {"read": 9.0, "f32": 190.1})
        self.assertEqual(readings.tutti_local(LOCAL, "prefill"), (301.5, 0.71))
        self.assertEqual(readings.tutti_local(LOCAL, "decode"), (26.75, 0.93))
        self.assertEqual(readings.llama_bench(BENCH, prompt=512), 243.809524)
        self.assertEqual(readings.llama_bench(BENCH, generated=64, depth=512), 17.9)
        self.assertEqual(readings.llama_batched(BATCHED, 8), 82.9)
        self.assertEqual(readings.llama_batched(BATCHED, 16), 103.91)

    def test_says_what_it_cannot_read(self):
        for reading, said in (
                (lambda: readings.probe("nothing here"), "no line `probe: read ...`.*nothing here"),
                (lambda: readings.tutti_local("oh", "prefill"), "no JSON.*'oh'"),
                (lambda: readings.tutti_local("{}", "decode"), "no decode_tokens_per_second"),
                (lambda: readings.tutti_local(LOCAL.replace("301.5", "0"), "prefill"), "is 0 in"),
                (lambda: readings.tutti_local(LOCAL.replace("decode_share", "x"), "decode"), "no decode_share"),
                (lambda: readings.llama_bench("", prompt=512), "no JSON.*nothing"),
                (lambda: readings.llama_bench(BENCH, prompt=2048), "0 tests of"),
                (lambda: readings.llama_bench(BENCH, generated=64), "0 tests of .*'n_depth': 0"),
                (lambda: readings.llama_batched(BATCHED, 4), "0 rows of 4 sequences"),
                (lambda: readings.llama_batched(BATCHED.replace("82.90", "-nan"), 8), "S_TG is nan"),
                (lambda: readings.llama_batched(BATCHED.replace("S_TG", "Q_TG"), 8), "0 rows")):
            with self.assertRaisesRegex(readings.ReadingError, said):
                reading()

    def test_reads_events(self):
        self.assertIsNone(readings.event(b": comment\n"))
        self.assertIsNone(readings.event(b"id: 7\n"))
        self.assertEqual(readings.event(b"data: [DONE]\n"), "[DONE]")
        self.assertTrue(readings.event(b'data: {"choices":[{"text":"a"}]}\n'))
        self.assertFalse(readings.event(b'data: {"choices":[{"text":"","finish_reason":"length"}]}\n'))
        self.assertFalse(readings.event(b'data: {"choices":[],"usage":{}}\n'))
        for bad, said in ((b"data: {oh\n", "no JSON"), (b'data: {"error":{"message":"full"}}\n', "full")):
            with self.assertRaisesRegex(readings.ReadingError, said):
                readings.event(bad)


class Report(unittest.TestCase):
    def test_medians_and_ratios_within_rounds(self):
        figure = report.Figure("answer", "tokens/s", "more")
        for number, (ours, theirs) in enumerate(((20, 10), (30, 20), (10, 20))):
            figure.add("tutti", number, (ours, ours / 40))
            figure.add("peer", number, theirs)
        figure.add("late", 2, 5)
        summary = figure.summary(["tutti"], ["peer", "late", "absent"])
        self.assertEqual(summary["sides"], {"tutti": {"median": 20, "all": [20, 30, 10], "share": 0.5, "share_all": [0.5, 0.75, 0.25]},
                                            "peer": {"median": 20, "all": [10, 20, 20]},
                                            "late": {"median": 5, "all": [None, None, 5]}})
        self.assertEqual(summary["ratios"], {"tutti / peer": {"median": 1.5, "least": 0.5, "most": 2, "rounds": 3},
                                             "tutti / late": {"median": 2, "least": 2, "most": 2, "rounds": 1}})
        less = report.Figure("gap", "s", "less")
        less.add("tutti", 0, 1.0)
        less.add("peer", 0, 7.0)
        self.assertEqual(less.ratios("tutti", "peer")["median"], 7)

    def test_the_tables_name_who_was_left_out(self):
        row = report.Row("decode-0", [report.Figure("answer", "tokens/s", "more")])
        row.figures[0].add("tutti", 0, (26.0, 0.934))
        row.figures[0].add("peer", 0, 13.0)
        row.failed["other"] = "it ended\nat once"
        row.probes = [{"read": 30.0, "f32": 90.0, "best": 440.0}, {"read": 40.0, "f32": 80.0, "best": 420.0}]
        skipped = report.Row("server", [report.Figure("gap", "s", "less")])
        skipped.skipped["peer"] = "no llama-server in /x"
        table = report.markdown([row, skipped], ["tutti"], ["peer", "other"])
        self.assertIn("| decode-0 | answer, tokens/s | 26, 93 % | 13 | - | 35.0 (30.0 to 40.0) | best 430 (420 to 440) |", table)
        self.assertIn("| decode-0 | answer | 2.00 (2.00 to 2.00) | - |", table)
        self.assertIn("- decode-0: other failed: it ended at once", table)
        self.assertIn("- server: peer skipped: no llama-server in /x", table)


class Load(unittest.TestCase):
    def test_figures_of_streams(self):
        got = token_times.figures([[1.0, 1.1, 3.0], [2.0, 2.1, 2.2]], 4.0, 64)
        self.assertEqual(got["ttft"], 1.5)
        self.assertAlmostEqual(got["gap"], 1.9)
        self.assertAlmostEqual(got["itl"], 0.1)
        self.assertEqual(got["tokens/s"], 32)
        # From 2.0 to 2.2 the second stream brings two of its three events, the first none.
        self.assertAlmostEqual(got["together"], 2 * 64 / 3 / 0.2)
        self.assertEqual(token_times.figures([[1.0, 1.5], [2.0, 3.0]], 4.0, 64)["together"], 0)

    def serve(self, answer):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                status, body = answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), server.server_close(), thread.join()))
        return f"127.0.0.1:{server.server_port}", asked

    def test_asks_all_at_once_and_waits_for_the_end(self):
        events = b'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b"}]}\n\ndata: [DONE]\n\n'
        address, asked = self.serve((200, events))
        got = load.ask(address, work.ALL[9].prompts(0, 2000, count=2, prompt=5), 2, {"cache_prompt": False})
        self.assertEqual(len(asked), 2)
        self.assertNotEqual(asked[0]["prompt"], asked[1]["prompt"])
        self.assertTrue(asked[0]["stream"] and asked[0]["ignore_eos"] and asked[0]["cache_prompt"] is False)
        self.assertEqual(got["events"], 2)
        self.assertGreater(got["ttft"], 0)

    def test_a_failing_server_is_quoted(self):
        for answer, said in (((500, b"no slot"), "HTTP 500.*no slot"), ((200, b"data: [DONE]\n\n"), "had no text")):
            address, _ = self.serve(answer)
            with self.assertRaisesRegex(readings.ReadingError, said):
                load.ask(address, [[1], [2]], 2, {})


class Llama(unittest.TestCase):
    """The command as a whole, with programs that print what was recorded."""

    def setUp(self):
        self.fakes = beside_testing.Fakes(self)
        self.fakes.program("llama-bench", BENCH)
        self.gguf = self.fakes.write("m.gguf", "")

    def run_command(self, *flags):
        return self.fakes.run("--llama", self.fakes.folder, self.gguf, *flags)

    def test_rounds_and_probes_are_kept(self):
        path = os.path.join(self.fakes.folder, "figures.json")
        status, out, err = self.run_command("--only", "prefill-512", "--only", "streams-8", "--rounds", "3", "--json", path)
        self.assertEqual(status, 0, err)
        self.assertIn("| prefill-512 | prompt, tokens/s | 301.5, 71 % | 243.8 |", out)
        self.assertIn("| prefill-512 | prompt | 1.24 (1.24 to 1.24) |", out)
        self.assertNotIn("streams-8", out, "a row that no peer can do is not measured")
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(kept["rows"][0]["figures"][0]["sides"]["tutti"]["all"], [301.5] * 3)
        self.assertEqual(len(kept["rows"][0]["probes"]), 12, "before and after each of two")
        self.assertEqual(kept["about"]["sides"]["tutti"]["version"], "tutti 0.9")

    def test_a_program_that_fails_is_quoted_and_the_other_rows_go_on(self):
        self.fakes.program("llama-bench", BENCH, status=3)
        self.fakes.program("llama-batched-bench", BATCHED)
        status, out, err = self.run_command("--only", "decode-0", "--only", "streams-8", "--rounds", "2")
        self.assertEqual(status, 1)
        self.assertRegex(err, "decode-0, round 1 of 2: llama.cpp failed: .*llama-bench.* ended with 3: cause")
        self.assertIn("- decode-0: llama.cpp failed:", out)
        self.assertIn("| decode-0 | answer, tokens/s | 26.75, 93 % | - |", out)
        self.assertIn("| streams-8 | answers together, tokens/s | 26.75, 93 % | 82.9 |", out)

    def test_what_is_missing_is_named(self):
        for program in ("kernels_bench", "tutti-bench", "tutti-coordinator"):
            os.rename(os.path.join(self.fakes.folder, program), os.path.join(self.fakes.folder, "away"))
            status, _, err = self.run_command()
            os.rename(os.path.join(self.fakes.folder, "away"), os.path.join(self.fakes.folder, program))
            self.assertEqual(status, 2)
            self.assertIn(f"no {program} in", err)
        with self.assertRaisesRegex(programs.ProgramError, "no file /nowhere.gguf"):
            llama.Llama(self.fakes.folder, "/nowhere.gguf", 1, 5000)

    def test_every_row_says_what_it_needs(self):
        side = llama.Llama(self.fakes.folder, self.gguf, 1, 5000)
        for row in work.ALL:
            self.assertEqual(side.lacks(row) == "", row.kind in ("prompt", "answer"), row.name)
            self.assertTrue(hasattr(side, row.kind) and row.figures)


if __name__ == "__main__":
    unittest.main()
