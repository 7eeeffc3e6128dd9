"""What is done to a cluster. A strike hits now, says what it hit, and how it is taken back.

Each function has the arguments (cluster, status, draw): the running cluster, its status a moment ago, and the scenario's
source of randomness.
"""
import dataclasses
import signal
import threading
import time

import workload
from cluster import COORDINATOR, ETCD_LEASE_S, LOOK_S

# A promise of most faults is about one worker at a time; longer than the lease and the recovery of any of them.
NOTICE_S = 10
PARTITION_S = 3
# A slow worker must be named, and its work moved, within so long.
SLOW_S = 30
# A coordinator that is stopped is replaced within its lease, and a margin for a busy machine; woken it ends at once.
TAKEOVER_S = ETCD_LEASE_S + 17
# Of one request that kills: twice beside others, once alone. Those like it are refused when it has been computed so often.
POISON_DEATHS = 3
POISON_SENTENCES = 2
# With this status.
LEADS_NO_MORE = 3
# Run this long at a time when slowed.
SLICE_S = 0.02


@dataclasses.dataclass
class Strike:
    what: str
    pipelines: tuple             # numbers of those whose streams are hit
    heal: callable = lambda: None
    at_once: bool = False        # healed without waiting for what the cluster does about it
    lasts_s: float = 0           # at least
    notice_s: float = NOTICE_S   # how long the cluster may take to do something about it; 0: it need not
    of_coordinator: bool = False
    named: callable = None       # of (status): whether it has been noticed, where no pipeline ends of it
    until: callable = None       # of (status): whether the fault has had its effect, which is waited for
    until_s: float = 0           # but no longer than this
    names: tuple = ()            # workers of which one must be in the cause that the coordinator tells
    struck: callable = lambda: True  # asked when all is over: whether there was anything to strike


def holders(status):
    """(worker, stage, rank, pipeline number) of everybody who holds a shard."""
    return [(stage.worker.worker_id, stage.stage, stage.rank, pipeline.pipeline) for pipeline in status.pipelines
            for stage in pipeline.stages if stage.worker.worker_id]


def choose_holder(status, draw):
    worker, stage, rank, pipeline = draw.choice(holders(status))
    place = f"stage {stage} rank {rank} of pipeline {pipeline}" if rank else f"stage {stage} of pipeline {pipeline}"
    return worker, pipeline, f"{worker} ({place})"


def kill(cluster, status, draw):
    """kill -9; started again when the streams go on without it."""
    worker, pipeline, text = choose_holder(status, draw)
    cluster.kill(worker)
    return Strike(f"kill {text}", (pipeline,), heal=lambda: cluster.start(worker))


def restart(cluster, status, draw):
    """kill -9 and started again at once."""
    return dataclasses.replace(kill(cluster, status, draw), at_once=True)


def kill_with_spare(cluster, status, draw):
    """kill -9 of a worker and of all that are idle; started again at once."""
    idle = [worker.worker_id for worker in status.idle_workers]
    strike = kill(cluster, status, draw)
    for name in idle:
        cluster.kill(name)
    first = strike.heal

    def heal():
        first()
        for name in idle:
            cluster.start(name)
    return dataclasses.replace(strike, what=f"{strike.what} and {', '.join(idle)}", heal=heal, at_once=True)


def kill_without_spares(cluster, status, draw):
    """kill -9 with nobody idle who could take the place; all are started again when the streams go on."""
    gone = []
    largest = max(len(pipeline.stages) for pipeline in status.pipelines)
    if largest > 1:
        gone = [worker.worker_id for worker in status.idle_workers]
        for name in gone:
            cluster.kill(name)
    strike = kill(cluster, status, draw)
    strike.what += f", {largest} stages before"
    first = strike.heal

    def heal():
        first()
        for name in gone:
            cluster.start(name)
    strike.heal = heal
    return strike


def stop(cluster, status, draw):
    """SIGSTOP; woken when the streams go on without it."""
    worker, pipeline, text = choose_holder(status, draw)
    cluster.signal(worker, signal.SIGSTOP)
    return Strike(f"stop {text}", (pipeline,), heal=lambda: cluster.signal(worker, signal.SIGCONT))


def drain(cluster, status, draw):
    """SIGTERM; started again when it has ended."""
    worker, pipeline, text = choose_holder(status, draw)
    return _terminate(cluster, worker, (pipeline,), f"drain {text}")


def _terminate(cluster, name, pipelines, text):
    cluster.signal(name, signal.SIGTERM)

    def heal():
        cluster.processes[name].wait(timeout=60)
        cluster.start(name)
    # Nobody need notice: streams that end in time are as good as streams that move.
    return Strike(text, pipelines, heal=heal, notice_s=60, of_coordinator=name == COORDINATOR, named=lambda status: not cluster.alive(name))


class Rolling:
    """SIGTERM to one process after the other, each started again; the coordinator last, where its clients can resume."""

    def __init__(self, with_coordinator):
        self.with_coordinator, self.turn = with_coordinator, 0

    def __call__(self, cluster, status, draw):
        names = cluster.names + ([COORDINATOR] if self.with_coordinator else [])
        name = names[self.turn % len(names)]
        self.turn += 1
        pipelines = {pipeline for worker, _, _, pipeline in holders(status) if name in (worker, COORDINATOR)}
        return _terminate(cluster, name, tuple(pipelines), f"roll {name}")


def kill_coordinator(cluster, status, draw):
    """kill -9 of the coordinator, started again at once."""
    cluster.kill(COORDINATOR)
    return Strike("kill the coordinator", tuple(pipeline.pipeline for pipeline in status.pipelines), at_once=True,
                  of_coordinator=True, heal=lambda: cluster.start(COORDINATOR))


def end_coordinator(cluster, status, draw):
    """SIGTERM to the coordinator, started again as soon as it has ended."""
    strike = _terminate(cluster, COORDINATOR, _all_of(status), "SIGTERM to the coordinator")
    return dataclasses.replace(strike, at_once=True)


def _all_of(status):
    return tuple(pipeline.pipeline for pipeline in status.pipelines)


def kill_leader(cluster, status, draw):
    """kill -9 of the coordinator that leads; started again, to stand by, when the streams go on at the other."""
    name = cluster.led
    cluster.kill(name)
    return Strike(f"kill {name}, which leads", _all_of(status), of_coordinator=True, heal=lambda: cluster.start(name))


def stop_leader(cluster, status, draw):
    """SIGSTOP of the coordinator that leads until the other does; woken then, when it must end by itself."""
    name = cluster.led
    cluster.signal(name, signal.SIGSTOP)
    began = time.monotonic()
    while cluster.status() is None:
        if time.monotonic() > began + TAKEOVER_S:
            raise RuntimeError(f"{name} is stopped, and nobody leads after {TAKEOVER_S} s")
        time.sleep(LOOK_S)
    took_s = time.monotonic() - began

    def heal():
        cluster.told_to_end.add(name)
        woken = time.monotonic()
        cluster.signal(name, signal.SIGCONT)
        ended = cluster.processes[name].wait(timeout=TAKEOVER_S)
        strike.what += f", woken it ended after {1000 * (time.monotonic() - woken):.0f} ms"
        if ended != LEADS_NO_MORE:
            raise RuntimeError(f"{name} ended with status {ended} when it was woken, not with {LEADS_NO_MORE}")
        cluster.start(name)

    strike = Strike(f"stop {name}, which leads: the other leads after {took_s:.1f} s", _all_of(status), at_once=True,
                    of_coordinator=True, heal=heal)
    return strike


class Slowed(threading.Thread):
    """A process that gets one part in `times` of its time, until end()."""

    def __init__(self, cluster, name, times):
        super().__init__(daemon=True)
        self.cluster, self.name_of, self.times = cluster, name, times
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            self.cluster.signal(self.name_of, signal.SIGSTOP)
            self.over.wait(SLICE_S * (self.times - 1))
            self.cluster.signal(self.name_of, signal.SIGCONT)
            self.over.wait(SLICE_S)

    def end(self):
        self.over.set()
        self.join()
        self.cluster.signal(self.name_of, signal.SIGCONT)


def slow(times):
    def strike(cluster, status, draw):
        worker, pipeline, text = choose_holder(status, draw)
        slowed = Slowed(cluster, worker, times)

        def named(now):
            return any(worker in one.straggler for one in now.pipelines)

        def moved(now):
            return worker not in (holder for holder, *_ in holders(now))
        return Strike(f"slow {text} x{times}", (pipeline,), heal=slowed.end, notice_s=SLOW_S, named=named, until=moved,
                      until_s=SLOW_S)
    return strike


def busy_links(status):
    """Links that carry the work: (dialler, listener), and the pipeline's number."""
    links = []
    for pipeline in status.pipelines:
        workers = sorted((stage.stage, stage.worker.worker_id) for stage in pipeline.stages)
        links += [((one, COORDINATOR), pipeline.pipeline) for _, one in workers]
        links += [((one, other), pipeline.pipeline) for (_, one), (_, other) in zip(workers, workers[1:])]
    return links


class HalfOpen:
    """All bytes of a link vanish, one way and the other in turn. `control`: of links to the coordinator, or of those
    between workers; None: of both."""

    def __init__(self, control=None):
        self.control, self.turn = control, 0

    def __call__(self, cluster, status, draw):
        links = [one for one in busy_links(status)
                 if self.control is None or (one[0][1] == COORDINATOR) == self.control]
        (link, pipeline), way = draw.choice(links), ("there", "back")[self.turn % 2]
        self.turn += 1
        cluster.proxies.swallow([link], [way])
        return Strike(f"half-open {link[0]}-{link[1]} ({way})", (pipeline,), heal=cluster.proxies.heal,
                      names=tuple(one for one in link if one != COORDINATOR))


half_open = HalfOpen()


def flap(cluster, status, draw):
    """A link is reset; the next bytes go over a new one."""
    link, pipeline = draw.choice(busy_links(status))
    connections = cluster.proxies.reset([link])
    return Strike(f"reset {link[0]}-{link[1]}", (pipeline,), notice_s=0, struck=lambda: connections > 0)


def flip(cluster, status, draw):
    """One bit of the next bytes of a link is turned over."""
    (link, pipeline), way = draw.choice(busy_links(status)), draw.choice(("there", "back"))
    before = cluster.proxies.flipped(link)
    cluster.proxies.flip(link, way)
    # A bit that no parser looks at may stay unseen; the answers tell whether it mattered.
    return Strike(f"flip a bit {link[0]}-{link[1]} ({way})", (pipeline,), heal=cluster.proxies.heal, notice_s=3,
                  struck=lambda: cluster.proxies.flipped(link) > before)


def partition(cluster, status, draw):
    """The coordinator is cut off from all workers, who see each other."""
    links = [(name, COORDINATOR) for name in cluster.names]
    cluster.proxies.hold(links)
    return Strike("cut the coordinator off", tuple(pipeline.pipeline for pipeline in status.pipelines),
                  heal=cluster.proxies.heal, lasts_s=PARTITION_S, notice_s=PARTITION_S)


def poison(cluster, status, draw):
    """A request at a token of which every worker dies that computes it, twice; all are started again at once."""
    request = workload.draw_poison(cluster.messages.generation, draw)
    call = PoisonCall(cluster, request)
    deaths = []

    def over(_):
        for name in cluster.names:
            if not cluster.alive(name):
                deaths.append(name)
                cluster.start(name)
        if call.is_alive():
            return False
        strike.what = f"a request of which workers die: {len(deaths)} died ({', '.join(deaths)}), then: {'; '.join(call.ends)}"
        return True

    def heal():
        stopped = [end.startswith("INTERNAL: workers were lost") for end in call.ends]
        if len(deaths) > POISON_DEATHS * POISON_SENTENCES or stopped != [True] * POISON_SENTENCES:
            raise RuntimeError(strike.what)
        cluster.poisons.append(request)

    # Whoever has died of it is named by its absence.
    strike = Strike("a request of which workers die", _all_of(status), heal=heal, until=over, until_s=120,
                    named=lambda status: bool(deaths))
    return strike


class PoisonCall(threading.Thread):
    """The request on its way, time after time; `ends` are the errors, or say that there was none."""

    def __init__(self, cluster, request):
        super().__init__(daemon=True)
        self.cluster, self.request, self.ends = cluster, request, []
        self.start()

    def run(self):
        for _ in range(POISON_SENTENCES):
            self.ends.append(self.cluster.ask_once(self.request))


def storm(cluster, status, draw):
    """Any of the others that plain clients outlive."""
    strike = draw.choice((kill, kill, restart, kill_with_spare, stop, drain, half_open, flap, flip, partition))
    return strike(cluster, status, draw)
