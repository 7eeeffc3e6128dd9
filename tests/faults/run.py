#!/usr/bin/python3
"""Does harm to a cluster of real processes while clients stream, and holds every answer to that of an undisturbed run.

Ends with one line:  N faults, X streams, L lost, D different, gap p50 A ms p99 B ms
lost: ended before its end, or silent for a minute. different: an id, a bit of a log-probability, text, an index or the
end is not that of the undisturbed run. gap: the longest silence between two messages of a stream, around a fault, of
streams that were past their first token when it struck.

Exit status: 0 if nothing was lost or different, the cluster was whole again after every fault, and no time exceeded the
figure that is promised for it; 1 if not; 2 for wrong options, or when the programs cannot do what a scenario needs; 77
when etcd is not installed, which a scenario needs.

examples:
  tests/faults/run.py --list
  tests/faults/run.py --scenario kill-spare --count 250 --seed 1
  tests/faults/run.py --scenario stop --count 5 --binaries build/release/bin --keep-logs /tmp/logs
"""
import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
import traceback

import etcd
import scenarios
import stubs
from cluster import FAILING_WORKER, Cluster, harness
from driver import Driver
from report import Report


# Told to ctest: this machine cannot run it.
SKIPPED = 77


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/faults/run.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", choices=scenarios.ALL, metavar="NAME", help="what is done; see --list")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="faults (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of requests, victims and moments "
                        "(default %(default)s)")
    parser.add_argument("--streams", type=int, default=16, metavar="N", help="that a fault hits past their first token "
                        "at least (default %(default)s)")
    parser.add_argument("--hasty", action="store_true", help="strike again as soon as the cluster is whole, while streams "
                        "are still computed again (F02); gaps that go on then are not measured")
    parser.add_argument("--long-prompts", action="store_true", help="half of the requests have prompts of some 1,300 tokens, "
                        "which take long to compute again")
    parser.add_argument("--grammars", action="store_true", help="every answer is held to a grammar")
    parser.add_argument("--speculation", action="store_true", help="next tokens are guessed; the answers they are compared "
                        "with are made without, and some guesses must be right")
    parser.add_argument("--quantize", metavar="SCHEME", help="workers make codes of the weights: int8, or int4-g32")
    parser.add_argument("--binaries", default=harness.BINARIES, metavar="DIR", help="folder of the built programs")
    parser.add_argument("--keep-logs", metavar="DIR", help="where the processes' logs go; without it they are kept "
                        "only after a failure")
    parser.add_argument("--list", action="store_true", help="the scenarios, a sentence each")
    flags = parser.parse_args(arguments)
    if not flags.list and not flags.scenario:
        parser.error("--scenario NAME is missing (see --list)")
    if flags.count < 1:
        parser.error(f"--count {flags.count}: expected at least 1")
    needed = () if flags.list else ("tutti-coordinator", "tutti-worker")
    if needed and scenarios.ALL[flags.scenario].shape.dies_at:
        needed = (*needed, FAILING_WORKER)
    for program in needed:
        if not os.access(os.path.join(flags.binaries, program), os.X_OK):
            parser.error(f"--binaries {flags.binaries}: no program {program} there (tools/build makes them)")
    return flags


def show_list():
    for name, scenario in scenarios.ALL.items():
        needs = f" [needs {scenario.clients.needs}]" if scenario.clients.needs else ""
        print(f"{name:20} {scenario.says}{needs}")


def main(arguments=None):
    flags = parse(arguments)
    if flags.list:
        show_list()
        return 0
    scenario = scenarios.ALL[flags.scenario]
    messages = stubs.load(stubs.proto_folder(flags.binaries))
    if scenario.clients.needs and not scenario.clients.possible(messages.generation):
        print(f"{flags.scenario}: needs {scenario.clients.needs}, which this protocol does not have", file=sys.stderr)
        return 2
    if scenario.shape.lease == "etcd" and not etcd.installed():
        print(f"SKIPPED: {flags.scenario} needs etcd, which is not installed (tools/setup does it)", file=sys.stderr)
        return SKIPPED
    logs = flags.keep_logs or tempfile.mkdtemp(prefix="tutti-faults-logs-")
    os.makedirs(logs, exist_ok=True)
    report = Report(flags.scenario, flags.seed, scenario.figure)
    cluster = None
    try:
        shape = scenario.shape
        if flags.speculation:
            shape = dataclasses.replace(shape, flags=(*shape.flags, "--speculation", "lookup"))
        if flags.quantize:
            shape = dataclasses.replace(shape, flags=(*shape.flags, "--quantize", flags.quantize))
        cluster = Cluster(shape, messages, flags.binaries, logs, flags.seed)
        Driver(scenario, cluster, messages, flags, report).run()
    except (RuntimeError, AssertionError) as error:
        report.fail(str(error))
    except Exception as error:  # of this harness; the last line is told all the same
        traceback.print_exc()
        report.fail(f"{type(error).__name__}: {error}")
    finally:
        if cluster:
            cluster.stop()
    good = report.end(f"logs are in {logs}", scenario.notices)
    if not flags.keep_logs and good:
        shutil.rmtree(logs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
