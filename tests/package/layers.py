#!/usr/bin/env python3
"""Plays deploy/docker/Dockerfile without a container engine, from packages that are there, and says how large each layer is.

    tests/package/layers.py FOLDER [TARGET]     (as root, with mmdebstrap and a network; tools/package makes the folder)

Every RUN line is run as it stands, in a chroot on an overlay: what it changes is the layer. Debian's own layer is made by mmdebstrap as
debian:12-slim is, so its size is close to that and not the same. Ends with 1 when a line fails, or the programs do not start in
the image as its user. TARGET: cpu (default) or cuda.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "deploy"))
from image import DOCKERFILE, read_stages  # noqa: E402

# What debian:12-slim leaves out.
SLIM = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/groff/*", "/usr/share/lintian/*")
KEPT = "/usr/share/doc/*/copyright"
PROGRAMS = ("tutti", "tutti-coordinator", "tutti-worker", "tutti-gateway")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"FAILED  {' '.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


class Image:
    """layers: [(what made it, folder)], the lowest first."""

    def __init__(self, builder, layers):
        self.builder, self.layers, self.variables, self.user = builder, list(layers), {}, "0:0"

    def add(self, what):
        folder = os.path.join(self.builder.folder, str(self.builder.count))
        self.builder.count += 1
        os.mkdir(folder)
        self.layers.append((what, folder))
        return folder

    def mounted(self, work):
        """Calls work(root) with the whole image at root; changes go to its highest layer."""
        root, scratch = (tempfile.mkdtemp(dir=self.builder.folder) for _ in range(2))
        lower = ":".join(folder for _, folder in reversed(self.layers[:-1]))
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={self.layers[-1][1]},workdir={scratch}", root)
        try:
            work(root)
        finally:
            run("umount", root)

    def execute(self, command, mounts, root, user="0:0"):
        """A shell's command in the chroot; {where: folder} is seen there read-only."""
        resolver = os.path.join(root, "etc/resolv.conf")
        had = os.path.exists(resolver)
        steps = [f"mount --bind /etc/resolv.conf {resolver}", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev",
                 *(f"mount --bind -o ro {folder} {root}{where}" for where, folder in mounts.items())]
        for where in mounts:
            os.makedirs(root + where, exist_ok=True)
        if not had:
            with open(resolver, "w", encoding="utf-8"):
                pass
        told = " ".join(f"'{name}={value}'" for name, value in {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self.variables}.items())
        said = run("unshare", "--mount", "--propagation", "private", "sh", "-ec", "; ".join(steps) +
                   f"; exec chroot --userspec={user} {root} env -i {told} /bin/sh -c \"$0\"", command)
        for where in mounts:
            os.rmdir(root + where)
        if not had:
            os.remove(resolver)
        return said


class Builder:
    def __init__(self, folder, packages):
        self.folder, self.packages, self.count, self.images = folder, packages, 0, {}

    def debian(self):
        image = Image(self, [])
        target = image.add("FROM debian:12-slim")
        run("mmdebstrap", "--quiet", "--variant=minbase", *(f"--dpkgopt=path-exclude={path}" for path in SLIM),
            f"--dpkgopt=path-include={KEPT}", "bookworm", target)
        return image

    def folder_of(self, source):
        """What other stages mount or copy: the packages, or the top of an image."""
        return self.packages if source == "packages" else self.images[source].layers[-1][1]

    def play(self, stage):
        base = self.images.get(stage.base) or self.images.setdefault("debian", self.debian())
        image = self.images[stage.name] = Image(self, base.layers)
        image.variables = dict(base.variables)
        for word, rest in stage.instructions:
            if word == "RUN":
                options, command = re.fullmatch(r"((?:--\S+ +)*)(.*)", rest, re.S).groups()
                mounts = {dict(part.split("=", 1) for part in option.split("=", 1)[1].split(","))["target"]: option
                          for option in options.split()}
                mounts = {where: self.folder_of(re.search(r"from=(\w+)", option).group(1)) for where, option in mounts.items()}
                image.add(f"RUN {' '.join(command.split())}")
                image.mounted(lambda root: image.execute(command, mounts, root))
            elif word == "COPY":
                source, path, target = re.fullmatch(r"--from=(\w+) (\S+) (\S+)", rest).groups()
                top = image.add(f"COPY {rest}")
                os.makedirs(os.path.dirname(top + target))
                shutil.copy2(self.folder_of(source) + path, top + target)
            elif word == "ENV":
                image.variables.update(pair.split("=", 1) for pair in rest.split())
            elif word == "ARG":
                name, _, value = rest.partition("=")
                image.variables[name] = value
            elif word == "USER":
                image.user = rest
        return image


def bytes_in(folder):
    return sum(os.lstat(os.path.join(path, name)).st_size for path, _, names in os.walk(folder) for name in names)


def packed(folder):
    made = subprocess.run(f"tar -C {folder} -c . | gzip -6 | wc -c", shell=True, capture_output=True, text=True, check=True)
    return int(made.stdout)


def play(packages, target, folder):
    builder = Builder(folder, packages)
    stages = {stage.name: stage for stage in read_stages(DOCKERFILE)}
    # The ones before make packages, which are there.
    for name in ("needs", "system", "installed", target):
        image = builder.play(stages[name])
    total = 0
    for what, layer in image.layers:
        size, sent = bytes_in(layer), packed(layer)
        total += sent
        print(f"{size / 1e6:8.1f} MB, packed {sent / 1e6:6.1f} MB  {what[:110]}")
    print(f"{'':13}packed {total / 1e6:6.1f} MB  in all")
    image.add("checks")

    def check(root):
        for program in PROGRAMS:
            print("ok      " + program, image.execute(f"{program} --version", {}, root, image.user).strip())
    image.mounted(check)


def main():
    if len(sys.argv) not in (2, 3) or os.geteuid() != 0:
        sys.exit(__doc__)
    if os.environ.get("TUTTI_LAYERS_MOUNTS") != "own":
        # Mounts of its own, which end with it.
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv],
                   {**os.environ, "TUTTI_LAYERS_MOUNTS": "own"})
    with tempfile.TemporaryDirectory(prefix="tutti-layers-") as folder:
        os.chmod(folder, 0o755)
        play(os.path.abspath(sys.argv[1]), (sys.argv[2:] or ["cpu"])[0], folder)


if __name__ == "__main__":
    main()
