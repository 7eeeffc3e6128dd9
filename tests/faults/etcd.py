"""An etcd of one member, for coordinators that ask it who leads."""
import os
import shutil
import subprocess
import tempfile
import time

import grpc

from ports import free_port

# Debian's etcd-server. Users need it only where coordinators stand by with --etcd.
PROGRAM = shutil.which("etcd") or "/usr/bin/etcd"
START_S = 20
# Of its files: what it writes it waits for, and a disk of a busy machine takes longer than a lease lasts.
MEMORY = "/dev/shm"


def installed():
    return os.access(PROGRAM, os.X_OK)


class Etcd:
    def __init__(self, log, environment):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-etcd-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.address = f"127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        clients = f"http://{self.address}"
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [PROGRAM, "--name", "one", "--data-dir", self.folder.name, "--listen-client-urls", clients,
                 "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                 "--initial-cluster", f"one={peers}", "--logger", "zap"],
                stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=environment)
        self.wait_ready()

    def wait_ready(self):
        """Until it answers: it has elected itself."""
        with grpc.insecure_channel(self.address) as channel:
            # RangeRequest{key: "x"}
            look = channel.unary_unary("/etcdserverpb.KV/Range")
            deadline = time.monotonic() + START_S
            while True:
                try:
                    look(b"\x0a\x01x", timeout=2, wait_for_ready=True)
                    return
                except grpc.RpcError as error:
                    if time.monotonic() > deadline or self.process.poll() is not None:
                        self.stop()
                        raise RuntimeError(f"etcd does not answer: {error.details()}") from error
                    time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
