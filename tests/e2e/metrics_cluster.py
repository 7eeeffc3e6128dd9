"""A coordinator with a certificate, two workers and a gateway, each started by itself and each with /metrics."""
import json
import os
import re
import subprocess
import tempfile

from harness import BINARIES, DEMO, clean_environment, wait_until
from http_client import Gateway
from prometheus_text import parse, value
from tls_test import Authority

WORKERS = ("w0", "w1")


class MetricsCluster:
    def __init__(self, *coordinator_flags):
        self.dir = tempfile.TemporaryDirectory(prefix="tutti-metrics-")
        self.folder, self.processes, self.addresses = self.dir.name, {}, {}
        authority = Authority(self.folder, "authority")
        certificate, key = authority.sign("coordinator", "coordinator")
        self.secret = self.path("secret")
        with open(os.open(self.secret, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.start("coordinator", "tutti-coordinator", "--model", DEMO, "--cluster-secret-file", self.secret,
                   "--listen", "127.0.0.1:0", "--peer-listen", self.socket("peers"), "--ready-file",
                   self.path("ready"), "--kv-tokens", "8192", "--pipeline-parallel-size", "2", "--tls-cert",
                   certificate, "--tls-key", key, "--reform-after", "600", "--traces", self.path("spans"),
                   *coordinator_flags)
        for name in WORKERS:
            self.start_worker(name)
        wait_until(lambda: os.path.exists(self.path("ready")), "the coordinator listens")
        with open(self.path("ready"), encoding="utf-8") as file:
            ready = json.load(file)
        self.address = ready["address"]
        assert ready["metrics"] == self.address_of("coordinator"), ready
        wait_until(lambda: value(self.scrape("coordinator"), "tutti_serving") == 1, "the cluster serves")
        self.start_gateway()

    def path(self, name):
        return os.path.join(self.folder, name)

    def socket(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def start(self, name, program, *arguments):
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen([os.path.join(BINARIES, program), *arguments, *(
                () if program == "tutti-gateway" else ("--metrics", "127.0.0.1:0"))], stdout=log, stderr=log,
                env=clean_environment())
        self.addresses.pop(name, None)

    def start_worker(self, name):
        others = [flag for other in WORKERS if other != name for flag in ("--peer", f"{other}={self.socket(other)}")]
        self.start(name, "tutti-worker", "--model", DEMO, "--cluster-secret-file", self.secret, "--worker-id", name,
                   "--coordinator", self.socket("peers"), "--listen", self.socket(name), "--threads", "1",
                   "--memory", "512MiB", "--speed", "50GB/s@1Tflop/s", *others)

    def start_gateway(self):
        ready = self.path("gateway-ready")
        self.start("gateway", "tutti-gateway", "--coordinator", self.address, "--coordinator-ca",
                   self.path("authority/ca.pem"), "--listen", "127.0.0.1:0", "--ready-file", ready, "--traces",
                   self.path("spans"))
        wait_until(lambda: os.path.exists(ready), "the gateway listens")
        with open(ready, encoding="utf-8") as file:
            self.addresses["gateway"] = json.load(file)["address"]
        self.gateway = Gateway(self.addresses["gateway"])
        wait_until(lambda: self.gateway.get("/health").status == 200, "the gateway is healthy")

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as file:
            return file.read()

    def address_of(self, name):
        """host:port of a process's /metrics, as its log says."""
        def said():
            assert self.processes[name].poll() is None, self.log(name)
            return re.search(r"metrics at http://(\S+)/metrics", self.log(name))
        if name not in self.addresses:
            self.addresses[name] = wait_until(said, f"{name} says where its metrics are").group(1)
        return self.addresses[name]

    def text(self, name):
        answer = Gateway(self.address_of(name)).get("/metrics")
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.body.decode()

    def scrape(self, name):
        return parse(self.text(name))

    def scrape_all(self):
        return {name: self.scrape(name) for name in self.processes}

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.dir.cleanup()
