"""A node whose pods are containers of the image, run by podman with what their manifests say of their security, volumes and network."""
import os
import resource
import shutil
import subprocess

from node import USER, Node

# The limits that containers get by default may be above those of this machine, which no runtime can raise.
SETTINGS = """[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
LABEL = "tutti-rehearsal"
FILES, PROCESSES = 16384, 8192


def limit(kind, wanted):
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def settings(folder):
    """The environment of podman, with settings of its own in `folder`."""
    path = os.path.join(folder, "containers.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SETTINGS.format(files=limit(resource.RLIMIT_NOFILE, FILES), processes=limit(resource.RLIMIT_NPROC, PROCESSES)))
    return {**os.environ, "CONTAINERS_CONF": path}


def why_not(image):
    """Why no containers of the image can be run here; empty: they can."""
    if shutil.which("podman") is None or shutil.which("runc") is None:
        return "needs podman and runc"
    if subprocess.run(["podman", "image", "exists", image], check=False, capture_output=True).returncode != 0:
        return f"there is no image {image}: tools/image makes it"
    return ""


def clean(folder):
    """Removes what podman still knows of containers whose rehearsal in `folder` has ended."""
    subprocess.run(["podman", "rm", "--force", "--filter", f"label={LABEL}={folder}"], check=False, capture_output=True)


class Engine(Node):
    def __init__(self, folder, image, model):
        super().__init__(folder, "/nowhere", model)
        self.image = image
        # All names are in the file of hosts: servers of this machine, which no pod reaches, would be waited for.
        self.resolver = self.path("resolv.conf")
        with open(self.resolver, "w", encoding="utf-8"):
            pass
        os.environ.update(settings(folder))

    def make_root(self, name, mounts):
        """The container's name, and its mounts: the image is its root."""
        return name, mounts

    def command(self, space, root, environment, words, security=None, number=0):
        name, mounts = root
        security = security or {}
        options = ["--rm", "--replace", "--name", f"{name}-{number}", "--label", f"{LABEL}={self.folder}", "--network", f"ns:/run/netns/{space}", "--entrypoint", words[0],
                   "--user", f"{security.get('runAsUser', USER)}:{security.get('runAsGroup', USER)}",
                   "--group-add", str(security.get("fsGroup", USER)), "--log-driver", "none", "--init=false"]
        if security.get("readOnlyRootFilesystem"):
            options += ["--read-only", "--read-only-tmpfs=false"]
        if security.get("allowPrivilegeEscalation") is False:
            options += ["--security-opt", "no-new-privileges"]
        options += [part for one in security.get("capabilities", {}).get("drop", ()) for part in ("--cap-drop", one)]
        options += [part for variable, value in environment.items() for part in ("--env", f"{variable}={value}")]
        for where, (folder, written) in mounts.items():
            options += ["--volume", f"{folder}:{where}:{'rw' if written else 'ro'}"]
        options += ["--volume", f"{self.hosts}:/etc/hosts:ro", "--volume", f"{self.resolver}:/etc/resolv.conf:ro"]
        return ["podman", "run", *options, self.image, *words[1:]]

    def probe(self, space, root, environment, words, number=0):
        told = [part for variable, value in environment.items() for part in ("--env", f"{variable}={value}")]
        return ["podman", "exec", *told, f"{root[0]}-{number}", *words]

    def kill(self, process, root, number):
        """SIGKILL to the container: to podman it would say nothing to what runs inside."""
        subprocess.run(["podman", "kill", "--signal", "KILL", f"{root[0]}-{number}"], check=False, capture_output=True)
        process.wait()

    def used(self, process, root, number):
        said = subprocess.run(["podman", "inspect", "--format", "{{.State.Pid}}", f"{root[0]}-{number}"], check=False, capture_output=True, text=True)
        return int(said.stdout.strip() or 0)
