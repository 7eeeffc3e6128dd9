"""The rehearsal of ../mesh: ../gateway's acts, where a proxy between gateways and pipelines chooses a pod for each request.

The proxy is HAProxy, for all gateways together; that a mesh encrypts between its proxies is left out. The manifests are rendered by kubectl.
"""
import os
import shutil
import socket
import subprocess
import threading
import time

import control
from cluster import K8S, changed

# Pods that there are in a rehearsal, one after the other: each has a place of its own, so that no connection is taken for another's.
PLACES = 64
CONFIGURATION = """
global
  stats socket {control} level admin
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
  retries 2
frontend requests
  bind {address}:{port} proto h2
  default_backend pods
backend pods
  balance roundrobin
  server-template pod 1-{places} 127.0.0.1:1 proto h2 disabled
"""


def why_not():
    """Why no mesh can be played here; empty: one can."""
    for program in ("haproxy", "kubectl"):
        if shutil.which(program) is None:
            return f"needs {program}"
    return ""


def rendered():
    """{(kind, name): document}."""
    return changed(subprocess.run(["kubectl", "kustomize", os.path.join(K8S, "mesh")], check=True, capture_output=True, text=True).stdout)


class Proxy(control.Services):
    """In the place of a Service's: for each request, not for each connection, a pod that is ready."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        os.makedirs(os.path.join(folder, "logs"), exist_ok=True)

    def add(self, address, port, target, pods):
        if port != target:
            return super().add(address, port, target, pods)
        self.pods, self.target, self.places = pods, target, {}
        self.control = os.path.join(self.folder, "mesh.sock")
        path = os.path.join(self.folder, "mesh.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(control=self.control, address=address, port=port, places=PLACES))
        # In the rehearsal's own namespace of processes, with which it ends.
        with open(os.path.join(self.folder, "logs", "mesh.log"), "wb") as log:
            self.process = subprocess.Popen(["haproxy", "-f", path], stdout=log, stderr=log)
        control.wait_for(lambda: os.path.exists(self.control), "the mesh's proxy is there")
        threading.Thread(target=self.follow, daemon=True).start()
        return None

    def tell(self, *commands):
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(self.control)
            end.sendall("; ".join(commands).encode() + b"\n")
            while end.recv(4096):
                pass

    def follow(self):
        """What the mesh's control plane does: it tells the proxy which pods are ready, and which are gone."""
        known = {}
        while True:
            there = self.pods()
            for pod in {*known, *there}:
                state = "gone" if pod not in there else "ready" if pod.ready else "maint"
                if known.get(pod, "maint") == state:
                    continue
                server = f"pods/pod{self.places.setdefault(pod, len(self.places) + 1)}"
                if state == "ready":
                    self.tell(f"set server {server} addr {pod.address} port {self.target}", f"set server {server} state ready")
                else:
                    self.tell(f"set server {server} state maint", *([f"shutdown sessions server {server}"] if state == "gone" else []))
                known[pod] = state
            time.sleep(control.LOOK_S)

    def shares(self):
        """How many requests each pod had, in the order in which pods came."""
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(self.control)
            end.sendall(b"show stat\n")
            rows = [line.split(",") for line in end.makefile(encoding="ascii", errors="replace")]
        head = rows[0]
        counts = {row[1]: int(row[head.index("stot")]) for row in rows[1:] if len(row) > 2 and row[1].startswith("pod")}
        return ", ".join(f"{pod.name} {counts[f'pod{place}']}" for pod, place in self.places.items())
