"""What all rehearsals share: Services, volumes, secrets and clients of a cluster, and acts that are timed and counted."""
import os
import ssl
import time

import control
import pod
import yaml
from certificates import Secrets
from engine import Engine
from node import Node

K8S = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Of manifests: what they say for real machines, and what this one has.
CHANGED = {"14GiB": "512MiB"}
ADDED = {"tutti-worker": ["--threads", "1"], "tutti-coordinator": ["--kv-tokens", "16384"]}


def read(*parts):
    """{(kind, name): document}."""
    with open(os.path.join(K8S, *parts), encoding="utf-8") as file:
        return changed(file.read())


def changed(text):
    """The documents, {(kind, name): document}, for this machine."""
    for wanted, has in CHANGED.items():
        text = text.replace(wanted, has)
    return {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(text)}


class Cluster:
    """owners: whose pods are watched; port_of(pod): where it shows a certificate."""

    def __init__(self, wanted, folder):
        self.wanted = wanted
        self.pace = (lambda seconds: seconds / 5) if wanted.short else (lambda seconds: seconds)
        pod.Pod.pace = staticmethod(self.pace)
        model = os.path.abspath(wanted.model)
        self.node = Engine(folder, wanted.containers, model) if wanted.containers else Node(folder, os.path.abspath(wanted.binaries), model)
        self.secrets = Secrets(self.node)
        self.proxies, self.addresses, self.owners = self.make_proxies(), {}, []
        self.failed, self.answers, self.problems, self.clients = 0, 0, [], None

    def make_proxies(self):
        return control.Services()

    def own(self, kind, document, replace=None):
        self.owners.append(kind(self.node, document, replace or self.replace, self.volume, self.pace))
        return self.owners[-1]

    @staticmethod
    def replace(words):
        return words + ADDED.get(words[0], [])

    def add_service(self, service, owner):
        name, port = service["metadata"]["name"], service["spec"]["ports"][0]
        targets = {named["name"]: named["containerPort"] for container in owner.document["spec"]["template"]["spec"]["containers"]
                   for named in container["ports"]}
        self.addresses[name] = (self.node.add_service(name), port["port"])
        self.proxies.add(*self.addresses[name], targets[port["targetPort"]], owner.all)

    def volume(self, owner, volume):
        """The folder behind a volume of a pod."""
        if "secret" in volume:
            return self.secrets.folder(volume["secret"]["secretName"])
        if "persistentVolumeClaim" in volume:
            return self.node.model
        if "configMap" in volume:
            return os.path.join(K8S, "workers")
        folder = os.path.join(owner.folder, volume["name"])
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o777)
        return folder

    def act(self, name, play):
        began = time.monotonic()
        play()
        # What was under way when it ended belongs to it.
        time.sleep(self.pace(5))
        answers, failures, gap, first = self.clients.take()
        self.answers += answers
        self.failed += len(failures)
        print(f"{name:<28} {time.monotonic() - began:6.1f} s  {answers:5} answers  {len(failures):3} failed  "
              f"silent for {gap:5.2f} s  first token after {first:5.2f} s at most", flush=True)
        for failure in sorted(set(failures))[:5]:
            print(f"    {failures.count(failure)} x {failure}")

    def shown(self):
        """The certificates that all pods show to a new connection."""
        ports = {"coordinator": 50051, "worker": 50053, "gateway": 8443}
        return [ssl.get_server_certificate((one.address, ports[container.name]), timeout=10) for owner in self.owners
                for one in owner.all() for container in one.containers
                if container.name in ports and {"--tls-cert", "--certs"} & set(container.words)]

    def rotate(self):
        before, starts = self.shown(), self.starts()
        self.secrets.issue()
        took = control.wait_for(lambda: not set(before) & set(self.shown()), "all show new certificates")
        print(f"    new certificates are shown by all {len(before)} processes with a port for others after {took:.1f} s")
        if self.starts() != starts:
            self.problems.append("a process was started again for a certificate")

    def starts(self):
        return [container.starts for owner in self.owners for one in owner.all() for container in one.containers]

    def use(self):
        """Memory and processor time of every process."""
        for owner in self.owners:
            for one in owner.all():
                for container in one.containers:
                    mib, seconds = container.used()
                    print(f"    {one.name + ' ' + container.name:<36} {mib:6.1f} MiB  {seconds:7.2f} s of processor time")

    def end(self):
        """The exit status."""
        for owner in self.owners:
            self.problems += owner.notes()
            print(f"{owner.name}: {len(owner.past)} pods were told to end, the longest took {owner.longest_end_s():.1f} s of "
                  f"{owner.document['spec']['template']['spec']['terminationGracePeriodSeconds']} s")
        for problem in self.problems:
            print(f"PROBLEM {problem}")
        print(f"{self.answers} answers, {self.failed} failed, {len(self.problems)} problems")
        return 0 if self.answers > 0 and self.failed == 0 and not self.problems else 1
