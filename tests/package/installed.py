"""A tree made by `cmake --install`, as a package would lay it out, and its services started as their units say."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from harness import DEMO, SOURCE, clean_environment, wait_until  # noqa: E402

BUILD = os.path.abspath(os.environ.get("TUTTI_BINARY_DIR") or os.path.join(SOURCE, "build", "release"))
COMPONENTS = ("client", "server", "dev")
UNITS = ("tutti-coordinator.service", "tutti-worker@.service", "tutti-gateway.service")


class Installed:
    """Below self.root, in the prefix /usr."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-package-")
        self.root = os.path.join(self.folder.name, "root")
        self.processes = []
        for component in COMPONENTS:
            subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr", "--component", component], check=True,
                           capture_output=True, env=clean_environment(DESTDIR=self.root))

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def files(self):
        return {os.path.relpath(os.path.join(folder, name), self.root)
                for folder, _, names in os.walk(self.root) for name in names}

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def unit(self, name):
        """(setting, value) of each line, in order."""
        lines = self.read("usr/lib/systemd/system", name).splitlines()
        return [tuple(line.split("=", 1)) for line in lines if re.match(r"[A-Z]\w*=", line)]

    def run(self, program, *arguments, **environment):
        return subprocess.run([self.path("usr/bin", program), *arguments], capture_output=True, text=True, timeout=60,
                              env=clean_environment(**environment), check=False)

    def start(self, unit, instance="", **environment):
        """The unit's own command and environment, with this tree in the place of / and settings from the environment on top."""
        settings = self.unit(unit)
        command = shlex.split(dict(settings)["ExecStart"].replace("%i", instance))
        command = [self.root + part if part.startswith(("/usr/", "/etc/")) else part for part in command]
        told = dict(pair.split("=", 1) for name, value in settings if name == "Environment" for pair in value.split())
        log = os.path.join(self.folder.name, f"{unit}-{instance}.log")
        with open(log, "w", encoding="utf-8") as file:
            self.processes.append(subprocess.Popen(command, stdout=file, stderr=file,
                                                   env=clean_environment(**(told | environment))))
        return log

    def serve(self):
        """A coordinator, two workers and a gateway by their units; (address, http)."""
        runtime = os.path.join(self.folder.name, "run")
        os.makedirs(os.path.join(runtime, "tutti"), 0o700)
        moved = {"XDG_RUNTIME_DIR": runtime, "XDG_CACHE_HOME": runtime, "TUTTI_MODEL": DEMO}
        ready = {name: os.path.join(self.folder.name, name) for name in ("coordinator.json", "gateway.json")}
        logs = [self.start("tutti-coordinator.service", TUTTI_LISTEN="127.0.0.1:0", TUTTI_KV_TOKENS="8192",
                           TUTTI_PIPELINE_PARALLEL_SIZE="2", TUTTI_READY_FILE=ready["coordinator.json"], **moved)]
        for name, other in (("w0", "w1"), ("w1", "w0")):
            logs.append(self.start("tutti-worker@.service", name, TUTTI_PEER=other, TUTTI_MEMORY="512MiB", TUTTI_THREADS="1",
                                   TUTTI_SPEED="off", TUTTI_SPEED_FILE=os.path.join(runtime, "speeds"), **moved))
        address = self.told(ready["coordinator.json"], logs)
        logs.append(self.start("tutti-gateway.service", TUTTI_COORDINATOR=address, TUTTI_LISTEN="127.0.0.1:0",
                               TUTTI_READY_FILE=ready["gateway.json"], **moved))
        return address, self.told(ready["gateway.json"], logs)

    def told(self, path, logs):
        """The address that a process has written to its ready file."""
        def there():
            ended = [log for log, process in zip(logs, self.processes) if process.poll() is not None]
            assert not ended, "".join(open(log, encoding="utf-8").read() for log in ended)
            return os.path.exists(path)
        wait_until(there, f"{os.path.basename(path)} is written")
        with open(path, encoding="utf-8") as file:
            return re.search(r'"address": *"([^"]+)"', file.read()).group(1)

    def stop(self):
        for process in self.processes:
            process.terminate()
        codes = [process.wait(timeout=60) for process in self.processes]
        self.processes = []
        return codes

    def cleanup(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()
