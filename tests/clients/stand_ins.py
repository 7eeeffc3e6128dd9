"""Modules of vLLM, and of what it needs, that are not installed: their classes say nothing, but for those in NAMES."""
import importlib.abc
import importlib.machinery
import sys
import types
import typing

STAND_INS = ("vllm", "transformers", "xgrammar", "torch", "tests.utils")
NAMES = {}


class Nothing(type):
    """Where a list of settings is looked for, none."""

    def __radd__(cls, other):
        return other

    def __iter__(cls):
        return iter(())


class StandIn(types.ModuleType):
    __path__: typing.ClassVar[list] = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return NAMES.get(name) or NAMES.setdefault(
            name, type(name, (Exception,), {}) if name.endswith("Error") else Nothing(name, (), {}))


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return (importlib.machinery.ModuleSpec(name, self, is_package=True)
                if name.split(".")[0] in STAND_INS or name in STAND_INS else None)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
