"""Strikes a cluster while clients stream, waits until it is whole again, and notes how long everything took."""
import random
import time

import workload
from clients import Clients, ask_all
from cluster import LOOK_S
from report import parts_of

# The longest that anything may take before it counts as hung. Generous: the machine may be busy.
PATIENCE_S = 60
CASES = 28
# Tokens that must have been guessed right where some are guessed.
GUESSED_RIGHT = 50
# A stream that has been silent for so long does not go on.
QUIET_S = 2
# A strike comes at a moment drawn from so many seconds after all is ready for it.
MOMENT_S = 0.05
# So long workers must have computed before one can be called slow: two windows of the coordinator's, and a margin.
CALM_S = 7
# A request like one that workers died of is refused within so long, by the quickest of some attempts: others of this
# machine's programs may run.
REFUSED_S = 0.010
REFUSALS = 5
# A stream is known to go on without the lost pipeline when a message comes so long after the loss was seen: what was
# on its way has come by then.
IN_FLIGHT_S = 0.02


class Watch:
    """When the cluster was first seen to have come so far after a strike."""

    def __init__(self, before, strike, began):
        self.epochs = {pipeline.pipeline: pipeline.epoch for pipeline in before.pipelines}
        self.strike = strike
        self.began = began
        self.healed = self.whole = None
        self.moved = None     # the work, away from the victim
        self.answered = None  # the coordinator, after it had not
        self.noticed = self.formed = self.loaded = self.serving = self.recovered = None

    def look(self, status):
        """Takes the status, or None where the coordinator does not answer."""
        now = time.monotonic()
        hit = [] if status is None else [one for one in status.pipelines if one.pipeline in self.strike.pipelines]
        changed = [one for one in hit if one.epoch != self.epochs.get(one.pipeline) or one.state != "serving"]
        named = status is not None and self.strike.named is not None and self.strike.named(status)
        if status is None or changed or named:
            self.noticed = self.noticed or now
        if status is not None and self.noticed:
            self.answered = self.answered or now
        if not self.noticed or not hit:
            return
        states = {one.state for one in hit}
        if "waiting for workers" not in states:
            self.formed = self.formed or now
            if "loading" not in states:
                self.loaded = self.loaded or now
                if states == {"serving"}:
                    self.serving = self.serving or now

    def marks(self):
        return [self.began, self.noticed, self.formed, self.loaded, self.serving, self.recovered]


class Driver:
    def __init__(self, scenario, cluster, messages, flags, report):
        self.scenario, self.cluster, self.flags, self.report = scenario, cluster, flags, report
        self.messages = messages
        self.draw = random.Random(f"{flags.seed} {flags.scenario}")
        self.clients = None
        self.struck = 0.0  # when, lately
        self.due = 0.0     # of the next strike, where they come at fixed times

    def run(self):
        missing = self.cluster.wait_whole(PATIENCE_S)
        if missing:
            raise RuntimeError(f"the cluster did not come up: {missing}")
        cases = workload.draw_cases(self.messages.generation, self.flags.seed, CASES, self.flags.long_prompts,
                                    self.flags.grammars, self.flags.speculation)
        ask_all(self.client, cases, CASES)
        ask_all(self.client, [case for case in workload.with_stops(cases) if case.expected is None], CASES)
        workload.forget_guesses(cases)
        before = self.cluster.weight()
        # Some have not begun, or have just ended. A step of few sequences has time for many guesses.
        slots = self.flags.streams * 5 // 4 + 1
        if not self.flags.speculation:
            slots = max(self.scenario.slots, slots - 1)
        self.clients = Clients(self.client, cases, slots, PATIENCE_S)
        try:
            for _ in range(self.flags.count):
                self.fault()
            self.wait_whole()
            self.check_guesses()
        finally:
            whole = time.monotonic()
            self.report.streams = self.clients.stop(whole)
            ends = [stream.ended for stream in self.report.streams if stream.began < self.struck]
            if ends:
                print(f"the last of the streams ended {max(0, max(ends) - self.struck):.1f} s after the last fault")
        self.check_quiet(before)

    def check_guesses(self):
        """Where next tokens are guessed, some are right, or nothing of this has been tried."""
        def guessed():
            pipelines = getattr(self.cluster.status(), "pipelines", ())
            tokens, right = sum(one.guessed_tokens for one in pipelines), sum(sum(one.guesses_right) for one in pipelines)
            return (right, tokens) if right >= GUESSED_RIGHT else None
        if self.flags.speculation:
            print("{} of {} guessed tokens were right".format(*self.wait(guessed, f"{GUESSED_RIGHT} right guesses")))

    def check_quiet(self, before):
        """Without requests nothing is held."""
        self.wait(lambda: not self.cluster.left_over(), "an idle cluster", QUIET_S + 8)
        self.check_refused()
        disobedience = self.cluster.disobedience()
        if disobedience:
            self.report.fail(disobedience)
        after = self.cluster.weight()
        print(f"the coordinator before and after: {before[0]} and {after[0]} MiB, {before[1]} and {after[1]} descriptors")

    def check_refused(self):
        """Requests that workers died of are not computed once more."""
        times = []
        for request in self.cluster.poisons:
            for _ in range(REFUSALS):
                began = time.monotonic()
                end = self.cluster.ask_once(request)
                times.append(time.monotonic() - began)
                if "it is refused for another" not in end:
                    self.report.fail(f"a repeat of a request that workers died of: {end}")
        if times:
            print(f"a repeat is refused after {1000 * min(times):.1f} to {1000 * max(times):.1f} ms, connecting included")
            if min(times) > REFUSED_S:
                self.report.fail(f"a repeat is refused after {1000 * min(times):.1f} ms at least")

    def client(self):
        return self.scenario.clients(self.messages.generation, self.cluster.address, self.flags.binaries)

    def wait(self, condition, what, patience_s=PATIENCE_S):
        """The first true value of condition()."""
        deadline = time.monotonic() + patience_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not within {patience_s} s")
            self.clients.end_hung()
            time.sleep(LOOK_S)
        return value

    def ready(self):
        """When some pipeline has enough streams past their first token: the status, and a copy of it with such
        pipelines alone; else None."""
        streams = self.clients.past_first()
        if len(streams) < self.flags.streams:
            return None
        status = self.cluster.status()
        if self.cluster.missing(status) or self.scenario.calm and any(
                one.straggler or one.busy_seconds_total < CALM_S for one in status.pipelines):
            return None
        eligible = type(status)()
        eligible.CopyFrom(status)
        if len(status.pipelines) > 1:
            # Which stream is where, clients do not know. At worst all that wait for their first token are here.
            enough = self.flags.streams + len(self.clients.running()) - len(streams)
            del eligible.pipelines[:]
            eligible.pipelines.extend(one for one in status.pipelines if one.running >= enough)
        return (status, eligible) if eligible.pipelines else None

    def wait_whole(self, look=lambda status: None):
        """Fails the run when the cluster does not become whole."""
        def look_at(status):
            look(status)
            self.clients.end_hung()
        missing = self.cluster.wait_whole(PATIENCE_S, look_at)
        if missing:
            raise RuntimeError(f"{PATIENCE_S} s after fault {self.report.faults} the cluster is not whole: {missing}")

    def fault(self):
        if self.scenario.every_s:
            self.repeat()
            return
        self.wait(self.ready, f"{self.flags.streams} streams past their first token")
        time.sleep(self.draw.uniform(0, MOMENT_S))  # the moment is a part of the fault
        # A moment later some may have ended.
        before, eligible = self.wait(self.ready, "as many streams again")
        hit = self.clients.past_first()
        began = self.struck = time.monotonic()
        strike = self.scenario.strike(self.cluster, eligible, self.draw)
        watch = Watch(before, strike, began)
        if strike.at_once:
            strike.heal()
        self.follow(strike, watch, hit)
        if not strike.at_once:
            strike.heal()
        watch.healed = time.monotonic()
        try:
            self.wait_whole(watch.look)
            watch.whole = time.monotonic()
            if not self.flags.hasty:
                self.wait(lambda: self.go_on(watch, hit), "all streams go on that the fault hit")
        finally:
            self.note(strike, watch, before, hit)

    def follow(self, strike, watch, hit):
        """Until the cluster has noticed and the streams go on or have ended, or the fault has lasted long enough."""
        while True:
            now = time.monotonic()
            status = self.cluster.status()
            watch.look(status)
            unnoticed = watch.noticed is None and now > watch.began + strike.notice_s
            # What harms nobody need not be noticed.
            harmed = any(not stream.ended and now > stream.arrivals[-1] + QUIET_S for stream in hit)
            if unnoticed and self.scenario.notices and harmed:
                self.report.fail(f"{strike.what}: not noticed within {strike.notice_s} s")
            settled = unnoticed or watch.noticed and self.go_on(watch, hit)
            if strike.until is not None:
                watch.moved = watch.moved or (now if status is not None and strike.until(status) else None)
                settled = settled and (watch.moved or now > watch.began + strike.until_s)
            # Nobody can go on while some faults last; others are over when the streams go on.
            if now > watch.began + strike.lasts_s and (settled or strike.lasts_s) or now > watch.began + PATIENCE_S:
                return
            self.clients.end_hung()
            time.sleep(LOOK_S)

    def turn(self, watch):
        """From when on a message shows that its stream goes on; None: not yet."""
        if not watch.noticed:
            return watch.healed
        if self.cluster.shape.pipelines == 1:
            return watch.serving
        return watch.noticed + IN_FLIGHT_S

    def go_on(self, watch, hit):
        turn = self.turn(watch)
        return all(stream.ended or (turn and stream.arrivals[-1] > turn) for stream in hit)

    def note(self, strike, watch, before, hit):
        now = time.monotonic()
        turn = self.turn(watch)
        # When the last stream's first message came.
        firsts = [next((mark for mark in stream.arrivals if turn and mark > turn), None) for stream in hit]
        watch.recovered = max((mark for mark in firsts if mark), default=None)
        # A lost stream has no gap: it has an end.
        alive = [stream for stream in hit if not (stream.verdict and stream.verdict.lost)]
        gaps = [gap for gap in (stream.longest_gap(watch.began, now) for stream in alive) if gap is not None]
        if len(before.pipelines) > 1:
            # Which stream is where, clients do not know: those that ran on the lost pipeline waited longest.
            ran = sum(one.running for one in before.pipelines if one.pipeline in strike.pipelines)
            gaps = sorted(gaps, reverse=True)[:max(0, ran - len(hit) + len(alive))]
        remark = self.remark(strike, watch, hit)
        if gaps:
            worst = max(alive, key=lambda stream: stream.longest_gap(watch.began, now) or 0)
            remark += f", the longest gap was {worst.case.name}'s"
        struck = strike.struck()
        # What harms nobody need not be noticed soon either.
        felt = len(alive) < len(hit) or any(gap > QUIET_S for gap in gaps) or not self.scenario.notices
        self.report.fault(strike.what, len(hit), gaps, self.parts(watch),
                          f"whole after {(watch.whole or now) - watch.began:.1f} s{remark}{'' if struck else ', there was nothing to strike'}",
                          struck, watch.noticed is not None, felt)

    def parts(self, watch):
        """Of the recovery, as the coordinator tells it where it does, else as its status was seen to change."""
        status = self.cluster.status()
        told = [one for one in getattr(status, "recoveries", ()) if one.seconds_ago < time.monotonic() - watch.began]
        if told and watch.noticed:
            first = told[-1]
            names = watch.strike.names
            if names and not any(name in one.cause for one in told for name in names):
                self.report.fail(f"{watch.strike.what}: the cause names neither end: {first.cause}")
            return parts_of([watch.began, watch.noticed] + [
                watch.noticed + mark / 1000 if mark else None
                for mark in (first.formed_ms, first.loaded_ms, first.serving_ms, first.recovered_ms)])
        return parts_of(watch.marks())

    def remark(self, strike, watch, hit):
        remarks = ""
        status = self.cluster.status()
        if strike.of_coordinator and watch.answered and any(
                stream.arrivals[-1] > watch.answered for stream in hit):
            first = min(mark for stream in hit for mark in stream.arrivals if mark > watch.answered) - watch.answered
            self.report.first_tokens.append(1000 * first)
            remarks += f", first token {1000 * first:.0f} ms after the coordinator answered"
        if status and "stages before" in strike.what:
            remarks += f", {max(len(one.stages) for one in status.pipelines)} stages now"
        if strike.until is not None:
            slow = [one.straggler for one in status.pipelines if one.straggler] if status else []
            remarks += (f", moved after {watch.moved - watch.began:.1f} s" if watch.moved else
                        f", not moved ({'; '.join(slow) or 'nobody is slow now'})")
        if watch.noticed is None and strike.notice_s:
            remarks += ", not noticed"
        return remarks

    def repeat(self):
        """A strike that does not wait for the cluster to be whole."""
        status = self.wait(self.cluster.status, "the status")
        hit = self.clients.past_first()
        began = self.struck = time.monotonic()
        strike = self.scenario.strike(self.cluster, status, self.draw)
        watch = Watch(status, strike, began)
        self.due = watch.began + self.scenario.every_s
        while time.monotonic() < self.due:
            watch.look(self.cluster.status())
            self.clients.end_hung()
            time.sleep(LOOK_S)
        self.note(strike, watch, status, hit)
