"""Machines as network namespaces: each has an address in a network of its own, and one router joins them.

Needs the right to make namespaces (root) and iproute2's `ip`; `why_not()` says what is missing.
"""
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time

from harness import BINARIES, PATIENCE_S, SLOWNESS, clean_environment, wait_until

# Room for a worker of the demo model, and a thread each: the commands in the tests say neither.
ENVIRONMENT = {"TUTTI_MEMORY": "256MiB", "TUTTI_THREADS": "1"}


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def why_not():
    """What keeps namespaces from being made here; empty: nothing."""
    if shutil.which("ip") is None:
        return "there is no iproute2 (ip)"
    name = f"tutti-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return "network namespaces cannot be made here: " + made.stderr.strip()
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


class Process:
    """A program on a machine, with its log in a file."""

    def __init__(self, machine, number, command, variables):
        self.log = os.path.join(machine.folder, f"{number}.log")
        with open(self.log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(machine.command(*command), stdout=file, stderr=file,
                                            env={**machine.environment, **variables})

    def text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def says(self, *texts):
        """Waits until its log has all of these, in one line."""
        wait_until(lambda: any(all(text in line for text in texts) for line in self.text().split("\n")),
                   f"{texts} in {self.log}: {self.text()}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def bytes_read(self):
        """Of files, since it began: what the program asked for, from wherever the system had it. `ip` becomes the program."""
        with open(f"/proc/{self.process.pid}/io", encoding="ascii") as file:
            return int(file.readline().removeprefix("rchar: "))


class Machine:
    def __init__(self, network, number):
        self.name = f"node{number}"
        self.address = f"10.80.{number}.2"
        self.namespace = f"{network.prefix}-{number}"
        self.folder = os.path.join(network.folder, self.name)
        os.makedirs(os.path.join(self.folder, "run"), mode=0o700)
        self.environment = clean_environment(
            **ENVIRONMENT, XDG_RUNTIME_DIR=os.path.join(self.folder, "run"), TMPDIR=self.folder)
        self.processes = []
        self._join(network, number)

    def _join(self, network, number):
        outside, inside = f"{network.prefix}r{number}", f"{network.prefix}m{number}"
        ip("netns", "add", self.namespace)
        ip("link", "add", outside, "netns", network.router, "type", "veth", "peer", "name", inside,
           "netns", self.namespace)
        within = ["-n", self.namespace]
        ip(*within, "link", "set", "lo", "up")
        ip(*within, "addr", "add", f"{self.address}/24", "dev", inside)
        ip(*within, "link", "set", inside, "up")
        ip("-n", network.router, "addr", "add", f"10.80.{number}.1/24", "dev", outside)
        ip("-n", network.router, "link", "set", outside, "up")
        ip(*within, "route", "add", "default", "via", f"10.80.{number}.1")
        # What `ip netns exec` puts in the place of /etc/hosts. No name server: one that does not answer is asked for
        # the IPv6 addresses of these names for half a minute.
        os.makedirs(f"/etc/netns/{self.namespace}")
        with open(f"/etc/netns/{self.namespace}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"10.80.{other}.2 node{other}\n" for other in range(network.count))
        with open(f"/etc/netns/{self.namespace}/resolv.conf", "w", encoding="utf-8") as file:
            file.write("nameserver 127.0.0.1\n")

    def command(self, program, *arguments):
        """`program`: one of ours, or of the system's."""
        path = os.path.join(BINARIES, program)
        return ["ip", "netns", "exec", self.namespace, path if os.path.exists(path) else program, *arguments]

    def start(self, *command, **variables):
        self.processes.append(Process(self, len(self.processes), command, variables))
        return self.processes[-1]

    def run(self, *command, timeout=PATIENCE_S, stdin="", **variables):
        """To its end; .returncode, .stdout, .stderr."""
        return subprocess.run(self.command(*command), capture_output=True, text=True, timeout=timeout, input=stdin,
                              env={**self.environment, **variables})

    def end_all(self):
        for one in self.processes:
            if one.process.poll() is None:
                one.process.terminate()
        deadline = time.monotonic() + 10 * SLOWNESS
        for one in self.processes:
            try:
                one.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
        self.processes.clear()


class Network:
    """`count` machines, node0 and following, that know each other by these names."""

    def __init__(self, count):
        self.count = count
        # Names of interfaces have at most 15 characters.
        self.prefix = f"tt{os.getpid()}"
        self.router = f"{self.prefix}-r"
        self.folder = tempfile.mkdtemp(prefix="tutti-machines-")
        self.machines = []
        # Whatever ends the test: namespaces outlive processes.
        atexit.register(self.close)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            ip("netns", "add", self.router)
            ip("netns", "exec", self.router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            for number in range(count):
                self.machines.append(Machine(self, number))
        except BaseException:
            self.close()
            raise

    def end_all(self):
        for machine in self.machines:
            machine.end_all()

    def close(self):
        self.end_all()
        for name in [self.router, *(f"{self.prefix}-{number}" for number in range(self.count))]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
