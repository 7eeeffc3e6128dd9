"""Builds the package of pyproject.toml, with the descriptors of the API made from this checkout's .proto file."""
import importlib.util
import os

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    """A module of the package, without the package, whose other modules need gRPC."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, "tutti", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildWithDescriptors(build_py):
    def run(self):
        super().run()
        if not getattr(self, "editable_mode", False):
            descriptors = load("_descriptors")
            with open(os.path.join(self.build_lib, "tutti", descriptors.FILE), "wb") as file:
                file.write(descriptors.compile_proto())


setup(cmdclass={"build_py": BuildWithDescriptors})
