"""The rehearsal of ../workers: every worker is a pod, eight of them are four stages of two ranks, one is a spare."""
import json
import subprocess
import time

import control
from clients import Clients
from cluster import ADDED, Cluster, read

STAGES, RANKS, SPARES = 4, 2, 1
# Of the coordinator's arguments: what the manifest says for its pipeline of two.
SIZES = {"--pipeline-parallel-size": str(STAGES)}
NODE_NOTICED_S = 40
POD_NOTICED_S = 2


class Spread(Cluster):
    def __init__(self, wanted, folder):
        super().__init__(wanted, folder)
        coordinator, gateway = read("workers", "coordinator.yaml"), read("gateway", "gateway.yaml")
        self.coordinators = self.own(control.StatefulSet, coordinator["StatefulSet", "tutti-coordinator"])
        self.workers = self.own(control.StatefulSet, read("workers", "workers.yaml")["StatefulSet", "tutti-worker"])
        self.gateways = self.own(control.Deployment, gateway["Deployment", "tutti-gateway"])
        self.add_service(coordinator["Service", "tutti"], self.coordinators)
        self.add_service(gateway["Service", "tutti-gateway"], self.gateways)

    @staticmethod
    def replace(words):
        words = [SIZES.get(before, word) for before, word in zip(["", *words], words)]
        if words[0] == "tutti-coordinator":
            words += ["--tensor-parallel-size", str(RANKS)]
        return words + ADDED.get(words[0], [])

    def status(self):
        one = self.coordinators.all()[0]
        container = one.containers[0]
        done = subprocess.run(one.probe(container, ["tutti", "status", "--json"]), capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def places(self):
        """The workers that serve, in their order."""
        return [place["worker"]["worker_id"] for pipeline in self.status().get("pipelines", ()) for place in pipeline["stages"]]

    def lose(self):
        """The node of a worker that serves; the spare takes its place."""
        lost = self.places()[0]
        began = time.monotonic()
        pod = next(pod for pod in self.workers.all() if pod.name == lost)
        pod.lose(not self.wanted.short)
        took = control.wait_for(lambda: lost not in (places := self.places()) and len(places) == STAGES * RANKS, "the spare serves")
        print(f"    {lost} was in the pipeline; another took its place within {took:.1f} s, all under way went on "
              f"{time.monotonic() - began + self.clients.wait_round():.1f} s after it at most")
        time.sleep(self.pace(NODE_NOTICED_S) if not self.wanted.short else POD_NOTICED_S)
        ordinal = next(key for key, one in self.workers.pods.items() if one is pod)
        pod.terminating = True
        del self.workers.pods[ordinal]
        self.workers.make_ordinal(ordinal)
        self.workers.wait_ready()

    def play(self):
        began = time.monotonic()
        count = STAGES * RANKS + SPARES
        # It is ready when enough workers have joined.
        self.coordinators.make_ordinal(0)
        self.workers.scale(count)
        self.coordinators.wait_ready()
        self.gateways.scale(2)
        print(f"{count} workers, {STAGES} stages of {RANKS} ranks and a spare: ready after {time.monotonic() - began:.1f} s", flush=True)
        if len(self.places()) != STAGES * RANKS:
            self.problems.append(f"serve: {self.places()}")
        self.clients = Clients(self.addresses["tutti-gateway"], self.secrets.ca, self.wanted.clients)
        self.clients.start()
        self.act("undisturbed", lambda: time.sleep(self.pace(10)))
        self.use()
        if not self.wanted.short:
            self.act("workers are updated", self.workers.roll)
            self.act("the coordinator is updated", self.coordinators.roll)
        self.act("certificates are replaced", self.rotate)
        self.act("a worker is killed" if self.wanted.short else "a worker's node is lost", self.lose)
        self.act("the last answers", self.clients.stop)
        return self.end()
