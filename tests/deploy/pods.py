"""Checks of one pod's template against the programs in it. Pure but for asking the programs what they take."""
import re
import subprocess

from programs import SERVED, CommandLine, served_by, takes

# Variables that are not ours: names for arguments, and the folder of digests.
NAMES = {"POD", "GROUP", "XDG_CACHE_HOME"}
# Set by the controller of LeaderWorkerSet in every container.
GROUP_VARIABLES = {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"}
IMAGES = {"tutti", "tutti-cuda"}
# Of others: what fills a volume before our programs begin.
LOADERS = {"python:3.13-slim"}
# Flags whose value is no path though it may begin with a slash.
LISTENING = ("--listen", "--peer-listen", "--admin-listen", "--metrics")


def containers_of(spec):
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


class Container:
    """A container: its command line, and what flags and variables say together; .problems grows. claims: the volumes that are made
    for its pod."""

    def __init__(self, container, spec, claims=()):
        self.container, self.spec, self.claims, self.problems = container, spec, claims, []
        self.name = container["name"]
        self.line = CommandLine([*container.get("command", ()), *container.get("args", ())])
        self.loads = container["image"] in LOADERS
        if not self.loads:
            self.problems += self.line.problems
        self.settings = dict(self.line.values)
        self.pairs = list(self.line.values)
        self.ports = {port["containerPort"]: port["name"] for port in container.get("ports", ())}
        if self.line.takes is not None:
            self.read_environment()
            self.check_required()

    def read_environment(self):
        for entry in self.container.get("env", ()):
            name, value = entry["name"], entry.get("value", "")
            flag = self.line.takes.variables.get(name) or takes("tutti", "status").variables.get(name)
            if flag is None and name not in NAMES:
                self.problems.append(f"no program here reads {name}")
            if name in self.line.takes.variables and value:
                self.settings[flag] = value
                self.pairs.append((flag, value))
        known = {entry["name"] for entry in self.container.get("env", ())} | GROUP_VARIABLES
        for word in self.container.get("args", ()):
            for name in re.findall(r"\$\((\w+)\)", word):
                if name not in known:
                    self.problems.append(f"{word} names the variable {name}, which is not set")

    def check_required(self):
        for flag in self.line.takes.required - set(self.settings):
            self.problems.append(f"{self.line.program} needs {flag}")

    def listens(self):
        """{port: flag} over TCP."""
        found = {}
        for flag in LISTENING:
            value = self.settings.get(flag, "")
            if value and not value.startswith("unix:"):
                found[int(value.rpartition(":")[2])] = flag
        return found

    def check(self):
        if self.line.takes is not None:
            self.check_ports()
            self.check_probes()
            self.check_paths()
        self.check_security()
        if self.container["image"] not in IMAGES | LOADERS:
            self.problems.append(f"there is no image {self.container['image']}")
        return [f"{self.name}: {problem}" for problem in self.problems]

    def check_ports(self):
        listens = set(self.listens())
        for port in sorted(listens - set(self.ports)):
            self.problems.append(f"it listens at port {port}, which is not named")
        for port in sorted(set(self.ports) - listens):
            self.problems.append(f"nothing listens at port {port}")

    def check_probes(self):
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = self.container.get(kind)
            if probe is None:
                continue
            if "exec" in probe:
                line = CommandLine(probe["exec"]["command"])
                self.problems += [f"{kind}: {problem}" for problem in line.problems]
                if float(line.value("--timeout", "0")) >= probe.get("timeoutSeconds", 1):
                    self.problems.append(f"{kind}: the probe ends before its command gives up")
            elif "httpGet" in probe:
                self.check_get(kind, probe["httpGet"])
            else:
                self.problems.append(f"{kind}: an open port does not say that the process answers")
        ready = self.container.get("readinessProbe", {})
        if self.line.program == "tutti-gateway" and ready.get("periodSeconds", 10) * ready.get("failureThreshold", 3) < float(self.settings["--resume-within"]):
            self.problems.append("it leaves its Service while it lets requests wait")
        missing = {"startupProbe", "livenessProbe"} - set(self.container)
        if missing:
            self.problems.append(f"it has no {', '.join(sorted(missing))}")

    def check_get(self, kind, get):
        port = next((number for number, name in self.ports.items() if get["port"] in (number, name)), None)
        if port is None:
            self.problems.append(f"{kind}: there is no port {get['port']}")
            return
        flag = self.listens().get(port)
        if get["path"] not in served_by(self.line.program, flag):
            self.problems.append(f"{kind}: {self.line.program} serves no {get['path']} at {flag}")
        secure = flag not in SERVED and "--tls-cert" in self.settings
        if (get.get("scheme", "HTTP") == "HTTPS") != secure:
            self.problems.append(f"{kind}: the port is {'https' if secure else 'http'}")

    def check_paths(self):
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", ())}
        volumes |= {name: {"persistentVolumeClaim": {}} for name in self.claims}
        mounts = {}
        for mount in self.container.get("volumeMounts", ()):
            mounts[mount["mountPath"]] = mount
            volume = volumes.get(mount["name"])
            if volume is None:
                self.problems.append(f"there is no volume {mount['name']}")
            elif not mount.get("readOnly") and ("secret" in volume or "persistentVolumeClaim" in volume):
                self.problems.append(f"{mount['name']} is not mounted read-only")
        for flag, value in self.pairs:
            path = value.rpartition("=")[2].removeprefix("unix:")
            if path.startswith("/") and not any(path == at or path.startswith(at + "/") for at in mounts):
                self.problems.append(f"{flag} {value}: nothing is mounted there")

    def check_security(self):
        wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        if self.container.get("securityContext") != wanted:
            self.problems.append("it is not restricted")
        if "memory" not in self.container.get("resources", {}).get("limits", {}):
            self.problems.append("its memory has no limit")

    def written(self):
        """The volumes that it may change."""
        return {mount["name"] for mount in self.container.get("volumeMounts", ()) if not mount.get("readOnly")}

    def reads_model_of(self, volumes):
        path = self.settings.get("--model", "")
        return any(mount["mountPath"] == path and mount["name"] in volumes for mount in self.container.get("volumeMounts", ()))

    def check_loader(self, before, after):
        """It fills the volume of the model, and ends, before the programs that read it begin."""
        if self.container not in self.spec.get("initContainers", ()) or "restartPolicy" in self.container:
            self.problems.append("it does not end before the others begin")
        self.problems += [f"{other.name} begins before the model is there" for other in before if other.reads_model_of(self.written())]
        if not any(other.reads_model_of(self.written()) for other in after):
            self.problems.append("nobody reads what it fetches")
        for script in self.container["args"]:
            said = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True, check=False)
            self.problems += [said.stderr] if said.returncode else []
            known = {entry["name"] for entry in self.container["env"]}
            self.problems += [f"its script names {name}, which is not set" for name in re.findall(r"\$\{?(\w+)", script) if name not in known]

    def end_s(self):
        """Seconds from the pod's deletion until it has ended by itself at the latest."""
        sleep = self.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        drain = float(self.settings.get("--drain-timeout", self.line.takes.drain_s if self.line.takes else 0))
        return sleep + drain


def check_pod(where, template, claims=()):
    spec = template["spec"]
    found = [Container(container, spec, claims) for container in containers_of(spec)]
    for i, one in enumerate(found):
        if one.loads:
            one.check_loader(found[:i], found[i + 1:])
    problems = [problem for container in found for problem in container.check()]
    grace = spec.get("terminationGracePeriodSeconds", 30)
    longest = max(container.end_s() for container in found)
    if grace <= longest:
        problems.append(f"terminationGracePeriodSeconds {grace} is not above {longest:g}, which its containers may take")
    names = [name for container in found for name in container.ports.values()]
    numbers = [number for container in found for number in container.ports]
    for one in sorted({name for name in names if names.count(name) > 1} | {n for n in numbers if numbers.count(n) > 1}, key=str):
        problems.append(f"two containers have the port {one}")
    security = spec.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        problems.append("the pod is not restricted")
    return [f"{where}: {problem}" for problem in problems], found
