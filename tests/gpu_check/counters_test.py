"""Counters as ncu writes them, among its own lines and those of the program."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu_check.d"))
import counters  # noqa: E402

NAMES = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
         '"Section Name","Metric Name","Metric Unit","Metric Value"')
WIDE = "void unnamed>::WideProduct<1, unnamed>::WideShape<256, 0>>(ProductArgs)"


def line(number, kernel, metric, value, grid="(132, 1, 1)"):
    return f'"{number}","514","tutti-bench","127.0.0.1","{kernel}","1","7","(384, 1, 1)","{grid}","0","9.0","Command line","{metric}","","{value}"'


class Counters(unittest.TestCase):
    def test_kernels_are_rows_among_other_lines(self):
        text = "\n".join([
            "==PROF== Connected to process 514 (/tmp/tutti-bench)", '{"model": "x", "batch": 1}', NAMES,
            line(0, WIDE, "gpu__time_duration.sum", "143,392"),
            line(0, WIDE, "dram__throughput.avg.pct_of_peak_sustained_elapsed", "22.99"),
            line(0, WIDE, "l1tex__m_xbar2l1tex_read_bytes.sum", "1,207,959,552"),
            line(1, "AttendWide(Args)", "gpu__time_duration.sum", "20,000", "(128, 8, 1)"),
            line(1, "AttendWide(Args)", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "n/a", "(128, 8, 1)")])
        wide, attend = counters.rows(text)
        self.assertEqual(wide, {"kernel": "WideProduct<1, WideShape<256, 0>>", "grid": "132, 1, 1", "us": 143.392, "memory": 22.99,
                                "MB from the L2 cache": 1207.959552})
        self.assertEqual(attend, {"kernel": "AttendWide", "grid": "128, 8, 1", "us": 20.0})
        table = counters.table([wide, attend])
        self.assertIn("| WideProduct<1, WideShape<256, 0>> | 132, 1, 1 | 143.4 | 23.0 |", table[-2])
        self.assertEqual({row.count("|") for row in table[1:]}, {len(counters.METRICS) + 3})

    def test_a_text_that_was_cut_is_read_as_far_as_it_goes(self):
        text = "\n".join([NAMES, line(0, WIDE, "gpu__time_duration.sum", "1,000"), line(1, WIDE, "gpu__time", "2")[:60]])
        self.assertEqual([row["us"] for row in counters.rows(text)], [1.0])
        self.assertEqual(counters.rows("==ERROR== the driver says no\n"), [])

    def test_the_first_chunk_and_layer_are_left_out(self):
        command = counters.command("ncu", ["bench"], (64, 1, 2), 36)
        self.assertEqual(command[command.index("--launch-skip") + 1], str(36 * 5 + 1 + 5))
        self.assertEqual(command[command.index("--load") + 1], "64,1,2")


if __name__ == "__main__":
    unittest.main(verbosity=2)
