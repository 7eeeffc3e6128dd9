"""The scenarios: a shape of cluster, what is done to it, and who its clients are."""
import dataclasses

import strikes
import workload
from cluster import Shape
from clients import Plain, Resuming
from own_clients import OwnClients

SPARE = (("--spares", "1"),)
REFORM = (("--reform-after", "0.2"),)
# What a worker tells of itself where steps are compared with what was predicted; the same of all, so that layers stay.
SPEED = "8GB/s@40Gflop/s"


@dataclasses.dataclass(frozen=True)
class Scenario:
    says: str
    shape: Shape
    strike: callable
    clients: type = Plain
    every_s: float = 0     # strikes come this often, whole cluster or not; 0: when it is whole
    slots: int = 20        # clients that stream at once
    notices: bool = True   # every strike must be noticed
    calm: bool = False     # a strike waits until no worker is called slow
    figure: tuple = ()     # (row of the fault matrix, part of the recovery, its p99 in ms at most)


def pair(**more):
    """Two stages and a spare."""
    return Shape(workers=3, stages=2, wanted=SPARE, **more)


ALL = {
    "kill-spare": Scenario("kill -9 of a worker of 2 stages with a spare", pair(), strikes.kill,
                           figure=("F01", "gap", 500)),
    "kill-spare-whole": Scenario("the same, and all stages are computed again (--partial-recompute off)",
                                 pair(flags=("--partial-recompute", "off")), strikes.kill),
    "kill-two-pipelines": Scenario(
        "kill -9 of a worker of 2 pipelines of 2 stages: the other takes the streams over",
        Shape(workers=4, stages=2, pipelines=2), strikes.kill, slots=36),
    "kill-ranks": Scenario("kill -9 of a worker of 2 stages of 2 ranks, which returns at once",
                           Shape(workers=4, stages=2, ranks=2), strikes.restart),
    "kill-with-spare": Scenario("kill -9 of a worker and the spare together, which return at once (F02)", pair(),
                                strikes.kill_with_spare),
    "kill-reform": Scenario("kill -9 of one of 3 workers, no spare: the model goes on on who is left (--reform-after)",
                            Shape(workers=3, stages=3, wanted=REFORM), strikes.kill_without_spares),
    "restart-worker": Scenario("kill -9 of a worker of 2 stages without a spare, which returns at once",
                               Shape(workers=2, stages=2), strikes.restart),
    "drain-worker": Scenario("SIGTERM to a worker of 2 stages with a spare (F18)", pair(), strikes.drain),
    "rolling": Scenario("SIGTERM to every process of 2 pipelines of 2 stages in turn, each started again (F18)",
                        Shape(workers=4, stages=2, pipelines=2), strikes.Rolling(with_coordinator=False), slots=36),
    "stop": Scenario("SIGSTOP of a worker of 2 stages with a spare, woken afterwards (F03)", pair(), strikes.stop,
                     figure=("F03", "noticing", 2000)),
    "half-open": Scenario("a link's bytes vanish one way, nobody is told (F04)", pair(proxied=True),
                          strikes.HalfOpen(), figure=("F04", "noticing", 3000)),
    "half-open-workers": Scenario("the same of links between workers, each way in turn (F04)", pair(proxied=True),
                                  strikes.HalfOpen(control=False), figure=("F04", "noticing", 3000)),
    "half-open-control": Scenario("the same of links to the coordinator, each way in turn (F04)", pair(proxied=True),
                                  strikes.HalfOpen(control=True), figure=("F04", "noticing", 3000)),
    "flap": Scenario("a link is reset every 2 s (F05)", pair(proxied=True), strikes.flap, every_s=2, notices=False),
    "slow3": Scenario("a worker gets a third of its time, and its place moves to the spare (F06)",
                      pair(speed=SPEED), strikes.slow(3), notices=False, calm=True, figure=("F06", "noticing", 10000)),
    "slow10": Scenario("a worker gets a tenth of its time, and its place moves to the spare (F06)",
                       pair(speed=SPEED), strikes.slow(10), notices=False, calm=True,
                       figure=("F06", "noticing", 10000)),
    "slow10-reform": Scenario("the same without a spare: its layers are shared anew (F06)",
                              Shape(workers=3, stages=3, wanted=REFORM, speed=SPEED), strikes.slow(10), notices=False,
                              calm=True, figure=("F06", "noticing", 10000)),
    "flip": Scenario("a bit is turned over on a link (F20)", pair(proxied=True), strikes.flip, notices=False),
    "partition": Scenario("the coordinator is cut off from all workers for 3 s (F08)",
                          Shape(workers=3, stages=2, proxied=True), strikes.partition, notices=False),
    "full-disk": Scenario("kill -9 of a worker while no line of any log can be written (F23)", pair(log="full"),
                          strikes.kill, figure=("F23", "gap", 500)),
    "unread-log": Scenario("the same while all logs go to pipes that nobody reads", pair(log="unread"), strikes.kill,
                           figure=("F23", "gap", 500)),
    "poison": Scenario("a request at a token of which every worker dies that computes it: it ends, alone (F12)",
                       Shape(workers=4, stages=2, pipelines=2, dies_at=workload.POISONED_POSITION), strikes.poison, slots=36),
    "storm": Scenario("any of kill, stop, drain, half-open, reset, flip, partition (F27)", pair(proxied=True),
                      strikes.storm, notices=False),
    "coordinator-restart": Scenario("kill -9 of the coordinator, started again at once; clients resume (F07)",
                                    Shape(workers=2, stages=2), strikes.kill_coordinator, clients=Resuming,
                                    figure=("F07", "first token", 2000)),
    "coordinator-end": Scenario("SIGTERM to the coordinator, which has no time to let streams finish, started again at once; "
                                "clients resume (F07)", Shape(workers=2, stages=2, drain_s=0), strikes.end_coordinator,
                                clients=Resuming, notices=False, figure=("F07", "first token", 2000)),
    "own-clients-kill": Scenario("kill -9 of the coordinator, started again at once, under the Python package and `tutti "
                                 "generate` in equal parts (F07)", Shape(workers=2, stages=2), strikes.kill_coordinator,
                                 clients=OwnClients, figure=("F07", "first token", 2000)),
    "own-clients-end": Scenario("SIGTERM to the coordinator, as coordinator-end, under the same clients (F07)",
                                Shape(workers=2, stages=2, drain_s=0), strikes.end_coordinator, clients=OwnClients,
                                notices=False, figure=("F07", "first token", 2000)),
    "standby-kill": Scenario("kill -9 of the coordinator that leads; another takes over, by etcd; clients resume (F07)",
                             Shape(workers=2, stages=2, lease="etcd"), strikes.kill_leader, clients=Resuming,
                             figure=("F07", "gap", 3000)),
    "standby-lock": Scenario("the same by a lock on a file", Shape(workers=2, stages=2, lease="lock"),
                             strikes.kill_leader, clients=Resuming, figure=("F07", "gap", 3000)),
    "standby-stopped": Scenario("SIGSTOP of the coordinator that leads until another does, by etcd; woken, it commands "
                                "nobody and ends (F07)", Shape(workers=2, stages=2, lease="etcd"), strikes.stop_leader,
                                clients=Resuming),
    "rolling-all": Scenario("as rolling, the coordinator included; clients resume (F18)",
                            Shape(workers=4, stages=2, pipelines=2), strikes.Rolling(with_coordinator=True),
                            clients=Resuming, slots=36),
}
