#!/usr/bin/env python3
"""What bench/beside reads of both programs' outputs, and what it makes of it. Outputs recorded by hand."""
import contextlib
import http.server
import io
import json
import os
import sys
import tempfile
import threading
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "beside.d"))
import load  # noqa: E402
import programs  # noqa: E402
import readings  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402

PROBE = """class cpu-bf16dot, 2 threads
probe: read 33.4 GB/s, f32 94.9 GFLOP/s, bf16 dot 447.2 GFLOP/s
"""
LOCAL = json.dumps({"model": "m", "prefill_tokens_per_second": 301.5, "prefill_share": 0.71,
                    "decode_tokens_per_second": 26.75, "decode_share": 0.93})
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
        self.assertEqual(readings.probe(PROBE), {"read": 33.4, "f32": 94.9, "bf16 dot": 447.2})
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
        for ours, theirs in ((20, 10), (30, 20), (10, 20)):
            figure.add(ours, theirs)
        summary = figure.summary()
        self.assertEqual((summary["tutti"], summary["llama.cpp"], summary["ratio"]), (20, 20, 1.5))
        self.assertEqual((summary["ratio_least"], summary["ratio_most"]), (0.5, 2))
        less = report.Figure("gap", "s", "less")
        less.add(1.0, 7.0)
        self.assertEqual(less.summary()["ratio"], 7)

    def test_the_table_names_what_was_skipped(self):
        row = report.Row("decode-0", [report.Figure("answer", "tokens/s", "more")])
        row.figures[0].add((26.0, 0.934), 13.0)
        row.probes = [{"read": 30.0, "f32": 90.0, "bf16 dot": 440.0}, {"read": 40.0, "f32": 80.0, "bf16 dot": 420.0}]
        other = report.Row("server", [report.Figure("gap", "s", "less")])
        other.skipped = "no llama-server in /x"
        table = report.markdown([row, other])
        self.assertIn("| decode-0 | answer, tokens/s | 26 | 93 % | 13 | 2.00 (2.00 to 2.00) | 1 | 35.0 (30.0 to 40.0) | "
                      "430.0 (420.0 to 440.0) |", table)
        self.assertIn("| server | skipped: no llama-server in /x |", table)


class Load(unittest.TestCase):
    def test_figures_of_streams(self):
        got = load.figures([[1.0, 1.1, 3.0], [2.0, 2.1, 2.2]], 4.0, 64)
        self.assertEqual(got["ttft"], 1.5)
        self.assertAlmostEqual(got["gap"], 1.9)
        self.assertAlmostEqual(got["itl"], 0.1)
        self.assertEqual(got["tokens/s"], 32)
        # From 2.0 to 2.2 the second stream brings two of its three events, the first none.
        self.assertAlmostEqual(got["together"], 2 * 64 / 3 / 0.2)
        self.assertEqual(load.figures([[1.0, 1.5], [2.0, 3.0]], 4.0, 64)["together"], 0)

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
        got = load.ask(address, [load.prompt_of(seed, 5, 2000) for seed in (1, 2)], 2, {"cache_prompt": False})
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


class Program(unittest.TestCase):
    """The command as a whole, with programs that print what was recorded."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = os.path.join(self.folder, "model")
        os.mkdir(self.model)
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"vocab_size": 5000}, file)
        self.gguf = self.write("m.gguf", "")
        for name, output in (("tutti", ""), ("tutti-bench", LOCAL), ("kernels_bench", PROBE), ("llama-bench", BENCH)):
            self.program(name, output)
        loader = SourceFileLoader("beside", os.path.join(HERE, "beside"))
        spec = spec_from_loader("beside", loader)
        self.command = module_from_spec(spec)
        loader.exec_module(self.command)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def program(self, name, output, status=0):
        self.write(name + ".txt", output)
        path = self.write(name, f'#!/bin/sh\ncat "$0.txt"\necho cause >&2\nexit {status}\n')
        os.chmod(path, 0o755)

    def run_command(self, *flags):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = self.command.main([self.folder, self.gguf, self.model, "--tutti", self.folder, *flags])
        return status, out.getvalue(), err.getvalue()

    def test_rounds_and_probes_are_kept(self):
        path = os.path.join(self.folder, "figures.json")
        status, out, _ = self.run_command("--only", "prefill-512", "--only", "streams-8", "--rounds", "3", "--json", path)
        self.assertEqual(status, 0)
        self.assertIn("| prefill-512 | prompt, tokens/s | 301.5 | 71 % | 243.8 | 1.24", out)
        self.assertIn("| streams-8 | skipped: no llama-batched-bench in", out)
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(kept["rows"][0]["figures"][0]["tutti_all"], [301.5] * 3)
        self.assertEqual(len(kept["rows"][0]["probes"]), 9, "before, between and after")

    def test_a_program_that_fails_is_quoted_and_the_other_rows_go_on(self):
        self.program("llama-bench", BENCH, status=3)
        self.program("llama-batched-bench", BATCHED)
        status, out, err = self.run_command("--only", "decode-0", "--only", "streams-8", "--rounds", "1")
        self.assertEqual(status, 1)
        self.assertRegex(err, "decode-0: .*llama-bench.* ended with 3: cause")
        self.assertIn("| streams-8 | answers together, tokens/s | 26.75 | 93 % | 82.9 |", out)

    def test_what_is_missing_is_named(self):
        os.unlink(os.path.join(self.folder, "kernels_bench"))
        status, _, err = self.run_command()
        self.assertEqual(status, 2)
        self.assertIn("no kernels_bench in", err)
        with self.assertRaisesRegex(programs.ProgramError, "no file"):
            programs.Llama(self.folder, "/nowhere.gguf", 1)

    def test_every_row_says_what_it_needs(self):
        for row in rows.all_rows():
            self.assertTrue(rows.needs(row))
            self.assertTrue(row.figures())


if __name__ == "__main__":
    unittest.main()
