#!/usr/bin/env python3
"""Installs the packages of a folder into a Debian 12 that has nothing else, serves from there, asks, and purges them again.

    tests/package/bare.py FOLDER      (as root, with mmdebstrap and a network; tools/package makes the folder)

The services are started as their units say, as their user, by this script: the chroot has no init. Says how large everything is; ends
with 1 and the reason when a step fails, or when the purge leaves anything.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "..", "models", "demo")
QUESTION = "What is 12 + 30?"
PATIENCE_S = 120
# What apt, dpkg and the loader keep for themselves.
OF_OTHERS = re.compile(r"^(var/(lib/(apt|dpkg|systemd|pam|ucf)|cache/(apt|ldconfig|debconf|man)|log)|etc/(ld\.so\.cache|\.pwd\.lock)|tmp|run|dev|proc|sys)(/|$)"
                       r"|^etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$")


class Chroot:
    def __init__(self, root):
        self.root = root
        self.network = f"tutti-bare-{os.getpid()}"
        self.processes = []

    def run(self, *command, user="root", check=True, **environment):
        told = [f"{name}={value}" for name, value in {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                                                     **environment}.items()]
        done = subprocess.run(["chroot", f"--userspec={user}", self.root, "env", "-i", *told, *command], capture_output=True,
                              text=True, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done

    def files(self):
        return {path for folder, folders, names in os.walk(self.root) for path in
                (os.path.relpath(os.path.join(folder, name), self.root) for name in (*folders, *names)) if not OF_OTHERS.match(path)}

    def start(self, unit, instance=""):
        """The command of the unit, as its user, in a network of its own."""
        with open(os.path.join(self.root, "usr/lib/systemd/system", unit), encoding="utf-8") as file:
            settings = [line.rstrip("\n").split("=", 1) for line in file if re.match(r"[A-Z]\w*=", line)]
        told = [pair for name, value in settings if name == "Environment" for pair in value.split()]
        command = shlex.split(dict(settings)["ExecStart"].replace("%i", instance))
        self.processes.append(subprocess.Popen(
            ["ip", "netns", "exec", self.network, "chroot", f"--userspec={dict(settings)['User']}", self.root, "env", "-i", *told, *command],
            stderr=subprocess.PIPE, text=True))

    def ask(self, *command, **environment):
        told = [f"{name}={value}" for name, value in environment.items()]
        return subprocess.run(["ip", "netns", "exec", self.network, "chroot", "--userspec=nobody", self.root, "env", "-i", *told, *command],
                              capture_output=True, text=True, check=False)

    def stop(self):
        for process in self.processes:
            process.terminate()
        codes = [process.wait(timeout=60) for process in self.processes]
        self.processes = []
        return codes


def check(condition, what):
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        raise SystemExit(1)


def serve(chroot):
    shutil.copytree(MODEL, os.path.join(chroot.root, "srv/tutti/model"))
    for folder in ("/run/tutti", "/var/cache/tutti"):
        chroot.run("install", "-d", "-m", "0700", "-o", "tutti", "-g", "tutti", folder)
    began = time.monotonic()
    chroot.start("tutti-coordinator.service")
    chroot.start("tutti-worker@.service", "w0")
    chroot.start("tutti-gateway.service")
    while (done := chroot.ask("/usr/bin/tutti", "chat", "--message", QUESTION, "--temperature", "0", "--resume-within", "0")).returncode:
        if time.monotonic() > began + PATIENCE_S or any(process.poll() is not None for process in chroot.processes):
            for process in chroot.processes:
                process.kill()
                print(process.stderr.read()[-1500:])
            check(False, f"tutti chat answers: {done.stderr.strip()}")
        time.sleep(0.2)
    check(done.stdout.strip() == "42", f"tutti chat says {done.stdout.strip()}, {time.monotonic() - began:.1f} s after the start")
    check(chroot.stop() == [0, 0, 0], "SIGTERM ends coordinator, worker and gateway with 0")
    shutil.rmtree(os.path.join(chroot.root, "srv/tutti"))


def rehearse(folder, root):
    chroot = Chroot(root)
    subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", "bookworm", root], check=True)
    for name, kind in (("dev", ["--rbind", "/dev"]), ("proc", ["-t", "proc", "proc"])):
        subprocess.run(["mount", *kind, os.path.join(root, name)], check=True)
    chroot.run("apt-get", "update")
    packages = sorted(glob.glob(os.path.join(folder, "tutti-[cs][le][ir]*.deb")))
    check(len(packages) == 2, f"packages: {', '.join(os.path.basename(path) for path in packages)}")
    before, users = chroot.files(), chroot.run("cat", "/etc/passwd", "/etc/group").stdout
    for path in packages:
        shutil.copy(path, os.path.join(root, "tmp"))
    chroot.run("apt-get", "install", "-y", "--no-install-recommends", *(f"/tmp/{os.path.basename(path)}" for path in packages))
    sizes = chroot.run("dpkg-query", "-W", "-f", "${Package} ${Installed-Size} KiB\n", "tutti-client", "tutti-server").stdout.split("\n")
    check("tutti:" in chroot.run("getent", "passwd", "tutti").stdout, f"installed: {', '.join(filter(None, sizes))}; the user tutti is there")
    subprocess.run(["ip", "netns", "add", chroot.network], check=True)
    try:
        subprocess.run(["ip", "netns", "exec", chroot.network, "ip", "link", "set", "lo", "up"], check=True)
        serve(chroot)
    finally:
        for process in chroot.processes:
            process.kill()
        subprocess.run(["ip", "netns", "delete", chroot.network], check=False)
    chroot.run("apt-get", "purge", "-y", "tutti-client", "tutti-server")
    named = sorted(path for path in chroot.files() if "tutti" in path) + glob.glob(os.path.join(root, "run/tutti*"))
    check(not named, f"the purge leaves nothing of ours{': ' + ' '.join(named) if named else ''}")
    chroot.run("apt-get", "autoremove", "--purge", "-y")
    left = sorted(chroot.files() - before)
    check(not left, f"nor of what was installed for it{': ' + ' '.join(left[:20]) if left else ''}")
    check(chroot.run("cat", "/etc/passwd", "/etc/group").stdout == users, "users and groups are those from before")


def main():
    if len(sys.argv) != 2 or os.geteuid() != 0:
        sys.exit(__doc__)
    if os.environ.get("TUTTI_BARE_MOUNTS") != "own":
        # Mounts of its own, which end with it.
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv],
                   {**os.environ, "TUTTI_BARE_MOUNTS": "own"})
    with tempfile.TemporaryDirectory(prefix="tutti-bare-") as folder:
        root = os.path.join(folder, "root")
        try:
            rehearse(os.path.abspath(sys.argv[1]), root)
        finally:
            for name in ("proc", "dev"):
                subprocess.run(["umount", "--recursive", "--lazy", os.path.join(root, name)], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
