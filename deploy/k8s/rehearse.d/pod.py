"""A pod as the kubelet runs it: containers of its template in their order, probes, preStop, SIGTERM, and SIGKILL after the grace."""
import http.client
import os
import re
import signal
import ssl
import subprocess
import threading
import time

TICK_S = 0.05
UNCHECKED = ssl.create_default_context()
UNCHECKED.check_hostname, UNCHECKED.verify_mode = False, ssl.CERT_NONE


class Probe:
    """When it is due, and how often it has failed since it last succeeded."""

    def __init__(self, spec):
        self.spec = spec
        self.period, self.timeout = spec.get("periodSeconds", 10), spec.get("timeoutSeconds", 1)
        self.threshold = spec.get("failureThreshold", 3)
        self.failures, self.succeeded, self.due = 0, False, time.monotonic()

    def try_if_due(self, container):
        if time.monotonic() < self.due:
            return
        good = container.ask(self.spec, self.timeout)
        self.due = time.monotonic() + self.period
        self.failures = 0 if good else self.failures + 1
        self.succeeded = good or (self.succeeded and self.failures < self.threshold)

    @property
    def failed(self):
        return self.failures >= self.threshold


class Container:
    def __init__(self, pod, spec, words):
        self.pod, self.spec, self.words = pod, spec, words
        self.name = spec["name"]
        self.environment = {entry["name"]: entry.get("value") or pod.fields.get(entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"), "")
                            for entry in spec.get("env", ())}
        self.root = pod.make_root(self)
        self.process, self.starts = None, 0
        self.start()

    def start(self):
        words = [re.sub(r"\$\((\w+)\)", lambda found: self.environment[found.group(1)], word) for word in self.words]
        with open(self.pod.node.path("logs", f"{self.pod.name}.{self.name}.log"), "ab") as log:
            self.process = subprocess.Popen(self.pod.command(self, words), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.starts += 1
        self.probes = {kind: Probe(self.spec[kind]) for kind in ("startupProbe", "livenessProbe", "readinessProbe") if kind in self.spec}

    def ask(self, spec, timeout):
        if "exec" in spec:
            try:
                return subprocess.run(self.pod.probe(self, spec["exec"]["command"]), stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=timeout, check=False).returncode == 0
            except subprocess.TimeoutExpired:
                return False
        get = spec["httpGet"]
        port = next(port["containerPort"] for port in self.spec["ports"] if get["port"] in (port["name"], port["containerPort"]))
        secure = get.get("scheme") == "HTTPS"
        connection = http.client.HTTPSConnection(self.pod.address, port, timeout=timeout, context=UNCHECKED) if secure else \
            http.client.HTTPConnection(self.pod.address, port, timeout=timeout)
        try:
            connection.request("GET", get["path"])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    @property
    def started(self):
        probe = self.probes.get("startupProbe")
        return probe is None or probe.succeeded

    @property
    def ready(self):
        probe = self.probes.get("readinessProbe")
        return self.started and self.process.poll() is None and (probe is None or probe.succeeded)

    def look(self):
        """The probes that are due; a process that ended or does not live is started again."""
        if self.process.poll() is not None:
            self.pod.note(f"{self.name} ended by itself with status {self.process.returncode}")
            self.start()
            return
        if not self.started:
            self.probes["startupProbe"].try_if_due(self)
            return
        for kind in ("livenessProbe", "readinessProbe"):
            if kind in self.probes:
                self.probes[kind].try_if_due(self)
        if "livenessProbe" in self.probes and self.probes["livenessProbe"].failed:
            self.pod.note(f"{self.name} was killed: it does not live")
            self.kill()

    def kill(self):
        self.pod.node.kill(self.process, self.root, self.starts - 1)

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def used(self):
        """(MiB resident, seconds of processor time) of its process."""
        try:
            pid = self.pod.node.used(self.process, self.root, self.starts - 1)
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0, 0.0
        return int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20, (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Pod:
    """names: of its network; replace(words): what is changed of a command for this machine; volume(pod, spec): the folder of a volume."""

    def __init__(self, node, name, names, template, replace, volume):
        self.node, self.name, self.replace, self.volume = node, name, replace, volume
        self.spec = template["spec"]
        self.fields = {"metadata.name": name}
        self.space, self.address = node.add_pod(*names)
        self.folder = node.path("pods", f"{name}-{self.space}", "")
        self.containers, self.notes = [], []
        self.terminating = self.lost = self.partitioned = False
        self.ended_s = None
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()

    def note(self, what):
        self.notes.append(f"{self.name}: {what}")

    def make_root(self, container):
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", ())}
        mounts = {mount["mountPath"]: (self.volume(self, volumes[mount["name"]]), not mount.get("readOnly"))
                  for mount in container.spec.get("volumeMounts", ())}
        return self.node.make_root(f"{self.name}-{self.space}-{container.name}", mounts)

    def command(self, container, words):
        security = {**self.spec.get("securityContext", {}), **container.spec.get("securityContext", {})}
        return self.node.command(self.space, container.root, container.environment, words, security, container.starts)

    def probe(self, container, words):
        return self.node.probe(self.space, container.root, container.environment, words, container.starts - 1)

    def add(self, spec):
        words = self.replace([*spec["command"], *spec.get("args", ())])
        self.containers.append(Container(self, spec, words))
        return self.containers[-1]

    def live(self):
        for spec in self.spec.get("initContainers", ()):
            sidecar = self.add(spec)
            while not sidecar.started and not self.terminating:
                self.look()
        for spec in self.spec["containers"]:
            self.add(spec)
        while not self.terminating and not self.lost:
            self.look()

    def look(self):
        for container in list(self.containers):
            if not self.terminating and not self.lost:
                container.look()
        time.sleep(TICK_S)

    @property
    def ready(self):
        """What its endpoint says: a node that is lost says nothing, until somebody notices."""
        if self.partitioned:
            return not self.terminating
        count = len(self.spec.get("initContainers", ())) + len(self.spec["containers"])
        return not self.terminating and len(self.containers) == count and all(container.ready for container in self.containers)

    def delete(self):
        """Out of the Service, preStop, SIGTERM to the containers, then to the sidecars, SIGKILL when the grace is over."""
        began = time.monotonic()
        grace = self.spec.get("terminationGracePeriodSeconds", 30)
        self.terminating = True
        self.thread.join()
        sidecars = len(self.spec.get("initContainers", ()))
        main = self.containers[sidecars:]
        sleep = max((container.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0) for container in main), default=0)
        time.sleep(self.pace(sleep))
        for group in ([main] + [[sidecar] for sidecar in reversed(self.containers[:sidecars])]):
            for container in group:
                container.signal(signal.SIGTERM)
            for container in group:
                try:
                    code = container.process.wait(timeout=max(0.1, began + grace - time.monotonic()))
                    if code != 0:
                        self.note(f"{container.name} was told to end and did with status {code}")
                except subprocess.TimeoutExpired:
                    self.note(f"{container.name} was killed: its grace of {grace} s was over")
                    container.kill()
        self.ended_s = time.monotonic() - began

    # Seconds of a wait that only routers need; the short form shortens it.
    pace = staticmethod(lambda seconds: seconds)

    def lose(self, node_too):
        """Its processes are gone in the middle of what they did, and their node too: then no connection hears of it."""
        self.lost = self.partitioned = True
        if node_too:
            self.node.cut(self.space)
        for container in self.containers:
            container.kill()
        self.thread.join()
