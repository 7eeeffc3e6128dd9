"""Tables of the kernels of a step, from a recording made here: bench/kernel_times.cc writes the same."""
import json
import os
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu_check.d"))
import kernel_times  # noqa: E402

KERNELS = [["tutti::kernels::cuda::(anonymous namespace)::Embed(tutti::kernels::cuda::EmbedArgs)", 16, 1, 1, 256, 21, 0],
           ["void tutti::kernels::cuda::(anonymous namespace)::Attend<(bool)1, (int)128>(tutti::kernels::cuda::Args)", 16, 8, 1, 32, 255, 0],
           ["void tutti::kernels::cuda::(anonymous namespace)::Wide<true, Shape<64, 1> >(Args)", 132, 1, 1, 384, 168, 9]]


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kernel_times_")
        self.path = os.path.join(self.folder.name, "times")

    def tearDown(self):
        self.folder.cleanup()

    def record(self, runs):
        with open(self.path, "wb") as file:
            file.write(json.dumps({"lost": 0, "kernels": KERNELS}).encode() + b"\n")
            file.writelines(struct.pack("<dfi", *run) for run in runs)

    def test_names_are_short(self):
        self.assertEqual([kernel_times.plain(kernel[0]) for kernel in KERNELS], ["Embed", "Attend<1, 128>", "Wide<true, Shape<64, 1> >"])

    def test_steps_of_a_kind_are_one_table(self):
        runs = []
        for step in range(5):
            runs += [(40 * step, 3, 0), (40 * step + 4, 9, 1), (40 * step + 14, 11, 1)]
        self.record([*runs, (200, 3, 0), (210, 2, 2), (220, 3, 0)])
        text = kernel_times.tables(self.path)
        self.assertIn("5 steps of 3 kernels, 40 µs each", text)
        self.assertIn("| Attend<1, 128> | 16 x 8 x 1 | 32 | 255 | 2.0 | 10.0 | 1.0 | 11.0 | 22 | 55 % |", text)
        self.assertNotIn("Wide", text, "one step of few rows is no kind")

    def test_an_early_start_is_a_gap_below_zero(self):
        self.record([(10 * i + at, 6, number) for i in range(4) for at, number in ((0, 0), (4, 1))])
        self.assertIn("| 1.0 | 6.0 | -2.0 | 4.0 | 4 | 40 % |", kernel_times.tables(self.path))

    def test_a_recording_that_was_cut_is_read_as_far_as_it_goes(self):
        self.record([(10 * i, 6, 0) for i in range(6)])
        with open(self.path, "ab") as file:
            file.write(b"\0" * 7)
        self.assertIn("5 steps of 1 kernels", kernel_times.tables(self.path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
