#!/usr/bin/env python3
"""Packs built programs, and the shared libraries that they need, into wheels that pip installs anywhere.

    tools/make_wheel.py --build build/release --out FOLDER

tutti_server has the four programs, their man pages and completion; tutti_server_cuda has the plug-in for GPUs, where it is built.
Libraries go to lib/tutti beside the programs' bin, where the programs alone look for them, and their packages' copyright files go along.
What every Linux of the wheel's tag has (the C library, libstdc++, libgcc) is left to the machine.
The tag is computed from the symbols that all of it needs; the same files give the same bytes. Needs Debian's patchelf and binutils.
"""
import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PROGRAMS = ("tutti", "tutti-coordinator", "tutti-worker", "tutti-gateway")
PLUGIN = "libtutti_cuda.so"
# Of the machine, as the policies of manylinux have it.
OF_MACHINE = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+))\.so(\.\d+)*$")
# The oldest C library of a system that has a libstdc++ with these symbols, by the same policies.
GLIBC_OF_GLIBCXX = {(3, 4, 29): (2, 34), (3, 4, 30): (2, 35), (3, 4, 31): (2, 38), (3, 4, 32): (2, 38), (3, 4, 33): (2, 40)}
OLDEST_GLIBC = (2, 28)
SUMMARY = {"tutti_server": "Serves one large language model from many processes: coordinator, workers, gateway and the command tutti",
           "tutti_server_cuda": "Plug-in for NVIDIA's GPUs of the same build of tutti-server; needs the driver and no other part of CUDA"}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def version_of(build):
    """As Python has versions: "0.1.0+2ad3143643.dirty"."""
    number, _, revision = run(os.path.join(build, "bin", "tutti"), "--version").strip().partition("-")
    return number + ("+" + re.sub(r"[^A-Za-z0-9]+", ".", revision).lower() if revision else "")


def libraries_of(paths):
    """Name and file of every shared library that is needed, but for the machine's."""
    found = {}
    for line in run("ldd", *paths).splitlines():
        if match := re.match(r"\s*(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", line):
            name, path = match.groups()
            if not os.path.exists(path):
                raise SystemExit(f"wheel: {name} is {path}")
            if not OF_MACHINE.match(name):
                found[name] = os.path.realpath(path)
    return found


def needed(path, prefix):
    """The newest version of these symbols that a file needs of others."""
    listed = re.findall(rf"\b{prefix}_([\d.]+)\b", re.sub(r"(?m)^[0-9a-f]+ .* \.(?!UND).*$", "", run("objdump", "-T", path)))
    return max((tuple(map(int, version.split("."))) for version in listed), default=(0,))


def tag_of(paths):
    glibc = max([OLDEST_GLIBC, *(needed(path, "GLIBC")[:2] for path in paths)])
    newest = max(needed(path, "GLIBCXX") for path in paths)
    for symbols, of_system in sorted(GLIBC_OF_GLIBCXX.items()):
        if newest <= symbols:
            return "manylinux_{}_{}_x86_64".format(*max(glibc, of_system if newest > min(GLIBC_OF_GLIBCXX) else glibc))
    raise SystemExit(f"wheel: no policy is known for GLIBCXX {newest}")


def copyright_of(path):
    """Package and copyright file of a library."""
    for name in (path, path.removeprefix("/usr"), "/usr" + path):
        done = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            text = f"/usr/share/doc/{package}/copyright"
            if os.path.exists(text):
                return package, text
    raise SystemExit(f"wheel: no package says under which licence {path} is")


class Wheel:
    """Files by their place, packed with what pip wants to know of them."""

    def __init__(self, name, version, tag, needs=()):
        self.name, self.version, self.tag, self.needs = name, version, tag, needs
        self.files = {}

    def add(self, place, data, mode=0o644):
        self.files[place] = (data, mode)

    def add_file(self, place, path, mode=0o644):
        with open(path, "rb") as file:
            self.add(place, file.read(), mode)

    def add_data(self, place, path, mode=0o644):
        """Below the prefix into which pip installs."""
        self.add_file(f"{self.name}-{self.version}.data/{place}", path, mode)

    def add_license(self, place, path):
        self.add_file(f"{self.name}-{self.version}.dist-info/licenses/{place}", path)

    def write(self, folder):
        info = f"{self.name}-{self.version}.dist-info"
        licenses = sorted(place.removeprefix(f"{info}/licenses/") for place in self.files if place.startswith(f"{info}/licenses/"))
        told = ["Metadata-Version: 2.4", f"Name: {self.name.replace('_', '-')}", f"Version: {self.version}",
                f"Summary: {SUMMARY[self.name]}", "Requires-Python: >=3.8", "License-Expression: Apache-2.0",
                *(f"License-File: {place}" for place in licenses), "Classifier: Private :: Do Not Upload",
                *(f"Requires-Dist: {need}" for need in self.needs)]
        self.add(f"{info}/METADATA", ("\n".join(told) + "\n").encode())
        self.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: py3-none-{self.tag}\n".encode())
        record = "".join(f"{place},sha256={self.digest(data)},{len(data)}\n" for place, (data, _) in sorted(self.files.items()))
        self.add(f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode())
        path = os.path.join(folder, f"{self.name}-{self.version}-py3-none-{self.tag}.whl")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for place, (data, mode) in sorted(self.files.items(), key=lambda item: (".dist-info/" in item[0], item[0])):
                entry = zipfile.ZipInfo(place)
                entry.external_attr = (0o100000 | mode) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(entry, data)
        print(f"wheel: {path}, {os.path.getsize(path) // 1024} KiB")

    @staticmethod
    def digest(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def stripped(path, folder, rpath=None):
    copy = os.path.join(folder, os.path.basename(path))
    shutil.copyfile(path, copy)
    run("strip", "--strip-unneeded", copy)
    if rpath:
        # DT_RPATH and not DT_RUNPATH: it is followed for libraries of libraries too, which so stay as Debian made them.
        run("patchelf", "--force-rpath", "--set-rpath", rpath, copy)
    return copy


def programs_wheel(build, version, scratch):
    programs = [stripped(os.path.join(build, "bin", name), scratch, "$ORIGIN/../lib/tutti") for name in PROGRAMS]
    libraries = libraries_of([os.path.join(build, "bin", name) for name in PROGRAMS])
    wheel = Wheel("tutti_server", version, tag_of([*programs, *libraries.values()]))
    for path in programs:
        wheel.add_data(f"scripts/{os.path.basename(path)}", path, 0o755)
    packages = {}
    for name, path in libraries.items():
        wheel.add_data(f"data/lib/tutti/{name}", path)
        package, text = copyright_of(path)
        packages.setdefault(package, []).append(name)
        wheel.add_license(f"{package}/copyright", text)
    wheel.add_license("LICENSE", os.path.join(SOURCE, "LICENSE"))
    for part in ("client", "server"):
        for folder, _, names in os.walk(os.path.join(build, "pages", part)):
            for name in names:
                path = os.path.join(folder, name)
                wheel.add_data(f"data/share/{os.path.relpath(path, os.path.join(build, 'pages', part))}", path)
    print(f"wheel: {len(libraries)} libraries of {len(packages)} packages: {', '.join(sorted(packages))}")
    return wheel


def plugin_wheel(build, version, scratch):
    plugin = stripped(os.path.join(build, "bin", PLUGIN), scratch)
    # The worker that loads it has loaded them from its own wheel.
    worker = os.path.join(build, "bin", "tutti-worker")
    if lacking := set(libraries_of([plugin])) - set(libraries_of([worker])):
        raise SystemExit(f"wheel: {PLUGIN} needs {', '.join(sorted(lacking))}, which tutti-server's wheel would lack")
    wheel = Wheel("tutti_server_cuda", version, tag_of([plugin]), [f"tutti-server=={version}"])
    wheel.add_data(f"data/lib/tutti/{PLUGIN}", plugin)
    wheel.add_license("LICENSE", os.path.join(SOURCE, "LICENSE"))
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    version = version_of(arguments.build)
    os.makedirs(arguments.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tutti-wheel-") as scratch:
        programs_wheel(arguments.build, version, scratch).write(arguments.out)
        if os.path.exists(os.path.join(arguments.build, "bin", PLUGIN)):
            plugin_wheel(arguments.build, version, scratch).write(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
