"""The machine that the pods of a rehearsal share: a network with a namespace for each pod, names, and a root folder for each container.

Everything is made in namespaces of this process (mounts, network, processes), so that nothing outlives it.
"""
import itertools
import os
import subprocess

# Whom pods run as: runAsUser and fsGroup of the manifests.
USER = 65532
BRIDGE = "pods0"
# What a container sees of this machine, read-only; the image has the same libraries.
OF_THE_MACHINE = ("usr", "proc", "sys", "dev")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Node:
    """folder: for everything; binaries: the programs; model: the checkpoint."""

    def __init__(self, folder, binaries, model):
        self.folder, self.binaries, self.model = folder, binaries, model
        self.numbers = itertools.count(2)
        self.services = itertools.count(2)
        self.names = {}
        self.hosts = self.path("hosts")
        self.write_hosts()
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "netns", "/run/netns")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        run("ip", "address", "add", "10.244.0.1/16", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write_hosts(self):
        # In place: containers have it mounted.
        with open(self.hosts, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{address} {' '.join(names)}\n" for address, names in self.names.items()))

    def name(self, address, *names):
        self.names = {known: kept for known, kept in self.names.items() if not set(kept) & set(names)}
        self.names[address] = names
        self.write_hosts()

    def add_service(self, name):
        """The address of a Service: of this machine, whose proxy listens there."""
        address = f"10.96.0.{next(self.services)}"
        run("ip", "address", "add", f"{address}/32", "dev", BRIDGE)
        self.name(address, name)
        return address

    def add_pod(self, *names):
        """(network namespace, address) of a new pod."""
        number = next(self.numbers)
        space, link, address = f"pod{number}", f"pod{number}", f"10.244.0.{number}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", "name", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", link, "master", BRIDGE, "up")
        for command in (["link", "set", "lo", "up"], ["address", "add", f"{address}/16", "dev", "eth0"],
                        ["link", "set", "eth0", "up"], ["route", "add", "default", "via", "10.244.0.1"]):
            run("ip", "-n", space, *command)
        self.name(address, *names)
        return space, address

    @staticmethod
    def cut(space):
        """No byte reaches the pod from now on, and none comes from it: nobody is told."""
        run("ip", "link", "set", space, "down")

    def make_root(self, name, mounts):
        """A container's root: {where: (folder, whether it may be written)}."""
        root = self.path("roots", name, "")
        for part in OF_THE_MACHINE:
            self.mount(os.path.join("/", part), os.path.join(root, part), part in ("dev", "proc"))
        for link, target in LINKS.items():
            os.symlink(target, os.path.join(root, link))
        self.mount(self.binaries, os.path.join(root, "opt/tutti"), False)
        os.makedirs(os.path.join(root, "etc"))
        for part, text in (("passwd", f"tutti:x:{USER}:{USER}::/:/nonexistent\n"), ("nsswitch.conf", "hosts: files\n")):
            with open(os.path.join(root, "etc", part), "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(root, "etc/hosts"), "w", encoding="utf-8"):
            pass
        run("mount", "--bind", self.hosts, os.path.join(root, "etc/hosts"))
        for where, (folder, written) in mounts.items():
            self.mount(folder, root + where.lstrip("/"), written)
        return root

    @staticmethod
    def mount(folder, where, written):
        os.makedirs(where, exist_ok=True)
        run("mount", "--rbind" if folder in ("/dev", "/sys") else "--bind", folder, where)
        if not written:
            run("mount", "-o", "remount,bind,ro", where)

    def command(self, space, root, environment, words, security=None, number=0):
        """`words` in a pod's network and a container's root, as its user, with that environment and no other. security: what the manifest
        says of it, which a process cannot have; number: of the start."""
        told = [f"{name}={value}" for name, value in {"PATH": "/opt/tutti:/usr/bin", "HOME": "/", **environment}.items()]
        return ["nsenter", f"--net=/run/netns/{space}", "chroot", f"--userspec={USER}:{USER}", root, "env", "-i", *told, *words]

    def probe(self, space, root, environment, words, number=0):
        """`words` beside what runs in the container."""
        return self.command(space, root, environment, words, number=number)

    def kill(self, process, root, number):
        process.kill()
        process.wait()

    def used(self, process, root, number):
        """The number of the process that does the container's work."""
        return process.pid
