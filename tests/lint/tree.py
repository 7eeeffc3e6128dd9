"""The files of a tree, read once and shared by all rules."""
import os
import subprocess

from cpp_outline import Outline
from cpp_scan import Source

CPP = (".h", ".cc", ".cu")
# Folders of generated things in a tree without git; git's own ignore rules serve otherwise.
GENERATED = {"build", ".cache", "__pycache__", ".git"}


class Problem:
    """One finding: where, and what is wrong there."""

    def __init__(self, path, line, text):
        self.path, self.line, self.text = path, line, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class Tree:
    """All files under `root` that git does not ignore."""

    def __init__(self, root):
        self.root = os.path.abspath(root)
        self.files = sorted(self._tracked() or self._walked())
        self.file_set = set(self.files)
        self.folders = {folder for path in self.files for folder in _folders_of(path)}
        self._texts, self._sources, self._outlines = {}, {}, {}
        self._scripts = None

    def text(self, path):
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def source(self, path):
        """The scanned form of a C++ or CUDA file."""
        if path not in self._sources:
            self._sources[path] = Source(self.text(path))
        return self._sources[path]

    def outline(self, path):
        """The namespaces and definitions of a C++ or CUDA file."""
        if path not in self._outlines:
            self._outlines[path] = Outline(self.source(path))
        return self._outlines[path]

    def with_suffix(self, *suffixes):
        return [path for path in self.files if path.endswith(suffixes)]

    def cpp_files(self):
        return self.with_suffix(*CPP)

    def cmake_files(self):
        return self.with_suffix(".cmake", "CMakeLists.txt")

    def scripts(self):
        """Files without a suffix that begin with `#!`."""
        if self._scripts is None:
            self._scripts = [path for path in self.files if "." not in os.path.basename(path)
                             and self._begins_with_interpreter(path)]
        return self._scripts

    def is_python(self, path):
        return path.endswith(".py") or (path in self.scripts()
                                        and "python" in self.text(path).split("\n", 1)[0])

    def _tracked(self):
        """What git knows or does not ignore; nothing when `root` is not the top of a work tree."""
        if not os.path.exists(os.path.join(self.root, ".git")):
            return []
        out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                             text=True, capture_output=True, check=True)
        return [path for path in set(out.stdout.splitlines())
                if os.path.isfile(os.path.join(self.root, path))]

    def _walked(self):
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in GENERATED]
            relative = os.path.relpath(folder, self.root)
            found += [os.path.normpath(os.path.join(relative, name)) for name in names]
        return found

    def _begins_with_interpreter(self, path):
        with open(os.path.join(self.root, path), "rb") as file:
            return file.read(2) == b"#!"


def _folders_of(path):
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
