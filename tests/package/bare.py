#!/usr/bin/env python3
"""Packages and the wheel in a system that has nothing else: installed, served from, and taken away again, with what each took.

    tests/package/bare.py [--packages FOLDER] [--wheels FOLDER] [--suite bookworm] [--mirror URL] [--components main,universe] [--unsigned]
                          [--root FOLDER]

As root, with debootstrap and a network. Without --packages and --wheels both are made of the build in TUTTI_BINARY_DIR, if TUTTI_BARE=1
says that this may take minutes. --root: of a system made before, which is copied. --unsigned: for suites whose keys this machine lacks.

The services of the packages are started as their units say, as their user, by this script: the root has no init. Ends with 1 and the
reason when a step fails, or when what was taken away leaves anything; with 77 where no such system can be made.
"""
import argparse
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
BUILD = os.path.abspath(os.environ.get("TUTTI_BINARY_DIR") or os.path.join(SOURCE, "build", "release"))
MODEL = os.path.join(SOURCE, "models", "demo")
QUESTION = "What is 12 + 30?"
PATIENCE_S = 120
SKIPPED = 77
SERVER = ("tutti-client", "tutti-server")
# What apt, dpkg and the loader keep for themselves.
OF_OTHERS = re.compile(r"^(var/(lib/(apt|dpkg|systemd|pam|ucf)|cache/(apt|ldconfig|debconf|man)|log)|etc/(ld\.so\.cache|\.pwd\.lock)|tmp|run|dev|proc|sys)(/|$)"
                       r"|^etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/__pycache__(/|$)")


def check(condition, what):
    print(("ok      " if condition else "FAILED  ") + what, flush=True)
    if not condition:
        raise SystemExit(1)


def uptime():
    with open("/proc/uptime", encoding="ascii") as file:
        return float(file.read().split()[0])


class Chroot:
    def __init__(self, root):
        self.root = root
        self.network = f"tutti-bare-{os.getpid()}"
        self.processes = []

    def command(self, *command, user="root", **environment):
        told = [f"{name}={value}" for name, value in {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
                                                     **environment}.items()]
        return ["chroot", f"--userspec={user}", self.root, "env", "-i", *told, *command]

    def run(self, *command, fails=False, alone=False, **environment):
        """fails: it may; alone: in a network of its own, as what serves."""
        done = subprocess.run([*(["ip", "netns", "exec", self.network] if alone else []), *self.command(*command, **environment)],
                              capture_output=True, text=True, check=False)
        if not fails and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done

    def files(self):
        return {path for folder, folders, names in os.walk(self.root) for path in
                (os.path.relpath(os.path.join(folder, name), self.root) for name in (*folders, *names)) if not OF_OTHERS.search(path)}

    def check_as_before(self, before, what, folders=True):
        """folders: empty ones count too."""
        changed = sorted(path for path in self.files() ^ before if folders or not os.path.isdir(os.path.join(self.root, path)))
        check(not changed, f"{what}: {' '.join(changed[:20]) or f'the {len(before)} files and folders are those from before'}")

    def start(self, unit, instance=""):
        """The command of the unit, as its user, in a network of its own."""
        with open(os.path.join(self.root, "usr/lib/systemd/system", unit), encoding="utf-8") as file:
            settings = [line.rstrip("\n").split("=", 1) for line in file if re.match(r"[A-Z]\w*=", line)]
        told = dict(pair.split("=", 1) for name, value in settings if name == "Environment" for pair in value.split())
        command = shlex.split(dict(settings)["ExecStart"].replace("%i", instance))
        self.processes.append(subprocess.Popen(
            ["ip", "netns", "exec", self.network, *self.command(*command, user=dict(settings)["User"], **told)],
            stderr=subprocess.PIPE, text=True))

    def stop(self):
        for process in self.processes:
            process.terminate()
        codes = [process.wait(timeout=60) for process in self.processes]
        self.processes = []
        return codes


def serve(chroot):
    """From the units' start to the first answer, in seconds."""
    for folder in ("/run/tutti", "/var/cache/tutti"):
        chroot.run("install", "-d", "-m", "0700", "-o", "tutti", "-g", "tutti", folder)
    began = time.monotonic()
    chroot.start("tutti-coordinator.service")
    chroot.start("tutti-worker@.service", "w0")
    chroot.start("tutti-gateway.service")
    ask = ("tutti", "chat", "--message", QUESTION, "--temperature", "0", "--resume-within", "0")
    while (done := chroot.run(*ask, user="nobody", alone=True, fails=True)).returncode:
        if time.monotonic() > began + PATIENCE_S or any(process.poll() is not None for process in chroot.processes):
            for process in chroot.processes:
                process.kill()
                print(process.stderr.read()[-1500:])
            check(False, f"tutti chat answers: {done.stderr.strip()}")
        time.sleep(0.1)
    check(done.stdout.strip() == "42", f"tutti chat says {done.stdout.strip()}, {time.monotonic() - began:.1f} s after the start")
    return time.monotonic()


def try_packages(chroot, folder):
    packages = sorted(path for name in SERVER for path in glob.glob(os.path.join(folder, f"{name}_*.deb")))
    check(len(packages) == 2, f"packages: {', '.join(os.path.basename(path) for path in packages)}")
    for path in packages:
        shutil.copy(path, os.path.join(chroot.root, "tmp"))
    before, users = chroot.files(), chroot.run("cat", "/etc/passwd", "/etc/group").stdout
    began = time.monotonic()
    chroot.run("apt-get", "update")
    chroot.run("apt-get", "install", "-y", "--no-install-recommends", *(f"/tmp/{os.path.basename(path)}" for path in packages))
    installed = time.monotonic()
    sizes = chroot.run("dpkg-query", "-W", "-f", "${Package} ${Installed-Size} KiB\n", *SERVER).stdout.split("\n")
    check("tutti:" in chroot.run("getent", "passwd", "tutti").stdout, f"installed: {', '.join(filter(None, sizes))}; the user tutti is there")
    model = os.path.join(chroot.root, "srv/tutti/model")
    shutil.copytree(MODEL, model)
    try:
        answered = serve(chroot)
        status = ("runuser", "-u", "tutti", "--", "env", "XDG_RUNTIME_DIR=/run", "tutti", "status")
        check("serving" in chroot.run(*status, alone=True).stdout, "the user tutti sees the status")
        print(f"        packages: {answered - began:.1f} s from nothing to the first answer, {installed - began:.1f} of them for apt")
        check(chroot.stop() == [0, 0, 0], "SIGTERM ends coordinator, worker and gateway with 0")
    finally:
        for process in chroot.processes:
            process.kill()
        shutil.rmtree(os.path.dirname(model))
    chroot.run("apt-get", "purge", "-y", *SERVER)
    named = sorted(path for path in chroot.files() if "tutti" in path) + glob.glob(os.path.join(chroot.root, "run/tutti*"))
    check(not named, f"the purge leaves nothing of ours{': ' + ' '.join(named) if named else ''}")
    chroot.run("apt-get", "autoremove", "--purge", "-y")
    chroot.check_as_before(before, "nor of what was installed for it")
    check(chroot.run("cat", "/etc/passwd", "/etc/group").stdout == users, "users and groups are those from before")


def try_wheel(chroot, folder):
    wheels = glob.glob(os.path.join(folder, "tutti_server-*.whl"))
    check(len(wheels) == 1, f"wheel: {', '.join(os.path.basename(path) for path in wheels)}")
    if chroot.run("python3", "-c", "import ensurepip, venv", fails=True).returncode != 0:
        chroot.run("apt-get", "update")
        chroot.run("apt-get", "install", "-y", "--no-install-recommends", "python3-venv")
    name = os.path.basename(wheels[0])
    shutil.copy(wheels[0], os.path.join(chroot.root, "tmp", name))
    shutil.copytree(MODEL, os.path.join(chroot.root, "tmp/model"))
    chroot.run("python3", "-m", "venv", "/opt/tutti")
    before = chroot.files()
    began = uptime()
    chroot.run("/opt/tutti/bin/pip", "install", "--no-index", "--quiet", f"/tmp/{name}", alone=True)
    installed = uptime()
    said = chroot.run("tutti", "up", "--model", "/tmp/model", "--workers", "2", "--threads-per-worker", "1", "--exec",
                      f"tutti chat --message '{QUESTION}' --temperature 0; echo; cat /proc/uptime", alone=True, fails=True,
                      PATH="/opt/tutti/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/tmp")
    answer, _, answered = said.stdout.strip().partition("\n")
    check(answer == "42", f"tutti up serves, and tutti chat says {answer or said.stderr[-1500:]}")
    print(f"        wheel: {float(answered.split()[0]) - began:.1f} s from nothing to the first answer, {installed - began:.1f} of them for pip")
    chroot.run("/opt/tutti/bin/pip", "uninstall", "--yes", "--quiet", "tutti-server", alone=True)
    chroot.check_as_before(before, "pip uninstall leaves no file", folders=False)


def try_all(wanted, folder):
    root = os.path.join(folder, "root")
    if wanted.root:
        subprocess.run(["cp", "-a", wanted.root, root], check=True)
    else:
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--components={wanted.components}",
                               *(["--no-check-gpg"] if wanted.unsigned else []), wanted.suite, root,
                               *([wanted.mirror] if wanted.mirror else [])], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            print(f"bare: SKIPPED: debootstrap makes no {wanted.suite} here: {(made.stdout + made.stderr).strip()[-300:]}")
            raise SystemExit(SKIPPED)
    chroot = Chroot(root)
    for name, kind in (("dev", ["--rbind", "/dev"]), ("proc", ["-t", "proc", "proc"])):
        subprocess.run(["mount", *kind, os.path.join(root, name)], check=True)
    system = chroot.run("sh", "-c", ". /etc/os-release; echo $PRETTY_NAME").stdout.strip()
    print(f"{system}: {len(chroot.files())} files and folders")
    subprocess.run(["ip", "netns", "add", chroot.network], check=True)
    try:
        subprocess.run(["ip", "netns", "exec", chroot.network, "ip", "link", "set", "lo", "up"], check=True)
        if wanted.packages:
            try_packages(chroot, wanted.packages)
        if wanted.wheels:
            try_wheel(chroot, wanted.wheels)
    finally:
        subprocess.run(["ip", "netns", "delete", chroot.network], check=False)


def make(wanted, folder):
    """What was not given, of the build."""
    wanted.packages, wanted.wheels = os.path.join(folder, "packages"), os.path.join(folder, "wheels")
    subprocess.run(["cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", wanted.packages, "-D",
                    "CPACK_COMPONENTS_ALL=client;server", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "tools", "make_wheel.py"), "--build", BUILD, "--out", wanted.wheels], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--packages", "--wheels", "--mirror", "--root"):
        parser.add_argument(name)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--components", default="main")
    parser.add_argument("--unsigned", action="store_true")
    wanted = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("bare: SKIPPED: needs root, and Debian's package debootstrap")
        return SKIPPED
    if not (wanted.packages or wanted.wheels or os.environ.get("TUTTI_BARE")):
        print("bare: SKIPPED: it takes minutes; TUTTI_BARE=1 runs it")
        return SKIPPED
    if os.environ.get("TUTTI_BARE_MOUNTS") != "own":
        # Mounts of its own, which end with it.
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv],
                   {**os.environ, "TUTTI_BARE_MOUNTS": "own"})
    # What was begun is taken away then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="tutti-bare-") as folder:
        try:
            if not wanted.packages and not wanted.wheels:
                make(wanted, folder)
            try_all(wanted, folder)
        except RuntimeError as error:
            check(False, str(error))
        finally:
            for name in ("proc", "dev"):
                place = os.path.join(folder, "root", name)
                subprocess.run(["umount", "--recursive", "--lazy", place], check=False, stderr=subprocess.DEVNULL)
                if os.path.ismount(place):
                    os._exit(1)  # before the folder is removed, and this machine's own with it
    return 0


if __name__ == "__main__":
    sys.exit(main())
