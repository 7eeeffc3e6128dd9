"""A cluster of real processes, each started by itself so that faults can reach it and stand between it and others."""
import dataclasses
import functools
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness
from soak import resident_mib
from clients import OPTIONS
from etcd import Etcd
from obedience import disobedience
from ports import free_port
from proxy import Proxies
from stubs import GENERATE, STATUS

COORDINATOR = "coordinator"
STANDBY = "standby"
STANDS_BY = "this coordinator stands by"
# Beside the folder of the programs.
FAILING_WORKER = os.path.join("..", "tests", "failing_worker")
# Of the scenarios with etcd: what coordinators ask for by default. A busy machine is late by seconds.
ETCD_LEASE_S = 5
# KV room in tokens: all streams of two pipelines on one of them.
KV_TOKENS = 49152
# Between two looks at the status: gaps are tens of milliseconds.
LOOK_S = 0.005


@dataclasses.dataclass(frozen=True)
class Shape:
    workers: int
    stages: int = 1
    ranks: int = 1
    pipelines: int = 1
    proxied: bool = False  # every link goes over TCP and a proxy of its own
    flags: tuple = ()      # more of the coordinator's
    wanted: tuple = ()     # (flag, value) given to the coordinator if it knows the flag
    speed: str = "off"     # of every worker
    lease: str = ""        # "lock" or "etcd": a second coordinator stands by, and this says who leads
    model: str = harness.DEMO
    memory: str = "512MiB"  # of each worker
    kv_tokens: int = KV_TOKENS
    dies_at: int = 0        # workers die where they compute this position of a sequence; 0: nowhere
    drain_s: float = 20     # that a process takes which is told to end
    log: str = ""           # "full": goes to a disk without room; "unread": to a pipe that nobody reads


@functools.cache
def help_of(program):
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True,
                          env=harness.clean_environment()).stdout


class Cluster:
    """Coordinator and workers, until stop(). The thread that makes it must live as long."""

    def __init__(self, shape, messages, binaries, logs, seed=0):
        self.shape, self.messages, self.binaries, self.logs = shape, messages, binaries, logs
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-faults-")
        self.names = [f"w{number}" for number in range(shape.workers)]
        self.proxies = Proxies(seed) if shape.proxied else None
        self.coordinators = [COORDINATOR, STANDBY] if shape.lease else [COORDINATOR]
        self.ports = {name: f"127.0.0.1:{free_port()}" for name in self.coordinators}
        # Of all coordinators, for clients.
        self.address = ",".join(self.ports.values())
        self.secret = os.path.join(self.folder.name, "secret")
        with open(os.open(self.secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        self.places = {name: self.place(name) for name in (*self.coordinators, *self.names)}
        self.tables = {name: self.table(name) for name in self.names}
        self.processes, self.starts = {}, {}
        self.unread = []          # ends of pipes, for as long as the cluster lives
        self.told_to_end = set()  # processes that may be dead
        self.stopped = set()
        self.poisons = []         # requests that workers died of, which are refused now
        self.led = COORDINATOR  # lately
        self.channels = {name: grpc.insecure_channel(self.admin(name), options=OPTIONS) for name in self.coordinators}
        self.ask = {name: channel.unary_unary(
            STATUS, request_serializer=messages.cluster.GetStatusRequest.SerializeToString,
            response_deserializer=messages.cluster.GetStatusResponse.FromString)
            for name, channel in self.channels.items()}
        self.etcd = None
        if shape.lease == "etcd":
            self.etcd = Etcd(os.path.join(logs, "etcd.log"), harness.clean_environment())
        try:
            for name in self.places:
                self.start(name)
        except Exception:
            self.stop()
            raise

    def place(self, name):
        return f"127.0.0.1:{free_port()}" if self.shape.proxied else f"unix:{self.folder.name}/{name}.sock"

    def admin(self, name):
        return f"unix:{self.folder.name}/admin-{name}.sock"

    def lease_flags(self, name):
        if self.shape.lease == "lock":
            return ["--standby-lock", os.path.join(self.folder.name, "leader"), "--coordinator-name", name]
        if self.shape.lease == "etcd":
            others = [flag for other in self.coordinators if other != name
                      for flag in ("--other-coordinator", f"{other}={self.ports[other]}")]
            return ["--etcd", self.etcd.address, "--etcd-lease", str(ETCD_LEASE_S), "--coordinator-name", name, *others]
        return []

    def table(self, name):
        """Where a worker finds the others, through a proxy for each."""
        table = {}
        for other, place in self.places.items():
            if other == name:
                continue
            table[other] = place
            if self.proxies:
                table[other] = f"127.0.0.1:{free_port()}"
                self.proxies.add((name, other), table[other], place)
        return table

    def arguments(self, name):
        end = ["--drain-timeout", str(self.shape.drain_s), "--exit-with-parent", "--cluster-secret-file", self.secret,
               *(["--log-level", "debug"] if self.shape.log else [])]
        if name not in self.coordinators:
            table = self.tables[name]
            peers = [flag for peer, place in table.items() if peer not in self.coordinators
                     for flag in ("--peer", f"{peer}={place}")]
            return [self.worker_program(), "--model", self.shape.model, "--worker-id", name,
                    "--coordinator", ",".join(table[one] for one in self.coordinators), "--listen", self.places[name],
                    "--threads", "1",
                    "--memory", self.shape.memory, "--speed", self.shape.speed, *peers, *end]
        program = os.path.join(self.binaries, "tutti-coordinator")
        shape = self.shape
        known = [part for flag, value in shape.wanted if flag in help_of(program) for part in (flag, value)]
        return [program, "--model", self.shape.model, "--listen", self.ports[name], "--peer-listen", self.places[name],
                "--admin-listen", self.admin(name), "--kv-tokens", str(self.shape.kv_tokens),
                "--pipeline-parallel-size", str(shape.stages), "--tensor-parallel-size", str(shape.ranks),
                "--pipelines", str(shape.pipelines), *shape.flags, *known, *self.lease_flags(name), *end]

    def worker_program(self):
        """The real one, or that with a fail point, which is built beside the tests."""
        if not self.shape.dies_at:
            return os.path.join(self.binaries, "tutti-worker")
        return os.path.join(self.binaries, FAILING_WORKER)

    def start(self, name):
        """Starts a process; a socket that a killed one left behind is taken over."""
        self.told_to_end.discard(name)
        self.starts[name] = self.starts.get(name, 0) + 1
        with self.open_log(name) as log:
            self.processes[name] = subprocess.Popen(self.arguments(name), stdout=log, stderr=log,
                                                    stdin=subprocess.DEVNULL, env=self.environment(name))

    def environment(self, name):
        dies = {"TUTTI_DIE_AT_POSITION": str(self.shape.dies_at)}
        return harness.clean_environment(**(dies if self.shape.dies_at and name in self.names else {}))

    def open_log(self, name):
        """Where a process that is started now writes its log."""
        if self.shape.log == "full":
            return open("/dev/full", "ab", buffering=0)
        if self.shape.log == "unread":
            reader, writer = harness.full_pipe()
            self.unread.append(os.fdopen(reader, "rb"))
            return os.fdopen(writer, "wb", buffering=0)
        log = open(os.path.join(self.logs, f"{name}.log"), "ab")
        log.write(f"--- start {self.starts[name]} ---\n".encode())
        log.flush()
        return log

    def alive(self, name):
        return self.processes[name].poll() is None

    def signal(self, name, number):
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.told_to_end.add(name)
        if number == signal.SIGSTOP:
            self.stopped.add(name)
        if self.alive(name):
            self.processes[name].send_signal(number)
        if number == signal.SIGCONT:
            self.stopped.discard(name)

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    def status(self):
        """Of the coordinator that leads. None: it does not answer, or none leads."""
        for name in sorted(self.coordinators, key=lambda name: name != self.led):
            if name in self.stopped or not self.alive(name):
                continue
            try:
                status = self.ask[name](self.messages.cluster.GetStatusRequest(), timeout=2)
            except grpc.RpcError:
                continue
            if not status.why_not_serving.startswith(STANDS_BY):
                self.led = name
                return status
        return None

    def ask_once(self, request):
        """How a request ends that is sent to the coordinator that leads: its error, or that it had none."""
        with grpc.insecure_channel(self.ports[self.led], options=OPTIONS) as channel:
            generate = channel.unary_stream(GENERATE, request_serializer=self.messages.generation.GenerateRequest.SerializeToString,
                                            response_deserializer=self.messages.generation.GenerateResponse.FromString)
            try:
                for _ in generate(request, wait_for_ready=True):
                    pass
                return "it ended well"
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"

    def stands_by(self, name):
        """Whether the coordinator of that name says so."""
        try:
            status = self.ask[name](self.messages.cluster.GetStatusRequest(), timeout=2)
        except grpc.RpcError:
            return False
        return status.why_not_serving.startswith(STANDS_BY)

    def disobedience(self):
        """Of workers that obeyed a coordinator which led no more, by their logs."""
        found = []
        for name in self.names if not self.shape.log else ():
            with open(os.path.join(self.logs, f"{name}.log"), encoding="utf-8", errors="replace") as log:
                found.append(disobedience(name, log.read()))
        return "; ".join(filter(None, found))

    def missing(self, status):
        """What the cluster lacks to be whole: every process alive and known, every pipeline serving. Empty: nothing."""
        dead = [name for name in self.places if not self.alive(name)]
        unasked = [f"{name} (status {self.processes[name].returncode})" for name in dead if name not in self.told_to_end]
        if unasked:
            raise RuntimeError(f"ended by itself: {', '.join(unasked)}")
        if dead:
            return f"{', '.join(dead)} not running"
        if status is None:
            return "the coordinator does not answer"
        waits = [name for name in self.coordinators if name != self.led and not self.stands_by(name)]
        if waits:
            return f"{', '.join(waits)} does not stand by"
        known = {stage.worker.worker_id for pipeline in status.pipelines for stage in pipeline.stages}
        known |= {worker.worker_id for worker in status.idle_workers}
        unknown = [name for name in self.names if name not in known]
        if unknown:
            return f"{', '.join(unknown)} not joined"
        waiting = [f"pipeline {pipeline.pipeline} {pipeline.state}" for pipeline in status.pipelines
                   if pipeline.state != "serving"]
        if waiting or len(status.pipelines) < self.shape.pipelines:
            return ", ".join(waiting) or "a pipeline is missing"
        # Spares that should have a shard loaded ahead.
        if any(flag == "--spares" for flag, _ in self.shape.wanted) and hasattr(status, "recoveries"):
            empty = [worker.worker_id for worker in status.idle_workers if not worker.standby]
            if empty and status.idle_workers and "--spares" in help_of(os.path.join(self.binaries, "tutti-coordinator")):
                return f"{', '.join(empty)} without a shard"
        return ""

    def wait_whole(self, patience_s, look=lambda status: None):
        """Until nothing is missing; what is, when the patience ends. Each status goes to look()."""
        deadline = time.monotonic() + patience_s
        while True:
            status = self.status()
            look(status)
            missing = self.missing(status)
            if not missing or time.monotonic() > deadline:
                return missing
            time.sleep(LOOK_S)

    def left_over(self):
        """What a cluster without requests still holds. Empty: nothing."""
        status = self.status()
        if status is None:
            return "the coordinator does not answer"
        return ", ".join(f"pipeline {one.pipeline}: {one.running} running, {one.blocks_in_use} blocks in use"
                         for one in status.pipelines if one.running or one.blocks_in_use) or (
                             f"{status.waiting} requests waiting" if status.waiting else "")

    def weight(self):
        """(resident MiB, open descriptors) of the coordinator that leads."""
        pid = self.processes[self.led].pid
        return round(resident_mib(pid)), len(os.listdir(f"/proc/{pid}/fd"))

    def stop(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait()
        for channel in self.channels.values():
            channel.close()
        for end in self.unread:
            end.close()
        if self.etcd:
            self.etcd.stop()
        if self.proxies:
            self.proxies.stop()
        self.folder.cleanup()
