"""What protobuf must know of the API: descriptors, made by protoc when the package is built.

Descriptors, not generated code: any version of protobuf reads those of any version of protoc.
"""
import os
import shutil
import subprocess
import sys
import tempfile

FILE = "generation.binpb"
_HERE = os.path.dirname(os.path.abspath(__file__))
_CHECKOUT = os.path.abspath(os.path.join(_HERE, "..", "..", ".."))
_PROTO = os.path.join("tutti", "v1", "generation.proto")


def read() -> bytes:
    """A serialized FileDescriptorSet: of the installed package, or made anew where it runs from a checkout."""
    path = os.path.join(_HERE, FILE)
    if os.path.exists(path):
        with open(path, "rb") as file:
            return file.read()
    return compile_proto()


def compile_proto() -> bytes:
    """The descriptors of the checkout that this file is in."""
    folder = os.path.join(_CHECKOUT, "proto")
    if not os.path.exists(os.path.join(folder, _PROTO)):
        raise RuntimeError(f"no {_PROTO} in {folder}: build the package in a checkout of Tutti")
    with tempfile.TemporaryDirectory(prefix="tutti-descriptors-") as made:
        target = os.path.join(made, FILE)
        done = subprocess.run([*_protoc(), f"--proto_path={folder}", f"--descriptor_set_out={target}",
                               "--include_imports", os.path.join(folder, _PROTO)], text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"protoc cannot read {_PROTO}: {done.stderr}")
        with open(target, "rb") as file:
            return file.read()


def _protoc() -> list[str]:
    found = shutil.which("protoc")
    if found:
        return [found]
    try:
        import grpc_tools  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        raise RuntimeError("needs protoc: install Debian's protobuf-compiler (tools/setup does) or the Python "
                           "package grpcio-tools") from None
    return [sys.executable, "-m", "grpc_tools.protoc"]
