"""Message classes of the API, in a pool of their own: a program may have other copies of them."""
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from . import _descriptors

GENERATE = "/tutti.v1.Inference/Generate"
DETOKENIZE = "/tutti.v1.Inference/Detokenize"


def _classes() -> dict[str, Any]:
    files = descriptor_pb2.FileDescriptorSet.FromString(_descriptors.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    # protobuf 3.21 has the first only, later versions the second only.
    make: Any = getattr(message_factory, "GetMessageClass", None)
    if make is None:
        make = getattr(message_factory.MessageFactory(pool), "GetPrototype")
    return {name: make(pool.FindMessageTypeByName(f"tutti.v1.{name}"))
            for name in ("GenerateRequest", "GenerateResponse", "DetokenizeRequest", "DetokenizeResponse")}


_ALL = _classes()
GenerateRequest: Any = _ALL["GenerateRequest"]
GenerateResponse: Any = _ALL["GenerateResponse"]
DetokenizeRequest: Any = _ALL["DetokenizeRequest"]
DetokenizeResponse: Any = _ALL["DetokenizeResponse"]
