#!/usr/bin/env python3
"""Streams that wait longer than proxies do: behind nginx and HAProxy with their defaults, in front of a worker that stands
still for 66 s. A proxy that is not installed is skipped by name."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BINARIES, Cluster, clean_environment, wait_until
from http_client import Gateway

# Longer than nginx's 60 s and the 50 s of HAProxy's example, which Debian installs.
STILL_S = 66
SBIN = "/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", "")
ASK = {"prompt": "Tell me something: ", "ignore_eos": True, "seed": 7, "max_tokens": 1500}
NGINX = """daemon off; master_process off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/nginx.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{gateway}; }} }}
}}
"""
HAPROXY = """defaults
  mode http
  timeout connect 5000
  timeout client 50000
  timeout server 50000
frontend clients
  bind 127.0.0.1:{port}
  default_backend gateways
backend gateways
  server gateway {gateway}
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Proxy:
    """A proxy in front of a gateway, or None where there is none of that name."""

    def __init__(self, name, gateway, folder):
        self.port = free_port()
        path = os.path.join(folder, f"{name}-{self.port}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write({"nginx": NGINX, "haproxy": HAPROXY}[name].format(port=self.port, gateway=gateway, dir=folder))
        program = shutil.which(name, path=SBIN)
        command = [program, "-p", folder, "-e", os.path.join(folder, "nginx.log"), "-c", path] if name == "nginx" else [
            program, "-f", path]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.address = f"127.0.0.1:{self.port}"
        wait_until(self.answers, f"{name} listens")

    def answers(self):
        try:
            return Gateway(self.address).get("/live").status == 200
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()


def start_gateway(cluster, *arguments):
    """(process, address) of another gateway of the cluster."""
    ready = os.path.join(cluster.dir.name, f"gateway-{free_port()}.json")
    process = subprocess.Popen([os.path.join(BINARIES, "tutti-gateway"), "--coordinator", cluster.address, "--listen",
                                "127.0.0.1:0", "--ready-file", ready, *arguments], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=clean_environment())
    wait_until(lambda: os.path.exists(ready), "the gateway listens")
    with open(ready, encoding="utf-8") as file:
        return process, json.load(file)["address"]


class Reader(threading.Thread):
    """Reads one stream to its end, or to where it is cut."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.events, self.error = address, [], None
        self.first = threading.Event()
        self.start()

    def run(self):
        try:
            gateway = Gateway(self.address)
            gateway.connect = lambda: http.client.HTTPConnection(self.address, timeout=300)
            for event in gateway.stream("/v1/completions", ASK):
                self.events.append(event)
                self.first.set()
        except Exception as error:  # whatever a cut looks like
            self.error = error
        self.first.set()

    def is_whole(self):
        return self.error is None and self.events[-1:] == ["[DONE]"]


class Proxies(unittest.TestCase):
    def test_no_stream_is_cut_while_a_worker_stands_still(self):
        names = [name for name in ("nginx", "haproxy") if shutil.which(name, path=SBIN)]
        for name in ("nginx", "haproxy"):
            if name not in names:
                print(f"proxies: {name} skipped: it is not installed")
        if not names:
            self.skipTest("neither nginx nor haproxy is installed")
        cluster = Cluster("--http", "127.0.0.1:0", "--recovery-timeout", "300", "--reform-after", "300", workers=2)
        stops = [cluster.cleanup]
        try:
            silent, silent_address = start_gateway(cluster, "--heartbeat", "0")
            stops += [silent.wait, silent.kill]
            folder = tempfile.mkdtemp(dir=cluster.dir.name)
            readers = {}
            for name in names:
                for kind, gateway in (("", cluster.http), (" without heartbeats", silent_address)):
                    proxy = Proxy(name, gateway, folder)
                    stops.append(proxy.stop)
                    readers[name + kind] = Reader(proxy.address)
            for reader in readers.values():
                reader.first.wait(60)
            worker = cluster.children()["w1"]
            os.kill(worker, signal.SIGSTOP)
            try:
                time.sleep(STILL_S)
            finally:
                os.kill(worker, signal.SIGCONT)
            for reader in readers.values():
                reader.join(120)
            texts = set()
            for name, reader in readers.items():
                # Without them the proxies do cut: the others' wholeness says something.
                self.assertEqual(reader.is_whole(), "without" not in name, f"{name}: {reader.error} {reader.events[-1:]}")
                if reader.is_whole():
                    texts.add("".join(c["text"] for e in reader.events[:-1] for c in e["choices"]))
            self.assertEqual(len(texts), 1, "the same stream by every way")
        finally:
            for stop in reversed(stops):
                stop()


if __name__ == "__main__":
    unittest.main()
