#!/usr/bin/env python3
"""What bench/beside makes of peers that answer through a driver: one of ours that computes its times, and hostile ones."""
import json
import os
import signal
import subprocess
import sys
import unittest

import beside_testing
import peers
import programs
import readings
import work

DRIVERS = os.path.join(beside_testing.HERE, "beside.d", "drivers")
# 1,000 prompt tokens a second, one after another; then each answer 10 tokens a second.
HONEST = '''
import sys
sys.path.insert(0, {drivers!r})
import asked

def answer(prompts, tokens):
    print("chatter on stdout")
    begun, times = 0, []
    for ids in prompts:
        begun += len(ids) / 1000
        times.append([begun + 0.1 * i for i in range(tokens)])
    {change}
    return times

def start():
    {before}
    return {{"version": "fake 1", "arguments": sys.argv[1:] {settings}}}, answer

sys.exit(asked.serve(start))
'''


class Peers(unittest.TestCase):
    def setUp(self):
        self.fakes = beside_testing.Fakes(self)

    def interpreter(self, name="python", change="", before="", settings=""):
        """Runs our fake in the place of the driver it is given."""
        fake = self.fakes.write(name + ".py", HONEST.format(drivers=DRIVERS, change=change, before=before, settings=settings))
        return self.fakes.script(name, f'#!/bin/sh\nexec {sys.executable} {fake} "$@"\n')

    def measure(self, python, name):
        """The values of a row, of a peer that is started for it."""
        peer = peers.vllm(python, self.fakes.model, 2, 5000)
        self.addCleanup(peer.end)
        peer.start()
        return peer.measure(next(row for row in work.ALL if row.name == name), 0)

    def test_values_follow_from_the_times(self):
        python = self.interpreter()
        self.assertAlmostEqual(self.measure(python, "prefill-512")[0], 1000)
        self.assertAlmostEqual(self.measure(python, "decode-2048")[0], 10)
        # While all eight answer, each 10 tokens a second.
        self.assertAlmostEqual(self.measure(python, "streams-8")[0], 80, delta=2)
        first, gap, rate = self.measure(python, "server")
        self.assertAlmostEqual(first, 4.5 * 0.512)
        self.assertAlmostEqual(gap, 0.1)
        self.assertAlmostEqual(rate, 8 * 64 / (8 * 0.512 + 6.3))

    def test_all_sides_take_turns_and_every_value_is_kept(self):
        path = os.path.join(self.fakes.folder, "figures.json")
        status, out, err = self.fakes.run(
            "--vllm", self.interpreter(), "--torch", self.interpreter("other", settings=', "serves_not": "static batches"'),
            "--numerics-class", "cpu-f32", "--numerics-class", "cpu-bf16dot", "--only", "prefill-512", "--only", "server",
            "--only", "layers-2", "--rounds", "2", "--json", path, "--threads", "2")
        self.assertIn("tutti cpu-f32 failed: ", err, "a fake of it prints no server's line, and ends")
        self.assertEqual(status, 1)
        turns = [line.split(": ")[2] for line in err.splitlines() if "prefill-512, round" in line]
        self.assertEqual(turns, ["tutti cpu-f32", "tutti cpu-bf16dot", "vllm", "torch",
                                 "tutti cpu-bf16dot", "vllm", "torch", "tutti cpu-f32"])
        asked = self.fakes.asked("tutti-bench")
        self.assertEqual(len(asked), 4)
        self.assertIn("--numerics-class cpu-f32", asked[0])
        self.assertIn("--numerics-class cpu-bf16dot", asked[1])
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual([row["row"] for row in kept["rows"]], ["prefill-512", "server"])
        self.assertEqual(kept["about"]["sides"]["vllm"]["arguments"],
                         [os.path.join(DRIVERS, "ask_vllm.py"), "2", self.fakes.model])
        figure = kept["rows"][0]["figures"][0]
        self.assertEqual([round(value) for value in figure["sides"]["torch"]["all"]], [1000, 1000])
        self.assertAlmostEqual(figure["ratios"]["tutti cpu-f32 / vllm"]["median"], 0.3015)
        self.assertEqual(kept["rows"][1]["skipped"], {"torch": "static batches"})
        self.assertEqual(len(kept["rows"][1]["figures"][0]["sides"]["vllm"]["all"]), 2, "the others go on")

    def test_one_that_cannot_run_is_named_and_the_others_go_on(self):
        bad = self.interpreter("bad", before='raise ImportError("no module named vllm")')
        status, out, err = self.fakes.run("--vllm", bad, "--torch", self.interpreter(), "--only", "decode-0", "--rounds", "1")
        self.assertEqual(status, 1)
        self.assertIn("vllm cannot run: ImportError: no module named vllm", err)
        self.assertIn("- vllm cannot run: ImportError: no module named vllm", out)
        self.assertIn("| decode-0 | answer, tokens/s | 26.75, 93 % | - | 10 |", out)
        status, _, err = self.fakes.run("--vllm", "/nowhere/python")
        self.assertEqual(status, 2)
        self.assertIn("no interpreter /nowhere/python", err)

    def test_what_a_driver_must_not_say(self):
        for change, said in (("times[0].pop()", r"answers of \[3\] tokens instead of 1 of 4"),
                             ("times.append([])", r"instead of 1 of 4"),
                             ("times = 7", "no times in what the driver said"),
                             ("times[0].reverse()", "do not ascend"),
                             ("times[0][0] = 0", "do not ascend from 0"),
                             ("times[0][0] = 'x'", "do not ascend"),
                             ("raise MemoryError('too much')", "MemoryError: too much")):
            with self.assertRaisesRegex(readings.ReadingError, said):
                self.measure(self.interpreter(change=change), "decode-0")

    def test_a_driver_that_dies_or_hangs_is_quoted(self):
        for script, said in (("echo cause >&2; exit 3", "ended with 3: cause"), ("echo oh; sleep 60", "no JSON")):
            python = self.fakes.script("python", f"#!/bin/sh\n{script}\n")
            with self.assertRaisesRegex((programs.ProgramError, readings.ReadingError), said):
                self.measure(python, "decode-0")
        patience, programs.START_PATIENCE_S = programs.START_PATIENCE_S, 0.1
        self.addCleanup(setattr, programs, "START_PATIENCE_S", patience)
        with self.assertRaisesRegex(programs.ProgramError, "no answer within 0.1 s"):
            self.measure(self.fakes.script("python", "#!/bin/sh\nexec sleep 60\n"), "decode-0")

    def test_one_that_is_not_asked_is_stopped_and_ends(self):
        peer = peers.vllm(self.interpreter(), self.fakes.model, 2, 5000)
        peer.start()
        number = peer.conversation.process.pid
        self.assertEqual(os.waitid(os.P_PID, number, os.WSTOPPED | os.WNOWAIT).si_status, signal.SIGSTOP)
        peer.end()
        with self.assertRaises(ProcessLookupError):
            os.kill(number, 0)

    def test_all_end_with_the_program(self):
        # The first tells its parent, too, as some libraries do, while the parent ends them.
        hostile = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: (os.kill(os.getppid(), 15), os._exit(0)))"
        first = self.interpreter("first", before=f"open({self.fakes.folder + '/pid0'!r}, 'w').write(str(__import__('os').getpid())); {hostile}")
        second = self.interpreter("second", change=f"open({self.fakes.folder + '/pid1'!r}, 'w').write(str(__import__('os').getpid())); tokens > 9 and __import__('time').sleep(60)")
        program = subprocess.Popen([os.path.join(beside_testing.HERE, "beside"), self.fakes.model, "--tutti", self.fakes.folder, "--vllm", first,
                                    "--torch", second, "--only", "decode-0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while b"vllm: answer" not in program.stderr.readline():
            self.assertIsNone(program.poll())
        program.terminate()
        self.assertEqual(program.wait(60), 143)
        program.stderr.close()
        for name in ("pid0", "pid1"):
            with open(os.path.join(self.fakes.folder, name), encoding="utf-8") as file:
                self.assertFalse(os.path.exists(f"/proc/{file.read()}"), name)

    def test_every_row_says_who_cannot(self):
        peer = peers.vllm(self.interpreter(), self.fakes.model, 2, 5000)
        self.assertEqual({row.kind for row in work.ALL if peer.lacks(row)}, {"layers"})

    def test_the_same_prompts_for_all_and_others_in_each_round(self):
        row = next(row for row in work.ALL if row.name == "streams-8")
        one = row.prompts(0, 5000)
        self.assertEqual(one, row.prompts(0, 5000))
        self.assertEqual(len({tuple(ids) for ids in one + row.prompts(1, 5000)}), 16)
        self.assertEqual({len(ids) for ids in one}, {128})
        self.assertNotIn(row.warm_up(0, 5000)[0], one)


class Hold(unittest.TestCase):
    def setUp(self):
        self.fakes = beside_testing.Fakes(self)

    def test_it_is_there_while_one_measures(self):
        log = os.path.join(self.fakes.folder, "log")
        hold = self.fakes.script("hold", f'#!/bin/sh\necho begin >>{log}\ncat\necho end >>{log}\n')
        with programs.held(hold):
            with open(log, encoding="utf-8") as file:
                self.assertEqual(file.read(), "begin\n")
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "begin\nend\n")

    def test_one_that_ends_early_spoils_the_measurement(self):
        hold = self.fakes.script("hold", '#!/bin/sh\nread line; echo "$line"\n')
        with self.assertRaisesRegex(programs.ProgramError, "the hold ended before"):
            with programs.held(hold) as process:
                process.wait(30)
        with self.assertRaisesRegex(programs.ProgramError, "ended with 5"):
            with programs.held(self.fakes.script("hold", "#!/bin/sh\nexit 5\n")):
                self.fail("it never held")


if __name__ == "__main__":
    unittest.main()
