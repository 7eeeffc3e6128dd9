#!/usr/bin/python3
"""What the loss of one stage costs where the model has a real shape: 4 stages, a spare, and long sequences.

    build/release/bin/make_random_model --config DIR/config.json --copy-tokenizer DIR --output /tmp/random
    tests/faults/real_shape.py --model /tmp/random [--sequences 16] [--tokens 2048] [--stage 1]

Sequences with prompts of so many tokens are computed without a fault first, which says how long the stage's own prefill
takes of a processor. Then a new cluster computes the same; when all are past their first token the stage's worker is
killed. Twice: with partial recompute, and with all stages computing all again. Prints for each the longest gap of a
stream, the parts of the recovery, and the gap without loading in proportion to the stage's own prefill, and compares
every answer. The coordinators have `--itl-target 0`, so that the first answers last until the last prompt is computed.
Takes minutes.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time

import stubs
from clients import Plain, Stream
from cluster import Cluster, Shape, harness
from driver import LOOK_S, Watch
from judge import judge
from report import PARTS, parts_of, shown
from strikes import Strike
from workload import Case

PATIENCE_S = 900
STAGES = 4
# Answers must still be on their way when the last prompt has been computed: a step has as much of the prompts as fits,
# however long those who have their first token wait for their next, and there are fewer steps until then than tokens.
ANSWER_TOKENS = 192
PROMPTS_FIRST = ("--itl-target", "0")
WAYS = (("partial recompute", ()), ("all stages again", ("--partial-recompute", "off")))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parse():
    parser = argparse.ArgumentParser(prog="tests/faults/real_shape.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="the checkpoint")
    parser.add_argument("--binaries", default=harness.BINARIES, metavar="DIR", help="folder of the built programs")
    parser.add_argument("--sequences", type=int, default=16, metavar="N")
    parser.add_argument("--tokens", type=int, default=2048, metavar="N", help="of each prompt")
    parser.add_argument("--stage", type=int, default=1, metavar="N", help="whose worker is killed, 0 to 3")
    parser.add_argument("--only", choices=[name for name, _ in WAYS], help="of the two ways of recovery")
    parser.add_argument("--memory", default="4GiB", metavar="SIZE", help="of each worker")
    parser.add_argument("--keep-logs", metavar="DIR")
    return parser.parse_args()


def draw_cases(messages, flags):
    cases = []
    for number in range(flags.sequences):
        draw = random.Random(f"sequence {number}")
        request = messages.GenerateRequest()
        request.token_ids.ids.extend(draw.randrange(1000) for _ in range(flags.tokens))
        request.sampling.seed = number
        request.sampling.temperature = 1.0
        request.sampling.logprobs = True
        request.sampling.max_tokens = ANSWER_TOKENS
        request.sampling.ignore_eos = True
        cases.append(Case(f"sequence {number}", request))
    return cases


class Run:
    """All cases at once, each a stream of its own thread."""

    def __init__(self, cluster, messages, cases):
        self.clients = [Plain(messages, cluster.address) for _ in cases]
        self.streams = [Stream(case) for case in cases]
        self.threads = [threading.Thread(target=self.serve, args=pair, daemon=True)
                        for pair in zip(self.clients, self.streams)]
        for thread in self.threads:
            thread.start()

    def serve(self, client, stream):
        client.run(stream, PATIENCE_S)
        stream.ended = time.monotonic()

    def wait_first_tokens(self):
        deadline = time.monotonic() + PATIENCE_S
        while not all(stream.past_first for stream in self.streams):
            if time.monotonic() > deadline or any(stream.ended and not stream.past_first for stream in self.streams):
                raise RuntimeError("not all streams came to their first token: " + "; ".join(
                    stream.answer.error for stream in self.streams if stream.answer.error))
            time.sleep(LOOK_S)

    def end(self):
        for thread in self.threads:
            thread.join(PATIENCE_S)
        for client in self.clients:
            client.close()
        return [stream.answer for stream in self.streams]


def stage_of(status, number):
    return next(stage for stage in status.pipelines[0].stages if stage.stage == number)


def undisturbed(cluster, messages, flags, cases):
    """Processor seconds that each stage's prefill takes; the cases have their answers then."""
    pids = {stage.stage: cluster.processes[stage.worker.worker_id].pid
            for stage in cluster.status().pipelines[0].stages}
    before = {stage: processor_seconds(pid) for stage, pid in pids.items()}
    began = time.monotonic()
    run = Run(cluster, messages, cases)
    run.wait_first_tokens()
    took_s = time.monotonic() - began
    spent = {stage: processor_seconds(pid) - before[stage] for stage, pid in pids.items()}
    for case, answer in zip(cases, run.end()):
        case.expected = answer
    print(f"prefill of {flags.sequences} x {flags.tokens} tokens: {took_s:.1f} s, processor seconds of its stages "
          + ", ".join(f"{spent[stage]:.1f}" for stage in sorted(spent)), flush=True)
    return spent[flags.stage]


def struck(cluster, messages, flags, cases):
    """The longest gap of a stream in seconds, the parts of the recovery in ms, and how many answers are not right."""
    run = Run(cluster, messages, cases)
    run.wait_first_tokens()
    before = cluster.status()
    victim = next(stage.worker.worker_id for stage in before.pipelines[0].stages if stage.stage == flags.stage)
    began = time.monotonic()
    cluster.kill(victim)
    cluster.start(victim)
    watch = Watch(before, Strike("kill", (0,)), began)
    while watch.serving is None or not all(stream.ended or stream.arrivals[-1] > watch.serving
                                           for stream in run.streams):
        if time.monotonic() > began + PATIENCE_S:
            raise RuntimeError("streams do not go on")
        watch.look(cluster.status())
        time.sleep(LOOK_S)
    if any(stream.ended and stream.ended < began for stream in run.streams):
        raise RuntimeError("answers ended before the worker was killed: there was less to lose than was asked for")
    told = cluster.status().recoveries[-1]
    answers = run.end()
    gaps = [stream.longest_gap(began, time.monotonic()) for stream in run.streams]
    verdicts = [judge(answer, case.expected) for answer, case in zip(answers, cases)]
    wrong = sum(bool(verdict.lost or verdict.different) for verdict in verdicts)
    parts = parts_of([began, watch.noticed] + [watch.noticed + mark / 1000 if mark else None for mark in (
        told.formed_ms, told.loaded_ms, told.serving_ms, told.recovered_ms)])
    return max(gap for gap in gaps if gap is not None), parts, wrong


def with_cluster(flags, messages, logs, extra, work):
    shape = Shape(workers=STAGES + 1, stages=STAGES, wanted=(("--spares", "1"),), flags=(*PROMPTS_FIRST, *extra), model=flags.model,
                  memory=flags.memory, kv_tokens=flags.sequences * (flags.tokens + ANSWER_TOKENS + 64))
    os.makedirs(logs, exist_ok=True)
    cluster = Cluster(shape, messages, flags.binaries, logs)
    try:
        missing = cluster.wait_whole(PATIENCE_S)
        if missing:
            raise RuntimeError(f"the cluster did not come up: {missing}")
        return work(cluster)
    finally:
        cluster.stop()


def main():
    flags = parse()
    messages = stubs.load(stubs.proto_folder(flags.binaries))
    logs = flags.keep_logs or tempfile.mkdtemp(prefix="tutti-real-shape-logs-")
    cases = draw_cases(messages.generation, flags)
    own_s = with_cluster(flags, messages, os.path.join(logs, "undisturbed"), (), lambda cluster: undisturbed(
        cluster, messages.generation, flags, cases))
    good = True
    for name, extra in WAYS:
        if flags.only not in (None, name):
            continue
        gap_s, parts, wrong = with_cluster(flags, messages, os.path.join(logs, name.split()[0]), extra, lambda cluster:
                                           struck(cluster, messages.generation, flags, cases))
        loading_s = (parts[PARTS.index("loading")] or 0) / 1000
        print(f"{name}: stage {flags.stage} lost, longest gap {gap_s:.2f} s ({shown(parts)} ms); without loading "
              f"{(gap_s - loading_s) / own_s:.2f} x the stage's own prefill of {own_s:.1f} s; {wrong} answers lost or "
              "different", flush=True)
        good = good and wrong == 0
    if good and not flags.keep_logs:
        shutil.rmtree(logs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
