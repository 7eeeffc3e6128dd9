"""Message classes of the protocol, made by protoc when a run starts: no generated file is kept, none is stale."""
import os
import subprocess
import sys
import tempfile
import types

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GENERATE = "/tutti.v1.Inference/Generate"
STATUS = "/tutti.v1.Admin/GetStatus"


def proto_folder(binaries):
    """Of the tree that the binaries were built in, where that is known: another branch may know more fields."""
    theirs = os.path.abspath(os.path.join(binaries, "..", "..", "..", "proto"))
    return theirs if os.path.isdir(theirs) else os.path.join(SOURCE, "proto")


def load(folder=os.path.join(SOURCE, "proto")):
    """Namespace of the modules `generation` and `cluster`. Once in a process: protobuf knows a message's name once."""
    with tempfile.TemporaryDirectory(prefix="tutti-stubs-") as made:
        subprocess.run(["protoc", f"--proto_path={folder}", f"--python_out={made}",
                        *[f"tutti/v1/{name}.proto" for name in ("numerics", "grammar", "speculation", "generation", "gpu", "layout", "cluster")
                          if os.path.exists(os.path.join(folder, "tutti", "v1", f"{name}.proto"))]], check=True)
        sys.path.insert(0, made)
        # The client package has the name that generated modules lie below, and packages go before folders without this.
        for folder in ("tutti", os.path.join("tutti", "v1")):
            open(os.path.join(made, folder, "__init__.py"), "w", encoding="utf-8").close()
        package = sys.modules.pop("tutti", None)
        try:
            from tutti.v1 import cluster_pb2, generation_pb2
        finally:
            sys.path.remove(made)
            sys.modules.pop("tutti", None)
            if package:
                sys.modules["tutti"] = package
    return types.SimpleNamespace(generation=generation_pb2, cluster=cluster_pb2)


def has_field(message, name):
    """Whether the protocol knows a field; harness and programs may be of different builds."""
    return name in message.DESCRIPTOR.fields_by_name
