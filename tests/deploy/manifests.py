"""Checks of what a kustomization renders: pods against programs, and everything else against the pods."""
import re

from pods import check_pod
from programs import DIALLED

# What a program dials at a host that is named without a port (base/ports.h).
PEER_PORT = 50052
# Kinds that make pods, and where their templates are.
TEMPLATES = {"StatefulSet": (("spec", "template"),), "Deployment": (("spec", "template"),),
             "LeaderWorkerSet": (("spec", "leaderWorkerTemplate", "leaderTemplate"),
                                 ("spec", "leaderWorkerTemplate", "workerTemplate"))}


def at(document, path):
    for part in path:
        document = document[part]
    return document


class Manifests:
    """documents: all that is rendered; metrics: the names that the programs tell. check() is the list of problems."""

    def __init__(self, documents, metrics):
        self.documents, self.metrics, self.problems = documents, metrics, []
        self.pods = []  # (document, labels, [Container])
        for document in documents:
            for path in TEMPLATES.get(document["kind"], ()):
                template = at(document, path)
                claims = [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", ())]
                problems, containers = check_pod(self.name(document), template, claims)
                self.problems += problems
                self.pods.append((document, template["metadata"]["labels"], containers))

    @staticmethod
    def name(document):
        return f"{document['kind']}/{document['metadata']['name']}"

    def of_kind(self, *kinds):
        return [document for document in self.documents if document["kind"] in kinds]

    def selected(self, labels):
        return [pod for pod in self.pods if labels.items() <= pod[1].items()]

    def check(self):
        for document in self.documents:
            check = getattr(self, "check_" + document["kind"].lower(), None)
            if check is not None:
                self.problems += [f"{self.name(document)}: {problem}" for problem in check(document["spec"])]
        self.problems += self.check_secrets() + self.check_labels()
        for document, labels, containers in self.pods:
            where = self.name(document)
            self.problems += [f"{where}: {container.name}: {problem}" for container in containers
                              for problem in self.check_dialled(container)]
        return self.problems

    def check_secrets(self):
        """One process that asks for the cluster's secret is answered by none that does not know it."""
        known = {f"{self.name(document)}: {container.name}": "--cluster-secret-file" in container.settings
                 for document, _, containers in self.pods for container in containers
                 if container.line.program in ("tutti-coordinator", "tutti-worker")}
        return [f"{name}: it does not know the secret that others ask for" for name, knows in known.items() if not knows and any(known.values())]

    def ports_of(self, labels):
        """{name: number} of all pods with the labels."""
        return {name: number for _, _, containers in self.selected(labels) for container in containers
                for number, name in container.ports.items()}

    def check_ports(self, labels, ports):
        if not self.selected(labels):
            return [f"no pod has the labels {labels}"]
        known = self.ports_of(labels)
        return [f"no such pod has the port {port}" for port in ports if port not in known and port not in known.values()]

    def check_service(self, spec):
        found = self.check_ports(spec["selector"], [port.get("targetPort", port["port"]) for port in spec.get("ports", ())])
        for port in spec.get("ports", ()):
            said = port.get("appProtocol")
            for secure in self.secured(spec["selector"], port.get("targetPort", port["port"])):
                if (said == "https" and not secure) or (said == "kubernetes.io/h2c" and secure):
                    found.append(f"appProtocol {said} of a port {'with' if secure else 'without'} TLS")
        return found

    def secured(self, labels, port):
        """Of each container that serves others at the port: whether it does over TLS."""
        return [bool({"--tls-cert", "--certs"} & set(container.settings)) for _, _, containers in self.selected(labels)
                for container in containers for number, flag in container.listens().items()
                if flag == "--listen" and port in (number, container.ports.get(number))]

    def check_networkpolicy(self, spec):
        ports = [port["port"] for rule in spec["ingress"] for port in rule.get("ports", ())]
        return self.check_ports(spec["podSelector"]["matchLabels"], ports)

    def check_ingress(self, spec):
        """Names of hosts have certificates, and what stands behind is there."""
        found, secret = [], {host for row in spec["tls"] for host in row["hosts"]}
        services = {document["metadata"]["name"]: document["spec"] for document in self.of_kind("Service")}
        for rule in spec["rules"]:
            if rule["host"] not in secret:
                found.append(f"{rule['host']} has no certificate")
            for path in rule["http"]["paths"]:
                name, port = path["backend"]["service"]["name"], path["backend"]["service"]["port"]["name"]
                if name not in services:
                    found.append(f"there is no Service {name}")
                elif port not in {one.get("name") for one in services[name]["ports"]}:
                    found.append(f"{name} has no port {port}")
        return found

    def check_httproute(self, spec):
        """Each name has a listener, streams have no limit of time, and what stands behind is there."""
        listeners = {(gateway["metadata"]["name"], listener["name"]): listener
                     for gateway in self.of_kind("Gateway") for listener in gateway["spec"]["listeners"]}
        found = []
        for parent in spec["parentRefs"]:
            listener = listeners.get((parent["name"], parent["sectionName"]))
            if listener is None:
                found.append(f"{parent['name']} has no listener {parent['sectionName']}")
            else:
                found += [f"{name} is not what {parent['name']} listens to" for name in spec["hostnames"] if name != listener["hostname"]]
        for rule in spec["rules"]:
            found += [f"streams may be longer than {limit}" for limit in rule["timeouts"].values() if limit != "0s"]
            found += [problem for ref in rule["backendRefs"] for problem in self.check_behind(ref["name"], "port", ref["port"])]
        return found

    def check_gateway(self, spec):
        return [f"{listener['name']} has no certificate" for listener in spec["listeners"] if not listener.get("tls", {}).get("certificateRefs")]

    def check_backendtlspolicy(self, spec):
        found = []
        for target in spec["targetRefs"]:
            problems = self.check_behind(target["name"], "name", target["sectionName"])
            found += problems
            services = [one["spec"] for one in self.of_kind("Service") if one["metadata"]["name"] == target["name"]]
            ports = [port["targetPort"] for one in services for port in one["ports"] if port["name"] == target["sectionName"]]
            found += [f"{target['name']} does not speak TLS" for port in ports if not all(self.secured(services[0]["selector"], port))]
        return found

    def check_behind(self, service, key, port):
        """The Service is there, and has the port of that name or number."""
        specs = [one["spec"] for one in self.of_kind("Service") if one["metadata"]["name"] == service]
        if not specs:
            return [f"there is no Service {service}"]
        return [] if port in {one.get(key) for one in specs[0]["ports"]} else [f"{service} has no port {port}"]

    def check_labels(self):
        """Those of the convention: on all that has a name, and what it is for on pods."""
        found = [f"{self.name(document)}: no label app.kubernetes.io/{label}" for document in self.documents for label in ("name", "part-of")
                 if f"app.kubernetes.io/{label}" not in document["metadata"].get("labels", {})]
        return found + [f"{self.name(document)}: its pods have no label app.kubernetes.io/component that is their role"
                        for document, labels, _ in self.pods if labels.get("app.kubernetes.io/component") != labels["role"]]

    def check_poddisruptionbudget(self, spec):
        return self.check_ports(spec["selector"]["matchLabels"], [])

    def check_podmonitor(self, spec):
        labels, ends = spec["selector"]["matchLabels"], spec["podMetricsEndpoints"]
        found = self.check_ports(labels, [end["port"] for end in ends])
        numbers = self.ports_of(labels)
        scraped = {number for _, _, containers in self.selected(labels) for container in containers
                   for number, flag in container.listens().items() if flag == "--metrics"}
        for end in ends:
            if end["path"] != "/metrics" or numbers.get(end["port"]) not in scraped:
                found.append(f"{end['port']}{end['path']} is not where figures are")
        return found

    def check_statefulset(self, spec):
        heads = [self.name(service) for service in self.of_kind("Service") if service["spec"].get("clusterIP") == "None" and
                 service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items() and
                 service["metadata"]["name"] == spec["serviceName"]]
        found = [] if heads else [f"there is no headless Service {spec['serviceName']}"]
        return found + self.check_own(spec)

    def check_deployment(self, spec):
        return self.check_own(spec)

    @staticmethod
    def check_own(spec):
        labels = spec["template"]["metadata"]["labels"]
        return [] if spec["selector"]["matchLabels"].items() <= labels.items() else ["it does not select its own pods"]

    def check_horizontalpodautoscaler(self, spec):
        return self.check_scaled(spec["scaleTargetRef"])

    def check_scaled(self, target):
        found = [document for document in self.of_kind(target["kind"]) if document["metadata"]["name"] == target["name"]]
        if not found:
            return [f"there is no {target['kind']} {target['name']}"]
        # A StatefulSet's is where it begins; a Deployment's would be set again by every apply.
        if target["kind"] == "Deployment" and "replicas" in found[0]["spec"]:
            return [f"{target['name']} sets its replicas itself"]
        return []

    def check_scaledobject(self, spec):
        found = self.check_scaled(spec["scaleTargetRef"])
        told = any(container.settings.get("--metrics-alias") == "vllm" for _, _, containers in self.pods for container in containers)
        for trigger in spec["triggers"]:
            for name in re.findall(r"\b(?:vllm:|tutti_)\w+", trigger["metadata"]["query"]):
                if name not in self.metrics:
                    found.append(f"no program tells {name}")
                elif name.startswith("vllm:") and not told:
                    found.append(f"{name} is told with --metrics-alias vllm only")
        return found

    # ---- where processes find each other

    def check_dialled(self, container):
        found = []
        pairs = list(container.pairs)
        if container.line.program == "tutti-worker" and "--coordinator" not in container.settings:
            # A worker's default in a group, and of no use elsewhere.
            pairs.append(("--coordinator", f"$(LWS_LEADER_ADDRESS):{PEER_PORT}"))
        for flag, value in pairs:
            addresses = [part.rpartition("=")[2] for part in value.split(",")] if flag in DIALLED else []
            if flag == "--peers":
                addresses = self.peers(container, value)
                if not addresses:
                    found.append(f"--peers {value}: no ConfigMap has it")
            found += [f"{flag} {address}: {problem}" for address in addresses if not address.startswith("unix:")
                      for problem in self.check_address(container, address)]
        return found

    def peers(self, container, path):
        """The addresses of the table in a ConfigMap that is mounted there."""
        for mount in container.container.get("volumeMounts", ()):
            volume = next((one for one in container.spec["volumes"] if one["name"] == mount["name"]), {})
            for config in self.of_kind("ConfigMap"):
                if config["metadata"]["name"] == volume.get("configMap", {}).get("name"):
                    for name, text in config["data"].items():
                        if f"{mount['mountPath']}/{name}" == path:
                            return [line.split()[1] for line in text.splitlines()]
        return []

    def check_address(self, container, address):
        host, _, port = address.rpartition(":")
        in_group = any(document["kind"] == "LeaderWorkerSet" for document, _, _ in self.pods)
        if "$(LWS_LEADER_ADDRESS)" in host and not in_group:
            return ["there is no group here, and no other coordinator is named"]
        if in_group:
            return [] if self.listened(int(port), {}) else ["nobody listens at that port"]
        first, _, service = host.partition(".")
        named = next((one for one in self.of_kind("Service") if one["metadata"]["name"] == (service or first)), None)
        if named is None:
            return [f"there is no Service {service or first}"]
        labels = named["spec"]["selector"]
        if not service:
            return [] if int(port) in [one["port"] for one in named["spec"]["ports"]] else ["the Service has no such port"]
        owners = [document for document, _, _ in self.selected(labels) if re.fullmatch(re.escape(document["metadata"]["name"]) + r"-\d+", first)]
        if not owners:
            return [f"no pod is called {first}"]
        of_owner = {**labels, **owners[0]["spec"]["template"]["metadata"]["labels"]}
        return [] if self.listened(int(port), of_owner) else ["nobody listens at that port"]

    def listened(self, port, labels):
        return any(port in container.listens() for _, _, containers in self.selected(labels) for container in containers)
